"""Experiment 3: worth steers what is retrieved; does retrieval collapse (SPEC 7).

Collapse would be a success rate under that of random retrieval, or memories that are never
retrieved again. Three stationary regimes of utilities, three policies. Owns the policies and
which figures are read off the counters. Axis legend as in `simulate.py`; also K candidates.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tarl_jax.experiments.config import SteeredConfig
from tarl_jax.experiments.simulate import (
  NEUTRAL,
  count_outcome,
  draw_uniforms,
  pick_distinct,
  scan_episodes,
  spearman,
  success_chance,
  worth_of,
)

REGIMES = ("even utilities", "few useful", "all alike")
POLICIES = ("steered", "random", "greedy")  # exploration as set, always, never
FEW, FEW_UTILITY, OTHER_UTILITY = 0.1, 0.9, 0.2  # "few useful": share, utilities


class SteeredEpisodes(NamedTuple):
  """Drawn before the scan, the same for every regime and policy."""

  candidates: jax.Array  # int32 [T, K]
  order: jax.Array  # float32 [T, K], ranks the candidates when the episode explores
  explores: jax.Array  # float32 [T], the episode explores if under the exploration rate
  outcome: jax.Array  # float32 [T], it succeeds if under the chance of success


class SteeredResult(NamedTuple):
  """By regime and policy; "in the end" is the last tenth of the episodes."""

  rho: jax.Array  # float32 [3, 3], worth with utility; 0 where all utilities are alike
  success: jax.Array  # float32 [3, 3], share of successes in the end
  in_use: jax.Array  # float32 [3, 3], share of memories that are retrieved in the end
  entropy: jax.Array  # float32 [3, 3], of the retrievals in the end; 1 when all are equal


def draw_episodes(
  key: jax.Array, settings: SteeredConfig, episodes: int
) -> tuple[jax.Array, SteeredEpisodes]:
  """Utilities of each regime, float32 [3, N], and T = `episodes` episodes. Consumes `key`."""
  number, candidates = settings.memories, settings.candidates
  utility, share, order, explores, outcome = draw_uniforms(
    key, (number,), (candidates, episodes), (episodes, candidates), (episodes,), (episodes,)
  )
  drawn = SteeredEpisodes(
    candidates=pick_distinct(share, number), order=order, explores=explores, outcome=outcome
  )
  return make_utilities(utility), drawn


def make_utilities(even: jax.Array) -> jax.Array:
  """Utilities of each regime, float32 [3, N], from the even ones, float32 [N]."""
  few = jnp.where(even < FEW, FEW_UTILITY, OTHER_UTILITY)
  return jnp.stack([even, few, jnp.full_like(even, NEUTRAL)])


def advance(
  counts: jax.Array,
  episode: SteeredEpisodes,
  *,
  utility: jax.Array,
  exploration: jax.Array,
  settings: SteeredConfig,
) -> jax.Array:
  """Counters after one episode in which they choose; of equals the first. Unbatched.

  Args:
    counts: float32 [N, 2, 1].
    episode: leaves without the axis T.
    utility: float32 [N].
    exploration: float32 [], share of exploring episodes.
    settings: static.
  """
  worth = worth_of(counts[:, :, 0])[episode.candidates]
  values = jnp.where(episode.explores < exploration, episode.order, worth)
  _, places = jax.lax.top_k(values, settings.retrieved)
  slots = episode.candidates[places]
  chance = success_chance(
    utility[slots],
    jnp.ones(slots.shape, bool),
    base=jnp.float32(NEUTRAL),
    effect=settings.effect,
    quality=settings.quality,
  )
  weights = jnp.ones((*slots.shape, 1), jnp.float32)
  return count_outcome(counts, slots, weights, episode.outcome < chance)


def _figures(counts: jax.Array, utility: jax.Array) -> SteeredResult:
  """One regime and policy, from counters [P, N, 2]."""
  checkpoints = counts.shape[0]
  before = counts[checkpoints - 1 - checkpoints // 10]
  success, failure = jnp.moveaxis(counts[-1] - before, -1, 0)
  retrieved = success + failure  # [N]
  share = retrieved / jnp.sum(retrieved)
  surprise = -share * jnp.log(jnp.where(share > 0, share, 1.0))
  return SteeredResult(
    rho=spearman(utility, worth_of(counts[-1])),
    success=jnp.sum(success) / jnp.sum(retrieved),
    in_use=jnp.mean(retrieved > 0),
    entropy=jnp.sum(surprise) / jnp.log(utility.shape[0]),
  )


def simulate(
  key: jax.Array, *, settings: SteeredConfig, episodes: int, checkpoints: int
) -> SteeredResult:
  """One seed, all regimes and policies on the same draws. Unbatched; consumes `key`."""
  utilities, drawn = draw_episodes(key, settings, episodes)

  def one(utility: jax.Array, exploration: jax.Array) -> SteeredResult:
    step = functools.partial(advance, utility=utility, exploration=exploration, settings=settings)
    nothing = jnp.zeros((settings.memories, 2, 1), jnp.float32)
    return _figures(scan_episodes(step, nothing, drawn, checkpoints)[..., 0], utility)

  rates = jnp.asarray([settings.exploration, 1.0, 0.0], jnp.float32)  # as POLICIES
  by_policy = jax.vmap(one, in_axes=(None, 0))
  by_regime = jax.vmap(by_policy, in_axes=(0, None))
  return by_regime(utilities, rates)
