"""What the rules of this folder read from the inputs: named signals and the nearest entry.

Where a published system asks a language model whether two texts state the same fact or
contradict each other, its rule form asks `nearest`, so that rules differ by what they write
alone. Knows the names of the signals and no system.
"""

from typing import NamedTuple

import numpy as np

from tarl_jax.data.examples import PAIR_SOURCE_SIGNALS
from tarl_jax.data.lexical import CLAIM_SIGNALS, PAIR_SIGNALS
from tarl_jax.evaluation.judging import Predictions
from tarl_jax.inputs import PolicyInputs
from tarl_jax.models.interaction import INTERACTION_SIGNALS

PAIR_NAMES = (*PAIR_SIGNALS, *INTERACTION_SIGNALS)


class Thresholds(NamedTuple):
  """Similarities from which an entry counts as related, and as the same fact."""

  related: float = 0.5
  same: float = 0.8


class Nearest(NamedTuple):
  """The Accepted entry nearest to each candidate; NumPy arrays with a leading [E].

  Without any Accepted entry `position` is 0 and `related` false.
  """

  position: np.ndarray  # int64 [E]
  related: np.ndarray  # bool [E], about the same
  same: np.ndarray  # bool [E], and says the same; only where related
  pair: np.ndarray  # float32 [E, P], its pair signals
  time: np.ndarray  # float32 [E, T], its time signals


def pick(values: np.ndarray, names: tuple[str, ...], name: str) -> np.ndarray:
  """The signal `name`, [...], of values [..., S] whose last axis is `names`."""
  return values[..., names.index(name)]


def any_of(values: np.ndarray, names: tuple[str, ...], wanted: tuple[str, ...]) -> np.ndarray:
  """bool [...]: one of the 0/1 signals `wanted` is set."""
  return np.any([pick(values, names, name) > 0.5 for name in wanted], axis=0)


def closeness(inputs: PolicyInputs) -> np.ndarray:
  """Mean of the cosine of the sentence vectors and the idf-weighted word overlap, [E, V]."""
  pairs = np.asarray(inputs.pair_signals)
  return 0.5 * (pick(pairs, PAIR_NAMES, "sentence_cosine") + pick(pairs, PAIR_NAMES, "idf_f1"))


def similarity(inputs: PolicyInputs) -> np.ndarray:
  """`closeness` of each Accepted entry, float32 [E, V]; -1 where there is none."""
  close = closeness(inputs)
  positions = np.arange(close.shape[1])
  return np.where(positions < np.asarray(inputs.num_accepted)[:, None], close, -1.0)


def pending_similarity(inputs: PolicyInputs) -> np.ndarray:
  """`closeness` of each Pending entry, float32 [E, V]; -1 where there is none."""
  close = closeness(inputs)
  positions = np.arange(close.shape[1])
  waits = positions >= np.asarray(inputs.num_accepted)[:, None]
  return np.where(waits & (positions < np.asarray(inputs.num_visible)[:, None]), close, -1.0)


def owners_differ(inputs: PolicyInputs) -> np.ndarray:
  """bool [E, V]: the entry is about somebody else."""
  pairs, sources = np.asarray(inputs.pair_signals), np.asarray(inputs.pair_source)
  in_text = any_of(pairs, PAIR_NAMES, ("owner_differs", "surname_differs"))
  return in_text | any_of(sources, PAIR_SOURCE_SIGNALS, ("other_owner", "other_subject"))


def says_same(pair: np.ndarray, close: np.ndarray, thresholds: Thresholds) -> np.ndarray:
  """bool [...]: the entry states the same fact with the same value; pair signals [..., P]."""
  value_differs = any_of(
    pair, PAIR_NAMES, ("numbers_differ", "dates_differ", "quotes_differ", "polarity_differs")
  )
  alike = restates(pair) | ((close >= thresholds.same) & ~value_differs)
  return (close >= thresholds.related) & alike


def restates(pair: np.ndarray) -> np.ndarray:
  """bool [...]: the two texts are equal in all their content words; pair signals [..., P]."""
  return any_of(pair, PAIR_NAMES, ("text_equal", "content_equal"))


def nothing_to_keep(inputs: PolicyInputs) -> np.ndarray:
  """bool [E]: the candidate states no lasting fact."""
  return any_of(
    np.asarray(inputs.claim_signals),
    CLAIM_SIGNALS,
    ("question", "filler", "one_off", "hypothetical"),
  )


def nearest(inputs: PolicyInputs, thresholds: Thresholds) -> Nearest:
  """The nearest Accepted entry that is not about somebody else; inputs have a leading [E]."""
  rows = np.arange(len(inputs.num_accepted))
  close = np.where(owners_differ(inputs), -1.0, similarity(inputs))
  position = close.argmax(1)
  pair = np.asarray(inputs.pair_signals)[rows, position]
  at_position = close[rows, position]
  return Nearest(
    position=position,
    related=at_position >= thresholds.related,
    same=says_same(pair, at_position, thresholds),
    pair=pair,
    time=np.asarray(inputs.time_signals)[rows, position],
  )


def rule_predictions(
  inputs: PolicyInputs, action: np.ndarray, position: np.ndarray, about: np.ndarray
) -> Predictions:
  """Predictions of a rule that has no probabilities and settles nothing.

  Args:
    inputs: for V.
    action: int [E].
    position: int [E], visible position that the claim is about.
    about: bool [E], false where it is about no entry.
  """
  grounded = np.where(about, position, inputs.entries.shape[1]).astype(np.int32)
  return Predictions(
    action=action.astype(np.int32), position=grounded, grounded=grounded, probabilities=None
  )
