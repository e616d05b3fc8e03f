"""The five transitions, `execute` and `execute_all` against the oracle and each other."""

import functools
import random

import chex
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest

from tarl_jax import actions, ledgers
from tarl_jax.types import (
  ACTION_LABELS,
  NO_CLAIM,
  Action,
  Claim,
  LedgerId,
  MemoryState,
  Status,
  TransitionInfo,
)

CAPACITIES = ((1, 1, 1), (2, 1, 3), (4, 3, 2))
STREAMS = 13_400  # times 25 steps times 3: over a million transitions
STEPS = 25
SIZES = (2, 1, 3, 20)  # where one size will do


def claim_of(claim_id: int, step: int) -> Claim:
  return Claim(claim_id=jnp.int32(claim_id), step=jnp.int32(step))


@functools.partial(jax.jit, static_argnums=0)
def run_batch(sizes: tuple, transactions: jax.Array):
  """States after every step and infos, leaves [T, B, ...]; transactions int32 [T, B, 3]."""
  empty = ledgers.init_state(*sizes)
  batch = transactions.shape[1]
  states = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (batch, *leaf.shape)), empty)

  def step(states, inputs):
    (action, slot, claim_id), number = inputs
    claim = Claim(claim_id=claim_id, step=jnp.broadcast_to(number, batch))
    states, infos = jax.vmap(actions.execute)(states, action, slot, claim)
    return states, (states, infos)

  numbers = jnp.arange(len(transactions), dtype=jnp.int32)
  return jax.lax.scan(step, states, (jnp.moveaxis(transactions, 2, 1), numbers))[1]


def random_transactions(sizes: tuple, batch: int, seed: int) -> np.ndarray:
  """int32 [T, B, 3]."""
  rng = random.Random(seed)
  accepted, num_claims = sizes[0], sizes[3]
  streams = [
    [oracle.random_transaction(rng, accepted, num_claims, step) for step in range(STEPS)]
    for _ in range(batch)
  ]
  return np.asarray(streams, np.int32).swapaxes(0, 1)


def oracle_trace(sizes: tuple, transactions: np.ndarray) -> dict[str, np.ndarray]:
  """Every number of every state and report, after every step, [B, T, ...]."""
  numbers, entered = [], []  # one array a stream: lists of a million tuples slow Python down
  for stream in transactions.swapaxes(0, 1).tolist():
    memory = oracle.OracleMemory(*sizes)
    accepted, pending, history = memory.ledgers()
    flat = []
    for step, (action, slot, claim_id) in enumerate(stream):
      invalid, overflow, left = memory.execute(action, slot, claim_id, step)
      flat += (invalid, overflow, *left, accepted.written, pending.written, history.written)
      for row in accepted.slots + pending.slots + history.slots:
        flat += row
      entered.append(bytes(memory.entered))
    numbers.append(np.asarray(flat, np.int32).reshape(STEPS, -1))
  trace = np.stack(numbers)
  return {
    "info": trace[..., :2],
    "evicted": trace[..., 2:6],
    "written": trace[..., 6:9],
    "rows": trace[..., 9:].reshape(*trace.shape[:2], -1, 4),
    "entered": np.frombuffer(b"".join(entered), np.uint8).reshape(*trace.shape[:2], -1),
  }


def array_trace(states: MemoryState, infos: TransitionInfo) -> dict[str, np.ndarray]:
  """The same numbers of the array form, [B, T, ...]."""
  parts = (states.accepted, states.pending, states.history)
  trace = {
    "rows": np.concatenate([part.rows for part in parts], axis=-1).swapaxes(-1, -2),
    "written": np.stack([part.written for part in parts], axis=-1),
    "entered": np.asarray(states.entered, np.uint8),
    "info": np.stack([infos.invalid, infos.overflow], axis=-1),
    "evicted": np.stack(infos.evicted, axis=-1),
  }
  return {name: array.swapaxes(0, 1) for name, array in trace.items()}


@pytest.mark.parametrize("capacities", CAPACITIES, ids=str)
def test_every_state_of_a_million_transitions_equals_the_oracle(capacities):
  sizes = (*capacities, 20)  # fewer claims than steps, so that some come twice
  transactions = random_transactions(sizes, batch=STREAMS, seed=sum(capacities))
  expected = oracle_trace(sizes, transactions)
  found = array_trace(*jax.device_get(run_batch(sizes, jnp.asarray(transactions))))
  for name, wanted in expected.items():
    wrong = np.argwhere((found[name] != wanted).reshape(*wanted.shape[:2], -1).any(-1))
    assert len(wrong) == 0, (
      f"{name} differ first in stream {wrong[0][0]} at step {wrong[0][1]}: "
      f"{transactions[: wrong[0][1] + 1, wrong[0][0]].tolist()}"
    )
  # The streams reach what they are meant to reach.
  overflow, history_written = expected["info"][..., 1], expected["written"][..., 2]
  assert (overflow == LedgerId.ACCEPTED).any() and (overflow == LedgerId.PENDING).any()
  assert (expected["evicted"][..., 0] != NO_CLAIM).mean() > 0.01
  assert (history_written == 2 * capacities[2] - 1).any()  # the counter was folded


