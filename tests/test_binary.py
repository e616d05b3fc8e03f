"""What a Write/Hold bit can and cannot carry: effects that differ, witnesses, the bound."""

import dataclasses
import itertools
import math
import random

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from hypothesis import strategies as st
from small_streams import random_stream
from test_judging import CAPACITIES, split_of

from tarl_jax import quality
from tarl_jax.actions import execute_all
from tarl_jax.baselines.signals import Thresholds, similarity
from tarl_jax.evaluation.binary import (
  best_executor,
  best_share,
  binary_table,
  bound,
  format_binary,
  observations,
)
from tarl_jax.inputs import Labels
from tarl_jax.ledgers import init_state
from tarl_jax.settling import transact
from tarl_jax.types import NO_CLAIM, Claim, Settling, Status

APPEND, NOOP, REVISE, REJECT, DEFER = range(5)
WRITE, HOLD = (APPEND, REVISE), (NOOP, REJECT, DEFER)
SIZES = (2, 2, 2, 14)  # Accepted, Pending, History, claims
NO_SLOT, NOTHING = 2, (2, Status.EMPTY)
STEPS = 12  # a claim each, so that claim 12 is new at the end of any of them
NEW, STEP = 12, 12


@jax.jit
def walk(transactions):
  """The state after int32 [T, 5] of (action, slot, claim id, Pending slot, status)."""

  def step(state, inputs):
    (action, slot, claim_id, waiting, status), number = inputs
    settling = Settling(waiting, status)
    return transact(state, action, slot, Claim(claim_id, number), settling)[0], None

  numbers = jnp.arange(STEPS, dtype=jnp.int32)
  return jax.lax.scan(step, init_state(*SIZES), (transactions, numbers))[0]


def walked(seed: int, length: int):
  """A state that `length` random steps lead to."""
  rng = random.Random(seed)
  rows = np.full((STEPS, 5), NOOP, np.int32)
  for step in range(length):
    row = oracle.random_transaction(rng, SIZES[0], SIZES[3], step)
    row = row if row[2] != NEW else (NOOP, 0, 0)
    rows[step] = (*row, rng.randrange(3), rng.choice((Status.SUPERSEDED, Status.REJECTED)))
  return jax.device_get(walk(jnp.asarray(rows)))


# (action, slot, Pending slot, status); the first three without settling anything.
SETTLINGS = (NOTHING, *itertools.product((0, 1), (Status.SUPERSEDED, Status.REJECTED)))
OPTIONS = tuple(
  (action, slot, *settling)
  for settling in SETTLINGS
  for action, slot in itertools.product(range(5), (0, 1, NO_SLOT))
)
PLAIN = range(15)  # rows of OPTIONS that settle nothing


@jax.jit
def _after_each(state, claim_id):
  claim = Claim(claim_id, jnp.int32(STEP))

  def after(option):
    action, slot, waiting, status = option
    next_state = transact(state, action, slot, claim, Settling(waiting, status))[0]
    return quality.location_map(next_state)

  return jax.vmap(after)(jnp.asarray(OPTIONS, jnp.int32))


def next_states(state, claim_id: int = NEW) -> np.ndarray:
  """Where each claim is after each of OPTIONS, int32 [O, 3 N]."""
  leaves = jax.device_get(jax.tree.leaves(_after_each(state, jnp.int32(claim_id))))
  return np.concatenate(leaves, axis=1)


def equal_rows(rows: np.ndarray) -> np.ndarray:
  """bool [O, O]."""
  return (rows[:, None] == rows[None]).all(-1)


def effect(state, claim_id: int, option: tuple[int, int, int, int]) -> tuple:
  """What an option does, in words of SPEC 3 and in plain Python; () for nothing."""
  action, slot, waiting, status = option
  accepted, pending = (np.asarray(part.claim_id) for part in (state.accepted, state.pending))
  target = slot if slot < len(accepted) and accepted[slot] != NO_CLAIM else None
  refused = (
    bool(state.entered[claim_id])
    or (action in (REVISE, REJECT) and target is None)
    or (action == APPEND and NO_CLAIM not in accepted)
    or (action == DEFER and NO_CLAIM not in pending)
  )
  if action == NOOP or refused:
    return ()
  bound_to = target if action in (REVISE, REJECT, DEFER) else None
  live = waiting < len(pending) and pending[waiting] != NO_CLAIM
  settles = action in WRITE and live and status in (Status.SUPERSEDED, Status.REJECTED)
  return (action, bound_to, (waiting, status) if settles else None)


