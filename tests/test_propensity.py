"""IPS, SNIPS and doubly robust from the sums of the scan against the same from a plain log."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tarl_jax import by_claim, ledgers
from tarl_jax.propensity import (
  doubly_robust,
  effect,
  effective_size,
  init_logged,
  ips,
  is_enough,
  log_episode,
  snips,
  stratum_means,
)
from tarl_jax.types import NO_CLAIM
from tarl_jax.worth import MAX_GRADED, Outcome

CAPACITY, LIVE, STRATA, R, EPISODES = 5, 4, 2, 3, 300


@functools.cache
def memory():
  """Claims 0 to 3 in the first four of five Accepted slots."""
  state = ledgers.init_state(CAPACITY, 1, 2, num_claims=8)
  rows = np.asarray(state.accepted.rows).copy()
  rows[:, :LIVE] = [[0, 1, 2, 3], [1] * 4, [NO_CLAIM] * 4, [0] * 4]
  accepted = state.accepted.replace(rows=jnp.asarray(rows), written=jnp.int32(LIVE))
  return state.replace(accepted=accepted)


@jax.jit
def log_all(logged, episodes):
  def step(logged, episode):
    return log_episode(logged, memory(), *episode), None

  return jax.lax.scan(step, logged, episodes)[0]


@functools.cache
def plain_log():
  """Episodes with odd slots, strata, outcomes and propensities among them."""
  rng = np.random.default_rng(5)
  slots = rng.integers(-1, CAPACITY + 2, (EPISODES, R)).astype(np.int32)
  chance = rng.uniform(0.1, 0.9, (EPISODES, CAPACITY)).astype(np.float32)
  odd = rng.uniform(size=chance.shape)
  for limit, value in ((0.05, 0.0), (0.1, 1.0), (0.13, np.nan), (0.16, -0.3), (0.19, 1.4)):
    chance = np.where((odd < limit) & (odd >= limit - 0.05), np.float32(value), chance)
  chance[:, 1] = np.where(np.isfinite(chance[:, 1]), chance[:, 1] * 0.02, np.nan)  # for the clip
  stratum = rng.choice([0, 0, 0, 1, 1, 1, -1, 2], EPISODES).astype(np.int32)
  outcome = rng.choice([0, 0, 0, 1, 1, 1, 2, 3, -1], EPISODES).astype(np.int32)
  return slots, chance, stratum, outcome


@functools.cache
def logged():
  return log_all(init_logged(memory(), STRATA), tuple(map(jnp.asarray, plain_log())))


def of(memory_slot: int, stratum: int, clip: float = 0.01):
  """(A, Y, p as used) of the counted episodes of one memory and stratum, in float64."""
  slots, chance, strata, outcome = plain_log()
  p = chance[:, memory_slot].astype(np.float64)
  counted = (strata == stratum) & np.isin(outcome, [0, 1]) & (p > 0) & (p < 1)
  retrieved = (slots == memory_slot).any(axis=1)[counted]
  return retrieved, (outcome == 0)[counted].astype(float), p[counted], clip


def test_the_sums_are_those_of_the_plain_log_and_free_slots_hold_none():
  sums = np.asarray(logged().live)
  for slot in range(LIVE):
    for stratum in range(STRATA):
      retrieved, y, p, clip = of(slot, stratum)
      for arm in (0, 1):
        here = retrieved == bool(arm)
        w = 1 / np.maximum(p if arm else 1 - p, clip)[here]
        yy, ones = y[here], np.ones(here.sum())
        expected = [(x * z).sum() for x in (ones, w, w * w) for z in (ones, yy)]
        np.testing.assert_allclose(sums[slot, stratum, arm], expected, rtol=1e-4)
  assert not sums[LIVE:].any() and sums[:LIVE, ..., 0].min() > 0


def by_hand(slot: int, model: np.ndarray):
  """IPS, SNIPS and DR of both arms at the mix of the counted episodes, from the log."""
  total, values = 0, np.zeros((3, 2))
  for stratum in range(STRATA):
    retrieved, y, p, clip = of(slot, stratum)
    total += len(y)
    for arm in (0, 1):
      w = (retrieved == bool(arm)) / np.maximum(p if arm else 1 - p, clip)
      m = model[slot, stratum, arm]
      three = ((w * y).mean(), (w * y).sum() / w.sum(), (m + w * (y - m)).mean())
      values[:, arm] += len(y) * np.asarray(three)
  return values / total


def test_the_three_estimates_are_those_of_the_plain_log():
  sums = logged().live
  model = np.asarray(stratum_means(sums))
  assert ((model >= 0) & (model <= 1)).all()
  estimates = [np.asarray(how(sums).value) for how in (ips, snips, doubly_robust)]
  for slot in range(LIVE):
    expected = by_hand(slot, model)
    found = [value[slot] for value in estimates]
    np.testing.assert_allclose(found, expected, rtol=2e-4)
    given = np.random.default_rng(slot).uniform(size=model.shape).astype(np.float32)
    own = np.asarray(doubly_robust(sums, jnp.asarray(given)).value)
    np.testing.assert_allclose(own[slot], by_hand(slot, given)[2], rtol=2e-3, atol=1e-4)
  nothing = doubly_robust(sums, jnp.zeros(model.shape)).value
  np.testing.assert_allclose(nothing, ips(sums).value, rtol=1e-6)  # no model: IPS is left
  both = effect(snips(sums))
  np.testing.assert_allclose(both.value, estimates[1] @ [-1.0, 1.0], rtol=1e-5)


def test_standard_errors_are_those_of_the_terms_of_the_plain_log():
  """One stratum: the error of an effect is the spread of its terms over the root of N."""
  sums = jnp.asarray(np.asarray(logged().live)[:, :1])
  model = np.asarray(stratum_means(sums))
  found = [(how(sums), effect(how(sums))) for how in (ips, snips, doubly_robust)]
  for slot in range(LIVE):
    retrieved, y, p, clip = of(slot, 0)
    w = np.stack([~retrieved / np.maximum(1 - p, clip), retrieved / np.maximum(p, clip)])
    rate = (w * y).sum(axis=1, keepdims=True) / w.sum(axis=1, keepdims=True)
    m = model[slot, 0][:, None]
    terms = (w * y, w * (y - rate) / w.mean(axis=1, keepdims=True), w * (y - m))
    for (arms, both), term in zip(found, terms):
      root = np.sqrt(len(y))
      np.testing.assert_allclose(arms.error[slot], term.std(axis=1) / root, rtol=2e-3)
      np.testing.assert_allclose(both.error[slot], (term[1] - term[0]).std() / root, rtol=2e-3)


def test_estimates_at_a_given_mix_of_tasks():
  sums = np.asarray(logged().live)
  one = snips(jnp.asarray(sums[:, 1:]))
  chex.assert_trees_all_close(snips(sums, jnp.asarray([0.0, 2.0])), one, rtol=1e-6)
  halves = snips(sums, jnp.asarray([0.5, 0.5])).value
  other = snips(jnp.asarray(sums[:, :1]))
  expected = (np.asarray(one.value) + np.asarray(other.value)) / 2
  np.testing.assert_allclose(halves, expected, rtol=1e-6)


def test_effective_size_and_a_plain_not_enough():
  sums = logged().live
  sizes = np.asarray(effective_size(sums))
  for slot in range(LIVE):
    weights = ([], [])
    for stratum in range(STRATA):
      retrieved, _, p, clip = of(slot, stratum)
      for arm in (0, 1):
        here = retrieved == bool(arm)
        weights[arm].extend(1 / np.maximum(p if arm else 1 - p, clip)[here])
    expected = [np.sum(w) ** 2 / np.sum(np.square(w)) for w in weights]
    np.testing.assert_allclose(sizes[slot], expected, rtol=1e-3)
  found = effect(doubly_robust(sums))
  width = 2 * np.float32(1.96) * np.asarray(found.error)
  assert not np.asarray(is_enough(sums, found, 1.0, 10.0))[LIVE] and np.isinf(width[LIVE])
  size = sizes.min(axis=1)
  for least, widest in ((5.0, 10.0), (1.0, 0.4), (float(size[2]), 10.0)):
    expected = (size >= least) & (width <= widest)
    assert is_enough(sums, found, least, widest).tolist() == expected.tolist()


@functools.partial(jax.jit, static_argnames="episodes")
def confounded(key, episodes: int):
  """Four memories with effects -0.1, 0, 0.05, 0.1; hard tasks ask for the better ones."""
  effects = jnp.asarray([-0.1, 0.0, 0.05, 0.1])
  chances = jnp.asarray([[0.6, 0.5, 0.3, 0.1], [0.1, 0.3, 0.5, 0.6]])

  def episode(logged, key):
    key_task, key_pick, key_end = jax.random.split(key, 3)
    hard = jax.random.bernoulli(key_task).astype(jnp.int32)
    taken = jax.random.uniform(key_pick, (LIVE,)) < chances[hard]
    rate = jnp.where(hard == 1, 0.2, 0.75) + jnp.sum(jnp.where(taken, effects, 0.0))
    failed = (jax.random.uniform(key_end) >= rate).astype(jnp.int32)
    slots = jnp.where(taken, jnp.arange(LIVE, dtype=jnp.int32), CAPACITY)
    chance = jnp.pad(chances[hard], (0, CAPACITY - LIVE))
    return log_episode(logged, memory(), slots, chance, hard, failed), None

  start = init_logged(memory(), STRATA)
  return jax.lax.scan(episode, start, jax.random.split(key, episodes))[0], effects


def test_estimates_find_the_effects_where_worth_has_them_in_the_wrong_order():
  """Within five standard errors, and the errors are those of repeated runs."""
  runs = jax.vmap(lambda key: confounded(key, episodes=1500))
  found, effects = runs(jax.random.split(jax.random.key(0), 30))
  counts = np.asarray(found.live)[0].sum(axis=1)[:LIVE, 1]
  worth = counts[:, 1] / counts[:, 0]
  assert worth[3] < worth[1]  # the best memory looks worse than one without any effect
  for estimator in (ips, snips, doubly_robust):
    value, error = jax.vmap(lambda sums: effect(estimator(sums)))(found.live)  # noqa: B023
    value, error = np.asarray(value)[:, :LIVE], np.asarray(error)[:, :LIVE]
    assert (np.abs(value - effects) < 5 * error).all()
    mean_error = error.mean(axis=0) / np.sqrt(len(value))
    assert (np.abs(value.mean(axis=0) - effects[0]) < 5 * mean_error).all()
    ratio = value.std(axis=0) / error.mean(axis=0)
    assert ((ratio > 0.7) & (ratio < 1.35)).all(), ratio


def test_sums_at_the_end_of_their_range_are_halved_and_the_estimates_stay():
  full = np.asarray(logged().live) * np.float32(MAX_GRADED / 16)
  table = logged().replace(live=jnp.asarray(full))
  slots, chance = jnp.asarray([0, 1, 2], jnp.int32), jnp.full(CAPACITY, 0.5, jnp.float32)
  after = log_episode(table, memory(), slots, chance, jnp.int32(1), jnp.int32(Outcome.FAILURE))
  found = np.asarray(after.live)
  np.testing.assert_allclose(found[:LIVE, 1], full[:LIVE, 1] / 2, rtol=1e-5)
  np.testing.assert_array_equal(found[:, 0], full[:, 0])
  with pytest.raises(ValueError, match="at least one task stratum"):
    init_logged(memory(), 0)


def test_sums_follow_their_claims():
  state, sums = memory(), logged()
  accepted, _ = jax.jit(ledgers.take_row)(state.accepted, jnp.int32(1), jnp.bool_(True))
  moved, _ = by_claim.follow_step(sums, state, state.replace(accepted=accepted), jnp.int32(1))
  before, after = np.asarray(sums.live), np.asarray(moved.live)
  np.testing.assert_array_equal(after[:3], before[[0, 3, 2]])
  assert not after[3:].any()
