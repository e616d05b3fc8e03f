"""Sequential evaluation against two memories in plain lists, and the curves by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_rollouts import CAPACITIES, PADDED, SEEDS, V, Walk, repeating_stream, table_of
from small_streams import claim, stream, texts_of

from tarl_jax.data.moments import gold_transactions
from tarl_jax.errors import InputError
from tarl_jax.evaluation import sequential
from tarl_jax.evaluation.curves import CURVES, TENTHS, format_sums, mean, merge, recovery, sums_of
from tarl_jax.evaluation.sequential import Trace, make_runner, roll_out
from tarl_jax.types import NO_CLAIM, Action, Status

LENGTHS = (24, 9, 17)


def choose_partly_wrong(kinds, seen, gold):
  """Gold's transaction, or, by `kinds[claim]`, one that goes wrong in one of six ways."""
  kind = kinds.at[seen.claim_id].get(mode="clip")
  entry, last = seen.entries[0], seen.entries[jnp.maximum(seen.inputs.num_visible - 1, 0)]
  actions = jnp.array([-1, 0, 1, 2, 4, -1, 0], jnp.int32)
  action = jnp.where(actions[kind] < 0, gold.action, actions[kind])
  target = jnp.where((kind == 3) | (kind == 4), entry, gold.target)
  resolves = jnp.where(kind == 5, NO_CLAIM, jnp.where(kind == 6, last, gold.resolves))
  outcome = jnp.where(kind == 6, int(Status.REJECTED), gold.outcome)
  transaction = gold._replace(action=action, target=target, resolves=resolves, outcome=outcome)
  return transaction, None


RUNNER = make_runner(choose_partly_wrong, V)


@pytest.fixture(scope="module")
def streams():
  return [
    repeating_stream(seed, length, f"s{seed}_")
    for seed, length in zip(SEEDS, LENGTHS, strict=False)
  ]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
  """Chunks and batches so small that there are several of each."""
  monkeypatch.setattr(sequential, "CHUNK", 16)
  monkeypatch.setattr(sequential, "BATCH", 2)


def roll(streams, kinds) -> tuple[list[Trace], list]:
  """Traces, and the reports of every call of the runner."""
  reports = []

  def runner(*arguments):
    carry, report = RUNNER(*arguments)
    reports.append(jax.device_get(report))
    return carry, report

  tables = [table_of(one) for one in streams]
  traces = roll_out(runner, jnp.asarray(kinds, jnp.int32), streams, tables, CAPACITIES)
  return traces, reports


def kinds_of(seed: int) -> np.ndarray:
  rng = np.random.default_rng(seed)
  return np.where(rng.random(PADDED) < 0.6, 0, rng.integers(1, 7, PADDED))


def traced_by_lists(whole, transactions) -> list[Trace]:
  """What a trace must be, from two memories in plain lists compared in full at every step."""
  walk, gold_walk, found = Walk(), Walk(), []
  vectors = texts_of(whole).vectors()
  vectors = np.stack([vectors[one.text] for one in whole.claims])
  similarity, gold = vectors @ vectors.T, gold_transactions(whole, PADDED)
  for step in range(len(whole.claims)):
    entries, _ = walk.sight(similarity[step])
    row = tuple(int(field[step]) for field in transactions)
    gold_row = tuple(int(field[step]) for field in gold)
    before = gold_walk.memory.location_map().get(gold_row[1], (oracle.LEDGER_NONE,))
    refused, gone, settled = walk.transact(row, step)
    gold_refused, _, gold_settled = gold_walk.transact(gold_row, step)
    places, right = walk.memory.location_map(), gold_walk.memory.location_map()
    held = [one for one, place in places.items() if place[0] == oracle.LEDGER_ACCEPTED]
    kept = [one for one, place in right.items() if place[0] == oracle.LEDGER_ACCEPTED]
    refuted = (oracle.SUPERSEDED, oracle.REJECTED)
    has_target = before[0] in (oracle.LEDGER_ACCEPTED, oracle.LEDGER_PENDING)
    found.append(
      Trace(
        misplaced=sum(places.get(one) != right.get(one) for one in {*places, *right}),
        polluted=len(set(held) - set(kept)),
        contradictions=sum(one in right and right[one][1] in refuted for one in held),
        accepted=len(held),
        decision_wrong=places.get(step) != right.get(step)
        or (row[3:] if settled else None) != (gold_row[3:] if gold_settled else None),
        has_target=has_target,
        target_seen=has_target and gold_row[1] in entries,
        exact=True,
        refused=refused,
        evicted=len(gone),
        gold_refused=gold_refused,
      )
    )
  return found