STATE = st.tuples(st.integers(0, 10**6), st.integers(0, STEPS))
property_test = hypothesis.settings(derandomize=True, deadline=None, max_examples=60)


@property_test
@hypothesis.given(STATE, st.sampled_from((NEW, NEW, NEW, 0)))
def test_next_states_are_equal_just_where_effects_are(which, claim_id):
  """Of all actions, slots and settlings, from any state, for a new claim and an old one."""
  state = walked(*which)
  same = equal_rows(next_states(state, claim_id))
  effects = [effect(state, claim_id, option) for option in OPTIONS]
  number = {name: i for i, name in enumerate(dict.fromkeys(effects))}
  code = np.array([number[name] for name in effects])
  np.testing.assert_array_equal(same, code[:, None] == code)


@jax.jit
def _after_all_five(state, slot):
  claim = Claim(jnp.int32(NEW), jnp.int32(STEP))
  return jax.vmap(quality.location_map)(execute_all(state, slot, claim)[0])


def coinciding(state, slot: int) -> np.ndarray:
  """bool [5, 5]: two actions with this slot lead to one state."""
  leaves = jax.device_get(jax.tree.leaves(_after_all_five(state, jnp.int32(slot))))
  return equal_rows(np.concatenate(leaves, axis=1))


@property_test
@hypothesis.given(STATE)
def test_the_five_effects_differ_on_every_state_with_a_live_target(which):
  state = walked(*which)
  accepted, pending = (np.asarray(part.claim_id) for part in (state.accepted, state.pending))
  coincide = np.eye(5, dtype=bool)
  if NO_CLAIM not in accepted:  # no room to append
    coincide[[APPEND, NOOP], [NOOP, APPEND]] = True
  if NO_CLAIM not in pending:
    coincide[[DEFER, NOOP], [NOOP, DEFER]] = True
  coincide |= coincide[:, [NOOP]] & coincide[[NOOP]]
  for slot in np.flatnonzero(accepted != NO_CLAIM):
    np.testing.assert_array_equal(coinciding(state, slot), coincide)


def state_after(*options: tuple[int, int]):
  """After (action, slot) with the claims 0, 1, ..., settling nothing."""
  rows = [(action, slot, claim_id, *NOTHING) for claim_id, (action, slot) in enumerate(options)]
  rows += [(NOOP, 0, 0, *NOTHING)] * (STEPS - len(rows))
  return jax.device_get(walk(jnp.asarray(rows, jnp.int32)))


@pytest.mark.parametrize(
  "before, slot, idle",
  [
    ([(APPEND, 0)], 0, {NOOP}),
    ([], 0, {NOOP, REVISE, REJECT}),
    ([(APPEND, 0)], 1, {NOOP, REVISE, REJECT}),
    ([(APPEND, 0), (APPEND, 0)], 1, {NOOP, APPEND}),
    ([(APPEND, 0), (DEFER, 0), (DEFER, 0)], 0, {NOOP, DEFER}),
  ],
  ids=["room for all", "nothing accepted", "a dead slot", "Accepted full", "Pending full"],
)
def test_where_effects_coincide(before, slot, idle):
  expected = [[a == b or {a, b} <= idle for b in range(5)] for a in range(5)]
  np.testing.assert_array_equal(coinciding(state_after(*before), slot), expected)


# Witnesses: two claims of one bit.

PAIRS = [*itertools.combinations(WRITE, 2), *itertools.combinations(HOLD, 2)]


def right_for(state, gold: tuple[int, int]) -> set[int]:
  """Rows of OPTIONS whose next state is that of the gold (action, slot)."""
  row = OPTIONS.index((*gold, *NOTHING))
  return set(np.flatnonzero(equal_rows(next_states(state))[row]).tolist())


@pytest.mark.parametrize("first, second", PAIRS)
def test_no_executor_of_the_bit_is_right_on_both_witnesses(first, second):
  """One memory, one bit, two claims: a transaction that is right for both does not exist."""
  state = state_after((APPEND, 0))
  right = [right_for(state, (action, 0)) for action in (first, second)]
  assert right[0] and right[1] and not right[0] & right[1]


