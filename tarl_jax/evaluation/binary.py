"""Binary analysis (SPEC 6): how far the gold Write/Hold bit alone can carry an executor.

Owns the rows of the table and the exact bound; `docs/binary.md` has the argument. The bit is
write for append and revise, hold for the other three. An executor is any rule from the bit,
and from whatever else it observes but the five-way label, to a transaction.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from tarl_jax.baselines.signals import Thresholds, similarity
from tarl_jax.baselines.simple import is_write, write_hold_heuristic, write_hold_plain
from tarl_jax.data.dataset import Split
from tarl_jax.data.moments import Capacities
from tarl_jax.evaluation.judging import Predictions, judge_split
from tarl_jax.evaluation.scores import score, summarize
from tarl_jax.inputs import Labels
from tarl_jax.types import NUM_ACTIONS

Table = dict[str, dict[str, dict[str, float]]]

COLUMNS = ("next_state", "conflict_preservation", "bound")


def best_share(right: np.ndarray, weight: np.ndarray, cells: np.ndarray) -> float:
  """The largest share that any rule from cells to options can get right.

  A rule takes one option in each cell, so it gets at most the heaviest one there; the rule
  that takes it everywhere gets just that. NaN without any weight.

  Args:
    right: bool [E, O], whether option o is right for example e.
    weight: float [E].
    cells: int [E], what the rule sees of the example.
  """
  mass = _mass(right, weight, cells)[0]
  total = float(np.sum(weight))
  return float(mass.max(1).sum() / total) if total > 0 else float("nan")


def bound(labels: Labels, weight: np.ndarray, cells: np.ndarray | None = None) -> float:
  """The best next-state accuracy of any executor of the gold Write/Hold bit; exact.

  Without cells, of executors whose action depends on the bit alone: it is
  max(p[append], p[revise]) + max(p[noop], p[reject_conflict], p[defer_verify]). It holds even
  where the executor is told the right target and what to settle, and is then attained.
  NaN without any weight.

  Args:
    labels: leading axis [E]; the actions alone are read. Gold must be executable, as it is in
      every `Split`: what is refused has the next state of a noop.
    weight: float [E], 0 for what does not count.
    cells: int [E], what else the executor observes, as one number for each case that it can
      tell apart; None for nothing.
  """
  gold = np.asarray(labels.action)
  right = np.arange(NUM_ACTIONS) == gold[:, None]
  return best_share(right, np.asarray(weight, np.float64), _with_bit(gold, cells))


def best_executor(
  labels: Labels, weight: np.ndarray, cells: np.ndarray | None = None
) -> Predictions:
  """The executor that attains `bound`: one action a cell, and the gold target and settling.

  Arguments as in `bound`.
  """
  gold = np.asarray(labels.action)
  right = np.arange(NUM_ACTIONS) == gold[:, None]
  mass, index = _mass(right, np.asarray(weight, np.float64), _with_bit(gold, cells))
  return oracle(labels)._replace(action=mass.argmax(1)[index].astype(np.int32))


def oracle(labels: Labels) -> Predictions:
  """The gold transactions, as far as their targets are in sight."""
  return Predictions(
    action=np.asarray(labels.action),
    position=np.asarray(labels.target),
    grounded=np.asarray(labels.target),
    probabilities=None,
    resolves=np.asarray(labels.resolves),
    outcome=np.asarray(labels.outcome),
  )


def _mass(
  right: np.ndarray, weight: np.ndarray, cells: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """(weight of each option by cell, float64 [C, O]; row of each example, int [E])."""
  names, index = np.unique(cells, return_inverse=True)
  mass = np.zeros((len(names), right.shape[1]))
  np.add.at(mass, index, right * weight[:, None])
  return mass, index


def _with_bit(gold: np.ndarray, cells: np.ndarray | None) -> np.ndarray:
  """int [E]: the cells, each cut in two by the bit."""
  return is_write(gold) + 2 * (0 if cells is None else np.asarray(cells))


def binary_table(
  split: Split, policy: Sequence[Predictions], thresholds: Thresholds, capacities: Capacities
) -> Table:
  """The rows of the binary analysis over the examples of a split (SPEC 6).

  Args:
    split: gold streams and their examples.
    policy: predictions of the policy, one entry a seed.
    thresholds: of the heuristic executor, fitted on another split.
    capacities: of the ledgers.

  Returns:
    {row: {metric: {mean, sd, n}}}; "bound" beside the metrics of `scores.score`, NaN in the rows
    that have none.
  """
  inputs, labels, weight = split.inputs, split.labels, split.counts.astype(np.float64)
  no_bound = float("nan")
  rows = {
    "gold write/hold, plain": ([write_hold_plain(inputs, labels)], no_bound),
    "gold write/hold, heuristic": ([write_hold_heuristic(inputs, labels, thresholds)], no_bound),
  }
  for name, cells in observations(split, thresholds).items():
    rows[name] = ([best_executor(labels, weight, cells)], bound(labels, weight, cells))
  rows |= {"policy": (list(policy), no_bound), "five-way oracle": ([oracle(labels)], no_bound)}
  table: Table = {}
  for name, (runs, ceiling) in rows.items():
    scored = [
      score(split, run, judge_split(split, run, capacities), split.counts) | {"bound": ceiling}
      for run in runs
    ]
    table[name] = summarize(scored)
  return table


def observations(split: Split, thresholds: Thresholds) -> dict[str, np.ndarray | None]:
  """Cells of the best executors: nothing but the bit; what the heuristic executor looks at,
  too; and whether gold has an Accepted target in sight, which no executor is told."""
  nearest = similarity(split.inputs).max(1)
  target, num_accepted = np.asarray(split.labels.target), np.asarray(split.inputs.num_accepted)
  return {
    "best executor: bit": None,
    "best executor: bit, similarity": np.digitize(nearest, thresholds),
    "best executor: bit, whether it has a target": target < num_accepted,
  }


def format_binary(table: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
  """The table that a person reads, in Markdown; mean ± sd where there are several seeds."""
  lines = ["| method | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
  for name, values in table.items():
    lines.append(f"| {name} | " + " | ".join(_cell(values[column]) for column in COLUMNS) + " |")
  return "\n".join(lines)


def _cell(value: Mapping[str, float]) -> str:
  if not np.isfinite(value["mean"]):
    return "–"
  return f"{value['mean']:.4f}" + (f" ± {value['sd']:.4f}" if value["n"] > 1 else "")
