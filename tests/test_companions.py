"""Pair counts against a plain list of episodes, and what they can and cannot tell apart."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from tarl_jax import ledgers, settling
from tarl_jax.companions import (
  apart,
  follow_companions,
  init_companions,
  record_together,
  worth_without,
)
from tarl_jax.types import NO_CLAIM, Action, Claim, Settling
from tarl_jax.worth import MAX_GRADED, Outcome

CAPACITY, R = 5, 3


def memory(size: int = CAPACITY):
  state = ledgers.init_state(CAPACITY, 1, 2, num_claims=12)
  rows = np.asarray(state.accepted.rows).copy()
  rows[0, :size], rows[1, :size] = np.arange(size), 1
  accepted = state.accepted.replace(rows=jnp.asarray(rows), written=jnp.int32(size))
  return state.replace(accepted=accepted)


def recorded(companions, state, slots, outcome=Outcome.SUCCESS):
  padded = np.full(R, CAPACITY, np.int32)
  padded[: len(slots)] = slots
  return record_together(companions, state, jnp.asarray(padded), jnp.int32(outcome))


def recount(episodes: list[tuple[set[int], int]]) -> np.ndarray:
  """[K, K, 2] from sets of slots and outcomes."""
  counts = np.zeros((CAPACITY, CAPACITY, 2), np.float32)
  for slots, outcome in episodes:
    for first, second in itertools.product(slots, slots):
      counts[first, second, outcome] += 1
  return counts


def test_counts_are_those_of_the_episodes():
  rng, state = np.random.default_rng(1), memory(4)
  companions, episodes = init_companions(state), []
  for _ in range(40):
    slots = rng.integers(-1, CAPACITY + 1, R)
    outcome = int(rng.integers(-1, 4))
    companions = recorded(companions, state, slots, outcome)
    if outcome in (Outcome.SUCCESS, Outcome.FAILURE):
      episodes.append(({int(slot) for slot in slots if 0 <= slot < 4}, outcome))
  np.testing.assert_array_equal(companions.graded, recount(episodes))
  counts = recount(episodes)
  alone = np.asarray(
    [
      min(
        sum(a in s and b not in s for s, _ in episodes)
        if counts[a, b].sum()
        else counts[a, a].sum()
        for b in range(CAPACITY)
        if b != a
      )
      for a in range(CAPACITY)
    ]
  )
  np.testing.assert_array_equal(apart(companions), alone)
  expected = np.full((CAPACITY, CAPACITY), 0.5)
  for a, b in itertools.product(range(CAPACITY), repeat=2):
    outcomes = [outcome for s, outcome in episodes if a in s and b not in s]
    if outcomes:
      expected[a, b] = outcomes.count(Outcome.SUCCESS) / len(outcomes)
  np.testing.assert_allclose(worth_without(companions), expected, rtol=1e-6)


def test_counts_move_with_their_claims():
  """Pairs are looked up by claim before and after a revise and withdrawals of every slot."""
  rng, state = np.random.default_rng(2), memory(4)
  companions = init_companions(state)
  for _ in range(15):
    companions = recorded(companions, state, rng.integers(0, 4, R))
  claim, none = Claim(jnp.int32(9), jnp.int32(9)), Settling(jnp.int32(1), jnp.int32(0))
  counts, take_row = np.asarray(companions.graded), jax.jit(ledgers.take_row)
  for slot in range(-1, CAPACITY + 1):
    revised, _, _ = settling.transact(state, jnp.int32(Action.REVISE), jnp.int32(slot), claim, none)
    live = ledgers.is_live(state.accepted, jnp.int32(slot))
    shorter, _ = take_row(state.accepted, jnp.int32(slot), live)
    for after in (revised, state.replace(accepted=shorter)):
      moved = np.asarray(follow_companions(companions, state, after, jnp.int32(slot)).graded)
      ids = np.asarray(after.accepted.claim_id).tolist()
      for (a, first), (b, second) in itertools.product(enumerate(ids), repeat=2):
        old = first < 4 and second < 4 and NO_CLAIM not in (first, second)
        expected = counts[first, second] if old else np.zeros(2)
        np.testing.assert_array_equal(moved[a, b], expected)


def test_a_pair_that_is_always_together_is_told_apart_only_by_what_is_apart():
  state = memory(3)
  companions = init_companions(state)
  for _ in range(6):
    companions = recorded(companions, state, [0, 1])
  assert apart(companions).tolist() == [0, 0, 0, 0, 0]
  for _ in range(4):
    companions = recorded(companions, state, [0])
    companions = recorded(companions, state, [1], Outcome.FAILURE)
  assert apart(companions)[:2].tolist() == [4, 4]
  without = worth_without(companions)
  assert float(without[0, 1]) == 1.0 and float(without[1, 0]) == 0.0


def test_a_memory_at_the_end_of_the_range_stops_counting_with_its_pairs():
  state = memory(3)
  full = jax.tree.map(lambda x: x.at[0, 0, 0].set(MAX_GRADED), init_companions(state))
  after = recorded(full, state, [0, 1])
  np.testing.assert_array_equal(after.graded[0], full.graded[0])
  assert float(after.graded[1, 1, 0]) == 1.0 and float(after.graded[1, 0, 0]) == 0.0