def test_the_action_alone_does_not_say_the_next_state_either():
  """Two claims of one action that differ in the entry they are about."""
  state = state_after((APPEND, 0), (APPEND, 0))
  for action in (REVISE, REJECT, DEFER):
    right = [right_for(state, (action, slot)) for slot in (0, 1)]
    assert right[0] and right[1] and not right[0] & right[1]


# The bound.


def labels_of(actions) -> Labels:
  return Labels(*[np.int32(actions)] * len(Labels._fields))


def test_the_bound_by_hand():
  """5 append, 3 revise, 4 noop, 4 reject_conflict, 2 defer_verify."""
  gold = np.repeat([APPEND, REVISE, NOOP, REJECT, DEFER], [5, 3, 4, 4, 2])
  weight = np.ones(18)
  assert bound(labels_of(gold), weight) == pytest.approx((5 + 4) / 18)
  # Half of the claims that revise are dear, and no noop counts.
  weight = np.where(gold == REVISE, 2.0, np.where(gold == NOOP, 0.0, 1.0))
  assert bound(labels_of(gold), weight) == pytest.approx((6 + 4) / 17)
  # Told whether there is an entry to bind to: appends have none, and one noop in four.
  told = np.where(gold == APPEND, 0, 1)
  told[gold == NOOP] = [0, 1, 1, 1]
  assert bound(labels_of(gold), np.ones(18), told) == pytest.approx((5 + 3 + 1 + 4) / 18)
  # Told everything.
  assert bound(labels_of(gold), np.ones(18), np.arange(18)) == 1
  assert math.isnan(bound(labels_of(gold), np.zeros(18)))


def small_world(seed: int, number: int):
  """Random states, gold transactions that can be executed, and what is right.

  Returns:
    gold actions [E]; bool [E, 15], which of the PLAIN options are right; bool [E, 5], which
    actions are right with the gold slot; which state [E]; next states [E, 3 N]. A refused
    option is never right.
  """
  rng = random.Random(seed)
  states = [walked(rng.randrange(10**6), rng.randrange(1, STEPS)) for _ in range(4)]
  after = [next_states(state) for state in states]
  done = [
    np.array([o[0] == NOOP or effect(state, NEW, o) != () for o in OPTIONS]) for state in states
  ]
  rows = []
  while len(rows) < number:
    which, gold = rng.randrange(len(states)), rng.choice(PLAIN)
    if not done[which][gold]:
      continue
    right = (after[which] == after[which][gold]).all(1) & done[which]
    told = [OPTIONS.index((a, *OPTIONS[gold][1:])) for a in range(5)]
    rows.append((OPTIONS[gold][0], right[PLAIN], right[told], which, after[which][gold]))
  return tuple(np.array(column) for column in zip(*rows))


def exhaustive(right: np.ndarray, cells: np.ndarray, weight: np.ndarray) -> tuple[float, int]:
  """The best share over all maps from cells to options, one by one, and how many there are."""
  names, index = np.unique(cells, return_inverse=True)
  rows, best, number = np.arange(len(index)), 0.0, 0
  for chosen in itertools.product(range(right.shape[1]), repeat=len(names)):
    hits = right[rows, np.array(chosen)[index]]
    best, number = max(best, float(hits @ weight)), number + 1
  return best / weight.sum(), number


@pytest.mark.parametrize("seed", range(3))
def test_no_executor_beats_the_bound_and_one_attains_it(seed):
  """All executors of (bit, cell), in cells that do and do not tell the states apart."""
  gold, right, told, which, _ = small_world(seed, number=30)
  weight = np.random.default_rng(seed).integers(1, 4, len(gold)).astype(np.float64)
  bit = np.isin(gold, WRITE).astype(int)
  alone, number = exhaustive(right, bit, weight)
  assert number == 15**2
  # An executor that is told the target chooses among actions alone.
  for cells in (None, which % 2):
    seen = bit if cells is None else bit + 2 * cells
    best, number = exhaustive(told, seen, weight)
    assert best == pytest.approx(bound(labels_of(gold), weight, cells)) and number >= 25
  # One that must find the target itself is never better, and has an exact bound of its own.
  assert alone <= bound(labels_of(gold), weight) + 1e-9
  assert alone == pytest.approx(best_share(right, weight, bit))


