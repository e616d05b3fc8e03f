"""Which claims go and when: thresholds, order, budget, marks, ends and ages."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from governance_memory import (
  NUM_CLAIMS,
  SIZES,
  STRATA,
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
from test_governance import SIZES as SMALL
from test_governance import Lane, Table, run_lanes

from tarl_jax.governance_plan import Settings, plan_cut, plan_deprecations, standing
from tarl_jax.governance_step import cut, forget_older_than
from tarl_jax.types import NO_CLAIM, TIME_UNBOUNDED, TIME_UNKNOWN

ACCEPTED, PENDING, REJECTED, DEPRECATED, EXPIRED = 1, 2, 4, 5, 6
SETTINGS = Settings(low=0.35, high=0.5, confidence=0.9, min_evidence=5.0, budget=2, expiries=2)
NO_SLOT = SIZES[0]
LIMIT = 4


def table_of(until: dict[int, int] | None = None, protected: tuple = ()) -> Table:
  numbers = range(NUM_CLAIMS)
  return Table(
    valid_until=[(until or {}).get(claim, int(TIME_UNBOUNDED)) for claim in numbers],
    protected=[claim in protected for claim in numbers],
    content_key=[-1] * NUM_CLAIMS,
  )


def budget_lane() -> Lane:
  """Claims 1 and 2 are as bad as each other, 0 is worse; it holds no more than three."""
  lane = Lane(memory_of([1, 0, 2], sizes=SMALL), {1: (0, 8), 2: (0, 8), 0: (0, 30)}, table_of())
  for _ in range(4):
    lane.do("govern", 0)
  return lane


def hovering_lane() -> Lane:
  """Claim 3 falls under `low`, is brought back, hovers, recovers, and falls again."""
  lane = Lane(memory_of([3, 6], sizes=SMALL), {3: (0, 8), 6: (9, 1)}, table_of())
  lane.do("govern", 0)
  lane.do("restore", 3)  # into slot 1
  for outcome, weight in ((1, 0), (0, 4), (1, 4), (0, 25), (1, 25), (1, 60)):
    lane.do("record", 1, 0, outcome, weight)
    lane.do("govern", 0)
  return lane


def idle_lane() -> Lane:
  """Nothing is over, nothing is due: 3 is protected, 6 hardly tried, 8 good."""
  state = memory_of([3, 6, 8], pending=[(9, PENDING, 3, 0)], sizes=SMALL)
  lane = Lane(state, {3: (0, 40), 6: (0, 1), 8: (5, 5)}, table_of({9: 7}, protected=(3,)))
  for _ in range(4):
    lane.do("govern", 6)
  return lane


def ending_lane() -> Lane:
  """Three claims are over at minute 5: 6 is protected, 8 waits, 3 turns bad before it goes."""
  state = memory_of(
    [3, 6, 4], pending=[(8, PENDING, 3, 0)], history=[(1, REJECTED, 3, 0)], sizes=SMALL
  )
  until = {3: 5, 6: 2, 8: 5, 4: 6}
  lane = Lane(state, {3: (0, 1), 4: (5, 5), 1: (1, 2)}, table_of(until, protected=(6,)))
  lane.do("govern", 1)
  lane.do("record", 0, 0, 1, 40)
  for now in (5, 5, 5, 6):
    lane.do("govern", now)
  return lane


@functools.cache
def traces() -> tuple:
  """The lanes and, after each of their steps, memory, refusals and leavers; one batch."""
  lanes = [budget_lane(), hovering_lane(), idle_lane(), ending_lane()]
  return lanes, run_lanes(lanes)


def places_after(trace, step: int) -> dict[int, tuple]:
  return places_of(jax.tree.map(lambda leaf: leaf[step], trace[0][0]))


def test_a_step_deprecates_no_more_than_the_budget_and_the_worst_first():
  trace = traces()[1][0]
  held = [{c for c, p in places_after(trace, step).items() if p[0] == 0} for step in range(4)]
  assert held == [{1, 2}, {1}, set(), set()]  # of equals the larger claim id
  assert trace[1][:4].tolist() == [[0, 2], [0, 1], [0, 0], [0, 0]]  # waiting
  assert {place[1] for place in places_after(trace, 3).values()} == {DEPRECATED}


def test_a_claim_between_the_thresholds_does_not_flap():
  trace = traces()[1][1]
  governed = [0, *range(3, 15, 2)]
  ledgers_of_3 = [places_after(trace, step)[3][0] for step in governed]
  #                 bad  back  between  under  over  between  under `low` once more
  assert ledgers_of_3 == [2, 0, 0, 0, 0, 0, 2]
  assert trace[0][2][governed, 3].tolist() == [True, True, True, True, False, False, True]


def test_a_step_without_work_changes_no_bit():
  lanes, found = traces()
  memory, waiting, gone = found[2]
  for step in range(4):
    after = jax.tree.map(lambda leaf: leaf[step], memory)  # noqa: B023
    chex.assert_trees_all_equal(after, (lanes[2].state, lanes[2].counts, marks()))
  assert not waiting[:4].any() and (gone == NO_CLAIM).all()


def test_what_is_over_expires_earliest_first_whether_protected_or_bad():
  trace = traces()[1][3]
  steps = [0, 2, 3, 4, 5]  # those that govern
  filed = [{c for c, p in places_after(trace, step).items() if p[0] == 2} for step in steps]
  # Claim 6 ended first; of 3 and 8, which ended together, the larger id went first.
  assert filed == [{1}, {1, 6}, {1, 6, 8}, {6, 8, 3}, {8, 3, 4}]
  assert trace[1][steps].tolist() == [[0, 0], [2, 0], [1, 0], [0, 0], [0, 0]]
  assert trace[2][steps, 0].tolist() == [NO_CLAIM, NO_CLAIM, NO_CLAIM, 1, 6]  # left History
  assert {places_after(trace, 5)[claim][1] for claim in (8, 3, 4)} == {EXPIRED}
  assert not trace[0][2].any()  # claim 3 was due while it waited to expire, and is not marked


def test_what_is_due_does_not_depend_on_the_short_cut():
  """Against scipy's beta distribution in every slot, also where more are open than a round."""
  rng = np.random.default_rng(3)
  seen = {True: 0, False: 0}
  for number in range(60):
    rate = rng.choice([0.01, 0.1, 0.2, 0.3, 0.6], size=(NO_SLOT, STRATA), p=[0.4, 0.3, *[0.1] * 3])
    graded = rng.choice([0, 1, 3, 9, 40, 200], size=(NO_SLOT, STRATA))
    good = rng.binomial(graded, rate) * rng.choice([1, 0.5], size=(NO_SLOT, 1))
    counts = np.stack([good, graded - good, graded], -1).astype(np.float32)
    asked = rng.random(NO_SLOT) < (0.7 if number % 2 else 1.1)
    counters = worth_of(memory_of(), {}).replace(live=jnp.asarray(counts))
    found = is_due(counters, jnp.asarray(asked), SETTINGS)
    for slot, (s, f) in enumerate(zip(*np.moveaxis(counts[..., :2], -1, 0))):
      judged = s + f > 0
      below = scipy.stats.beta.cdf(SETTINGS.low, s[judged] + 1, f[judged] + 1)
      if (abs(below - SETTINGS.confidence) < 0.003).any():
        continue  # float32 may see it otherwise
      enough = asked[slot] and s.sum() + f.sum() >= SETTINGS.min_evidence
      wanted = bool(enough and (below >= SETTINGS.confidence).all())
      assert bool(found[slot]) == wanted
      seen[wanted] += 1
  assert min(seen.values()) > 100


