"""Settling of Pending claims and whole steps against the oracle, and their invariants."""

import functools
import random

import chex
import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from hypothesis import strategies as st

from tarl_jax import actions, ledgers
from tarl_jax.settling import settle, transact
from tarl_jax.types import NO_CLAIM, OUTCOMES, Action, Claim, LedgerId, Settling, Status

CAPACITIES = ((1, 1, 1), (3, 1, 1), (4, 3, 2))
NUM_CLAIMS = 24
STEPS, STREAMS = 25, 700
FREE = (NO_CLAIM, Status.EMPTY, NO_CLAIM, 0)
STATUSES = tuple(OUTCOMES.values())


@functools.partial(jax.jit, static_argnums=0)
def run_batch(sizes: tuple, steps: jax.Array):
  """(states, infos, settled) after every step, leaves [T, B, ...]; steps int32 [T, B, 5]."""
  empty = ledgers.init_state(*sizes)
  batch = steps.shape[1]
  states = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (batch, *leaf.shape)), empty)

  def step(states, inputs):
    (action, slot, claim_id, pending_slot, status), number = inputs
    claim = Claim(claim_id=claim_id, step=jnp.broadcast_to(number, batch))
    settling = Settling(pending_slot, status)
    states, info, settled = jax.vmap(transact)(states, action, slot, claim, settling)
    return states, (states, info, settled)

  numbers = jnp.arange(len(steps), dtype=jnp.int32)
  return jax.lax.scan(step, states, (jnp.moveaxis(steps, 2, 1), numbers))[1]


def random_steps(capacities: tuple, batch: int, seed: int) -> np.ndarray:
  """int32 [T, B, 5]: transactions as in the oracle, half of them with something to settle."""
  rng = random.Random(seed)
  accepted, pending, _ = capacities
  streams = []
  for _ in range(batch):
    rows = []
    for number in range(STEPS):
      transaction = oracle.random_transaction(rng, accepted, NUM_CLAIMS, number)
      slot, status = rng.randrange(pending + 1), rng.choice(STATUSES)
      luck = rng.random()
      if luck < 0.05:
        slot = rng.choice((-(2**31), -pending, -1, pending + 1, 2**31 - 1))
      elif luck < 0.1:
        status = rng.choice((-1, 0, 1, 2, 5, 7, 2**31 - 1))
      rows.append((*transaction, slot, int(status)))
    streams.append(rows)
  return np.asarray(streams, np.int64).astype(np.int32).swapaxes(0, 1)


def flat(memory: oracle.OracleMemory, report: tuple) -> list[int]:
  """Every number of a state and of what the step reported."""
  invalid, overflow, left, unsettled, also_left = report
  numbers = [invalid, overflow, *left, unsettled, *also_left]
  for ledger in memory.ledgers():
    numbers += [ledger.written, *np.ravel(ledger.slots).tolist()]
  return numbers + list(memory.entered)


@pytest.mark.parametrize("capacities", CAPACITIES, ids=str)
def test_every_state_of_random_streams_equals_the_oracle(capacities):
  sizes = (*capacities, NUM_CLAIMS)
  steps = random_steps(capacities, STREAMS, seed=sum(capacities))
  states, infos, settled = jax.device_get(run_batch(sizes, jnp.asarray(steps)))
  columns = [infos.invalid, infos.overflow, *infos.evicted, settled.invalid, *settled.evicted]
  columns = [column[..., None] for column in columns]
  for ledger in (states.accepted, states.pending, states.history):
    rows = ledger.rows.swapaxes(-1, -2)
    columns += [ledger.written[..., None], rows.reshape(*rows.shape[:2], -1)]
  found = np.concatenate([np.asarray(c, np.int32) for c in [*columns, states.entered]], axis=-1)
  reached = {"confirmed": 0, "contradicted": 0, "unsettled": 0, "reused": 0, "pushed out": 0}
  for index in range(STREAMS):
    memory = oracle.OracleMemory(*sizes)
    freed = False
    for number, row in enumerate(steps[:, index].tolist()):
      before = [r[0] for r in memory.pending.rows()]
      report = memory.transact(*row[:3], number, *row[3:])
      assert found[number, index].tolist() == flat(memory, report), (index, number, row)
      moved = len(memory.pending.rows()) < len(before)
      reached["confirmed"] += moved and row[4] == Status.SUPERSEDED
      reached["contradicted"] += moved and row[4] == Status.REJECTED
      reached["unsettled"] += report[3]
      reached["pushed out"] += report[4] != oracle.EMPTY_ROW
      reached["reused"] += freed and len(memory.pending.rows()) > len(before)
      freed |= moved
  assert min(reached.values()) > 20, reached


