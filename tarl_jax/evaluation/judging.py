"""Executes predicted transactions beside the gold ones, stream by stream (SPEC 6).

Owns the way from visible positions back to slots of the full memory. The states are those
of the gold path: every step is judged from the state that gold reached.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

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
from tarl_jax.rollout import Transactions, find_pending_slot, find_slot
from tarl_jax.settling import transact
from tarl_jax.types import NO_CLAIM, Claim, MemoryState, Settling, Status

_MAX_TARGETS = 4  # right targets that are looked at, the gold one first


class Predictions(NamedTuple):
  """What one method chose for each example; NumPy arrays with a leading [E]."""

  action: np.ndarray  # int32 [E]
  position: np.ndarray  # int32 [E], visible position that is executed, V for none
  grounded: np.ndarray  # int32 [E], visible position the claim is about, V for none
  probabilities: np.ndarray | None  # float32 [E, A], None where the method has none
  resolves: np.ndarray | None = None  # int32 [E], visible position of the Pending entry that
  # it settles, V for none; None where the method settles nothing
  outcome: np.ndarray | None = None  # int32 [E], the Status that one gets


class _Scored(NamedTuple):
  """One stream's gold and predicted transactions, leaves [T, ...]."""

  gold: Transactions
  gold_targets: np.ndarray  # int32 [T, G], claim ids, the gold one first
  action: np.ndarray  # int32 [T]
  slot: np.ndarray  # int32 [T], Accepted slot or NO_SLOT
  settling: Settling  # int32 [T] each, what the prediction settles


@jax.jit
def _judge_stream(state: MemoryState, scored: _Scored) -> Verdict:
  """Verdicts of every step, bool [T] each; a scan along the gold path."""

  def step(state: MemoryState, inputs: tuple[_Scored, jax.Array]):
    now, number = inputs
    claim = Claim(claim_id=now.gold.claim_id, step=number)
    gold_slots = jax.vmap(find_slot, in_axes=(None, 0))(state, now.gold_targets)
    settling = Settling(find_pending_slot(state, now.gold.resolves), now.gold.outcome)
    verdict = judge(
      state, claim, now.gold.action, gold_slots, now.action, now.slot, settling, now.settling
    )
    return transact(state, now.gold.action, gold_slots[0], claim, settling)[0], verdict

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
    moments = split.moments[rows]
    slots = _slots(moments, predictions.position[rows], state.accepted.no_slot)
    settling = _settling(moments, predictions, rows, state.pending.no_slot)
    scored = _pad(stream, predictions.action[rows], slots, settling, length)
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


def _settling(
  moments: Sequence[Moment], predictions: Predictions, rows: slice, no_slot: int
) -> Settling:
  """Pending slots of visible positions and what becomes of them, int32 [T]; NO_SLOT for none."""
  if predictions.resolves is None or predictions.outcome is None:
    nothing = np.full(len(moments), no_slot, np.int32)
    return Settling(nothing, np.full(len(moments), Status.EMPTY, np.int32))
  slots = [
    moment.slots[position] if moment.num_accepted <= position < len(moment.slots) else no_slot
    for moment, position in zip(moments, predictions.resolves[rows], strict=True)
  ]
  return Settling(np.array(slots, np.int32), predictions.outcome[rows])


def _pad(
  stream: Stream, action: np.ndarray, slot: np.ndarray, settling: Settling, length: int
) -> _Scored:
  """The stream's transactions padded to `length` steps."""
  gold = gold_transactions(stream, length)
  place = {claim.id: i for i, claim in enumerate(stream.claims)}
  targets = np.full((length, _MAX_TARGETS), NO_CLAIM, np.int32)
  targets[:, :] = gold.target[:, None]
  for i, claim in enumerate(stream.claims):
    alternatives = () if claim.gold is None else claim.gold.alt_targets
    for j, name in enumerate(alternatives[: _MAX_TARGETS - 1], 1):
      targets[i, j] = place[name]

  def padded(column: np.ndarray) -> np.ndarray:
    return np.pad(np.asarray(column, np.int32), (0, length - len(column)))

  return _Scored(
    gold=gold,
    gold_targets=targets,
    action=padded(action),
    slot=padded(slot),
    settling=Settling(*map(padded, settling)),
  )
