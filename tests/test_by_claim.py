"""Numbers follow their claims: `follow_step` and `follow` against a dictionary by claim."""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tarl_jax import by_claim, ledgers, settling
from tarl_jax.by_claim import ByClaim, follow, follow_step
from tarl_jax.types import NO_CLAIM, Action, Claim, Row, Settling, Status

# Small rings fill at once; a ring of one loses what a revise files when the step also settles.
SIZES = ((3, 2, 1), (4, 2, 2))
STEPS = 60


@jax.jit
def withdraw(state, slot, step, files):
  """A claim leaves Accepted as in governance: the last row fills the gap."""
  live = ledgers.is_live(state.accepted, slot)
  accepted, row = ledgers.take_row(state.accepted, slot, live)
  old = row._replace(status=jnp.int32(Status.DEPRECATED), step=step)
  history, _ = ledgers.push_ring(state.history, old, live & files)
  return state.replace(accepted=accepted, history=history)


@jax.jit
def bring_back(state, step):
  """The newest History row goes back into Accepted, while the ring has not wrapped."""
  newest = ledgers.count(state.history) - 1
  found = (newest >= 0) & (state.history.written <= state.history.capacity)
  found &= ~ledgers.is_full(state.accepted)
  history, row = ledgers.take_row(state.history, newest, found)
  back = row._replace(status=jnp.int32(Status.ACCEPTED), step=step)
  accepted = ledgers.push_row(state.accepted, back, found)
  return state.replace(accepted=accepted, history=history)


@jax.jit
def put_numbers(table, state, slot, number):
  """Some evidence for the claim in a live slot."""
  index = jnp.where(ledgers.is_live(state.accepted, slot), slot, state.accepted.capacity)
  return table.replace(live=table.live.at[index].add(number, mode="drop"))


def init_table(state, width=(2,)) -> ByClaim:
  return ByClaim(
    live=jnp.zeros((state.accepted.capacity, *width), jnp.float32),
    past=jnp.zeros((state.history.capacity, *width), jnp.float32),
    past_id=jnp.copy(state.history.claim_id),
  )


def ids_of(ledger) -> list[int]:
  return np.asarray(ledger.claim_id).tolist()


class Events(NamedTuple):
  """One thing to do a step, int32 [T] each."""

  kind: jax.Array  # 0-4 an action, 5 and 6 a withdrawal without and with History, 7 a return
  slot: jax.Array
  settles: jax.Array  # Pending slot
  credited: jax.Array  # Accepted slot that gets numbers before the step


@jax.jit
def run(state, events: Events):
  """Every step done once and followed in both ways; (states before and after, tables, lefts)."""

  def step(carry, event_and_number):
    (state, table), (event, number) = carry, event_and_number
    table = put_numbers(table, state, event.credited, jnp.asarray(number + 1, jnp.float32))
    claim, settle = Claim(number, number), Settling(event.settles, jnp.int32(Status.REJECTED))
    acted, _, _ = settling.transact(state, event.kind, event.slot, claim, settle)
    left_it = withdraw(state, event.slot, number, event.kind == 6)
    returned = bring_back(state, number)
    branch = jnp.clip(event.kind - 4, 0, 3)
    options = (acted, left_it, left_it, returned)
    after = jax.tree.map(lambda *leaves: jax.lax.select_n(branch, *leaves), *options)
    moved = follow(table, state, after)
    return (after, moved[0]), (
      state,
      table,
      after,
      moved,
      follow_step(table, state, after, event.slot),
    )

  numbers = jnp.arange(events.kind.shape[0], dtype=jnp.int32)
  return jax.lax.scan(step, (state, init_table(state)), (events, numbers))[1]


def check_against(table: ByClaim, state, numbers: dict[int, float]):
  for ledger, rows in ((state.accepted, table.live), (state.history, table.past)):
    expected = [numbers.get(claim, 0.0) for claim in ids_of(ledger)]
    np.testing.assert_array_equal(np.asarray(rows), np.stack([expected, expected], axis=1))
  np.testing.assert_array_equal(table.past_id, state.history.claim_id)


def check_left(left, before, after, numbers: dict[int, float]):
  """What left is every claim with a place before and none after, with its numbers."""
  places = [set(ids_of(s.accepted) + ids_of(s.history)) - {int(NO_CLAIM)} for s in (before, after)]
  gone = places[0] - places[1]
  found = dict(zip(left.claim_id.tolist(), left.numbers[:, 0].tolist()))
  assert found.pop(int(NO_CLAIM), 0.0) == 0.0
  assert found == {claim: numbers.get(claim, 0.0) for claim in gone}
  return gone


def random_events(seed: int, sizes) -> Events:
  rng = np.random.default_rng([seed, *sizes])
  kind = rng.choice(8, STEPS, p=[0.3, 0.04, 0.2, 0.06, 0.1, 0.08, 0.08, 0.14])
  slot = rng.integers(-1, sizes[0] + 2, STEPS)
  settles = rng.choice([0, sizes[1]], STEPS)
  columns = (kind, slot, settles, rng.integers(-1, sizes[0] + 1, STEPS))
  return Events(*(jnp.asarray(column, jnp.int32) for column in columns))