def reached_states(capacities=CAPACITIES[2], seed=5):
  """Random states, leaves [N, ...], and rows of claims and slots for them, int32 [N, 5]."""
  steps = random_steps(capacities, 40, seed)
  states, _, _ = run_batch((*capacities, NUM_CLAIMS), jnp.asarray(steps))
  states = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), states)
  following = random_steps(capacities, 40, seed + 1).reshape(-1, 5)
  return states, following


def leaf_types(tree) -> list[tuple]:
  return [(leaf.shape, leaf.dtype, leaf.weak_type) for leaf in jax.tree.leaves(tree)]


@pytest.mark.parametrize("jitted", [True, False], ids=["jit", "nojit"])
def test_contract_of_settle(jitted):
  """Structure, shapes, dtypes and weak types stay; one trace; a batch equals a loop."""
  states, following = reached_states()
  states, following = jax.tree.map(lambda leaf: leaf[::60], (states, following))
  claims = Claim(states.accepted.claim_id[:, 0], jnp.full(len(following), 50, jnp.int32))
  slots, statuses = jnp.asarray(following[:, 3]), jnp.asarray(following[:, 4])
  batched = jax.vmap(settle)(states, claims, slots, statuses)
  assert 2 < int((states.pending.written - batched[0].pending.written).sum()) < len(following)
  with jax.disable_jit(not jitted):
    form = jax.jit(chex.assert_max_traces(settle.__wrapped__, n=1)) if jitted else settle
    for index in range(len(following)):
      state, claim = jax.tree.map(lambda leaf: leaf[index], (states, claims))  # noqa: B023
      result = form(state, claim, slots[index], statuses[index])
      chex.assert_trees_all_equal_structs(result[0], state)
      assert leaf_types(result[0]) == leaf_types(state)
      assert [kind[1:] for kind in leaf_types(result[1])] == [
        (np.dtype(bool), False), *[(np.dtype(np.int32), False)] * 5,
      ]  # fmt: skip
      chex.assert_trees_all_equal(result, jax.tree.map(lambda leaf: leaf[index], batched))  # noqa: B023


def test_contract_of_transact():
  states, following = reached_states(seed=9)
  states, following = jax.tree.map(lambda leaf: leaf[::80], (states, following))
  form = jax.jit(chex.assert_max_traces(transact.__wrapped__, n=1))
  for index, row in enumerate(following):
    state = jax.tree.map(lambda leaf: leaf[index], states)  # noqa: B023
    action, slot, claim_id, pending_slot, status = (jnp.int32(number) for number in row)
    arguments = (
      state,
      action,
      slot,
      Claim(claim_id, jnp.int32(50)),
      Settling(pending_slot, status),
    )
    result = form(*arguments)
    assert leaf_types(result[0]) == leaf_types(state)
    with jax.disable_jit():
      chex.assert_trees_all_equal(transact(*arguments), result)


def test_a_step_that_settles_nothing_is_the_action_alone():
  states, following = reached_states(seed=11)
  action, slot, claim_id = jnp.asarray(following[:, :3].T)
  claims = Claim(claim_id, jnp.full(len(following), 50, jnp.int32))
  nothing = Settling(jnp.full_like(slot, CAPACITIES[2][1]), jnp.zeros_like(slot))
  expected = jax.vmap(actions.execute)(states, action, slot, claims)
  next_states, infos, settled = jax.vmap(transact)(states, action, slot, claims, nothing)
  chex.assert_trees_all_equal((next_states, infos), expected)
  assert not settled.invalid.any() and (settled.evicted.claim_id == NO_CLAIM).all()


STEP = st.tuples(
  st.sampled_from((0, 0, 2, 4, 4, 4, 1, 3)),
  st.integers(-1, 4),
  st.integers(0, NUM_CLAIMS),
  st.integers(-1, 4),
  st.sampled_from((*map(int, STATUSES), 0)),
)
STREAM = st.tuples(st.sampled_from(CAPACITIES), st.lists(STEP, max_size=STEPS))
property_test = hypothesis.settings(derandomize=True, deadline=None, max_examples=60)


