"""A training step and a prediction do not depend on batching."""

import dataclasses

import chex
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_policy import MODEL, V, make_labels, params, random_inputs, sizes

from tarl_jax.config import Config, OptConfig
from tarl_jax.training.batches import padded_batches, take
from tarl_jax.training.learner import TrainState, make_learner, make_optimizer, predict_all

property_test = hypothesis.settings(derandomize=True, deadline=None)


@property_test
@hypothesis.given(st.integers(0, 40), st.integers(1, 12))
def test_padded_batches_hold_every_row_once(number, batch_size):
  batches = padded_batches(number, batch_size)
  assert all(rows.shape == (batch_size,) for rows, _ in batches)
  kept = [int(row) for rows, count in batches for row in rows[:count]]
  assert kept == list(range(number))
  assert all(0 <= row < number for rows, _ in batches for row in rows)
  assert all(count == batch_size for _, count in batches[:-1])


# The learner, with dropout, on twelve examples of which the last six have weight 0.

OPT = OptConfig(lr=3e-2, warmup=0, steps=200, batch_size=6)
CONFIG = Config(model=MODEL, opt=OPT)
NUM_ACCEPTED = [2, 3, 1, 4, 2, 0, 2, 3, 1, 4, 2, 0]
NUM_VISIBLE = [3, 4, 1, 4, 4, 2, 3, 4, 1, 4, 4, 2]
GOLD = [2, 3, 4, 1, 0, 4, 0, 1, 2, 3, 1, 0]
TARGET = [0, 2, V, 3, V, 1, V, 0, 0, 1, V, V]


@pytest.fixture(scope="module")
def data():
  inputs = random_inputs(4, NUM_ACCEPTED, NUM_VISIBLE)
  labels = make_labels(
    GOLD,
    TARGET,
    weight=np.float32([1] * 6 + [0] * 6),
    scope=np.int32([0, 1, 2, -1, 3, 0] * 2),
    reliability=np.float32([0.5, np.nan, 0.25, 1, 0, np.nan] * 2),
  )
  return jax.tree.map(jnp.asarray, (inputs, labels))


@pytest.fixture(scope="module")
def learner():
  return make_learner(sizes(), CONFIG)


def fresh_state(step: int = 0, seed: int = 0) -> TrainState:
  """New buffers each time, since a step donates its state; compiles no `init`."""
  own = jax.tree.map(jnp.array, params())
  return TrainState(
    step=jnp.int32(step),
    params=own,
    opt_state=make_optimizer(OPT).init(own),
    key=jax.random.key(seed),
    temperature=jnp.float32(1.5),
  )


def run(learner, data, row_lists, state: TrainState | None = None):
  state = fresh_state() if state is None else state
  losses = []
  for rows in row_lists:
    state, scalars = learner.step(state, *data, jnp.asarray(rows, jnp.int32))
    losses.append({name: float(value) for name, value in scalars.items()})
  return state, losses


ALL = [0, 1, 2, 3, 4, 5]


def test_a_step_counts_and_leaves_key_and_temperature(learner, data):
  state, losses = run(learner, data, [ALL])
  assert int(state.step) == 1 and float(state.temperature) == 1.5
  assert (jax.random.key_data(state.key) == jax.random.key_data(jax.random.key(0))).all()
  terms = {"action", "target", "reliability", "scope", "relation", "counterfactual"}
  assert set(losses[0]) == {"loss", "gradient_norm", *terms}
  assert all(np.isfinite(value) for value in losses[0].values())
  chex.assert_trees_all_equal_shapes_and_dtypes(state, fresh_state())
  moved = jax.tree.map(lambda x, y: float(jnp.abs(x - y).max()), state.params, params())
  assert min(jax.tree.leaves(moved)) > 0  # every parameter is reached by a gradient


def test_rows_of_weight_zero_do_not_matter(learner, data):
  one, losses = run(learner, data, [[0, 1, 2, 6, 7, 8]])
  other, other_losses = run(learner, data, [[0, 1, 2, 11, 10, 9]])
  assert losses[0] == pytest.approx(other_losses[0], rel=1e-6)
  chex.assert_trees_all_close(one.params, other.params, rtol=1e-6, atol=1e-7)
  # And the others do: the mean is over the rows that count, not over the batch.
  _, fewer = run(learner, data, [[0, 1, 2, 3, 7, 8]])
  assert abs(fewer[0]["loss"] - losses[0]["loss"]) > 1e-3


