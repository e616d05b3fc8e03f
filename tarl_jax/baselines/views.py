"""Memory views: what of the visible entries a memory system would have at hand.

Owns how entries are hidden, reordered and limited, how labels follow, and the way back to the
original positions. A view is applied to the inputs of training, validation and test alike;
then the policy, its features and its budget are TARL's own, and only the view differs.

    inputs, moments --view--> Seen(inputs, place) --policy--> Predictions
    labels --seen_labels--> labels by new position
    Predictions by new position --original_positions--> Predictions, judged as any other

A view never sees labels. A target that it hides is out of sight: such an example is not
trained on, and it is judged like any other, so a decision that needs the target is wrong.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tarl_jax.data.dataset import Split
from tarl_jax.data.moments import Moment
from tarl_jax.evaluation.judging import Predictions
from tarl_jax.inputs import Labels, PolicyInputs
from tarl_jax.types import Status


class Seen(NamedTuple):
  """Inputs through a view; shapes and dtypes are those of the inputs it was given."""

  inputs: PolicyInputs
  place: np.ndarray  # int32 [E, V], original position of what is shown here, V for nothing


View = Callable[[PolicyInputs, Sequence[Moment]], Seen]


def visible(inputs: PolicyInputs) -> np.ndarray:
  """bool [E, V]: the position holds an entry."""
  return np.arange(inputs.entries.shape[1]) < np.asarray(inputs.num_visible)[:, None]


def show(
  inputs: PolicyInputs, shown: np.ndarray, rank: np.ndarray | None = None, *, one_ledger=False
) -> Seen:
  """The inputs with some entries only, zeros after them as `featurize` leaves them.

  Args:
    inputs: leading [E]; unchanged.
    shown: bool [E, V], by original position; what holds no entry is never shown.
    rank: [E, V], order within a ledger, lowest first and ties as they were; None: as it was.
    one_ledger: every entry counts as Accepted, in the order of `rank` alone.
  """
  num_visible = shown.shape[1]
  positions = np.arange(num_visible)
  shown = shown & visible(inputs)
  pending = (positions >= np.asarray(inputs.num_accepted)[:, None]) & (not one_ledger)
  group = np.where(shown, pending.astype(np.int64), 2)
  order = np.lexsort((np.broadcast_to(positions, shown.shape) if rank is None else rank, group))
  sorted_group = np.take_along_axis(group, order, 1)
  place = np.where(sorted_group < 2, order, num_visible).astype(np.int32)
  moved = {
    name: np.where(
      (place < num_visible)[..., None], np.take_along_axis(leaf, order[..., None], 1), 0
    )
    for name, leaf in entry_leaves(inputs).items()
  }
  return Seen(
    inputs._replace(
      **moved,
      num_accepted=np.sum(sorted_group == 0, axis=1, dtype=np.int32),
      num_visible=np.sum(sorted_group < 2, axis=1, dtype=np.int32),
    ),
    place,
  )


def entry_leaves(inputs: PolicyInputs) -> dict[str, np.ndarray]:
  """The parts of the inputs that have a row an entry, float32 [E, V, ...]."""
  names = ("entries", "pair_signals", "time_signals", "entry_source", "pair_source")
  return {name: np.asarray(getattr(inputs, name)) for name in names}


def highest(score: np.ndarray, among: np.ndarray, number: int) -> np.ndarray:
  """bool [E, V]: the `number` highest scores among some entries; ties to the lower position."""
  order = np.argsort(np.where(among, -score, np.inf), axis=1, kind="stable")
  chosen = np.zeros_like(among)
  np.put_along_axis(chosen, order[:, :number], True, axis=1)
  return chosen & among


def arrival_times(moments: Sequence[Moment], num_visible: int) -> np.ndarray:
  """When each entry was observed, float64 [E, V] minutes; -inf where unknown or empty."""
  times = np.full((len(moments), num_visible), -np.inf)
  for e, moment in enumerate(moments):
    for v, entry in enumerate(moment.entries):
      if entry.observed_at is not None:
        times[e, v] = entry.observed_at
  return times


def cosines(inputs: PolicyInputs) -> np.ndarray:
  """Cosine of every two entries, float32 [E, V, V]; 0 with an empty position."""
  entries = np.asarray(inputs.entries)
  return entries @ entries.transpose(0, 2, 1)


def seen_labels(labels: Labels, seen: Seen) -> Labels:
  """The labels by the positions of a view; leading [E].

  The target is the gold one if it is shown, else the first right one that is. Where there was
  one and the view hides them all the weight is 0 and "none" is what is left to be right.
  """
  num_visible = seen.place.shape[1]
  new_place = _new_places(seen.place)
  shown = np.pad(labels.targets[:, :-1], ((0, 0), (0, 1)))
  targets = np.take_along_axis(shown, seen.place, 1)
  usable = targets.any(1)
  first = np.where(usable, targets.argmax(1), num_visible)
  target = np.take_along_axis(new_place, labels.target[:, None], 1)[:, 0]
  none = labels.targets[:, -1] | ~usable
  resolves = np.take_along_axis(new_place, labels.resolves[:, None], 1)[:, 0]
  reliability = np.pad(labels.entry_reliability, ((0, 0), (0, 1)), constant_values=np.nan)
  hidden = (labels.target < num_visible) & ~usable
  return labels._replace(
    target=np.where(target < num_visible, target, first).astype(np.int32),
    targets=np.concatenate([targets, none[:, None]], axis=1),
    entry_reliability=np.take_along_axis(reliability, seen.place, 1),
    weight=np.where(hidden, 0.0, labels.weight).astype(np.float32),
    resolves=resolves.astype(np.int32),
    outcome=np.where(resolves < num_visible, labels.outcome, Status.EMPTY).astype(np.int32),
  )


def _new_places(place: np.ndarray) -> np.ndarray:
  """int32 [E, V + 1]: the new position of each original one, V where hidden and for V."""
  number, num_visible = place.shape
  found = np.full((number, num_visible + 1), num_visible, np.int32)
  positions = np.broadcast_to(np.arange(num_visible, dtype=np.int32), place.shape)
  np.put_along_axis(found, place, positions, axis=1)
  found[:, -1] = num_visible
  return found


def original_positions(predictions: Predictions, seen: Seen) -> Predictions:
  """Predictions made on a view, by the positions of the inputs that it was given."""
  number, num_visible = seen.place.shape
  back = np.concatenate([seen.place, np.full((number, 1), num_visible, np.int32)], axis=1)

  def original(positions: np.ndarray) -> np.ndarray:
    return np.take_along_axis(back, np.asarray(positions)[:, None], 1)[:, 0]

  return predictions._replace(
    position=original(predictions.position),
    grounded=original(predictions.grounded),
    resolves=None if predictions.resolves is None else original(predictions.resolves),
  )


def view_split(split: Split, view: View) -> tuple[Split, Seen]:
  """The split with inputs and labels through the view, for training and prediction.

  Its streams, moments and `counts` stay as they are: predictions on it go back through
  `original_positions` and are judged against the split that was given.
  """
  seen = view(split.inputs, split.moments)
  labels = seen_labels(split.labels, seen)
  return dataclasses.replace(split, inputs=seen.inputs, labels=labels), seen
