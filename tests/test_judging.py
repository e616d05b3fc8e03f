"""Whole splits judged on the device against a walk over plain lists, and the table's numbers."""

import copy
import math

import numpy as np
import oracle
import pytest
import sklearn.metrics
from small_streams import claim, random_stream, rows_of_pairs, stream, texts_of

from tarl_jax.data.dataset import Split
from tarl_jax.data.examples import featurize
from tarl_jax.data.moments import Capacities, stream_moments
from tarl_jax.evaluation import scores
from tarl_jax.evaluation.judging import Predictions, judge_split
from tarl_jax.metrics import Verdict
from tarl_jax.types import NUM_ACTIONS, OUTCOMES, Action, Status

V = 4
SIZE = 40
CAPACITIES = Capacities(accepted=SIZE, pending=SIZE, history=SIZE)


def split_of(*streams) -> Split:
  texts = texts_of(*streams)
  moments = stream_moments(streams, texts.vectors(), CAPACITIES, V)
  inputs, labels = featurize(moments, texts, V, rows_of_pairs)
  counts = np.ones(len(moments), bool)
  return Split(list(streams), moments, counts, inputs, labels)


@pytest.fixture(scope="module")
def split() -> Split:
  return split_of(*[random_stream(seed, 25 + seed, f"s{seed}_") for seed in range(4)])


def random_predictions(split: Split, seed: int) -> Predictions:
  """Half of the actions and positions are the gold ones, the others anything."""
  rng = np.random.default_rng(seed)
  number = len(split.moments)
  probabilities = rng.dirichlet(np.ones(NUM_ACTIONS), number).astype(np.float32)
  keep = rng.random((2, number)) < 0.6
  action = np.where(keep[0], split.labels.action, rng.integers(0, NUM_ACTIONS, number))
  position = np.where(keep[1], split.labels.target, rng.integers(0, V + 1, number))
  visible = split.inputs.num_visible
  position = np.where(position < visible, position, V)
  # Mostly what gold settles, also Accepted entries and beside actions that settle nothing.
  gold = rng.random(number) < 0.85
  resolves = np.where(gold, split.labels.resolves, rng.integers(0, V + 1, number))
  outcome = np.where(gold, split.labels.outcome, rng.choice(list(OUTCOMES.values()), number))
  return Predictions(
    action=action.astype(np.int32),
    position=position.astype(np.int32),
    grounded=rng.integers(0, V + 1, number).astype(np.int32),
    probabilities=probabilities,
    resolves=resolves.astype(np.int32),
    outcome=outcome.astype(np.int32),
  )


def right_predictions(split: Split) -> Predictions:
  return Predictions(
    action=split.labels.action,
    position=split.labels.target,
    grounded=split.labels.target,
    probabilities=None,
    resolves=split.labels.resolves,
    outcome=split.labels.outcome,
  )


class Walk:
  """The gold path of one stream in plain lists, and verdicts along it."""

  def __init__(self, whole):
    self.claims = whole.claims
    self.number = {one.id: i for i, one in enumerate(whole.claims)}
    self.memory = oracle.OracleMemory(SIZE, SIZE, SIZE, len(whole.claims))

  def slot(self, name: str | None) -> int:
    held = [row[0] for row in self.memory.accepted.slots]
    return held.index(self.number[name]) if name and self.number[name] in held else SIZE

  def settling(self, gold) -> tuple[int, int]:
    if gold.resolves is None:
      return SIZE, oracle.EMPTY
    held = [row[0] for row in self.memory.pending.slots]
    return held.index(self.number[gold.resolves]), int(OUTCOMES[gold.outcome])

  def after(self, action: int, slot: int, step: int, settling: tuple) -> tuple[bool, dict]:
    memory = copy.deepcopy(self.memory)
    invalid, overflow, _, unsettled, _ = memory.transact(action, slot, step, step, *settling)
    refused = invalid or overflow != oracle.LEDGER_NONE
    return refused or unsettled, memory.location_map()

  def judge(self, step: int, action: int, slot: int, settling: tuple) -> Verdict:
    gold = self.claims[step].gold
    right = self.settling(gold)
    refused, places = self.after(action, slot, step, settling)
    equal = []
    for name in (gold.target, *gold.alt_targets):
      gold_slot = self.slot(name)
      gold_refused, gold_places = self.after(gold.action, gold_slot, step, right)
      equal.append(not refused and not gold_refused and places == gold_places)
    conflict = gold.action == Action.REJECT_CONFLICT
    outside = gold.action not in (Action.APPEND, Action.REVISE)
    here = places.get(step, (oracle.LEDGER_NONE, oracle.EMPTY))
    trusted = places[self.number[gold.target]][0] if conflict else None
    verdict = Verdict(
      strict=equal[0],
      setwise=any(equal),
      outside=outside,
      polluted=outside and here[0] == oracle.LEDGER_ACCEPTED,
      conflict=conflict,
      preserved=conflict and trusted == oracle.LEDGER_ACCEPTED and here[1] == oracle.REJECTED,
      refused=refused,
    )
    report = self.memory.transact(gold.action, self.slot(gold.target), step, step, *right)
    assert not report[0] and not report[3]
    return verdict


