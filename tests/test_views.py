"""Memory views: what they show, that they know nothing of gold, and the way back."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from situations import random_decisions
from small_streams import random_stream, rows_of_pairs, texts_of, vectors_of

from tarl_jax.baselines.systems import SYSTEMS
from tarl_jax.baselines.views import (
  Seen,
  arrival_times,
  entry_leaves,
  highest,
  original_positions,
  seen_labels,
  show,
  view_split,
  visible,
)
from tarl_jax.data.dataset import Split
from tarl_jax.data.examples import featurize
from tarl_jax.data.moments import Capacities, stream_moments
from tarl_jax.data.record import Gold
from tarl_jax.evaluation.judging import Predictions, judge_split
from tarl_jax.inputs import Labels
from tarl_jax.types import Action, Status

VIEWS = {system.name: system.view for system in SYSTEMS if system.view is not None}
MIXES = ("MemAgent",)  # its slots are mixtures of entries
NO_LEDGERS = ("Full History", "MemAgent")
CHECK = settings(max_examples=12, derandomize=True, deadline=None)
SIZE = 6


def random_labels(seed: int, inputs) -> Labels:
  """Labels that fit the inputs: right targets among the entries, "none" where there is none."""
  rng = np.random.default_rng(seed)
  number = len(inputs.num_visible)
  held = np.arange(SIZE) < inputs.num_visible[:, None]
  right = (rng.random((number, SIZE)) < 0.3) & held
  usable = right.any(1)
  resolves = np.where(rng.random(number) < 0.5, rng.integers(0, SIZE, number), SIZE)
  resolves = np.where(resolves < inputs.num_visible, resolves, SIZE).astype(np.int32)
  return Labels(
    action=rng.integers(0, 5, number).astype(np.int32),
    target=np.where(usable, right.argmax(1), SIZE).astype(np.int32),
    targets=np.concatenate([right, ~usable[:, None]], axis=1),
    scope=np.full(number, -1, np.int32),
    reliability=np.full(number, np.nan, np.float32),
    entry_reliability=np.where(held, rng.random((number, SIZE)), np.nan).astype(np.float32),
    weight=(rng.random(number) < 0.8).astype(np.float32),
    resolves=resolves,
    outcome=np.where(resolves < SIZE, Status.REJECTED, Status.EMPTY).astype(np.int32),
  )


def predictions_at(position: np.ndarray, resolves: np.ndarray | None = None) -> Predictions:
  position = np.int32(position)
  return Predictions(
    action=np.zeros(len(position), np.int32),
    position=position,
    grounded=position,
    probabilities=None,
    resolves=resolves,
    outcome=None if resolves is None else np.full(len(position), Status.SUPERSEDED, np.int32),
  )


def test_show_by_hand():
  """Six positions, entries 0 to 2 Accepted, 3 and 4 Pending, 5 empty."""
  inputs, _ = random_decisions(3, 1)
  inputs = inputs._replace(num_accepted=np.int32([3]), num_visible=np.int32([5]))
  shown = np.array([[1, 0, 1, 1, 1, 1]], bool)
  rank = np.array([[9, 0, 4, 8, 1, 0]])
  plain, ranked = show(inputs, shown), show(inputs, shown, rank)
  log = show(inputs, shown, rank, one_ledger=True)
  assert plain.place.tolist() == [[0, 2, 3, 4, 6, 6]]
  assert ranked.place.tolist() == [[2, 0, 4, 3, 6, 6]]
  assert log.place.tolist() == [[4, 2, 3, 0, 6, 6]]
  counts = [(int(s.inputs.num_accepted[0]), int(s.inputs.num_visible[0])) for s in (plain, log)]
  assert counts == [(2, 4), (4, 4)]
  np.testing.assert_array_equal(log.inputs.time_signals[0, 3], inputs.time_signals[0, 0])
  assert not log.inputs.entries[0, 4:].any() and log.inputs.entries[0, :4].any()
  assert show(inputs, np.zeros_like(shown)).place.tolist() == [[6] * 6]


def test_highest_takes_ties_from_the_left_and_no_more_than_there_are():
  score = np.array([[0.5, 0.9, 0.5, 0.5, 2.0, 0.1]])
  among = np.array([[1, 1, 1, 1, 0, 0]], bool)
  assert highest(score, among, 3).tolist() == [[True, True, True, False, False, False]]
  assert highest(score, among, 6).tolist() == among.tolist()
  assert not highest(score, among, 0).any()


@pytest.mark.parametrize("name", VIEWS)
@CHECK
@given(seed=st.integers(0, 10_000))
def test_a_view_shows_entries_as_they_are_and_nothing_else(name, seed):
  inputs, moments = random_decisions(seed, 8)
  seen = VIEWS[name](inputs, moments)
  assert seen.place.dtype == np.int32 and seen.place.shape == inputs.entries.shape[:2]
  for field, old, new in zip(inputs._fields, inputs, seen.inputs):
    assert new.dtype == old.dtype and new.shape == old.shape, field
  for field in ("candidate", "claim_signals", "source"):
    np.testing.assert_array_equal(getattr(seen.inputs, field), getattr(inputs, field))
  assert (seen.inputs.num_visible <= inputs.num_visible).all()
  assert (seen.inputs.num_accepted <= seen.inputs.num_visible).all()
  for e in range(8):
    count, accepted = int(seen.inputs.num_visible[e]), int(seen.inputs.num_accepted[e])
    places = seen.place[e, :count].tolist()
    assert len(set(places)) == count and max(places, default=-1) < inputs.num_visible[e]
    assert (seen.place[e, count:] == SIZE).all()
    if name in NO_LEDGERS:
      assert accepted == count
    else:
      assert [place < inputs.num_accepted[e] for place in places] == [
        v < accepted for v in range(count)
      ]
    for field, leaf in entry_leaves(seen.inputs).items():
      assert not leaf[e, count:].any(), field
      if name not in MIXES:
        np.testing.assert_array_equal(leaf[e, :count], getattr(inputs, field)[e, places])


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_knows_nothing_of_gold(name):
  """Every gold of candidates and entries is made up; the view stays the same."""
  inputs, moments = random_decisions(1, 20)
  gold = Gold(action=Action.REVISE, target="c1-0", reliability=0.1)
  told = [
    dataclasses.replace(
      m,
      candidate=dataclasses.replace(m.candidate, gold=gold),
      entries=tuple(dataclasses.replace(entry, gold=gold) for entry in m.entries),
      gold=gold,
      targets=(0,) if m.entries else (),
      resolves=len(m.entries) - 1 if m.entries else None,
    )
    for m in moments
  ]
  plain, knowing = VIEWS[name](inputs, moments), VIEWS[name](inputs, told)
  np.testing.assert_array_equal(plain.place, knowing.place)
  for one, other in zip(plain.inputs, knowing.inputs):
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_changes_nothing_in_place_and_takes_an_empty_memory(name):
  inputs, moments = random_decisions(2, 12)
  before = [leaf.copy() for leaf in inputs]
  VIEWS[name](inputs, moments)
  for old, new in zip(before, inputs):
    np.testing.assert_array_equal(old, new)
  empty = [dataclasses.replace(m, entries=(), slots=(), num_accepted=0) for m in moments]
  zeros = {field: np.zeros_like(leaf) for field, leaf in entry_leaves(inputs).items()}
  none = np.zeros(12, np.int32)
  nothing = inputs._replace(**zeros, num_accepted=none, num_visible=none)
  seen = VIEWS[name](nothing, empty)
  assert (seen.place == SIZE).all() and not seen.inputs.num_visible.any()


def test_arrival_times_are_those_of_the_entries():
  _, moments = random_decisions(5, 4)
  times = arrival_times(moments, SIZE)
  for e, moment in enumerate(moments):
    for v in range(SIZE):
      known = v < len(moment.entries) and moment.entries[v].observed_at is not None
      assert times[e, v] == (moment.entries[v].observed_at if known else -np.inf)


def plain_labels(labels: Labels, place: np.ndarray, e: int) -> dict:
  """What `seen_labels` must give for one example, in plain Python."""
  new = {int(old): v for v, old in enumerate(place[e]) if old < SIZE}
  right = {new[old] for old in np.flatnonzero(labels.targets[e, :-1]) if old in new}
  target = new.get(int(labels.target[e]), min(right, default=SIZE))
  lost = labels.target[e] < SIZE and not right
  resolves = new.get(int(labels.resolves[e]), SIZE)
  return {
    "target": target,
    "targets": right or {SIZE},
    "weight": 0.0 if lost else float(labels.weight[e]),
    "resolves": resolves,
    "outcome": int(labels.outcome[e]) if resolves < SIZE else int(Status.EMPTY),
    "entry_reliability": {v: float(labels.entry_reliability[e, old]) for old, v in new.items()},
  }


@CHECK
@given(seed=st.integers(0, 10_000))
def test_labels_follow_what_is_shown(seed):
  inputs, _ = random_decisions(seed, 8)
  rng = np.random.default_rng([seed, 1])
  labels = random_labels(seed, inputs)
  seen = show(inputs, rng.random((8, SIZE)) < 0.5, rng.random((8, SIZE)))
  found = seen_labels(labels, seen)
  for one, other in zip(labels, found):
    assert one.dtype == other.dtype and one.shape == other.shape
  for e in range(8):
    shown = int(seen.inputs.num_visible[e])
    trust = found.entry_reliability[e]
    assert np.isnan(trust[shown:]).all()
    assert plain_labels(labels, seen.place, e) == {
      "target": found.target[e],
      "targets": set(np.flatnonzero(found.targets[e]).tolist()),
      "weight": found.weight[e],
      "resolves": found.resolves[e],
      "outcome": found.outcome[e],
      "entry_reliability": {v: float(trust[v]) for v in range(shown)},
    }


def test_labels_stay_where_everything_is_shown_as_it_was():
  inputs, _ = random_decisions(7, 8)
  labels = random_labels(7, inputs)
  for one, other in zip(labels, seen_labels(labels, show(inputs, visible(inputs)))):
    np.testing.assert_array_equal(one, other)


@CHECK
@given(seed=st.integers(0, 10_000))
def test_there_and_back_is_where_it_was(seed):
  """What a label points at, told by its new position, goes back to its old one."""
  inputs, _ = random_decisions(seed, 8)
  rng = np.random.default_rng([seed, 1])
  labels = random_labels(seed, inputs)
  seen = show(inputs, rng.random((8, SIZE)) < 0.7, rng.random((8, SIZE)), one_ledger=True)
  found = seen_labels(labels, seen)
  back = original_positions(predictions_at(found.target, found.resolves), seen)
  shown = {(e, int(v)) for e in range(8) for v in seen.place[e]}
  for e in range(8):
    if (e, int(labels.target[e])) in shown or labels.target[e] == SIZE:
      assert back.position[e] == labels.target[e]
    assert back.position[e] == SIZE or labels.targets[e, back.position[e]]
    kept = (e, int(labels.resolves[e])) in shown
    assert back.resolves[e] == (labels.resolves[e] if kept else SIZE)
  np.testing.assert_array_equal(back.grounded, back.position)
  assert original_positions(predictions_at(np.zeros(8)), seen).resolves is None


def small_split() -> Split:
  whole = random_stream(4, 40)
  texts = texts_of(whole)
  moments = stream_moments([whole], vectors_of(whole), Capacities(32, 32, 32), SIZE)
  inputs, labels = featurize(moments, texts, SIZE, rows_of_pairs)
  return Split([whole], moments, np.ones(len(moments), bool), inputs, labels)


def hides_everything(inputs, moments) -> Seen:
  del moments
  return show(inputs, np.zeros(inputs.entries.shape[:2], bool))


def backwards(inputs, moments) -> Seen:
  del moments
  rank = np.broadcast_to(-np.arange(SIZE), inputs.entries.shape[:2])
  return show(inputs, visible(inputs), rank, one_ledger=True)


def test_a_hidden_target_is_judged_wrong_and_one_in_sight_right():
  """The seen gold, told back: right everywhere in a log that runs backwards, and wrong where
  a target was needed and hidden."""
  split = small_split()
  verdicts = []
  for view in (backwards, hides_everything):
    through, seen = view_split(split, view)
    assert through.moments is split.moments and through.streams is split.streams
    labels = through.labels
    gold = Predictions(
      labels.action, labels.target, labels.target, None, labels.resolves, labels.outcome
    )
    verdict = judge_split(split, original_positions(gold, seen), Capacities(32, 32, 32))
    verdicts.append(np.asarray(verdict.strict))
  in_sight = split.labels.weight > 0
  settles = np.array([m.gold.resolves is not None for m in split.moments])
  needs = np.isin(split.labels.action, (Action.REVISE, Action.REJECT_CONFLICT))
  needs |= (split.labels.action == Action.DEFER_VERIFY) & (split.labels.target < SIZE)
  assert verdicts[0][in_sight & ~settles].all()
  assert (in_sight & needs).sum() > 5 and not verdicts[1][needs & ~settles & in_sight].any()
  assert verdicts[1][~needs & ~settles & in_sight].all()
