"""Experiment 4: a useless memory that is always retrieved with a useful one (SPEC 7).

Together they share every outcome, so nothing can tell them apart; independent episodes can.
Owns how the episodes are drawn and when the pair counts as apart. Axis legend as in
`simulate.py`; also F shares of independent episodes.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from tarl_jax.estimators import credible_interval
from tarl_jax.experiments.config import PairConfig
from tarl_jax.experiments.simulate import (
  NEUTRAL,
  count_outcome,
  draw_uniform,
  scan_episodes,
  success_chance,
  worth_of,
)
from tarl_jax.worth import Outcome

ANCHOR, HITCHHIKER = 0, 1  # the two memories


class PairEpisodes(NamedTuple):
  """Drawn before the scan, the same for every share."""

  independent: jax.Array  # float32 [T], the episode is independent if under the share
  alone: jax.Array  # int32 [T], which of the two is retrieved then
  outcome: jax.Array  # float32 [T], the episode succeeds if under the chance of success


class PairResult(NamedTuple):
  """By share of independent episodes."""

  worth: jax.Array  # float32 [F, 2], of anchor and hitchhiker
  apart: jax.Array  # bool [F]


def draw_episodes(key: jax.Array, episodes: int) -> PairEpisodes:
  """All T = `episodes` episodes. Unbatched; consumes `key`."""
  independent, coin, outcome = draw_uniform(key, 3, episodes)
  alone = (coin < 0.5).astype(jnp.int32)
  return PairEpisodes(independent=independent, alone=alone, outcome=outcome)


def advance(
  counts: jax.Array, episode: PairEpisodes, utility: jax.Array, share: jax.Array
) -> jax.Array:
  """Counters after one episode. Unbatched.

  Args:
    counts: float32 [2, 2, 1].
    episode: leaves without the axis T.
    utility: float32 [2].
    share: float32 [], of independent episodes.
  """
  slots = jnp.arange(2, dtype=jnp.int32)
  retrieved = (episode.independent >= share) | (slots == episode.alone)
  chance = success_chance(utility, retrieved, base=jnp.float32(NEUTRAL), effect=1.0, quality="mean")
  weights = retrieved.astype(jnp.float32)[:, None]
  return count_outcome(counts, slots, weights, episode.outcome < chance)


def are_apart(counts: jax.Array, level: float) -> jax.Array:
  """Whether the anchor's posterior interval lies above the hitchhiker's; bool [].

  Args:
    counts: float32 [2, 2], by memory and outcome.
    level: mass of each interval.
  """
  low, high = credible_interval(counts[:, Outcome.SUCCESS], counts[:, Outcome.FAILURE], level)
  return low[ANCHOR] > high[HITCHHIKER]


def simulate(key: jax.Array, *, settings: PairConfig) -> PairResult:
  """One seed, all shares on the same draws. Unbatched; consumes `key`."""
  drawn = draw_episodes(key, settings.episodes)
  utility = jnp.asarray([settings.anchor, settings.hitchhiker], jnp.float32)

  def one(share: jax.Array) -> PairResult:
    nothing = jnp.zeros((2, 2, 1), jnp.float32)
    counts = scan_episodes(
      lambda counts, episode: advance(counts, episode, utility, share), nothing, drawn, 1
    )[-1, ..., 0]
    return PairResult(worth=worth_of(counts), apart=are_apart(counts, settings.level))

  return jax.vmap(one)(jnp.asarray(settings.independent, jnp.float32))
