"""Out of History again: `restore` undoes a move there, `erase` removes a claim for good (SPEC 7).

Owns the transitions that take rows out of the middle of a ledger. The contract is that of
`governance.py`, which owns the moves *into* History.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from tarl_jax import by_claim, ledgers
from tarl_jax.governance import (
  GovernanceInfo,
  Table,
  Transition,
  look_up,
  nothing_left,
  select,
)
from tarl_jax.types import NO_CLAIM, Ledger, LedgerId, MemoryState, Row, Status

NO_KEY = -1  # content key of a claim that no other claim of the table repeats


class ErasureInfo(NamedTuple):
  """What an erasure did."""

  invalid: jax.Array  # bool []: no claim of the table; nothing was changed
  removed: jax.Array  # int32 []: rows taken out of the three ledgers
  erased: jax.Array  # bool [N]: the claims it covers; drop what else is kept about them


def _keep_rows(ledger: Ledger, keep: jax.Array) -> Ledger:
  """The rows where `keep` (bool [K]) is true, in their order, from slot 0; a ring unrolls.

  Bit-identical where every live row is kept. O(K): a ring has no cheaper way to lose a row
  out of its middle, and a hole would break what `Ledger` promises.
  """
  keep = keep & ledger.valid
  oldest = jnp.where(ledgers.is_full(ledger), ledgers.next_slot(ledger), 0)
  order = (jnp.arange(ledger.capacity, dtype=jnp.int32) + oldest) % ledger.capacity
  kept = keep[order]
  place = jnp.where(kept, jnp.cumsum(kept, dtype=jnp.int32) - 1, ledger.no_slot)
  free = ledgers.init_ledger(ledger.capacity)
  rows = free.rows.at[:, place].set(ledger.rows[:, order], mode="drop")
  compact = ledger.replace(rows=rows, written=jnp.sum(keep, dtype=jnp.int32))
  return select(jnp.all(keep == ledger.valid), ledger, compact)


@jax.jit
def restore(state: MemoryState, worth: Table, claim_id: jax.Array, step: jax.Array) -> Transition:
  """Undoes `deprecate` or `expire`: the claim goes back where it was. Unbatched.

  From History to Accepted, or to Pending if it expired there, with its link and its archived
  counters; its step is that of the return. A claim whose time is over expires again unless
  its `valid_until` is corrected.

  Args:
    state: memory, leaves [K] or [].
    worth: counters by claim.
    claim_id: a claim in History, int32 [].
    step: step of the stream, int32 [].

  Returns:
    (next_state, next_worth, info); refused with `info.invalid` where the claim is not in
    History as DEPRECATED or EXPIRED, and with `info.overflow` where there is no room for it.
  """
  row = ledgers.read_row(state.history, ledgers.find(state.history, claim_id))
  known = (row.status == Status.DEPRECATED) | (row.status == Status.EXPIRED)
  to_pending = row.step < 0
  full_accepted = known & ~to_pending & ledgers.is_full(state.accepted)
  full_pending = known & to_pending & ledgers.is_full(state.pending)
  done = known & ~full_accepted & ~full_pending
  entry = Row(claim_id, jnp.int32(Status.ACCEPTED), row.link, step)
  waiting = entry._replace(status=jnp.int32(Status.PENDING))
  next_state = state.replace(
    accepted=ledgers.push_row(state.accepted, entry, done & ~to_pending),
    pending=ledgers.push_row(state.pending, waiting, done & to_pending),
    history=_keep_rows(state.history, ~done | (state.history.claim_id != claim_id)),
  )
  next_worth, _ = by_claim.follow(worth, state, next_state)
  overflow = jnp.where(full_accepted, jnp.int32(LedgerId.ACCEPTED), jnp.int32(LedgerId.NONE))
  overflow = jnp.where(full_pending, jnp.int32(LedgerId.PENDING), overflow)
  info = GovernanceInfo(~known, overflow, ledgers.empty_row(), nothing_left(worth))
  return next_state, next_worth, info


@jax.jit
def erase(
  state: MemoryState, worth: Table, claim_id: jax.Array, content_key: jax.Array
) -> tuple[MemoryState, Table, ErasureInfo]:
  """Removes a claim, and every claim with the same content, from the memory. Unbatched.

  Their rows and counters are gone, and links of other rows that named them become NO_CLAIM.
  They stay (or become) marked as entered, so that no late duplicate comes in: not the claim
  itself, not another claim of the table with its key, also one that has not arrived yet.
  Nothing undoes it. No tombstone is left, so no row ever has status ERASED. What the caller
  keeps (texts, embeddings, rows that History handed out) is the caller's to erase.

  Args:
    state: memory, leaves [K] or [].
    worth: counters by claim.
    claim_id: the claim, int32 []; it need not be in a ledger.
    content_key: per claim of the table a number for what it says, int32 [N]; equal keys are
      equal content. NO_KEY, as any negative one, is shared with no other claim.

  Returns:
    (next_state, next_worth, info); refused with `info.invalid` where the claim is none of
    the table. The rows that stay keep their order.
  """
  numbers = jnp.arange(state.num_claims, dtype=jnp.int32)
  key = look_up(content_key, claim_id, NO_KEY)
  erased = (numbers == claim_id) | ((content_key == key) & (key >= 0))

  def clean(ledger: Ledger) -> Ledger:
    kept = _keep_rows(ledger, ~look_up(erased, ledger.claim_id, False))
    link = jnp.where(look_up(erased, kept.link, False), NO_CLAIM, kept.link)
    return kept.replace(rows=kept.rows.at[2].set(link))

  next_state = MemoryState(
    accepted=clean(state.accepted),
    pending=clean(state.pending),
    history=clean(state.history),
    entered=state.entered | erased,
  )
  next_worth, _ = by_claim.follow(worth, state, next_state)
  removed = _num_rows(state) - _num_rows(next_state)
  return next_state, next_worth, ErasureInfo(~jnp.any(erased), removed, erased)


def _num_rows(state: MemoryState) -> jax.Array:
  held = [ledgers.count(part) for part in (state.accepted, state.pending, state.history)]
  return held[0] + held[1] + held[2]
