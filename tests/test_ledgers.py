"""One ledger: counting, the ring, masked writes, buffers."""

import collections
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tarl_jax import actions, ledgers
from tarl_jax.types import NO_CLAIM, Claim, Ledger, Row, Status


def row_of(claim_id) -> Row:
  """A live row whose four fields differ from one another."""
  number = jnp.asarray(claim_id, jnp.int32)
  return Row(number, jnp.int32(Status.REJECTED), number + 1000, number + 2000)


@functools.partial(jax.jit, static_argnums=0)
def _fill(capacity: int, num_rows: jax.Array) -> tuple[Ledger, jax.Array]:
  """Rows 0, 1, ... into an empty ring; the scan is as long for every number of them."""

  def step(ledger, number):
    ledger, left = ledgers.push_ring(ledger, row_of(number), number < num_rows)
    return ledger, left.claim_id

  numbers = jnp.arange(4 * capacity + 2, dtype=jnp.int32)
  return jax.lax.scan(step, ledgers.init_ledger(capacity), numbers)


def filled(capacity: int, num_rows: int) -> tuple[Ledger, list[int]]:
  """A ring into which that many rows went, and the claims that left it, in order."""
  ledger, left = _fill(capacity, jnp.int32(num_rows))
  return ledger, [claim_id for claim_id in left.tolist() if claim_id != NO_CLAIM]


def in_write_order(ledger: Ledger) -> list[int]:
  """Claims from the oldest to the newest, read off by hand."""
  count = int(ledgers.count(ledger))
  start = int(ledgers.next_slot(ledger)) if count == ledger.capacity else 0
  ids = np.asarray(ledger.claim_id).tolist()
  return (ids[start:] + ids[:start])[:count]


@pytest.mark.parametrize("capacity", [1, 2, 4, 5])
def test_ring_equals_a_bounded_deque_from_every_offset(capacity):
  for start in range(capacity + 1):
    for num_rows in (1, capacity - 1, capacity, 2 * capacity, 2 * capacity + 1):
      ledger, left = filled(capacity, start + num_rows)
      model = collections.deque(range(start + num_rows), maxlen=capacity)
      assert in_write_order(ledger) == list(model)
      assert left == list(range(start + num_rows - len(model)))  # each once, the oldest first


@pytest.mark.parametrize("capacity", [1, 2, 4])
def test_counts_around_exactly_full(capacity):
  for num_rows in range(2 * capacity + 2):
    ledger, _ = filled(capacity, num_rows)
    expected = min(num_rows, capacity)
    assert int(ledgers.count(ledger)) == expected
    assert int(ledger.valid.sum()) == expected
    assert bool(ledgers.is_full(ledger)) == (num_rows >= capacity)
    live = [bool(ledgers.is_live(ledger, jnp.int32(slot))) for slot in range(-1, capacity + 2)]
    assert live == [False] + [True] * expected + [False] * (capacity + 2 - expected)


def test_written_is_folded_over_many_wraps_and_never_forgets_that_it_is_full():
  for capacity in (1, 3):
    when = jnp.bool_(True)

    def step(ledger, _, when=when):
      ledger = ledgers.advance(ledger, when)
      return ledger, (ledger.written, ledgers.next_slot(ledger), ledgers.count(ledger))

    _, trace = jax.lax.scan(step, ledgers.init_ledger(capacity), None, length=1000)
    written, slot, count = (np.asarray(leaf) for leaf in trace)
    total = np.arange(1, 1001)
    np.testing.assert_array_equal(slot, total % capacity)
    np.testing.assert_array_equal(count, np.minimum(total, capacity))
    assert written.max() == 2 * capacity - 1 and written.min() == 1
    assert written.dtype == np.int32


def test_a_free_slot_holds_the_empty_row_and_a_dead_one_reads_as_it():
  ledger, _ = filled(3, 2)
  for slot in (2, 3, 4, -1, -3, 2**31 - 1, -(2**31)):
    chex.assert_trees_all_equal(ledgers.read_row(ledger, jnp.int32(slot)), ledgers.empty_row())
    assert int(ledgers.read_claim(ledger, jnp.int32(slot))) == NO_CLAIM
  chex.assert_trees_all_equal(ledgers.read_row(ledger, jnp.int32(1)), row_of(1))
  assert int(ledgers.read_claim(ledger, jnp.int32(1))) == 1


