"""Study: which estimator of worth sees through the confounding of experiment 2.

Owns the regimes, the estimators compared, their rank correlation with the true utilities, and
whether the five lowest of each are the truly harmful memories. Retrieval is random, so the
propensity of a memory in a kind of task is known.

Axis legend: S seeds, G regimes, P checkpoints, T episodes, N memories, R retrieved, C kinds
of task, E estimators.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tarl_jax import estimators
from tarl_jax import propensity as weighting
from tarl_jax.errors import InputError
from tarl_jax.experiments.simulate import (
  count_outcome,
  draw_distinct,
  draw_uniform,
  make_keys,
  scan_episodes,
  spearman,
  success_chance,
)
from tarl_jax.worth import Outcome

ESTIMATORS = (
  "MW",
  "hard tasks",
  "standardised",
  "lift",
  "IPS",
  "SNIPS",
  "DR",
  "IPS effect",
  "SNIPS effect",
  "DR effect",
)
LOWEST = 5  # memories that one would remove first


class Regime(NamedTuple):
  """What differs between regimes; leaves [] under jit, so that all share one program."""

  confounded: bool  # easy tasks draw generalists only; else every task draws from all
  effect: float  # of the mean utility beside the difficulty
  easy_share: float = 0.5


REGIMES = {
  "confounded": Regime(confounded=True, effect=0.3),
  "confounded, small effect": Regime(confounded=True, effect=0.1),
  "not confounded": Regime(confounded=False, effect=0.3),
  "not confounded, mostly easy": Regime(confounded=False, effect=0.5, easy_share=0.9),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConfoundingSettings:
  """Sizes of the study; the numbers of experiment 2, but for those marked as ours."""

  episodes: int = 200_000  # ours
  checkpoints: int = 20  # ours; evenly spaced, the first is at 10,000 episodes
  generalists: int = 70  # U ~ Uniform[0, 1]
  specialists: int = 30
  specialist_utility: float = 0.85
  easy_success: float = 0.78
  hard_success: float = 0.28
  retrieved: int = 3  # ours

  def __post_init__(self) -> None:
    if not 1 <= self.retrieved <= self.generalists or self.specialists < 1:
      raise InputError("confounding.retrieved must be from 1 to generalists, specialists over 0.")
    if self.generalists + self.specialists < LOWEST:
      raise InputError(f"confounding: there must be at least {LOWEST} memories.")
    if self.checkpoints < 1 or self.episodes < 1 or self.episodes % self.checkpoints:
      raise InputError("confounding.episodes must be a multiple of checkpoints, both over 0.")
    for name in ("specialist_utility", "easy_success", "hard_success"):
      if not 0 <= getattr(self, name) <= 1:
        raise InputError(f"confounding.{name} must be from 0 to 1.")


class ConfoundingResults(NamedTuple):
  """NumPy arrays by regime, seed, checkpoint and estimator."""

  rho: np.ndarray  # float32 [G, S, P, E], Spearman with the utilities
  precision: np.ndarray  # float32 [G, S, P, E], share of the LOWEST that truly are the lowest


def logged_sums(counts: jax.Array, tasks: jax.Array, propensity: jax.Array) -> jax.Array:
  """What `propensity.log_episode` would have summed up over all episodes.

  As a propensity here is constant in a kind of task, so are the weights, and the counts say it
  all: 24 numbers a memory need not be carried through 200,000 episodes.

  Args:
    counts: float32 [N, 2, C], successes and failures by kind of task.
    tasks: float32 [2, C], successes and failures of all tasks.
    propensity: float32 [N, C]; a kind says nothing of a memory where it is 0 or 1.

  Returns:
    float32 [N, C, 2, 6], see `propensity.py`.
  """
  both = jnp.stack([tasks[None] - counts, counts], axis=-1)  # [N, 2, C, arms]
  number, success = both.sum(1), both[:, Outcome.SUCCESS]  # [N, C, arms]
  possible = (propensity > 0) & (propensity < 1)
  chance = jnp.where(possible, propensity, 0.5)
  weight = 1.0 / jnp.maximum(jnp.stack([1.0 - chance, chance], axis=-1), weighting.CLIP)
  square = jnp.square(weight)
  terms = (number, success, weight * number, weight * success, square * number, square * success)
  return jnp.where(possible[..., None, None], jnp.stack(terms, axis=-1), 0.0)


def estimate(counts: jax.Array, tasks: jax.Array, propensity: jax.Array) -> jax.Array:
  """Every estimate of every memory, float32 [N, E]; only the order matters.

  "hard tasks" counts those only, as experiment 2 does. "IPS", "SNIPS" and "DR" are the success
  rate if the memory were always retrieved, in the mix of all tasks as far as it can be; the
  effects are the difference to never, in the tasks that can retrieve it.

  Args as `logged_sums`; the last kind is the hard one.
  """
  success, failure = counts[:, Outcome.SUCCESS], counts[:, Outcome.FAILURE]  # [N, C]
  sums = logged_sums(counts, tasks, propensity)
  mix = tasks.sum(0) / tasks.sum()
  columns = {
    "MW": estimators.worth(success.sum(1), failure.sum(1)),
    "hard tasks": estimators.worth(success[:, -1], failure[:, -1]),
    "standardised": estimators.standardised(success, failure, mix),
    "lift": estimators.lift(success, failure),
  }
  methods: dict[str, Any] = {
    "IPS": weighting.ips,
    "SNIPS": weighting.snips,
    "DR": weighting.doubly_robust,
  }
  for name, method in methods.items():
    columns[name] = method(sums, mix=mix).value[:, 1]
    columns[name + " effect"] = weighting.effect(method(sums)).value
  return jnp.stack([columns[name] for name in ESTIMATORS], axis=1)


def lowest_precision(estimate: jax.Array, utility: jax.Array) -> jax.Array:
  """Share of the LOWEST memories by `estimate` [N] that are also so by `utility` [N]."""
  found = jax.lax.top_k(-estimate, LOWEST)[1]
  true = jax.lax.top_k(-utility, LOWEST)[1]
  return (found[:, None] == true[None, :]).any(1).mean()


class Tasks(NamedTuple):
  """What happened; the leaves of one episode have no leading axis."""

  slots: jax.Array  # int32 [T, R], distinct; generalists come first
  kind: jax.Array  # int32 [T], 0 easy, 1 hard
  success: jax.Array  # bool [T]


def draw_tasks(
  key: jax.Array, regime: Regime, settings: ConfoundingSettings
) -> tuple[jax.Array, Tasks]:
  """Utilities, float32 [N], and all episodes of one seed. Unbatched; uses `key` up."""
  key_utility, key_easy, key_hard, key_chance = jax.random.split(key, 4)
  generalists, episodes = settings.generalists, settings.episodes
  number = generalists + settings.specialists
  utility = draw_uniform(key_utility, number)
  utility = utility.at[generalists:].set(settings.specialist_utility)
  few = draw_distinct(key_easy, episodes, generalists, settings.retrieved)
  every = draw_distinct(key_hard, episodes, number, settings.retrieved)
  which, luck = draw_uniform(key_chance, 2, episodes)
  hard = which >= regime.easy_share
  slots = jnp.where((regime.confounded & ~hard)[:, None], few, every)
  base = jnp.where(hard, settings.hard_success, settings.easy_success)
  valid = jnp.ones(slots.shape, jnp.bool_)
  chance = success_chance(utility[slots], valid, base=base, effect=regime.effect, quality="mean")
  return utility, Tasks(slots=slots, kind=hard.astype(jnp.int32), success=luck < chance)


def propensities(regime: Regime, settings: ConfoundingSettings) -> jax.Array:
  """Chance of each memory to be retrieved in an easy and in a hard task, float32 [N, 2]."""
  number = settings.generalists + settings.specialists
  is_general = jnp.arange(number) < settings.generalists
  every = jnp.full(number, settings.retrieved / number, jnp.float32)
  few = jnp.where(is_general, jnp.float32(settings.retrieved / settings.generalists), 0.0)
  return jnp.stack([jnp.where(regime.confounded, few, every), every], axis=1)


@functools.partial(jax.jit, static_argnames="settings")
def simulate(
  key: jax.Array, regime: Regime, settings: ConfoundingSettings
) -> tuple[jax.Array, jax.Array]:
  """Rho and precision of one seed, float32 [P, E] each. Unbatched; uses `key` up."""
  utility, tasks = draw_tasks(key, regime, settings)
  propensity = propensities(regime, settings)
  number, kinds = propensity.shape

  def step(counts: jax.Array, task: Tasks) -> jax.Array:
    slots = jnp.append(task.slots, number)  # the row behind the memories counts the tasks
    kind = jax.nn.one_hot(task.kind, kinds, dtype=jnp.float32)
    weights = jnp.broadcast_to(kind[None, :], (len(slots), kinds))
    return count_outcome(counts, slots, weights, task.success)

  nothing = jnp.zeros((number + 1, 2, kinds), jnp.float32)
  counts = scan_episodes(step, nothing, tasks, settings.checkpoints)
  worths = jax.vmap(estimate, in_axes=(0, 0, None))(counts[:, :-1], counts[:, -1], propensity)

  def by_estimator(measure):  # [P, N, E] to [P, E]
    return jax.vmap(jax.vmap(measure, in_axes=(1, None)), in_axes=(0, None))(worths, utility)

  return by_estimator(spearman), by_estimator(lowest_precision)


def run(settings: ConfoundingSettings, seeds: Sequence[int]) -> ConfoundingResults:
  """Every regime of REGIMES, all seeds of a regime in one program."""
  one_regime = jax.vmap(simulate, in_axes=(0, None, None))
  keys = make_keys(seeds)
  measured = [
    jax.device_get(one_regime(keys, jax.tree.map(jnp.asarray, regime), settings))
    for regime in REGIMES.values()
  ]
  return ConfoundingResults(*(np.stack(part) for part in zip(*measured)))
