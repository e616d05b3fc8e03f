"""Retrieval, the gold path and its targets, for streams and for cases."""

import numpy as np
import oracle
import pytest
from small_streams import claim, random_stream, stream, vectors_of

from tarl_jax.data.moments import (
  Capacities,
  case_moments,
  gold_transactions,
  nearest,
  padded_length,
  stream_moments,
)
from tarl_jax.data.record import Case
from tarl_jax.errors import InputError
from tarl_jax.types import NO_CLAIM, OUTCOMES, Action, Status

CAPACITIES = Capacities(accepted=8, pending=4, history=4)


def direction(degrees: float) -> np.ndarray:
  return np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], np.float32)


def test_nearest_by_hand():
  similarity = np.float32([0.1, 0.9, 0.5, 0.7, 0.95])
  assert nearest(similarity, 3, 5).tolist() == [1, 2, 0, 4, 3]  # Accepted first, then Pending
  assert nearest(similarity, 3, 3).tolist() == [1, 4, 3]  # the best of both, then by ledger
  assert nearest(similarity, 0, 2).tolist() == [4, 1]
  assert nearest(similarity, 5, 9).tolist() == [4, 1, 3, 2, 0]
  assert nearest(similarity[:0], 0, 4).tolist() == []


def test_ties_go_to_the_lower_index():
  assert nearest(np.float32([0.5, 0.5, 0.2, 0.5]), 4, 2).tolist() == [0, 1]
  assert nearest(np.zeros(40, np.float32), 20, 30).tolist() == list(range(30))


@pytest.fixture(scope="module")
def garden():
  """Seven decisions about a garden, whose vectors lie on a circle."""
  whole = stream(
    claim("gate is green", Action.APPEND),
    claim("gate is red", Action.REVISE, "gate is green"),
    claim("pond has newts", Action.APPEND),
    claim("gate may be blue", Action.DEFER_VERIFY, "gate is red"),
    claim("gate is still red", Action.NOOP, "gate is red"),
    claim("gate was never red", Action.REJECT_CONFLICT, "gate is red"),
    claim("gate could be blue", Action.NOOP, "gate may be blue", gold_alt_targets=("gate is red",)),
  )
  angles = (0, 10, 90, 20, 12, 14, 21)
  vectors = {one.text: direction(angle) for one, angle in zip(whole.claims, angles)}
  return whole, vectors


def looks(moments) -> list[tuple]:
  return [
    (m.candidate.id, tuple(e.id for e in m.entries), m.slots, m.num_accepted, m.targets)
    for m in moments
  ]


def test_moments_of_a_stream_by_hand(garden):
  whole, vectors = garden
  moments = stream_moments([whole], vectors, CAPACITIES, num_visible=4)
  red, pond, blue = "gate is red", "pond has newts", "gate may be blue"
  assert looks(moments) == [
    ("gate is green", (), (), 0, ()),
    (red, ("gate is green",), (0,), 1, (0,)),
    (pond, (red,), (0,), 1, ()),
    (blue, (red, pond), (0, 1), 2, (0,)),
    ("gate is still red", (red, pond, blue), (0, 1, 0), 2, (0,)),
    ("gate was never red", (red, pond, blue), (0, 1, 0), 2, (0,)),
    ("gate could be blue", (red, pond, blue), (0, 1, 0), 2, (2, 0)),
  ]
  assert [(m.stream, m.step) for m in moments] == [(0, step) for step in range(7)]
  assert [m.gold for m in moments] == [one.gold for one in whole.claims]


def test_at_most_v_entries_are_in_sight_and_targets_may_be_out_of_it(garden):
  whole, vectors = garden
  found = looks(stream_moments([whole], vectors, CAPACITIES, num_visible=1))
  assert all(len(entries) <= 1 for _, entries, _, _, _ in found)
  assert found[4] == ("gate is still red", ("gate is red",), (0,), 1, (0,))
  # The gold target is in sight, the further one is not; Pending's slot counts from 0.
  assert found[6] == ("gate could be blue", ("gate may be blue",), (0,), 0, (0,))
  turned = vectors | {"gate is still red": direction(90)}
  found = looks(stream_moments([whole], turned, CAPACITIES, num_visible=1))
  assert found[4] == ("gate is still red", ("pond has newts",), (1,), 1, ())


