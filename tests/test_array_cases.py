"""What went wrong in other people's fixed-capacity arrays, as properties of this memory.

Each test states one kind of failure in its docstring; the ledgers' own mechanics are in
test_ledgers.py.
"""

import itertools
import random

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tarl_jax import actions, ledgers
from tarl_jax.rollout import Transactions, rollout
from tarl_jax.types import NO_CLAIM, Action, Claim, MemoryState, Status

APPEND, NOOP, REVISE, REJECT, DEFER = (int(action) for action in Action)


def step(state: MemoryState, action: int, slot: int, claim_id: int, number: int = 0):
  claim = Claim(claim_id=jnp.int32(claim_id), step=jnp.int32(number))
  return actions.execute(state, jnp.int32(action), jnp.int32(slot), claim)


def full_state(accepted: int = 3, pending: int = 2, history: int = 2, extra: int = 20):
  """Every ledger exactly full; the claims used are 0, 1, ... in order."""
  state = ledgers.init_state(accepted, pending, history, accepted + pending + history + extra)
  plan = [APPEND] * accepted + [DEFER] * pending + [REJECT] * history
  for number, action in enumerate(plan):
    state, info = step(state, action, 0, number, number)
    assert not bool(info.invalid)
  return state, len(plan)


def without_settling(action, target, claim_id) -> Transactions:
  """Transactions that leave Pending alone."""
  none = jnp.full_like(action, NO_CLAIM)
  return Transactions(action, target, claim_id, none, jnp.zeros_like(action))


def ids(ledger) -> list[int]:
  return [claim_id for claim_id in np.asarray(ledger.claim_id).tolist() if claim_id != NO_CLAIM]


@pytest.mark.parametrize("capacity", [4, 8])
def test_history_holds_the_last_rows_whatever_the_offset(capacity):
  """A batch over the free tail must wrap, not slide back over newer rows."""
  num_claims = 4 * capacity + 1
  numbers = jnp.arange(1, num_claims, dtype=jnp.int32)
  state, _ = step(ledgers.init_state(1, 1, capacity, num_claims), APPEND, 0, 0)
  stream = without_settling(jnp.full_like(numbers, REJECT), jnp.zeros_like(numbers), numbers)
  _, steps = jax.jit(rollout)(state, stream)
  for done in range(len(numbers)):
    before = jax.tree.map(lambda leaf: leaf[done], steps.state)  # noqa: B023
    assert sorted(ids(before.history)) == list(range(max(1, done + 1 - capacity), done + 1))
    left = int(steps.info.evicted.claim_id[done])
    assert left == (done + 1 - capacity if done >= capacity else NO_CLAIM)


def test_oldest_first_reading_never_mixes_two_rounds_of_the_ring():
  """Increasing claims, read from the next slot on, are consecutive at every moment."""
  state, used = full_state(history=3)
  for number in range(used, used + 11):
    state, _ = step(state, REJECT, 0, number, number)
    start = int(ledgers.next_slot(state.history))
    read = np.roll(np.asarray(state.history.claim_id), -start)
    np.testing.assert_array_equal(np.diff(read), 1)
    assert read[-1] == number


@pytest.mark.parametrize("action", [APPEND, DEFER])
@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_accepted_and_pending_count_right_around_full(action, extra):
  """Exactly full must look neither empty nor one short."""
  capacity = 3
  state = ledgers.init_state(capacity, capacity, 1, num_claims=9)
  for number in range(capacity + extra):
    state, info = step(state, action, 0, number)
  ledger = state.accepted if action == APPEND else state.pending
  expected = min(capacity, capacity + extra)
  assert int(ledgers.count(ledger)) == expected == int(ledger.valid.sum())
  assert ids(ledger) == list(range(expected))
  assert (int(info.overflow) == (0 if action == APPEND else 1)) == (extra == 1)


def test_counts_equal_the_mask_after_any_actions():
  """No sequence makes a count negative, too large, or other than the live rows."""
  rng = random.Random(5)
  state = ledgers.init_state(2, 3, 2, num_claims=60)
  for number in range(60):
    state, _ = step(state, rng.randrange(-1, 6), rng.randrange(-1, 4), number, number)
    for ledger in (state.accepted, state.pending, state.history):
      count = int(ledgers.count(ledger))
      assert 0 <= count <= ledger.capacity
      assert np.asarray(ledger.valid).tolist() == [slot < count for slot in range(ledger.capacity)]


@pytest.mark.parametrize("number", [2**24 + 1, 2**31 - 2])
def test_numbers_are_kept_to_the_last_bit(number):
  """A write must not round: a step beyond float32's exact range comes back as it was."""
  state, _ = step(ledgers.init_state(2, 1, 1, num_claims=4), APPEND, 0, 3, number)
  assert int(state.accepted.step[0]) == number
  assert state.accepted.rows.dtype == jnp.int32


