"""The published memory systems: their write rules by hand, forgetting, and the list of them."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import settings
from situations import entry, moment, random_decisions, situation, stack
from small_policy import V
from small_streams import claim

from tarl_jax.baselines import (
  a_mem,
  full_history,
  g_memory,
  graphiti,
  hipporag,
  mem0,
  mem_agent,
  memory_bank,
  retrieval,
  systems,
)
from tarl_jax.baselines.signals import Thresholds
from tarl_jax.baselines.systems import SYSTEMS, System, decide_natively, keep_all
from tarl_jax.data.dataset import Split
from tarl_jax.types import Action

APPEND, NOOP, REVISE, REJECT, _ = (int(action) for action in Action)
NONE = V
(MEM0,) = [system for system in SYSTEMS if system.name == "Mem0"]
PAIR = Thresholds(related=0.5, same=0.8)
DAY, MONTH = 1440, 30 * 1440
CHECK = settings(max_examples=25, derandomize=True, deadline=None)


# What is known, by the closeness of the entry; all thresholds as in PAIR.
KNOWN = {
  "nothing": situation([]),
  "a question": situation([entry(0.6, newer=1)], question=1),
  "another matter": situation([entry(0.3, newer=1)]),
  "the same": situation([entry(0.85, newer=1)]),
  "the same words": situation([entry(0.6, newer=1, content_equal=1)]),
  "the same and more": situation([entry(0.85, newer=1, entry_in_candidate=1)]),
  "a part of it": situation([entry(0.6, newer=1, candidate_in_entry=1)]),
  "an older value": situation([entry(0.6, newer=1)]),
  "a newer value": situation([entry(0.6, older=1)]),
  "a value of the same time": situation([entry(0.6, equal=1)]),
  "a value that has ended": situation([entry(0.6, newer=1, entry_is_over=1)]),
  "a value that began later": situation([entry(0.6, older=1, candidate_ends_before_entry=1)]),
  "another number": situation([entry(0.9, newer=1, numbers_differ=1)]),
  "somebody else's": situation([entry(0.9, newer=1, content_equal=1, owner_differs=1)]),
  "what waits": situation([entry(0.9, newer=1, text_equal=1)], num_pending=1),
  "from a better source": situation([entry(0.6, 0.95, newer=1)], trust=0.1),
  "two, the second nearer": situation([entry(0.55, newer=1), entry(0.7, newer=1)]),
}

# By system: action and entry for each of the above, "." for append with no entry.
A, N, R, J = APPEND, NOOP, REVISE, REJECT
NATIVE = {
  full_history.decide: ". . . . . . . . . . . . . . . . .",
  retrieval.decide: ". N . . . . . . . . . . . . . . .",
  hipporag.decide: ". . . . N0 . . . . . . . . . . . .",
  g_memory.decide: ". R0 . N0 N0 N0 R0 R0 R0 R0 R0 R0 R0 . . R0 R1",
  a_mem.decide: ". R0 . R0 R0 R0 R0 R0 R0 R0 R0 R0 R0 . . R0 R1",
  mem_agent.decide: ". N . R0 N0 R0 R0 R0 R0 R0 R0 R0 R0 . . R0 R1",
  mem0.decide: ". N . N0 N0 R0 N0 R0 R0 R0 R0 R0 R0 . . R0 R1",
  graphiti.decide: ". N . N0 N0 N0 R0 R0 J0 A0 A0 A0 R0 . . R0 R1",
}
LETTERS = {".": APPEND, "A": APPEND, "N": NOOP, "R": REVISE, "J": REJECT}


@pytest.mark.parametrize("native", NATIVE, ids=lambda native: native.__module__.split(".")[-1])
def test_the_native_rule_decides_each_situation_as_by_hand(native):
  found = native(stack(list(KNOWN.values())), np.zeros((len(KNOWN), V), bool), PAIR)
  decided = list(zip(found.action.tolist(), found.position.tolist()))
  cells = NATIVE[native].split()
  expected = [(LETTERS[cell[0]], int(cell[1:] or NONE)) for cell in cells]
  wrong = {n: (d, e) for n, d, e in zip(KNOWN, decided, expected, strict=True) if d != e}
  assert not wrong
  np.testing.assert_array_equal(found.grounded, found.position)
  assert found.action.dtype == found.position.dtype == np.int32
  assert found.probabilities is None and found.resolves is None and found.outcome is None


def test_memory_bank_replaces_what_has_faded_and_only_that():
  """Entries of the third situation are 20 days old (kept), of the fourth 22 (faded)."""
  inputs = stack(
    [
      situation([]),
      situation([entry(0.85)]),
      situation([entry(0.6)]),
      situation([entry(0.6)]),
      situation([entry(0.3)]),
      situation([entry(0.6)]),
    ]
  )
  ages = [None, 99, 20, 22, 99, None]
  moments = [moment(claim("n", observed_at=0))]
  for e, age in enumerate(ages[1:], 1):
    time = None if age is None else -age * DAY
    moments.append(moment(claim("n", observed_at=0), claim(f"m{e}", observed_at=time), stream=e))
  kept = memory_bank.still_kept(inputs, moments)
  found = memory_bank.decide(inputs, kept, PAIR)
  assert found.action.tolist() == [APPEND, NOOP, APPEND, REVISE, APPEND, APPEND]
  assert found.position.tolist() == [NONE, 0, 0, 0, NONE, 0]


def test_retention_by_hand():
  assert memory_bank.retention(0, 1) == memory_bank.retention(-5, 1) == 1.0
  assert memory_bank.retention(MONTH, 1) == pytest.approx(0.36787944)
  assert memory_bank.retention(MONTH, 2) == pytest.approx(0.60653066)
  assert memory_bank.retention(3 * MONTH, 1) == pytest.approx(0.04978707)


def test_recall_strengthens_and_starts_the_time_anew():
  """A memory of day 0 is recalled on day 15 and, at strength 2, still kept on day 45; another
  that is farther than the nearest three is never recalled and has faded by then."""
  kept, lost = claim("k", observed_at=0), claim("l", observed_at=0)
  near = [entry(0.9), entry(0.8), entry(0.7), entry(0.1)]
  three = [kept, claim("a", observed_at=0), claim("b", observed_at=0)]
  inputs = stack([situation(near), situation([entry(0.2), entry(0.3)]), situation([entry(0.2)])])
  moments = [
    moment(claim("x", observed_at=15 * DAY), *three, lost),
    moment(claim("y", observed_at=45 * DAY), kept, lost),
    moment(claim("z", observed_at=45 * DAY), kept, stream=1),  # another stream: unrecalled
  ]
  found = memory_bank.retentions(inputs, moments)
  assert found[0, 3] == pytest.approx(np.exp(-0.5)) and found[0, 0] == found[0, 3]
  assert found[1, 0] == pytest.approx(np.exp(-1.0 / 2))  # 30 days since, strength 2
  assert found[1, 1] == pytest.approx(np.exp(-1.5))  # 45 days since, strength 1
  assert found[2, 0] == pytest.approx(np.exp(-1.5))
  assert not found[1, 2:].any()
  assert memory_bank.view(inputs, moments).place[1].tolist() == [0, V, V, V]


def test_what_is_forgotten_is_not_recalled():
  old = claim("o", observed_at=0)
  inputs = stack([situation([entry(0.9)])] * 2)
  moments = [moment(claim(n, observed_at=50 * DAY), old) for n in "xy"]
  found = memory_bank.retentions(inputs, moments)
  assert found[0, 0] == found[1, 0] == pytest.approx(np.exp(-50 / 30))


# The list of systems and their thresholds.


def test_the_list_has_every_system_once():
  names = [system.name for system in SYSTEMS]
  assert len(set(names)) == 9
  assert [system.name for system in SYSTEMS if system.view is None] == ["Mem0", "Graphiti"]
  assert len({system.native for system in SYSTEMS}) == 9
  forgetful = [system for system in SYSTEMS if system.kept is not keep_all]
  assert [system.kept for system in forgetful] == [memory_bank.still_kept]
  inputs, moments = random_decisions(0, 5)
  np.testing.assert_array_equal(keep_all(inputs, moments).sum(1), inputs.num_visible)


def test_thresholds_are_fitted_on_what_counts():
  """Revise from 0.6 and noop from 0.75 on in what counts; the many others say 0.35 and 0.5."""
  closeness = np.tile(np.linspace(0.31, 1.0, 24), 4)
  counts = np.arange(96) < 24
  related, same = np.where(counts, 0.6, 0.35), np.where(counts, 0.75, 0.5)
  gold = np.where(closeness < related, APPEND, np.where(closeness < same, REVISE, NOOP))
  inputs = stack([situation([entry(close, newer=1)]) for close in closeness])
  labels = SimpleNamespace(action=gold)
  split = Split([], [moment(claim("x"))] * 96, counts, inputs, labels)
  predicted = decide_natively(MEM0, split, split).action
  np.testing.assert_array_equal(predicted[counts], gold[counts])
  assert (predicted != gold).sum() > 9


def test_a_rule_is_given_what_its_system_has_kept(monkeypatch):
  """A stand-in forgets everything in the test split and nothing in the validation split."""
  inputs, moments = random_decisions(0, 5)
  none = np.zeros(5, np.int32)
  val = Split([], moments, np.ones(5, bool), inputs, SimpleNamespace(action=none))
  test = Split([], moments[:2], np.ones(5, bool), inputs, SimpleNamespace(action=none))
  seen = []

  def native(inputs, kept, thresholds):
    seen.append((kept.all(), kept.any(), thresholds))
    return SimpleNamespace(action=none)

  def kept(inputs, moments):
    return np.full(inputs.entries.shape[:2], len(moments) == 5)

  def fit(gold, decide_fn):
    decide_fn(PAIR)
    return Thresholds(0.3, 0.4)

  monkeypatch.setattr(systems, "best_thresholds", fit)
  decide_natively(System("stand-in", native, None, kept), val, test)
  assert seen == [(True, True, PAIR), (False, False, Thresholds(0.3, 0.4))]
