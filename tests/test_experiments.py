"""Experiments 1 to 4 of the worth study: plain-Python oracles, extreme regimes, settings."""

import collections
import dataclasses
import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from small_worth import SMALL
from smoke_runs import compiled_once

from tarl_jax import worth
from tarl_jax.config import to_dict
from tarl_jax.errors import InputError
from tarl_jax.experiments import hitchhiker, known_utility, mixed_tasks, sensitivity, steering
from tarl_jax.experiments.config import (
  KnownConfig,
  MixedConfig,
  PairConfig,
  WorthConfig,
  make_worth_config,
)
from tarl_jax.experiments.program import make_programs
from tarl_jax.experiments.simulate import (
  count_outcome,
  draw_distinct,
  make_keys,
  pick_distinct,
  scan_episodes,
  spearman,
  success_chance,
)
from tarl_jax.experiments.study_attack import filled_memory

MEMBER = 1  # the seed whose results are checked in plain Python
TOLERANCE = {"rtol": 2e-5, "atol": 2e-6}


@pytest.fixture(autouse=True, scope="module")
def one_compilation():
  with compiled_once():
    yield


@pytest.fixture(scope="module")
def programs():
  return make_programs(SMALL)


@pytest.fixture(scope="module")
def results(programs):
  """Each experiment at the small sizes, all seeds in one program."""
  keys = make_keys(SMALL.seeds)
  return {name: jax.device_get(run(keys)) for name, run in programs.items()}


@pytest.fixture(scope="module")
def draws():
  """What the second seed draws, by experiment."""
  return jax.device_get(_draw(make_keys(SMALL.seeds)[MEMBER]))


@jax.jit
def _draw(key):
  return {
    "known": known_utility.draw_episodes(jax.random.split(key)[0], SMALL.known, SMALL.episodes),
    "mixed": mixed_tasks.draw_episodes(key, SMALL.mixed, SMALL.episodes),
    "steered": steering.draw_episodes(key, SMALL.steered, SMALL.episodes),
    "pair": hitchhiker.draw_episodes(key, SMALL.pair.episodes),
  }


# Pieces.


def test_sets_are_distinct_and_equally_frequent():
  drawn = np.asarray(_draw_sets(make_keys([5])[0]))
  assert drawn.dtype == np.int32 and drawn.shape == (6000, 3)
  counts = collections.Counter(tuple(sorted(row)) for row in drawn.tolist())
  assert set(counts) == set(itertools.combinations(range(5), 3))
  assert scipy.stats.chisquare(list(counts.values())).pvalue > 1e-3


def test_the_whole_pool_is_one_set():
  ends = jnp.array([[0.0, 0.9999999], [0.5, 0.9999999], [0.3, 0.0]], jnp.float32)
  found = jax.jit(pick_distinct, static_argnums=1)(ends, 3)
  np.testing.assert_array_equal(np.sort(found, axis=1), [[0, 1, 2]] * 2)


_draw_sets = jax.jit(lambda key: draw_distinct(key, 6000, 5, 3))


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=7, max_size=7))
def test_rank_correlation_is_scipys(pairs):
  x, y = np.array(pairs, np.float32).T
  found = float(_spearman(x, y))
  if len(set(x)) == 1 or len(set(y)) == 1:
    assert found == 0.0
  else:
    assert found == pytest.approx(scipy.stats.spearmanr(x, y).statistic, abs=1e-6)


_spearman = jax.jit(spearman)


def test_chance_of_success_by_hand():
  utility, valid = jnp.array([0.2, 0.6, 1.0]), jnp.array([True, True, False])

  def chance(quality, base=0.5, effect=1.0):
    return float(
      success_chance(utility, valid, base=jnp.float32(base), effect=effect, quality=quality)
    )

  assert chance("mean") == pytest.approx(0.4)
  assert chance("best") == pytest.approx(0.6)
  assert chance("any") == pytest.approx(1 - 0.8 * 0.4)
  assert chance("mean", base=0.28, effect=0.5) == pytest.approx(0.28 - 0.05)
  assert chance("mean", base=0.05, effect=1.0) == 0.0
  assert chance("best", base=0.95, effect=1.0) == 1.0


def test_counting_is_what_worth_records(draws):
  """The scatter-add of the experiments against the guarded one of the memory."""
  _, drawn = draws["known"]
  nothing = jnp.zeros((SMALL.known.memories, 2, 3), jnp.float32)
  counts = scan_episodes(lambda counts, e: count_outcome(counts, *e), nothing, drawn, 1)[-1]
  state = filled_memory(SMALL.known.memories)
  counters = worth.init_worth(state)
  for slots, weights, success in zip(*drawn):
    outcome = np.int32(worth.Outcome.SUCCESS if success else worth.Outcome.FAILURE)
    counters = worth.record(counters, state, slots, weights[:, 1], np.int32(0), outcome)
  found = np.stack([counters.success[:, 0], counters.failure[:, 0]], axis=1)
  np.testing.assert_allclose(counts[:, :, 1], found, **TOLERANCE)


