"""Delayed credit: a task is graded once, at its end, for every claim that it used."""

import chex
import jax.numpy as jnp
import numpy as np
import pytest

from tarl_jax import by_claim, ledgers, settling, worth
from tarl_jax.episodes import NO_TASK, close, init_episode, remember, start
from tarl_jax.types import NO_CLAIM, Action, Claim, Settling
from tarl_jax.worth import Outcome

R, ROOM = 3, 4
TASK, STRATUM = jnp.int32(7), jnp.int32(1)


def step(state, table, action, slot, claim_id):
  """One transaction and the counters after it."""
  claim = Claim(claim_id=jnp.int32(claim_id), step=jnp.int32(claim_id))
  none = Settling(jnp.int32(1), jnp.int32(0))
  after, _, _ = settling.transact(state, jnp.int32(action), jnp.int32(slot), claim, none)
  return after, by_claim.follow_step(table, state, after, jnp.int32(slot))[0]


def memory(size: int = 3):
  """Claims 0, 1, ... in the Accepted slots of the same number, and counters at zero."""
  state = ledgers.init_state(6, 1, 3, num_claims=12)
  table = worth.init_worth(state, 2)
  for claim_id in range(size):
    state, table = step(state, table, Action.APPEND, 6, claim_id)
  return state, table


def noted(episode, state, slots, weights=1.0):
  padded = np.full(R, 6, np.int32)
  padded[: len(slots)] = slots
  full = np.broadcast_to(np.asarray(weights, np.float32), R)
  return remember(episode, state, jnp.asarray(padded), jnp.asarray(full))


def ended(table, episode, state, outcome, task=TASK, stratum=STRATUM):
  return close(table, episode, state, task, stratum, jnp.int32(outcome))


def test_each_memory_of_a_task_is_credited_once_and_a_replay_adds_nothing():
  state, table = memory()
  episode = start(init_episode(ROOM), TASK)
  episode = noted(episode, state, [0])
  table, episode = ended(table, episode, state, Outcome.NONE)  # a turn that only asks back
  assert not np.asarray(table.live).any() and int(episode.task) == 7
  episode = noted(episode, state, [2, 0, 0])  # again, and twice at once
  credited, closed = ended(table, episode, state, Outcome.SUCCESS)
  assert credited.success[:, 1].tolist() == [1, 0, 1, 0, 0, 0]
  assert float(jnp.sum(credited.live)) == 2.0 and int(closed.task) == NO_TASK
  again, still_closed = ended(credited, closed, state, Outcome.SUCCESS)
  chex.assert_trees_all_equal((again, still_closed), (credited, closed))
  # The same event while the next task is open, and one without a task.
  following = noted(start(closed, jnp.int32(8)), state, [1])
  for task in (TASK, jnp.int32(NO_TASK)):
    replayed, same = ended(credited, following, state, Outcome.SUCCESS, task)
    chex.assert_trees_all_equal((replayed, same), (credited, following))


def test_credit_goes_to_the_claim_and_not_to_its_slot():
  state, table = memory()
  episode = noted(start(init_episode(ROOM), TASK), state, [0, 1])
  state, table = step(state, table, Action.REVISE, 0, 5)  # claim 0 is superseded by 5
  table, episode = ended(table, episode, state, Outcome.FAILURE)
  assert table.failure[:, 1].tolist() == [0, 1, 0, 0, 0, 0]
  row = np.asarray(state.history.claim_id).tolist().index(0)
  assert table.past[row, 1].tolist() == [0, 1, 0] and float(jnp.sum(table.past)) == 1.0


def test_a_claim_that_left_the_ledgers_gets_nothing():
  state, table = memory()
  episode = noted(start(init_episode(ROOM), TASK), state, [0])
  for claim_id in range(5, 9):  # a ring of three has given up claim 0 by then
    state, table = step(state, table, Action.REVISE, 0, claim_id)
  assert 0 not in np.asarray(state.history.claim_id)
  table, episode = ended(table, episode, state, Outcome.SUCCESS)
  assert not np.asarray(table.live).any() and not np.asarray(table.past).any()
  assert int(episode.task) == NO_TASK


def test_the_largest_weight_counts_and_a_full_episode_says_what_it_dropped():
  state, _ = memory(6)
  episode = noted(start(init_episode(ROOM), TASK), state, [1, 0, 1], [0.5, 2.0, 3.0])
  episode = noted(episode, state, [0, 1, -1], [1.0, 4.0, 9.0])
  assert episode.claim_id.tolist() == [1, 0, NO_CLAIM, NO_CLAIM]
  assert episode.weight.tolist() == [4, 2, 0, 0]
  episode = noted(episode, state, [3, 4, 5])
  assert episode.claim_id.tolist() == [1, 0, 3, 4] and int(episode.dropped) == 1
  episode = noted(episode, state, [5, 3, 5], [1.0, np.nan, 1.0])
  assert episode.weight.tolist() == [4, 2, 1, 1] and int(episode.dropped) == 2


def test_unknown_closes_without_a_grade_and_nonsense_does_not_close():
  state, table = memory()
  episode = noted(start(init_episode(ROOM), TASK), state, [0])
  chex.assert_trees_all_equal(start(episode, TASK), episode)  # it is open already
  for stratum, outcome in ((2, 0), (-1, 0), (1, 4), (1, -1)):
    same = ended(table, episode, state, outcome, stratum=jnp.int32(stratum))
    chex.assert_trees_all_equal(same, (table, episode))
  after, episode = ended(table, episode, state, Outcome.UNKNOWN)
  assert float(after.unknown[0, 1]) == 1.0 == float(jnp.sum(after.live))
  assert int(episode.task) == NO_TASK
  assert noted(episode, state, [0]).claim_id.tolist() == [NO_CLAIM] * ROOM  # nothing is open
  with pytest.raises(ValueError, match="room for at least one"):
    init_episode(0)