@functools.lru_cache(maxsize=512)
def trace_of(capacities: tuple, steps: tuple):
  """Per step: the ledgers as lists of rows, refusals, rows that left History, raw bytes."""
  no_step = (int(Action.NOOP), 0, 0, capacities[1], 0)
  padded = np.asarray([*steps, *[no_step] * (STEPS - len(steps))], np.int32)[:, None]
  states, infos, settled = jax.device_get(run_batch((*capacities, NUM_CLAIMS), jnp.asarray(padded)))
  parts = (states.accepted, states.pending, states.history)
  trace = []
  for number in range(len(steps)):
    rows = [[tuple(row) for row in part.rows[number, 0].T.tolist()] for part in parts]
    left = [tuple(int(field[number, 0]) for field in info.evicted) for info in (infos, settled)]
    refused = infos.invalid[number, 0] | (infos.overflow[number, 0] != LedgerId.NONE)
    trace.append((steps[number], rows, bool(refused), bool(settled.invalid[number, 0]), left))
  return trace


def live(rows: list[tuple]) -> list[tuple]:
  return [row for row in rows if row != FREE]


@property_test
@hypothesis.given(STREAM)
def test_nothing_is_lost_or_twice_and_a_claim_is_where_it_was_put(stream):
  capacities, steps = stream
  before = [[FREE] * capacity for capacity in capacities]
  places: dict[int, tuple] = {}
  gone: set[int] = set()
  for number, (step, after, refused, unsettled, left) in enumerate(
    trace_of(capacities, tuple(steps))
  ):
    action, slot, claim_id, pending_slot, status = step
    target = before[0][slot][0] if 0 <= slot < capacities[0] else NO_CLAIM
    if not refused and action == Action.APPEND:
      places[claim_id] = (0, Status.ACCEPTED, NO_CLAIM, number)
    elif not refused and action == Action.REVISE:
      places[claim_id] = (0, Status.ACCEPTED, target, number)
      places[target] = (2, Status.SUPERSEDED, claim_id, number)
    elif not refused and action == Action.REJECT_CONFLICT:
      places[claim_id] = (2, Status.REJECTED, target, number)
    elif not refused and action == Action.DEFER_VERIFY:
      places[claim_id] = (1, Status.PENDING, target, number)
    if pending_slot != capacities[1] and not unsettled:
      assert action in (Action.APPEND, Action.REVISE) and not refused
      places[before[1][pending_slot][0]] = (2, status, claim_id, number)
    for row in left:
      if row != FREE:
        assert places.pop(row[0]) == (2, *row[1:])
        gone.add(row[0])
    rows = [(part, row) for part, ledger in enumerate(after) for row in live(ledger)]
    found = {row[0]: (part, *row[1:]) for part, row in rows}
    assert found == places and len(found) == len(rows) and not gone & set(found)
    for ledger, capacity in zip(after, capacities):  # live rows lie in the first slots
      assert ledger == live(ledger) + [FREE] * (capacity - len(live(ledger)))
    before = after


@property_test
@hypothesis.given(STREAM)
def test_what_is_refused_is_what_the_rules_forbid(stream):
  capacities, steps = stream
  before = [[FREE] * capacity for capacity in capacities]
  for step, after, refused, unsettled, _ in trace_of(capacities, tuple(steps)):
    action, _, _, pending_slot, status = step
    enters = action in (Action.APPEND, Action.REVISE) and not refused
    waits = 0 <= pending_slot < capacities[1] and before[1][pending_slot] != FREE
    wanted = pending_slot != capacities[1]
    assert unsettled == (wanted and not (enters and waits and status in STATUSES))
    if action == Action.DEFER_VERIFY and live(before[1]) == before[1]:
      assert refused  # Pending is full
    if unsettled or not wanted:
      deferred = action == Action.DEFER_VERIFY and not refused
      assert len(live(after[1])) == len(live(before[1])) + deferred
    before = after


def claim_of(number: int) -> Claim:
  return Claim(claim_id=jnp.int32(number), step=jnp.int32(number))


def rows_of(ledger) -> list[tuple]:
  return live([tuple(row) for row in np.asarray(ledger.rows).T.tolist()])


@pytest.fixture()
def memory():
  """Accepted holds claim 0; Pending is full with claims 1, 2, 3; claim 4 was accepted last."""
  state = ledgers.init_state(3, 3, 2, num_claims=9)
  state, _ = actions.append(state, claim_of(0), jnp.int32(0))
  for number in (1, 2, 3):
    state, _ = actions.defer_verify(state, claim_of(number), jnp.int32(0))
  return actions.append(state, claim_of(4), jnp.int32(0))[0]


