"""From moments to arrays: signals and labels by hand, and no input that knows the gold."""

import dataclasses
import datetime
import math

import chex
import numpy as np
import pytest
from small_streams import claim, random_stream, rows_of_pairs, stream, texts_of, with_gold

from tarl_jax.data import lexical
from tarl_jax.data.examples import (
  PAIR_SOURCE_SIGNALS,
  SOURCE_SIGNALS,
  TIME_SIGNALS,
  featurize,
  pair_source_signals,
  source_signals,
  time_signals,
)
from tarl_jax.data.jsonl import minutes
from tarl_jax.data.moments import Capacities, Moment, stream_moments
from tarl_jax.data.record import SCOPES, Claim, Gold
from tarl_jax.data.sources import ROLES, UNKNOWN_RELIABILITY
from tarl_jax.types import Action, Status

V = 4
CAPACITIES = Capacities(accepted=40, pending=40, history=40)


def day(number: int) -> int:
  return minutes(datetime.datetime(2026, 3, 1)) + 1440 * number


def at(observed: int | None = None, start: int | None = None, end: int | None = None) -> Claim:
  days = [None if value is None else day(value) for value in (observed, start, end)]
  return claim("x", observed_at=days[0], valid_from=days[1], valid_until=days[2])


def names_set(names: tuple[str, ...], values: list[float]) -> dict[str, float]:
  """The signals that are not zero."""
  assert len(names) == len(values)
  return {name: value for name, value in zip(names, values) if value != 0}


def log_days(days: float) -> float:
  return math.log(1 + days) / 8


TIMES = {
  "newer": (at(5), at(3), {"both_known": 1, "newer": 1, "newer_by": log_days(2)}),
  "older": (at(3), at(5), {"both_known": 1, "older": 1, "older_by": log_days(2)}),
  "equal": (at(3), at(3), {"both_known": 1, "equal": 1}),
  "nothing known": (at(), at(), {"candidate_unknown": 1, "entry_unknown": 1}),
  "candidate unknown": (at(), at(3), {"candidate_unknown": 1}),
  "entry unknown": (at(3), at(), {"entry_unknown": 1}),
  # Told late: what counts is the time it speaks of.
  "old fact, told late": (
    at(9, start=1), at(3), {"both_known": 1, "older": 1, "older_by": log_days(2)},
  ),
  "entry speaks of later": (
    at(4), at(1, start=8), {"both_known": 1, "older": 1, "older_by": log_days(4)},
  ),
  "entry is over": (
    at(5), at(1, end=5),
    {"both_known": 1, "newer": 1, "newer_by": log_days(4), "entry_is_over": 1},
  ),
  "entry is not over": (
    at(5), at(1, end=6), {"both_known": 1, "newer": 1, "newer_by": log_days(4)},
  ),
  "entry over, candidate unknown": (at(), at(1, end=2), {"candidate_unknown": 1}),
  "candidate is over": (
    at(9, start=5, end=9), at(1),
    {"both_known": 1, "newer": 1, "newer_by": log_days(4), "candidate_is_over": 1},
  ),
  "candidate ended before the entry": (
    at(9, start=1, end=2), at(3),
    {"both_known": 1, "older": 1, "older_by": log_days(2), "candidate_is_over": 1,
     "candidate_ends_before_entry": 1},
  ),
  "end known, arrival not": (
    at(None, end=2), at(3), {"candidate_unknown": 1, "candidate_ends_before_entry": 1},
  ),
}  # fmt: skip


@pytest.mark.parametrize("name", TIMES)
def test_time_signals_by_hand(name):
  candidate, entry, expected = TIMES[name]
  assert names_set(TIME_SIGNALS, time_signals(candidate, entry)) == pytest.approx(expected)


def test_a_minute_is_enough_to_be_newer():
  new = dataclasses.replace(at(3), observed_at=day(3) + 1)
  found = names_set(TIME_SIGNALS, time_signals(new, at(3)))
  assert found == pytest.approx({"both_known": 1, "newer": 1, "newer_by": log_days(1 / 1440)})


def test_source_signals_by_hand():
  given = claim("x", source="user:ana", source_reliability=0.25)
  expected = {"reliability": 0.25, "reliability_known": 1, "role_user": 1}
  assert names_set(SOURCE_SIGNALS, source_signals(given)) == expected
  # Zero is a known reliability.
  zero = claim("x", source="user", source_reliability=0.0)
  assert names_set(SOURCE_SIGNALS, source_signals(zero)) == {"reliability_known": 1, "role_user": 1}


