"""Reference methods: the hand rule on a table of situations, Write/Hold, majority, the probe."""

import dataclasses
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from situations import entry, situation, stack
from small_policy import V, make_labels, random_inputs
from small_policy import sizes as small_sizes

from tarl_jax.baselines import probe as probe_module
from tarl_jax.baselines.probe import hide_memory, probe
from tarl_jax.baselines.rule import decide_by_rule, fit_thresholds
from tarl_jax.baselines.signals import Thresholds, similarity
from tarl_jax.baselines.simple import (
  is_write,
  majority,
  write_hold_heuristic,
  write_hold_plain,
)
from tarl_jax.config import Config, OptConfig
from tarl_jax.data.order import epoch_order
from tarl_jax.models.policy import Decision
from tarl_jax.types import NUM_ACTIONS, Action, Status

APPEND, NOOP, REVISE, REJECT, DEFER = (int(action) for action in Action)
NONE = V
SITUATIONS = {
  # With related = 0.5 and same = 0.8: the situation, the action, the entry it is about.
  "nothing known": (situation([]), APPEND, NONE),
  "nothing known, poor source": (situation([], trust=0.6), DEFER, NONE),
  "nothing known, hedged": (situation([], hedge=1), DEFER, NONE),
  "nothing known, by hearsay": (situation([], hearsay=1), DEFER, NONE),
  "unrelated": (situation([entry(0.45, newer=1)]), APPEND, NONE),
  "unrelated, poor source": (situation([entry(0.45)], trust=0.3), DEFER, NONE),
  "same": (situation([entry(0.85, newer=1)]), NOOP, 0),
  "same words, poor source": (situation([entry(0.85, older=1)], trust=0.2), NOOP, 0),
  "close but another number": (situation([entry(0.85, newer=1, numbers_differ=1)]), REVISE, 0),
  "close but another date": (situation([entry(0.85, newer=1, dates_differ=1)]), REVISE, 0),
  "close but negated": (situation([entry(0.85, newer=1, polarity_differs=1)]), REVISE, 0),
  "equal content": (situation([entry(0.55, content_equal=1)]), NOOP, 0),
  "equal text, other quotes": (situation([entry(0.9, text_equal=1, quotes_differ=1)]), NOOP, 0),
  "newer value": (situation([entry(0.6, newer=1)]), REVISE, 0),
  "order unknown": (situation([entry(0.6)]), DEFER, 0),
  "at the same time": (situation([entry(0.6, equal=1)]), DEFER, 0),
  "older value": (situation([entry(0.6, older=1)]), REJECT, 0),
  "over when told": (situation([entry(0.6, newer=1, candidate_is_over=1)]), REJECT, 0),
  "far less trusted": (situation([entry(0.6, trust=0.95, newer=1)], trust=0.66), REJECT, 0),
  "a little less trusted": (situation([entry(0.6, trust=0.85, newer=1)], trust=0.66), REVISE, 0),
  "newer, poor source": (situation([entry(0.6, trust=0.7, newer=1)], trust=0.6), DEFER, 0),
  "newer, hedged": (situation([entry(0.6, newer=1)], hedge=1), DEFER, 0),
  "owner differs": (situation([entry(0.9, owner_differs=1)]), APPEND, NONE),
  "surname differs": (situation([entry(0.9, surname_differs=1)]), APPEND, NONE),
  "owner of the source differs": (situation([entry(0.9, other_owner=1)]), APPEND, NONE),
  "subject differs": (situation([entry(0.9, other_subject=1)]), APPEND, NONE),
  "of the past": (situation([entry(0.6, older=1)], past=1), APPEND, 0),
  "of the past and the same": (situation([entry(0.9, older=1)], past=1), NOOP, 0),
  "of the past, poor source": (situation([entry(0.6, older=1)], trust=0.6, past=1), REJECT, 0),
  "a question": (situation([entry(0.6, newer=1)], question=1), NOOP, NONE),
  "filler": (situation([], filler=1), NOOP, NONE),
  "once only": (situation([], one_off=1), NOOP, NONE),
  "hypothetical": (situation([], trust=0.2, hypothetical=1), NOOP, NONE),
  "the closest counts": (
    situation([entry(0.55, older=1), entry(0.65, newer=1), entry(0.2)]), REVISE, 1,
  ),
  "the closest of another owner": (
    situation([entry(0.55, newer=1), entry(0.9, owner_differs=1)]), REVISE, 0,
  ),
  "Pending is not looked at": (situation([entry(0.95)], num_pending=1), APPEND, NONE),
  "Accepted before Pending": (
    situation([entry(0.6, newer=1), entry(0.95)], num_pending=1), REVISE, 0,
  ),
  "one of the two is close": (
    situation([entry(0.6, newer=1, idf_f1=0.2)]), APPEND, NONE,  # the mean is 0.4
  ),
}  # fmt: skip


