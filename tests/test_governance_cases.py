"""Governance by hand-worked examples: each rule of `governance.py` and `governance_history.py`."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from governance_memory import (
  ALL,
  NUM_CLAIMS,
  SIZES,
  claims_of,
  counts_of,
  is_due,
  marks,
  memory_of,
  places_of,
  rows_of,
  times,
  worth_of,
)

from tarl_jax import actions
from tarl_jax.governance import deprecate, expire, reconsider
from tarl_jax.governance_history import NO_KEY, erase, restore
from tarl_jax.governance_plan import Settings
from tarl_jax.types import (
  NO_CLAIM,
  TIME_UNBOUNDED,
  TIME_UNKNOWN,
  Action,
  Claim,
  LedgerId,
)

ACCEPTED, PENDING, SUPERSEDED, REJECTED = 1, 2, 3, 4
DEPRECATED, EXPIRED = 5, 6
SETTINGS = Settings(low=0.35, high=0.5, confidence=0.9, min_evidence=5.0, budget=2, expiries=2)
BAD, GOOD, SCARCE = (1, 20), (20, 1), (0, 4)
NO_SLOT = SIZES[0]


def int32(*numbers: int):
  return tuple(map(jnp.int32, numbers)) if len(numbers) > 1 else jnp.int32(numbers[0])


def keys(**by_claim: int) -> jax.Array:
  return times(NO_KEY, **by_claim)


def try_deprecate(state, counters, slot: int, protected=()):
  due = is_due(counters, ALL, SETTINGS)
  return deprecate(state, counters, jnp.int32(slot), jnp.int32(9), due, marks(*protected))


def act(state, action: int, claim: int):
  return actions.execute(state, *int32(action, 0), Claim(*int32(claim, 9)))


def unchanged(result, state, counters):
  chex.assert_trees_all_equal(result[:2], (state, counters))


def test_a_deprecated_claim_is_filed_with_its_counters_and_the_gap_is_filled_with_its_own():
  state = memory_of([3, (4, ACCEPTED, 2, 1), 5], history=[(2, SUPERSEDED, 4, 1)])
  counters = worth_of(state, {2: (7, 8), 3: GOOD, 4: BAD, 5: (6, 5)})
  next_state, next_counters, info = try_deprecate(state, counters, slot=1)
  assert not info.invalid and int(info.overflow) == LedgerId.NONE
  assert claims_of(next_state.accepted) == [3, 5]
  assert rows_of(next_state.history) == [(2, SUPERSEDED, 4, 1), (4, DEPRECATED, 2, 9)]
  assert counts_of(next_state, next_counters) == {2: (7, 8), 3: GOOD, 4: BAD, 5: (6, 5)}
  assert not np.asarray(next_counters.live)[2:].any()  # the slot that is freed holds nothing
  chex.assert_trees_all_equal(next_state.entered, state.entered)


@pytest.mark.parametrize(
  ("counts", "slot", "protected"),
  [
    (BAD, 0, (3,)),  # protected
    (SCARCE, 0, ()),  # too little evidence
    (GOOD, 0, ()),
    ((6, 9), 0, ()),  # worth 0.4
    ((4, 9), 0, ()),  # worth 0.31, but the upper bound is over 0.35
    ((0, 0), 0, ()),  # never retrieved
    ((-1, 20), 0, ()),
    ((float("nan"), 20), 0, ()),
    ((float("inf"), 20), 0, ()),
    (BAD, 1, ()),  # a free slot
    (BAD, NO_SLOT, ()),
    (BAD, -1, ()),
    (BAD, -(2**31), ()),
  ],
)
def test_what_may_not_be_deprecated_stays_to_the_last_bit(counts, slot, protected):
  state = memory_of([3])
  counters = worth_of(state, {3: counts})
  result = try_deprecate(state, counters, slot, protected)
  assert result[2].invalid and int(result[2].evicted.claim_id) == NO_CLAIM
  unchanged(result, state, counters)


@pytest.mark.parametrize(
  ("strata", "goes"),
  [
    (((0, 30), (5, 0)), False),  # good at one kind of task
    (((0, 30), (0, 0)), True),  # never tried at the other
    (((0, 30), (0, 1)), False),  # hardly tried at the other: its bound is high
    (((1, 30), (2, 40)), True),
    (((0, 4), (0, 4)), False),  # enough together, but neither alone says much
  ],
)
def test_one_stratum_in_which_it_may_be_good_keeps_a_claim(strata, goes):
  state = memory_of([3])
  counters = worth_of(state, {3: strata})
  assert is_due(counters, ALL, SETTINGS).tolist() == [goes] + [False] * (NO_SLOT - 1)


def test_a_full_history_hands_out_the_oldest_row_and_its_counters():
  rows = [(claim, REJECTED, NO_CLAIM, 0) for claim in range(10, 14)]
  state = memory_of([3], history=rows)
  counters = worth_of(state, {3: BAD, 10: (2, 5)})
  next_state, next_counters, info = try_deprecate(state, counters, 0)
  assert tuple(map(int, info.evicted)) == (10, REJECTED, NO_CLAIM, 0)
  assert np.asarray(info.left.claim_id)[0] == 10 and np.asarray(info.left.numbers)[
    0, 0, :2
  ].tolist() == [2, 5]
  assert claims_of(next_state.history) == [3, 11, 12, 13]  # a ring: slot 0 was the oldest
  assert counts_of(next_state, next_counters)[3] == BAD


def test_restore_undoes_deprecate():
  state = memory_of([3, (4, ACCEPTED, 2, 1), 5], history=[(2, SUPERSEDED, 4, 1)])
  counters = worth_of(state, {2: (7, 8), 3: GOOD, 4: BAD, 5: (6, 5)})
  between, archived, _ = try_deprecate(state, counters, slot=1)
  back, returned, info = restore(between, archived, *int32(4, 11))
  assert not info.invalid
  assert places_of(back) == places_of(state)
  assert counts_of(back, returned) == counts_of(state, counters)
  assert rows_of(back.accepted)[-1] == (4, ACCEPTED, 2, 11)
  assert not np.asarray(returned.past)[1:].any()


@pytest.mark.parametrize("waits", [False, True], ids=["accepted", "pending"])
def test_restore_brings_an_expired_claim_back_where_it_was(waits):
  state = memory_of([3, 4], pending=[(7, PENDING, 3, 2), (8, PENDING, 4, 3)])
  counters = worth_of(state, {3: (2, 9), 4: GOOD})
  claim = 7 if waits else 3
  between, archived, info = expire(state, counters, *int32(claim, 9), times(0), jnp.int32(0))
  assert not info.invalid and len(rows_of(between.history)) == 1
  assert rows_of(between.history)[0] == (
    claim,
    EXPIRED,
    3 if waits else NO_CLAIM,
    -10 if waits else 9,
  )
  assert claims_of(between.accepted) == ([3, 4] if waits else [4])
  assert claims_of(between.pending) == ([8] if waits else [7, 8])
  back, returned, info = restore(between, archived, *int32(claim, 11))
  assert places_of(back) == places_of(state)
  assert counts_of(back, returned) == counts_of(state, counters) and not rows_of(back.history)
  assert (np.asarray(info.left.claim_id) == NO_CLAIM).all()  # it left nothing: it came back


@pytest.mark.parametrize(
  ("claim", "refusal"),
  [
    (20, LedgerId.ACCEPTED),
    (21, LedgerId.PENDING),
    (22, None),  # SUPERSEDED
    (23, None),  # REJECTED
    (0, None),  # in Accepted
    (29, None),  # nowhere
    (-1, None),
    (NUM_CLAIMS, None),
    (int(NO_CLAIM), None),
  ],
)
def test_restore_needs_room_and_a_claim_that_governance_filed(claim, refusal):
  state = memory_of(
    list(range(NO_SLOT)),
    pending=[(18, PENDING, NO_CLAIM, 0), (19, PENDING, NO_CLAIM, 0)],
    history=[
      (20, DEPRECATED, NO_CLAIM, 1),
      (21, EXPIRED, NO_CLAIM, -2),
      (22, SUPERSEDED, 0, 1),
      (23, REJECTED, 0, 1),
    ],
  )
  counters = worth_of(state, {20: BAD, 1: GOOD})
  result = restore(state, counters, *int32(claim, 9))
  unchanged(result, state, counters)
  assert int(result[2].overflow) == (LedgerId.NONE if refusal is None else refusal)
  assert bool(result[2].invalid) == (refusal is None)


@pytest.mark.parametrize(
  ("valid_until", "now", "goes"),
  [
    (50, 49, False),
    (50, 50, True),  # the first minute at which it does not hold
    (50, 51, True),
    (-5, -5, True),
    (int(TIME_UNKNOWN), 50, False),
    (int(TIME_UNBOUNDED), 50, False),
    (int(TIME_UNBOUNDED), int(TIME_UNBOUNDED), False),
    (50, int(TIME_UNKNOWN), False),
  ],
)
def test_the_minute_at_which_a_claim_expires(valid_until, now, goes):
  state = memory_of([3])
  counters = worth_of(state, {3: GOOD})
  result = expire(state, counters, *int32(3, 9), times(c3=valid_until), jnp.int32(now))
  assert bool(result[2].invalid) != goes
  if not goes:
    unchanged(result, state, counters)


@pytest.mark.parametrize("claim", [4, 12, -1, NUM_CLAIMS, int(NO_CLAIM)])
def test_only_what_waits_or_is_accepted_expires(claim):
  state = memory_of([3], history=[(4, REJECTED, 3, 1)])
  counters = worth_of(state, {3: GOOD})
  result = expire(state, counters, *int32(claim, 9), times(0), jnp.int32(5))
  assert result[2].invalid
  unchanged(result, state, counters)


def full_memory():
  """Claim 17 everywhere that it can be named, and a ring that has wrapped: 13 is the oldest."""
  state = memory_of(
    [3, (4, ACCEPTED, 17, 5), 5],
    pending=[(7, PENDING, 17, 2), (8, PENDING, 3, 3)],
    history=[
      (16, REJECTED, 3, 4),
      (17, SUPERSEDED, 4, 5),
      (13, REJECTED, 17, 1),
      (14, DEPRECATED, 5, 2),
    ],
  )
  history = state.history.replace(written=jnp.int32(6))  # next comes slot 2
  counters = worth_of(state, {3: GOOD, 4: (4, 3), 5: (2, 2), 14: BAD, 16: (1, 1), 17: (9, 8)})
  return state.replace(history=history), counters


def test_erase_leaves_no_trace_and_keeps_the_rest_in_order():
  state, counters = full_memory()
  next_state, next_counters, info = erase(state, counters, jnp.int32(17), keys())
  assert not info.invalid and int(info.removed) == 1
  for leaf in jax.tree.leaves((next_state.replace(entered=None), next_counters)):
    assert not (np.asarray(leaf) == 17).any()
  assert rows_of(next_state.history) == [
    (13, REJECTED, NO_CLAIM, 1), (14, DEPRECATED, 5, 2), (16, REJECTED, 3, 4)
  ]  # fmt: skip
  assert int(next_state.history.written) == 3
  assert rows_of(next_state.accepted)[1] == (4, ACCEPTED, NO_CLAIM, 5)
  assert rows_of(next_state.pending)[0] == (7, PENDING, NO_CLAIM, 2)
  wanted = counts_of(state, counters)
  del wanted[17]
  assert counts_of(next_state, next_counters) == wanted
  assert not (np.asarray(next_counters.past) == 9).any()
  again = erase(next_state, next_counters, jnp.int32(17), keys())
  unchanged(again, next_state, next_counters)
  assert int(again[2].removed) == 0


def test_after_an_erasure_the_oldest_row_is_still_the_next_to_leave():
  state, counters = full_memory()
  state, counters, _ = erase(state, counters, jnp.int32(17), keys())
  for claim, gone in ((20, NO_CLAIM), (21, 13), (22, 14), (23, 16), (24, 20)):
    state, info = act(state, Action.REJECT_CONFLICT, claim)
    assert int(info.evicted.claim_id) == gone


def test_erase_takes_all_claims_of_the_same_content_and_they_never_come_back():
  state = memory_of([3, 4, 5, 6], pending=[(7, PENDING, 4, 2)])
  counters = worth_of(state, {3: (1, 1), 4: (4, 3), 5: (2, 2), 6: (6, 6)})
  content = keys(c3=0, c4=8, c6=8, c7=8, c20=8, c21=0)
  state, counters, info = erase(state, counters, jnp.int32(4), content)
  assert int(info.removed) == 3 and np.flatnonzero(np.asarray(info.erased)).tolist() == [
    4,
    6,
    7,
    20,
  ]
  assert claims_of(state.accepted) == [3, 5] and not claims_of(state.pending)
  assert counts_of(state, counters) == {3: (1, 1), 5: (2, 2)}
  for late in (4, 6, 20):  # one of them had not arrived before
    for action in (Action.APPEND, Action.REVISE, Action.REJECT_CONFLICT, Action.DEFER_VERIFY):
      after, info = act(state, action, late)
      assert info.invalid
      chex.assert_trees_all_equal(after, state)
  after, info = act(state, Action.APPEND, 21)
  assert not info.invalid and claims_of(after.accepted) == [3, 5, 21]


@pytest.mark.parametrize("key", [NO_KEY, -2])
def test_claims_without_a_key_share_nothing(key):
  state = memory_of([3, 4])
  next_state, _, info = erase(state, worth_of(state, {}), jnp.int32(3), times(key))
  assert claims_of(next_state.accepted) == [4] and int(np.asarray(info.erased).sum()) == 1


@pytest.mark.parametrize("claim", [-1, NUM_CLAIMS, int(NO_CLAIM), -(2**31)])
def test_erase_refuses_what_is_no_claim_of_the_table(claim):
  state, counters = full_memory()
  result = erase(state, counters, jnp.int32(claim), keys(c0=0))
  assert result[2].invalid
  unchanged(result, state, counters)


def waiting_memory(accepted: int = 3):
  state = memory_of(
    list(range(accepted)), pending=[(17, PENDING, 0, 2), (18, PENDING, NO_CLAIM, 3)]
  )
  return state, worth_of(state, {0: (4, 3), 1: (2, 2), 2: (5, 6)})


def ask(state, counters, action: int, slot: int, pending_slot: int = 0):
  return reconsider(state, counters, *int32(pending_slot, action, slot, 9))


@pytest.mark.parametrize(
  ("action", "slot", "places"),
  [
    (Action.APPEND, NO_SLOT, {17: (0, ACCEPTED, NO_CLAIM)}),
    (Action.REVISE, 1, {17: (0, ACCEPTED, 1), 1: (2, SUPERSEDED, 17)}),
    (Action.REJECT_CONFLICT, 1, {17: (2, REJECTED, 1)}),
    (Action.NOOP, 1, {17: (2, SUPERSEDED, 1)}),  # it repeats claim 1
    (Action.NOOP, NO_SLOT, {17: (2, SUPERSEDED, NO_CLAIM)}),
  ],
)
def test_a_claim_that_waited_takes_any_action(action, slot, places):
  state, counters = waiting_memory()
  next_state, next_counters, info = ask(state, counters, action, slot)
  assert not info.invalid and int(info.overflow) == LedgerId.NONE
  assert places_of(next_state) == places_of(state) | places
  assert claims_of(next_state.pending) == [18]  # its place is free
  wanted = counts_of(state, counters) | {17: (0, 0)}
  assert counts_of(next_state, next_counters) == wanted
  chex.assert_trees_all_equal(next_state.entered, state.entered)


@pytest.mark.parametrize(
  ("accepted", "action", "slot", "pending_slot", "invalid", "overflow"),
  [
    (3, Action.DEFER_VERIFY, 1, 0, False, LedgerId.NONE),  # goes on waiting
    (NO_SLOT, Action.APPEND, 0, 0, False, LedgerId.ACCEPTED),
    (3, Action.REVISE, 3, 0, True, LedgerId.NONE),
    (3, Action.REJECT_CONFLICT, -1, 0, True, LedgerId.NONE),
    (3, 5, 0, 0, True, LedgerId.NONE),
    (3, -1, 0, 0, True, LedgerId.NONE),
    *[(3, action, 0, 2, True, LedgerId.NONE) for action in Action],  # nothing waits there
    (3, Action.NOOP, 0, -1, True, LedgerId.NONE),
    (NO_SLOT, Action.APPEND, 0, -1, True, LedgerId.NONE),
  ],
)
def test_what_cannot_be_done_leaves_the_claim_waiting(
  accepted, action, slot, pending_slot, invalid, overflow
):
  state, counters = waiting_memory(accepted)
  result = ask(state, counters, action, slot, pending_slot)
  unchanged(result, state, counters)
  assert bool(result[2].invalid) == invalid and int(result[2].overflow) == overflow
  assert int(result[2].evicted.claim_id) == NO_CLAIM


def calls() -> dict[str, tuple]:
  """Every transition with arguments that `full_memory` does not refuse."""
  return {
    "deprecate": (deprecate, jnp.int32(1), jnp.int32(9), ALL, marks()),
    "expire": (expire, *int32(7, 9), times(0), jnp.int32(5)),
    "reconsider": (reconsider, *int32(0, Action.REVISE, 2, 9)),
    "restore": (restore, *int32(14, 9)),
    "erase": (erase, jnp.int32(17), keys(c3=4, c17=4)),
  }


@pytest.mark.parametrize("name", ["deprecate", "expire", "reconsider", "restore", "erase"])
def test_form_stays_and_numbers_without_jit_are_those_with_it(name):
  """Structure, shapes, dtypes and weak types of state and counters stay as they are."""
  state, counters = full_memory()
  transition, *arguments = calls()[name]
  result = transition(state, counters, *arguments)
  assert not result[2].invalid
  chex.assert_trees_all_equal_structs(result[:2], (state, counters))

  def kinds(tree) -> list[tuple]:
    return [(leaf.shape, leaf.dtype, leaf.weak_type) for leaf in jax.tree.leaves(tree)]

  assert kinds(result[:2]) == kinds((state, counters))
  assert not any(leaf.weak_type for leaf in jax.tree.leaves(result[2]))
  if name != "reconsider":
    return  # compiled op by op it takes long, and the oracle knows the numbers of all five
  with jax.disable_jit():
    chex.assert_trees_all_equal(transition(state, counters, *arguments), result)
