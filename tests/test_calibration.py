"""Scale and bias for each action: the fit against another optimizer, and when it is taken."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.special

from tarl_jax import metrics
from tarl_jax.calibration import (
  Scaling,
  choose_scaling,
  fit_scaling,
  from_temperature,
  rescale,
  summed_nll,
)

E = 4000  # one size, so that the fits share their compilation
ONES = np.ones(E, np.float32)
SCALE, BIAS = np.float32([0.5, 1, 2, 0.8, 1.3]), np.float32([0.4, -0.6, 0, 0.5, -0.3])


def drawn(seed: int, scale=1.0, bias=0.0) -> tuple[np.ndarray, np.ndarray]:
  """Scores that are calibrated once rescaled by (scale, bias), and actions drawn from them."""
  rng = np.random.default_rng(seed)
  calibrated = rng.normal(size=(E, 5)) * 1.5
  gold = (calibrated + rng.gumbel(size=calibrated.shape)).argmax(1)
  return ((calibrated - bias) / scale).astype(np.float32), gold.astype(np.int32)


def penalized(theta: np.ndarray, logits: np.ndarray, gold: np.ndarray, weight: np.ndarray) -> float:
  """What is minimized, in float64 and written once more."""
  log_p = scipy.special.log_softmax(logits * theta[:5] + theta[5:], axis=1)
  distance = np.sum((theta - np.repeat([1.0, 0.0], 5)) ** 2)
  return 0.5 * distance - weight @ log_p[np.arange(len(gold)), gold]


def test_a_known_scaling_is_found():
  logits, gold = drawn(0, SCALE, BIAS)
  found = fit_scaling(logits, gold, ONES)
  np.testing.assert_allclose(found.scale, SCALE, rtol=0.1)
  bias = np.asarray(found.bias)
  np.testing.assert_allclose(bias - bias.mean(), BIAS - BIAS.mean(), atol=0.1)
  assert found.scale.dtype == found.bias.dtype == np.float32


def test_the_fit_is_the_minimum_that_another_optimizer_finds():
  logits, gold = drawn(1, SCALE, BIAS)
  weight = np.random.default_rng(1).integers(0, 3, E).astype(np.float32)
  start = np.repeat([1.0, 0.0], 5)
  best = scipy.optimize.minimize(penalized, start, args=(logits, gold, weight), method="BFGS")
  found = np.concatenate(fit_scaling(logits, gold, weight)).astype(np.float64)
  np.testing.assert_allclose(found, best.x, atol=5e-3)
  assert penalized(found, logits, gold, weight) <= best.fun + 1e-2


def test_hard_data_never_makes_it_worse_than_the_identity():
  """Separable, far too sure, one action alone, and scores that mean the opposite."""
  logits, gold = drawn(2)
  truth = np.float32(np.eye(5)[gold])
  cases = (
    (truth * 30, gold),
    (logits * 40, gold),
    (logits, np.full(E, 3, np.int32)),
    (-logits, gold),
  )
  for scores, actions in cases:
    found = fit_scaling(scores, actions, ONES)
    assert all(np.isfinite(leaf).all() for leaf in found)
    plain = summed_nll(from_temperature(1.0), scores, actions, ONES)
    assert float(summed_nll(found, scores, actions, ONES)) <= float(plain) + 1e-3


def test_padding_moves_nothing_and_no_weight_gives_the_identity():
  logits, gold = drawn(3, SCALE, BIAS)
  weight = (np.arange(E) < E // 2).astype(np.float32)
  other = np.where(weight[:, None] > 0, logits, logits[:, ::-1] * 50)
  for left, right in zip(fit_scaling(logits, gold, weight), fit_scaling(other, gold, weight)):
    np.testing.assert_array_equal(left, right)
  nothing = fit_scaling(logits, gold, 0 * ONES)
  np.testing.assert_array_equal(nothing.scale, np.ones(5))
  np.testing.assert_array_equal(nothing.bias, np.zeros(5))


def test_what_cannot_be_executed_stays_impossible():
  logits = np.float32([2, -1e4, 1, -1e4, 0])
  found = rescale(Scaling(jnp.float32([1, -2, 3, 0.001, 1]), jnp.full(5, 0.5, jnp.float32)), logits)
  np.testing.assert_allclose(found, [2.5, -1e4, 3.5, -1e4, 0.5])
  assert jax.nn.softmax(found)[1] == 0


def test_a_temperature_is_a_scaling():
  logits, gold = drawn(4)
  found = jax.vmap(rescale, in_axes=(None, 0))(from_temperature(1.6), logits)
  np.testing.assert_allclose(found, logits / 1.6, rtol=1e-6)
  by_metrics = metrics.nll(jax.nn.softmax(logits / 1.6), gold)
  total = summed_nll(from_temperature(1.6), logits, gold, ONES)
  assert float(total) == pytest.approx(float(np.sum(by_metrics)), rel=1e-5)


def test_vector_scaling_is_taken_where_it_helps_on_groups_it_was_not_fitted_on():
  logits, gold = drawn(5, SCALE, BIAS)
  groups = np.arange(E) // 400
  choice = choose_scaling(logits, gold, ONES, groups)
  assert choice.vector_nll < choice.temperature_nll - 0.01
  for left, right in zip(choice.scaling, fit_scaling(logits, gold, ONES)):
    np.testing.assert_array_equal(left, right)


def test_the_temperature_is_kept_where_the_gain_does_not_carry_over():
  """Two people whose actions are off in opposite ways: a fit on one is wrong for the other."""
  tilt = np.float32([2, 0, 0, 0, -2])
  logits, gold = drawn(6)
  groups = np.arange(E) % 2
  logits = logits + np.where(groups[:, None] == 0, tilt, -tilt)
  choice = choose_scaling(logits, gold, ONES, groups)
  assert choice.vector_nll > choice.temperature_nll
  scale = np.asarray(choice.scaling.scale)
  temperature = float(metrics.fit_temperature(logits, gold, ONES))
  np.testing.assert_allclose(scale, np.full(5, 1 / temperature), rtol=1e-6)
  assert not np.asarray(choice.scaling.bias).any()
  # Dealt out at random, the same examples would have hidden it.
  mixed = choose_scaling(logits, gold, ONES, np.arange(E) // 2)
  assert mixed.vector_nll < choice.vector_nll


def test_one_group_leaves_nothing_to_compare_and_keeps_the_temperature():
  logits, gold = drawn(7, SCALE, BIAS)
  choice = choose_scaling(logits, gold, ONES, np.zeros(E, int))
  assert len(set(np.asarray(choice.scaling.scale).tolist())) == 1
  assert not np.asarray(choice.scaling.bias).any()