def test_the_rule_decides_each_situation_as_by_hand():
  inputs = stack([inputs for inputs, _, _ in SITUATIONS.values()])
  found = decide_by_rule(inputs, Thresholds(related=0.5, same=0.8))
  decided = list(zip(found.action.tolist(), found.position.tolist()))
  expected = [(action, position) for _, action, position in SITUATIONS.values()]
  wrong = {n: (d, e) for n, d, e in zip(SITUATIONS, decided, expected) if d != e}
  assert not wrong
  np.testing.assert_array_equal(found.grounded, found.position)
  assert found.probabilities is None
  assert set(found.action.tolist()) == set(range(NUM_ACTIONS))


# The situation and the Pending entry that is confirmed, with the thresholds from above.
CONFIRMED = {
  "the same waits": (situation([entry(0.85)], num_pending=1), 0),
  "the same words wait": (situation([entry(0.55, content_equal=1)], num_pending=1), 0),
  "another number waits": (situation([entry(0.85, numbers_differ=1)], num_pending=1), NONE),
  "close, not the same": (situation([entry(0.7)], num_pending=1), NONE),
  "of somebody else": (situation([entry(0.95, owner_differs=1)], num_pending=1), NONE),
  "the closest": (situation([entry(0.85), entry(0.95), entry(0.9)], num_pending=3), 1),
  "beside a revise": (situation([entry(0.6, newer=1), entry(0.9)], num_pending=1), 1),
  "noop settles nothing": (situation([entry(0.9), entry(0.9)], num_pending=1), NONE),
  "defer settles nothing": (situation([entry(0.9)], trust=0.3, num_pending=1), NONE),
  "nothing waits": (situation([entry(0.6, newer=1)]), NONE),
}


def test_the_rule_confirms_what_waits_and_says_the_same():
  inputs = stack([inputs for inputs, _ in CONFIRMED.values()])
  found = decide_by_rule(inputs, Thresholds(related=0.5, same=0.8))
  wrong = {n: p for (n, (_, p)), f in zip(CONFIRMED.items(), found.resolves.tolist()) if f != p}
  assert not wrong
  expected = np.where(found.resolves < NONE, Status.SUPERSEDED, Status.EMPTY)
  np.testing.assert_array_equal(found.outcome, expected)
  labels = make_labels([APPEND] * len(inputs.source), [NONE] * len(inputs.source))
  plain = write_hold_plain(inputs, labels)
  assert plain.resolves is None and plain.outcome is None


def test_similarity_is_the_mean_of_two_and_minus_one_without_an_entry():
  inputs = stack([situation([entry(0.6, idf_f1=0.2), entry(0.9)], num_pending=1), situation([])])
  np.testing.assert_allclose(similarity(inputs), [[0.4, -1, -1, -1], [-1] * 4], rtol=1e-6)


def test_thresholds_are_found_that_divide_the_examples():
  """Related from 0.6 on and the same from 0.75 on, by what the gold actions say."""
  closeness = np.linspace(0.31, 1.0, 24)
  inputs = stack([situation([entry(close, newer=1)]) for close in closeness])
  gold = np.where(closeness < 0.6, APPEND, np.where(closeness < 0.75, REVISE, NOOP))
  found = fit_thresholds(inputs, make_labels(gold, [NONE] * len(gold)))
  np.testing.assert_array_equal(decide_by_rule(inputs, found).action, gold)
  assert found.related == pytest.approx(0.6) and found.same == pytest.approx(0.75)


def test_plain_write_hold_by_hand():
  gold = [APPEND, NOOP, REVISE, REJECT, DEFER]
  assert is_write(np.array(gold)).tolist() == [True, False, True, False, False]
  inputs = stack([situation([entry(0.9)])] * 5)
  found = write_hold_plain(inputs, make_labels(gold, [0] * 5))
  assert found.action.tolist() == [APPEND, NOOP, APPEND, NOOP, NOOP]
  assert found.position.tolist() == [NONE] * 5


def test_heuristic_write_hold_by_hand():
  rows = [
    # gold bit, closeness of the second entry (the first is far), action, position
    (APPEND, 0.3, APPEND, NONE),
    (APPEND, 0.6, REVISE, 1),
    (REVISE, 0.9, REVISE, 1),
    (REVISE, 0.3, APPEND, NONE),
    (REJECT, 0.6, REJECT, 1),
    (DEFER, 0.6, REJECT, 1),
    (NOOP, 0.9, NOOP, 1),
    (REJECT, 0.3, NOOP, NONE),
  ]
  inputs = stack([situation([entry(0.1), entry(close)]) for _, close, _, _ in rows])
  labels = make_labels([gold for gold, _, _, _ in rows], [NONE] * len(rows))
  found = write_hold_heuristic(inputs, labels, Thresholds(0.5, 0.8))
  decided = list(zip(found.action.tolist(), found.position.tolist()))
  assert decided == [(action, position) for _, _, action, position in rows]


