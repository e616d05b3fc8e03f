"""The gold rollout of one stream: a `lax.scan` of transitions over its claims.

Owns the step and the scan; batching over streams is the caller's `vmap`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from tarl_jax import actions
from tarl_jax.types import Array, Claim, LedgerId, MemoryState, TransitionInfo


class Transactions(NamedTuple):
  """What to execute, one row a step; int32 [T] each."""

  action: Array
  target: Array  # claim id that the action is about, NO_CLAIM where there is none
  claim_id: Array


class Step(NamedTuple):
  """One step of a rollout; leaves have a leading [T] when stacked by the scan."""

  state: MemoryState  # before the transition
  slot: jax.Array  # int32 []: Accepted slot of the target, NO_SLOT if it is not there
  info: TransitionInfo


def find_slot(state: MemoryState, claim_id: Array) -> jax.Array:
  """int32 []: Accepted slot that holds the claim, NO_SLOT where none does."""
  match = state.accepted.valid & (state.accepted.claim_id == claim_id)
  found = jnp.argmax(match).astype(jnp.int32)
  return jnp.where(jnp.any(match), found, state.accepted.no_slot)


def rollout(state: MemoryState, transactions: Transactions) -> tuple[MemoryState, Step]:
  """Executes the transactions in order. Unbatched.

  Args:
    state: memory before the first step.
    transactions: int32 [T] each; the step of a claim is its place in the stream.

  Returns:
    (final_state, steps): the states *before* each transition, the slots the targets were
    found in and what each transition reported, leaves [T, ...].
  """

  def step(state: MemoryState, inputs: tuple[Transactions, jax.Array]):
    transaction, number = inputs
    slot = find_slot(state, transaction.target)
    claim = Claim(claim_id=transaction.claim_id, step=number)
    next_state, info = actions.execute(state, transaction.action, slot, claim)
    return next_state, Step(state=state, slot=slot, info=info)

  numbers = jnp.arange(transactions.action.shape[0], dtype=jnp.int32)
  return jax.lax.scan(step, state, (transactions, numbers))


def count_refusals(info: TransitionInfo) -> dict[str, jax.Array]:
  """How many transitions were refused and rows evicted, int32 [] each (SPEC 3, capacity)."""

  def total(flags: jax.Array) -> jax.Array:
    return jnp.sum(flags, dtype=jnp.int32)

  return {
    "invalid": total(info.invalid),
    "overflow_accepted": total(info.overflow == LedgerId.ACCEPTED),
    "overflow_pending": total(info.overflow == LedgerId.PENDING),
    "evicted": total(info.evicted.status != 0),
  }