@pytest.mark.parametrize("seed", range(5))
def test_verdicts_equal_a_walk_over_plain_lists(split, seed):
  predictions = random_predictions(split, seed)
  found = judge_split(split, predictions, CAPACITIES)
  walks = [Walk(whole) for whole in split.streams]
  for row, moment in enumerate(split.moments):
    position = predictions.position[row]
    slot = moment.slots[position] if position < moment.num_accepted else SIZE
    waits = predictions.resolves[row]
    in_pending = moment.num_accepted <= waits < len(moment.entries)
    settling = (moment.slots[waits] if in_pending else SIZE, int(predictions.outcome[row]))
    action = int(predictions.action[row])
    expected = walks[moment.stream].judge(moment.step, action, slot, settling)
    assert [bool(leaf[row]) for leaf in found] == list(expected), row
  # Nothing above is trivially true or false.
  for name, leaf in found._asdict().items():
    assert 0 < leaf.sum() < len(leaf), name
  assert (found.setwise & ~found.strict).any()


def test_the_gold_transactions_are_right_where_the_target_is_in_sight(split):
  found = judge_split(split, right_predictions(split), CAPACITIES)
  firm = np.zeros(len(split.moments), bool)
  for row, moment in enumerate(split.moments):
    target = moment.gold.target
    firm[row] = target is None or target in [moment.entries[v].id for v in moment.targets]
    firm[row] &= moment.gold.resolves is None or moment.resolves is not None
  assert found.strict[firm].all() and 60 < firm.sum() < len(firm)
  assert found.setwise[found.strict].all()


def test_streams_are_judged_apart_from_each_other(split):
  found = judge_split(split, right_predictions(split), CAPACITIES)
  for index in (3, 1):
    rows = [row for row, moment in enumerate(split.moments) if moment.stream == index]
    alone = split_of(split.streams[index])
    verdict = judge_split(alone, right_predictions(alone), CAPACITIES)
    for left, right in zip(found, verdict):
      np.testing.assert_array_equal(left[rows], right)


def test_an_entry_that_is_pending_is_no_target():
  """Position 0 is in Pending, where it has slot 0, as the accepted entry has in Accepted."""
  whole = stream(
    claim("the well is deep", Action.APPEND),
    claim("the well may be dry", Action.DEFER_VERIFY, "the well is deep"),
    claim("the well is dry", Action.REVISE, "the well is deep"),
  )
  split = split_of(whole)
  moment = split.moments[2]
  assert moment.num_accepted == 1 and moment.slots == (0, 0)
  predictions = right_predictions(split)
  assert judge_split(split, predictions, CAPACITIES).strict.all()
  predictions.position[2] = 1
  verdict = judge_split(split, predictions, CAPACITIES)
  assert verdict.strict.tolist() == [True, True, False] and verdict.refused[2]


@pytest.mark.parametrize("wrong", ["missed", "other outcome", "another", "without its gold"])
def test_a_settling_counts_in_the_next_state_and_nowhere_else(wrong):
  whole = stream(
    claim("the well may be dry", Action.DEFER_VERIFY),
    claim("the well may be salt", Action.DEFER_VERIFY),
    claim(
      "the well is dry", Action.APPEND, gold_resolves="the well may be dry",
      gold_outcome="confirmed",
    ),
    claim("the pump is new", Action.APPEND),
  )  # fmt: skip
  split = split_of(whole)
  predictions = right_predictions(split)
  right = int(predictions.resolves[2])
  assert split.moments[2].entries[right].id == "the well may be dry"
  assert judge_split(split, predictions, CAPACITIES).strict.all()
  row = 3 if wrong == "without its gold" else 2
  if wrong == "missed":
    predictions = predictions._replace(resolves=None, outcome=None)
  elif wrong == "other outcome":
    predictions.outcome[2] = Status.REJECTED
  elif wrong == "another":
    predictions.resolves[2] = 1 - right
  else:  # "the well may be salt" is the one entry of Pending that is left
    (left,) = [v for v, e in enumerate(split.moments[3].entries) if e.id == "the well may be salt"]
    predictions.resolves[3], predictions.outcome[3] = left, Status.SUPERSEDED
  verdict = judge_split(split, predictions, CAPACITIES)
  assert verdict.strict.tolist() == [number != row for number in range(4)]
  assert not verdict.refused.any()


# The table.


