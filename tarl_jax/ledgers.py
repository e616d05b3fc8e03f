"""One ledger: allocate, find, read, write, count, and the capacity rule.

Knows no action. A write takes `when`: where it is false the index becomes NO_SLOT, which
the scatter drops, so that no row changes.

    slot      0    1    2    3          written = 3, K = 5
            [ r0 | r1 | r2 | .. | .. ]  next row goes to slot 3
    a ring that has wrapped:
            [ r5 | r6 | r2 | r3 | r4 ]  written = 7, next row goes to slot 2, the oldest
    the first one after r0 was taken out (no ring):
            [ r2 | r1 | .. | .. | .. ]  written = 2, the last row fills the gap
"""

import jax
import jax.numpy as jnp

from tarl_jax.types import NO_CLAIM, Ledger, MemoryState, Row, Status


def empty_row() -> Row:
  """What a free slot holds; int32 [] each."""
  no_claim, zero = jnp.int32(NO_CLAIM), jnp.int32(0)
  return Row(claim_id=no_claim, status=jnp.int32(Status.EMPTY), link=no_claim, step=zero)


def init_ledger(capacity: int) -> Ledger:
  """An empty ledger of `capacity` slots; every leaf int32 and a buffer of its own.

  Raises:
    ValueError: if the capacity is under 1.
  """
  if capacity < 1:
    raise ValueError(f"a ledger needs at least one slot, got capacity {capacity}.")
  return Ledger(
    rows=jnp.tile(jnp.stack(empty_row())[:, None], (1, capacity)),
    written=jnp.zeros((), jnp.int32),
  )


def init_state(accepted: int, pending: int, history: int, num_claims: int) -> MemoryState:
  """An empty memory with the given capacities, for a table of `num_claims` claims (SPEC 2)."""
  return MemoryState(
    accepted=init_ledger(accepted),
    pending=init_ledger(pending),
    history=init_ledger(history),
    entered=jnp.zeros(num_claims, bool),
  )


def count(ledger: Ledger) -> jax.Array:
  """Number of live rows, int32 []."""
  return jnp.minimum(ledger.written, ledger.capacity)


def is_full(ledger: Ledger) -> jax.Array:
  """bool []: every slot is taken."""
  return ledger.written >= ledger.capacity


def next_slot(ledger: Ledger) -> jax.Array:
  """int32 []: where the next row goes; in a full ledger the oldest row."""
  return jnp.where(is_full(ledger), ledger.written - ledger.capacity, ledger.written)


def is_live(ledger: Ledger, slot: jax.Array) -> jax.Array:
  """bool []: `slot` is in range and holds a claim. Negative slots are never live."""
  return (slot >= 0) & (slot < count(ledger))


def read_row(ledger: Ledger, slot: jax.Array) -> Row:
  """The row in `slot`; the empty row where the slot is not live."""
  row = Row(*ledger.rows.at[:, slot].get(mode="clip"))
  live = is_live(ledger, slot)
  return jax.tree.map(lambda found, empty: jnp.where(live, found, empty), row, empty_row())


def read_claim(ledger: Ledger, slot: jax.Array) -> jax.Array:
  """int32 []: the claim in `slot`; NO_CLAIM where the slot is not live."""
  in_range = (slot >= 0) & (slot < ledger.capacity)  # a free slot holds NO_CLAIM itself
  return jnp.where(in_range, ledger.rows.at[0, slot].get(mode="clip"), NO_CLAIM)


def find(ledger: Ledger, claim_id: jax.Array) -> jax.Array:
  """int32 []: the slot that holds the claim, NO_SLOT where none does."""
  match = ledger.valid & (ledger.claim_id == claim_id)
  return jnp.where(jnp.any(match), jnp.argmax(match).astype(jnp.int32), ledger.no_slot)


def write_row(ledger: Ledger, slot: jax.Array, row: Row, when: jax.Array) -> Ledger:
  """Puts `row` into `slot` where `when` is true; `written` is left as it is."""
  index = jnp.where(when, slot, ledger.no_slot)
  return ledger.replace(rows=ledger.rows.at[:, index].set(jnp.stack(row), mode="drop"))


def advance(ledger: Ledger, when: jax.Array) -> Ledger:
  """Counts one more row where `when` is true, folding at 2K so that it never overflows."""
  written = ledger.written + jnp.asarray(when, jnp.int32)
  folded = jnp.where(written >= 2 * ledger.capacity, ledger.capacity, written)
  return ledger.replace(written=folded)


def push_row(ledger: Ledger, row: Row, when: jax.Array) -> Ledger:
  """Adds `row` where `when` is true; the caller has seen to it that the ledger is not full."""
  return advance(write_row(ledger, next_slot(ledger), row, when), when)


def push_ring(ledger: Ledger, row: Row, when: jax.Array) -> tuple[Ledger, Row]:
  """Adds `row` where `when` is true; in a full ledger it takes the oldest row's slot.

  Where `when` is false the slot gets back what it held. So the write needs the read, and XLA
  orders the two without a copy of the ledger, which a masked write would cost at every step.

  Returns:
    (ledger, left): the row that left to make room, the empty row if none did.
  """
  slot = next_slot(ledger)  # always in range: the slice updates below never clamp
  held = jax.lax.dynamic_slice_in_dim(ledger.rows, slot, 1, axis=1)  # the empty row if not full
  stored = jnp.where(when, jnp.stack(row)[:, None], held)
  left = jnp.where(when, held, jnp.stack(empty_row())[:, None])
  rows = jax.lax.dynamic_update_slice_in_dim(ledger.rows, stored, slot, axis=1)
  return advance(ledger.replace(rows=rows), when), Row(*left[:, 0])


def take_row(ledger: Ledger, slot: jax.Array, when: jax.Array) -> tuple[Ledger, Row]:
  """Takes out the live row in `slot` where `when` is true; the last row fills the gap.

  So live rows stay in the first slots and the place that is freed is the next to be filled.
  For ledgers that are no ring; the caller has seen to it that the slot is live.

  Returns:
    (ledger, taken): the row, the empty row where none was taken.
  """
  last = count(ledger) - 1
  taken = read_row(ledger, jnp.where(when, slot, ledger.no_slot))
  filled = write_row(ledger, slot, read_row(ledger, last), when)
  emptied = write_row(filled, last, empty_row(), when)
  return emptied.replace(written=ledger.written - jnp.asarray(when, jnp.int32)), taken
