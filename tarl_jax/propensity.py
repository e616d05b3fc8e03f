"""Estimates from logged propensities: IPS, SNIPS and doubly robust, by the same pass (SPEC 7).

Worth counts only the episodes in which a memory was retrieved, so it takes over the
difficulty of the tasks that ask for it. Where the chance of being retrieved is logged, the
episodes with and without the memory can be weighted to be alike. Owns the sums that this
takes, which move with their claims as the counters do, and the estimates from them.

Legend as in `worth.py`. For one memory and one graded episode let A be 1 if it was
retrieved and 0 if not, p the logged probability of A = 1, Y 1 for success and 0 for failure,
and w = 1 / P(A as it was). The sums by stratum c and arm a (0 not retrieved, 1 retrieved),
`live [K_A, C, 2, 6]`, over the episodes with A = a:

    n  y  w  wy  ww  wwy   =   count, sums of Y, w, w Y, w^2, w^2 Y

From them, with N the count of both arms and m the outcome model at (memory, c, a):

    IPS    sum(w Y) / N                            unbiased, wide
    SNIPS  sum(w Y) / sum(w)                       narrower, biased in small samples
    DR     m + (sum(w Y) - m sum(w)) / N           right if p or m is right

`[..., 1]` estimates the success rate if the memory were always retrieved, `[..., 0]` if it
never were; `effect` is the difference. An estimate is about the episodes in which both could
happen: where p is 0 or 1 (or outside [0, 1], or NaN) the episode says nothing about the memory
and is not counted. Memories that can be retrieved in different tasks are therefore compared
by `effect`, in which the difficulty of the tasks cancels, and not by one arm. Ungraded
episodes are left out, which takes grading not to depend on the outcome.

Range: float32 sums; when N of a memory and stratum has reached MAX_GRADED = 2^23 its sums are
halved, which keeps all estimates and halves the evidence.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from tarl_jax import ledgers
from tarl_jax.by_claim import ByClaim
from tarl_jax.types import MemoryState
from tarl_jax.worth import MAX_GRADED, Outcome

CLIP = 0.01  # probabilities under it weigh as it: bounds the weights by 100, at some bias
_N, _Y, _W, _WY, _WW, _WWY = range(6)


class Logged(ByClaim, kw_only=True):
  """The sums above: live float32 [K_A, C, 2, 6], past float32 [K_H, C, 2, 6]."""


class Estimate(NamedTuple):
  """A number and its standard error, given how many episodes each stratum has."""

  value: jax.Array
  error: jax.Array


class Arms(NamedTuple):
  """Estimates for never (0) and always (1) retrieved, of the same episodes."""

  value: jax.Array  # float32 [K, 2]
  error: jax.Array  # float32 [K, 2], standard errors; infinite where there is no episode
  covariance: jax.Array  # float32 [K], at most 0: an episode adds to one arm only


def init_logged(state: MemoryState, strata: int = 1) -> Logged:
  """Sums at zero for every claim of `state`, with C = `strata`. Unbatched.

  Raises:
    ValueError: if `strata` is under 1.
  """
  if strata < 1:
    raise ValueError(f"there must be at least one task stratum, got {strata}.")
  return Logged(
    live=jnp.zeros((state.accepted.capacity, strata, 2, 6), jnp.float32),
    past=jnp.zeros((state.history.capacity, strata, 2, 6), jnp.float32),
    past_id=jnp.copy(state.history.claim_id),
  )


@jax.jit
def log_episode(
  logged: Logged,
  state: MemoryState,
  slots: jax.Array,
  propensity: jax.Array,
  stratum: jax.Array,
  outcome: jax.Array,
  clip: jax.Array | float = CLIP,
) -> Logged:
  """Adds one episode to the sums of every live memory. Unbatched; `past` is unchanged.

  Unlike `worth.record` it touches all K_A slots: that a memory was *not* retrieved counts too.

  Args:
    logged: sums before.
    state: the memory that was retrieved from.
    slots: Accepted slots that were retrieved, int32 [R]; out of range is dropped.
    propensity: float32 [K_A], the probability with which each slot was to be retrieved.
    stratum: kind of task, int32 []; out of range changes nothing.
    outcome: an Outcome, int32 []; only SUCCESS and FAILURE are counted.
    clip: least probability that is used as it is, in (0, 1]. 0.01 bounds the weights by 100;
      a larger one narrows the estimates and biases them.
  """
  capacity, strata, _, _ = logged.live.shape
  graded = (outcome == Outcome.SUCCESS) | (outcome == Outcome.FAILURE)
  graded &= (stratum >= 0) & (stratum < strata)
  # A negative index would write from the end.
  index = jnp.where(slots >= 0, slots, capacity)
  retrieved = jnp.zeros(capacity, bool).at[index].set(True, mode="drop")
  live = jnp.arange(capacity) < ledgers.count(state.accepted)
  counted = live & graded & (propensity > 0) & (propensity < 1)

  taken = jnp.where(retrieved, propensity, 1 - propensity)
  weight = 1 / jnp.maximum(jnp.where(counted, taken, 1.0), clip)
  y = jnp.asarray(outcome == Outcome.SUCCESS, jnp.float32)
  one = jnp.ones_like(weight)
  terms = (one, one * y, weight, weight * y, weight**2, weight**2 * y)
  arm = jnp.stack([~retrieved, retrieved], axis=-1) & counted[:, None]
  added = jnp.where(arm[..., None], jnp.stack(terms, axis=-1)[:, None, :], 0.0)  # [K_A, 2, 6]

  held = logged.live.at[:, stratum].get(mode="clip")
  full = jnp.sum(held[..., _N], axis=-1) >= MAX_GRADED
  change = added - jnp.where((full & counted)[:, None, None], held / 2, 0.0)
  where = jnp.where(graded, stratum, strata)
  return logged.replace(live=logged.live.at[:, where].add(change, mode="drop"))


def _over_strata(
  value: jax.Array,
  variance: jax.Array,
  covariance: jax.Array,
  sums: jax.Array,
  mix: jax.Array | None,
) -> Arms:
  """Weighs the strata by the episodes they hold, or by `mix` where they hold any.

  `value` and `variance` are float32 [K, C, 2], `covariance` is float32 [K, C].
  """
  episodes = jnp.sum(sums[..., _N], axis=-1)  # [K, C]
  share = episodes if mix is None else jnp.where(episodes > 0, mix[None, :], 0.0)
  total = jnp.sum(share, axis=-1, keepdims=True)
  none = total == 0
  share = share / jnp.where(none, 1.0, total)
  squared = jnp.square(share)
  mean = jnp.where(none, 0.5, jnp.sum(share[..., None] * value, axis=1))
  spread = jnp.sqrt(jnp.sum(squared[..., None] * jnp.maximum(variance, 0.0), axis=1))
  return Arms(
    value=mean,
    error=jnp.where(none, jnp.inf, spread),
    covariance=jnp.sum(squared * covariance, axis=-1),
  )


def _episodes(sums: jax.Array) -> jax.Array:
  """float32 [K, C, 1]: N, at least 1 so that it divides."""
  return jnp.maximum(jnp.sum(sums[..., _N], axis=-1, keepdims=True), 1.0)


@jax.jit
def ips(sums: jax.Array, mix: jax.Array | None = None) -> Arms:
  """Inverse-propensity estimate of the success rate by arm; each float32 [K, 2].

  Args:
    sums: float32 [K, C, 2, 6], `Logged.live` or `.past`.
    mix: share of each stratum, float32 [C]; None for that of the counted episodes.
  """
  episodes = _episodes(sums)
  value = sums[..., _WY] / episodes
  variance = (sums[..., _WWY] / episodes - jnp.square(value)) / episodes
  covariance = -jnp.prod(value, axis=-1) / episodes[..., 0]
  return _over_strata(value, variance, covariance, sums, mix)


@jax.jit
def snips(sums: jax.Array, mix: jax.Array | None = None) -> Arms:
  """Self-normalised `ips`, by stratum; 0.5 for a stratum where the arm has no episode."""
  weight = sums[..., _W]
  some = weight > 0
  value = jnp.where(some, sums[..., _WY] / jnp.where(some, weight, 1.0), 0.5)
  squares = sums[..., _WWY] * (1 - 2 * value) + jnp.square(value) * sums[..., _WW]
  variance = jnp.where(some, squares / jnp.square(jnp.where(some, weight, 1.0)), 0.25)
  return _over_strata(value, variance, jnp.zeros_like(value[..., 0]), sums, mix)


@jax.jit
def stratum_means(sums: jax.Array) -> jax.Array:
  """The outcome model that the counts give: success rate by memory, stratum and arm.

  Drawn by one episode's weight to the rate of the arm and stratum over all memories, which it
  is where the memory has none; float32 [K, C, 2] in [0, 1].
  """
  every = jnp.sum(sums, axis=0, keepdims=True)
  rate = (every[..., _Y] + 0.5) / (every[..., _N] + 1)
  return (sums[..., _Y] + rate) / (sums[..., _N] + 1)


@jax.jit
def doubly_robust(
  sums: jax.Array, model: jax.Array | None = None, mix: jax.Array | None = None
) -> Arms:
  """Doubly robust estimate of the success rate by arm; each float32 [K, 2].

  Args:
    sums: float32 [K, C, 2, 6].
    model: success rate by memory, stratum and arm, float32 [K, C, 2]; None for
      `stratum_means`.
    mix: as for `ips`.
  """
  mean = stratum_means(sums) if model is None else model
  episodes = _episodes(sums)
  residual = (sums[..., _WY] - mean * sums[..., _W]) / episodes
  squares = sums[..., _WWY] * (1 - 2 * mean) + jnp.square(mean) * sums[..., _WW]
  variance = (squares / episodes - jnp.square(residual)) / episodes
  covariance = -jnp.prod(residual, axis=-1) / episodes[..., 0]
  return _over_strata(mean + residual, variance, covariance, sums, mix)


@jax.jit
def effect(arms: Arms) -> Estimate:
  """What being retrieved changes: arm 1 minus arm 0; each float32 [K]."""
  variance = jnp.sum(jnp.square(arms.error), axis=-1) - 2 * arms.covariance
  error = jnp.sqrt(jnp.maximum(variance, 0.0))
  return Estimate(value=arms.value[..., 1] - arms.value[..., 0], error=error)


@jax.jit
def effective_size(sums: jax.Array) -> jax.Array:
  """Effective sample size (sum w)^2 / sum w^2 by arm, over all strata; float32 [K, 2]."""
  total = jnp.sum(sums[..., _W], axis=1)
  squares = jnp.sum(sums[..., _WW], axis=1)
  return jnp.square(total) / jnp.where(squares > 0, squares, 1.0)


@jax.jit
def is_enough(sums: jax.Array, estimate: Estimate, least_size: float, widest: float) -> jax.Array:
  """bool [K]: both arms have an effective size, and the 95 % interval is narrow, enough.

  Args:
    sums: float32 [K, C, 2, 6].
    estimate: of the effect, float32 [K] each.
    least_size: least effective sample size of an arm, in episodes.
    widest: largest width of value +- 1.96 errors.
  """
  size = jnp.min(effective_size(sums), axis=-1)
  return (size >= least_size) & (2 * 1.96 * estimate.error <= widest)