@pytest.mark.parametrize("seed", range(3))
def test_scores_equal_loops_and_scikit_learn(split, seed):
  predictions = random_predictions(split, seed)
  verdict = judge_split(split, predictions, CAPACITIES)
  part = np.random.default_rng(seed).random(len(split.moments)) < 0.7
  found = scores.score(split, predictions, verdict, part)
  rows = np.flatnonzero(part).tolist()
  gold, predicted = split.labels.action[part], predictions.action[part]
  f1 = sklearn.metrics.f1_score(gold, predicted, labels=range(5), average=None)
  assert found["macro_f1"] == pytest.approx(f1.mean())
  assert [found[f"f1_{action.label}"] for action in Action] == pytest.approx(list(f1))

  def share(hits, among) -> float:
    return sum(map(bool, hits)) / sum(map(bool, among))

  assert found["next_state"] == pytest.approx(share(verdict.strict[part], part[part]))
  assert found["next_state_setwise"] == pytest.approx(share(verdict.setwise[part], part[part]))
  assert found["pollution"] == pytest.approx(share(verdict.polluted[part], verdict.outside[part]))
  assert found["conflict_preservation"] == pytest.approx(
    share(verdict.preserved[part], verdict.conflict[part])
  )
  with_target = [row for row in rows if split.moments[row].gold.target is not None]
  right = {row: right_positions(split.moments[row]) for row in with_target}
  hits = [predictions.grounded[row] in right[row] for row in with_target]
  assert found["target_accuracy"] == pytest.approx(sum(hits) / len(hits))
  out = [row for row in with_target if not right[row]]
  assert (found["out_of_sight"], found["examples"]) == (len(out), len(rows))
  assert found["refused"] == verdict.refused[part].sum()
  p = predictions.probabilities[part].astype(np.float64)
  assert found["brier"] == pytest.approx(np.mean(((p - np.eye(5)[gold]) ** 2).sum(1)), rel=1e-5)
  log_loss = sklearn.metrics.log_loss(gold, p / p.sum(1, keepdims=True), labels=range(5))
  assert found["nll"] == pytest.approx(log_loss, rel=1e-4)
  chosen = p[np.arange(len(p)), predicted]
  bins = np.clip(np.ceil(chosen * 15) - 1, 0, 14)
  gaps = [
    abs(np.sum(chosen[bins == b]) - np.sum((predicted == gold)[bins == b])) for b in range(15)
  ]
  assert found["ece"] == pytest.approx(sum(gaps) / len(rows), abs=1e-5)


def right_positions(moment) -> list[int]:
  """Visible right targets; a revise or reject_conflict can only bind to an Accepted one."""
  binds = moment.gold.action in (Action.REVISE, Action.REJECT_CONFLICT)
  return [v for v in moment.targets if not binds or v < moment.num_accepted]


def test_temporal_f1_looks_at_temporal_examples_only():
  whole = stream(
    claim("a", Action.APPEND),
    claim("b", Action.NOOP, "a", gold_temporal=True),
    claim("c", Action.APPEND, gold_temporal=True),
    claim("d", Action.NOOP),
  )
  split = split_of(whole)
  predictions = right_predictions(split)._replace(action=np.int32([0, 1, 1, 0]))
  verdict = judge_split(split, predictions, CAPACITIES)
  found = scores.score(split, predictions, verdict, np.ones(4, bool))
  assert found["temporal_macro_f1"] == pytest.approx((2 / 3 + 0) / 2)
  assert found["macro_f1"] == pytest.approx((0.5 + 0.5) / 2)


def test_what_is_undefined_is_nan_and_never_a_number(split):
  predictions = right_predictions(split)
  verdict = judge_split(split, predictions, CAPACITIES)
  found = scores.score(split, predictions, verdict, np.zeros(len(split.moments), bool))
  assert all(math.isnan(found[name]) for name in scores.METRICS)
  assert found["examples"] == 0
  everything = scores.score(split, predictions, verdict, np.ones(len(split.moments), bool))
  assert [name for name in scores.METRICS if math.isnan(everything[name])] == [
    "temporal_macro_f1", "ece", "brier", "nll",
  ]  # fmt: skip


def test_parts_divide_the_split_by_source_and_by_provenance():
  one = stream(
    claim("a", Action.APPEND, gold_provenance="annotated"),
    claim("b", Action.APPEND, gold_provenance="constructed"),
    source="first",
  )
  two = stream(claim("c", Action.APPEND, gold_provenance="derived"), name="t", source="second")
  found = scores.parts(split_of(one, two))
  assert {name: part.tolist() for name, part in found.items()} == {
    "all": [True, True, True],
    "annotated+derived": [True, False, True],
    "source: first": [True, True, False],
    "source: second": [False, False, True],
    "provenance: annotated": [True, False, False],
    "provenance: constructed": [False, True, False],
    "provenance: derived": [False, False, True],
  }
  assert "annotated+derived" not in scores.parts(split_of(stream(claim("a", Action.APPEND))))


def test_runs_are_summed_up_with_the_sample_deviation():
  found = scores.summarize([{"x": 1.0, "y": 5.0}, {"x": 2.0, "y": 5.0}, {"x": 6.0, "y": 5.0}])
  assert found["x"] == {"mean": 3.0, "sd": pytest.approx(math.sqrt(7)), "n": 3}
  assert found["y"] == {"mean": 5.0, "sd": 0.0, "n": 3}
  assert scores.summarize([{"x": 1.5}])["x"] == {"mean": 1.5, "sd": 0.0, "n": 1}
