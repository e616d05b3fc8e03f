"""What is told of each experiment: named figures by seed, beside the paper's where it has one.

Owns the names and the paper's numbers (SPEC 7). Knows neither how the numbers come about nor
how they are printed.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tarl_jax.experiments.config import PairConfig
from tarl_jax.experiments.hitchhiker import ANCHOR, HITCHHIKER, PairResult
from tarl_jax.experiments.known_utility import WEIGHTINGS, KnownResult
from tarl_jax.experiments.mixed_tasks import MixedResult
from tarl_jax.experiments.retrieval import THRESHOLD, TRACKED, RetrievalResults
from tarl_jax.experiments.steering import POLICIES, REGIMES, SteeredResult
from tarl_jax.experiments.studies import Line

KNOWN = "1 known utility, random retrieval"
MIXED = "2 easy and hard tasks"
STEERED = "3 retrieval steered by worth"
PAIR = "4 anchor and hitchhiker"
TEXTS = "5 real texts"

_PAPER_APART = {0.0: 0.0, 0.3: 1.0}  # by share of independent episodes


class Figure(NamedTuple):
  """One number a seed."""

  experiment: str
  quantity: str
  values: np.ndarray  # float [S]; NaN where a seed has none
  paper: float | None = None


def known_figures(result: KnownResult) -> Iterator[Figure]:
  """Experiment 1, from arrays with a leading S."""
  final = np.asarray(result.rho)[:, -1]
  for column, name in enumerate(WEIGHTINGS):
    yield Figure(KNOWN, f"rho, {name} weights", final[:, column], 0.89)
  for column, name in enumerate(WEIGHTINGS[1:], 1):
    yield Figure(KNOWN, f"rho, {name} minus {WEIGHTINGS[0]}", final[:, column] - final[:, 0])
  yield Figure(KNOWN, "rho, never updated", np.asarray(result.frozen), 0.0)
  yield Figure(KNOWN, "rho, score fixed at writing", np.asarray(result.written))


def mixed_figures(result: MixedResult) -> Iterator[Figure]:
  """Experiment 2, from arrays with a leading S."""
  yield Figure(MIXED, "rho, all tasks", np.asarray(result.rho_all)[:, -1], -0.33)
  yield Figure(MIXED, "rho, hard tasks only", np.asarray(result.rho_hard)[:, -1], 0.14)


def steered_figures(result: SteeredResult) -> Iterator[Figure]:
  """Experiment 3, from arrays with a leading S; the paper says "no collapse" without a number."""
  measures = {
    "success in the end": result.success,
    "memories in use in the end": result.in_use,
    "entropy of retrieval in the end": result.entropy,
    "rho": result.rho,
  }
  for row, regime in enumerate(REGIMES):
    for column, policy in enumerate(POLICIES):
      for name, values in measures.items():
        yield Figure(STEERED, f"{regime}, {policy}: {name}", np.asarray(values)[:, row, column])


def pair_figures(result: PairResult, settings: PairConfig) -> Iterator[Figure]:
  """Experiment 4, from arrays with a leading S."""
  worth, apart = np.asarray(result.worth), np.asarray(result.apart, np.float64)
  for place, share in enumerate(settings.independent):
    name = f"{share:.0%} independent"
    yield Figure(PAIR, f"seeds apart, {name}", apart[:, place], _PAPER_APART.get(share))
    gap = worth[:, place, ANCHOR] - worth[:, place, HITCHHIKER]
    yield Figure(PAIR, f"gap in worth, {name}", gap)


def text_figures(result: RetrievalResults) -> Iterator[Figure]:
  """Experiment 5."""
  yield Figure(TEXTS, "stale, before the change", result.before, 0.97)
  name = f"stale, episodes from the change to under {THRESHOLD:.2f}"
  yield Figure(TEXTS, name, result.crossing, 300.0)
  for column, (name, paper) in enumerate(zip(TRACKED, (0.17, 0.77, 0.77), strict=True)):
    yield Figure(TEXTS, f"{name}, in the end", result.final[:, column], paper)


def study_figures(lines: list[Line]) -> Iterator[Figure]:
  """The studies beyond the paper."""
  for line in lines:
    yield Figure(f"study: {line.study}", f"{line.condition}: {line.measure}", line.values)