@pytest.mark.parametrize(
  ("field", "value"),
  [
    ("low", 0.0), ("low", 0.6), ("high", 1.0), ("high", 0.2), ("confidence", 0.5),
    ("confidence", 1.0), ("min_evidence", 0.0), ("min_evidence", float("nan")), ("budget", -1),
    ("expiries", -1), ("low", float("nan")),
  ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(field, value):
  with pytest.raises(ValueError, match=r"^(give|confidence|min_evidence|budget)"):
    Settings(**{field: value})


def shuffled(claims: list[int], counts: dict, seed: int):
  order = np.random.default_rng(seed).permutation(claims).tolist()
  state = memory_of(order)
  return state, worth_of(state, counts)


def test_a_plan_depends_on_no_slot():
  counts = {1: (0, 40), 2: (1, 20), 5: (1, 20), 7: (1, 20), 8: (30, 1), 9: (0, 4)}
  for seed in range(4):
    state, counters = shuffled([*counts, 11], counts, seed)
    slots, due_count = plan_deprecations(state, counters, marks(), SETTINGS)
    assert np.asarray(state.accepted.rows)[0][slots].tolist() == [1, 7] and int(due_count) == 4
    slots, due_count = plan_deprecations(state, counters, marks(1, 2, 7), SETTINGS)
    assert np.asarray(state.accepted.rows)[0][slots[0]] == 5
    assert int(slots[1]) == NO_SLOT and int(due_count) == 1


def try_cut(state, counters, keep: int, protected=()):
  return cut(state, counters, jnp.int32(9), marks(*protected), jnp.int32(keep), limit=LIMIT)


def test_a_rare_claim_without_outcomes_outlives_those_that_failed():
  """Whatever slot and whatever place in the table it has."""
  for quiet in (0, 5, 29):
    counts = {claim: (0, 2) for claim in range(10, 16)}
    for seed in range(3):
      state, counters = shuffled([quiet, *counts], counts, seed)
      for _ in range(2):
        state, counters, filed, waiting = try_cut(state, counters, keep=2)
      assert set(claims_of(state.accepted)) == {quiet, 10} and int(waiting) == 0
      assert filed.claim_id.tolist() == [11, *[NO_CLAIM] * 3]


def test_a_cut_takes_bad_before_unknown_before_good_and_says_what_is_over():
  counts = {1: (0, 1), 2: (3, 2), 3: (0, 0), 4: (40, 2), 5: (1, 9), 6: (0, 0)}
  state, counters = shuffled(list(counts), counts, seed=1)
  next_state, next_counters, filed, waiting = try_cut(state, counters, keep=0)
  assert filed.claim_id.tolist() == [5, 1, 6, 3] and int(waiting) == 2
  assert counts_of(next_state, next_counters) == counts_of(state, counters)
  assert [row[1] for row in rows_of(next_state.history)] == [DEPRECATED] * 4
  next_state, _, filed, waiting = try_cut(state, counters, keep=2, protected=(5, 6, 3, 2))
  assert filed.claim_id.tolist()[:2] == [1, 4] and int(waiting) == 2
  result = try_cut(state, counters, keep=6)
  chex.assert_trees_all_equal(result[:2], (state, counters))
  assert int(result[3]) == 0
  assert int(plan_cut(state, counters, marks(), jnp.int32(6), limit=LIMIT)[0]) == NO_SLOT


def test_standing_of_a_claim():
  state = memory_of([1, 2, 3, 4, 5])
  counts = {1: (0, 0), 2: (0, 2), 3: ((0, 2), (3, 0)), 4: (float("nan"), 9), 5: (-3, 1)}
  found = np.asarray(standing(worth_of(state, counts)))[:5]
  np.testing.assert_allclose(found, [0.5, 0.25, 0.8, 0.5, 0.5], atol=1e-6)


DAY = 24 * 60


def try_forget(state, counters, observed, now: int, max_age: int, protected=()):
  arguments = (jnp.int32(9), observed, jnp.int32(now), jnp.int32(max_age), marks(*protected))
  return forget_older_than(state, counters, *arguments, limit=LIMIT)


def test_what_is_older_goes_and_what_is_exactly_as_old_stays():
  now, age = 500 * DAY, 40 * DAY
  observed = times(
    c1=now - age - 1, c2=now - age, c3=now, c4=now + DAY, c5=int(TIME_UNKNOWN),
    c6=int(TIME_UNBOUNDED), c7=now - 3 * age, c8=now - 2 * age,
  )  # fmt: skip
  state = memory_of([1, 2, 3, 4, 5, 6, 7], pending=[(8, PENDING, 3, 0)])
  counters = worth_of(state, {1: (30, 0), 7: (2, 2)})
  next_state, next_counters, filed, waiting = try_forget(state, counters, observed, now, age)
  assert filed.claim_id.tolist() == [7, 8, 1, NO_CLAIM] and int(waiting) == 0  # the oldest first
  assert set(claims_of(next_state.accepted)) == {2, 3, 4, 5, 6}
  assert [row[1:4:2] for row in rows_of(next_state.history)] == [
    (EXPIRED, 9), (EXPIRED, -10), (EXPIRED, 9)
  ]  # fmt: skip
  assert counts_of(next_state, next_counters)[1] == (30, 0)
  _, _, filed, _ = try_forget(state, counters, observed, now, age, protected=(7, 1))
  assert filed.claim_id.tolist()[0] == 8


@pytest.mark.parametrize(
  ("now", "max_age"),
  [(500, -1), (-(2**30), 2**31 - 1), (500, 2**31 - 1), (2**31 - 2, -(2**31)), (0, -(2**31))],
)
def test_an_age_below_zero_or_beyond_all_time_forgets_nothing(now, max_age):
  state = memory_of([1, 2, 3])
  observed = times(c1=-(2**31) + 1, c2=0, c3=400)
  result = try_forget(state, worth_of(state, {}), observed, now, max_age)
  gone = [claim for claim in result[2].claim_id.tolist() if claim != NO_CLAIM]
  assert gone == ([1] if (now, max_age) == (500, 2**31 - 1) else [])  # 1 is older than that


def test_more_old_claims_than_the_limit_go_in_the_next_call():
  state = memory_of([1, 2, 3, 4, 5, 6])
  counters = worth_of(state, {})
  state, counters, filed, waiting = try_forget(state, counters, times(0), 100, 50)
  assert filed.claim_id.tolist() == [6, 5, 4, 3] and int(waiting) == 2
  state, counters, filed, waiting = try_forget(state, counters, times(0), 100, 50)
  assert filed.claim_id.tolist()[:2] == [2, 1] and int(waiting) == 0
  assert filed.evicted.claim_id.tolist()[:2] == [6, 5]


def test_uses_without_an_outcome_do_not_pin_a_stale_claim():
  """Four hundred ungraded uses of the old claim weigh nothing against a few that failed."""
  state = memory_of([1, 2])
  counters = worth_of(state, {1: (0, 6), 2: (6, 0)})
  live = np.array(counters.live)
  live[0, 0, 2] = 400
  counters = counters.replace(live=jnp.asarray(live))
  slots, _ = plan_deprecations(state, counters, marks(), SETTINGS)
  assert slots.tolist() == [0, NO_SLOT]
