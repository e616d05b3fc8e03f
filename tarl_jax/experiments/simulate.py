"""Pieces that the worth experiments share: draws, chances, counters in a scan, rank correlation.

Knows neither the experiments nor their settings. Everything here is unbatched: one seed.

Axis legend: T episodes, P checkpoints, N memories, R places of a retrieval, C columns of
counters (strata of tasks, or kinds of weights).
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.stats import rankdata

from tarl_jax import estimators
from tarl_jax.worth import Outcome

NEUTRAL = 0.5  # utility that neither helps nor harms


def draw_uniform(key: jax.Array, *shape: int) -> jax.Array:
  """Uniform in [0, 1), float32 `shape`; the values of `jax.random.uniform`. Consumes `key`.

  Drawn flat: for several axes XLA works the counters out when it compiles, for seconds.
  """
  return jax.random.uniform(key, (math.prod(shape),), jnp.float32).reshape(shape)


def draw_uniforms(key: jax.Array, *shapes: tuple[int, ...]) -> list[jax.Array]:
  """One `draw_uniform` cut into arrays of these shapes, which compiles once. Consumes `key`."""
  sizes = [math.prod(shape) for shape in shapes]
  parts = jnp.split(draw_uniform(key, sum(sizes)), list(itertools.accumulate(sizes[:-1])))
  return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def draw_distinct(key: jax.Array, number: int, pool: int, count: int) -> jax.Array:
  """`pick_distinct` of `number` sets of `count`. Consumes `key`."""
  return pick_distinct(draw_uniform(key, count, number), pool)


def pick_distinct(share: jax.Array, pool: int) -> jax.Array:
  """For each of T episodes, a uniformly random set of R of `pool` memories.

  Floyd's way: the j-th pick is among the first pool - R + j + 1 memories, and one that is
  taken already gives way to the last of those. The order within a set is not random.

  Args:
    share: float32 [R, T], uniform in [0, 1); R is at most `pool`.
    pool: N, static.

  Returns:
    int32 [T, R], no memory twice in a row.
  """
  count = share.shape[0]
  last = jnp.arange(pool - count, pool, dtype=jnp.int32)[:, None]  # [R, 1]
  picks = jnp.minimum((share * (last + 1)).astype(jnp.int32), last)

  def place(chosen: jax.Array, inputs: tuple[jax.Array, ...]) -> tuple[jax.Array, None]:
    pick, last, place_number = inputs
    taken = jnp.any(chosen == pick[None, :], axis=0)
    return chosen.at[place_number].set(jnp.where(taken, last, pick)), None

  nothing = jnp.full(share.shape, -1, jnp.int32)
  chosen, _ = jax.lax.scan(place, nothing, (picks, last, jnp.arange(count, dtype=jnp.int32)))
  return chosen.T


def _mean(utility: jax.Array, valid: jax.Array) -> jax.Array:
  return jnp.mean(utility, axis=-1, where=valid)


def _best(utility: jax.Array, valid: jax.Array) -> jax.Array:
  return jnp.max(utility, axis=-1, where=valid, initial=0.0)


def _any(utility: jax.Array, valid: jax.Array) -> jax.Array:
  return 1.0 - jnp.prod(1.0 - utility, axis=-1, where=valid)


# What a retrieval is good for: the mean utility, the best one, or the chance that at least one
# memory helps (noisy or).
QUALITIES: dict[str, Callable[[jax.Array, jax.Array], jax.Array]] = {
  "mean": _mean,
  "best": _best,
  "any": _any,
}


def success_chance(
  utility: jax.Array, valid: jax.Array, *, base: jax.Array, effect: float, quality: str
) -> jax.Array:
  """Chance that an episode succeeds: base + effect (quality - 0.5), within [0, 1].

  With base 0.5 and effect 1 it is the quality itself.

  Args:
    utility: float32 [..., R], of the memories retrieved.
    valid: bool [..., R], false where a place is empty; at least one is true.
    base: float32 [...], chance with memories of no use and no harm.
    effect: how much the quality matters.
    quality: a name of QUALITIES.
  """
  return jnp.clip(base + effect * (QUALITIES[quality](utility, valid) - NEUTRAL), 0.0, 1.0)


def count_outcome(
  counts: jax.Array, slots: jax.Array, weights: jax.Array, success: jax.Array
) -> jax.Array:
  """Counters with one episode added by a scatter-add.

  The plain form of `worth.record`, which also guards against repeated slots, unsound weights
  and full counters; episodes made here have none, and 10,000 of them stay far below 2^23.

  Args:
    counts: float32 [N, 2, C], successes and failures.
    slots: int32 [R], distinct.
    weights: float32 [R, C].
    success: bool [].
  """
  return counts.at[slots, jnp.where(success, Outcome.SUCCESS, Outcome.FAILURE)].add(weights)


def scan_episodes(
  step: Callable[[jax.Array, Any], jax.Array], counts: jax.Array, episodes: Any, checkpoints: int
) -> jax.Array:
  """Counters at P evenly spaced episodes, the last one included.

  Args:
    step: counters and one episode to counters.
    counts: float32 [...], counters before.
    episodes: leaves [T, ...], T a multiple of P.
    checkpoints: P.

  Returns:
    float32 [P, ...].
  """

  def advance(counts: jax.Array, part: Any) -> tuple[jax.Array, jax.Array]:
    counts, _ = jax.lax.scan(lambda counts, episode: (step(counts, episode), None), counts, part)
    return counts, counts

  parts = jax.tree.map(lambda leaf: leaf.reshape(checkpoints, -1, *leaf.shape[1:]), episodes)
  return jax.lax.scan(advance, counts, parts)[1]


def worth_of(counts: jax.Array) -> jax.Array:
  """MW = success / (success + failure), 0.5 where nothing was counted (SPEC 7).

  Args:
    counts: float32 [..., 2], successes and failures.

  Returns:
    float32 [...].
  """
  return estimators.worth(counts[..., Outcome.SUCCESS], counts[..., Outcome.FAILURE])


def spearman(x: jax.Array, y: jax.Array) -> jax.Array:
  """Spearman's rank correlation with average ranks for ties, float32 [].

  0 where one side is constant: what ranks nothing, tells nothing.

  Args:
    x, y: float32 [N].
  """
  rank_x, rank_y = rankdata(x), rankdata(y)
  rank_x, rank_y = rank_x - jnp.mean(rank_x), rank_y - jnp.mean(rank_y)
  scale = jnp.linalg.norm(rank_x) * jnp.linalg.norm(rank_y)
  return jnp.where(scale > 0, jnp.vdot(rank_x, rank_y) / jnp.maximum(scale, 1e-30), 0.0)


def make_keys(seeds: Sequence[int]) -> jax.Array:
  """Typed keys [S]: a seed gives the same episodes, whatever seeds stand beside it."""
  return jax.vmap(jax.random.key)(jnp.asarray(seeds, jnp.uint32))


def over_seeds(simulate: Callable[..., Any], **settings: Any) -> Callable[[jax.Array], Any]:
  """One program for all seeds, from keys [S] to results with a leading S.

  Args:
    simulate: takes one key and the settings, which are static.
  """
  return jax.jit(jax.vmap(functools.partial(simulate, **settings)))