def test_a_missing_reliability_is_that_of_the_role_and_is_marked_as_unknown():
  tool = names_set(SOURCE_SIGNALS, source_signals(claim("x", source="door_sensor")))
  assert tool == {"reliability": 0.9, "role_tool": 1}
  for name in ("unknown name", "zzq", ""):
    found = names_set(SOURCE_SIGNALS, source_signals(claim("x", source=name)))
    assert found["role_unknown"] == 1 and "reliability_known" not in found
  odd = names_set(SOURCE_SIGNALS, source_signals(claim("x", source="zzq")))
  assert odd["reliability"] == UNKNOWN_RELIABILITY
  assert sum(f"role_{role}" in odd for role in ROLES) == 1


def test_pair_source_signals_by_hand():
  def signals(new: Claim, old: Claim) -> dict[str, float]:
    return names_set(PAIR_SOURCE_SIGNALS, pair_source_signals(new, old))

  ana = claim("x", source="user:ana", source_reliability=0.75, subject="ana")
  ben = claim("x", source="user:ben", source_reliability=0.25, subject="ben")
  expected = {"margin": 0.5, "same_role": 1, "other_owner": 1, "other_subject": 1}
  assert signals(ana, ben) == expected
  assert signals(ben, ana) == expected | {"margin": -0.5}
  same = {"same_name": 1, "same_role": 1, "same_owner": 1, "same_subject": 1}
  assert signals(ana, ana) == same
  nobody = claim("x", source="tool", source_reliability=0.75)
  assert signals(nobody, nobody) == {"same_name": 1, "same_role": 1}
  assert signals(ana, nobody) == {}


@pytest.fixture(scope="module")
def kitchen():
  """Three claims with times, sources and signals in the text, and one decision about them."""
  entries = (
    claim("The oven takes 20 minutes.", source="user", observed_at=day(1)),
    claim("Mira owns 3 pans.", source="tool", source_reliability=0.5),
    claim("Maybe the kettle leaks.", source="web", observed_at=day(2), valid_until=day(3)),
  )
  candidate = claim("The oven takes 25 minutes.", source="user:mira", observed_at=day(4))
  texts = texts_of(stream(*entries, candidate, claim("unused")))
  moment = Moment(candidate, entries, (0, 1, 0), 2, None, ())
  bare = dataclasses.replace(moment, candidate=entries[0], entries=(), slots=(), num_accepted=0)
  return moment, bare, texts


def test_every_array_holds_what_its_field_says(kitchen):
  moment, bare, texts = kitchen
  inputs, _ = featurize([moment, bare], texts, V, rows_of_pairs)
  parsed = {text: lexical.parse(text) for text in texts.row}
  for e, now in enumerate((moment, bare)):
    text = now.candidate.text
    np.testing.assert_array_equal(inputs.candidate[e], texts.vectors()[text])
    np.testing.assert_array_equal(inputs.claim_signals[e], lexical.claim_signals(parsed[text]))
    np.testing.assert_array_equal(inputs.source[e], np.float32(source_signals(now.candidate)))
    for v, entry in enumerate(now.entries):
      exact = lexical.pair_signals(parsed[text], parsed[entry.text], {}, 1.0)
      rows = [texts.row[text] + 1, texts.row[entry.text] + 1]
      expected = {
        "entries": texts.vectors()[entry.text],
        "pair_signals": np.concatenate([exact, rows]),
        "time_signals": time_signals(now.candidate, entry),
        "entry_source": source_signals(entry),
        "pair_source": pair_source_signals(now.candidate, entry),
      }
      for name, values in expected.items():
        np.testing.assert_array_equal(getattr(inputs, name)[e, v], np.float32(values), name)
  assert inputs.num_accepted.tolist() == [2, 0] and inputs.num_visible.tolist() == [3, 0]


def test_what_is_not_visible_is_zero_and_every_dtype_is_said(kitchen):
  moment, bare, texts = kitchen
  inputs, labels = featurize([moment, bare], texts, V, rows_of_pairs)
  hidden = np.arange(V) >= inputs.num_visible[:, None]
  for name, leaf in inputs._asdict().items():
    assert leaf.dtype == (np.int32 if name.startswith("num_") else np.float32), name
    if leaf.ndim == 3:
      assert not leaf[hidden].any(), name
  kinds = [np.int32, np.int32, np.bool_, np.int32, *[np.float32] * 3, np.int32, np.int32]
  assert [leaf.dtype for leaf in labels] == kinds


def test_moments_without_any_entry_have_the_same_widths(kitchen):
  moment, bare, texts = kitchen
  full, _ = featurize([moment], texts, V, rows_of_pairs)
  empty, _ = featurize([bare], texts, V, rows_of_pairs)
  chex.assert_trees_all_equal_shapes_and_dtypes(full, empty)


