"""From traces of sequential evaluation to curves and totals (SPEC 2, 6).

Owns what the sequential metrics are. Everything travels as (sum, count) in float64, adds up
over streams, and is divided once; a curve has one pair for each tenth of a stream.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from tarl_jax.evaluation.sequential import Trace

TENTHS = 10
# By tenth of the stream; each step counts once.
CURVES = {
  "state_accuracy": "steps after which the state is gold's",
  "misplaced": "share of the claims so far that are in the wrong place, status or link",
  "pollution": "share of Accepted that gold does not hold there",
  "contradictions": "claims in Accepted that gold has superseded or rejected",
  "target_visibility": "share of gold's live targets that were in sight",
  "wrong_decisions": "share of the claims, or what they settle, that did not go where gold's did",
}
# Over whole streams.
TOTALS = {
  "final_state": "streams that end in gold's state",
  "final_misplaced": "share of all claims in the wrong place at the end",
  "final_pollution": "share of the last Accepted that gold does not hold there",
  "wrong_before": "wrong decisions while every state so far was gold's",
  "wrong_after": "wrong decisions after the first wrong state",
  "recovered": "times that a state gone wrong came right again",
  "recovery_steps": "steps that it took, where it did",
  "inexact": "steps at which a claim beyond the neighbours might have been in sight",
  "refused": "transactions that were refused",
  "evicted": "rows that left History, a step",
}


class Sums(NamedTuple):
  """(sum, count) of each metric, float64; adds up with `merge`."""

  curves: dict[str, np.ndarray]  # [2, 10]
  totals: dict[str, np.ndarray]  # [2]


@dataclasses.dataclass(frozen=True)
class Recovery:
  """Times that the state went wrong: how many, how many came right, after how many steps."""

  episodes: int
  recovered: int
  steps: int


def recovery(wrong: np.ndarray) -> Recovery:
  """Runs of wrong states; one that the stream ends in did not recover. `wrong` is bool [T]."""
  edges = np.diff(np.concatenate([[False], wrong, [False]]).astype(np.int8))
  starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
  lengths = (ends - starts)[ends < len(wrong)]
  return Recovery(len(starts), len(lengths), int(lengths.sum()))


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
  return part / np.maximum(whole, 1)


def _by_tenth(values: np.ndarray, counted: np.ndarray) -> np.ndarray:
  """(sum, count) by tenth of the stream, float64 [2, 10]; `counted` is bool [T]."""
  tenth = np.arange(len(values)) * TENTHS // len(values)
  found = np.zeros((2, TENTHS))
  np.add.at(found[0], tenth[counted], np.asarray(values, np.float64)[counted])
  np.add.at(found[1], tenth[counted], 1.0)
  return found


def sums_of(trace: Trace) -> Sums:
  """All metrics of one stream.

  Args:
    trace: NumPy leaves [T] with T >= 1.
  """
  number = len(trace.misplaced)
  every = np.ones(number, bool)
  wrong = trace.misplaced > 0
  earlier = np.concatenate([[False], np.logical_or.accumulate(wrong)[:-1]])
  healed = recovery(wrong)

  def total(flags: np.ndarray, counted: np.ndarray = every) -> np.ndarray:
    return np.array([np.sum(flags[counted]), np.sum(counted)], np.float64)

  curves = {
    "state_accuracy": _by_tenth(~wrong, every),
    "misplaced": _by_tenth(trace.misplaced / np.arange(1, number + 1), every),
    "pollution": _by_tenth(_share(trace.polluted, trace.accepted), trace.accepted > 0),
    "contradictions": _by_tenth(trace.contradictions, every),
    "target_visibility": _by_tenth(trace.target_seen, trace.has_target),
    "wrong_decisions": _by_tenth(trace.decision_wrong, every),
  }
  totals = {
    "final_state": np.array([not wrong[-1], 1.0]),
    "final_misplaced": np.array([trace.misplaced[-1], number], np.float64),
    "final_pollution": np.array([trace.polluted[-1], trace.accepted[-1]], np.float64),
    "wrong_before": total(trace.decision_wrong, ~earlier),
    "wrong_after": total(trace.decision_wrong, earlier),
    "recovered": np.array([healed.recovered, healed.episodes], np.float64),
    "recovery_steps": np.array([healed.steps, healed.recovered], np.float64),
    "inexact": total(~trace.exact),
    "refused": total(trace.refused),
    "evicted": total(trace.evicted),
  }
  return Sums(curves, totals)


def merge(sums: Iterable[Sums]) -> Sums:
  """The sums over several streams, batches or runs; at least one."""
  every = list(sums)
  return Sums(
    {name: np.sum([one.curves[name] for one in every], axis=0) for name in CURVES},
    {name: np.sum([one.totals[name] for one in every], axis=0) for name in TOTALS},
  )


def mean(pair: np.ndarray) -> np.ndarray:
  """Sum by count of [2, ...]; NaN where nothing was counted."""
  return np.where(pair[1] > 0, pair[0] / np.maximum(pair[1], 1e-12), np.nan)


def format_sums(methods: Mapping[str, Sums]) -> str:
  """The curves and totals of several methods as Markdown, with loud words where due."""
  lines = []
  for name, meaning in CURVES.items():
    lines += [f"\n{name}: {meaning}\n"]
    lines += ["| method | " + " | ".join(f"{tenth}/10" for tenth in range(1, TENTHS + 1)) + " |"]
    lines += ["|---" * (TENTHS + 1) + "|"]
    lines += [_line(method, mean(sums.curves[name])) for method, sums in methods.items()]
  lines += ["\nover whole streams\n", "| method | " + " | ".join(TOTALS) + " |"]
  lines += ["|---" * (len(TOTALS) + 1) + "|"]
  for method, sums in methods.items():
    lines.append(_line(method, np.array([mean(sums.totals[name]) for name in TOTALS])))
  return "\n".join(lines + [line for item in methods.items() for line in _warnings(*item)])


def _line(method: str, values: np.ndarray) -> str:
  cells = ["–" if np.isnan(value) else f"{value:.3f}" for value in values]
  return f"| {method} | " + " | ".join(cells) + " |"


def _warnings(method: str, sums: Sums) -> list[str]:
  """What a reader must not overlook."""
  said = {
    "inexact": "steps did not see for certain the nearest entries; raise the table's width",
    "refused": "transactions were refused by the executor; they changed nothing",
    "evicted": "rows left a full History and count as nowhere; raise config.data.capacities",
  }
  numbers = {name: int(sums.totals[name][0]) for name in said}
  return [f"\n{method}: {numbers[name]} {said[name]}." for name in said if numbers[name]]
