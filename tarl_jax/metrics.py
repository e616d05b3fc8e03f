"""The metrics of SPEC 6 as sums and counts, divided once on the host.

Every function takes arrays with a leading [E] and a weight, 0 for padding, and returns
sums that add up over batches; `macro_f1`, `ece` and `mean` turn the final sums into numbers.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tarl_jax import quality
from tarl_jax.settling import transact
from tarl_jax.types import (
  NUM_ACTIONS,
  Action,
  Array,
  Claim,
  LedgerId,
  MemoryState,
  Settling,
  Status,
)

NUM_BINS = 15
_SMALLEST_PROBABILITY = 1e-7  # floor for the logarithm of NLL


def confusion(gold: Array, predicted: Array, weight: Array) -> Array:
  """Weighted counts, float32 [A, A]: rows by gold action, columns by predicted action."""
  counts = jnp.zeros((NUM_ACTIONS, NUM_ACTIONS), jnp.float32)
  return counts.at[gold, predicted].add(weight)


def per_class_f1(counts: Array) -> Array:
  """F1 of each class from a confusion matrix; 0 for a class never predicted, NaN if absent.

  Args:
    counts: [A, A] as from `confusion`.

  Returns:
    float64 [A]; NaN where the class occurs neither in gold nor in the predictions.
  """
  counts = np.asarray(counts, np.float64)
  right = np.diag(counts)
  total = counts.sum(0) + counts.sum(1)
  return np.where(total > 0, 2 * right / np.maximum(total, 1e-12), np.nan)


def macro_f1(counts: Array) -> float:
  """Mean of the per-class F1 over the classes that occur in gold; NaN where none does."""
  present = np.asarray(counts).sum(1) > 0
  return float(np.mean(per_class_f1(counts)[present])) if present.any() else float("nan")


def calibration_bins(probability: Array, correct: Array, weight: Array) -> Array:
  """Per equal-width bin: weight, summed probability, summed correctness; float32 [15, 3].

  Args:
    probability: float32 [E], of the chosen action.
    correct: bool [E].
    weight: float32 [E].
  """
  index = jnp.clip(jnp.ceil(probability * NUM_BINS).astype(jnp.int32) - 1, 0, NUM_BINS - 1)
  values = jnp.stack([weight, weight * probability, weight * correct], axis=-1)
  return jnp.zeros((NUM_BINS, 3), jnp.float32).at[index].add(values)


def ece(bins: Array) -> float:
  """Expected calibration error from summed `calibration_bins`; NaN without examples."""
  weight, probability, correct = np.asarray(bins, np.float64).T
  total = weight.sum()
  return float(np.abs(probability - correct).sum() / total) if total > 0 else float("nan")


def brier(probabilities: Array, gold: Array) -> Array:
  """Squared distance of the probabilities to the one-hot gold action; float32 [E], 0 to 2."""
  return jnp.sum(jnp.square(probabilities - jax.nn.one_hot(gold, NUM_ACTIONS)), axis=-1)


def nll(probabilities: Array, gold: Array) -> Array:
  """- log p(gold action), floored at p = 1e-7; float32 [E], nats."""
  chosen = jnp.take_along_axis(probabilities, gold[:, None], axis=-1)[:, 0]
  return -jnp.log(jnp.maximum(chosen, _SMALLEST_PROBABILITY))


class Verdict(NamedTuple):
  """What executing a predicted transaction did, bool [] each."""

  strict: Array  # the next state is the gold one
  setwise: Array  # it is the gold one for some right target
  outside: Array  # gold puts the candidate outside Accepted
  polluted: Array  # ... and the prediction put it there
  conflict: Array  # gold is reject_conflict
  preserved: Array  # ... the trusted entry stays Accepted, the candidate is REJECTED
  refused: Array  # the predicted transaction, or what it settles, was refused


def judge(
  state: MemoryState,
  claim: Claim,
  gold_action: Array,
  gold_slots: Array,
  action: Array,
  slot: Array,
  gold_settling: Settling,
  settling: Settling,
) -> Verdict:
  """Executes prediction and gold from one state and compares (SPEC 6). Unbatched.

  The next state is that after the action and what it settles.

  Args:
    state: memory before the step.
    claim: the candidate.
    gold_action: int32 [].
    gold_slots: int32 [G], every right slot, the strict one first; may repeat.
    action: int32 [], predicted.
    slot: int32 [], predicted Accepted slot or NO_SLOT.
    gold_settling: the Pending claim that gold settles, if any.
    settling: the one that the prediction settles, if any.
  """
  next_state, info, settled = transact(state, action, slot, claim, settling)
  refused = info.invalid | (info.overflow != LedgerId.NONE) | settled.invalid
  places = quality.location_map(next_state)

  def equals(gold_slot: Array) -> Array:
    gold_state, gold_info, _ = transact(state, gold_action, gold_slot, claim, gold_settling)
    differ = jnp.any(quality.differs(places, quality.location_map(gold_state)))
    # A further target that is no live entry (any more) makes no gold state.
    return ~differ & ~refused & ~gold_info.invalid

  equal = jax.vmap(equals)(gold_slots)
  in_accepted = places.ledger[claim.claim_id] == LedgerId.ACCEPTED
  outside = (gold_action != Action.APPEND) & (gold_action != Action.REVISE)
  trusted = state.accepted.claim_id.at[gold_slots[0]].get(mode="clip")
  kept = places.ledger.at[trusted].get(mode="clip") == LedgerId.ACCEPTED
  rejected = places.status[claim.claim_id] == Status.REJECTED
  conflict = gold_action == Action.REJECT_CONFLICT
  return Verdict(
    strict=equal[0],
    setwise=jnp.any(equal),
    outside=outside,
    polluted=outside & in_accepted,
    conflict=conflict,
    preserved=conflict & kept & rejected,
    refused=refused,
  )


def fit_temperature(action_logits: Array, gold: Array, weight: Array) -> Array:
  """Temperature with the least NLL among 161 from 1/4 to 4, evenly spaced in log; float32 [].

  Without any weight it is 1.

  Args:
    action_logits: float32 [E, A].
    gold: int32 [E].
    weight: float32 [E].
  """
  temperatures = jnp.exp(jnp.linspace(jnp.log(0.25), jnp.log(4.0), 161))

  def loss(temperature: Array) -> Array:
    log_p = jax.nn.log_softmax(action_logits / temperature)
    return -jnp.sum(weight * jnp.take_along_axis(log_p, gold[:, None], axis=-1)[:, 0])

  best = temperatures[jnp.argmin(jax.lax.map(loss, temperatures))]
  return jnp.where(jnp.sum(weight) > 0, best, 1.0)
