"""MemAgent: a memory of fixed size that is overwritten as the text is read.

Source: "MemAgent: Reshaping Long-Context LLM with Multi-Conv RL-based Memory Agent" (Yu, Chen,
Feng, Chen, Dai, Yu, Zhang, Ma, Liu, Wang, Zhou; ICLR 2026, arXiv 2507.02259). The text is read
piece by piece; after each the model writes its memory anew, in a fixed number of tokens, from
the old memory and the piece.
"""

from collections.abc import Sequence

import numpy as np

from tarl_jax.baselines.signals import (
  Thresholds,
  nearest,
  nothing_to_keep,
  restates,
  rule_predictions,
)
from tarl_jax.baselines.views import Seen, arrival_times, cosines, entry_leaves, visible
from tarl_jax.data.moments import Moment
from tarl_jax.evaluation.judging import Predictions
from tarl_jax.inputs import PolicyInputs
from tarl_jax.types import Action

_SLOTS = 8  # size of the memory
_GATE = 0.5  # share of the newcomer in a slot that it overwrites


def decide(inputs: PolicyInputs, kept: np.ndarray, thresholds: Thresholds) -> Predictions:
  """Append, noop or revise: what memory says of the matter is written over.

  A piece that holds nothing, or nothing but what memory says word for word, leaves it as it is
  (noop). One about a matter that is in memory is written over it (revise), whoever says it and
  whenever it was; else it is written beside (append). Left out: the learning of the writing
  by reward, and that a full memory loses something else; the view has the fixed size.
  """
  del kept
  entry = nearest(inputs, thresholds)
  empty = nothing_to_keep(inputs)
  action = np.where(entry.related, Action.REVISE, Action.APPEND)
  action = np.where(empty | (entry.related & restates(entry.pair)), Action.NOOP, action)
  return rule_predictions(inputs, action, entry.position, entry.related & ~empty)


def view(inputs: PolicyInputs, moments: Sequence[Moment], *, slots: int = _SLOTS) -> Seen:
  """At most `slots` mixtures of the entries, which were written in order of arrival.

  A slot's features are the mixture of what was written into it; its place is that of the last
  entry, so what was written over is out of sight. The memory has no ledgers.
  """
  number, num_visible = inputs.entries.shape[:2]
  slots = min(slots, num_visible)
  order = np.argsort(
    np.where(visible(inputs), arrival_times(moments, num_visible), np.inf), axis=1, kind="stable"
  )
  mixture, last = write_all(cosines(inputs), order, np.asarray(inputs.num_visible), slots)
  moved = {
    name: np.pad((mixture @ leaf).astype(np.float32), ((0, 0), (0, num_visible - slots), (0, 0)))
    for name, leaf in entry_leaves(inputs).items()
  }
  filled = np.minimum(inputs.num_visible, slots).astype(np.int32)
  place = np.full((number, num_visible), num_visible, np.int32)
  place[:, :slots] = last
  return Seen(inputs._replace(**moved, num_accepted=filled, num_visible=filled), place)


def write_all(
  near: np.ndarray, order: np.ndarray, counts: np.ndarray, slots: int
) -> tuple[np.ndarray, np.ndarray]:
  """The memory after every entry was written into it, one after the other.

  An entry takes the next free slot; once there is none it is mixed into the slot whose content
  is nearest to it, of equal ones the first.

  Args:
    near: float32 [E, V, V], cosines of the entries.
    order: int [E, V], entries in order of writing.
    counts: int32 [E], how many of `order` are written.
    slots: S.

  Returns:
    float32 [E, S, V], the share of each entry in each slot, rows of sum 1 where filled and 0
    elsewhere; int32 [E, S], the last entry written there, V for none.
  """
  number, num_visible = order.shape
  rows = np.arange(number)
  mixture = np.zeros((number, slots, num_visible), np.float32)
  last = np.full((number, slots), num_visible, np.int32)
  for step in range(num_visible):
    entry = order[:, step]
    newcomer = np.eye(num_visible, dtype=np.float32)[entry]
    nearness = np.einsum("esv,ev->es", mixture, near[rows, entry])
    slot = nearness.argmax(1) if step >= slots else np.full(number, step)
    old = mixture[rows, slot]
    mixed = newcomer if step < slots else (1.0 - _GATE) * old + _GATE * newcomer
    written = step < counts
    mixture[rows, slot] = np.where(written[:, None], mixed, old)
    last[rows, slot] = np.where(written, entry, last[rows, slot])
  return mixture, last
