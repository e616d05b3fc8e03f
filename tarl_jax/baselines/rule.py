"""The hand rule: similarity, value match, authority and time, without learning.

It is the decision table of DATA.md over exact signals, with two thresholds fitted on the
validation split. Knows the names of the signals and nothing of the policy.
"""

from collections.abc import Callable

import numpy as np

from tarl_jax import metrics
from tarl_jax.baselines.signals import (
  Thresholds,
  any_of,
  nearest,
  nothing_to_keep,
  owners_differ,
  pending_similarity,
  pick,
  rule_predictions,
  says_same,
)
from tarl_jax.data.examples import SOURCE_SIGNALS, TIME_SIGNALS
from tarl_jax.data.label_table import CLEARLY_LESS, TRUSTED
from tarl_jax.data.lexical import CLAIM_SIGNALS
from tarl_jax.evaluation.judging import Predictions
from tarl_jax.inputs import Labels, PolicyInputs
from tarl_jax.types import Action, Status


def decide_by_rule(inputs: PolicyInputs, thresholds: Thresholds) -> Predictions:
  """Action and target of every example, and the Pending entry that an append or revise says
  again and so confirms. Inputs and result have a leading [E]."""
  num_visible = inputs.entries.shape[1]
  entry = nearest(inputs, thresholds)
  action = _conflict_action(inputs, entry.time, entry.position)
  action = np.where(entry.same, Action.NOOP, action)
  trusted = _trusted(inputs)
  action = np.where(entry.related, action, np.where(trusted, Action.APPEND, Action.DEFER_VERIFY))
  claims = np.asarray(inputs.claim_signals)
  past = any_of(claims, CLAIM_SIGNALS, ("past",)) & ~entry.same & trusted
  action = np.where(past, Action.APPEND, action)
  empty = nothing_to_keep(inputs)
  action = np.where(empty, Action.NOOP, action)
  waiting = np.where(owners_differ(inputs), -1.0, pending_similarity(inputs))
  confirmed = says_same(np.asarray(inputs.pair_signals), waiting, thresholds)
  settles = confirmed.any(1) & ((action == Action.APPEND) | (action == Action.REVISE))
  twin = np.where(confirmed, waiting, -1.0).argmax(1)
  return rule_predictions(inputs, action, entry.position, entry.related & ~empty)._replace(
    resolves=np.where(settles, twin, num_visible).astype(np.int32),
    outcome=np.where(settles, Status.SUPERSEDED, Status.EMPTY).astype(np.int32),
  )


def _trusted(inputs: PolicyInputs) -> np.ndarray:
  hedged = any_of(np.asarray(inputs.claim_signals), CLAIM_SIGNALS, ("hedge", "hearsay"))
  return (pick(np.asarray(inputs.source), SOURCE_SIGNALS, "reliability") > TRUSTED) & ~hedged


def _conflict_action(inputs: PolicyInputs, time: np.ndarray, best: np.ndarray) -> np.ndarray:
  """What to do with another value for the entry in `best`: the lower half of the table."""
  rows = np.arange(len(best))
  old = pick(np.asarray(inputs.entry_source)[rows, best], SOURCE_SIGNALS, "reliability")
  new = pick(np.asarray(inputs.source), SOURCE_SIGNALS, "reliability")
  newer = pick(time, TIME_SIGNALS, "newer") > 0.5
  older = any_of(time, TIME_SIGNALS, ("older", "candidate_is_over"))
  action = np.where(_trusted(inputs) & newer, Action.REVISE, Action.DEFER_VERIFY)
  return np.where(older | (old - new > CLEARLY_LESS), Action.REJECT_CONFLICT, action)


def fit_thresholds(inputs: PolicyInputs, labels: Labels) -> Thresholds:
  """The pair of thresholds with which the hand rule has the best Macro F1 on the examples."""
  return best_thresholds(labels.action, lambda pair: decide_by_rule(inputs, pair).action)


def best_thresholds(gold: np.ndarray, decide_fn: Callable[[Thresholds], np.ndarray]) -> Thresholds:
  """The pair of a fixed grid with the best Macro F1; the first of equals.

  Args:
    gold: int32 [E], actions.
    decide_fn: thresholds -> predicted actions, int32 [E].
  """
  weight = np.ones(len(gold), np.float32)

  def score(thresholds: Thresholds) -> float:
    return metrics.macro_f1(np.asarray(metrics.confusion(gold, decide_fn(thresholds), weight)))

  grid = np.arange(0.2, 0.96, 0.05)
  candidates = [Thresholds(float(a), float(b)) for a in grid for b in grid if b >= a]
  return max(candidates, key=score)
