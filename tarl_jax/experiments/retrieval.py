"""Experiment 5: worth of real texts that are retrieved by meaning, over a change of the facts.

Owns the episodes and the curves. Knows the texts only through `texts.py`, worth only through
`tarl_jax.worth`, and the choices from `retrieval_settings.py`. Embeddings are computed once,
on the host; all seeds then run in one program.

Axis legend: S seeds, T episodes, Q questions, M notes, R notes retrieved an episode.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tarl_jax import estimators, worth
from tarl_jax.errors import InputError
from tarl_jax.experiments.retrieval_settings import RetrievalSettings
from tarl_jax.experiments.simulate import draw_uniform, make_keys
from tarl_jax.experiments.texts import NOTES, QUESTIONS, RARE_TOPIC, STALE_TOPIC, TOPICS
from tarl_jax.models.encoder import Encoder, make_encoder
from tarl_jax.worth import Outcome

TRACKED = ("stale", "specialist", "hitchhiker")
THRESHOLD = 0.40  # the worth whose crossing the paper reports


class RetrievalResults(NamedTuple):
  """What the seeds gave; NumPy arrays, seeds first."""

  curves: np.ndarray  # float32 [S, T, 3], worth of TRACKED after each episode
  before: np.ndarray  # float32 [S], worth of the stale note just before the change
  crossing: np.ndarray  # float32 [S], episodes from the change to below 0.40; NaN: never
  final: np.ndarray  # float32 [S, 3], worth of TRACKED at the end


class _Desk(NamedTuple):
  """Constants of the questions, in the order of QUESTIONS."""

  topic: np.ndarray  # int32 [Q], index into TOPICS
  needed: np.ndarray  # int32 [Q], index into NOTES
  tracked: np.ndarray  # int32 [3], index into NOTES of TRACKED
  stale_topic: int
  rare_topic: int


@functools.cache
def _desk() -> _Desk:
  names = [topic.name for topic in TOPICS]
  stale, rare = names.index(STALE_TOPIC), names.index(RARE_TOPIC)
  topic = [index for index, topic in enumerate(TOPICS) for _ in topic.questions]
  needed = [NOTES.index(TOPICS[index].needed) for index in topic]
  tracked = [TOPICS[stale].needed, TOPICS[rare].needed, TOPICS[rare].others[0]]
  return _Desk(
    topic=np.array(topic, np.int32),
    needed=np.array(needed, np.int32),
    tracked=np.array([NOTES.index(text) for text in tracked], np.int32),
    stale_topic=stale,
    rare_topic=rare,
  )


def choose_encoder(weights: str | None = None) -> Encoder:
  """MiniLM, or the hashed encoder with one printed sentence where no weights are at hand.

  Raises:
    InputError: if `weights` names a folder that cannot be used: a wish is not replaced.
  """
  try:
    return make_encoder("minilm", weights)
  except InputError as error:
    if weights:
      raise
    print(f"Experiment 5 runs with the hashed encoder instead of MiniLM: {error}")
    return make_encoder("hashed")


def similarities(encoder: Encoder) -> np.ndarray:
  """Cosine of every question with every note, float32 [Q, M]. Host only."""
  questions, notes = encoder.encode(QUESTIONS).sentence, encoder.encode(NOTES).sentence
  return questions @ notes.T


def question_shares(settings: RetrievalSettings, stale_share: float) -> np.ndarray:
  """Probability of each question, float64 [Q], sum 1."""
  desk = _desk()
  rest = (1.0 - stale_share - settings.rare_share) / (len(TOPICS) - 2)
  shares = np.full(len(TOPICS), rest)
  shares[[desk.stale_topic, desk.rare_topic]] = stale_share, settings.rare_share
  return (shares / np.bincount(desk.topic))[desk.topic]


class Choices(NamedTuple):
  """The numbers of the settings as arrays: settings that differ in them share a program."""

  change_at: jax.Array  # int32 []
  ends_before: jax.Array  # float32 [Q], cumulated question shares up to the change ...
  ends_after: jax.Array  # float32 [Q], ... and from then on
  exploration: jax.Array  # float32 []
  right_success: jax.Array  # float32 [Q]
  false_success: jax.Array  # float32 [Q], after the change; only the stale topic differs
  missing_success: jax.Array  # float32 []
  kept: jax.Array  # float32 [], factor on the counters an episode


def as_choices(settings: RetrievalSettings) -> Choices:
  """See `Choices`; host only."""
  desk = _desk()
  right = np.where(desk.topic == desk.rare_topic, settings.rare_success, settings.right_success)
  false = np.where(desk.topic == desk.stale_topic, settings.false_success, right)
  before = question_shares(settings, settings.stale_share_before)
  after = question_shares(settings, settings.stale_share)
  return Choices(
    change_at=jnp.int32(settings.change_at),
    ends_before=jnp.asarray(before.cumsum(), jnp.float32),
    ends_after=jnp.asarray(after.cumsum(), jnp.float32),
    exploration=jnp.float32(settings.exploration),
    right_success=jnp.asarray(right, jnp.float32),
    false_success=jnp.asarray(false, jnp.float32),
    missing_success=jnp.float32(settings.missing_success),
    kept=jnp.float32(2.0 ** (-1.0 / settings.half_life)),
  )


class Episodes(NamedTuple):
  """What happened; the leaves of one episode have no leading axis."""

  slots: jax.Array  # int32 [T, R], notes retrieved
  weights: jax.Array  # float32 [T, R]
  outcome: jax.Array  # int32 [T], SUCCESS or FAILURE


@functools.partial(jax.jit, static_argnames="episodes")
def draw_chances(key: jax.Array, episodes: int) -> jax.Array:
  """All randomness of one seed, uniform float32 [T, 3 + M]. Unbatched; uses `key` up.

  Columns: question, exploration, outcome, then a random score for each note. Apart from the
  rest, so that every setting meets the same chances.
  """
  return draw_uniform(key, episodes, 3 + len(NOTES))


def draw_episodes(
  chances: jax.Array,
  similarity: jax.Array,
  choices: Choices,
  *,
  retrieved: int,
  similarity_weights: bool,
) -> Episodes:
  """All episodes of one seed. Unbatched.

  They do not depend on the counters, so they are made at once, and the scan only counts.

  Args:
    chances: float32 [T, 3 + M], see `draw_chances`.
    similarity: float32 [Q, M], see `similarities`.
    choices: numbers of the settings.
    retrieved: R.
    similarity_weights: as in the settings.
  """
  changed = jnp.arange(chances.shape[0], dtype=jnp.int32) >= choices.change_at
  place, explore, luck = chances[:, 0], chances[:, 1], chances[:, 2]
  question = jnp.where(
    changed, _interval(choices.ends_after, place), _interval(choices.ends_before, place)
  )
  cosine = similarity[question]
  explores = explore < choices.exploration
  scores = jnp.where(explores[:, None], chances[:, 3:], cosine)
  slots = jax.lax.top_k(scores, retrieved)[1].astype(jnp.int32)
  valid = jnp.ones(slots.shape, jnp.bool_)
  weights = worth.uniform_weights(valid)
  if similarity_weights:
    of_slots = jnp.take_along_axis(cosine, slots, axis=1)
    weights = jax.vmap(worth.similarity_weights)(of_slots, valid)
  success = luck < success_chance(question, slots, changed, choices)
  outcome = jnp.where(success, jnp.int32(Outcome.SUCCESS), jnp.int32(Outcome.FAILURE))
  return Episodes(slots=slots, weights=weights, outcome=outcome)


def _interval(ends: jax.Array, place: jax.Array) -> jax.Array:
  """Index of the interval that each place in [0, 1) is in, by the intervals' ends."""
  index = jnp.searchsorted(ends, place, side="right")
  return jnp.minimum(index, len(ends) - 1).astype(jnp.int32)


