"""Experiment 2: worth under confounding by the difficulty of tasks (SPEC 7).

Specialists are retrieved in hard tasks only, so their worth is that of hard tasks. Owns how
the episodes are drawn and which figures are read off the counters. Axis legend as in
`simulate.py`.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tarl_jax.experiments.config import MixedConfig
from tarl_jax.experiments.simulate import (
  count_outcome,
  draw_uniforms,
  pick_distinct,
  scan_episodes,
  spearman,
  success_chance,
  worth_of,
)

EASY, HARD = 0, 1  # the columns C


class MixedEpisodes(NamedTuple):
  """Drawn before the scan: random retrieval depends on no counter."""

  slots: jax.Array  # int32 [T, R]
  hard: jax.Array  # bool [T]
  success: jax.Array  # bool [T]


class MixedResult(NamedTuple):
  """Rank correlations of worth with the utilities, by checkpoint."""

  rho_all: jax.Array  # float32 [P], all tasks counted together
  rho_hard: jax.Array  # float32 [P], hard tasks only


def draw_episodes(
  key: jax.Array, settings: MixedConfig, episodes: int
) -> tuple[jax.Array, MixedEpisodes]:
  """Utilities, float32 [N], generalists first, and T = `episodes` episodes. Consumes `key`."""
  retrieval = (settings.retrieved, episodes)
  generalists, share, task, outcome = draw_uniforms(
    key, (settings.generalists,), retrieval, (episodes,), (episodes,)
  )
  specialists = jnp.full(settings.specialists, settings.specialist_utility, jnp.float32)
  utility = jnp.concatenate([generalists, specialists])
  hard = task >= settings.easy_share
  easy_slots = pick_distinct(share, settings.generalists)
  hard_slots = pick_distinct(share, utility.shape[0])  # an episode uses one of the two
  slots = jnp.where(hard[:, None], hard_slots, easy_slots)
  chance = success_chance(
    utility[slots],
    jnp.ones(slots.shape, bool),
    base=jnp.where(hard, settings.hard_success, settings.easy_success),
    effect=settings.effect,
    quality=settings.quality,
  )
  return utility, MixedEpisodes(slots=slots, hard=hard, success=outcome < chance)


def simulate(
  key: jax.Array, *, settings: MixedConfig, episodes: int, checkpoints: int
) -> MixedResult:
  """One seed, easy and hard tasks counted in columns of their own. Consumes `key`."""
  utility, drawn = draw_episodes(key, settings, episodes)

  def step(counts: jax.Array, episode: MixedEpisodes) -> jax.Array:
    stratum = jax.nn.one_hot(jnp.where(episode.hard, HARD, EASY), 2, dtype=jnp.float32)
    weights = jnp.broadcast_to(stratum, (*episode.slots.shape, 2))
    return count_outcome(counts, episode.slots, weights, episode.success)

  nothing = jnp.zeros((*utility.shape, 2, 2), jnp.float32)
  counts = scan_episodes(step, nothing, drawn, checkpoints)  # [P, N, 2, C]
  worth = worth_of(jnp.stack([jnp.sum(counts, axis=-1), counts[..., HARD]]))  # [2, P, N]
  rho_all, rho_hard = jax.vmap(jax.vmap(functools.partial(spearman, utility)))(worth)
  return MixedResult(rho_all=rho_all, rho_hard=rho_hard)
