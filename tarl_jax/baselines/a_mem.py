"""A-Mem: notes that are linked to their neighbours and rewrite them.

Source: "A-MEM: Agentic Memory for LLM Agents" (Xu, Liang, Mei, Gao, Tan, Zhang; NeurIPS 2025,
arXiv 2502.12110). A new note is compared with the nearest older notes; a language model links
it to some of them, and may let a neighbour evolve, whose new form takes the place of the old
one. Search returns the nearest notes and those linked to them.
"""

from collections.abc import Sequence

import numpy as np

from tarl_jax.baselines.signals import Thresholds, closeness, nearest, rule_predictions
from tarl_jax.baselines.views import Seen, arrival_times, cosines, highest, show, visible
from tarl_jax.data.moments import Moment
from tarl_jax.evaluation.judging import Predictions
from tarl_jax.inputs import PolicyInputs
from tarl_jax.types import Action

_TOP = 5  # notes found by similarity
_LINKS = 3  # links that a new note may get
_LINKED = 0.5  # cosine from which a neighbour is linked; in the paper a model decides


def decide(inputs: PolicyInputs, kept: np.ndarray, thresholds: Thresholds) -> Predictions:
  """Append or revise: every note is kept, and one that is close enough evolves a neighbour.

  A claim about the same thing as an older note makes that note evolve into what the claim says
  (revise), also where both say the same; any other is a note of its own (append), linked or
  not. Left out: keywords, tags and the description of the context, which evolve too.
  """
  del kept
  entry = nearest(inputs, thresholds)
  action = np.where(entry.related, Action.REVISE, Action.APPEND)
  return rule_predictions(inputs, action, entry.position, entry.related)


def view(
  inputs: PolicyInputs, moments: Sequence[Moment], *, top: int = _TOP, links: int = _LINKS
) -> Seen:
  """The `top` nearest entries and those linked to them, which keep the mark of their ledger."""
  held = visible(inputs)
  linked = note_links(cosines(inputs), held, arrival_times(moments, held.shape[1]), links)
  found = highest(closeness(inputs), held, top)
  return show(inputs, found | (found[:, :, None] & linked).any(1))


def note_links(near: np.ndarray, held: np.ndarray, times: np.ndarray, links: int) -> np.ndarray:
  """Links between notes, symmetric, bool [E, V, V]: each to its `links` nearest older ones.

  Args:
    near: float32 [E, V, V], cosines.
    held: bool [E, V], there is a note.
    times: float64 [E, V], when it was made; of equal times the higher position is the newer.
    links: the most that a note gets when it is made; newer notes may add to them.
  """
  number, num_visible = held.shape
  positions = np.arange(num_visible)
  same_time = times[:, :, None] == times[:, None, :]
  older = (times[:, None, :] < times[:, :, None]) | (same_time & (positions < positions[:, None]))
  may = older & held[:, :, None] & held[:, None, :] & (near >= _LINKED)
  flat = (number * num_visible, num_visible)
  linked = highest(near.reshape(flat), may.reshape(flat), links).reshape(near.shape)
  return linked | linked.transpose(0, 2, 1)