@pytest.mark.parametrize("seed", range(4))
def test_what_is_in_sight_equals_a_walk_over_plain_lists(seed):
  streams = [random_stream(seed, 30, "a"), random_stream(seed + 50, 70, "b")]
  capacities = Capacities(accepted=80, pending=80, history=80)
  vectors = vectors_of(*streams, seed=seed)
  moments = iter(stream_moments(streams, vectors, capacities, num_visible=5))
  for index, whole in enumerate(streams):
    memory = oracle.OracleMemory(80, 80, 80, 70)
    names = [one.id for one in whole.claims]
    for step, one in enumerate(whole.claims):
      moment = next(moments)
      live = []  # (similarity, name, slot, is accepted), Accepted before Pending
      for ledger in (memory.accepted, memory.pending):
        for slot, row in enumerate(ledger.slots):
          if row != oracle.EMPTY_ROW:
            similarity = vectors[one.text] @ vectors[names[row[0]]]
            live.append((similarity, names[row[0]], slot, ledger is memory.accepted))
      best = sorted(live, key=lambda row: -row[0])[:5]
      best = [row for row in best if row[3]] + [row for row in best if not row[3]]
      assert [e.id for e in moment.entries] == [row[1] for row in best]
      assert list(moment.slots) == [row[2] for row in best]
      assert moment.num_accepted == sum(row[3] for row in best)
      wanted = [one.gold.target, *one.gold.alt_targets]
      seen = [row[1] for row in best]
      assert list(moment.targets) == [seen.index(name) for name in wanted if name in seen]
      assert (moment.stream, moment.step) == (index, step)
      held = [row[0] for row in memory.accepted.slots]
      target = names.index(one.gold.target) if one.gold.target else NO_CLAIM
      slot = held.index(target) if target in held[: memory.accepted.total] else 80
      resolves = one.gold.resolves
      assert moment.resolves == (seen.index(resolves) if resolves in seen else None)
      settling = (80, oracle.EMPTY)
      if resolves is not None:
        waiting = [row[0] for row in memory.pending.slots]
        settling = (waiting.index(names.index(resolves)), int(OUTCOMES[one.gold.outcome]))
      report = memory.transact(one.gold.action, slot, step, step, *settling)
      assert not report[0] and not report[3]
  assert next(moments, None) is None


def test_gold_transactions_are_padded_with_noops(garden):
  whole, _ = garden
  found = gold_transactions(whole, 9)
  assert found.action.tolist() == [0, 2, 0, 4, 1, 3, 1, 1, 1]
  none = int(NO_CLAIM)
  assert found.target.tolist() == [none, 0, none, 1, 1, 1, 3, none, none]
  assert found.claim_id.tolist() == list(range(9))
  assert {column.dtype for column in found} == {np.dtype(np.int32)}


