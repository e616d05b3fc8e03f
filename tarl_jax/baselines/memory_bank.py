"""MemoryBank: memories fade with time and are strengthened by being recalled.

Source: "MemoryBank: Enhancing Large Language Models with Long-Term Memory" (Zhong, Guo, Gao,
Ye, Wang; AAAI 2024, arXiv 2305.10250). Retention follows the curve of Ebbinghaus,
R = exp(-t / S), with t the time since a memory was last recalled and S its strength: 1 when it
is new, one more at each recall, which also sets t to zero.
"""

import math
from collections.abc import Sequence

import numpy as np

from tarl_jax.baselines.signals import Thresholds, closeness, nearest, rule_predictions
from tarl_jax.baselines.views import Seen, show
from tarl_jax.data.moments import Moment
from tarl_jax.evaluation.judging import Predictions
from tarl_jax.inputs import PolicyInputs
from tarl_jax.types import Action

_MINUTES = 30 * 1440  # t counts months: the unit is our choice, as are the next two
_KEPT = 0.5  # retention from which a memory is more likely kept than lost
_RECALLED = 3  # entries that a candidate recalls


def decide(inputs: PolicyInputs, kept: np.ndarray, thresholds: Thresholds) -> Predictions:
  """Append, noop or revise: nothing is changed but by forgetting.

  A claim that says what a memory says recalls it (noop). Another value is stored beside a
  memory that is still kept (append) and stands in place of one that has faded (revise), since
  that one would be gone; `kept` comes from `still_kept`. Left out: summaries of a day and the
  portrait of the user, and that forgetting is drawn by chance: here a memory goes when it is
  more likely lost than kept.
  """
  entry = nearest(inputs, thresholds)
  faded = entry.related & ~kept[np.arange(len(kept)), entry.position]
  action = np.where(faded, Action.REVISE, Action.APPEND)
  action = np.where(entry.same, Action.NOOP, action)
  return rule_predictions(inputs, action, entry.position, entry.related)


def view(inputs: PolicyInputs, moments: Sequence[Moment]) -> Seen:
  """The entries that are still kept; they keep the mark of their ledger."""
  return show(inputs, still_kept(inputs, moments))


def still_kept(inputs: PolicyInputs, moments: Sequence[Moment]) -> np.ndarray:
  """bool [E, V]: the entry is more likely kept than lost when the candidate arrives."""
  return retentions(inputs, moments) >= _KEPT


def retention(minutes: float, strength: int) -> float:
  """exp(-t / S) after so many minutes; 1 for a time that is not positive."""
  return math.exp(-max(minutes, 0.0) / (_MINUTES * strength))


def retentions(inputs: PolicyInputs, moments: Sequence[Moment]) -> np.ndarray:
  """Retention of each entry when the candidate arrives, float64 [E, V]; 0 without an entry.

  Each moment then recalls the entries nearest to its candidate among those still kept, for
  the moments of the same stream that follow. An unknown time lets nothing fade.

  Args:
    inputs: leading [E].
    moments: in the order of their streams, as `stream_moments` gives them.
  """
  found = np.zeros(inputs.entries.shape[:2])
  close = closeness(inputs)
  memory: dict[str, tuple[int | None, int]] = {}  # claim id -> last recalled at, strength
  stream = None
  for e, moment in enumerate(moments):
    if moment.stream != stream or moment.stream < 0:
      memory, stream = {}, moment.stream
    now = moment.candidate.observed_at
    for v, entry in enumerate(moment.entries):
      last, strength = memory.setdefault(entry.id, (entry.observed_at, 1))
      passed = 0 if now is None or last is None else now - last
      found[e, v] = retention(passed, strength)
    order = np.argsort(-close[e, : len(moment.entries)], kind="stable")
    for v in [v for v in order if found[e, v] >= _KEPT][:_RECALLED]:
      last, strength = memory[moment.entries[v].id]
      memory[moment.entries[v].id] = (last if now is None else now, strength + 1)
  return found
