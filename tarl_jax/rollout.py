"""The gold rollout of one stream: a `lax.scan` of whole steps over its claims.

Owns the step and the scan; batching over streams is the caller's `vmap`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from tarl_jax import ledgers, settling
from tarl_jax.types import (
  NO_CLAIM,
  Array,
  Claim,
  LedgerId,
  MemoryState,
  Settling,
  TransitionInfo,
)


class Transactions(NamedTuple):
  """What to execute, one row a step; int32 [T] each."""

  action: Array
  target: Array  # claim id that the action is about, NO_CLAIM where there is none
  claim_id: Array
  resolves: Array  # claim id in Pending that the step settles, NO_CLAIM where none
  outcome: Array  # the Status that one gets, SUPERSEDED or REJECTED; EMPTY where none


class Step(NamedTuple):
  """One step of a rollout; leaves have a leading [T] when stacked by the scan."""

  state: MemoryState  # before the transition
  slot: jax.Array  # int32 []: Accepted slot of the target, NO_SLOT if it is not there
  info: TransitionInfo
  pending_slot: jax.Array  # int32 []: Pending slot of what it settles, NO_SLOT if not there
  settled: TransitionInfo  # invalid where there was something to settle and it was not done


def find_slot(state: MemoryState, claim_id: Array) -> jax.Array:
  """int32 []: Accepted slot that holds the claim, NO_SLOT where none does."""
  return ledgers.find(state.accepted, claim_id)


def find_pending_slot(state: MemoryState, claim_id: Array) -> jax.Array:
  """int32 []: Pending slot that holds the claim, NO_SLOT where none does."""
  return ledgers.find(state.pending, claim_id)


def rollout(state: MemoryState, transactions: Transactions) -> tuple[MemoryState, Step]:
  """Executes the transactions in order, each with what it settles. Unbatched.

  Args:
    state: memory before the first step.
    transactions: int32 [T] each; the step of a claim is its place in the stream.

  Returns:
    (final_state, steps): the states *before* each transition, the slots that targets and
    settled claims were found in, and what each transition and settling reported, leaves
    [T, ...].
  """

  def step(state: MemoryState, inputs: tuple[Transactions, jax.Array]):
    transaction, number = inputs
    slot = find_slot(state, transaction.target)
    claim = Claim(claim_id=transaction.claim_id, step=number)
    pending_slot = find_pending_slot(state, transaction.resolves)
    next_state, info, settled = settling.transact(
      state, transaction.action, slot, claim, Settling(pending_slot, transaction.outcome)
    )
    missing = (transaction.resolves != NO_CLAIM) & (pending_slot == state.pending.no_slot)
    settled = settled._replace(invalid=settled.invalid | missing)
    return next_state, Step(
      state=state, slot=slot, info=info, pending_slot=pending_slot, settled=settled
    )

  numbers = jnp.arange(transactions.action.shape[0], dtype=jnp.int32)
  return jax.lax.scan(step, state, (transactions, numbers))


def count_refusals(steps: Step) -> dict[str, jax.Array]:
  """How many transitions and settlings were refused and rows evicted, int32 [] each
  (SPEC 3, capacity). Leaves of `steps` are [T, ...]."""
  info, settled = steps.info, steps.settled

  def total(flags: jax.Array) -> jax.Array:
    return jnp.sum(flags, dtype=jnp.int32)

  return {
    "invalid": total(info.invalid),
    "overflow_accepted": total(info.overflow == LedgerId.ACCEPTED),
    "overflow_pending": total(info.overflow == LedgerId.PENDING),
    "unsettled": total(settled.invalid),
    "evicted": total(info.evicted.status != 0) + total(settled.evicted.status != 0),
  }
