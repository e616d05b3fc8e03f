"""A policy small enough to compile in seconds, and random inputs and labels for it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from tarl_jax.inputs import Labels, PolicyInputs
from tarl_jax.models.policy import ModelConfig, Policy, make_policy
from tarl_jax.types import Status

V, D = 4, 6
WIDTHS = {"claim": 5, "pair": 7, "time": 3, "source": 4, "pair_source": 2}
MODEL = ModelConfig(hidden=8, embed=6, trust=3, dropout=0.5)


def random_inputs(seed: int, num_accepted, num_visible) -> PolicyInputs:
  """NumPy inputs with a leading [E], zeros beyond what is visible."""
  rng = np.random.default_rng(seed)
  num_accepted, num_visible = np.int32(num_accepted), np.int32(num_visible)
  number = len(num_accepted)
  visible = (np.arange(V) < num_visible[:, None])[..., None]

  def draw(*shape: int) -> np.ndarray:
    return rng.normal(size=(number, *shape)).astype(np.float32)

  return PolicyInputs(
    candidate=draw(D),
    entries=draw(V, D) * visible,
    claim_signals=draw(WIDTHS["claim"]),
    pair_signals=draw(V, WIDTHS["pair"]) * visible,
    time_signals=draw(V, WIDTHS["time"]) * visible,
    source=draw(WIDTHS["source"]),
    entry_source=draw(V, WIDTHS["source"]) * visible,
    pair_source=draw(V, WIDTHS["pair_source"]) * visible,
    num_accepted=num_accepted,
    num_visible=num_visible,
  )


def make_labels(action, target, **changed) -> Labels:
  """NumPy labels with a leading [E]; `target` is the only right position."""
  action, target = np.int32(action), np.int32(target)
  number = len(action)
  labels = Labels(
    action=action,
    target=target,
    targets=np.arange(V + 1) == target[:, None],
    scope=np.full(number, -1, np.int32),
    reliability=np.full(number, np.nan, np.float32),
    entry_reliability=np.full((number, V), np.nan, np.float32),
    weight=np.ones(number, np.float32),
    resolves=np.full(number, V, np.int32),
    outcome=np.full(number, Status.EMPTY, np.int32),
  )
  return labels._replace(**changed)


def sizes() -> PolicyInputs:
  """Shapes of one example."""
  example = random_inputs(0, [0], [0])
  return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), example)


@functools.cache
def policy() -> Policy:
  return make_policy(sizes(), MODEL)


@functools.cache
def params() -> dict:
  """Parameters of the right structure, drawn on the host: compiling `init` takes longer."""
  rng = np.random.default_rng(7)
  shapes = jax.eval_shape(policy().init, jax.random.key(0))
  return jax.tree.map(
    lambda leaf: jnp.asarray(rng.normal(size=leaf.shape) * 0.5, leaf.dtype), shapes
  )
