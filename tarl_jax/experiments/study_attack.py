"""Study: a reader who pulls a good memory into tasks that fail, so that its worth falls.

Owns the regime (AttackSettings), the conditions, and which views of worth hold against it.
Nothing here is of the paper. Everybody reads the same memory; the readers' outcomes are
counted apart.

One episode: with probability `share` one of the attacking readers recalls the victim and R - 1
others and the task fails nearly always; else an honest reader gets R memories at random and
succeeds with the probability of their mean utility. Propensities are logged by the system, so
an attacker cannot lie about them: the victim's is 1 in an attacker's episode. A protected claim
is exempt from deprecation by rule (`governance_plan.py`), so that defence needs no study.

Axis legend: S seeds, C conditions, M memories, R retrieved, D readers (strata), V views.
"""

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tarl_jax import estimators, governance_plan, ledgers, worth
from tarl_jax import propensity as weighting
from tarl_jax.errors import InputError
from tarl_jax.experiments.simulate import draw_distinct, draw_uniform, make_keys
from tarl_jax.experiments.study_confounding import logged_sums
from tarl_jax.types import NO_CLAIM, MemoryState, Status
from tarl_jax.worth import Outcome, Worth

VICTIM = 0  # index of the memory under attack
VIEWS = ("MW", "quota", "lift", "DR effect")  # estimates of worth under attack
DEMOTIONS = ("pooled", "quota", "by reader")  # counters that governance reads


@dataclasses.dataclass(frozen=True, kw_only=True)
class AttackSettings:
  """Sizes and choices of the study."""

  episodes: int = 4000
  memories: int = 50  # M
  retrieved: int = 3  # R
  readers: int = 8  # D, honest ones included
  victim_utility: float = 0.9  # of the others: uniform in [0, 1]
  attack_success: float = 0.02  # of an attacker's tasks
  shares: tuple[float, ...] = (0.0, 0.02, 0.05, 0.1, 0.3)  # of the episodes
  attackers: tuple[int, ...] = (1, 4)  # readers the attacker has
  quota: float = 20.0  # most outcomes that one reader has on one memory, in the view "quota"

  def __post_init__(self) -> None:
    if self.episodes < 1:
      raise InputError("attack.episodes must be over 0.")
    if not 1 <= self.retrieved < self.memories:
      raise InputError("attack.retrieved must be from 1 to memories - 1.")
    if not self.attackers or not all(0 < number < self.readers for number in self.attackers):
      raise InputError("attack.attackers must be over 0 and leave at least one honest reader.")
    if not self.shares or not all(0 <= share <= 1 for share in self.shares):
      raise InputError("attack.shares must be from 0 to 1, at least one.")
    for name in ("victim_utility", "attack_success"):
      if not 0 <= getattr(self, name) <= 1:
        raise InputError(f"attack.{name} must be from 0 to 1.")
    if not self.quota > 0:
      raise InputError("attack.quota must be over 0.")


def limit_readers(counts: jax.Array, quota: float) -> jax.Array:
  """Scales each reader's counters on each memory down to at most `quota` graded outcomes.

  Args:
    counts: float32 [M, D, 3], by reader and Outcome.
    quota: most outcomes a reader, over 0.

  Returns:
    float32 [M, D, 3]; the ratios are unchanged.
  """
  graded = counts[..., Outcome.SUCCESS] + counts[..., Outcome.FAILURE]
  return counts * (quota / jnp.maximum(graded, quota))[..., None]


class Episodes(NamedTuple):
  """What happened; the leaves of one episode have no leading axis."""

  slots: jax.Array  # int32 [T, R], distinct
  reader: jax.Array  # int32 [T]
  outcome: jax.Array  # int32 [T], SUCCESS or FAILURE


def draw_episodes(
  key: jax.Array, share: jax.Array, attackers: jax.Array, settings: AttackSettings
) -> tuple[jax.Array, Episodes]:
  """Utilities, float32 [M], and all episodes of one seed. Unbatched; uses `key` up.

  Args:
    key: one typed key.
    share: of the episodes that are attacks, float32 [].
    attackers: the first so many readers attack, int32 [].
    settings: static.
  """
  key_utility, key_honest, key_others, key_chance = jax.random.split(key, 4)
  num, episodes, retrieved = settings.memories, settings.episodes, settings.retrieved
  utility = draw_uniform(key_utility, num).at[VICTIM].set(settings.victim_utility)
  honest = draw_distinct(key_honest, episodes, num, retrieved)
  others = 1 + draw_distinct(key_others, episodes, num - 1, retrieved - 1)
  forced = jnp.concatenate([jnp.full((episodes, 1), VICTIM, jnp.int32), others], axis=1)
  attack, who, luck = draw_uniform(key_chance, 3, episodes)
  attacks = attack < share
  slots = jnp.where(attacks[:, None], forced, honest)
  first = jnp.where(attacks, 0, attackers)
  count = jnp.where(attacks, attackers, settings.readers - attackers)
  reader = first + jnp.minimum((who * count).astype(jnp.int32), count - 1)
  chance = jnp.where(attacks, settings.attack_success, utility[slots].mean(1))
  outcome = jnp.where(luck < chance, jnp.int32(Outcome.SUCCESS), jnp.int32(Outcome.FAILURE))
  return utility, Episodes(slots=slots, reader=reader, outcome=outcome)


