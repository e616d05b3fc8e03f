"""Calibration of the action scores: one temperature, or a scale and a bias for each action.

Owns the fit on held-out scores and the choice between the two. Knows arrays only; the
temperature alone is fitted by `metrics.fit_temperature`.

A temperature never changes which action scores highest. A scale and a bias for each action
may, so whoever takes them measures the decisions again, too.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tarl_jax.metrics import fit_temperature
from tarl_jax.types import NUM_ACTIONS, Array

_IMPOSSIBLE = -1e3  # scores below it say that the action cannot be executed, and stay as they are
_NEWTON_STEPS = 25
_STEP_SIZES = (1.0, 0.5, 0.25, 0.125, 1 / 32, 1 / 256, 0.0)


class Scaling(NamedTuple):
  """What becomes of the score of each action: scale * score + bias; float32 [A] each."""

  scale: Array
  bias: Array


def from_temperature(temperature: Array) -> Scaling:
  """The scaling that divides every score by `temperature` (float32 [])."""
  scale = jnp.full(NUM_ACTIONS, 1.0 / jnp.asarray(temperature), jnp.float32)
  return Scaling(scale=scale, bias=jnp.zeros(NUM_ACTIONS, jnp.float32))


def rescale(scaling: Scaling, action_logits: Array) -> Array:
  """Calibrated scores of one example, float32 [A]; what cannot be executed stays. Unbatched."""
  scaled = scaling.scale * action_logits + scaling.bias
  return jnp.where(action_logits > _IMPOSSIBLE, scaled, action_logits)


@jax.jit
def summed_nll(scaling: Scaling, action_logits: Array, gold: Array, weight: Array) -> Array:
  """- sum of weight * log p(gold action) under the rescaled scores; float32 [], nats."""
  log_p = jax.nn.log_softmax(jax.vmap(rescale, in_axes=(None, 0))(scaling, action_logits))
  chosen = jnp.take_along_axis(log_p, gold[:, None], axis=-1)[:, 0]
  return -jnp.sum(jnp.where(weight > 0, weight * chosen, 0.0))


@jax.jit
def fit_scaling(action_logits: Array, gold: Array, weight: Array) -> Scaling:
  """Vector scaling: the scale and bias of each action with the least NLL.

  Newton's method from the identity; of several step sizes (0 among them) each step takes the
  best, so that it never gets worse. The NLL is convex in both. Half a nat for a squared
  distance of one from the identity is added: it settles the bias that all actions could
  share, and keeps scores that separate the examples without fault finite. Without any weight
  the identity comes back.

  Args:
    action_logits: float32 [E, A].
    gold: int32 [E].
    weight: float32 [E], 0 for padding.
  """
  identity = jnp.concatenate([jnp.ones(NUM_ACTIONS), jnp.zeros(NUM_ACTIONS)])
  total = jnp.maximum(jnp.sum(weight), 1.0)

  def loss(theta: Array) -> Array:
    nll = summed_nll(_unpack(theta), action_logits, gold, weight)
    return (nll + 0.5 * jnp.sum(jnp.square(theta - identity))) / total

  def step(_: int, theta: Array) -> Array:
    direction = jnp.linalg.solve(jax.hessian(loss)(theta), jax.grad(loss)(theta))
    candidates = theta[None] - jnp.asarray(_STEP_SIZES)[:, None] * direction[None]
    losses = jax.lax.map(loss, candidates)
    return candidates[jnp.nanargmin(losses)]

  return _unpack(jax.lax.fori_loop(0, _NEWTON_STEPS, step, identity))


def _unpack(theta: Array) -> Scaling:
  """Scale and bias from one float32 [2 A]."""
  return Scaling(scale=theta[:NUM_ACTIONS], bias=theta[NUM_ACTIONS:])


class Choice(NamedTuple):
  """The scaling that is kept, and what it was chosen by (nats an example, out of fold)."""

  scaling: Scaling
  temperature_nll: float
  vector_nll: float


def choose_scaling(action_logits: Array, gold: Array, weight: Array, groups: Array) -> Choice:
  """Vector scaling where it beats the temperature on examples that it was not fitted on.

  The groups are dealt into two halves of about equal weight. Each method is fitted on one
  half and scored on the other, both ways round; the one with the lower NLL is then fitted on
  everything. The temperature is kept in a tie, and where there are fewer than two groups.

  Args:
    action_logits: float32 [E, A], of validation.
    gold: int32 [E].
    weight: float32 [E].
    groups: int [E]; examples of one group (a person, a stream) stay on one side.
  """
  data = (jnp.asarray(action_logits), jnp.asarray(gold))
  weight = np.asarray(weight, np.float32)
  second = _halves(np.asarray(groups), weight)
  sums = {"temperature": 0.0, "vector": 0.0}
  for fitted in (second, ~second):
    fit, rest = jnp.asarray(weight * fitted), jnp.asarray(weight * ~fitted)
    tried = {
      "temperature": from_temperature(fit_temperature(*data, fit)),
      "vector": fit_scaling(*data, fit),
    }
    for name, scaling in tried.items():
      sums[name] += float(summed_nll(scaling, *data, rest))
  total = max(float(weight.sum()), 1.0)
  if sums["vector"] < sums["temperature"]:
    scaling = fit_scaling(*data, jnp.asarray(weight))
  else:
    scaling = from_temperature(fit_temperature(*data, jnp.asarray(weight)))
  return Choice(scaling, sums["temperature"] / total, sums["vector"] / total)


def _halves(groups: np.ndarray, weight: np.ndarray) -> np.ndarray:
  """bool [E], true in the second half: each group, the heaviest first, joins the lighter one."""
  names, index = np.unique(groups, return_inverse=True)
  sizes = np.bincount(index, weight, minlength=len(names))
  side, load = np.zeros(len(names), bool), [0.0, 0.0]
  for group in np.argsort(-sizes, kind="stable"):
    lighter = int(load[1] < load[0])
    side[group] = bool(lighter)
    load[lighter] += sizes[group]
  return side[index]