def reached_states(sizes: tuple, seed: int, batch: int = 80) -> tuple[MemoryState, np.ndarray]:
  """Random states that transitions lead to, leaves [T * B, ...], and transactions for them."""
  states, _ = run_batch(sizes, jnp.asarray(random_transactions(sizes, batch, seed)))
  states = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), states)
  following = random_transactions(sizes, batch, seed + 1).reshape(-1, 3)
  return states, following


@jax.jit
def every_form(states: MemoryState, slot: jax.Array, claim: Claim):
  """What the named functions, `execute` and `execute_all` do, leaves [N, A, ...]."""
  named = [jax.vmap(action)(states, claim, slot) for action in actions.ACTIONS]
  codes = jnp.arange(5, dtype=jnp.int32)
  by_code = jax.vmap(actions.execute, in_axes=(None, 0, None, None))
  return (
    jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=1), *named),
    jax.vmap(by_code, in_axes=(0, None, 0, 0))(states, codes, slot, claim),
    jax.vmap(actions.execute_all)(states, slot, claim),
  )


def test_execute_and_execute_all_equal_the_named_functions_bit_for_bit():
  states, following = reached_states(SIZES, seed=7)
  _, slot, claim_id = jnp.asarray(following.T)
  claim = Claim(claim_id=claim_id, step=jnp.full(len(following), 99, jnp.int32))
  named, by_code, stacked = jax.device_get(every_form(states, slot, claim))
  chex.assert_trees_all_equal(by_code, named)
  chex.assert_trees_all_equal(stacked, named)
  refused = named[1].invalid | (named[1].overflow != LedgerId.NONE)  # [N, A]
  assert not refused[:, Action.NOOP].any()
  assert (refused.any(axis=0) == [True, False, True, True, True]).all()
  assert (~refused).any(axis=0).all()


def test_the_tuple_of_actions_is_in_label_order():
  assert [action.label for action in Action] == list(ACTION_LABELS)
  assert [named.__name__ for named in actions.ACTIONS] == list(ACTION_LABELS)
  assert [int(action) for action in Action] == [0, 1, 2, 3, 4]


def leaf_types(tree) -> list[tuple]:
  return [(leaf.shape, leaf.dtype, leaf.weak_type) for leaf in jax.tree.leaves(tree)]


@pytest.mark.parametrize("jitted", [True, False], ids=["jit", "nojit"])
@pytest.mark.parametrize("named", actions.ACTIONS, ids=ACTION_LABELS)
def test_contract_of_an_action(named, jitted):
  """Structure, shapes, dtypes and weak types stay; one trace; a batch equals a loop."""
  states, following = reached_states(SIZES, seed=3)
  states, following = jax.tree.map(lambda leaf: leaf[::400], (states, following))
  slots, claim_ids = jnp.asarray(following[:, 1]), jnp.asarray(following[:, 2])
  steps = jnp.arange(len(following), dtype=jnp.int32)
  with jax.disable_jit(not jitted):
    batched = jax.vmap(named)(states, Claim(claim_ids, steps), slots)
    one_trace = jax.jit(chex.assert_max_traces(named.__wrapped__, n=1)) if jitted else named
    for index in range(len(following)):
      state = jax.tree.map(lambda leaf: leaf[index], states)  # noqa: B023
      result = one_trace(state, Claim(claim_ids[index], steps[index]), slots[index])
      chex.assert_trees_all_equal_structs(result[0], state)
      chex.assert_trees_all_equal_shapes_and_dtypes(result[0], state)
      assert leaf_types(result[0]) == leaf_types(state)
      assert [kind[1:] for kind in leaf_types(result[1])] == [
        (np.dtype(bool), False),
        *[(np.dtype(np.int32), False)] * 5,
      ]
      chex.assert_trees_all_equal(result, jax.tree.map(lambda leaf: leaf[index], batched))  # noqa: B023


@pytest.mark.parametrize("form", [actions.execute, actions.execute_all])
def test_jit_equals_no_jit(form):
  states, following = reached_states(SIZES, seed=4)
  states, following = jax.tree.map(lambda leaf: leaf[::400], (states, following))
  for index, (action, slot, claim_id) in enumerate(following.tolist()):
    state = jax.tree.map(lambda leaf: leaf[index], states)  # noqa: B023
    arguments = [state, jnp.int32(slot), claim_of(claim_id, index)]
    if form is actions.execute:
      arguments.insert(1, jnp.int32(action))
    wanted = form(*arguments)
    with jax.disable_jit():
      chex.assert_trees_all_equal(form(*arguments), wanted)


