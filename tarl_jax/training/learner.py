"""One training step and one prediction pass: pure functions bound to a policy.

Owns the train state, the optimizer and the gradient step. Knows no files.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax

from tarl_jax.config import Config, OptConfig
from tarl_jax.inputs import Labels, PolicyInputs
from tarl_jax.losses import LossConfig, loss_terms, total_loss
from tarl_jax.models.policy import (
  Decision,
  ModelConfig,
  Params,
  Policy,
  PolicyOutput,
  decide,
  make_policy,
)
from tarl_jax.training.batches import padded_batches, take

_PREDICT_BATCH = 256


class TrainState(flax.struct.PyTreeNode, kw_only=True):
  """Everything that a resumed run needs."""

  step: jax.Array  # int32 [], updates applied; also the data position
  params: Params
  opt_state: optax.OptState
  key: jax.Array  # typed PRNG key []; the step is folded in, it never changes
  temperature: jax.Array  # float32 [], fitted on validation at the last evaluation


class Learner(NamedTuple):
  """The pure functions of training and prediction."""

  init: Callable[[jax.Array], TrainState]
  step: Callable[..., tuple[TrainState, dict[str, jax.Array]]]
  predict: Callable[..., tuple[PolicyOutput, Decision]]


def make_optimizer(config: OptConfig) -> optax.GradientTransformation:
  """AdamW with clipping, linear warm-up and cosine decay."""
  warmup = min(config.warmup, config.steps // 2)
  schedule = optax.warmup_cosine_decay_schedule(0.0, config.lr, warmup, config.steps)
  return optax.chain(
    optax.clip_by_global_norm(config.clip),
    optax.adamw(schedule, weight_decay=config.weight_decay),
  )


def make_learner(sizes: PolicyInputs, config: Config) -> Learner:
  """Binds a policy, its losses and its optimizer.

  Args:
    sizes: inputs of one example, for their shapes.
    config: the run's settings.

  Returns:
    `init(key)`; `step(state, inputs, labels, rows)`, which trains on the given rows of the
    whole training set and donates the state; `predict(params, temperature, inputs)`, batched.
  """
  shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), sizes)
  return _compiled_learner(shapes, config.model, config.loss, config.opt)


@functools.lru_cache(maxsize=8)
def _compiled_learner(
  sizes: PolicyInputs, model: ModelConfig, loss: LossConfig, opt: OptConfig
) -> Learner:
  """One set of jitted functions for equal settings, so that seeds share the compilation."""
  policy = make_policy(sizes, model)
  optimizer = make_optimizer(opt)

  def init(key: jax.Array) -> TrainState:
    key_params, key_train = jax.random.split(key)
    params = policy.init(key_params)
    return TrainState(
      step=jnp.zeros((), jnp.int32),
      params=params,
      opt_state=optimizer.init(params),
      key=key_train,
      temperature=jnp.ones((), jnp.float32),
    )

  @functools.partial(jax.jit, donate_argnums=0)
  def step(
    state: TrainState, inputs: PolicyInputs, labels: Labels, rows: jax.Array
  ) -> tuple[TrainState, dict[str, jax.Array]]:
    key = jax.random.fold_in(state.key, state.step)
    batch = take((inputs, labels), rows)
    gradient_fn = jax.value_and_grad(_batch_loss, argnums=1, has_aux=True)
    (total, means), gradient = gradient_fn(policy, state.params, key, *batch, loss)
    updates, opt_state = optimizer.update(gradient, state.opt_state, state.params)
    next_state = state.replace(
      step=state.step + 1,
      params=optax.apply_updates(state.params, updates),
      opt_state=opt_state,
    )
    return next_state, {"loss": total, "gradient_norm": optax.tree.norm(gradient), **means}

  @jax.jit
  def predict(
    params: Params, temperature: jax.Array, inputs: PolicyInputs
  ) -> tuple[PolicyOutput, Decision]:
    def one(inputs: PolicyInputs) -> tuple[PolicyOutput, Decision]:
      output = policy.apply(params, inputs)
      return output, decide(output, inputs.num_accepted, temperature)

    return jax.vmap(one)(inputs)

  return Learner(init=jax.jit(init), step=step, predict=predict)


def _batch_loss(
  policy: Policy,
  params: Params,
  key: jax.Array,
  inputs: PolicyInputs,
  labels: Labels,
  loss: LossConfig,
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """Loss of a batch: terms of each example, sums over the batch, one division."""

  def one(inputs: PolicyInputs, labels: Labels, key: jax.Array):
    return loss_terms(policy.apply(params, inputs, key), inputs, labels, loss)

  keys = jax.random.split(key, labels.action.shape[0])
  terms = jax.vmap(one)(inputs, labels, keys)
  return total_loss(jax.tree.map(jnp.sum, terms), loss)


def predict_all(
  learner: Learner, params: Params, temperature: Any, inputs: PolicyInputs
) -> tuple[PolicyOutput, Decision]:
  """Predictions for every example, in fixed batches; NumPy arrays with a leading [E]."""
  number = inputs.num_accepted.shape[0]
  parts = []
  for rows, kept in padded_batches(number, _PREDICT_BATCH):
    result = learner.predict(params, temperature, take(inputs, rows))
    parts.append(jax.tree.map(lambda leaf, kept=kept: np.asarray(leaf)[:kept], result))
  return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