def test_an_example_does_not_depend_on_the_others(kitchen):
  moment, bare, texts = kitchen
  both, _ = featurize([moment, bare, moment], texts, V, rows_of_pairs)
  alone, _ = featurize([bare], texts, V, rows_of_pairs)
  for position, other in ((1, alone), (2, featurize([moment], texts, V, rows_of_pairs)[0])):
    for left, right in zip(both, other):
      np.testing.assert_array_equal(left[position], right[0])


@pytest.mark.parametrize("seed", range(3))
def test_no_input_of_a_decision_depends_on_its_gold(seed):
  """Another gold for claim t leaves the inputs of decisions 0 to t as they were, bit by bit."""
  whole = random_stream(seed, 14)
  texts = texts_of(whole)

  def inputs_of(changed):
    moments = stream_moments([changed], texts.vectors(), CAPACITIES, V)
    return featurize(moments, texts, V, rows_of_pairs)

  before, labels = inputs_of(whole)
  moved = 0
  for step in range(2, 14):
    earlier = whole.claims[0].id
    for action, target in ((Action.NOOP, None), (Action.DEFER_VERIFY, earlier)):
      gold = Gold(
        action, target, alt_targets=(), temporal=True, reliability=0.125, scope="past", kind="k"
      )
      cut = dataclasses.replace(whole, claims=whole.claims[: step + 1])
      after, changed_labels = inputs_of(with_gold(cut, step, gold))
      for left, right in zip(before, after):
        np.testing.assert_array_equal(left[: step + 1], right)
      assert changed_labels.action[step] == action
      moved += changed_labels.action[step] != labels.action[step]
  assert moved > 8


def label_of(gold: Gold | None, targets: tuple[int, ...]):
  entries = (
    claim("a", Action.APPEND, gold_reliability=0.75),
    claim("b", Action.APPEND),
    claim("c", Action.DEFER_VERIFY, gold_reliability=0.0),
  )
  candidate = Claim("new", "new", gold=gold)
  texts = texts_of(stream(*entries, candidate))
  moment = Moment(candidate, entries, (0, 1, 0), 2, gold, targets)
  _, labels = featurize([moment], texts, V, rows_of_pairs)
  return type(labels)(*[leaf[0] for leaf in labels])


LABELS = {
  # name: (gold, visible targets), (action, target, right positions, weight)
  "append": ((Gold(Action.APPEND), ()), (0, V, [V], 1)),
  "noop of nothing": ((Gold(Action.NOOP), ()), (1, V, [V], 1)),
  "revise": ((Gold(Action.REVISE, "b"), (1,)), (2, 1, [1], 1)),
  "several right": ((Gold(Action.NOOP, "c", alt_targets=("a",)), (2, 0)), (1, 2, [0, 2], 1)),
  "out of sight": ((Gold(Action.REVISE, "z"), ()), (2, V, [V], 0)),
  "only the other in sight": (
    (Gold(Action.REJECT_CONFLICT, "z", alt_targets=("a",)), (0,)), (3, 0, [0], 1),
  ),
  "the other in sight is Pending": (
    (Gold(Action.REVISE, "z", alt_targets=("c",)), (2,)), (2, V, [V], 0),
  ),
}  # fmt: skip


@pytest.mark.parametrize("name", LABELS)
def test_labels_by_hand(name):
  (gold, targets), (action, target, right, weight) = LABELS[name]
  labels = label_of(gold, targets)
  assert (labels.action, labels.target, labels.weight) == (action, target, weight)
  assert np.flatnonzero(labels.targets).tolist() == right


def test_what_gold_settles_is_marked_where_it_is_in_sight():
  gold = Gold(Action.APPEND, resolves="c", outcome="contradicted")
  texts = texts_of(stream(claim("a"), claim("c"), Claim("new", "new")))

  def settled(position: int | None):
    entries = (claim("a"), claim("c"))
    moment = Moment(Claim("new", "new"), entries, (0, 0), 1, gold, (), resolves=position)
    _, labels = featurize([moment], texts, V, rows_of_pairs)
    assert labels.resolves.dtype == labels.outcome.dtype == np.int32 and labels.weight[0] == 1
    return labels.resolves.tolist(), labels.outcome.tolist()

  assert settled(1) == ([1], [Status.REJECTED])
  assert settled(None) == ([V], [Status.EMPTY])


def test_what_gold_does_not_say_is_marked():
  labels = label_of(Gold(Action.APPEND), ())
  assert labels.scope == -1 and np.isnan(labels.reliability)
  np.testing.assert_array_equal(labels.entry_reliability, np.float32([0.75, np.nan, 0, np.nan]))
  labels = label_of(Gold(Action.APPEND, scope="bounded", reliability=0.0), ())
  assert SCOPES[labels.scope] == "bounded" and labels.reliability == 0
  nothing = label_of(None, ())
  assert nothing.weight == 0 and nothing.scope == -1 and np.isnan(nothing.reliability)
