"""What the counters say: worth, worth by stratum, posteriors, and when they say nothing (SPEC 7).

Pure, jitted functions of arrays, mostly elementwise; they know no ledger. Success and failure are
sums of retrieval weights, so they need not be whole. A pair that holds a negative number, a
NaN or an infinity counts as no evidence: its worth is the prior, never a first place.

Worth is associational: it tends to Pr[success | retrieved], not to what the memory causes.
Where kinds of task differ in difficulty, use `standardised`, `lift`, or the propensity
estimators of `propensity.py`; to rank memories with few outcomes, use `posterior_mean`
rather than `worth`, which is 1 after a single success.

Legend as in `worth.py`.
"""

import enum
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import betainc
from jax.scipy.stats import norm

from tarl_jax.worth import Worth

PRIOR = 0.5  # worth without evidence
_EXACT_UP_TO = 1000.0  # betainc in float32 loses digits with the size of its arguments
_BISECTIONS = 30  # past the last bit of float32 near 1


class BetaPrior(NamedTuple):
  """Beta(success, failure) before the first outcome; both over 0."""

  success: float = 1.0
  failure: float = 1.0


UNIFORM = BetaPrior()


class Verdict(enum.IntEnum):
  """What may be said of a memory, against a bar that its success should reach."""

  NOT_ENOUGH = 0  # too few outcomes, or an interval that is too wide
  NOT_SEPARABLE = 1  # too few outcomes apart from a memory that comes along
  OPEN = 2  # enough evidence, and the bar lies inside the interval
  ABOVE = 3
  BELOW = 4


class Demands(NamedTuple):
  """What evidence must be there before a memory is judged."""

  outcomes: float = 5.0  # graded retrievals (or an effective sample size)
  width: float = 0.6  # of the credible interval, at most
  apart: float = 5.0  # graded retrievals without the closest companion


DEMANDS = Demands()


def sound(success: jax.Array, failure: jax.Array) -> tuple[jax.Array, jax.Array]:
  """The pair, or two zeros where one of it is negative or not finite. Elementwise."""
  fine = jnp.isfinite(success + failure) & (success >= 0) & (failure >= 0)
  return jnp.where(fine, success, 0.0), jnp.where(fine, failure, 0.0)


def _ratio(part: jax.Array, whole: jax.Array, otherwise: float) -> jax.Array:
  return jnp.where(whole > 0, part / jnp.where(whole > 0, whole, 1.0), otherwise)


@jax.jit
def worth(success: jax.Array, failure: jax.Array) -> jax.Array:
  """MW = success / (success + failure), 0.5 without evidence (SPEC 7). Elementwise, in [0, 1]."""
  success, failure = sound(success, failure)
  return _ratio(success, success + failure, PRIOR)


@jax.jit
def pooled(worth_counters: Worth) -> jax.Array:
  """MW over all strata; float32 [K_A]."""
  success, failure = sound(worth_counters.success, worth_counters.failure)
  return worth(jnp.sum(success, axis=-1), jnp.sum(failure, axis=-1))


@jax.jit
def standardised(success: jax.Array, failure: jax.Array, mix: jax.Array) -> jax.Array:
  """MW at one mix of tasks for all memories: the mean of the strata's MW by their share.

  A memory that was never graded in a stratum is averaged over its other strata; 0.5 if none.
  Where memories are seen in different strata only, `lift` compares them.

  Args:
    success, failure: float32 [K, C].
    mix: share of each stratum among the tasks, float32 [C]; at least 0, any sum.

  Returns:
    float32 [K].
  """
  success, failure = sound(success, failure)
  share = jnp.where(success + failure > 0, mix[None, :], 0.0)
  total = jnp.sum(share, axis=-1)
  return _ratio(jnp.sum(share * worth(success, failure), axis=-1), total, PRIOR)


@jax.jit
def lift(success: jax.Array, failure: jax.Array) -> jax.Array:
  """Success over what the strata would lead one to expect; float32 [K], in [-1, 1].

  (observed - expected) / graded, where a stratum's rate is that of all retrievals in it: an
  indirect standardisation. 0 without evidence. Takes out the difficulty of the strata.

  Args:
    success, failure: float32 [K, C].
  """
  success, failure = sound(success, failure)
  graded = success + failure
  rate = _ratio(jnp.sum(success, axis=0), jnp.sum(graded, axis=0), PRIOR)
  observed = jnp.sum(success, axis=-1)
  expected = jnp.sum(graded * rate[None, :], axis=-1)
  return _ratio(observed - expected, jnp.sum(graded, axis=-1), 0.0)


@jax.jit
def coverage(worth_counters: Worth) -> jax.Array:
  """Share of a memory's retrievals that were graded; float32 [K_A], 0 if never retrieved."""
  graded = jnp.sum(worth_counters.success + worth_counters.failure, axis=-1)
  return _ratio(graded, graded + jnp.sum(worth_counters.unknown, axis=-1), 0.0)


@jax.jit
def posterior_mean(success: jax.Array, failure: jax.Array, prior: BetaPrior = UNIFORM) -> jax.Array:
  """Mean of Beta(prior.success + success, prior.failure + failure). Elementwise."""
  success, failure = sound(success, failure)
  alpha, beta = success + prior.success, failure + prior.failure
  return alpha / (alpha + beta)