@pytest.mark.parametrize("seed", range(3))
def test_traces_equal_two_memories_in_plain_lists(streams, seed):
  traces, reports = roll(streams, kinds_of(seed))
  pair = [report.transaction for report in reports[:2]]
  chosen = jax.tree.map(lambda *leaves: np.concatenate(leaves, 1), *pair)
  # The longest two go first, side by side; the shortest goes last, beside itself.
  last = reports[2].transaction
  rows = {0: (chosen, 0), 2: (chosen, 1), 1: (last, 0)}
  assert len(reports) == 3
  for number, whole in enumerate(streams):
    batch, row = rows[number]
    transactions = jax.tree.map(lambda leaf: leaf[row], batch)  # noqa: B023
    expected = traced_by_lists(whole, transactions)
    assert len(expected) == len(traces[number].misplaced) == LENGTHS[number]
    for step, one in enumerate(expected):
      here = Trace(*[leaf[step].item() for leaf in traces[number]])
      assert here == one, (number, step)


def test_the_traces_above_hold_every_fault(streams):
  traces = [trace for seed in range(3) for trace in roll(streams, kinds_of(seed))[0]]
  for name in ("misplaced", "polluted", "contradictions", "decision_wrong", "refused", "evicted"):
    assert sum(np.sum(getattr(trace, name)) for trace in traces) > 3, name
  unseen = [np.sum(trace.has_target & ~trace.target_seen) for trace in traces]
  assert sum(unseen) > 1


def test_from_a_right_state_a_decision_is_wrong_where_the_next_state_is(streams):
  seen = 0
  for seed in range(3):
    for trace in roll(streams, kinds_of(seed))[0]:
      wrong = trace.misplaced > 0
      before = np.concatenate([[False], wrong[:-1]])
      np.testing.assert_array_equal(trace.decision_wrong[~before], wrong[~before])
      seen += np.sum(wrong[~before])
  assert seen > 3


def test_gold_goes_beside_itself_without_a_fault(streams):
  traces, _ = roll(streams, np.zeros(PADDED))
  sums = merge(map(sums_of, traces))
  assert mean(sums.totals["final_state"]) == 1 and np.all(sums.curves["misplaced"][0] == 0)
  assert mean(sums.totals["wrong_before"]) == 0 and np.isnan(mean(sums.totals["wrong_after"]))
  assert sums.totals["recovered"].tolist() == [0, 0]
  assert sums.curves["state_accuracy"][1].sum() == sum(LENGTHS)


def test_the_order_and_the_company_of_streams_do_not_matter(streams):
  kinds = kinds_of(1)
  together, _ = roll(streams, kinds)
  for number in (2, 1):
    (alone,), _ = roll([streams[number]], kinds)
    for left, right in zip(alone, together[number]):
      np.testing.assert_array_equal(left, right)


def test_gold_that_does_not_fit_stops_with_the_stream_and_the_setting(streams):
  whole = stream(*[claim(f"c{i}", Action.APPEND) for i in range(9)], name="diary 4")
  with pytest.raises(InputError, match=r"stream diary 4: 2 gold .*config\.data\.capacities"):
    roll([whole, streams[0]], np.zeros(PADDED))
  bare = stream(claim("a", Action.APPEND), claim("b"), name="diary 5")
  with pytest.raises(InputError, match="stream diary 5, claim 'b', field 'gold'"):
    roll([bare], np.zeros(PADDED))


