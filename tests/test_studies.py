"""The studies beyond the paper, at small sizes: oracles, worked examples, bad settings."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tarl_jax import propensity as weighting
from tarl_jax.errors import InputError
from tarl_jax.estimators import Verdict
from tarl_jax.experiments import studies
from tarl_jax.experiments import study_attack as attack
from tarl_jax.experiments import study_cold_start as cold_start
from tarl_jax.experiments import study_confounding as confounding
from tarl_jax.experiments import study_feedback as feedback
from tarl_jax.experiments.simulate import make_keys
from tarl_jax.worth import Outcome

SETTINGS = studies.StudiesSettings(
  confounding=confounding.ConfoundingSettings(
    episodes=6000, checkpoints=2, generalists=7, specialists=3
  ),
  feedback=feedback.FeedbackSettings(
    windows=4,
    window=120,
    memories=20,
    retrieved=3,
    step=0.1,
    half_lives=(math.inf, 60.0),
    explorations=(0.0, 0.2),
  ),
  attack=attack.AttackSettings(episodes=1500, memories=12, shares=(0.0, 0.3)),
  cold_start=cold_start.ColdStartSettings(looks=(1, 4, 200), memories=20),
)
SEEDS = (0, 1, 2, 3)


@pytest.fixture(scope="module")
def results():
  """Each study once, by name."""
  return {
    "confounding": confounding.run(SETTINGS.confounding, SEEDS),
    "feedback": feedback.run(SETTINGS.feedback, SEEDS),
    "attack": attack.run(SETTINGS.attack, SEEDS),
    "cold_start": cold_start.run(SETTINGS.cold_start, SEEDS),
  }


def test_a_seed_gives_the_same_wherever_it_stands(results):
  swapped = feedback.run(SETTINGS.feedback, SEEDS[::-1])
  for one, other in zip(swapped[1:], results["feedback"][1:], strict=True):
    np.testing.assert_allclose(one, other[::-1], rtol=1e-5, atol=1e-6)
  assert len(np.unique(results["feedback"].rho[:, 0, -1])) == len(SEEDS)


# Confounding


@pytest.fixture(scope="module")
def tasks():
  """A few confounded episodes, with everything counted by hand."""
  settings = dataclasses.replace(SETTINGS.confounding, episodes=400, checkpoints=1)
  regime = confounding.REGIMES["confounded"]
  draw = jax.jit(confounding.draw_tasks, static_argnums=(1, 2))
  _, drawn = draw(make_keys([7])[0], regime, settings)
  counts, whole = np.zeros((10, 2, 2), np.float32), np.zeros((2, 2), np.float32)
  for slots, kind, success in zip(*map(np.asarray, drawn), strict=True):
    counts[slots, 0 if success else 1, kind] += 1
    whole[0 if success else 1, kind] += 1
  return drawn, counts, whole, np.asarray(confounding.propensities(regime, settings))


def test_easy_tasks_draw_generalists_only_when_confounded(tasks):
  drawn, _, _, table = tasks
  easy = np.asarray(drawn.kind) == 0
  assert 0.35 < easy.mean() < 0.65
  assert np.asarray(drawn.slots)[easy].max() < 7 and np.asarray(drawn.slots)[~easy].max() >= 7
  assert all(len(set(row)) == 3 for row in np.asarray(drawn.slots).tolist())
  np.testing.assert_allclose(table.sum(0), 3.0, rtol=1e-6)
  free = confounding.propensities(confounding.REGIMES["not confounded"], SETTINGS.confounding)
  np.testing.assert_allclose(free, 0.3, rtol=1e-6)


def test_sums_from_counts_equal_the_sums_logged_episode_by_episode(tasks):
  drawn, counts, whole, table = tasks
  state = attack.filled_memory(10)

  def step(logged, task):
    outcome = jnp.where(task.success, int(Outcome.SUCCESS), int(Outcome.FAILURE))
    chance = jnp.asarray(table)[:, task.kind]
    return weighting.log_episode(logged, state, task.slots, chance, task.kind, outcome), None

  scan = jax.jit(lambda start, tasks: jax.lax.scan(step, start, tasks)[0])
  logged = scan(weighting.init_logged(state, strata=2), drawn)
  sums = jax.jit(confounding.logged_sums)(
    jnp.asarray(counts), jnp.asarray(whole), jnp.asarray(table)
  )
  np.testing.assert_allclose(sums, logged.live, rtol=1e-4)
  assert (np.asarray(sums)[7:, 0] == 0).all()  # easy tasks say nothing of the specialists


def test_estimates_by_the_textbook(tasks):
  """IPS, MW and the counts of hard tasks in plain Python."""
  _, counts, whole, table = tasks
  given = [jnp.asarray(x) for x in (counts, whole, table)]
  found = dict(zip(confounding.ESTIMATORS, np.asarray(jax.jit(confounding.estimate)(*given)).T))
  assert set(found) == set(confounding.ESTIMATORS)
  np.testing.assert_allclose(found["MW"], counts[:, 0].sum(1) / counts.sum((1, 2)), rtol=1e-6)
  np.testing.assert_allclose(found["hard tasks"], counts[:, 0, 1] / counts[:, :, 1].sum(1))
  ips = counts[:7, 0].astype(float) / table[:7]  # generalists: both kinds are possible
  np.testing.assert_allclose(found["IPS"][:7], ips.sum(1) / 400, rtol=1e-5)
  ips = counts[7:, 0, 1] / table[7:, 1]  # specialists: hard tasks only
  np.testing.assert_allclose(found["IPS"][7:], ips / whole[:, 1].sum(), rtol=1e-5)


def test_precision_counts_the_truly_lowest():
  utility = jnp.arange(10, dtype=jnp.float32)
  assert confounding.lowest_precision(utility * 2, utility) == 1
  assert confounding.lowest_precision(-utility, utility) == 0
  swapped = utility.at[jnp.asarray([1, 8])].set(jnp.asarray([8.0, 1.0]))
  np.testing.assert_allclose(confounding.lowest_precision(swapped, utility), 0.8)


def test_the_effect_sees_through_the_confounding_and_worth_does_not(results):
  rho = results["confounding"].rho[0, :, -1].mean(0)
  by_name = dict(zip(confounding.ESTIMATORS, rho))
  assert by_name["MW"] < 0.3 < 0.6 < by_name["DR effect"]
  free = dict(zip(confounding.ESTIMATORS, results["confounding"].rho[2, :, -1].mean(0)))
  assert free["MW"] > by_name["MW"] + 0.3


# Feedback


def plain_feedback(key, condition, settings):
  """One condition by loops over Python floats: attained, breadth and worth by window."""
  key_start, key_windows = jax.random.split(key)
  size, top = settings.memories, settings.retrieved
  utility = np.asarray(jax.random.uniform(key_start, (size,))).tolist()
  counts, attained, breadth = [[0.0, 0.0] for _ in range(size)], [], []
  for index, key in enumerate(jax.random.split(key_windows, settings.windows)):
    if condition.flips and index == settings.windows // 2:
      utility = [1 - use for use in utility]
    uses, gained = [0] * size, 0.0
    for row in np.asarray(
      jax.vmap(lambda key: jax.random.uniform(key, (2 * size + 2,)))(
        jax.random.split(key, settings.window)
      )
    ).tolist():
      noise, walk, (explore, luck) = row[:size], row[size : 2 * size], row[2 * size :]
      worths = [s / (s + f) if s + f else 0.5 for s, f in counts]
      scores = [worth + 1e-4 * tie for worth, tie in zip(worths, noise)]
      scores = noise if explore < condition.exploration else scores
      slots = sorted(range(size), key=lambda slot: -scores[slot])[:top]
      chance = sum(utility[slot] for slot in slots) / top
      best, middle = sum(sorted(utility)[-top:]) / top, sum(utility) / size
      gained += (chance - middle) / (best - middle)
      counts = [[s * condition.kept, f * condition.kept] for s, f in counts]
      for slot in slots:
        counts[slot][0 if luck < chance else 1] += 1
        uses[slot] += 1
      moved = [use + condition.step * (2 * at - 1) for use, at in zip(utility, walk)]
      utility = [-use if use < 0 else 2 - use if use > 1 else use for use in moved]
    attained.append(gained / settings.window)
    shares = [use / sum(uses) for use in uses if use]
    breadth.append(math.exp(-sum(share * math.log(share) for share in shares)))
  return attained, breadth


@pytest.mark.parametrize("name", [("flip", 60.0, 0.2), ("drift", math.inf, 0.0)])
def test_feedback_equals_loops(results, name):
  found, settings = results["feedback"], SETTINGS.feedback
  place = found.conditions.index(name)
  change, half_life, exploration = name
  condition = feedback.Condition(
    flips=change == "flip",
    step=settings.step * (change == "drift"),
    kept=2.0 ** (-1.0 / half_life),
    exploration=exploration,
  )
  attained, breadth = plain_feedback(make_keys(SEEDS)[1], condition, settings)
  np.testing.assert_allclose(found.attained[1, place], attained, atol=2e-4)
  np.testing.assert_allclose(found.breadth[1, place], breadth, rtol=1e-4)


def test_fading_and_exploring_recover_from_a_flip(results):
  found = results["feedback"]
  at = {name: found.attained[:, place].mean(0) for place, name in enumerate(found.conditions)}
  stuck, free = at["flip", math.inf, 0.0], at["flip", 60.0, 0.2]
  assert stuck[1] > 0 > stuck[2] and free[1] > 0 > free[2]  # good before, harmful after
  assert free[3] > stuck[3]
  np.testing.assert_allclose(at["still", math.inf, 0.0][:2], stuck[:2], rtol=1e-6)
  assert (found.breadth >= 3 - 1e-3).all() and (found.breadth <= 20 + 1e-3).all()


# Attack


def test_attackers_recall_the_victim_and_fail():
  settings = SETTINGS.attack
  key, share, attackers = make_keys([5])[0], jnp.float32(0.4), jnp.int32(2)
  draw = jax.jit(attack.draw_episodes, static_argnums=3)
  utility, drawn = draw(key, share, attackers, settings)
  slots, reader, outcome = (np.asarray(part) for part in drawn)
  attacks = reader < 2
  assert abs(attacks.mean() - 0.4) < 0.05 and set(reader) == set(range(settings.readers))
  assert (slots[attacks] == attack.VICTIM).sum(1).tolist() == [1] * attacks.sum()
  assert all(len(set(row)) == 3 for row in slots.tolist())
  assert (outcome[attacks] == Outcome.SUCCESS).mean() < 0.06
  assert abs((outcome[~attacks] == Outcome.SUCCESS).mean() - np.mean(utility)) < 0.08
  table = np.asarray(attack.propensities(attackers, settings))
  np.testing.assert_allclose(table.sum(0), 3.0, rtol=1e-5)
  assert (table[attack.VICTIM, :2] == 1).all()
  for reader_number in (0, 7):  # the logged chances are those of the draws
    rows = slots[reader == reader_number]
    seen = np.bincount(rows.ravel(), minlength=12) / len(rows)
    np.testing.assert_allclose(seen, table[:, reader_number], atol=0.12)


def test_quota_keeps_ratios_and_caps_evidence():
  counts = jnp.asarray([[[30.0, 10.0, 4.0], [3.0, 1.0, 0.0], [0.0, 0.0, 0.0]]])
  limited = np.asarray(attack.limit_readers(counts, 20.0))[0]
  np.testing.assert_allclose(limited, [[15.0, 5.0, 2.0], [3.0, 1.0, 0.0], [0.0, 0.0, 0.0]])


def test_attack_sinks_worth_but_not_the_effect(results):
  found = results["attack"]
  assert found.conditions == [(0.0, 1), (0.3, 1), (0.3, 4)]  # no attack needs no attackers
  victim = dict(zip(attack.VIEWS, found.victim.mean(0).T))
  assert victim["MW"][1] < victim["MW"][0] - 0.3
  assert abs(victim["DR effect"][1] - victim["DR effect"][0]) < 0.05
  assert victim["quota"][0] - 0.2 < victim["quota"][1]  # one attacker is held ...
  assert victim["quota"][2] < victim["quota"][1] - 0.1  # ... four are not
  demoted = dict(zip(attack.DEMOTIONS, found.demoted.mean(0).T))
  assert demoted["pooled"].tolist() == [0, 1, 1]
  assert not demoted["by reader"].any()


# Cold start


def test_rank_error_of_a_worked_example():
  error = cold_start.rank_error(
    newcomer=jnp.asarray([0.1, 0.45, 0.9]),
    worths=jnp.asarray([0.2, 0.4, 0.6, 0.8]),
    utility=jnp.float32(0.5),
    utilities=jnp.asarray([0.1, 0.3, 0.7, 0.9]),
  )
  np.testing.assert_allclose(error, [0.5, 0.0, 0.5])
  assert cold_start.limit_worth(jnp.float32(0.9), jnp.float32(0.3), 3) == pytest.approx(0.5)


def test_newcomers_are_judged_late_and_rightly(results):
  found = results["cold_start"]
  assert (found.verdict[:, :, 0] == Verdict.NOT_ENOUGH).all()
  assert (found.verdict[:, :, 1] == Verdict.NOT_ENOUGH).all()
  assert (found.verdict[:, 0, 2] != Verdict.ABOVE).all()  # utility 0.1
  assert (found.verdict[:, 2, 2] == Verdict.ABOVE).any()  # utility 0.9
  assert (np.diff(found.width, axis=2) < 0).all()
  settled = found.settled
  assert (np.isnan(settled) | (settled >= 1)).all()
  np.testing.assert_array_equal(np.isnan(settled), ~found.right[:, :, -1])
  assert SETTINGS.cold_start.episodes_a_retrieval == 7


# Lines and settings


def test_lines_name_every_figure_once_and_keep_the_seeds(results, monkeypatch):
  for name, module in (
    ("confounding", confounding),
    ("feedback", feedback),
    ("attack", attack),
    ("cold_start", cold_start),
  ):
    monkeypatch.setattr(module, "run", lambda settings, seeds, name=name: results[name])
  lines = studies.run(SETTINGS, SEEDS)
  assert {line.study for line in lines} == {"confounding", "feedback", "attack", "cold start"}
  assert len({line[:3] for line in lines}) == len(lines)
  assert all(line.values.shape == (4,) and line.values.dtype == np.float64 for line in lines)
  by_name = {line[:3]: line.values for line in lines}
  rho = by_name["confounding", "confounded, 6000 episodes", "rho, MW"]
  np.testing.assert_allclose(rho, results["confounding"].rho[0, :, 1, 0])
  flipped = "flip, half-life inf, exploration 0.2"
  place = results["feedback"].conditions.index(("flip", math.inf, 0.2))
  after = by_name["feedback", flipped, "attained, after half time"]
  np.testing.assert_allclose(after, results["feedback"].attained[:, place, 2])


@pytest.mark.parametrize(
  ("settings", "changes", "message"),
  [
    (SETTINGS.confounding, {"episodes": 7}, "multiple of checkpoints"),
    (SETTINGS.confounding, {"retrieved": 8}, "retrieved must be from 1"),
    (SETTINGS.confounding, {"easy_success": 1.5}, "easy_success must be from 0 to 1"),
    (SETTINGS.confounding, {"generalists": 3, "specialists": 1}, "at least 5 memories"),
    (SETTINGS.feedback, {"windows": 3}, "windows must be even"),
    (SETTINGS.feedback, {"retrieved": 20}, "retrieved must be from 1"),
    (SETTINGS.feedback, {"half_lives": (0.0,)}, "half_lives must be over 0"),
    (SETTINGS.feedback, {"explorations": (2.0,)}, "explorations must be from 0 to 1"),
    (SETTINGS.attack, {"attackers": (8,)}, "at least one honest reader"),
    (SETTINGS.attack, {"retrieved": 12}, "retrieved must be from 1"),
    (SETTINGS.attack, {"quota": 0.0}, "quota must be over 0"),
    (SETTINGS.attack, {"shares": (1.2,)}, "shares must be from 0 to 1"),
    (SETTINGS.cold_start, {"looks": (4, 1)}, "looks must be rising"),
    (SETTINGS.cold_start, {"utilities": ()}, "utilities must be from 0 to 1"),
    (SETTINGS.cold_start, {"tolerance": 0.0}, "tolerance and cold_start.bar"),
  ],
)
def test_bad_settings_are_refused(settings, changes, message):
  with pytest.raises(InputError, match=message):
    dataclasses.replace(settings, **changes)