def test_what_is_settled_leaves_pending_and_is_in_sight_before():
  whole = stream(
    claim("roof may leak", Action.DEFER_VERIFY),
    claim("roof may be slate", Action.DEFER_VERIFY),
    claim(
      "roof leaks", Action.APPEND, gold_resolves="roof may leak", gold_outcome="confirmed"
    ),
    claim("roof is tin", Action.APPEND, gold_resolves="roof may be slate",
          gold_outcome="contradicted"),
    claim("good evening", Action.NOOP),
  )  # fmt: skip
  vectors = {one.text: direction(angle) for one, angle in zip(whole.claims, (0, 40, 1, 41, 90))}
  found = gold_transactions(whole, 6)
  none = int(NO_CLAIM)
  assert found.resolves.tolist() == [none, none, 0, 1, none, none]
  assert found.outcome.tolist() == [0, 0, Status.SUPERSEDED, Status.REJECTED, 0, 0]
  assert {column.dtype for column in found} == {np.dtype(np.int32)}
  moments = stream_moments([whole], vectors, CAPACITIES, num_visible=3)
  assert [m.resolves for m in moments] == [None, None, 0, 1, None]
  assert [e.id for e in moments[3].entries] == ["roof leaks", "roof may be slate"]
  assert moments[3].slots == (0, 0)  # the last row of Pending has moved into the free place
  assert [e.id for e in moments[4].entries] == ["roof is tin", "roof leaks"]
  (_, _, third, *_) = stream_moments([whole], vectors, CAPACITIES, num_visible=1)
  assert third.resolves == 0
  turned = vectors | {"roof leaks": direction(50)}
  (_, _, third, *_) = stream_moments([whole], turned, CAPACITIES, num_visible=1)
  assert third.resolves is None and third.gold.resolves == "roof may leak"


def test_a_claim_without_gold_is_named():
  whole = stream(claim("a", Action.APPEND), claim("b"), name="diary 4")
  with pytest.raises(InputError, match="stream diary 4, claim 'b', field 'gold'"):
    stream_moments([whole], vectors_of(whole), CAPACITIES, 4)


@pytest.mark.parametrize(
  ("action", "ledger"), [(Action.APPEND, "accepted"), (Action.DEFER_VERIFY, "pending")]
)
def test_a_full_ledger_stops_with_the_stream_and_the_setting(action, ledger):
  fits = stream(*[claim(f"f{i}", Action.APPEND) for i in range(3)], name="fits")
  whole = stream(*[claim(f"c{i}", action) for i in range(11)], name="long one")
  with pytest.raises(InputError, match=r"stream long one.*config\.data\.capacities") as caught:
    stream_moments([fits, whole], vectors_of(fits, whole), CAPACITIES, 4)
  refused = {"accepted": 3, "pending": 7}[ledger]
  assert f"{refused} gold transactions were refused (overflow_{ledger})" in str(caught.value)


def test_a_full_history_stops_nothing():
  claims = [claim("c0", Action.APPEND)]
  claims += [claim(f"c{i}", Action.REVISE, f"c{i - 1}") for i in range(1, 12)]
  whole = stream(*claims)
  assert len(stream_moments([whole], vectors_of(whole), CAPACITIES, 4)) == 12


@pytest.mark.parametrize(("length", "padded"), [(1, 64), (64, 64), (65, 128)])
def test_streams_are_padded_to_the_next_multiple_of_64(length, padded):
  whole = stream(*[claim(f"c{i}", Action.NOOP) for i in range(length)])
  assert padded_length([stream(claim("x", Action.NOOP)), whole]) == padded


def case_of(accepted: list[str], pending: list[str], candidate: str) -> Case:
  return Case(
    id="k",
    kind="",
    accepted=tuple(claim(name) for name in accepted),
    pending=tuple(claim(name) for name in pending),
    candidate=claim(candidate),
    expected_action=Action.NOOP,
    expected_target=None,
  )


def test_case_indices_lead_back_to_the_lists_of_the_case():
  angles = {"a": 80, "b": 5, "c": 40, "p": 2, "q": 70, "new": 0}
  vectors = {name: direction(angle) for name, angle in angles.items()}
  cases = [
    case_of(["a", "b", "c"], ["q", "p"], "new"),
    case_of([], [], "new"),
    case_of([], ["q"], "b"),
  ]
  first, empty, held = case_moments(cases, vectors, num_visible=3)
  assert looks([first]) == [("new", ("b", "c", "p"), (1, 2, 1), 2, ())]
  for position, entry in enumerate(first.entries):
    part = cases[0].accepted if position < first.num_accepted else cases[0].pending
    assert part[first.slots[position]] is entry
  assert looks([empty, held]) == [("new", (), (), 0, ()), ("b", ("q",), (0,), 0, ())]
  assert first.gold is None and (first.stream, first.step) == (-1, -1)
