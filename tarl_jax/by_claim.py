"""Numbers that belong to claims and follow them through the ledgers (SPEC 7).

Owns the layout (by Accepted slot, and beside the History row once the claim is there) and how
the numbers move when the ledgers change. It does not know what the numbers mean: the
counters of `worth.py` and the sums of `propensity.py` move by the same rule.

    live  [K_A, ...]   of the claim in each Accepted slot
    past  [K_H, ...]   of the claim in each History row, as they were when it left Accepted

A free slot or row holds zeros, so a claim that enters starts at zero and a slot that is used
again inherits nothing.
"""

from typing import NamedTuple, TypeVar

import flax.struct
import jax
import jax.numpy as jnp

from tarl_jax import ledgers
from tarl_jax.types import NO_CLAIM, MemoryState, Status


class ByClaim(flax.struct.PyTreeNode, kw_only=True):
  """Numbers that belong to claims: `live` by Accepted slot, `past` by History row."""

  live: jax.Array  # float32 [K_A, ...], zeros where the slot is free
  past: jax.Array  # float32 [K_H, ...], zeros where the row is free
  past_id: jax.Array  # int32 [K_H], the claim ids of History, kept so that a step need not read
  # a ledger that it has just written: XLA would copy the ledger at every step of a scan


class Left(NamedTuple):
  """Numbers of claims that are in neither Accepted nor History any more; three at most.

  Rows that a full History gave up, and a claim that left Accepted without a History row.
  """

  claim_id: jax.Array  # int32 [3], NO_CLAIM where there is none
  numbers: jax.Array  # float32 [3, ...], zeros there


_Table = TypeVar("_Table", bound=ByClaim)


@jax.jit
def follow_step(
  table: _Table, before: MemoryState, after: MemoryState, slot: jax.Array
) -> tuple[_Table, Left]:
  """Moves the numbers with their claims after one transition; O(1) work. Unbatched.

  For every step (`settling.transact`), and for transitions that take the claim out of one
  Accepted slot, with or without a push on History. What comes *back* from History, or is
  taken out of it, needs `follow`.

  Args:
    table: numbers by the slots of `before`.
    before, after: the memory around the transition.
    slot: the Accepted slot it was about, int32 []; NO_SLOT where there is none.

  Returns:
    (table, left): numbers by the slots of `after`; the claim that left Accepted has its
    numbers beside its History row, the newcomer zeros. `left` is what went with rows that
    a full History gave up.
  """
  capacity, width = table.live.shape[0], (1,) * (table.live.ndim - 1)
  gone = ledgers.read_claim(before.accepted, slot)
  moved = (gone != NO_CLAIM) & (ledgers.read_claim(after.accepted, slot) != gone)
  last = ledgers.count(before.accepted) - 1  # fills the gap where a row was taken out
  taken = moved & (ledgers.count(after.accepted) <= last)
  ring = before.history.capacity
  place = (ledgers.next_slot(before.history) + jnp.arange(min(2, ring), dtype=jnp.int32)) % ring
  was, now = table.past_id[place], after.history.claim_id[place]
  filed, out = moved & (now == gone), was != now

  # Each write needs the read of the same rows: XLA then orders the two without a copy.
  numbers, filler = table.live.at[jnp.stack([slot, last])].get(mode="clip")
  held = table.past[place]
  index = jnp.stack([jnp.where(moved, slot, capacity), jnp.where(taken, last, capacity)])
  stay = jnp.where(moved, jnp.where(taken & (slot != last), filler, 0.0), numbers)
  live = table.live.at[index].set(jnp.stack([stay, jnp.where(taken, 0.0, filler)]), mode="drop")
  arrived = jnp.where(filed.reshape(-1, *width), numbers, 0.0)
  past = table.past.at[place].set(jnp.where(out.reshape(-1, *width), arrived, held))

  past_id = table.past_id.at[place].set(jnp.where(out, now, was))

  nowhere = moved & ~jnp.any(filed)
  claim_id = jnp.append(jnp.where(out, was, NO_CLAIM), jnp.where(nowhere, gone, NO_CLAIM))
  left = _left(claim_id, jnp.concatenate([held, numbers[None]]))
  return table.replace(live=live, past=past, past_id=past_id), left


def _left(claim_id: jax.Array, numbers: jax.Array) -> Left:
  """Three rows, the numbers zero where there is no claim."""
  short = 3 - claim_id.shape[0]
  claim_id = jnp.pad(claim_id, (0, short), constant_values=NO_CLAIM)
  numbers = jnp.pad(numbers, ((0, short), *((0, 0),) * (numbers.ndim - 1)))
  none = (claim_id == NO_CLAIM).reshape(-1, *(1,) * (numbers.ndim - 1))
  return Left(claim_id=claim_id, numbers=jnp.where(none, 0.0, numbers))


@jax.jit
def follow(table: _Table, before: MemoryState, after: MemoryState) -> tuple[_Table, Left]:
  """`follow_step` for any change of the ledgers, by looking up every claim. Unbatched.

  The numbers of a claim go where the claim goes, also back from History into Accepted; a
  claim that was in neither starts at zero, and a row with status ERASED keeps none. Costs a
  sort of K_A + K_H claims.

  Returns:
    (table, left); `left` holds the first three claims that are in neither ledger any more,
    an erased one among them.
  """
  width = (1,) * (table.live.ndim - 1)
  old_ids = jnp.concatenate([before.accepted.claim_id, before.history.claim_id])
  numbers = jnp.concatenate([table.live, table.past])
  order = jnp.argsort(old_ids)
  sorted_ids = old_ids[order]

  def fetch(ids: jax.Array, keep: jax.Array) -> jax.Array:
    place = jnp.clip(jnp.searchsorted(sorted_ids, ids), 0, order.shape[0] - 1)
    found = keep & (ids != NO_CLAIM) & (sorted_ids[place] == ids)
    return jnp.where(found.reshape(-1, *width), numbers[order[place]], 0.0)

  kept_past = after.history.status != Status.ERASED
  live = fetch(after.accepted.claim_id, after.accepted.valid)
  past = fetch(after.history.claim_id, kept_past)
  kept = [after.accepted.claim_id, jnp.where(kept_past, after.history.claim_id, NO_CLAIM)]
  lost = (old_ids != NO_CLAIM) & ~jnp.isin(old_ids, jnp.concatenate(kept))
  place = jnp.nonzero(lost, size=3, fill_value=old_ids.shape[0])[0]
  claim_id = old_ids.at[place].get(mode="fill", fill_value=NO_CLAIM)
  left = _left(claim_id, numbers.at[place].get(mode="clip"))
  return table.replace(live=live, past=past, past_id=after.history.claim_id), left
