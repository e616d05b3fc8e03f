"""Study: worth steers retrieval while the use of the memories changes under it.

Owns the regime (FeedbackSettings), the conditions and what is measured. Nothing here is of the
paper, whose experiment 3 holds the regime still. Does retrieval by worth lock in on what was
once good, and do fading counters or exploration free it?

One episode: with probability `exploration` R memories at random, else the R of highest worth
(ties at random); success has the probability of their mean utility; the counters learn it.

Axis legend: S seeds, C conditions, W windows, M memories, R retrieved.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tarl_jax import estimators, worth
from tarl_jax.errors import InputError
from tarl_jax.experiments.simulate import draw_uniform, make_keys, spearman
from tarl_jax.worth import Outcome

CHANGES = ("still", "flip", "drift")  # utilities: constant; u -> 1 - u at half time; a walk
_TIE = 1e-4  # noise on the worth; smaller than what one outcome among thousands moves


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeedbackSettings:
  """Sizes and choices of the study."""

  windows: int = 8  # W, even: the flip is at the start of window W / 2
  window: int = 500  # episodes a window
  memories: int = 100  # M, utilities uniform in [0, 1]
  retrieved: int = 5  # R
  step: float = 0.02  # largest step of the drifting utilities an episode, reflected at 0 and 1
  half_lives: tuple[float, ...] = (math.inf, 500.0)  # of the counters, in episodes
  explorations: tuple[float, ...] = (0.0, 0.1)

  def __post_init__(self) -> None:
    if self.windows < 2 or self.windows % 2 or self.window < 1:
      raise InputError("feedback.windows must be even and over 0, feedback.window over 0.")
    if not 1 <= self.retrieved < self.memories:
      raise InputError("feedback.retrieved must be from 1 to memories - 1.")
    if not 0 <= self.step <= 1:
      raise InputError("feedback.step must be from 0 to 1.")
    if not self.half_lives or not all(half_life > 0 for half_life in self.half_lives):
      raise InputError("feedback.half_lives must be over 0 episodes, at least one.")
    if not self.explorations or not all(0 <= share <= 1 for share in self.explorations):
      raise InputError("feedback.explorations must be from 0 to 1, at least one.")


class Condition(NamedTuple):
  """One condition; leaves float32 [] (or [C])."""

  flips: jax.Array  # 1 where utilities flip at half time
  step: jax.Array  # largest step of the drift an episode
  kept: jax.Array  # factor on the counters an episode
  exploration: jax.Array


class FeedbackResults(NamedTuple):
  """NumPy arrays by seed, condition and window."""

  conditions: list[tuple[str, float, float]]  # change, half-life, exploration; C of them
  attained: np.ndarray  # float32 [S, C, W], 0 = random retrieval, 1 = the best R at all times
  breadth: np.ndarray  # float32 [S, C, W], effective number of memories retrieved, R to M
  rho: np.ndarray  # float32 [S, C, W], Spearman of worth and utility at the window's end


def _reflect(x: jax.Array) -> jax.Array:
  """Folds values that left [0, 1] by less than 1 back into it."""
  return 1.0 - jnp.abs(1.0 - jnp.abs(x))


def _worth(rows: jax.Array) -> jax.Array:
  return estimators.worth(rows[:, 0, Outcome.SUCCESS], rows[:, 0, Outcome.FAILURE])


class _State(NamedTuple):
  rows: jax.Array  # float32 [M, 1, 3], counters
  utility: jax.Array  # float32 [M]
  uses: jax.Array  # float32 [M], retrievals in this window
  gained: jax.Array  # float32 [], sum of attained over this window


def _episode(
  condition: Condition, retrieved: int, state: _State, key: jax.Array
) -> tuple[_State, None]:
  num = state.utility.shape[0]
  chances = draw_uniform(
    key,
    2 * num + 2,
  )
  noise, walk, (explore, luck) = chances[:num], chances[num : 2 * num], chances[2 * num :]
  by_worth = _worth(state.rows) + _TIE * noise
  scores = jnp.where(explore < condition.exploration, noise, by_worth)
  slots = jax.lax.top_k(scores, retrieved)[1].astype(jnp.int32)
  chance = state.utility[slots].mean()
  outcome = jnp.where(luck < chance, jnp.int32(Outcome.SUCCESS), jnp.int32(Outcome.FAILURE))
  ones = jnp.ones((retrieved,), jnp.float32)
  rows = state.rows * condition.kept
  best, middle = jax.lax.top_k(state.utility, retrieved)[0].mean(), state.utility.mean()
  return _State(
    rows=worth.add_outcome(rows, slots, ones, jnp.int32(0), outcome),
    utility=_reflect(state.utility + condition.step * (2.0 * walk - 1.0)),
    uses=state.uses.at[slots].add(1.0),
    gained=state.gained + (chance - middle) / (best - middle),
  ), None


@functools.partial(jax.jit, static_argnames="settings")
def simulate(
  key: jax.Array, condition: Condition, settings: FeedbackSettings
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Attained, breadth and rho of one seed and condition, float32 [W] each. Unbatched.

  Args:
    key: one typed key, used up. Conditions under one key meet the same chances.
    condition: leaves [].
    settings: static; only the sizes are read.
  """
  key_start, key_windows = jax.random.split(key)
  num = settings.memories
  utility = draw_uniform(key_start, num)
  episode = functools.partial(_episode, condition, settings.retrieved)

  def window(state: _State, inputs: tuple[jax.Array, jax.Array]):
    key, index = inputs
    flip = (condition.flips > 0) & (index == settings.windows // 2)
    state = state._replace(
      utility=jnp.where(flip, 1.0 - state.utility, state.utility),
      uses=jnp.zeros_like(state.uses),
      gained=jnp.float32(0),
    )
    state, _ = jax.lax.scan(episode, state, jax.random.split(key, settings.window))
    share = state.uses / state.uses.sum()
    entropy = -jnp.sum(jnp.where(share > 0, share * jnp.log(jnp.maximum(share, 1e-9)), 0.0))
    rho = spearman(_worth(state.rows), state.utility)
    return state, (state.gained / settings.window, jnp.exp(entropy), rho)

  start = _State(jnp.zeros((num, 1, 3)), utility, jnp.zeros((num,)), jnp.float32(0))
  keys = jax.random.split(key_windows, settings.windows)
  index = jnp.arange(settings.windows, dtype=jnp.int32)
  return jax.lax.scan(window, start, (keys, index))[1]


def run(settings: FeedbackSettings, seeds: Sequence[int]) -> FeedbackResults:
  """All conditions and seeds in one program; the same seed gives the same chances."""
  conditions = list(itertools.product(CHANGES, settings.half_lives, settings.explorations))
  columns = [
    (change == "flip", settings.step * (change == "drift"), 2.0 ** (-1.0 / half_life), share)
    for change, half_life, share in conditions
  ]
  table = Condition(*(jnp.asarray(column, jnp.float32) for column in zip(*columns)))
  keys = make_keys(seeds)
  one_seed = jax.vmap(simulate, in_axes=(None, 0, None))
  measured = jax.vmap(one_seed, in_axes=(0, None, None))(keys, table, settings)
  return FeedbackResults(conditions, *(np.asarray(part) for part in jax.device_get(measured)))
