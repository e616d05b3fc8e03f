"""Retrieval that heeds worth: suppression, priority and a floor of exploration (SPEC 7).

Owns how worth changes the order of what similarity found, and the draw that lets every
candidate come up now and then: what is never retrieved earns no outcome, so without a floor
a claim that had bad luck could not recover. It neither computes similarity nor reads
counters; it knows no ledger. All unbatched; V candidates, in any order.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

# Taken off the score of a suppressed candidate: more than scores can differ, see `priority`.
SUPPRESSION = 4.0


class Retrieval(NamedTuple):
  """What was retrieved, and how likely each candidate was to be; R places."""

  places: jax.Array  # int32 [R] into the candidates, best first; V where there is none
  probability: jax.Array  # float32 [V], the propensity to log; 0 where not visible


def suppressed(
  under: jax.Array, doubtful: jax.Array, protected: jax.Array, claim_id: jax.Array
) -> jax.Array:
  """bool [V]: candidates that come after all others, because of their worth.

  Args:
    under: the upper bound of the worth is under the threshold, bool [V]; see
      `governance_plan.is_due`.
    doubtful: claims under the mark of `governance_plan.py`, bool [N].
    protected: claims that are exempt, bool [N].
    claim_id: the candidates, int32 [V].
  """
  marked = doubtful.at[claim_id].get(mode="fill", fill_value=False)
  return (under | marked) & ~protected.at[claim_id].get(mode="fill", fill_value=False)


def priority(
  similarity: jax.Array, worth: jax.Array, suppressed: jax.Array, *, margin: float
) -> jax.Array:
  """float32 [V]: the score to retrieve by; worth decides where similarity hardly does.

  `similarity + margin * worth`: of two candidates whose similarities differ by `margin` or
  more the more similar one stays in front, whatever their worth; of two that are as similar,
  the one of higher worth comes first. What is suppressed comes after all others, in the same
  order. A similarity that is no number counts as -1.

  Args:
    similarity: cosine, float32 [V] in [-1, 1]; beyond it is clipped.
    worth: estimate in [0, 1], float32 [V], the prior's where there is no evidence.
    suppressed: bool [V].
    margin: how much similarity full worth outweighs, in [0, 1].

  Raises:
    ValueError: if the margin is not in [0, 1].
  """
  if not 0 <= margin <= 1:
    raise ValueError(f"the margin must be between 0 and 1, got {margin}.")
  sound = jnp.clip(jnp.where(jnp.isnan(similarity), -1.0, similarity), -1.0, 1.0)
  return sound + margin * worth - jnp.where(suppressed, SUPPRESSION, 0.0)


@functools.partial(jax.jit, static_argnames=("num", "floor"))
def retrieve(
  key: jax.Array,
  score: jax.Array,
  visible: jax.Array,
  claim_id: jax.Array,
  *,
  num: int,
  floor: float,
) -> Retrieval:
  """The `num` best visible candidates, one place now and then left to chance. Unbatched.

  With probability `floor * n` (at most 1) for n visible candidates, one of them is drawn,
  all alike; if it is not among the best already, it takes the place of one of them, all
  alike. So every candidate is retrieved with probability `min(floor, 1 / n)` at least, and
  each is missing at times, as the estimators of `propensity.py` need it. Floor 0 is the plain
  ranking, and where there are no more than `num`, all come. The key is consumed; the same
  key gives the same retrieval.

  Args:
    key: typed PRNG key.
    score: float32 [V]; see `priority`.
    visible: bool [V].
    claim_id: int32 [V]; of equal scores the smaller one comes first, whatever its slot.
    num: places R, at least 1; static.
    floor: least probability of a candidate, in [0, 1]; static.

  Raises:
    ValueError: if `num` is under 1 or the floor not in [0, 1].
  """
  if num < 1 or not 0 <= floor <= 1:
    raise ValueError(f"give num >= 1 and a floor between 0 and 1, got {num} and {floor}.")
  key_whether, key_which, key_place = jax.random.split(key, 3)
  size = score.shape[0]
  count = jnp.sum(visible, dtype=jnp.int32)
  ranked = jnp.lexsort((claim_id, -score, ~visible)).astype(jnp.int32)
  rank = jnp.zeros(size, jnp.int32).at[ranked].set(jnp.arange(size, dtype=jnp.int32))

  chance = jnp.minimum(1.0, floor * count.astype(jnp.float32))
  drawn = jax.random.randint(key_which, (), 0, jnp.maximum(count, 1))  # a rank
  explores = (jax.random.uniform(key_whether) < chance) & (drawn >= num)
  lost = jnp.where(explores, jax.random.randint(key_place, (), 0, num), num)
  order = jnp.arange(num, dtype=jnp.int32).at[lost].set(drawn, mode="drop")
  places = jnp.where(order < count, ranked.at[order].get(mode="clip"), size)

  each = chance / jnp.maximum(count, 1)
  displaced = each * jnp.maximum(count - num, 0) / num
  probability = jnp.where(rank < num, 1.0 - displaced, each)
  return Retrieval(places, jnp.where(visible, probability, 0.0).astype(jnp.float32))