@jax.jit
def probability_below(
  success: jax.Array, failure: jax.Array, bar: jax.Array | float, prior: BetaPrior = UNIFORM
) -> jax.Array:
  """Posterior probability that the success rate lies under `bar` (in [0, 1]). Elementwise.

  "The upper bound of the worth at level q is under the bar" is `probability_below >= q`, at
  the price of one evaluation. Within 0.001 of the true value up to a sum of 1000, within
  0.005 beyond, where a normal approximation takes over (float32).
  """
  success, failure = sound(success, failure)
  return _beta_cdf(success + prior.success, failure + prior.failure, jnp.asarray(bar, jnp.float32))


@functools.partial(jax.jit, static_argnames="level")
def credible_interval(
  success: jax.Array, failure: jax.Array, level: float = 0.95, prior: BetaPrior = UNIFORM
) -> tuple[jax.Array, jax.Array]:
  """(low, high): equal-tailed interval of the posterior. Elementwise; by bisection.

  Raises:
    ValueError: if `level` is not inside (0, 1).
  """
  if not 0 < level < 1:
    raise ValueError(f"the level must lie inside (0, 1), got {level}.")
  success, failure = sound(success, failure)
  alpha, beta = success + prior.success, failure + prior.failure
  tails = jnp.asarray([(1 - level) / 2, (1 + level) / 2], jnp.float32)
  tails = tails.reshape(2, *(1,) * alpha.ndim)  # both ends in one search

  def halve(_, ends):
    low, high = ends
    middle = (low + high) / 2
    under = _beta_cdf(alpha[None], beta[None], middle) < tails
    return jnp.where(under, middle, low), jnp.where(under, high, middle)

  zeros = jnp.zeros((2, *alpha.shape), jnp.float32)
  low, high = jax.lax.fori_loop(0, _BISECTIONS, halve, (zeros, zeros + 1))
  found = (low + high) / 2
  return found[0], found[1]


def _beta_cdf(alpha: jax.Array, beta: jax.Array, x: jax.Array) -> jax.Array:
  alpha, beta, x = jnp.broadcast_arrays(alpha, beta, x)
  small = alpha + beta <= _EXACT_UP_TO
  exact = betainc(jnp.where(small, alpha, 1.0), jnp.where(small, beta, 1.0), x)
  return jnp.where(small, exact, _beta_cdf_of_many(alpha, beta, x))


def _beta_cdf_of_many(alpha: jax.Array, beta: jax.Array, x: jax.Array) -> jax.Array:
  """The normal approximation of Peizer and Pratt (1968) to the beta distribution."""
  tiny = 1e-9
  low, high = jnp.maximum(x, tiny), jnp.maximum(1 - x, tiny)
  total = alpha + beta - 1
  # Two forms of one difference; each is exact to float32 at its own end of the interval.
  from_low = (total + 1 / 3) * low - (alpha - 1 / 3)
  from_high = (beta - 1 / 3) - (total + 1 / 3) * high
  distance = jnp.where(x < 0.5, from_low, from_high)
  distance += 0.02 * (low / beta - high / alpha + (low - 0.5) / (total + 1))
  skew = (
    1 + low * _bend((beta - 0.5) / (total * high)) + high * _bend((alpha - 0.5) / (total * low))
  )
  return norm.cdf(distance * jnp.sqrt(skew / ((total + 1 / 6) * low * high)))


def _bend(ratio: jax.Array) -> jax.Array:
  """(1 - r^2 + 2 r log r) / (1 - r)^2, by its series where the quotient loses all digits."""
  off = ratio - 1
  near = jnp.abs(off) < 0.1
  safe = jnp.where(near, 2.0, ratio)
  series = off * (-1 / 3 + off * (1 / 6 + off * (-1 / 10 + off * (1 / 15 - off / 21))))
  exact = (1 - safe * safe + 2 * safe * jnp.log(safe)) / jnp.square(1 - safe)
  return jnp.where(near, series, exact)


@jax.jit
def judge(
  success: jax.Array,
  failure: jax.Array,
  interval: tuple[jax.Array, jax.Array],
  apart: jax.Array,
  bar: jax.Array | float,
  demands: Demands = DEMANDS,
) -> jax.Array:
  """A Verdict for each memory: a plain "not enough evidence" before any number. Elementwise.

  Args:
    success, failure: float32 [K], graded retrievals.
    interval: (low, high) of the success rate, float32 [K]; `credible_interval` gives one.
    apart: float32 [K], those without the closest companion (`companions.apart`); pass
      success + failure where companions are not counted.
    bar: the rate to compare with, e.g. that of all tasks.
    demands: what must be there before a memory is judged.

  Returns:
    int32 [K].
  """
  success, failure = sound(success, failure)
  low, high = interval
  # Written so that a NaN, too, is no evidence.
  few = (success + failure < demands.outcomes) | ~(high - low <= demands.width)
  verdict = jnp.where(low > bar, int(Verdict.ABOVE), int(Verdict.OPEN))
  verdict = jnp.where(high < bar, int(Verdict.BELOW), verdict)
  verdict = jnp.where(~(apart >= demands.apart), int(Verdict.NOT_SEPARABLE), verdict)
  return jnp.where(few, int(Verdict.NOT_ENOUGH), verdict).astype(jnp.int32)