def trace_of(misplaced, **fields) -> Trace:
  number = len(misplaced)
  none, whole = np.zeros(number, bool), np.zeros(number, np.int32)
  trace = Trace(
    misplaced=np.int32(misplaced),
    polluted=whole,
    contradictions=whole,
    accepted=whole,
    decision_wrong=none,
    has_target=none,
    target_seen=none,
    exact=~none,
    refused=none,
    evicted=whole,
    gold_refused=none,
  )
  return trace._replace(**{name: np.array(value) for name, value in fields.items()})


def test_curves_and_totals_by_hand():
  trace = trace_of(
    [0, 1, 2, 0, 3],
    polluted=[0, 1, 1, 0, 1],
    contradictions=[0, 0, 1, 0, 1],
    accepted=[0, 1, 2, 2, 4],
    decision_wrong=[False, True, True, False, True],
    has_target=[False, True, True, True, False],
    target_seen=[False, True, False, True, False],
    exact=[True, True, True, False, True],
    refused=[False, True, False, False, False],
    evicted=[0, 0, 2, 0, 0],
  )
  sums = sums_of(trace)
  used = [0, 2, 4, 6, 8]  # five steps of ten tenths
  curves = {name: mean(pair) for name, pair in sums.curves.items()}
  for curve in curves.values():
    assert np.all(np.isnan(np.delete(curve, used)))
  expected = {
    "state_accuracy": [1, 0, 0, 1, 0],
    "misplaced": [0, 1 / 2, 2 / 3, 0, 3 / 5],
    "pollution": [np.nan, 1, 1 / 2, 0, 1 / 4],
    "contradictions": [0, 0, 1, 0, 1],
    "target_visibility": [np.nan, 1, 0, 1, np.nan],
    "wrong_decisions": [0, 1, 1, 0, 1],
  }
  assert set(expected) == set(CURVES)
  for name, values in expected.items():
    np.testing.assert_allclose(curves[name][used], values, err_msg=name)
  assert {name: pair.tolist() for name, pair in sums.totals.items()} == {
    "final_state": [0, 1],
    "final_misplaced": [3, 5],
    "final_pollution": [1, 4],
    "wrong_before": [1, 2],  # the first two steps started from a right past
    "wrong_after": [2, 3],
    "recovered": [1, 2],  # the run of two wrong states; the last one did not end
    "recovery_steps": [2, 1],
    "inexact": [1, 5],
    "refused": [1, 5],
    "evicted": [2, 5],
  }


def test_sums_of_streams_of_any_length_add_up():
  long = trace_of(np.arange(25) % 3)
  short = trace_of([0, 1])
  both = merge([sums_of(long), sums_of(short)])
  assert both.curves["state_accuracy"][1].tolist() == [4, 2, 3, 2, 3, 3, 3, 2, 3, 2]
  assert both.curves["state_accuracy"][0].sum() == np.sum(np.arange(25) % 3 == 0) + 1
  assert both.totals["final_state"].tolist() == [1, 2]
  one = merge([both])
  for name in CURVES:
    np.testing.assert_array_equal(one.curves[name], both.curves[name])
    assert one.curves[name].shape == (2, TENTHS)


@settings(derandomize=True, deadline=None, max_examples=80)
@given(wrong=st.lists(st.booleans(), min_size=1, max_size=12))
def test_recovery_equals_a_count_of_runs(wrong):
  episodes, healed, steps, run = 0, 0, 0, 0
  for here in [*wrong, None]:
    if here:
      episodes, run = episodes + (run == 0), run + 1
    elif run and here is not None:
      healed, steps, run = healed + 1, steps + run, 0
  found = recovery(np.array(wrong))
  assert (found.episodes, found.recovered, found.steps) == (episodes, healed, steps)


def test_the_table_says_what_a_reader_must_not_overlook():
  fine = sums_of(trace_of([0, 0, 0]))
  bad = sums_of(trace_of([1, 1], refused=[True, True], evicted=[1, 2], exact=[True, False]))
  text = format_sums({"fine": fine, "bad": bad})
  for name in CURVES:
    assert f"\n{name}: " in text
  assert "| fine | 1.000 | – | – | 1.000 |" in text
  assert "bad: 2 transactions were refused" in text
  assert "bad: 3 rows left a full History" in text
  assert "bad: 1 steps did not see for certain" in text
  assert "fine:" not in text
