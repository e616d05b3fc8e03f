"""Executes predicted transactions beside the gold ones, stream by stream (SPEC 6).

Owns the way from visible positions back to slots of the full memory. The states are those
of the gold path: every step is judged from the state that gold reached.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tarl_jax import actions
from tarl_jax.data.dataset import Split
from tarl_jax.data.moments import (
  Capacities,
  Moment,
  gold_transactions,
  initial_state,
  padded_length,
)
from tarl_jax.data.record import Stream
from tarl_jax.metrics import Verdict, judge
from tarl_jax.rollout import Transactions, find_slot
from tarl_jax.types import NO_CLAIM, Claim, MemoryState

_MAX_TARGETS = 4  # right targets that are looked at, the gold one first


class Predictions(NamedTuple):
  """What one method chose for each example; NumPy arrays with a leading [E]."""

  action: np.ndarray  # int32 [E]
  position: np.ndarray  # int32 [E], visible position that is executed, V for none
  grounded: np.ndarray  # int32 [E], visible position the claim is about, V for none
  probabilities: np.ndarray | None  # float32 [E, A], None where the method has none


class _Scored(NamedTuple):
  """One stream's gold and predicted transactions, leaves [T, ...]."""

  gold: Transactions
  gold_targets: np.ndarray  # int32 [T, G], claim ids, the gold one first
  action: np.ndarray  # int32 [T]
  slot: np.ndarray  # int32 [T], Accepted slot or NO_SLOT


@jax.jit
def _judge_stream(state: MemoryState, scored: _Scored) -> Verdict:
  """Verdicts of every step, bool [T] each; a scan along the gold path."""

  def step(state: MemoryState, inputs: tuple[_Scored, jax.Array]):
    now, number = inputs
    claim = Claim(claim_id=now.gold.claim_id, step=number)
    gold_slots = jax.vmap(find_slot, in_axes=(None, 0))(state, now.gold_targets)
    verdict = judge(state, claim, now.gold.action, gold_slots, now.action, now.slot)
    next_state, _ = actions.execute(state, now.gold.action, gold_slots[0], claim)
    return next_state, verdict

  numbers = jnp.arange(scored.action.shape[0], dtype=jnp.int32)
  return jax.lax.scan(step, state, (scored, numbers))[1]


def judge_split(split: Split, predictions: Predictions, capacities: Capacities) -> Verdict:
  """Verdict of every example of the split, bool [E] each."""
  length = padded_length(split.streams)
  state = initial_state(capacities, length)
  parts: list[Verdict] = []
  start = 0
  for stream in split.streams:
    end = start + len(stream.claims)
    rows = slice(start, end)
    slots = _slots(split.moments[rows], predictions.position[rows], state.accepted.no_slot)
    scored = _pad(stream, predictions.action[rows], slots, length)
    verdict = _judge_stream(state, jax.tree.map(jnp.asarray, scored))
    parts.append(jax.tree.map(lambda leaf, n=end - start: np.asarray(leaf)[:n], verdict))
    start = end
  return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def _slots(moments: Sequence[Moment], positions: np.ndarray, no_slot: int) -> np.ndarray:
  """Accepted slots of visible positions, int32 [T]; NO_SLOT for Pending and none."""
  slots = [
    moment.slots[position] if position < moment.num_accepted else no_slot
    for moment, position in zip(moments, positions, strict=True)
  ]
  return np.array(slots, np.int32)


def _pad(stream: Stream, action: np.ndarray, slot: np.ndarray, length: int) -> _Scored:
  """The stream's transactions padded to `length` steps."""
  gold = gold_transactions(stream, length)
  place = {claim.id: i for i, claim in enumerate(stream.claims)}
  targets = np.full((length, _MAX_TARGETS), NO_CLAIM, np.int32)
  targets[:, :] = gold.target[:, None]
  for i, claim in enumerate(stream.claims):
    alternatives = () if claim.gold is None else claim.gold.alt_targets
    for j, name in enumerate(alternatives[: _MAX_TARGETS - 1], 1):
      targets[i, j] = place[name]
  padding = length - len(action)
  return _Scored(
    gold=gold,
    gold_targets=targets,
    action=np.concatenate([action, np.zeros(padding, np.int32)]).astype(np.int32),
    slot=np.concatenate([slot, np.zeros(padding, np.int32)]).astype(np.int32),
  )
