"""Ways in which stores of memories are known to go wrong with outcomes, one test each.

Each drives the public functions as a caller would, by the claims' names; texts are our own.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from tarl_jax import estimators, ledgers
from tarl_jax.companions import apart, init_companions, record_together
from tarl_jax.episodes import close, init_episode, remember, start
from tarl_jax.estimators import Verdict
from tarl_jax.types import NO_CLAIM
from tarl_jax.worth import Outcome, decay, init_worth, read_counts, record

CAPACITY, R = 8, 4
INTERVAL = jax.jit(estimators.credible_interval)
DAY = 24 * 60
ONES = np.ones(R, np.float32)


@functools.cache
def memory():
  """Claims 0 to 7, each in the Accepted slot of its number."""
  state = ledgers.init_state(CAPACITY, 1, 2, num_claims=CAPACITY)
  rows = np.zeros((4, CAPACITY), np.int32)
  rows[0], rows[1], rows[2] = np.arange(CAPACITY), 1, NO_CLAIM
  accepted = state.accepted.replace(rows=jnp.asarray(rows), written=jnp.int32(CAPACITY))
  return state.replace(accepted=accepted)


@functools.cache
def empty():
  """Counters at zero."""
  return init_worth(memory())


def rates(table, column: int) -> np.ndarray:
  """float32 [K]: success, failure or unknown over the one stratum."""
  return np.asarray(table.live)[:, 0, column]


def slots_of(*names: int) -> jax.Array:
  return np.asarray([*names, *[CAPACITY] * (R - len(names))], np.int32)


@jax.jit
def repeat(table, slots, outcome, times):
  def once(_, table):
    return record(table, memory(), slots, jnp.ones(R), jnp.int32(0), outcome)

  return jax.lax.fori_loop(0, times, once, table)


def use(table, names: tuple[int, ...], outcome: Outcome, times: int = 1):
  return repeat(table, slots_of(*names), jnp.int32(outcome), times)


def verdicts(success, failure, apart_, bar=0.5):
  interval = INTERVAL(success, failure)
  return estimators.judge(success, failure, interval, apart_, bar).tolist()


def test_being_looked_up_often_lifts_no_memory():
  """An entry read 700 times without a result, then graded badly, against a fresh one."""
  stale, fresh = 0, 1
  table = use(empty(), (stale,), Outcome.UNKNOWN, 700)
  assert np.asarray(estimators.pooled(table))[stale] == 0.5
  table = use(use(table, (stale,), Outcome.FAILURE, 6), (fresh,), Outcome.SUCCESS, 4)
  worth = np.asarray(estimators.pooled(table))
  assert float(worth[stale]) == 0.0 < float(worth[fresh]) == 1.0
  success, failure = rates(table, 0), rates(table, 1)
  assert verdicts(success, failure, success + failure)[stale] == Verdict.BELOW
  assert np.asarray(estimators.probability_below(success, failure, 0.4))[stale] > 0.95


def test_exposure_does_not_move_worth():
  """Two memories of eight are in every retrieval; all tasks succeed alike. 200 seeds."""

  rng, shape = np.random.default_rng(4), (200, 250)
  slots = np.full((*shape, R), CAPACITY, np.int32)
  slots[..., :2] = 0, 1
  slots[:, ::10, 0], slots[:, ::10, 1] = rng.integers(2, CAPACITY, (200, 25)), CAPACITY
  failed = rng.integers(0, 2, shape).astype(np.int32)

  def episode(table, inputs):
    return record(table, memory(), inputs[0], ONES, jnp.int32(0), inputs[1]), None

  run = jax.jit(jax.vmap(lambda *inputs: jax.lax.scan(episode, empty(), inputs)[0]))
  table = run(slots, failed)
  worth = np.asarray(jax.vmap(estimators.pooled)(table))
  exposure = np.asarray(table.live).sum(axis=(2, 3))
  assert exposure[:, 0].min() > 10 * exposure[:, 2:].max(axis=1).mean()
  assert abs(worth[:, :2].mean() - worth[:, 2:].mean()) < 0.02
  ranks = [scipy.stats.spearmanr(w, e).statistic for w, e in zip(worth, exposure)]
  assert abs(np.mean(ranks)) < 4 * np.std(ranks) / np.sqrt(len(ranks))


def test_a_passenger_is_reported_as_not_separable_and_not_as_useful():
  driver, passenger, alone = 0, 1, 2
  table, pairs = empty(), init_companions(memory())

  def both(table, pairs, names, outcome, times):
    for _ in range(times):
      pairs = record_together(pairs, memory(), slots_of(*names), jnp.int32(outcome))
    return use(table, names, outcome, times), pairs

  table, pairs = both(table, pairs, (driver, passenger), Outcome.SUCCESS, 30)
  table, pairs = both(table, pairs, (driver,), Outcome.SUCCESS, 8)
  table, pairs = both(table, pairs, (alone,), Outcome.SUCCESS, 12)
  success, failure = rates(table, 0), rates(table, 1)
  found = verdicts(success, failure, apart(pairs))
  assert found[:4] == [
    Verdict.ABOVE,
    Verdict.NOT_SEPARABLE,
    Verdict.ABOVE,
    Verdict.NOT_ENOUGH,
  ]
  # Some episodes of its own bring it to light.
  table, pairs = both(table, pairs, (passenger,), Outcome.FAILURE, 8)
  worth = np.asarray(estimators.pooled(table))
  assert float(worth[driver]) > float(worth[passenger])
  found = verdicts(rates(table, 0), rates(table, 1), apart(pairs))
  assert found[passenger] != Verdict.NOT_SEPARABLE


def test_reads_for_upkeep_and_reported_use_change_nothing_at_all():
  before = use(empty(), (0, 1), Outcome.SUCCESS, 2)
  after = use(use(before, (0,), Outcome.NONE, 90), (1, 2), Outcome.NONE, 40)
  assert all(map(np.array_equal, jax.tree.leaves(before), jax.tree.leaves(after)))
  harmful = use(use(empty(), (3,), Outcome.NONE, 25), (3,), Outcome.FAILURE, 2)
  assert np.asarray(estimators.pooled(harmful))[3] == 0.0
  mean = estimators.posterior_mean(rates(harmful, 0), rates(harmful, 1))
  assert np.asarray(mean)[3] == 0.25


def known_since(days: int, success: float, failure: float):
  table = empty()
  live = np.zeros(table.live.shape, np.float32)
  live[0, 0, :2] = success, failure
  return table.replace(live=jnp.asarray(live), last=jnp.int32(30_000_000 - days * DAY))


def posterior_of_first(table) -> float:
  return float(np.asarray(estimators.posterior_mean(rates(table, 0), rates(table, 1)))[0])


def test_fading_goes_by_the_clock_and_not_by_the_number_of_passes():
  start_ = known_since(0, 18.0, 2.0)
  often, seldom = start_, decay(start_, jnp.int32(30_000_240), half_life=30.0 * DAY)
  for minute in range(1, 241):
    often = decay(often, jnp.int32(30_000_000 + minute), half_life=30.0 * DAY)
  assert abs(posterior_of_first(often) - posterior_of_first(seldom)) < 1e-6
  assert abs(posterior_of_first(often) - posterior_of_first(start_)) < 1e-3
  month = decay(start_, jnp.int32(30_000_000 + 30 * DAY), half_life=30.0 * DAY)
  assert posterior_of_first(month) == pytest.approx((9 + 1) / (10 + 2))


@pytest.mark.parametrize("days", [1, 90, 400, 20_000])
def test_age_alone_never_makes_a_memory_worse_than_an_unknown_one(days):
  """A good one fades to the prior from above, a bad one from below; neither passes it."""
  for success, failure in ((7.0, 0.0), (4.0, 3.0), (0.0, 7.0)):
    before = known_since(days, success, failure)
    after = decay(before, jnp.int32(30_000_000), 14.0 * DAY)
    old, new = posterior_of_first(before), posterior_of_first(after)
    assert abs(new - 0.5) <= abs(old - 0.5) and (new - 0.5) * (old - 0.5) >= 0
    worth = np.asarray(estimators.pooled(after))[0]
    assert worth >= 0.5 or success < failure


def test_odd_counters_from_outside_are_refused_or_rank_behind_and_a_future_date_is_safe():
  for bad in (-2, float("nan"), float("-inf")):
    with pytest.raises(ValueError, match="memory 0, success"):
      read_counts([{"success": bad, "failure": 1}], "store.json")
  records = [
    {"success": 0.25, "failure": 0},
    None,
    {"success": 5, "failure": 0},
    {"success": 0, "failure": 0},
  ]
  counts, known = read_counts(records, "store.json")
  assert known.tolist() == [True, False, True, True]
  rank = estimators.posterior_mean(counts[:, 0], counts[:, 1])
  assert int(jnp.argmax(rank)) == 2 and float(rank[1]) == 0.5
  # Those that got past the check: no evidence, never first.
  table = empty()
  live = np.zeros(table.live.shape, np.float32)
  live[:4, 0, 0] = -1.0, np.nan, np.inf, 2.0
  future = table.replace(live=jnp.asarray(live), last=jnp.int32(30_000_000 + 700 * DAY))
  same = decay(future, jnp.int32(30_000_000), 14.0 * DAY)
  worth = np.asarray(estimators.pooled(same))
  assert worth[:4].tolist() == [0.5, 0.5, 0.5, 1.0] and int(same.last) == int(future.last)


def test_the_memory_that_set_a_task_up_is_credited_at_its_end_and_once():
  early, late = 4, 6
  table, task = empty(), jnp.int32(31)

  def end(table, episode, outcome):
    return close(table, episode, memory(), task, jnp.int32(0), jnp.int32(outcome))

  episode = remember(start(init_episode(6), task), memory(), slots_of(early), ONES)
  table, episode = end(table, episode, Outcome.NONE)  # the user is asked what was meant
  episode = remember(episode, memory(), slots_of(), ONES)
  episode = remember(episode, memory(), slots_of(late), ONES)
  for _ in range(3):  # the event arrives three times
    table, episode = end(table, episode, Outcome.SUCCESS)
  assert rates(table, 0).tolist() == [0, 0, 0, 0, 1, 0, 1, 0]
  assert np.asarray(table.live).sum() == 2.0


def test_uses_without_an_outcome_count_for_coverage_only():
  table = use(empty(), (5,), Outcome.SUCCESS, 6)
  table = use(use(table, (5,), Outcome.FAILURE, 2), (5,), Outcome.UNKNOWN, 24)
  assert np.asarray(table.live)[5, 0].tolist() == [6, 2, 24]
  assert np.asarray(estimators.pooled(table))[5] == 0.75
  assert np.asarray(estimators.coverage(table))[5] == 0.25
