"""Probes: the policy trained on a part of its inputs, such as the candidate's text alone.

They measure leakage: what a probe can tell, that part gives away. Architecture, optimizer
and batches are the policy's own; only the inputs are hidden and only the action is taught.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from tarl_jax.config import Config
from tarl_jax.data.pipeline import training_rows
from tarl_jax.evaluation.judging import Predictions
from tarl_jax.inputs import Labels, PolicyInputs
from tarl_jax.losses import LossConfig
from tarl_jax.training.learner import make_learner, predict_all
from tarl_jax.types import Status

_ACTION_ONLY = LossConfig(target=0.0, reliability=0.0, scope=0.0, relation=0.0, counterfactual=0.0)


def hide_memory(
  candidate: np.ndarray, claim_signals: np.ndarray, sizes: PolicyInputs
) -> PolicyInputs:
  """Inputs that show the candidate's text alone, beside one blank entry.

  Args:
    candidate: float32 [E, D].
    claim_signals: float32 [E, C].
    sizes: shapes of one example of the policy's inputs.
  """
  number = len(candidate)

  def blank(part) -> np.ndarray:
    return np.zeros((number, 1, part.shape[-1]), np.float32)

  one = np.ones(number, np.int32)
  return PolicyInputs(
    candidate=candidate,
    entries=blank(sizes.entries),
    claim_signals=claim_signals,
    pair_signals=blank(sizes.pair_signals),
    time_signals=blank(sizes.time_signals),
    source=np.zeros((number, sizes.source.shape[-1]), np.float32),
    entry_source=blank(sizes.entry_source),
    pair_source=blank(sizes.pair_source),
    num_accepted=one,
    num_visible=one,
  )


def _labels(action: np.ndarray, num_visible: int) -> Labels:
  number = len(action)
  return Labels(
    action=action,
    target=np.full(number, num_visible, np.int32),
    targets=np.ones((number, num_visible + 1), bool),
    scope=np.full(number, -1, np.int32),
    reliability=np.full(number, np.nan, np.float32),
    entry_reliability=np.full((number, num_visible), np.nan, np.float32),
    weight=np.ones(number, np.float32),
    resolves=np.full(number, num_visible, np.int32),
    outcome=np.full(number, Status.EMPTY, np.int32),
  )


def probe(
  config: Config, seed: int, train: PolicyInputs, action: np.ndarray, test: PolicyInputs
) -> Predictions:
  """Trains `config.probe_steps` steps on hidden inputs and predicts the test examples.

  Args:
    config: the run's settings.
    seed: of parameters and batches.
    train: what the probe may see, e.g. from `hide_memory`; leading [E].
    action: int32 [E], gold actions of `train`.
    test: the same of the test examples, leading [E'].

  Returns:
    Predictions without any target: a probe is taught no target.
  """
  steps = config.probe_steps
  opt = dataclasses.replace(config.opt, steps=steps)
  sizes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), train)
  learner = make_learner(sizes, dataclasses.replace(config, opt=opt, loss=_ACTION_ONLY))
  state = learner.init(jax.random.key(seed))
  data = jax.tree.map(jnp.asarray, (train, _labels(action, train.entries.shape[1])))
  batches = training_rows(len(action), opt.batch_size, seed, process_index=0, process_count=1)
  for step in range(steps):
    state, _ = learner.step(state, *data, jnp.asarray(batches[step]))
  _, decision = predict_all(learner, state.params, state.temperature, test)
  none = np.full(len(decision.action), config.data.num_visible, np.int32)
  return Predictions(
    action=decision.action,
    position=none,
    grounded=none,
    probabilities=decision.probabilities,
  )