@pytest.mark.parametrize("sizes", SIZES)
def test_numbers_go_where_their_claims_go(sizes):
  seen = np.zeros(8, int)
  for seed in range(3):
    events = random_events(seed, sizes)
    out = jax.tree.map(np.asarray, run(ledgers.init_state(*sizes, num_claims=STEPS), events))
    numbers: dict[int, float] = {}
    for step in range(STEPS):
      before, table, after, (moved, left), (stepped, left_by_step) = jax.tree.map(
        lambda leaf: leaf[step],  # noqa: B023
        out,
      )
      slot = int(events.credited[step])
      if 0 <= slot < int(ledgers.count(before.accepted)):
        claim = ids_of(before.accepted)[slot]
        numbers[claim] = numbers.get(claim, 0.0) + step + 1
      check_against(table, before, numbers)
      gone = check_left(left, before, after, numbers)
      if events.kind[step] != 7:  # what comes back is not for `follow_step`
        check_left(left_by_step, before, after, numbers)
        chex.assert_trees_all_equal(stepped, moved)
      for claim in gone:
        numbers.pop(claim, None)
      check_against(moved, after, numbers)
      seen[events.kind[step]] += not np.array_equal(before.accepted.rows, after.accepted.rows)
      seen[3] += len(gone) > 0
  assert (seen[[0, 2, 3, 5, 6]] > 2).all() and (seen[7] > 0 or sizes[2] == 1)


def revised_twice():
  """Claims 0 and 1 in Accepted with numbers 5 and 7, then 2 replaces 0 and 3 replaces 1."""
  state = ledgers.init_state(2, 1, 2, num_claims=8)
  none = Settling(jnp.int32(1), jnp.int32(0))
  for claim_id in (0, 1):
    claim = Claim(claim_id=jnp.int32(claim_id), step=jnp.int32(claim_id))
    state, _, _ = settling.transact(state, jnp.int32(0), jnp.int32(2), claim, none)
  table = init_table(state)
  table = put_numbers(put_numbers(table, state, jnp.int32(0), 5.0), state, jnp.int32(1), 7.0)
  for claim_id in (2, 3):
    claim = Claim(claim_id=jnp.int32(claim_id), step=jnp.int32(claim_id))
    slot = jnp.int32(claim_id - 2)
    after, _, _ = settling.transact(state, jnp.int32(Action.REVISE), slot, claim, none)
    table, left = follow_step(table, state, after, slot)
    assert (np.asarray(left.claim_id) == NO_CLAIM).all()
    state = after
  return state, table


def test_a_revise_archives_the_old_numbers_and_the_newcomer_starts_at_zero():
  state, table = revised_twice()
  np.testing.assert_array_equal(table.live, np.zeros((2, 2)))
  np.testing.assert_array_equal(table.past, [[5, 5], [7, 7]])
  # The ring is full: the next revise gives up the oldest row, and its numbers come back.
  claim = Claim(claim_id=jnp.int32(4), step=jnp.int32(4))
  none = Settling(jnp.int32(1), jnp.int32(0))
  after, info, _ = settling.transact(state, jnp.int32(2), jnp.int32(0), claim, none)
  table, left = follow_step(table, state, after, jnp.int32(0))
  assert int(info.evicted.claim_id) == 0
  assert np.asarray(left.claim_id).tolist() == [0, NO_CLAIM, NO_CLAIM]
  np.testing.assert_array_equal(left.numbers, [[5, 5], [0, 0], [0, 0]])
  np.testing.assert_array_equal(table.past, [[0, 0], [7, 7]])


def test_what_comes_back_from_history_has_its_numbers_again_and_an_erased_row_has_none():
  state, table = revised_twice()
  state_with_room = withdraw(state, jnp.int32(0), jnp.int32(5), False)
  table, left = follow_step(table, state, state_with_room, jnp.int32(0))
  assert np.asarray(left.claim_id).tolist() == [NO_CLAIM, NO_CLAIM, 2]
  after = bring_back(state_with_room, jnp.int32(6))
  back, _ = follow(table, state_with_room, after)
  assert ids_of(after.accepted) == [3, 1]
  np.testing.assert_array_equal(back.live, [[0, 0], [7, 7]])
  np.testing.assert_array_equal(back.past, [[5, 5], [0, 0]])
  row = Row(*(jnp.int32(x) for x in (0, Status.ERASED, NO_CLAIM, 7)))
  erased = after.replace(history=ledgers.write_row(after.history, jnp.int32(0), row, True))
  table, left = follow(back, after, erased)
  assert not np.asarray(table.past).any() and int(left.claim_id[0]) == 0


def test_wider_numbers_and_a_batch_move_alike():
  state, _ = revised_twice()
  table = init_table(state, (2, 3))
  table = table.replace(live=jnp.arange(12, dtype=jnp.float32).reshape(2, 2, 3))
  slots = jnp.arange(-1, 3, dtype=jnp.int32)
  after = jax.vmap(withdraw, in_axes=(None, 0, None, None))(state, slots, jnp.int32(9), True)
  batch = jax.vmap(by_claim.follow_step, in_axes=(None, None, 0, 0))(table, state, after, slots)
  for member in range(4):
    one = jax.tree.map(lambda leaf: leaf[member], (after, batch))  # noqa: B023
    chex.assert_trees_all_equal(one[1], follow_step(table, state, one[0], slots[member]))
    chex.assert_trees_all_equal_shapes_and_dtypes(one[1][0], table)