@pytest.mark.parametrize("seed", range(3))
def test_in_a_known_state_the_bound_is_the_mass_of_the_best_next_state(seed):
  gold, right, _, which, places = small_world(seed, number=60)
  rows = np.flatnonzero(which == 0)
  bit = np.isin(gold, WRITE).astype(int)[rows]
  weight = np.random.default_rng(seed).random(len(rows))
  mass: dict[int, dict[bytes, float]] = {0: {}, 1: {}}
  for row, side, amount in zip(rows, bit, weight):
    mass[side][places[row].tobytes()] = mass[side].get(places[row].tobytes(), 0.0) + amount
  expected = sum(max(side.values(), default=0.0) for side in mass.values()) / weight.sum()
  assert len(rows) > 5 and 0 < expected < 1
  assert best_share(right[rows], weight, bit) == pytest.approx(expected)
  assert exhaustive(right[rows], bit, weight)[0] == pytest.approx(expected)


# On a split.


@pytest.fixture(scope="module")
def split():
  """Streams so short that everything is in sight, with one right target each; a third of the
  steps are no examples."""
  streams = []
  for seed in range(16):
    whole = random_stream(seed, 5, f"s{seed}_")
    golds = [dataclasses.replace(one.gold, alt_targets=()) for one in whole.claims]
    claims = [dataclasses.replace(one, gold=gold) for one, gold in zip(whole.claims, golds)]
    streams.append(dataclasses.replace(whole, claims=tuple(claims)))
  whole = split_of(*streams)
  return dataclasses.replace(whole, counts=np.arange(len(whole.moments)) % 3 > 0)


@pytest.fixture(scope="module")
def table(split):
  policy = [
    best_executor(split.labels, np.ones(len(split.moments)), cells)
    for cells in (None, split.labels.action)
  ]
  return binary_table(split, policy, Thresholds(), CAPACITIES)


def test_the_table_on_a_split_in_full_sight(split, table):
  gold = split.labels.action[split.counts]
  share = np.bincount(gold, minlength=5) / len(gold)
  assert (share > 0).all()
  settles = split.labels.resolves[split.counts] < 4
  plain = table["gold write/hold, plain"]
  expected = np.mean((gold == NOOP) | ((gold == APPEND) & ~settles))
  assert plain["next_state"]["mean"] == pytest.approx(expected)
  assert plain["conflict_preservation"]["mean"] == 0
  best = table["best executor: bit"]
  ceiling = max(share[APPEND], share[REVISE]) + max(share[NOOP], share[REJECT], share[DEFER])
  assert best["bound"]["mean"] == best["next_state"]["mean"] == pytest.approx(ceiling)
  told = table["best executor: bit, whether it has a target"]
  assert told["bound"]["mean"] == pytest.approx(told["next_state"]["mean"])
  assert ceiling < told["bound"]["mean"] < 1
  perfect = table["five-way oracle"]
  assert perfect["next_state"]["mean"] == perfect["conflict_preservation"]["mean"] == 1
  assert table["policy"]["next_state"]["n"] == 2 and table["policy"]["next_state"]["sd"] > 0.1
  heuristic = table["gold write/hold, heuristic"]["next_state"]["mean"]
  similar = table["best executor: bit, similarity"]
  assert 0 < heuristic <= similar["bound"]["mean"] < 1
  assert ceiling <= similar["bound"]["mean"] + 1e-9


def test_what_the_best_executors_observe(split):
  """Similarities in three steps; and a target counts where it is an Accepted entry in sight."""
  cells = observations(split, Thresholds(related=0.4, same=0.6))
  assert cells["best executor: bit"] is None
  told = cells["best executor: bit, whether it has a target"]
  similar = cells["best executor: bit, similarity"]
  nearest = similarity(split.inputs).max(1)
  pending = 0
  for row, moment in enumerate(split.moments):
    accepted = {entry.id for entry in moment.entries[: moment.num_accepted]}
    assert told[row] == (moment.gold.target in accepted)
    pending += moment.gold.target in {entry.id for entry in moment.entries} - accepted
    assert similar[row] == int(nearest[row] >= 0.4) + int(nearest[row] >= 0.6)
  assert pending and told.any() and not told.all()


def test_the_table_as_text(table):
  lines = format_binary(table).split("\n")
  assert lines[0] == "| method | next_state | conflict_preservation | bound |"
  assert len(lines) == 2 + len(table)
  assert lines[2].startswith("| gold write/hold, plain | 0.") and lines[2].endswith(
    "| 0.0000 | – |"
  )
  assert "±" in lines[7] and lines[8] == "| five-way oracle | 1.0000 | 1.0000 | – |"