@pytest.mark.parametrize("num_rows", [0, 2, 3, 5])
def test_a_write_that_is_not_meant_changes_no_bit(num_rows):
  ledger, _ = filled(3, num_rows)
  no = jnp.bool_(False)
  for slot in range(4):
    chex.assert_trees_all_equal(ledgers.write_row(ledger, jnp.int32(slot), row_of(77), no), ledger)
  after, left = ledgers.push_ring(ledger, row_of(77), no)
  chex.assert_trees_all_equal(after, ledger)
  chex.assert_trees_all_equal(left, ledgers.empty_row())
  chex.assert_trees_all_equal(ledgers.push_row(ledger, row_of(77), no), ledger)


def test_a_write_at_no_slot_is_dropped():
  ledger, _ = filled(3, 3)
  slot = jnp.int32(ledger.no_slot)
  chex.assert_trees_all_equal(ledgers.write_row(ledger, slot, row_of(77), jnp.bool_(True)), ledger)


def test_a_reused_slot_keeps_nothing_of_the_row_before():
  ledger, _ = filled(2, 2)
  fresh = Row(*(jnp.int32(number) for number in (50, 2, 60, 70)))
  ledger, left = ledgers.push_ring(ledger, fresh, jnp.bool_(True))
  chex.assert_trees_all_equal(ledgers.read_row(ledger, jnp.int32(0)), fresh)
  chex.assert_trees_all_equal(left, row_of(0))


def test_batched_rings_are_independent():
  ledger, _ = filled(3, 4)
  batch = jax.tree.map(lambda leaf: jnp.stack([leaf] * 3), ledger)
  when = jnp.asarray([False, True, False])
  rows = jax.vmap(row_of)(jnp.asarray([90, 91, 92], jnp.int32))
  after, left = jax.vmap(ledgers.push_ring)(batch, rows, when)
  for member in (0, 2):
    chex.assert_trees_all_equal(jax.tree.map(lambda leaf: leaf[member], after), ledger)  # noqa: B023
  assert in_write_order(jax.tree.map(lambda leaf: leaf[1], after)) == [2, 3, 91]
  assert np.asarray(left.claim_id).tolist() == [NO_CLAIM, 1, NO_CLAIM]


def test_a_fresh_state_shares_no_buffer_and_can_be_donated():
  state = ledgers.init_state(3, 3, 3, num_claims=5)  # equal sizes: what could be shared
  pointers = [leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves(state)]
  assert len(set(pointers)) == len(pointers)
  kept = jax.tree.map(jnp.copy, state)
  donating = jax.jit(actions.execute.__wrapped__, donate_argnums=0)
  for number in range(3):
    claim = Claim(claim_id=jnp.int32(number), step=jnp.int32(number))
    old = state
    state, _ = donating(state, jnp.int32(2 * (number % 2)), jnp.int32(0), claim)
    kept, _ = actions.execute(kept, jnp.int32(2 * (number % 2)), jnp.int32(0), claim)
    assert old.accepted.rows.is_deleted()
  chex.assert_trees_all_equal(state, kept)


def test_every_leaf_is_int32_or_bool_and_strongly_typed():
  state = ledgers.init_state(2, 1, 3, num_claims=4)
  kinds = [(leaf.dtype.name, leaf.weak_type) for leaf in jax.tree.leaves(state)]
  assert kinds == [("int32", False)] * 6 + [("bool", False)]
  assert (state.accepted.capacity, state.pending.capacity, state.history.capacity) == (2, 1, 3)
  assert state.num_claims == 4 and state.accepted.no_slot == 2


@pytest.mark.parametrize("capacity", [0, -1])
def test_a_ledger_without_slots_is_refused(capacity):
  with pytest.raises(ValueError, match="at least one slot"):
    ledgers.init_ledger(capacity)