def test_write_hold_sees_one_bit_of_gold_and_no_more():
  inputs = stack([situation([entry(close)]) for close in (0.3, 0.6, 0.9)] * 2)
  left = make_labels([APPEND] * 3 + [NOOP] * 3, [NONE] * 6)
  right = make_labels([REVISE] * 3 + [DEFER] * 3, [0] * 6)
  for method in (write_hold_plain, lambda x, y: write_hold_heuristic(x, y, Thresholds())):
    for one, other in zip(method(inputs, left)[:3], method(inputs, right)[:3]):
      np.testing.assert_array_equal(one, other)


def test_majority_by_hand():
  inputs = stack([situation([]), situation([entry(0.9)]), situation([])])
  found = majority(np.array([DEFER, NOOP, DEFER, APPEND]), inputs)
  assert found.action.tolist() == [DEFER] * 3 and found.position.tolist() == [NONE] * 3
  np.testing.assert_array_equal(found.probabilities, [[0.25, 0.25, 0, 0, 0.5]] * 3)


# The candidate-only probe.

TERMS = ("action", "target", "reliability", "scope", "relation", "counterfactual")


def test_the_probe_sees_the_text_and_nothing_else():
  """Two sets that differ in all but the texts look the same to it."""
  left = random_inputs(0, [1, 2, 0], [2, 4, 0])
  right = random_inputs(1, [3, 0, 4], [3, 4, 4])
  right = right._replace(candidate=left.candidate, claim_signals=left.claim_signals)
  shown = [hide_memory(x.candidate, x.claim_signals, small_sizes()) for x in (left, right)]
  for one, other in zip(*shown):
    np.testing.assert_array_equal(one, other)
  hidden = shown[0]._replace(candidate=np.zeros(1), claim_signals=np.zeros(1))
  for name, leaf in hidden._asdict().items():
    assert (leaf == (1 if name.startswith("num_") else 0)).all(), name
  np.testing.assert_array_equal(shown[0].candidate, left.candidate)
  np.testing.assert_array_equal(shown[0].claim_signals, left.claim_signals)
  for one, expected in zip(shown[0], small_sizes()):
    assert one.shape[0] == 3 and one.dtype == expected.dtype
    assert one.shape[-1:] == (expected.shape[-1:] or (3,))


def test_the_probe_trains_on_the_action_alone_for_its_own_steps(monkeypatch):
  """A stand-in for the learner takes down what it is given."""
  seen = SimpleNamespace(config=None, rows=[], labels=[], inputs=[])

  def step(state, inputs, labels, rows):
    seen.rows.append(np.asarray(rows)), seen.labels.append(labels), seen.inputs.append(inputs)
    return state, {}

  def make_learner(sizes, config):
    seen.config = config
    assert sizes.entries.shape == (1, 6)
    return SimpleNamespace(init=lambda key: SimpleNamespace(params=None, temperature=1), step=step)

  def predict_all(learner, params, temperature, inputs):
    action = np.where(inputs.candidate[:, 0] > 0, REVISE, APPEND).astype(np.int32)
    shares = np.eye(5, dtype=np.float32)[action]
    zeros = np.zeros_like(action)
    return None, Decision(action, zeros, shares, np.zeros(len(action)), zeros, zeros)

  monkeypatch.setattr(probe_module, "make_learner", make_learner)
  monkeypatch.setattr(probe_module, "predict_all", predict_all)
  config = dataclasses.replace(Config(), opt=OptConfig(batch_size=4, steps=99), probe_steps=3)
  inputs = random_inputs(0, [1] * 7, [2] * 7)
  train, test = (
    hide_memory(inputs.candidate[rows], inputs.claim_signals[rows], small_sizes())
    for rows in (slice(0, 5), slice(5, 7))
  )
  action = np.int32([REVISE, APPEND, NOOP, DEFER, REJECT])
  found = probe(config, 11, train, action, test)
  assert seen.config.opt.steps == 3 and seen.config.model == config.model
  weights = dataclasses.asdict(seen.config.loss)
  taught = {name for name in TERMS if weights[name]}
  assert taught == {"action"}
  expected = np.concatenate([epoch_order(11, epoch, 5) for epoch in range(3)])[:12]
  np.testing.assert_array_equal(np.concatenate(seen.rows), expected)
  assert [len(rows) for rows in seen.rows] == [4, 4, 4]
  np.testing.assert_array_equal(seen.labels[0].action, action)
  assert (np.asarray(seen.labels[0].weight) == 1).all()
  np.testing.assert_array_equal(seen.inputs[0].candidate, train.candidate)
  assert isinstance(seen.inputs[0].candidate, jnp.ndarray)
  np.testing.assert_array_equal(found.action == REVISE, test.candidate[:, 0] > 0)
  assert found.probabilities.shape == (2, NUM_ACTIONS)
