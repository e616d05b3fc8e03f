"""A memory that knows where each of its claims is, kept up to date in O(1) a step (SPEC 2).

Owns the places of claims beside the ledgers, and the whole step by claim ids. Knows neither
what decides nor gold. Searching the ledgers for a claim, or building the location maps anew,
would cost the length of the ledgers or of the stream at every step.
"""

from typing import NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

from tarl_jax import ledgers, settling
from tarl_jax.rollout import Transactions
from tarl_jax.types import (
  NO_CLAIM,
  Action,
  Claim,
  Ledger,
  LedgerId,
  MemoryState,
  Settling,
  Status,
  TransitionInfo,
)

# The columns of `TrackedMemory.where`; the first three are a claim's location (SPEC 2).
LEDGER, STATUS, LINK, SLOT = range(4)
NOWHERE = np.array([LedgerId.NONE, Status.EMPTY, NO_CLAIM, NO_CLAIM], np.int32)


class TrackedMemory(flax.struct.PyTreeNode, kw_only=True):
  """A memory, and for each claim of its table where it is."""

  state: MemoryState
  where: jax.Array  # int32 [N, 4]: ledger, status, link, slot; NOWHERE for a claim in no ledger


class Executed(NamedTuple):
  """What a transaction did."""

  target: jax.Array  # int32 [4], where the target was before
  info: TransitionInfo
  settled: TransitionInfo  # invalid where there was something to settle and it was not done
  touched: jax.Array  # int32 [7], every claim that may be in another place now; NO_CLAIM, repeats


def _rows(ledger: Ledger, ledger_id: LedgerId, slots: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Claims int32 [n] in the slots, NO_CLAIM where not live, and where they are int32 [n, 4]."""
  row = jax.vmap(ledgers.read_row, in_axes=(None, 0))(ledger, slots)
  in_ledger = jnp.full_like(slots, int(ledger_id))
  return row.claim_id, jnp.stack([in_ledger, row.status, row.link, slots], axis=-1)


@jax.jit
def track(state: MemoryState) -> TrackedMemory:
  """The memory with the place of every claim, read off the whole state. Unbatched."""
  where = jnp.tile(jnp.asarray(NOWHERE), (state.num_claims, 1))
  parts = (state.accepted, state.pending, state.history)
  for ledger_id, ledger in zip((LedgerId.ACCEPTED, LedgerId.PENDING, LedgerId.HISTORY), parts):
    claims, places = _rows(ledger, ledger_id, jnp.arange(ledger.capacity, dtype=jnp.int32))
    where = where.at[claims].set(places, mode="drop")
  return TrackedMemory(state=state, where=where)


def places_of(memory: TrackedMemory, claims: jax.Array) -> jax.Array:
  """Where the claims are, int32 [n, 4]; NOWHERE for what is no claim of the table."""
  known = (claims >= 0) & (claims < memory.state.num_claims)
  found = memory.where.at[claims].get(mode="clip")
  return jnp.where(known[:, None], found, jnp.asarray(NOWHERE)[None])


def _touched(
  state: MemoryState,
  is_append: jax.Array,
  slot: jax.Array,
  pending_slot: jax.Array,
  info: TransitionInfo,
  settled: TransitionInfo,
) -> tuple[jax.Array, jax.Array]:
  """Claims int32 [7] that a step may have moved, and where they are after it int32 [7, 4].

  A step writes one slot of Accepted, two of Pending and two of History at most: the claims in
  these afterwards, and the rows that left History, are all that can have moved. They are taken
  as they are found, so that a refused transaction, too, leaves the truth.
  """
  accepted, pending, history = state.accepted, state.pending, state.history
  written = jnp.where(is_append, ledgers.count(accepted) - 1, slot)
  newest = (ledgers.next_slot(history) - jnp.array([1, 2], jnp.int32)) % history.capacity
  parts = (
    _rows(accepted, LedgerId.ACCEPTED, written[None]),
    _rows(pending, LedgerId.PENDING, jnp.stack([ledgers.count(pending) - 1, pending_slot])),
    _rows(history, LedgerId.HISTORY, newest),
  )
  gone = jnp.stack([info.evicted.claim_id, settled.evicted.claim_id])
  claims = jnp.concatenate([*(claims for claims, _ in parts), gone])
  return claims, jnp.concatenate([*(places for _, places in parts), jnp.tile(NOWHERE, (2, 1))])


def transact(
  memory: TrackedMemory, transaction: Transactions, step: jax.Array
) -> tuple[TrackedMemory, Executed]:
  """`settling.transact` by claim ids, with the place of every claim kept up to date. Unbatched.

  Args:
    memory: before the step.
    transaction: int32 [] each; NO_CLAIM for no target, and where nothing is settled.
    step: int32 [], number of the step.

  Returns:
    (memory, executed), in O(1) of the stream's length.
  """
  state = memory.state
  # Both at once, and no second time: XLA copies all of `where` at each step if it cannot tell
  # that every reading comes before the write.
  found = places_of(memory, jnp.stack([transaction.target, transaction.resolves]))
  is_accepted = found[0, LEDGER] == LedgerId.ACCEPTED
  slot = jnp.where(is_accepted, found[0, SLOT], state.accepted.no_slot)
  is_pending = found[1, LEDGER] == LedgerId.PENDING
  pending_slot = jnp.where(is_pending, found[1, SLOT], state.pending.no_slot)
  claim = Claim(claim_id=transaction.claim_id, step=step)
  next_state, info, settled = settling.transact(
    state, transaction.action, slot, claim, Settling(pending_slot, transaction.outcome)
  )
  missing = (transaction.resolves != NO_CLAIM) & (pending_slot == state.pending.no_slot)
  settled = settled._replace(invalid=settled.invalid | missing)
  is_append = transaction.action == Action.APPEND
  touched, places = _touched(next_state, is_append, slot, pending_slot, info, settled)
  where = memory.where.at[touched].set(places, mode="drop")
  return TrackedMemory(state=next_state, where=where), Executed(found[0], info, settled, touched)
