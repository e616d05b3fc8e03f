"""What dearer pollution buys and costs: decoding by cost, setting by setting, as a curve.

Owns the evaluation of a trained policy under several `decoding.Costs` and the plot. Knows
nothing of training; a setting is chosen on validation and reported on test.
"""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from tarl_jax.data.dataset import Split
from tarl_jax.data.moments import Capacities
from tarl_jax.decoding import Costs, decode
from tarl_jax.evaluation.judging import Predictions, judge_split
from tarl_jax.evaluation.scores import score, summarize
from tarl_jax.models.policy import PolicyOutput, decide

# Pollution from free to so dear that Macro F1 begins to fall.
SETTINGS = tuple(Costs(pollution=dear) for dear in (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0))


class Run(NamedTuple):
  """One trained policy on a split."""

  output: PolicyOutput  # leading axis [E]
  temperature: float


class Point(NamedTuple):
  """One setting and what came of it."""

  costs: Costs | None  # None: the most probable action (`policy.decide`)
  scores: dict[str, dict[str, float]]  # {metric: {mean, sd, n}} over the runs


_DECIDE = jax.jit(jax.vmap(decide, in_axes=(0, 0, None)))
_DECODE = jax.jit(jax.vmap(decode, in_axes=(0, 0, None, None)))


def choose(run: Run, num_accepted: Any, costs: Costs | None) -> Predictions:
  """The transaction of every example under the costs; leading axis [E].

  Args:
    run: what the policy says.
    num_accepted: int32 [E], Accepted entries in sight.
    costs: None for the most probable action.
  """
  temperature = jnp.float32(run.temperature)
  if costs is None:
    decision = _DECIDE(run.output, num_accepted, temperature)
  else:
    decision = _DECODE(run.output, num_accepted, temperature, costs)
  decision = jax.device_get(decision)
  return Predictions(
    action=decision.action,
    position=decision.position,
    grounded=np.asarray(run.output.log_alpha).argmax(-1),
    probabilities=decision.probabilities,
    resolves=decision.resolves,
    outcome=decision.outcome,
  )


def decoding_curve(
  split: Split,
  runs: Sequence[Run],
  capacities: Capacities,
  settings: Sequence[Costs] = SETTINGS,
) -> list[Point]:
  """The most probable action first, then every setting, over the examples of the split."""
  points = []
  for costs in (None, *settings):
    chosen = [choose(run, split.inputs.num_accepted, costs) for run in runs]
    scored = [
      score(split, one, judge_split(split, one, capacities), split.counts) for one in chosen
    ]
    points.append(Point(costs, summarize(scored)))
  return points


def draw_curve(path: pathlib.Path, curves: Mapping[str, Sequence[Point]]) -> None:
  """Saves a PNG: pollution against next-state accuracy and against conflict preservation.

  Args:
    path: of the image.
    curves: by name (a split, say); numbers at the points are costs of pollution.
  """
  figure, panels = plt.subplots(1, 2, figsize=(9.5, 4))
  metrics = (
    ("next_state", "next-state accuracy"),
    ("conflict_preservation", "conflicts preserved"),
  )
  for axes, (metric, label) in zip(panels, metrics):
    for name, points in curves.items():
      _draw_line(axes, name, points, metric)
    axes.locator_params(axis="x", nbins=6)
    axes.set_xlabel("memory pollution")
    axes.set_ylabel(label)
    axes.legend()
  figure.suptitle("Decoding by cost; hollow: the most probable action")
  figure.tight_layout()
  figure.savefig(path, dpi=120)
  plt.close(figure)


def _draw_line(axes: plt.Axes, name: str, points: Sequence[Point], metric: str) -> None:
  def place(point: Point) -> tuple[float, float]:
    return point.scores["pollution"]["mean"], point.scores[metric]["mean"]

  (line,) = axes.plot(*zip(*[place(p) for p in points if p.costs]), marker="o", label=name)
  for point in points:
    if point.costs is None:
      axes.plot(*place(point), marker="o", markersize=9, fillstyle="none", color=line.get_color())
    else:
      axes.annotate(f"{point.costs.pollution:g}", place(point), fontsize=7)
