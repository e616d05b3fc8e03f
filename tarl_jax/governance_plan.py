"""Which claims are due for governance, and in which order they go (SPEC 7).

Owns the thresholds and the order; changes nothing. The moves are in `governance.py`, the
step that carries a plan out is in `governance_step.py`, what the counters say is in
`estimators.py`.

An entry of Accepted goes through two thresholds, so that it does not flap:

    under `low`         deprecated, within the budget, and marked doubtful
    brought back by `restore`: keeps its mark. While it is marked it is suppressed when
                        memory is searched (`retrieval.py`), but is not deprecated again
    over `high`         the mark is cleared
    between the two     nothing changes, whatever it was

"Under a threshold" is said of the upper bound of the posterior: the worth is under it with
probability `confidence` in every task stratum in which the claim was ever judged. So one
good stratum keeps a claim, and a claim without evidence is never due.

Claims go in an order that no slot or time of arrival decides: worst first, and of equals
the one with the larger claim id, the later one of the table, as a full ledger too refuses
the newcomer.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from tarl_jax import estimators, ledgers
from tarl_jax.governance import look_up
from tarl_jax.types import MemoryState
from tarl_jax.worth import Worth

ROUND = 4  # slots whose posterior is looked at together


@dataclasses.dataclass(frozen=True)
class Settings:
  """Thresholds and limits of governance; static under jit.

  Raises:
    ValueError: for thresholds that are not 0 < low <= high < 1, a confidence that is not in
      [2/3, 1), evidence that is not over 0, or a negative limit.
  """

  low: float = 0.35  # a worth under it is not enough
  high: float = 0.5  # a doubtful claim is cleared over it
  confidence: float = 0.9  # posterior probability of being under a threshold
  min_evidence: float = 5.0  # graded retrieval weight before a claim may be judged
  budget: int = 1  # claims deprecated in one step at most
  expiries: int = 4  # claims expired in one step at most

  def __post_init__(self):
    if not 0 < self.low <= self.high < 1:
      raise ValueError(f"give thresholds 0 < low <= high < 1, got {self.low} and {self.high}.")
    if not 2 / 3 <= self.confidence < 1:
      raise ValueError(f"confidence must be from 2/3 to under 1, got {self.confidence}.")
    if not self.min_evidence > 0:
      raise ValueError(f"min_evidence must be over 0, got {self.min_evidence}.")
    if min(self.budget, self.expiries) < 0:
      raise ValueError(f"budget and expiries must not be negative, got {self}.")


def _evidence(worth: Worth) -> tuple[jax.Array, jax.Array]:
  """(success, failure), float32 [K_A, C]; a pair that is no pair of counts is no evidence."""
  return estimators.sound(worth.success, worth.failure)


def standing(worth: Worth) -> jax.Array:
  """float32 [K_A] in [0, 1]: posterior mean in the best stratum in which the claim was judged.

  A claim without evidence has the prior's: it stands over one with bad evidence.
  """
  success, failure = _evidence(worth)
  judged = success + failure > 0
  mean = estimators.posterior_mean(success, failure)
  best = jnp.max(jnp.where(judged, mean, 0.0), -1)
  return jnp.where(jnp.any(judged, -1), best, estimators.PRIOR)


def under(worth: Worth, asked: jax.Array, threshold: float, settings: Settings) -> jax.Array:
  """bool [K_A]: of the slots that are asked for (bool [K_A]), those whose worth has its upper
  bound under the threshold in every stratum in which the claim was judged; none without any.

  The beta distribution costs far more than all else in a step, so it is looked at only where
  the answer is open. The mean must lie under the threshold too: a log-concave distribution,
  as every posterior of a uniform prior is, has at most 1 - 1/e below its mean (Grünbaum),
  less than any confidence that `Settings` takes.
  """
  success, failure = _evidence(worth)
  capacity = asked.shape[0]
  is_open = asked & (standing(worth) < threshold) & jnp.any(success + failure > 0, -1)
  open_count = jnp.sum(is_open, dtype=jnp.int32)
  slots = jnp.nonzero(is_open, size=capacity + ROUND, fill_value=capacity)[0].astype(jnp.int32)

  def look(carry):
    start, answers = carry
    slot = jax.lax.dynamic_slice_in_dim(slots, start, ROUND)
    good, bad = success.at[slot].get(mode="clip"), failure.at[slot].get(mode="clip")
    below = estimators.probability_below(good, bad, threshold) >= settings.confidence
    answer = jnp.all((good + bad == 0) | below, -1)
    return start + ROUND, answers.at[slot].set(answer, mode="drop")

  start = (jnp.int32(0), jnp.zeros(capacity, bool))
  return jax.lax.while_loop(lambda carry: carry[0] < open_count, look, start)[1]


def is_due(worth: Worth, asked: jax.Array, settings: Settings) -> jax.Array:
  """bool [K_A]: of the slots that are asked for, those under `low` with evidence enough."""
  graded = sum(jnp.sum(part, -1) for part in _evidence(worth))
  return under(worth, asked & (graded >= settings.min_evidence), settings.low, settings)


def lowest(
  score: jax.Array, claim_id: jax.Array, eligible: jax.Array, limit: int, wanted: jax.Array
) -> jax.Array:
  """int32 [limit]: places of the eligible with the lowest scores, of equal ones the larger
  claim id first; the length of `score` after the last. At most `wanted` (int32 [])."""
  places = jnp.full(limit, score.shape[0], jnp.int32)
  if not limit:
    return places

  def more(carry):
    number, eligible, _ = carry
    return (number < jnp.minimum(limit, wanted)) & jnp.any(eligible)

  def pick(carry):
    number, eligible, places = carry
    lowest = jnp.min(jnp.where(eligible, score, jnp.max(score)))
    tied = eligible & (score == lowest)
    place = jnp.argmax(jnp.where(tied, claim_id, -1)).astype(jnp.int32)
    return number + 1, eligible.at[place].set(False), places.at[number].set(place)

  return jax.lax.while_loop(more, pick, (jnp.int32(0), eligible, places))[2]


@functools.partial(jax.jit, static_argnames="settings")
def plan_deprecations(
  state: MemoryState, worth: Worth, exempt: jax.Array, settings: Settings
) -> tuple[jax.Array, jax.Array]:
  """Accepted slots of the claims to deprecate now, the lowest `standing` first. Unbatched.

  Args:
    state: memory, leaves [K] or [].
    worth: its counters.
    exempt: claims that must stay, bool [N]: protected, marked doubtful, or not to be told
      from a companion (`estimators.judge`).
    settings: thresholds and the budget; static.

  Returns:
    (slots, due_count): int32 [budget], NO_SLOT after the last, and how many are due in all,
    int32 []. Slots are those of `state`: every removal may move one, so carry a plan out by
    claim.
  """
  may_go = ~look_up(exempt, state.accepted.claim_id, True)
  due = is_due(worth, may_go, settings)
  return choose_due(state, worth, due, settings), jnp.sum(due, dtype=jnp.int32)


def choose_due(state: MemoryState, worth: Worth, due: jax.Array, settings: Settings) -> jax.Array:
  """int32 [budget]: of the slots that are due (bool [K_A]), those that go first."""
  number = jnp.int32(settings.budget)
  return lowest(standing(worth), state.accepted.claim_id, due, settings.budget, number)


@functools.partial(jax.jit, static_argnames="limit")
def plan_cut(
  state: MemoryState, worth: Worth, protected: jax.Array, keep: jax.Array, *, limit: int
) -> jax.Array:
  """Accepted slots of the claims to give up so that `keep` are left. Unbatched.

  The lowest `standing` first, whatever the thresholds say: a claim that failed goes before
  one that was never tried, that one before one that helped. Counters cannot know what is
  important, so protect what is.

  Args:
    state: memory, leaves [K] or [].
    worth: its counters.
    protected: claims that are exempt, bool [N]; more than `keep` of them stay all the same.
    keep: how many entries may stay, int32 [].
    limit: how many may go in one call; static.

  Returns:
    int32 [limit], NO_SLOT after the last; slots of `state`, as for `plan_deprecations`.
  """
  may_go = ~look_up(protected, state.accepted.claim_id, True)
  number = ledgers.count(state.accepted) - keep
  return lowest(standing(worth), state.accepted.claim_id, may_go, limit, number)