# Experiments, against plain Python on the same draws.


def mw(success: float, failure: float) -> float:
  return success / (success + failure) if success + failure > 0 else 0.5


def rho(utility, counts) -> float:
  values = [mw(*pair) for pair in counts]
  if len(set(np.round(values, 12))) == 1 or len(set(utility)) == 1:
    return 0.0
  return scipy.stats.spearmanr(utility, np.float32(values)).statistic


def test_experiment_1_equals_a_loop(results, draws):
  utility, (slots, weights, success) = draws["known"]
  score_sums = weights.sum(1)
  np.testing.assert_allclose(score_sums, SMALL.known.retrieved, rtol=1e-5)
  np.testing.assert_allclose(
    weights[0, :, 2], 3 * utility[slots[0]] / utility[slots[0]].sum(), rtol=1e-5
  )
  counts = [[[0.0, 0.0] for _ in range(SMALL.known.memories)] for _ in range(3)]
  every = SMALL.episodes // SMALL.checkpoints
  for episode in range(SMALL.episodes):
    for place, slot in enumerate(slots[episode]):
      for column in range(3):
        counts[column][slot][0 if success[episode] else 1] += float(weights[episode, place, column])
    if (episode + 1) % every == 0:
      expected = [rho(utility, counts[column]) for column in range(3)]
      found = results["known"].rho[MEMBER, episode // every]
      np.testing.assert_allclose(found, expected, atol=1e-6)
  assert results["known"].frozen.tolist() == [0, 0, 0]


def test_experiment_2_equals_a_loop(results, draws):
  utility, (slots, hard, success) = draws["mixed"]
  assert (slots[~hard] < SMALL.mixed.generalists).all() and slots[hard].max() == 8
  np.testing.assert_array_equal(utility[6:], np.float32(0.85))
  assert 0.6 < hard.mean() < 0.8
  everything, hard_only = ([[0, 0] for _ in range(9)] for _ in range(2))
  for episode in range(SMALL.episodes):
    for slot in slots[episode]:
      everything[slot][0 if success[episode] else 1] += 1
      hard_only[slot][0 if success[episode] else 1] += int(hard[episode])
  result = results["mixed"]
  assert result.rho_all[MEMBER, -1] == pytest.approx(rho(utility, everything), abs=1e-6)
  assert result.rho_hard[MEMBER, -1] == pytest.approx(rho(utility, hard_only), abs=1e-6)


def loop_of_steered(drawn, utility, exploration):
  """Counters, and those before the last tenth."""
  number = SMALL.steered.retrieved
  counts = [[0, 0] for _ in range(SMALL.steered.memories)]
  before = None
  for episode in range(SMALL.episodes):
    if episode == SMALL.episodes - SMALL.episodes // 10:
      before = [list(pair) for pair in counts]
    candidates = drawn.candidates[episode].tolist()
    if drawn.explores[episode] < exploration:
      values = drawn.order[episode].tolist()
    else:
      values = [np.float32(mw(*counts[slot])) for slot in candidates]
    places = sorted(range(len(candidates)), key=lambda place: (-values[place], place))
    chosen = [candidates[place] for place in places[:number]]
    chance = sum(float(utility[slot]) for slot in chosen) / number
    for slot in chosen:
      counts[slot][0 if drawn.outcome[episode] < chance else 1] += 1
  return counts, before


def test_experiment_3_equals_a_loop(results, draws):
  utilities, drawn = draws["steered"]
  result = jax.tree.map(lambda leaf: leaf[MEMBER], results["steered"])
  for regime, utility in enumerate(utilities):
    for policy, exploration in enumerate((0.2, 1.0, 0.0)):
      counts, before = loop_of_steered(drawn, utility, np.float32(exploration))
      late = np.array(counts) - np.array(before)
      shares = late.sum(1) / late.sum()
      entropy = scipy.stats.entropy(shares) / math.log(SMALL.steered.memories)
      at = (regime, policy)
      assert result.success[at] == pytest.approx(late[:, 0].sum() / late.sum(), abs=1e-6)
      assert result.in_use[at] == pytest.approx((shares > 0).mean(), abs=1e-6)
      assert result.entropy[at] == pytest.approx(entropy, abs=1e-5)
      assert result.rho[at] == pytest.approx(rho(utility, counts), abs=1e-5)


def test_experiment_4_equals_a_loop(results, draws):
  for place, share in enumerate(SMALL.pair.independent):
    counts = [[0, 0], [0, 0]]
    for independent, alone, outcome in zip(*draws["pair"]):
      chosen = [alone] if independent < np.float32(share) else [0, 1]
      chance = sum((0.9, 0.05)[memory] for memory in chosen) / len(chosen)
      for memory in chosen:
        counts[memory][0 if outcome < chance else 1] += 1
    found = results["pair"].worth[MEMBER, place]
    np.testing.assert_allclose(found, [mw(*pair) for pair in counts], rtol=1e-5)
    low, high = (
      scipy.stats.beta.ppf(tail, 1 + success, 1 + failure)
      for tail, (success, failure) in zip((0.025, 0.975), counts)
    )
    assert bool(results["pair"].apart[MEMBER, place]) == (low > high)


def test_a_seed_gives_the_same_beside_others(programs, results):
  """With the loops above, which draw one seed alone: together is one by one."""
  others = make_keys([4, SMALL.seeds[2], 6])
  for name, program in programs.items():
    for there, here in zip(jax.device_get(program(others)), results[name], strict=True):
      np.testing.assert_array_equal(there[1], here[2])
  assert (results["known"].rho[0] != results["known"].rho[1]).any()


# Regimes whose outcome is known.


def test_one_memory_at_a_time_is_ranked_well_and_without_effect_not_at_all():
  single = KnownConfig(memories=9, retrieved=1)

  @jax.jit
  @functools.partial(jax.vmap, in_axes=(None, 0))
  @functools.partial(jax.vmap, in_axes=(0, None))
  def rho_of(key, effect):
    changed = dataclasses.replace(single, effect=effect)
    return known_utility.simulate(key, settings=changed, episodes=4000, checkpoints=1).rho[0]

  useful, useless = np.asarray(rho_of(make_keys(range(4)), jnp.array([1.0, 0.0])))
  assert useful.min() > 0.85 and abs(useless.mean()) < 0.45
  np.testing.assert_allclose(useful[:, 1:], useful[:, :1].repeat(2, 1), atol=1e-6)  # weights 1


def test_the_pair_is_the_same_until_it_is_independent(results):
  together, _, alone = np.moveaxis(results["pair"].worth, 1, 0)
  np.testing.assert_array_equal(together[:, 0], together[:, 1])
  np.testing.assert_array_equal(results["pair"].apart[:, [0, 2]], [[False, True]] * 3)
  np.testing.assert_allclose(alone, [[0.9, 0.05]] * 3, atol=0.12)


def test_few_useful_memories_and_tasks_that_succeed_as_often_as_they_say(results, draws):
  utilities, _ = draws["steered"]
  np.testing.assert_array_equal(utilities[1] == np.float32(0.9), utilities[0] < 0.1)
  assert set(utilities[1].tolist()) <= {np.float32(0.9), np.float32(0.2)}
  np.testing.assert_array_equal(results["steered"].rho[:, 2], np.zeros((3, 3)))
  _, (_, hard, success) = draws["mixed"]
  assert success[~hard].mean() > 0.6 and success[hard].mean() < 0.45


# Sensitivity.


def test_a_traced_setting_is_the_static_one(results):
  """Numbers share a program; with the values that are set they give the study's."""
  tried = ({}, {"easy_share": 1.0}, {"retrieved": 7})
  common = {"episodes": SMALL.episodes, "checkpoints": 1}
  told = list(sensitivity._vary(SMALL, "2", "mixed", tried, sensitivity._mixed, common))
  by_name = {figure.quantity: figure.values for figure in told}
  assert list(by_name) == [
    f"2, {change}: rho, {tasks}"
    for change in ("as set", "easy share 1.0")  # to retrieve 7 of 6 generalists is left out
    for tasks in ("all tasks", "hard tasks only")
  ]
  same = by_name["2, as set: rho, all tasks"]
  np.testing.assert_allclose(same, results["mixed"].rho_all[:, -1], atol=1e-6)
  assert by_name["2, easy share 1.0: rho, hard tasks only"].tolist() == [0, 0, 0]


def test_a_setting_of_shapes_has_its_own_program():
  def simulate(key, *, settings, episodes):
    del key
    sizes = {"retrieved": settings.retrieved, "episodes": episodes}
    return sensitivity.Measured((name, jnp.float32(size)) for name, size in sizes.items())

  tried = ({}, {"retrieved": 2}, {sensitivity._TIMES: 10})
  told = sensitivity._vary(SMALL, "1", "known", tried, simulate, {"episodes": 240})
  assert {figure.quantity: figure.values.tolist() for figure in told} == {
    "1, as set: retrieved": [3, 3, 3],
    "1, as set: episodes": [240, 240, 240],
    "1, retrieved 2: retrieved": [2, 2, 2],
    "1, retrieved 2: episodes": [240, 240, 240],
    "1, episodes times 10: retrieved": [3, 3, 3],
    "1, episodes times 10: episodes": [2400, 2400, 2400],
  }


def test_every_variation_names_a_setting_and_differs_from_ours():
  groups = {"known": sensitivity.KNOWN, "mixed": sensitivity.MIXED}
  groups |= {"steered": sensitivity.STEERED, "pair": sensitivity.PAIR}
  for group, variations in groups.items():
    ours = getattr(WorthConfig(), group)
    for variation in variations:
      assert sensitivity._is_allowed(WorthConfig(), group, variation)
      for name, value in variation.items():
        if name != sensitivity._TIMES:
          assert getattr(ours, name) != value
          assert type(getattr(ours, name)) is type(value)


# Settings.

BAD = {
  "unknown": ({"knwon": {}}, "config.knwon is no setting"),
  "no seed": ({"seeds": ()}, "config.seeds must name at least one seed"),
  "seed twice": ({"seeds": (1, 1)}, "config.seeds names a seed twice"),
  "negative seed": ({"seeds": (-1,)}, "config.seeds must be from 0"),
  "fraction": ({"seeds": (0.5,)}, "config.seeds must be int"),
  "no episodes": ({"episodes": 0}, "config.episodes must be from 1"),
  "too many": ({"episodes": 10**9}, "config.episodes must be from 1"),
  "uneven": ({"episodes": 77}, "config.episodes must be a multiple of config.checkpoints (50)"),
  "no checkpoint": ({"checkpoints": 0}, "config.checkpoints must be at least 1"),
  "checkpoints": ({"checkpoints": 25}, "config.checkpoints must be at least 10"),
  "memories": ({"known": {"memories": 1}}, "config.known.memories"),
  "retrieved": ({"known": {"retrieved": 101}}, "config.known.retrieved must be from 1 to 100"),
  "none retrieved": ({"known": {"retrieved": 0}}, "config.known.retrieved"),
  "score": ({"known": {"lowest_score": 1.5}}, "config.known.lowest_score"),
  "quality": ({"mixed": {"quality": "worst"}}, "must be one of mean, best, any"),
  "effect": ({"mixed": {"effect": -0.1}}, "config.mixed.effect must be from 0 to 2"),
  "generalists": ({"mixed": {"retrieved": 71}}, "config.mixed.retrieved must be from 1 to 70"),
  "specialists": ({"mixed": {"specialists": 0}}, "config.mixed.specialists"),
  "share": ({"mixed": {"easy_share": 1.01}}, "config.mixed.easy_share must be from 0 to 1"),
  "candidates": ({"steered": {"candidates": 101}}, "config.steered.candidates"),
  "steered": ({"steered": {"retrieved": 17}}, "config.steered.retrieved must be from 1 to 16"),
  "exploration": ({"steered": {"exploration": 2.0}}, "config.steered.exploration"),
  "pair episodes": ({"pair": {"episodes": 0}}, "config.pair.episodes"),
  "no share": ({"pair": {"independent": ()}}, "config.pair.independent must name"),
  "bad share": ({"pair": {"independent": (1.2,)}}, "config.pair.independent must be"),
  "share twice": ({"pair": {"independent": (0.1, 0.1)}}, "names a share twice"),
  "level": ({"pair": {"level": 1.0}}, "config.pair.level"),
  "anchor": ({"pair": {"anchor": -0.1}}, "config.pair.anchor"),
  "nan": ({"pair": {"anchor": math.nan}}, "config.pair.anchor must be a finite number"),
  "experiment 5": ({"retrieval": {"retrieved": 0}}, "retrieval.retrieved"),
  "bool": ({"sensitivity": 1}, "config.sensitivity must be bool"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_settings_are_one_sentence(name):
  values, words = BAD[name]
  with pytest.raises(InputError) as caught:
    make_worth_config(values)
  assert words in str(caught.value) and str(caught.value).endswith(".")


def test_settings_go_through_a_mapping():
  """Also the infinite ones, which no flag can set."""
  assert make_worth_config(to_dict(WorthConfig())) == WorthConfig()
  assert make_worth_config(to_dict(SMALL)) == SMALL
  changed = make_worth_config({"mixed": {"effect": 1}, "pair": {"independent": [0.2]}})
  assert changed.mixed == MixedConfig(effect=1.0)
  assert changed.pair == PairConfig(independent=(0.2,))
