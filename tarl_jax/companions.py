"""Which memories are retrieved together, and what is known of one without the other (SPEC 7).

Counters alone cannot tell a memory that helps from one that always rides along: their numbers
are the same. This optional structure counts by pair, so that "not separable" can be said
instead of a wrong worth. It costs K_A x K_A x 2 floats and R x R additions a retrieval.

    graded [K_A, K_A, 2]   graded episodes with both, by success and failure; the diagonal
                           holds those with the one memory

Range: float32 counts of whole episodes. A memory that has been in MAX_GRADED of them
(`worth.py`) stops counting, with all its pairs, so that no share is bent.
"""

import flax.struct
import jax
import jax.numpy as jnp

from tarl_jax import ledgers
from tarl_jax.estimators import worth as worth_of
from tarl_jax.types import NO_CLAIM, MemoryState
from tarl_jax.worth import MAX_GRADED, Outcome, merge_repeats


class Companions(flax.struct.PyTreeNode, kw_only=True):
  """Graded episodes by pair of Accepted slots; symmetric."""

  graded: jax.Array  # float32 [K_A, K_A, 2]

  @property
  def together(self) -> jax.Array:
    """float32 [K_A, K_A]: graded episodes with both."""
    return jnp.sum(self.graded, axis=-1)


def init_companions(state: MemoryState) -> Companions:
  """No episode yet, for every Accepted slot of `state`. Unbatched."""
  capacity = state.accepted.capacity
  return Companions(graded=jnp.zeros((capacity, capacity, 2), jnp.float32))


@jax.jit
def record_together(
  companions: Companions, state: MemoryState, slots: jax.Array, outcome: jax.Array
) -> Companions:
  """Adds one graded retrieval to every pair of its memories. Unbatched.

  An outcome other than SUCCESS and FAILURE changes nothing; slots that are not live are
  dropped, and a slot that occurs several times counts once.

  Args:
    companions: counts before.
    state: the memory that was retrieved from.
    slots: Accepted slots, int32 [R].
    outcome: an Outcome, int32 [].
  """
  capacity = companions.graded.shape[0]
  graded = (outcome == Outcome.SUCCESS) | (outcome == Outcome.FAILURE)
  slots, _ = merge_repeats(slots, jnp.ones(slots.shape, jnp.float32), capacity)
  held = jnp.sum(companions.graded.at[slots, slots].get(mode="clip"), axis=-1)
  live = (slots >= 0) & (slots < ledgers.count(state.accepted)) & (held < MAX_GRADED)
  index = jnp.where(live & graded, slots, capacity)
  first, second = jnp.broadcast_arrays(index[:, None], index[None, :])
  return companions.replace(
    graded=companions.graded.at[first, second, outcome].add(1.0, mode="drop")
  )


@jax.jit
def follow_companions(
  companions: Companions, before: MemoryState, after: MemoryState, slot: jax.Array
) -> Companions:
  """Moves the counts with their claims, as `by_claim.follow_step`; O(K_A) work. Unbatched.

  A claim that leaves Accepted takes its counts with it; nothing is kept beside History.
  """
  capacity, graded = companions.graded.shape[0], companions.graded
  gone = ledgers.read_claim(before.accepted, slot)
  moved = (gone != NO_CLAIM) & (ledgers.read_claim(after.accepted, slot) != gone)
  last = ledgers.count(before.accepted) - 1
  taken = moved & (ledgers.count(after.accepted) <= last)
  fills = taken & (slot != last)

  own = graded.at[last, last].get(mode="clip")
  row = graded.at[last].get(mode="clip").at[slot].set(own, mode="drop")
  row = jnp.where(fills, row, 0.0)
  index, emptied = jnp.where(moved, slot, capacity), jnp.where(taken, last, capacity)
  graded = graded.at[index].set(row, mode="drop").at[:, index].set(row, mode="drop")
  graded = graded.at[emptied].set(0.0, mode="drop").at[:, emptied].set(0.0, mode="drop")
  return companions.replace(graded=graded)


@jax.jit
def apart(companions: Companions) -> jax.Array:
  """Graded episodes with the memory and without its closest companion; float32 [K_A].

  The closest is the one it was retrieved with most often; 0 where one always rides along,
  and all episodes of the memory where it was only retrieved alone.
  """
  together = companions.together
  others = jnp.where(jnp.eye(together.shape[0], dtype=bool), 0.0, together)
  return jnp.diagonal(together) - jnp.max(others, axis=1)


@jax.jit
def worth_without(companions: Companions) -> jax.Array:
  """Worth of memory m over the episodes without memory o, at [m, o]; float32 [K_A, K_A].

  0.5 where there is no such episode. Of two that often go together, the one that helps keeps
  its worth without the other; the one that rides along does not.
  """
  alone = jnp.diagonal(companions.graded).T[:, None, :] - companions.graded
  return worth_of(alone[..., Outcome.SUCCESS], alone[..., Outcome.FAILURE])
