"""Delayed outcomes: one credit for every memory that a task used, when the task ends (SPEC 7).

Owns the list of what an open task has retrieved, and the credit at its end. Claims are noted,
not slots: a memory that was revised in between is credited beside its History row, and the
newcomer in its slot is not. A claim that has left the ledgers by then gets nothing.

    start(task) -> remember, remember, ... -> close(task, outcome)
                                              NONE (a turn that only asks back): stays open
                                              SUCCESS, FAILURE, UNKNOWN: credited once, closed

A closing event that comes again finds no such task open and changes nothing.
"""

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

from tarl_jax import ledgers
from tarl_jax.types import NO_CLAIM, MemoryState, Status
from tarl_jax.worth import Worth, add_outcome, is_counted, sound_weights

NO_TASK = np.int32(-1)


class Episode(flax.struct.PyTreeNode, kw_only=True):
  """What one open task has retrieved; room for E claims."""

  claim_id: jax.Array  # int32 [E], the used places first, NO_CLAIM where free
  weight: jax.Array  # float32 [E], the largest weight the claim was retrieved with
  task: jax.Array  # int32 [], NO_TASK where none is open
  dropped: jax.Array  # int32 [], claims of the open task for which there was no room


def init_episode(capacity: int) -> Episode:
  """No task open, room for `capacity` claims.

  Raises:
    ValueError: if the capacity is under 1.
  """
  if capacity < 1:
    raise ValueError(f"an episode needs room for at least one claim, got {capacity}.")
  return Episode(
    claim_id=jnp.full(capacity, NO_CLAIM, jnp.int32),
    weight=jnp.zeros(capacity, jnp.float32),
    task=jnp.asarray(NO_TASK),
    dropped=jnp.zeros((), jnp.int32),
  )


@jax.jit
def start(episode: Episode, task: jax.Array) -> Episode:
  """Opens the task, an int32 [] of at least 0, with nothing retrieved yet. Unbatched.

  A task that is open already goes on; another one that is still open is given up without
  credit: close it as UNKNOWN first, so that coverage counts its uses.
  """
  goes_on = episode.task == task
  empty = init_episode(episode.claim_id.shape[0]).replace(task=task)
  return jax.tree.map(lambda old, new: jnp.where(goes_on, old, new), episode, empty)


@jax.jit
def remember(episode: Episode, state: MemoryState, slots: jax.Array, weights: jax.Array) -> Episode:
  """Notes one retrieval of the open task. Unbatched; nothing is noted while none is open.

  A claim is noted once however often it is retrieved, with its largest weight. Slots that
  are not live are dropped; where there is no more room, `dropped` counts.

  Args:
    episode: the open task.
    state: the memory that was retrieved from.
    slots: Accepted slots, int32 [R].
    weights: float32 [R], as for `worth.record`.
  """
  room = episode.claim_id.shape[0]
  live = (slots >= 0) & (slots < ledgers.count(state.accepted)) & (episode.task != NO_TASK)
  ids = jnp.where(live, state.accepted.claim_id.at[slots].get(mode="clip"), NO_CLAIM)
  weights = sound_weights(weights)
  again = (ids[:, None] == episode.claim_id[None, :]) & live[:, None]  # [R, E]
  same = (ids[:, None] == ids[None, :]) & live[:, None]  # [R, R]
  first = jnp.argmax(same, axis=1) == jnp.arange(ids.shape[0])
  new = live & first & ~jnp.any(again, axis=1)
  place = jnp.sum(episode.claim_id != NO_CLAIM, dtype=jnp.int32) + jnp.cumsum(new) - 1
  index = jnp.where(new & (place < room), place, room)
  raised = jnp.max(jnp.where(again, weights[:, None], 0.0), axis=0)
  largest = jnp.max(jnp.where(same, weights[None, :], 0.0), axis=1)
  return episode.replace(
    claim_id=episode.claim_id.at[index].set(ids, mode="drop"),
    weight=jnp.maximum(episode.weight, raised).at[index].set(largest, mode="drop"),
    dropped=episode.dropped + jnp.sum(new & (place >= room), dtype=jnp.int32),
  )


@jax.jit
def close(
  worth: Worth,
  episode: Episode,
  state: MemoryState,
  task: jax.Array,
  stratum: jax.Array,
  outcome: jax.Array,
) -> tuple[Worth, Episode]:
  """Credits the outcome of the task to each claim that it used, once, and closes it. Unbatched.

  Args:
    worth: counters by the slots of `state`.
    episode: the open task.
    state: the memory now.
    task: the task that ended, int32 []. Any other than the open one changes nothing.
    stratum: kind of task, int32 []; out of range changes nothing.
    outcome: an Outcome, int32 []; NONE, or none of them, changes nothing.

  Returns:
    (worth, episode): credited counters, live and past, and no task open.
  """
  strata = worth.live.shape[1]
  ends = (episode.task == task) & (task != NO_TASK) & is_counted(strata, stratum, outcome)
  ids = jnp.where(ends, episode.claim_id, NO_CLAIM)
  past_ids = jnp.where(state.history.status == Status.ERASED, NO_CLAIM, state.history.claim_id)
  live = add_outcome(
    worth.live, _places(state.accepted.claim_id, ids), episode.weight, stratum, outcome
  )
  past = add_outcome(worth.past, _places(past_ids, ids), episode.weight, stratum, outcome)
  closed = init_episode(ids.shape[0])
  episode = jax.tree.map(lambda old, new: jnp.where(ends, new, old), episode, closed)
  return worth.replace(live=live, past=past), episode


def _places(held: jax.Array, ids: jax.Array) -> jax.Array:
  """int32 [E]: where each claim lies in `held` (int32 [K]); K where it does not."""
  match = (ids[:, None] == held[None, :]) & (ids != NO_CLAIM)[:, None]
  found = jnp.argmax(match, axis=1).astype(jnp.int32)
  return jnp.where(jnp.any(match, axis=1), found, held.shape[0])