def success_chance(
  question: jax.Array, slots: jax.Array, changed: jax.Array, choices: Choices
) -> jax.Array:
  """Chance that the episodes succeed, float32 [T], by what they need and what they got.

  Args:
    question: int32 [T], index into QUESTIONS.
    slots: int32 [T, R], notes retrieved.
    changed: bool [T], the stale note is false.
    choices: numbers of the settings.
  """
  found = jnp.any(slots == jnp.asarray(_desk().needed)[question][:, None], axis=1)
  with_note = jnp.where(changed, choices.false_success[question], choices.right_success[question])
  return jnp.where(found, with_note, choices.missing_success)


@functools.partial(jax.jit, static_argnames=("retrieved", "similarity_weights"))
def simulate(
  chances: jax.Array,
  similarity: jax.Array,
  choices: Choices,
  *,
  retrieved: int,
  similarity_weights: bool,
) -> jax.Array:
  """Worth of TRACKED after each episode of one seed, float32 [T, 3]. Unbatched.

  Args as `draw_episodes`.
  """
  tracked = jnp.asarray(_desk().tracked)

  def count(rows: jax.Array, episode: Episodes) -> tuple[jax.Array, jax.Array]:
    rows = worth.add_outcome(
      rows * choices.kept, episode.slots, episode.weights, jnp.int32(0), episode.outcome
    )
    return rows, estimators.worth(
      rows[tracked, 0, Outcome.SUCCESS], rows[tracked, 0, Outcome.FAILURE]
    )

  episodes = draw_episodes(
    chances, similarity, choices, retrieved=retrieved, similarity_weights=similarity_weights
  )
  rows = jnp.zeros((len(NOTES), 1, 3), jnp.float32)
  return jax.lax.scan(count, rows, episodes)[1]


def summarize(curves: np.ndarray, change_at: int) -> RetrievalResults:
  """The four figures of the paper from the curves, float32 [S, T, 3], of all seeds."""
  stale = curves[:, :, 0]
  below = stale[:, change_at:] < THRESHOLD
  first = (below.argmax(1) + 1).astype(np.float32)
  return RetrievalResults(
    curves=curves,
    before=stale[:, change_at - 1],
    crossing=np.where(below.any(1), first, np.float32(np.nan)),
    final=curves[:, -1],
  )


def run(
  settings: RetrievalSettings, seeds: Sequence[int], similarity: np.ndarray
) -> RetrievalResults:
  """Experiment 5 for all seeds in one program.

  Args:
    settings: the choices.
    seeds: S integers; the same seed gives the same episodes.
    similarity: float32 [Q, M], `similarities(choose_encoder(weights))`.
  """
  keys = make_keys(seeds)
  chances = jax.vmap(draw_chances, in_axes=(0, None))(keys, settings.episodes)
  one_seed = functools.partial(
    simulate, retrieved=settings.retrieved, similarity_weights=settings.similarity_weights
  )
  curves = jax.vmap(one_seed, in_axes=(0, None, None))(
    chances, jnp.asarray(similarity), as_choices(settings)
  )
  return summarize(np.asarray(jax.device_get(curves)), settings.change_at)
