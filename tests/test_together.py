"""Worth and TARL together: questions by hand, and whole rollouts beside plain Python."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_streams import claim, stream

from tarl_jax import estimators
from tarl_jax.data.generated import generate
from tarl_jax.data.moments import Capacities, initial_state
from tarl_jax.errors import InputError
from tarl_jax.experiments import queries, together, together_study
from tarl_jax.experiments.queries import NEVER, NOTHING
from tarl_jax.experiments.together import Given, Mode, Use
from tarl_jax.experiments.together_study import MODES, TogetherSettings
from tarl_jax.governance_plan import Settings
from tarl_jax.models.hashed import HashedEncoder
from tarl_jax.policy_rollout import Carry, make_rollout
from tarl_jax.tracking import track
from tarl_jax.types import NO_CLAIM, Action, Status
from tarl_jax.worth import Outcome

NUMBER, ASKED = 40, 5
RULES = Settings(low=0.5, high=0.5, confidence=0.7, min_evidence=1.0, expiries=0)
# Nothing is left to chance, so that plain Python can do the same.
SURE = Use(candidates=4, floor=0.0, unknown=0.0, flipped=0.0, half_life=15.0, governance=RULES)
SETTINGS = TogetherSettings(
  claims=NUMBER, split="train", mistakes=(0.3, 1.0), questions=ASKED, near=16, use=SURE
)

PETS = stream(
  claim("cat", Action.APPEND),
  claim("dog", Action.REVISE, "cat"),
  claim("hello", Action.NOOP, gold_scope="none"),
  claim("bus", Action.DEFER_VERIFY),
  claim("hound", Action.NOOP, "dog"),
  claim("bus again", Action.APPEND, gold_resolves="bus", gold_outcome="confirmed"),
  claim("horse", Action.REJECT_CONFLICT, "dog"),
  claim("puss", Action.REVISE, "dog", text="cat"),
)


def test_facts_by_hand():
  facts = queries.read_facts(PETS)
  assert facts.topic.tolist() == [0, 0, 2, 3, 0, 3, 0, 0]
  assert facts.saying.tolist() == [0, 1, 2, 3, 1, 3, 6, 0]  # the hound is the dog, cat is cat
  assert facts.since.tolist() == [0, 1, NEVER, NEVER, NEVER, 5, NEVER, 7]
  assert facts.until.tolist() == [1, 7, *[NEVER] * 6]


def test_facts_need_gold():
  with pytest.raises(InputError, match="claim 'x' has no gold"):
    queries.read_facts(stream(claim("x")))


def test_questions_by_hand():
  facts = queries.read_facts(PETS)
  asked = queries.draw_questions(3, PETS, facts, 50)
  held = [0, 1, 1, 1, 1, 1, 1, 0]  # what gold says of the pet after each step
  for step in range(8):
    told = {one for one in range(step + 1) if one != 2}
    assert set(asked.anchor[step].tolist()) == told
    for anchor, right in zip(asked.anchor[step], asked.right[step], strict=True):
      bus = 3 if step >= 5 else NOTHING
      assert right == (bus if facts.topic[anchor] == 3 else held[step])


def test_nothing_is_asked_before_anything_is_told():
  late = stream(claim("hello", Action.NOOP, gold_scope="none"), claim("cat", Action.APPEND))
  asked = queries.draw_questions(0, late, queries.read_facts(late), 3)
  assert asked.anchor.tolist() == [[NO_CLAIM] * 3, [1] * 3]
  assert asked.right.tolist() == [[NOTHING] * 3, [1] * 3]


def test_question_texts_leave_words_out_but_not_all():
  (told,) = generate(0, 1, 60, "train")
  for one, text in zip(told.claims, queries.question_texts(5, told, 0.3), strict=True):
    words = iter(one.text.split())
    assert text and all(word in words for word in text.split())  # a subsequence
  texts = [one.text for one in told.claims]
  assert queries.question_texts(5, told, 0.0) == [" ".join(text.split()) for text in texts]
  assert queries.question_texts(5, told, 1.0) == queries.question_texts(5, told, 0.0)
  assert queries.question_texts(5, told, 0.3) != queries.question_texts(6, told, 0.3)


def test_near_is_sorted_and_padded():
  texts = ["red cat", "blue bus", "cat"]
  near = queries.find_near(
    stream(*[claim(text, Action.APPEND) for text in texts]), texts, HashedEncoder(), 5
  )
  assert near.claim_id[:, :3].tolist() == [[0, 2, 1], [1, 0, 2], [2, 0, 1]]
  assert np.all(near.claim_id[:, 3:] == NO_CLAIM) and np.all(near.similarity[:, 3:] == -np.inf)
  assert np.all(np.diff(near.similarity[:, :3], axis=1) <= 0)


def test_reading_by_hand():
  facts = queries.read_facts(PETS)
  cases = [  # retrieved, about, right saying -> right?, asked back?
    ([1, 0], 0, 1, True, False),
    ([0, 1], 0, 1, False, False),  # the cat stands before the dog
    ([3, 4], 0, 1, True, False),  # the bus is off topic; the hound says dog
    ([3, NO_CLAIM], 0, 1, False, True),
    ([NO_CLAIM, NO_CLAIM], 3, NOTHING, True, True),  # rightly without an answer
    ([3, NO_CLAIM], 3, NOTHING, False, False),  # gold does not trust it yet
  ]
  for claims, anchor, right, *expected in cases:
    found = together.read(facts, jnp.array(claims, jnp.int32), jnp.int32(anchor), jnp.int32(right))
    assert [bool(one) for one in found] == expected, claims


def test_outcomes_come_in_the_shares_of_the_settings():
  use = Use(unknown=0.3, flipped=0.1)
  keys = jax.random.split(jax.random.key(0), 4000)
  tell = jax.jit(jax.vmap(together.report_outcome, in_axes=(0, None, None, None)), static_argnums=3)
  for is_right, share in ((True, 0.9), (False, 0.1)):
    told = np.asarray(tell(keys, jnp.bool_(is_right), jnp.bool_(False), use))
    assert abs(np.mean(told == Outcome.UNKNOWN) - 0.3) < 0.03
    graded = told[told != Outcome.UNKNOWN]
    assert set(graded.tolist()) == {Outcome.SUCCESS, Outcome.FAILURE}
    assert abs(np.mean(graded == Outcome.SUCCESS) - share) < 0.03
  assert np.all(tell(keys, jnp.bool_(True), jnp.bool_(True), use) == Outcome.NONE)


class Walk:
  """The whole rollout in plain Python: sets, dicts and loops over the near claims."""

  def __init__(self, setting, writer: int, steers: bool, governs: bool, use: Use):
    self.setting, self.steers, self.governs, self.use = setting, steers, governs, use
    self.rows = [tuple(int(f[writer, i]) for f in setting.transactions) for i in range(NUMBER)]
    self.accepted: set[int] = set()
    self.deprecated: set[int] = set()
    self.counts: dict[int, np.ndarray] = {}
    self.right = self.asked_back = self.wrong = self.refused = 0

  def write(self, row) -> None:
    action, target, claim_id, *_ = row
    if action in (Action.REVISE, Action.REJECT_CONFLICT) and target not in self.accepted:
      self.refused += 1
    elif action == Action.REVISE:
      self.accepted.remove(target)
    if action == Action.APPEND or (action == Action.REVISE and target in self.rows_of(row)):
      self.accepted.add(claim_id)
      self.counts[claim_id] = np.zeros(2)

  def rows_of(self, row) -> set[int]:
    """The target if this very revise has just taken it out."""
    return {row[1]} - self.accepted if row[1] not in self.deprecated else set()

  def hope(self, one: int) -> float:
    if not self.steers:
      return 0.5
    alpha, beta = self.counts[one] + 1
    mean, whole = alpha / (alpha + beta), alpha + beta
    spread = (alpha * beta / (whole * whole * (whole + 1))) ** 0.5
    return min(mean + self.use.optimism * spread, 1.0)

  def ask(self, anchor: int, right: int) -> None:
    near = self.setting.world.near
    pairs = zip(near.claim_id[anchor].tolist(), near.similarity[anchor].tolist(), strict=True)
    seen = [pair for pair in pairs if pair[0] in self.accepted][: self.use.candidates]
    seen.sort(key=lambda pair: (-(pair[1] + self.use.margin * self.hope(pair[0])), pair[0]))
    facts = self.setting.world.facts
    if not seen or facts.topic[seen[0][0]] != facts.topic[anchor]:
      self.asked_back += 1
      self.right += right == NOTHING
      return
    is_right = facts.saying[seen[0][0]] == right
    self.right += is_right
    self.counts[seen[0][0]][0 if is_right else 1] += 1

  def govern(self, step: int) -> None:
    rules, due = self.use.governance, []
    for one in self.accepted:
      success, failure = self.counts[one]
      if success + failure < rules.min_evidence or self.setting.world.protected[one]:
        continue
      if estimators.probability_below(success, failure, rules.low) >= rules.confidence:
        due.append(((success + 1) / (success + failure + 2), -one))
    if due and self.governs:
      one = -min(due)[1]
      facts = self.setting.world.facts
      self.wrong += bool(facts.since[one] <= step < facts.until[one])
      self.accepted.remove(one)
      self.deprecated.add(one)

  def walk(self) -> "Walk":
    for step, row in enumerate(self.rows):
      self.write(row)
      if step:
        for one in self.counts:
          self.counts[one] *= 0.5 ** (1 / self.use.half_life)
      questions = self.setting.questions
      for anchor, right in zip(questions.anchor[step], questions.right[step], strict=True):
        if anchor != NO_CLAIM:
          self.ask(int(anchor), int(right))
      self.govern(step)
    return self


@functools.cache
def prepared(seed: int):
  return together_study.prepare(SETTINGS, seed)


def _followed(key, world, questions, transactions, mode):
  """One rollout that reports the memory after every step, and its places built anew."""
  state = initial_state(Capacities(NUMBER, NUMBER, NUMBER), NUMBER)
  follow = together.make_after(world, mode, SURE)

  def after(memory, extra, event):
    memory, extra, _ = follow(memory, extra, event)
    return memory, extra, (memory, track(memory.state).where)

  claims, looks = together_study._no_features(NUMBER)
  run = make_rollout(together_study._as_given, 1, after)
  keys = jax.random.split(key, (NUMBER, ASKED))
  carry = Carry(track(state), together.start_extra(state))
  return run(None, claims, carry, looks, Given(transactions, questions, keys))


_BY_WRITER = jax.vmap(_followed, in_axes=(None, None, None, 0, None))
_BY_MODE = jax.jit(jax.vmap(_BY_WRITER, in_axes=(None, None, None, None, 0)))


@functools.cache
def followed(seed: int):
  """(carry, report) with leading [mode, writer]."""
  one = prepared(seed)
  modes = Mode(*(jnp.array(column) for column in zip(*MODES.values(), strict=True)))
  key = jax.random.key(seed)
  return jax.device_get(_BY_MODE(key, one.world, one.questions, one.transactions, modes))


@pytest.mark.parametrize("seed", range(3))
def test_a_rollout_goes_the_way_that_plain_python_goes(seed):
  carry, _ = followed(seed)
  for row, (steers, governs) in enumerate(MODES.values()):
    for writer in range(2):
      walk = Walk(prepared(seed), writer, steers, governs, SURE).walk()
      memory, extra, _ = jax.tree.map(lambda leaf: leaf[row, writer], (*carry, None))  # noqa: B023
      entries = memory.state.accepted.claim_id
      assert set(entries[entries != NO_CLAIM].tolist()) == walk.accepted
      found = np.flatnonzero(memory.where[:, 1] == Status.DEPRECATED)
      assert set(found.tolist()) == walk.deprecated
      tally = extra.tally
      assert (tally.right, tally.asked_back) == (walk.right, walk.asked_back)
      assert (tally.deprecated, tally.wrong) == (len(walk.deprecated), walk.wrong)
      assert tally.refused == walk.refused
      for slot, one in enumerate(entries[entries != NO_CLAIM].tolist()):
        live = extra.counters.live[slot, 0, : Outcome.UNKNOWN]
        np.testing.assert_allclose(live, walk.counts[one], rtol=1e-4, atol=1e-5)


def test_the_walks_above_deprecate_and_revise():
  for seed in range(3):
    carry, report = followed(seed)
    assert (
      np.all(carry.extra.tally.deprecated[2] > 2) and not carry.extra.tally.deprecated[:2].any()
    )
    revised = report.transaction.action[2, 0] == Action.REVISE
    assert np.sum(revised) > 3


@pytest.mark.parametrize("seed", range(3))
def test_the_place_of_every_claim_is_kept_up_to_date_through_governance(seed):
  memory, anew = followed(seed)[1].after
  np.testing.assert_array_equal(memory.where, anew)


def test_measures_and_figures_beside_plain_sets():
  measures = together_study.measure_all(SETTINGS, [1])
  carry, report = followed(1)
  facts = prepared(1).world.facts
  for tenth in range(10):
    step = (tenth + 1) * NUMBER // 10 - 1
    trusted = {i for i in range(NUMBER) if facts.since[i] <= step < facts.until[i]}
    said = {facts.saying[i] for i in trusted}
    for writer in range(2):
      for row in range(3):
        where = report.after[0].where[row, writer, step]
        held = set(np.flatnonzero(where[:, 0] == 0).tolist())
        at = jax.tree.map(lambda leaf: leaf[0, writer, row, tenth], measures)  # noqa: B023
        assert (at.accepted, at.polluted) == (len(held), len(held - trusted))
        assert at.stale == sum(facts.until[i] <= step for i in held)
        assert at.copies == sum(facts.saying[i] in said for i in held - trusted)
        gone = set(np.flatnonzero(where[:, 1] == Status.DEPRECATED).tolist())
        assert (at.lost, at.trusted) == (len(gone & trusted), len(trusted))
        assert at.ever_trusted == sum(since <= step for since in facts.since)
  last = jax.tree.map(lambda leaf: leaf[..., -1], measures.tally)
  np.testing.assert_array_equal(last.right[0].T, carry.extra.tally.right)
  told = together_study.run(SETTINGS, [1])
  assert all(values.shape == (1, 10) for values in told.values())
  name = "100% mistakes, worth counted only: "
  assert told[name + "pollution"][0, -1] == 1 - len(trusted) / NUMBER
  assert told[name + "entries"][0].tolist() == [4.0 * tenth for tenth in range(1, 11)]
  assert told[name + "right answers"][0] @ np.diff(
    measures.tally.asked[0, 1, 0], prepend=0
  ) == pytest.approx(last.right[0, 1, 0])


def test_writers_with_mistakes_append():
  one = prepared(0)
  some, full = (jax.tree.map(lambda leaf: leaf[i], one.transactions) for i in range(2))  # noqa: B023
  assert np.all(full.action == Action.APPEND) and np.all(full.target == NO_CLAIM)
  assert np.all(full.resolves == NO_CLAIM) and np.all(full.outcome == Status.EMPTY)
  assert 0 < np.sum(some.action != Action.APPEND) < NUMBER


@pytest.mark.parametrize(
  "change",
  [
    {"claims": 41},
    {"claims": 0},
    {"questions": 0},
    {"near": 0},
    {"near": 41},
    {"mistakes": ()},
    {"mistakes": (1.5,)},
    {"left_out": -0.1},
    {"protected": 2.0},
  ],
)
def test_bad_settings_are_named(change):
  with pytest.raises(InputError, match=f"together.{next(iter(change))}"):
    dataclasses.replace(SETTINGS, **change)