def propensities(attackers: jax.Array, settings: AttackSettings) -> jax.Array:
  """Chance of each memory to be retrieved for each reader, float32 [M, D]."""
  number, retrieved = settings.memories, settings.retrieved
  forced = jnp.full((number,), (retrieved - 1) / (number - 1), jnp.float32).at[VICTIM].set(1.0)
  attacks = jnp.arange(settings.readers) < attackers
  return jnp.where(attacks[None, :], forced[:, None], jnp.float32(retrieved / number))


class AttackResults(NamedTuple):
  """NumPy arrays by seed and condition."""

  conditions: list[tuple[float, int]]  # share of attacks, attackers; C of them
  victim: np.ndarray  # float32 [S, C, V], estimate of the victim
  below: np.ndarray  # float32 [S, C, V], share of the other memories under it
  demoted: np.ndarray  # bool [S, C, 3], by DEMOTIONS: due for deprecation


def filled_memory(number: int) -> MemoryState:
  """A memory whose Accepted is full: slot i holds claim i of `number`."""
  state = ledgers.init_state(accepted=number, pending=1, history=1, num_claims=number)
  claims = jnp.arange(number, dtype=jnp.int32)
  kept = jnp.full((number,), Status.ACCEPTED, jnp.int32)
  rows = jnp.stack([claims, kept, jnp.full_like(claims, NO_CLAIM), jnp.zeros_like(claims)])
  accepted = state.accepted.replace(rows=rows, written=jnp.int32(number))
  return state.replace(accepted=accepted, entered=jnp.ones_like(state.entered))


def count_episodes(episodes: Episodes, state: MemoryState, readers: int) -> Worth:
  """Counters by reader after all episodes, in one scan. Unbatched.

  Args:
    episodes: leaves [T, ...].
    state: the memory; it does not change.
    readers: D, the strata.
  """

  def step(counters: Worth, episode: Episodes) -> tuple[Worth, None]:
    weights = jnp.ones(episode.slots.shape, jnp.float32)
    slots, reader, outcome = episode.slots, episode.reader, episode.outcome
    return worth.record(counters, state, slots, weights, reader, outcome), None

  return jax.lax.scan(step, worth.init_worth(state, readers), episodes)[0]


def look(counters: Worth, readers: jax.Array, propensity: jax.Array, quota: float) -> jax.Array:
  """The VIEWS of every memory, float32 [M, V].

  Args:
    counters: by reader.
    readers: float32 [2, D], successes and failures of all episodes of each reader.
    propensity: float32 [M, D].
    quota: see `limit_readers`.
  """
  limited = limit_readers(counters.live, quota).sum(1)
  pairs = jnp.stack([counters.success, counters.failure], axis=1)
  sums = logged_sums(pairs, readers, propensity)
  views = (
    estimators.pooled(counters),
    estimators.worth(limited[:, Outcome.SUCCESS], limited[:, Outcome.FAILURE]),
    estimators.lift(counters.success, counters.failure),
    weighting.effect(weighting.doubly_robust(sums)).value,
  )
  return jnp.stack(views, axis=1)


def demotions(counters: Worth, quota: float) -> jax.Array:
  """Whether governance finds the victim due for deprecation, bool [3], by DEMOTIONS."""

  def pool(rows: jax.Array) -> jax.Array:  # all readers as one stratum, the others empty
    return jnp.zeros_like(rows).at[:, 0].set(rows.sum(1))

  limited = limit_readers(counters.live, quota)
  tables = jnp.stack([pool(counters.live), pool(limited), counters.live])
  settings = governance_plan.Settings()
  is_victim = jnp.arange(len(limited)) == VICTIM

  def is_due(live: jax.Array) -> jax.Array:
    table = counters.replace(live=live)
    return governance_plan.is_due(table, is_victim, settings)[VICTIM]

  return jax.vmap(is_due)(tables)


@functools.partial(jax.jit, static_argnames="settings")
def simulate(
  key: jax.Array, share: jax.Array, attackers: jax.Array, settings: AttackSettings
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """(victim, below, demoted) of one seed and condition, see AttackResults. Unbatched.

  Args as `draw_episodes`.
  """
  _, episodes = draw_episodes(key, share, attackers, settings)
  state = filled_memory(settings.memories)
  counters = count_episodes(episodes, state, settings.readers)
  readers = jnp.zeros((2, settings.readers)).at[episodes.outcome, episodes.reader].add(1.0)
  propensity = propensities(attackers, settings)
  views = look(counters, readers, propensity, settings.quota)
  others = jnp.arange(settings.memories) != VICTIM
  below = jnp.mean(views < views[VICTIM][None, :], axis=0, where=others[:, None])
  return views[VICTIM], below, demotions(counters, settings.quota)


def run(settings: AttackSettings, seeds: Sequence[int]) -> AttackResults:
  """All conditions and seeds in one program; the same seed meets the same chances."""
  every = itertools.product(settings.shares, settings.attackers)
  conditions = [pair for pair in every if pair[0] > 0 or pair[1] == settings.attackers[0]]
  shares, attackers = zip(*conditions)
  by_condition = jax.vmap(simulate, in_axes=(None, 0, 0, None))
  measured = jax.vmap(by_condition, in_axes=(0, None, None, None))(
    make_keys(seeds),
    jnp.asarray(shares, jnp.float32),
    jnp.asarray(attackers, jnp.int32),
    settings,
  )
  return AttackResults(conditions, *(np.asarray(part) for part in jax.device_get(measured)))
