"""Settling: what becomes of a Pending claim when an append or a revise answers it.

Owns the move from Pending to History, and the whole step: an action, then what it settles.
Settling is no action: it goes with an append or a revise in the same step and settles one
Pending claim at most. The rules of the actions are in `actions.py`.

A claim that the candidate confirms ends as SUPERSEDED, one that it contradicts as REJECTED;
either is linked to the candidate, which holds the fact from now on.
"""

import jax
import jax.numpy as jnp

from tarl_jax import actions, ledgers
from tarl_jax.types import (
  NO_CLAIM,
  Action,
  Claim,
  LedgerId,
  MemoryState,
  Row,
  Settling,
  Status,
  TransitionInfo,
)


@jax.jit
def settle(
  state: MemoryState, claim: Claim, pending_slot: jax.Array, status: jax.Array
) -> actions.Transition:
  """Moves a Pending claim to History, linked to the claim that settles it. Unbatched.

  Accepted is unchanged. The place in Pending is free for the next deferred claim: the last
  Pending row moves into it. NO_SLOT leaves the state bit-identical and is no fault.

  Args:
    state: memory after the action of the step, leaves [K] or [].
    claim: the claim that settles it, live in Accepted; int32 [] each.
    pending_slot: Pending slot of the claim that is settled, or NO_SLOT; int32 [].
    status: SUPERSEDED if it is confirmed, REJECTED if it is contradicted; int32 [].

  Returns:
    (next_state, info); refused with `info.invalid`, the state bit-identical, where the slot
    is neither NO_SLOT nor live, `claim` is not in Accepted, or `status` is none of the two.
  """
  wanted = pending_slot != state.pending.no_slot
  known = (status == Status.SUPERSEDED) | (status == Status.REJECTED)
  held = jnp.any(state.accepted.claim_id == claim.claim_id) & (claim.claim_id != NO_CLAIM)
  done = known & held & ledgers.is_live(state.pending, pending_slot)
  pending, settled = ledgers.take_row(state.pending, pending_slot, done)
  row = Row(claim_id=settled.claim_id, status=status, link=claim.claim_id, step=claim.step)
  history, evicted = ledgers.push_ring(state.history, row, done)
  info = TransitionInfo(invalid=wanted & ~done, overflow=jnp.int32(LedgerId.NONE), evicted=evicted)
  return state.replace(pending=pending, history=history), info


@jax.jit
def transact(
  state: MemoryState, action: jax.Array, slot: jax.Array, claim: Claim, settling: Settling
) -> tuple[MemoryState, TransitionInfo, TransitionInfo]:
  """One whole step: `actions.execute`, then `settle`. Unbatched.

  Only an append or a revise that was carried out settles anything; a settling asked for
  beside any other action, or beside a refused one, is itself refused as invalid.

  Args:
    state: memory before the step, leaves [K] or [].
    action: an Action, int32 [].
    slot: Accepted slot, int32 []; NO_SLOT where there is none.
    claim: the incoming claim, int32 [] each.
    settling: the Pending claim to settle; its slot is that of `state`.

  Returns:
    (next_state, info, settled): what the action reported and what the settling did. Both
    may have evicted a row of History.
  """
  between, info = actions.execute(state, action, slot, claim)
  enters = (action == Action.APPEND) | (action == Action.REVISE)
  entered = enters & ~info.invalid & (info.overflow == LedgerId.NONE)
  no_slot = state.pending.no_slot
  pending_slot = jnp.where(entered, settling.slot, no_slot)
  next_state, settled = settle(between, claim, pending_slot, settling.status)
  ignored = ~entered & (settling.slot != no_slot)
  return next_state, info, settled._replace(invalid=settled.invalid | ignored)
