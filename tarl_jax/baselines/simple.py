"""Reference methods without a policy: the majority class and two Write/Hold executors.

The Write/Hold executors are given the *gold* bit of every claim (write: append or revise,
hold: the other three), so that what they lose is lost by the bit, not by a model (SPEC 6,
binary analysis).
"""

import numpy as np

from tarl_jax.baselines.signals import Thresholds, similarity
from tarl_jax.evaluation.judging import Predictions
from tarl_jax.inputs import Labels, PolicyInputs
from tarl_jax.types import NUM_ACTIONS, Action


def majority(train_actions: np.ndarray, inputs: PolicyInputs) -> Predictions:
  """The most frequent training action for every example, with the training shares."""
  number, num_visible = inputs.entries.shape[:2]
  shares = np.bincount(train_actions, minlength=NUM_ACTIONS) / len(train_actions)
  none = np.full(number, num_visible, np.int32)
  return Predictions(
    action=np.full(number, shares.argmax(), np.int32),
    position=none,
    grounded=none,
    probabilities=np.tile(shares.astype(np.float32), (number, 1)),
  )


def is_write(action: np.ndarray) -> np.ndarray:
  """bool [E]: the claim becomes active memory."""
  return (action == Action.APPEND) | (action == Action.REVISE)


def write_hold_plain(inputs: PolicyInputs, labels: Labels) -> Predictions:
  """Write appends, hold does nothing."""
  number, num_visible = inputs.entries.shape[:2]
  none = np.full(number, num_visible, np.int32)
  action = np.where(is_write(labels.action), Action.APPEND, Action.NOOP).astype(np.int32)
  return Predictions(action=action, position=none, grounded=none, probabilities=None)


def write_hold_heuristic(
  inputs: PolicyInputs, labels: Labels, thresholds: Thresholds
) -> Predictions:
  """Write revises a related entry and appends where there is none; hold rejects a claim
  against a related entry that says something else and does nothing otherwise."""
  close = similarity(inputs)
  nearest = close.argmax(1)
  at_nearest = close[np.arange(len(nearest)), nearest]
  related = at_nearest >= thresholds.related
  write = np.where(related, Action.REVISE, Action.APPEND)
  differs = related & (at_nearest < thresholds.same)
  hold = np.where(differs, Action.REJECT_CONFLICT, Action.NOOP)
  position = np.where(related, nearest, inputs.entries.shape[1]).astype(np.int32)
  return Predictions(
    action=np.where(is_write(labels.action), write, hold).astype(np.int32),
    position=position,
    grounded=position,
    probabilities=None,
  )
