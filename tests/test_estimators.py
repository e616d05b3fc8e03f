"""What the counters say: by hand, against SciPy, and against the truth in simulation."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from tarl_jax import estimators
from tarl_jax.estimators import (
  BetaPrior,
  Demands,
  Verdict,
  credible_interval,
  judge,
  lift,
  posterior_mean,
  probability_below,
  standardised,
)
from tarl_jax.worth import add_outcome

BELOW = jax.jit(probability_below)
INTERVAL = jax.jit(credible_interval, static_argnames="level")
SIZE = 64  # of every array that meets a jitted function: one compilation serves all tests


def padded(*values) -> jax.Array:
  return jnp.asarray(np.pad(np.asarray(values, np.float32), (0, SIZE - len(values))))


def test_worth_is_the_share_of_success_and_the_prior_without_any():
  success, failure = jnp.asarray([3.0, 0.0, 0.0, 0.5]), jnp.asarray([1.0, 4.0, 0.0, 0.0])
  assert estimators.worth(success, failure).tolist() == [0.75, 0.0, 0.5, 1.0]
  np.testing.assert_allclose(posterior_mean(success, failure), [4 / 6, 1 / 6, 1 / 2, 1.5 / 2.5])
  wide = posterior_mean(success, failure, BetaPrior(2.0, 6.0))
  np.testing.assert_allclose(wide, [5 / 12, 2 / 12, 2 / 8, 2.5 / 8.5], rtol=1e-6)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, -np.inf])
def test_an_unsound_pair_says_nothing_and_never_comes_first(bad):
  for pair in ((bad, 3.0), (3.0, bad), (bad, bad)):
    success, failure = (padded(value, 4.0) for value in pair)
    failure = failure.at[1].set(1.0)
    interval = INTERVAL(success, failure, level=0.95)
    found = (
      estimators.worth(success, failure),
      posterior_mean(success, failure),
      lift(success[:, None], failure[:, None]),
      *interval,
      BELOW(success, failure, 0.3),
    )
    assert all(np.isfinite(value).all() for value in found)
    assert float(found[0][0]) == float(found[1][0]) == 0.5 < float(found[1][1])
    verdict = judge(success, failure, interval, success + failure, 0.5)
    assert int(verdict[0]) == Verdict.NOT_ENOUGH


def test_standardised_worth_is_at_one_mix_of_tasks_for_all():
  # Memory 0: 0.8 on 10 easy, 0.2 on 10 hard; 1: the same rates at other counts; 2: hard only.
  success = jnp.asarray([[8.0, 2.0], [80.0, 1.0], [0.0, 4.0], [0.0, 0.0]])
  failure = jnp.asarray([[2.0, 8.0], [20.0, 4.0], [0.0, 6.0], [0.0, 0.0]])
  found = standardised(success, failure, jnp.asarray([3.0, 1.0]))
  np.testing.assert_allclose(found, [0.65, 0.65, 0.4, 0.5], rtol=1e-6)
  crude = estimators.worth(success.sum(1), failure.sum(1))
  assert abs(float(crude[0] - crude[1])) > 0.2  # what standardising takes out
  none = standardised(success, failure, jnp.asarray([1.0, 0.0]))
  assert float(none[2]) == 0.5  # nothing is known of it at this mix


def test_lift_takes_out_the_difficulty_of_the_strata():
  # Easy: 15 of 20; hard: 5 of 20. Memory 2 is the best of the hard ones, and last by worth.
  success = jnp.asarray([[10.0, 1.0], [5.0, 0.0], [0.0, 4.0], [0.0, 0.0]])
  failure = jnp.asarray([[0.0, 4.0], [5.0, 5.0], [0.0, 6.0], [0.0, 0.0]])
  expected = [(11 - 8.75) / 15, (5 - 8.75) / 15, (4 - 2.5) / 10, 0.0]
  np.testing.assert_allclose(lift(success, failure), expected, rtol=1e-6)


@pytest.mark.parametrize("scale, within", [(3, 1e-5), (100, 1e-4), (800, 1e-3), (1e5, 5e-3)])
def test_posterior_probabilities_and_intervals_are_those_of_scipy(scale, within):
  rng = np.random.default_rng(7)
  success, failure = (np.float32(rng.uniform(size=SIZE) ** 3 * scale) for _ in range(2))
  exact = scipy.stats.beta(success.astype(float) + 1, failure.astype(float) + 1)
  bar = np.clip(exact.mean() + rng.normal(size=SIZE) * 2 * exact.std(), 1e-6, 1 - 1e-6)
  bar = bar.astype(np.float32)
  np.testing.assert_allclose(BELOW(success, failure, bar), exact.cdf(bar), atol=within)
  low, high = INTERVAL(success, failure, level=0.95)
  np.testing.assert_allclose(exact.cdf(np.asarray(low, float)), 0.025, atol=within)
  np.testing.assert_allclose(exact.cdf(np.asarray(high, float)), 0.975, atol=within)


def test_the_interval_of_no_evidence_is_that_of_the_prior():
  low, high = INTERVAL(padded(0.0), padded(0.0), level=0.95)
  np.testing.assert_allclose([low[0], high[0]], [0.025, 0.975], atol=1e-5)
  with pytest.raises(ValueError, match=r"inside \(0, 1\)"):
    credible_interval(padded(1.0), padded(1.0), level=95.0)


def test_a_verdict_says_first_whether_there_is_enough_evidence():
  cases = [
    (0, 0, 0, Verdict.NOT_ENOUGH),
    (3, 0, 3, Verdict.NOT_ENOUGH),
    (50, 0, 0, Verdict.NOT_SEPARABLE),
    (50, 0, np.nan, Verdict.NOT_SEPARABLE),
    (50, 5, 5, Verdict.ABOVE),
    (5, 50, 6, Verdict.BELOW),
    (9, 9, 9, Verdict.OPEN),
  ]
  success, failure, apart, wanted = (list(column) for column in zip(*cases))
  counts = padded(*success), padded(*failure)
  interval = INTERVAL(*counts, level=0.95)
  found = judge(*counts, interval, padded(*apart), 0.5)
  assert found[: len(cases)].tolist() == wanted and found.dtype == jnp.int32
  narrow = judge(*counts, interval, padded(*apart), 0.5, Demands(width=0.3))
  assert int(narrow[6]) == Verdict.NOT_ENOUGH and int(narrow[4]) == Verdict.ABOVE
  many = judge(*counts, interval, padded(*apart), 0.5, Demands(outcomes=55.5))
  assert (many[: len(cases)] == Verdict.NOT_ENOUGH).all()
  unknown = judge(*counts, (interval[0], interval[1] * jnp.nan), padded(*apart), 0.5)
  assert int(unknown[4]) == Verdict.NOT_ENOUGH


@functools.partial(jax.jit, static_argnames="episodes")
def stationary(key, success_rate, retrieval_rate, episodes: int):
  """Counters [K, 2] after episodes in which each memory is retrieved and graded on its own."""
  capacity = success_rate.shape[0]

  def episode(rows, key):
    key_retrieved, key_outcome, key_kind = jax.random.split(key, 3)
    retrieved = jax.random.uniform(key_retrieved, (capacity,)) < retrieval_rate
    # One memory's outcome an episode, so that the memories do not share outcomes.
    one = jax.random.randint(key_kind, (), 0, capacity)
    slots = jnp.where(retrieved[one], one, capacity)[None]
    failed = jax.random.uniform(key_outcome) >= success_rate[one]
    rows = add_outcome(rows, slots, jnp.ones(1), jnp.int32(0), failed.astype(jnp.int32))
    return rows, None

  keys = jax.random.split(key, episodes)
  rows, _ = jax.lax.scan(episode, jnp.zeros((capacity, 1, 3), jnp.float32), keys)
  return rows[:, 0, :2]


@settings(derandomize=True, deadline=None, max_examples=25)
@given(
  rates=st.lists(st.floats(0, 1, width=32), min_size=4, max_size=4),
  retrieval=st.lists(st.floats(0.0625, 1, width=32), min_size=4, max_size=4),
  seed=st.integers(0, 2**31 - 1),
)
def test_worth_converges_to_the_success_rate_given_retrieval(rates, retrieval, seed):
  """|MW - p+| within five binomial standard deviations at the counts that were reached."""
  arrays = (jnp.asarray(values, jnp.float32) for values in (rates, retrieval))
  counts = np.asarray(stationary(jax.random.key(seed), *arrays, episodes=4000), np.float64)
  graded = counts.sum(axis=1)
  assert (graded > 0).all()
  found = np.asarray(estimators.worth(jnp.asarray(counts[:, 0]), jnp.asarray(counts[:, 1])))
  p = np.asarray(rates)
  bound = 5 * np.sqrt(p * (1 - p) / graded) + 3 / graded
  assert (np.abs(found - p) <= bound).all(), (found, p, bound)
