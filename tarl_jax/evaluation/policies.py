"""The trained policies of a workdir: restored, and asked for their decisions."""

import pathlib

import jax
import numpy as np

from tarl_jax.data.dataset import load_encoder
from tarl_jax.errors import InputError
from tarl_jax.inputs import PolicyInputs
from tarl_jax.models.encoder import Encoder
from tarl_jax.models.policy import Decision, PolicyOutput
from tarl_jax.training.learner import make_learner, predict_all
from tarl_jax.training.loop import example_sizes
from tarl_jax.training.workdir import Stamp, open_checkpoints


def predict(
  workdir: pathlib.Path, stamp: Stamp, seed: int, inputs: PolicyInputs
) -> tuple[PolicyOutput, Decision]:
  """The best policy of a seed on every example; NumPy arrays with a leading [E].

  Raises:
    InputError: if its checkpoint is missing, damaged or of another run.
  """
  learner = make_learner(example_sizes(inputs), stamp.config)
  like = jax.eval_shape(learner.init, jax.random.key(0))
  with open_checkpoints(workdir, seed, stamp) as checkpoints:
    _, state = checkpoints.restore_best(like)
  return predict_all(learner, state.params, state.temperature, inputs)


def best_seed(workdir: pathlib.Path, stamp: Stamp) -> int:
  """The seed whose best checkpoint scored highest on validation; ties to the earlier."""
  scores = []
  for seed in stamp.config.seeds:
    with open_checkpoints(workdir, seed, stamp) as checkpoints:
      scores.append(checkpoints.best_score())
  return stamp.config.seeds[int(np.argmax(scores))]


def load_same_encoder(stamp: Stamp) -> Encoder:
  """The encoder of the run.

  Raises:
    InputError: if it is not the one the policies were trained with.
  """
  encoder = load_encoder(stamp.config.encoder)
  if encoder.fingerprint != stamp.encoder:
    raise InputError(
      f"encoder '{encoder.name}' differs from the one this workdir was trained with (other "
      "weights or version); bring the old weights back or train again."
    )
  return encoder
