"""The counters: what a retrieval adds, what it must not, their range, their decay, their files."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarl_jax import by_claim, ledgers, settling, worth
from tarl_jax.errors import InputError
from tarl_jax.estimators import coverage, pooled
from tarl_jax.types import (
  NO_CLAIM,
  TIME_UNBOUNDED,
  TIME_UNKNOWN,
  Action,
  Claim,
  Settling,
)
from tarl_jax.worth import MAX_GRADED, MAX_WEIGHT, Outcome, record

NUM_LIVE, CAPACITY, STRATA, R = 3, 5, 2, 4


@functools.cache
def memory():
  """Claims 0, 1, 2 in the first three of five Accepted slots."""
  state = ledgers.init_state(CAPACITY, 1, 2, num_claims=8)
  rows = np.asarray(state.accepted.rows).copy()
  rows[:, :NUM_LIVE] = [[0, 1, 2], [1] * 3, [NO_CLAIM] * 3, [0] * 3]
  accepted = state.accepted.replace(rows=jnp.asarray(rows), written=jnp.int32(NUM_LIVE))
  return state.replace(accepted=accepted)


def counters(**cells) -> worth.Worth:
  """Zeros but for e.g. `s0=4.0`: success of slot 0 in stratum 0."""
  live = np.zeros((CAPACITY, STRATA, 3), np.float32)
  for name, value in cells.items():
    live["0123".index(name[1]), 0, "sfu".index(name[0])] = value
  return worth.init_worth(memory(), STRATA).replace(live=jnp.asarray(live))


def recorded(table, slots, outcome, weights=1.0, stratum=0):
  padded = np.full(R, CAPACITY, np.int32)
  padded[: len(slots)] = slots
  full = np.broadcast_to(np.asarray(weights, np.float32), R)
  return record(
    table, memory(), jnp.asarray(padded), jnp.asarray(full), jnp.int32(stratum), jnp.int32(outcome)
  )


anything = st.one_of(st.floats(width=32), st.sampled_from([1.0, 0.25, -1.0, 2.0, 1e30]))


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
  slots=st.lists(st.integers(-6, 7), min_size=R, max_size=R),
  weights=st.lists(anything, min_size=R, max_size=R),
  stratum=st.integers(-3, 3),
  outcome=st.integers(-1, 5),
)
def test_a_retrieval_adds_its_sound_weights_to_live_slots_and_nothing_else(
  slots, weights, stratum, outcome
):
  before = counters(s0=3.0, f1=2.0, u2=7.0)
  after = recorded(before, slots, outcome, np.asarray(weights, np.float32), stratum)
  expected = np.asarray(before.live, np.float64).copy()
  for slot, weight in zip(slots, weights):
    if 0 <= slot < NUM_LIVE and 0 <= stratum < STRATA and 0 <= outcome < 3:
      expected[slot, stratum, outcome] += min(weight, MAX_WEIGHT) if 0 < weight < np.inf else 0.0
  np.testing.assert_allclose(after.live, expected, rtol=1e-6)
  chex.assert_trees_all_equal(after.past, before.past)
  chex.assert_trees_all_equal_shapes_and_dtypes(after, before)


def test_a_repeated_slot_counts_each_time_whatever_the_order_of_a_scatter():
  weights = np.asarray([1e-3, 1000.0, 1e-3, 0.5], np.float32)
  after = recorded(counters(), [1, 1, 0, 1], Outcome.FAILURE, weights)
  by_scatter = jnp.zeros(CAPACITY).at[jnp.asarray([1, 1, 0, 1])].add(weights)
  np.testing.assert_allclose(after.failure[:, 0], by_scatter, rtol=1e-6)
  slots, total = worth.merge_repeats(jnp.asarray([4, 2, 4, 4, 2]), jnp.arange(5.0), 9)
  assert slots.tolist() == [4, 2, 9, 9, 9] and total.tolist()[:2] == [5.0, 5.0]


def test_an_unknown_outcome_is_no_failure_and_none_is_nothing():
  before = counters(s0=3.0, f0=1.0)
  after = recorded(before, [0, 0, 1], Outcome.UNKNOWN)
  chex.assert_trees_all_equal((after.success, after.failure), (before.success, before.failure))
  assert after.unknown[:, 0].tolist() == [2, 1, 0, 0, 0]
  assert pooled(after).tolist() == [0.75, 0.5, 0.5, 0.5, 0.5]
  np.testing.assert_allclose(coverage(after), [4 / 6, 0, 0, 0, 0], rtol=1e-6)
  chex.assert_trees_all_equal(recorded(after, [0, 1], Outcome.NONE), after)


def test_the_range_of_float32_bends_neither_worth_nor_coverage():
  """Three successes in four, 2^24 and far beyond, at the largest weight and a repeated slot."""

  def episode(table, number):
    outcome = jnp.where(number % 4 == 3, int(Outcome.FAILURE), int(Outcome.SUCCESS))
    slots, weights = jnp.zeros(R, jnp.int32), jnp.full(R, MAX_WEIGHT, jnp.float32)
    stratum = jnp.int32(0)
    return record(table, memory(), slots, weights, stratum, outcome.astype(jnp.int32)), None

  after, _ = jax.jit(lambda t: jax.lax.scan(episode, t, jnp.arange(20_000)))(counters())
  assert R * MAX_WEIGHT * 20_000 > 4 * 2**24
  assert float(after.success[0, 0] + after.failure[0, 0]) <= MAX_GRADED + R * MAX_WEIGHT
  assert abs(float(pooled(after)[0]) - 0.75) < 1e-3
  # One more outcome still counts, exactly, where a plain float32 counter stands still.
  assert np.float32(2**24) + np.float32(1) == np.float32(2**24)
  full = recorded(counters(s0=MAX_GRADED - 2, f0=2.0, u0=8.0), [0], Outcome.FAILURE)
  assert np.asarray(full.live[0, 0]).tolist() == [MAX_GRADED / 2 - 1, 2.0, 4.0]
  below = recorded(counters(s0=MAX_GRADED - 3, f0=2.0), [0], Outcome.FAILURE)
  assert np.asarray(below.live[0, 0]).tolist() == [MAX_GRADED - 3, 3.0, 0.0]


def test_weights_uniform_and_by_similarity():
  valid = jnp.asarray([True, True, False, True])
  assert worth.uniform_weights(valid).tolist() == [1, 1, 0, 1]
  weights = worth.similarity_weights(jnp.asarray([0.2, 0.6, 9.0, 0.4]), valid)
  np.testing.assert_allclose(weights, [0.5, 1.5, 0, 1.0], rtol=1e-6)
  weights = worth.similarity_weights(jnp.asarray([-0.2, np.nan, 0.1, np.inf]), valid)
  assert weights.tolist() == [1, 1, 0, 1]  # nothing to go by: all alike
  huge = worth.similarity_weights(jnp.asarray([3e37, 1e37, 1.0, 2e37]), valid)
  np.testing.assert_allclose(huge, [1.5, 0.5, 0, 1.0], rtol=1e-5)
  tiny = worth.similarity_weights(jnp.asarray([3e-30, 1e-30, 1.0, 2e-30]), valid)
  np.testing.assert_allclose(tiny, [1.5, 0.5, 0, 1.0], rtol=1e-5)


def test_decay_depends_on_the_time_that_passed_and_not_on_the_calls():
  at = functools.partial(jnp.int32)
  start = worth.decay(counters(s0=9.0, f0=1.0, u0=4.0), at(31_000_000), half_life=90.0)
  assert int(start.last) == 31_000_000 and float(start.success[0, 0]) == 9.0
  many = start
  for minute in range(1, 61):
    many = worth.decay(many, at(31_000_000 + minute), half_life=90.0)
  once = worth.decay(start, at(31_000_060), half_life=90.0)
  np.testing.assert_allclose(many.live, once.live, rtol=1e-5, atol=1e-6)
  assert int(many.last) == int(once.last) == 31_000_060
  half = worth.decay(start, at(31_000_090), half_life=90.0)
  np.testing.assert_allclose(half.live[0, 0], [4.5, 0.5, 2.0], rtol=1e-6)


@pytest.mark.parametrize("now", [30_999_999, 31_000_000, TIME_UNKNOWN, TIME_UNBOUNDED, -5])
def test_a_clock_that_stands_or_goes_back_changes_nothing(now):
  start = counters(s0=9.0, f0=1.0).replace(last=jnp.int32(31_000_000))
  chex.assert_trees_all_equal(worth.decay(start, jnp.int32(now), half_life=90.0), start)


def test_decay_over_the_whole_of_time_is_finite_and_fades_the_archive_too():
  start = counters(s0=9.0).replace(
    last=jnp.int32(TIME_UNKNOWN + 1), past=jnp.ones((2, STRATA, 3), jnp.float32)
  )
  late = worth.decay(start, jnp.int32(TIME_UNBOUNDED - 1), half_life=2.0**32)
  np.testing.assert_allclose(late.success[0, 0], 9 / 2, rtol=1e-5)
  np.testing.assert_allclose(late.past, 0.5, rtol=1e-5)
  gone = worth.decay(start, jnp.int32(TIME_UNBOUNDED - 1), half_life=90.0)
  assert not np.asarray(gone.live).any() and float(pooled(gone)[0]) == 0.5
  for half_life in (0.0, -1.0, float("nan")):
    with pytest.raises(ValueError, match="half-life must be over 0"):
      worth.decay(start, jnp.int32(0), half_life)


def test_counters_inside_a_scan_of_transactions_equal_a_loop_and_a_batch():
  """Each step retrieves before it changes the memory; some steps are revises."""
  steps, none = 12, Settling(jnp.int32(1), jnp.int32(0))

  def step(carry, inputs):
    state, table = carry
    number, action, slot, outcome = inputs
    slots = jnp.stack([slot, slot - 1, jnp.int32(CAPACITY), slot])
    table = record(table, state, slots, jnp.ones(R, jnp.float32), number % STRATA, outcome)
    claim = Claim(claim_id=number, step=number)
    after, _, _ = settling.transact(state, action, slot, claim, none)
    return (after, by_claim.follow_step(table, state, after, slot)[0]), None

  rng = np.random.default_rng(3)
  columns = rng.integers([0, 0, 0], [3, 3, 4], size=(2, steps, 3)).astype(np.int32)
  columns[:, ::3, 0], columns[:, 2::3, 0] = Action.APPEND, Action.REVISE
  numbers = np.tile(np.arange(steps, dtype=np.int32)[:, None], (2, 1, 1))
  inputs = tuple(jnp.moveaxis(jnp.asarray(np.concatenate([numbers, columns], axis=2)), 2, 0))
  empty = ledgers.init_state(CAPACITY, 1, 2, num_claims=steps)
  start = (empty, worth.init_worth(empty, STRATA))
  run = jax.jit(jax.vmap(lambda one: jax.lax.scan(step, start, one)[0]))
  batch = run(inputs)
  jit_step, moved = jax.jit(step), 0
  for member in range(2):
    carry = start
    for number in range(steps):
      carry, _ = jit_step(carry, tuple(column[member, number] for column in inputs))
    chex.assert_trees_all_equal(carry, jax.tree.map(lambda leaf: leaf[member], batch))  # noqa: B023
    moved += float(jnp.sum(carry[1].past)) > 0
  assert moved


def test_counters_from_outside_are_checked_and_absent_is_not_zero():
  records = [{"success": 3, "failure": 0.5}, None, {"success": 0, "failure": 0, "unknown": 6}, {}]
  counts, known = worth.read_counts(records, "own.json")
  assert counts.tolist() == [[3, 0.5, 0], [0, 0, 0], [0, 0, 6], [0, 0, 0]]
  assert known.tolist() == [True, False, True, False] and counts.dtype == np.float32


@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf"), "3", True, 2**24 + 1, [1]])
def test_a_counter_that_is_no_count_is_refused_by_name(bad):
  with pytest.raises(InputError, match=r"own.json: memory 1, failure: .* is no count; give"):
    worth.read_counts([{"success": 1, "failure": 1}, {"success": 1, "failure": bad}], "own.json")


def test_half_a_record_and_no_stratum_are_refused():
  with pytest.raises(InputError, match="memory 0, success: None is no count"):
    worth.read_counts([{"failure": 2}], "own.json")
  with pytest.raises(ValueError, match="at least one task stratum"):
    worth.init_worth(memory(), 0)