def test_one_compile_for_many_steps_from_the_first_state_on():
  step = jax.jit(chex.assert_max_traces(actions.execute.__wrapped__, n=1))
  state = ledgers.init_state(2, 2, 2, num_claims=9)
  start = leaf_types(state)
  for number in range(8):
    state, _ = step(state, jnp.int32(number % 5), jnp.int32(0), claim_of(number, number))
    assert leaf_types(state) == start


# What each row of the table in SPEC 3 says: the ledgers that an action may touch.
TOUCHED = {
  "append": {"accepted"},
  "noop": set(),
  "revise": {"accepted", "history"},
  "reject_conflict": {"history"},
  "defer_verify": {"pending"},
}


@pytest.mark.parametrize("named", actions.ACTIONS, ids=ACTION_LABELS)
def test_an_action_touches_only_what_its_row_says_and_a_refusal_nothing(named):
  states, following = reached_states(SIZES, seed=11)
  _, slot, claim_id = jnp.asarray(following.T)
  claim = Claim(claim_id=claim_id, step=jnp.full(len(following), 99, jnp.int32))
  after, info = jax.vmap(named)(states, claim, slot)
  done = np.asarray(~info.invalid & (info.overflow == LedgerId.NONE))
  for name in ("accepted", "pending", "history"):
    before_leaves = jax.tree.leaves(getattr(states, name))
    pairs = zip(before_leaves, jax.tree.leaves(getattr(after, name)), strict=True)
    changed = np.zeros(len(following), bool)
    for old, new in pairs:
      changed |= np.asarray(old != new).reshape(len(following), -1).any(-1)
    touched = done if name in TOUCHED[named.__name__] else np.zeros_like(done)
    np.testing.assert_array_equal(changed, touched, err_msg=name)
  entered = np.asarray(after.entered != states.entered).sum(-1)
  np.testing.assert_array_equal(entered, done if named is not actions.noop else 0)


def test_a_revision_writes_one_row_of_accepted_and_one_of_history():
  states, following = reached_states(SIZES, seed=13)
  _, slot, claim_id = jnp.asarray(following.T)
  claim = Claim(claim_id=claim_id, step=jnp.full(len(following), 99, jnp.int32))
  after, info = jax.vmap(actions.revise)(states, claim, slot)
  for name in ("accepted", "history"):
    old, new = getattr(states, name).rows, getattr(after, name).rows
    rows_changed = np.asarray((old != new).any(axis=-2)).sum(-1)
    np.testing.assert_array_equal(rows_changed, np.asarray(~info.invalid))


def rows_of(ledger) -> list[tuple]:
  return [tuple(row) for row in np.asarray(ledger.rows).T.tolist()]


def test_worked_example():
  """Tea is preferred, then coffee; a rumour of cocoa is refused, a trip is left open."""
  tea, coffee, cocoa, trip, job = range(5)
  state = ledgers.init_state(2, 1, 1, num_claims=6)
  transactions = [
    (Action.APPEND, 0, tea),
    (Action.APPEND, 0, job),
    (Action.REVISE, 0, coffee),
    (Action.DEFER_VERIFY, 2, trip),
    (Action.REJECT_CONFLICT, 0, cocoa),
    (Action.APPEND, 0, 5),
  ]
  infos = []
  for step, (action, slot, claim_id) in enumerate(transactions):
    state, info = actions.execute(
      state, jnp.int32(action), jnp.int32(slot), claim_of(claim_id, step)
    )
    infos.append(info)
  assert rows_of(state.accepted) == [
    (coffee, Status.ACCEPTED, tea, 2),
    (job, Status.ACCEPTED, NO_CLAIM, 1),
  ]
  assert rows_of(state.pending) == [(trip, Status.PENDING, NO_CLAIM, 3)]
  assert rows_of(state.history) == [(cocoa, Status.REJECTED, coffee, 4)]
  evicted = tuple(int(field) for field in infos[4].evicted)
  assert evicted == (tea, Status.SUPERSEDED, coffee, 2)
  assert [int(info.overflow) for info in infos] == [3, 3, 3, 3, 3, LedgerId.ACCEPTED]
  assert not any(bool(info.invalid) for info in infos)
  assert np.asarray(state.entered).tolist() == [True, True, True, True, True, False]


def test_a_deferred_claim_is_linked_to_the_live_entry_it_is_about():
  state = ledgers.init_state(2, 2, 1, num_claims=4)
  state, _ = actions.append(state, claim_of(3, 0), jnp.int32(0))
  state, _ = actions.defer_verify(state, claim_of(1, 1), jnp.int32(0))
  state, _ = actions.defer_verify(state, claim_of(2, 2), jnp.int32(1))  # a free slot
  assert rows_of(state.pending) == [(1, Status.PENDING, 3, 1), (2, Status.PENDING, NO_CLAIM, 2)]
