"""G-Memory: a hierarchy of insights over queries over the interactions themselves.

Source: "G-Memory: Tracing Hierarchical Memory for Multi-Agent Systems" (Zhang, Fu, Wan, Yu,
Wang, Yan; NeurIPS 2025, arXiv 2506.07398). A new task finds similar earlier ones in the query
graph, takes in their neighbours, and walks up to the insights drawn from them and down to
what was said. Here a claim is a task, a cluster of linked claims is what an insight is drawn
from, and the claim at the middle of the cluster stands for it.
"""

from collections.abc import Sequence

import numpy as np

from tarl_jax.baselines.signals import Thresholds, closeness, nearest, rule_predictions
from tarl_jax.baselines.views import Seen, cosines, highest, show, visible
from tarl_jax.data.moments import Moment
from tarl_jax.evaluation.judging import Predictions
from tarl_jax.inputs import PolicyInputs
from tarl_jax.types import Action

_SEEDS = 2  # tasks found by similarity
_LINKED = 0.7  # cosine from which two claims are neighbours in the query graph


def decide(inputs: PolicyInputs, kept: np.ndarray, thresholds: Thresholds) -> Predictions:
  """Append, noop or revise: the insight level is what Accepted holds.

  After a task its insights are edited: a new one is added (append), one that agrees is
  confirmed (noop), one that says otherwise is rewritten (revise), whoever says it and
  whenever it was. Left out: the score of an insight, that a task failed, and the removal of
  an insight with nothing in its place, for which there is no action.
  """
  del kept
  entry = nearest(inputs, thresholds)
  action = np.where(entry.related, Action.REVISE, Action.APPEND)
  action = np.where(entry.same, Action.NOOP, action)
  return rule_predictions(inputs, action, entry.position, entry.related)


def view(inputs: PolicyInputs, moments: Sequence[Moment], *, seeds: int = _SEEDS) -> Seen:
  """The `seeds` nearest entries, their neighbours, and the middle of each cluster of a seed.

  Entries keep the mark of their ledger. Left out: the sparsifying of what was said, since a
  claim is one sentence.
  """
  del moments
  held = visible(inputs)
  near = cosines(inputs)
  linked = (near >= _LINKED) & held[:, None, :] & held[:, :, None]
  seed = highest(closeness(inputs), held, seeds)
  neighbours = (seed[:, :, None] & linked).any(1)
  together = clusters(linked)
  touched = (seed[:, :, None] & together).any(1)
  return show(inputs, seed | neighbours | (touched & middles(near, together)))


def clusters(linked: np.ndarray) -> np.ndarray:
  """Which entries are connected by links, in however many steps.

  Args:
    linked: bool [E, V, V], symmetric.

  Returns:
    bool [E, V, V]; every entry is in a cluster with itself.
  """
  together = linked | np.eye(linked.shape[1], dtype=bool)
  steps = 1
  while steps < linked.shape[1]:
    reach = together.astype(np.float32)
    together = (reach @ reach) > 0
    steps *= 2
  return together


def middles(near: np.ndarray, together: np.ndarray) -> np.ndarray:
  """bool [E, V]: of its cluster the entry most similar to all; ties to the lower position."""
  total = np.sum(np.where(together, near, 0.0), axis=2)
  best = np.argmax(np.where(together, total[:, None, :], -np.inf), axis=2)
  return best == np.arange(near.shape[1])