def test_a_batch_without_any_weight_has_no_gradient(learner, data):
  _, losses = run(learner, data, [[6, 7, 8, 9, 10, 11]])
  assert all(value == 0 for value in losses[0].values())


def test_the_same_key_and_step_give_the_same_loss_and_others_do_not(learner, data):
  def loss(**changed) -> float:
    return run(learner, data, [ALL], fresh_state(**changed))[1][0]["loss"]

  assert loss() == loss()
  assert len({loss(), loss(step=1), loss(seed=1)}) == 3  # dropout follows key and step


def test_three_steps_straight_equal_two_a_restore_and_one(learner, data):
  steps = [ALL, [5, 4, 3, 2, 1, 0], [0, 0, 1, 1, 2, 2]]
  straight, losses = run(learner, data, steps)
  half, _ = run(learner, data, steps[:2])
  stored = jax.tree.map(np.asarray, half.replace(key=jax.random.key_data(half.key)))
  restored = jax.tree.map(jnp.asarray, stored)
  restored = restored.replace(key=jax.random.wrap_key_data(restored.key))
  resumed, last = run(learner, data, steps[2:], restored)
  assert last[0] == losses[2]
  chex.assert_trees_all_equal(
    resumed.replace(key=jax.random.key_data(resumed.key)),
    straight.replace(key=jax.random.key_data(straight.key)),
  )


def test_the_policy_learns_six_examples(learner, data):
  state, losses = run(learner, data, [ALL] * OPT.steps)
  first, last = (np.mean([step["action"] for step in part]) for part in (losses[:5], losses[-5:]))
  assert last < 0.5 * first
  six = take(data[0], np.array(ALL))
  _, decision = predict_all(learner, state.params, jnp.float32(1.0), six)
  assert decision.action.tolist() == GOLD[:6]


def test_predictions_do_not_depend_on_batch_or_order(learner):
  rng = np.random.default_rng(0)
  visible = rng.integers(0, V + 1, 300)
  inputs = random_inputs(8, rng.integers(0, visible + 1), visible)
  output, decision = predict_all(learner, params(), jnp.float32(0.7), inputs)
  assert decision.action.shape == (300,) and isinstance(decision.action, np.ndarray)
  for rows in (np.arange(300)[::-1], np.arange(290, 300), np.array([299])):
    part_output, part = predict_all(learner, params(), jnp.float32(0.7), take(inputs, rows))
    chex.assert_trees_all_close(part_output, take(output, rows), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(part.action, decision.action[rows])
    np.testing.assert_array_equal(part.position, decision.position[rows])


def test_the_temperature_divides_the_scores(learner):
  inputs = random_inputs(9, [2, 1], [3, 1])
  output, decision = predict_all(learner, params(), jnp.float32(2.0), inputs)
  expected = np.exp(output.action_logits.astype(np.float64) / 2)
  expected /= expected.sum(1, keepdims=True)
  np.testing.assert_allclose(decision.probabilities, expected, rtol=1e-5)


def test_the_rate_warms_up_and_decays_to_zero():
  """The size of AdamW's step without gradient history is the rate."""
  opt = dataclasses.replace(OPT, lr=0.1, warmup=4, steps=12, weight_decay=0.0)
  optimizer = make_optimizer(opt)
  weights, update = jnp.ones(1), jax.jit(optimizer.update)
  state = optimizer.init(weights)
  sizes_seen = []
  for _ in range(13):
    updates, state = update(jnp.ones(1), state, weights)
    sizes_seen.append(-float(updates[0]))
  np.testing.assert_allclose(sizes_seen[:5], [0, 0.025, 0.05, 0.075, 0.1], atol=1e-6)
  assert sizes_seen[4:] == sorted(sizes_seen[4:], reverse=True)
  assert sizes_seen[12] == pytest.approx(0.0, abs=1e-6)
