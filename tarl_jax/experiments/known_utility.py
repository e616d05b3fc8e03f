"""Experiment 1: does worth recover a known utility under random retrieval (SPEC 7).

Owns how its episodes are drawn and which figures are read off the counters. Axis legend as in
`simulate.py`.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tarl_jax.experiments.config import KnownConfig
from tarl_jax.experiments.simulate import (
  NEUTRAL,
  count_outcome,
  draw_uniform,
  draw_uniforms,
  pick_distinct,
  scan_episodes,
  spearman,
  success_chance,
  worth_of,
)
from tarl_jax.worth import similarity_weights, uniform_weights

WEIGHTINGS = ("uniform", "score-proportional", "oracle")  # the columns C


class KnownEpisodes(NamedTuple):
  """Drawn before the scan: random retrieval depends on no counter."""

  slots: jax.Array  # int32 [T, R]
  weights: jax.Array  # float32 [T, R, C], C as WEIGHTINGS
  success: jax.Array  # bool [T]


class KnownResult(NamedTuple):
  """Rank correlations with the utilities."""

  rho: jax.Array  # float32 [P, C], of worth, by checkpoint and weighting
  frozen: jax.Array  # float32 [], of worth that is never updated
  written: jax.Array  # float32 [], of a score given at writing that no outcome changes


def draw_episodes(
  key: jax.Array, settings: KnownConfig, episodes: int
) -> tuple[jax.Array, KnownEpisodes]:
  """Utilities, float32 [N], and all T = `episodes` episodes. Unbatched; consumes `key`."""
  number, retrieved = settings.memories, settings.retrieved
  utility, share, score, outcome = draw_uniforms(
    key, (number,), (retrieved, episodes), (episodes, retrieved), (episodes,)
  )
  slots = pick_distinct(share, number)
  used, valid = utility[slots], jnp.ones(slots.shape, bool)
  base = jnp.full(episodes, NEUTRAL, jnp.float32)
  chance = success_chance(used, valid, base=base, effect=settings.effect, quality=settings.quality)
  score = 1.0 - (1.0 - settings.lowest_score) * score
  in_proportion = jax.vmap(similarity_weights)
  weights = [uniform_weights(valid), in_proportion(score, valid), in_proportion(used, valid)]
  return utility, KnownEpisodes(
    slots=slots, weights=jnp.stack(weights, axis=-1), success=outcome < chance
  )


def simulate(
  key: jax.Array, *, settings: KnownConfig, episodes: int, checkpoints: int
) -> KnownResult:
  """One seed, the three weightings counted side by side. Unbatched; consumes `key`."""
  key_episodes, key_written = jax.random.split(key)
  utility, drawn = draw_episodes(key_episodes, settings, episodes)

  def step(counts: jax.Array, episode: KnownEpisodes) -> jax.Array:
    return count_outcome(counts, *episode)

  nothing = jnp.zeros((settings.memories, 2, len(WEIGHTINGS)), jnp.float32)
  counts = scan_episodes(step, nothing, drawn, checkpoints)  # [P, N, 2, C]
  worth = worth_of(jnp.moveaxis(counts, 2, -1))  # [P, N, C]
  written = draw_uniform(key_written, settings.memories)
  others = jnp.stack([worth_of(nothing[:, :, 0]), written])
  scores = jnp.concatenate([worth.swapaxes(1, 2).reshape(-1, settings.memories), others])
  rho = jax.vmap(functools.partial(spearman, utility))(scores)
  return KnownResult(rho=rho[:-2].reshape(checkpoints, -1), frozen=rho[-2], written=rho[-1])
