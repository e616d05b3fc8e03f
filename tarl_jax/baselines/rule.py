"""The hand rule: similarity, value match, authority and time, without learning.

It is the decision table of DATA.md over exact signals, with two thresholds fitted on the
validation split. Knows the names of the signals and nothing of the policy.
"""

from typing import NamedTuple

import numpy as np

from tarl_jax import metrics
from tarl_jax.data.examples import PAIR_SOURCE_SIGNALS, SOURCE_SIGNALS, TIME_SIGNALS
from tarl_jax.data.label_table import CLEARLY_LESS, TRUSTED
from tarl_jax.data.lexical import CLAIM_SIGNALS, PAIR_SIGNALS
from tarl_jax.evaluation.judging import Predictions
from tarl_jax.inputs import Labels, PolicyInputs
from tarl_jax.models.interaction import INTERACTION_SIGNALS
from tarl_jax.types import Action, Status

_PAIR_NAMES = (*PAIR_SIGNALS, *INTERACTION_SIGNALS)


class Thresholds(NamedTuple):
  """Similarities from which an entry counts as related, and as the same fact."""

  related: float = 0.5
  same: float = 0.8


def _pick(values: np.ndarray, names: tuple[str, ...], name: str) -> np.ndarray:
  return values[..., names.index(name)]


def _any(values: np.ndarray, names: tuple[str, ...], wanted: tuple[str, ...]) -> np.ndarray:
  return np.any([_pick(values, names, name) > 0.5 for name in wanted], axis=0)


def similarity(inputs: PolicyInputs) -> np.ndarray:
  """How close each Accepted entry is, float32 [E, V]; -1 where there is none.

  The mean of the cosine of the sentence vectors and the idf-weighted word overlap.
  """
  close = _closeness(inputs)
  positions = np.arange(close.shape[1])
  return np.where(positions < np.asarray(inputs.num_accepted)[:, None], close, -1.0)


def _closeness(inputs: PolicyInputs) -> np.ndarray:
  pairs = np.asarray(inputs.pair_signals)
  return 0.5 * (_pick(pairs, _PAIR_NAMES, "sentence_cosine") + _pick(pairs, _PAIR_NAMES, "idf_f1"))


def _pending_similarity(inputs: PolicyInputs) -> np.ndarray:
  """The same of each Pending entry."""
  close = _closeness(inputs)
  positions = np.arange(close.shape[1])
  waits = positions >= np.asarray(inputs.num_accepted)[:, None]
  return np.where(waits & (positions < np.asarray(inputs.num_visible)[:, None]), close, -1.0)


def _owners_differ(inputs: PolicyInputs) -> np.ndarray:
  pairs, sources = np.asarray(inputs.pair_signals), np.asarray(inputs.pair_source)
  in_text = _any(pairs, _PAIR_NAMES, ("owner_differs", "surname_differs"))
  return in_text | _any(sources, PAIR_SOURCE_SIGNALS, ("other_owner", "other_subject"))


def decide_by_rule(inputs: PolicyInputs, thresholds: Thresholds) -> Predictions:
  """Action and target of every example, and the Pending entry that an append or revise says
  again and so confirms. Inputs and result have a leading [E]."""
  number, num_visible = inputs.entries.shape[:2]
  others = _owners_differ(inputs)
  close = np.where(others, -1.0, similarity(inputs))
  best = close.argmax(1)
  at_best = close[np.arange(number), best]
  pair = np.asarray(inputs.pair_signals)[np.arange(number), best]
  time = np.asarray(inputs.time_signals)[np.arange(number), best]
  related = at_best >= thresholds.related
  same = _same(pair, at_best, thresholds)
  action = _conflict_action(inputs, time, best)
  action = np.where(same, Action.NOOP, action)
  trusted = _trusted(inputs)
  action = np.where(related, action, np.where(trusted, Action.APPEND, Action.DEFER_VERIFY))
  claims = np.asarray(inputs.claim_signals)
  past = _any(claims, CLAIM_SIGNALS, ("past",)) & ~same & trusted
  action = np.where(past, Action.APPEND, action)
  empty = _any(claims, CLAIM_SIGNALS, ("question", "filler", "one_off", "hypothetical"))
  action = np.where(empty, Action.NOOP, action)
  grounded = np.where(related & ~empty, best, num_visible)
  waiting = np.where(others, -1.0, _pending_similarity(inputs))
  confirmed = _same(np.asarray(inputs.pair_signals), waiting, thresholds)
  settles = confirmed.any(1) & ((action == Action.APPEND) | (action == Action.REVISE))
  nearest = np.where(confirmed, waiting, -1.0).argmax(1)
  return Predictions(
    action=action.astype(np.int32),
    position=grounded.astype(np.int32),
    grounded=grounded.astype(np.int32),
    probabilities=None,
    resolves=np.where(settles, nearest, num_visible).astype(np.int32),
    outcome=np.where(settles, Status.SUPERSEDED, Status.EMPTY).astype(np.int32),
  )


def _same(pair: np.ndarray, close: np.ndarray, thresholds: Thresholds) -> np.ndarray:
  """bool [...]: the entry states the same fact with the same value; pair signals [..., P]."""
  value_differs = _any(
    pair, _PAIR_NAMES, ("numbers_differ", "dates_differ", "quotes_differ", "polarity_differs")
  )
  equal = _any(pair, _PAIR_NAMES, ("text_equal", "content_equal"))
  alike = equal | ((close >= thresholds.same) & ~value_differs)
  return (close >= thresholds.related) & alike


def _trusted(inputs: PolicyInputs) -> np.ndarray:
  hedged = _any(np.asarray(inputs.claim_signals), CLAIM_SIGNALS, ("hedge", "hearsay"))
  return (_pick(np.asarray(inputs.source), SOURCE_SIGNALS, "reliability") > TRUSTED) & ~hedged


def _conflict_action(inputs: PolicyInputs, time: np.ndarray, best: np.ndarray) -> np.ndarray:
  """What to do with another value for the entry in `best`: the lower half of the table."""
  rows = np.arange(len(best))
  old = _pick(np.asarray(inputs.entry_source)[rows, best], SOURCE_SIGNALS, "reliability")
  new = _pick(np.asarray(inputs.source), SOURCE_SIGNALS, "reliability")
  newer = _pick(time, TIME_SIGNALS, "newer") > 0.5
  older = _any(time, TIME_SIGNALS, ("older", "candidate_is_over"))
  action = np.where(_trusted(inputs) & newer, Action.REVISE, Action.DEFER_VERIFY)
  return np.where(older | (old - new > CLEARLY_LESS), Action.REJECT_CONFLICT, action)


def fit_thresholds(inputs: PolicyInputs, labels: Labels) -> Thresholds:
  """The pair of thresholds with the best Macro F1 on the given examples."""
  weight = np.ones(len(labels.action), np.float32)

  def score(thresholds: Thresholds) -> float:
    predicted = decide_by_rule(inputs, thresholds).action
    return metrics.macro_f1(np.asarray(metrics.confusion(labels.action, predicted, weight)))

  grid = np.arange(0.2, 0.96, 0.05)
  candidates = [Thresholds(float(a), float(b)) for a in grid for b in grid if b >= a]
  return max(candidates, key=score)
