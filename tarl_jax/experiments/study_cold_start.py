"""Study: how long until a new memory is ranked rightly, and what is said of it before.

Owns the regime (ColdStartSettings) and the measures. Nothing here is of the paper. The other
memories are old: their worth is its limit. The newcomer is retrieved with R - 1 of them at
random, and an episode succeeds with the probability of the mean utility.

Axis legend: S seeds, U utilities of the newcomer, M other memories, N its retrievals, L looks.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tarl_jax import estimators
from tarl_jax.errors import InputError
from tarl_jax.experiments.simulate import draw_distinct, draw_uniform, make_keys
from tarl_jax.types import Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColdStartSettings:
  """Sizes and choices of the study."""

  looks: tuple[int, ...] = (1, 5, 10, 50, 200, 1000)  # after so many retrievals
  memories: int = 50  # M, utilities uniform in [0, 1]
  retrieved: int = 3  # R; the newcomer is in R of M + 1 episodes on average
  utilities: tuple[float, ...] = (0.1, 0.5, 0.9)  # of the newcomer
  tolerance: float = 0.1  # ranked rightly: so close to the true share of memories below it
  bar: float = 0.5  # worth that the verdict is about

  def __post_init__(self) -> None:
    if not 1 <= self.retrieved <= self.memories:
      raise InputError("cold_start.retrieved must be from 1 to memories.")
    if not self.looks or min(self.looks) < 1 or list(self.looks) != sorted(set(self.looks)):
      raise InputError("cold_start.looks must be rising numbers of retrievals, the first over 0.")
    if not self.utilities or not all(0 <= utility <= 1 for utility in self.utilities):
      raise InputError("cold_start.utilities must be from 0 to 1, at least one.")
    if not 0 < self.tolerance < 1 or not 0 < self.bar < 1:
      raise InputError("cold_start.tolerance and cold_start.bar must be over 0 and under 1.")

  @property
  def episodes_a_retrieval(self) -> float:
    """Episodes of the whole memory in which the newcomer is retrieved once, on average."""
    return (self.memories + 1) / self.retrieved


class ColdStartResults(NamedTuple):
  """Arrays by seed, utility and look: NumPy from `run`; one seed and utility in `simulate`."""

  right: Array  # bool [S, U, L], ranked rightly by worth
  right_posterior: Array  # bool [S, U, L], ranked rightly by the posterior mean
  width: Array  # float32 [S, U, L], of the 95 % credible interval
  verdict: Array  # int32 [S, U, L], an estimators.Verdict against the bar
  settled: Array  # float32 [S, U], retrievals until right for good; NaN: not at the end


def limit_worth(utility: jax.Array, others: jax.Array, retrieved: int) -> jax.Array:
  """What worth tends to under random retrieval: the mean utility where it takes part.

  Args:
    utility: float32 [...], of the memory.
    others: float32 [...], mean utility of those retrieved with it.
    retrieved: R.
  """
  return (utility + (retrieved - 1) * others) / retrieved


def rank_error(
  newcomer: jax.Array, worths: jax.Array, utility: jax.Array, utilities: jax.Array
) -> jax.Array:
  """Distance of the newcomer's share of memories below it from the true one, float32 [N].

  Args:
    newcomer: float32 [N], its worth after each retrieval.
    worths: float32 [M], of the others.
    utility: float32 [], of the newcomer.
    utilities: float32 [M], of the others.
  """
  share = jnp.mean(worths[None, :] < newcomer[:, None], axis=1)
  return jnp.abs(share - jnp.mean(utilities < utility))


@functools.partial(jax.jit, static_argnames="settings")
def simulate(key: jax.Array, utility: jax.Array, settings: ColdStartSettings) -> ColdStartResults:
  """One seed and utility (float32 []): leaves [L] and []. Unbatched; uses `key` up."""
  key_others, key_slots, key_luck = jax.random.split(key, 3)
  number, retrieved, last = settings.memories, settings.retrieved, settings.looks[-1]
  utilities = draw_uniform(key_others, number)
  mean_beside = (utilities.sum() - utilities) / max(number - 1, 1)
  worths = limit_worth(utilities, mean_beside, retrieved)
  with_it = draw_distinct(key_slots, last, number, retrieved - 1)
  chance = (utility + utilities[with_it].sum(1)) / retrieved
  outcome = draw_uniform(key_luck, last) < chance
  success = jnp.cumsum(outcome.astype(jnp.float32))
  failure = jnp.cumsum((~outcome).astype(jnp.float32))

  def is_right(estimate: jax.Array) -> jax.Array:  # bool [N]
    return rank_error(estimate, worths, utility, utilities) <= settings.tolerance

  right = is_right(estimators.worth(success, failure))
  wrong_until = jnp.max(jnp.where(right, 0, jnp.arange(1, last + 1)))
  settled = jnp.where(wrong_until < last, wrong_until + 1.0, jnp.nan).astype(jnp.float32)
  at = jnp.asarray(settings.looks, jnp.int32) - 1
  seen = success[at], failure[at]
  interval = estimators.credible_interval(*seen)
  return ColdStartResults(
    right=right[at],
    right_posterior=is_right(estimators.posterior_mean(success, failure))[at],
    width=interval[1] - interval[0],
    verdict=estimators.judge(*seen, interval, apart=seen[0] + seen[1], bar=settings.bar),
    settled=settled,
  )


def run(settings: ColdStartSettings, seeds: Sequence[int]) -> ColdStartResults:
  """All utilities and seeds in one program; the same seed meets the same memories."""
  by_utility = jax.vmap(simulate, in_axes=(None, 0, None))
  utilities = jnp.asarray(settings.utilities, jnp.float32)
  results = jax.vmap(by_utility, in_axes=(0, None, None))(make_keys(seeds), utilities, settings)
  return ColdStartResults(*(np.asarray(part) for part in jax.device_get(results)))