@pytest.mark.parametrize("slot", [-1, -3, 3, 4, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("action", list(Action))
def test_no_index_outside_the_ledger_reaches_a_row(action, slot):
  """-1 must not mean the last row, in a full ledger or in one with room."""
  for state, claim_id in (full_state(), (ledgers.init_state(3, 2, 2, 30), 0)):
    after, info = step(state, action, slot, claim_id)
    chex.assert_trees_all_equal(after.accepted.rows[:, -1], state.accepted.rows[:, -1])
    if action in (REVISE, REJECT):
      assert bool(info.invalid)
      chex.assert_trees_all_equal(after, state)


@pytest.mark.parametrize("claim_id", [-1, -24, 24, 25, int(NO_CLAIM), -(2**31)])
@pytest.mark.parametrize("action", [APPEND, REVISE, REJECT, DEFER])
def test_no_claim_outside_the_table_is_let_in(action, claim_id):
  """The table of claims has the same edges as a ledger."""
  state = ledgers.init_state(3, 2, 2, num_claims=24)
  state, _ = step(state, APPEND, 0, 0)
  after, info = step(state, action, 0, claim_id)
  assert bool(info.invalid)
  chex.assert_trees_all_equal(after, state)


def test_masked_writes_of_a_batch_equal_a_numpy_loop():
  """Many dropped indices beside kept ones; nothing is promised about their order."""
  rng = np.random.default_rng(2)
  state, used = full_state()
  batch = 64
  states = jax.tree.map(lambda leaf: jnp.stack([leaf] * batch), state)
  slots = rng.integers(-2, 6, batch).astype(np.int32)
  claim = Claim(jnp.full(batch, used, jnp.int32), jnp.full(batch, 7, jnp.int32))
  after, info = jax.vmap(actions.revise)(states, claim, jnp.asarray(slots))
  expected = np.asarray(states.accepted.rows).copy()
  for member, slot in enumerate(slots):
    if 0 <= slot < 3:
      old = expected[member, 0, slot]
      expected[member, :, slot] = (used, Status.ACCEPTED, old, 7)
  np.testing.assert_array_equal(after.accepted.rows, expected)
  np.testing.assert_array_equal(info.invalid, (slots < 0) | (slots >= 3))


@pytest.mark.parametrize("action", [REVISE, REJECT, APPEND, DEFER])
def test_a_write_out_of_range_never_spills_into_the_next_member(action):
  """Ledgers of a batch are neighbours in memory and must not notice."""
  state, used = full_state()
  states = jax.tree.map(lambda leaf: jnp.stack([leaf] * 3), state)
  claim = Claim(jnp.full(3, used, jnp.int32), jnp.zeros(3, jnp.int32))
  for bad in (3, 4, -1, 2**31 - 1):
    slots = jnp.asarray([bad, 0, bad], jnp.int32)
    codes = jnp.asarray([action, NOOP, action], jnp.int32)
    after, _ = jax.vmap(actions.execute)(states, codes, slots, claim)
    chex.assert_trees_all_equal(after, states)


def test_two_claims_for_one_target_in_a_row_have_a_defined_winner():
  """The later one stands, the earlier one is in History, and each links to the other."""
  state, _ = step(ledgers.init_state(2, 1, 4, num_claims=5), APPEND, 0, 0)
  stream = without_settling(*jnp.asarray([[REVISE, 0, 1], [REVISE, 0, 2], [REVISE, 1, 3]]).T)
  final, steps = rollout(state, stream)
  # The second revision names claim 0, which is gone by then: refused, not redirected.
  assert np.asarray(steps.info.invalid).tolist() == [False, True, False]
  assert np.asarray(final.accepted.rows[:, 0]).tolist() == [3, Status.ACCEPTED, 1, 2]
  history = np.asarray(final.history.rows[:3, :2]).T.tolist()
  assert history == [[0, Status.SUPERSEDED, 1], [1, Status.SUPERSEDED, 3]]


def test_two_runs_give_the_same_bits():
  """Nothing in a transition depends on the order in which a device works."""
  rng = np.random.default_rng(4)
  codes = rng.integers(0, 5, (40, 16)).astype(np.int32)
  targets = rng.integers(-1, 40, (40, 16)).astype(np.int32)
  claims = np.broadcast_to(np.arange(40, dtype=np.int32)[:, None], (40, 16))
  state = ledgers.init_state(4, 3, 3, num_claims=40)
  run = jax.jit(jax.vmap(rollout, in_axes=(None, 1)))
  stream = without_settling(*map(jnp.asarray, (codes, targets, claims)))
  chex.assert_trees_all_equal(run(state, stream), run(state, stream))


def test_rows_written_in_one_scan_do_not_push_each_other_out():
  """As many rejections as History has slots all survive, on top of a full History."""
  state, used = full_state(history=4)
  numbers = jnp.arange(used, used + 4, dtype=jnp.int32)
  stream = without_settling(jnp.full_like(numbers, REJECT), jnp.zeros_like(numbers), numbers)
  final, steps = rollout(state, stream)
  assert sorted(ids(final.history)) == numbers.tolist()
  assert np.asarray(steps.info.evicted.claim_id).tolist() == [5, 6, 7, 8]


def test_a_slot_taken_over_shows_nothing_of_its_last_owner():
  """Every field of a reused History row is the newcomer's, as in a fresh ledger."""
  state, used = full_state(history=1)
  after, _ = step(state, REJECT, 1, used, 70)
  assert np.asarray(after.history.rows[:, 0]).tolist() == [used, Status.REJECTED, 1, 70]
  revised, _ = step(after, REVISE, 2, used + 1, 71)
  assert np.asarray(revised.accepted.rows[:, 2]).tolist() == [used + 1, Status.ACCEPTED, 2, 71]


def test_steps_and_fresh_states_are_of_one_type():
  """A weak type or another dtype would compile the step twice."""
  compiled = jax.jit(chex.assert_max_traces(actions.execute.__wrapped__, n=1))
  fresh = ledgers.init_state(2, 2, 2, num_claims=12)
  state = fresh
  for number, action in zip(range(10), itertools.cycle((0, 2, 3, 4, 1))):
    claim = Claim(claim_id=jnp.int32(number), step=jnp.int32(number))
    state, _ = compiled(state, jnp.int32(action), jnp.int32(0), claim)
  kinds = [
    [(leaf.shape, leaf.dtype, leaf.weak_type) for leaf in jax.tree.leaves(tree)]
    for tree in (fresh, state)
  ]
  assert kinds[0] == kinds[1]
