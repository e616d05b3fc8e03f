"""Location maps and the ledger-weighted distance."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from test_actions import SIZES, random_transactions, run_batch

from tarl_jax import actions, ledgers
from tarl_jax.quality import (
  LedgerWeights,
  distance,
  location_map,
  quality,
  same_state,
)
from tarl_jax.types import NO_CLAIM, Action, Claim, LedgerId, MemoryState, Status

WEIGHTS = LedgerWeights(accepted=4.0, pending=2.0, history=1.0)


def run(*transactions, sizes=(3, 2, 3, 8)) -> MemoryState:
  state = ledgers.init_state(*sizes)
  for step, (action, slot, claim_id) in enumerate(transactions):
    claim = Claim(claim_id=jnp.int32(claim_id), step=jnp.int32(step))
    state, info = actions.execute(state, jnp.int32(action), jnp.int32(slot), claim)
    assert not bool(info.invalid)
  return state


@pytest.fixture(scope="module")
def random_states() -> tuple[MemoryState, np.ndarray]:
  """States [B, ...] after 25 random steps, and the transactions [T, B, 3] that led to them."""
  transactions = random_transactions(SIZES, 80, seed=21)
  states, _ = run_batch(SIZES, jnp.asarray(transactions))
  return jax.tree.map(lambda leaf: leaf[-1], states), transactions


def test_location_map_equals_the_oracle(random_states):
  states, transactions = random_states
  maps = jax.device_get(jax.vmap(location_map)(states))
  for member, stream in enumerate(transactions.swapaxes(0, 1).tolist()):
    memory = oracle.OracleMemory(*SIZES)
    for step, transaction in enumerate(stream):
      memory.execute(*transaction, step)
    nowhere = (LedgerId.NONE, Status.EMPTY, NO_CLAIM)
    places = memory.location_map()
    expected = [places.get(claim_id, nowhere) for claim_id in range(SIZES[3])]
    columns = (maps.ledger[member], maps.status[member], maps.link[member])
    assert list(zip(*(column.tolist() for column in columns))) == expected


def test_location_map_does_not_depend_on_slot_order(random_states):
  states, _ = random_states
  order = np.random.default_rng(3)

  def shuffled(ledger):
    slots = order.permutation(ledger.capacity)
    return ledger.replace(rows=ledger.rows[:, :, slots])

  other = states.replace(
    accepted=shuffled(states.accepted),
    pending=shuffled(states.pending),
    history=shuffled(states.history),
  )
  assert (other.history.rows != states.history.rows).any()
  maps = jax.vmap(location_map)
  chex.assert_trees_all_equal(maps(other), maps(states))
  assert jax.vmap(same_state)(other, states).all()


def test_distance_is_a_metric_on_random_states(random_states):
  states, _ = random_states
  maps = jax.vmap(location_map)(states)
  pairwise = jax.vmap(jax.vmap(distance, (None, 0, None)), (0, None, None))
  found = np.asarray(pairwise(maps, maps, WEIGHTS))
  same = np.asarray(jax.vmap(jax.vmap(same_state, (None, 0)), (0, None))(states, states))
  np.testing.assert_array_equal(found, found.T)
  np.testing.assert_array_equal(found == 0, same)
  assert same.diagonal().all() and not same.all()
  assert found.dtype == np.float32 and (found >= 0).all()
  through = (found[:, :, None] + found[None, :, :]).min(axis=1)
  assert (found <= through).all()


def test_hand_worked_distances_by_ledger_weight():
  base = ((Action.APPEND, 0, 0),)
  gold = run(*base, (Action.REVISE, 0, 1))
  # Claim 1 belongs in Accepted and claim 0 in History: what each other action costs.
  costs = {
    (Action.REVISE, 0, 1): 0.0,
    (Action.APPEND, 0, 1): 4.0 + 4.0,  # 1 lacks its link, 0 stayed in Accepted
    (Action.NOOP, 0, 1): 4.0 + 4.0,  # 1 is missing, 0 stayed in Accepted
    (Action.REJECT_CONFLICT, 0, 1): 4.0 + 4.0,
    (Action.DEFER_VERIFY, 0, 1): 4.0 + 4.0,
  }
  for transaction, cost in costs.items():
    assert float(quality(run(*base, transaction), gold, WEIGHTS)) == -cost
  held = run(*base, (Action.DEFER_VERIFY, 0, 1))
  assert float(quality(run(*base, (Action.DEFER_VERIFY, 2, 1)), held, WEIGHTS)) == -2.0  # link
  assert float(quality(run(*base), held, WEIGHTS)) == -2.0  # 1 is in no ledger
  assert float(quality(run(*base, (Action.REJECT_CONFLICT, 0, 1)), held, WEIGHTS)) == -2.0
  assert float(quality(run(*base, (Action.APPEND, 0, 1)), held, WEIGHTS)) == -4.0  # polluted
  refused = run(*base, (Action.REJECT_CONFLICT, 0, 1))
  assert float(quality(run(*base), refused, WEIGHTS)) == -1.0
  assert float(quality(run(*base), refused, LedgerWeights(4.0, 2.0, 0.0))) == 0.0


def test_the_status_of_a_claim_counts():
  history = run((Action.APPEND, 0, 0), (Action.REJECT_CONFLICT, 0, 1))
  expired = history.replace(
    history=history.history.replace(rows=history.history.rows.at[1, 0].set(int(Status.EXPIRED)))
  )
  assert float(quality(expired, history, WEIGHTS)) == -1.0
  assert not bool(same_state(expired, history))


def test_quality_puts_states_in_order():
  """The nearer to gold, the higher; gold itself highest, and exactly zero."""
  gold = run((Action.APPEND, 0, 0), (Action.APPEND, 0, 1), (Action.REJECT_CONFLICT, 1, 2))
  one_off = run((Action.APPEND, 0, 0), (Action.APPEND, 0, 1))
  polluted = run((Action.APPEND, 0, 0), (Action.APPEND, 0, 1), (Action.APPEND, 0, 2))
  two_off = run((Action.APPEND, 0, 0), (Action.DEFER_VERIFY, 3, 1), (Action.APPEND, 0, 2))
  values = [float(quality(state, gold, WEIGHTS)) for state in (gold, one_off, polluted, two_off)]
  assert values == [0.0, -1.0, -4.0, -8.0]


def test_write_steps_and_slots_do_not_matter():
  first = run((Action.APPEND, 0, 0), (Action.APPEND, 0, 1))
  later = run((Action.NOOP, 0, 0), (Action.APPEND, 0, 1), (Action.APPEND, 0, 0))
  assert bool(same_state(first, later))
  assert float(quality(first, later, WEIGHTS)) == 0.0