@pytest.mark.parametrize("status", STATUSES)
def test_a_settled_claim_goes_to_history_and_its_place_is_used_again(memory, status):
  after, info = settle(memory, claim_of(4), jnp.int32(0), jnp.int32(status))
  assert not info.invalid and int(info.overflow) == LedgerId.NONE
  assert rows_of(after.history) == [(1, status, 4, 4)]
  assert rows_of(after.pending) == [(3, 2, 0, 3), (2, 2, 0, 2)]
  chex.assert_trees_all_equal((after.accepted, after.entered), (memory.accepted, memory.entered))
  after, info = actions.defer_verify(after, claim_of(5), jnp.int32(0))
  assert int(info.overflow) == LedgerId.NONE
  assert [row[0] for row in rows_of(after.pending)] == [3, 2, 5]
  _, info = actions.defer_verify(after, claim_of(6), jnp.int32(0))
  assert int(info.overflow) == LedgerId.PENDING


@pytest.mark.parametrize("slot", [3, -1, -3, 4, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("emptied", [False, True])
def test_no_slot_is_no_fault_and_a_dead_one_is(memory, slot, emptied):
  if emptied:  # also where nothing waits at all
    memory = memory.replace(pending=ledgers.init_ledger(3))
  after, info = settle(memory, claim_of(4), jnp.int32(slot), jnp.int32(Status.REJECTED))
  chex.assert_trees_all_equal(after, memory)
  assert bool(info.invalid) == (slot != 3) and int(info.evicted.claim_id) == NO_CLAIM


@pytest.mark.parametrize(
  ("claim_id", "slot", "status"),
  [
    (4, 2, Status.PENDING),
    (4, 2, Status.EMPTY),
    (4, 2, Status.DEPRECATED),
    (1, 0, Status.REJECTED),  # waits itself
    (5, 0, Status.SUPERSEDED),  # never entered
    (int(NO_CLAIM), 0, Status.SUPERSEDED),  # what a free slot holds
    (-1, 0, Status.SUPERSEDED),
  ],
)
def test_what_cannot_settle_changes_nothing_and_says_so(memory, claim_id, slot, status):
  after, info = settle(memory, claim_of(claim_id), jnp.int32(slot), jnp.int32(status))
  chex.assert_trees_all_equal(after, memory)
  assert info.invalid and int(info.evicted.claim_id) == NO_CLAIM


def test_a_full_history_hands_out_a_row_for_each_of_the_two():
  """With one slot, the entry that was revised leaves again for the claim that was settled."""
  state = ledgers.init_state(1, 1, 1, num_claims=5)
  state, _ = actions.append(state, claim_of(0), jnp.int32(0))
  state, _ = actions.reject_conflict(state, claim_of(1), jnp.int32(0))
  state, _ = actions.defer_verify(state, claim_of(2), jnp.int32(0))
  settling = Settling(jnp.int32(0), jnp.int32(Status.SUPERSEDED))
  state, info, settled = transact(
    state, jnp.int32(Action.REVISE), jnp.int32(0), claim_of(3), settling
  )
  assert tuple(map(int, info.evicted)) == (1, Status.REJECTED, 0, 1)
  assert tuple(map(int, settled.evicted)) == (0, Status.SUPERSEDED, 3, 3)
  assert rows_of(state.accepted) == [(3, Status.ACCEPTED, 0, 3)]
  assert rows_of(state.history) == [(2, Status.SUPERSEDED, 3, 3)]
  assert rows_of(state.pending) == [] and int(state.pending.written) == 0


@pytest.mark.parametrize("action", [Action.NOOP, Action.REJECT_CONFLICT, Action.DEFER_VERIFY])
def test_only_an_append_or_a_revise_settles(memory, action):
  """Also not a revise that is refused, or an append of an old claim or to a full Accepted."""
  settling = Settling(jnp.int32(1), jnp.int32(Status.REJECTED))
  full, _ = actions.append(memory, claim_of(7), jnp.int32(0))
  tries = [
    (memory, action, 0, 5),
    (memory, Action.REVISE, 2, 5),
    (full, Action.APPEND, 0, 5),
    (memory, Action.APPEND, 0, 4),  # is in Accepted already
  ]
  for state, code, slot, number in tries:
    arguments = (state, jnp.int32(code), jnp.int32(slot), claim_of(number))
    after, _, settled = transact(*arguments, settling)
    assert settled.invalid
    chex.assert_trees_all_equal(after, actions.execute(*arguments)[0])
