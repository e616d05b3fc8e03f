"""The neighbour table: its order, its features, each pair of texts once, and its chunks."""

import dataclasses

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from small_rollouts import repeating_stream, table_of
from small_streams import claim, rows_of_pairs, stream, texts_of

from tarl_jax.data import lexical, neighbours
from tarl_jax.data.examples import pair_source_signals, source_signals, time_signals
from tarl_jax.data.neighbours import build_table, chunks, nearest_earlier, stack_claims
from tarl_jax.types import NO_CLAIM, Action

NONE = int(NO_CLAIM)
FEW = settings(derandomize=True, deadline=None, max_examples=60)


def test_nearest_earlier_by_hand():
  vectors = np.float32([[1, 0], [0, 1], [1, 0], [0.6, 0.8], [1, 0]])
  near, similarity, beyond = nearest_earlier(vectors, 2)
  assert near.tolist() == [[NONE, NONE], [0, NONE], [0, 1], [1, 0], [0, 2]]
  np.testing.assert_allclose(similarity[3:], [[0.8, 0.6], [1, 1]], rtol=1e-6)
  np.testing.assert_allclose(beyond, [-np.inf, -np.inf, -np.inf, 0.6, 0.6], rtol=1e-6)
  assert (near.dtype, similarity.dtype, beyond.dtype) == (np.int32, np.float32, np.float32)
  assert np.all(np.isneginf(similarity) == (near == NONE))


@FEW
@given(
  numbers=st.lists(st.tuples(st.integers(-2, 2), st.integers(-2, 2)), min_size=1, max_size=14),
  width=st.integers(1, 15),
  block=st.sampled_from([1, 3, 100]),
)
def test_nearest_earlier_equals_sorted_lists_whatever_the_block(numbers, width, block):
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(neighbours, "_BLOCK", block)
    near, similarity, beyond = nearest_earlier(np.float32(numbers), width)  # integers: exact
  for i, (a, b) in enumerate(numbers):
    every = sorted((-(a * c + b * d), j) for j, (c, d) in enumerate(numbers[:i]))
    kept = every[:width]
    assert near[i].tolist() == [j for _, j in kept] + [NONE] * (width - len(kept))
    assert similarity[i].tolist() == [-s for s, _ in kept] + [-np.inf] * (width - len(kept))
    assert beyond[i] == (-every[width][0] if len(every) > width else -np.inf)


@pytest.fixture(scope="module")
def village():
  """Five claims with times and sources, two of them with one text."""
  return stream(
    claim("The mill has 3 wheels.", Action.APPEND, source="user", observed_at=5000),
    claim("Otto keeps bees.", Action.APPEND, source="tool", source_reliability=0.5),
    claim("again", Action.NOOP, text="The mill has 3 wheels.", source="web", observed_at=9000),
    claim("The mill has 4 wheels.", Action.DEFER_VERIFY, source="user:otto", observed_at=20000),
    claim("once more", Action.NOOP, text="The mill has 4 wheels.", valid_until=30000),
  )


def test_every_array_holds_what_its_field_says(village):
  texts, table = texts_of(village), table_of(village, 4)
  parsed = {text: lexical.parse(text) for text in texts.row}
  looks = next(chunks([table], 5))
  for i, one in enumerate(village.claims):
    np.testing.assert_array_equal(table.claims.embedding[i], texts.vectors()[one.text])
    signals = lexical.claim_signals(parsed[one.text])
    np.testing.assert_array_equal(table.claims.signals[i], signals)
    np.testing.assert_array_equal(table.claims.source[i], np.float32(source_signals(one)))
    for m, j in enumerate(looks.neighbours[0, i]):
      if j == NO_CLAIM:
        for name in ("pair_signals", "time_signals", "pair_source"):
          assert not getattr(looks, name)[0, i, m].any()
        continue
      other = village.claims[j]
      exact = lexical.pair_signals(parsed[one.text], parsed[other.text], {}, 1.0)
      rows = [texts.row[one.text] + 1, texts.row[other.text] + 1]
      expected = {
        "pair_signals": np.concatenate([exact, rows]),
        "time_signals": time_signals(one, other),
        "pair_source": pair_source_signals(one, other),
      }
      for name, values in expected.items():
        np.testing.assert_array_equal(getattr(looks, name)[0, i, m], np.float32(values), name)
  assert np.sum(looks.neighbours != NO_CLAIM) == 10


def test_each_distinct_pair_of_texts_is_computed_once(village, monkeypatch):
  exact, late = [], []
  real = lexical.pair_signals

  def counted(candidate, entry, *rest):
    exact.append((candidate, entry))
    return real(candidate, entry, *rest)

  def interaction(encoding, pairs):
    late.extend(map(tuple, pairs))
    return rows_of_pairs(encoding, pairs)

  monkeypatch.setattr(lexical, "pair_signals", counted)
  table = build_table(village, texts_of(village), interaction, 4)
  # (bees, mill 3), (mill 3, mill 3), (mill 3, bees), and mill 4 with all three, twice.
  assert len(exact) == len(late) == len(set(late)) == 6
  assert len(table.pairs) == 7 and not table.pairs[-1].any()


def test_nothing_depends_on_gold(village):
  bare = [dataclasses.replace(one, gold=None) for one in village.claims]
  before = table_of(village, 4)
  after = table_of(dataclasses.replace(village, claims=tuple(bare)), 4)
  for left, right in zip((*before.claims, *before.near), (*after.claims, *after.near)):
    np.testing.assert_array_equal(left, right)
  np.testing.assert_array_equal(before.pairs, after.pairs)


def test_a_stream_of_one_claim_has_no_neighbour():
  table = table_of(stream(claim("alone", Action.APPEND)), 3)
  looks = next(chunks([table], 2))
  assert looks.claim_id.tolist() == [[0, NONE]] and looks.step.tolist() == [[0, 1]]
  assert set(looks.neighbours.flat) == {NONE} and np.all(np.isneginf(looks.beyond))
  assert looks.pair_signals.shape == (1, 2, 3, len(lexical.PAIR_SIGNALS) + 2)
  assert not looks.pair_signals.any()


@pytest.mark.parametrize("size", [4, 7, 30])
def test_chunks_lay_ragged_streams_side_by_side(size):
  tables = [table_of(repeating_stream(i, length), 6) for i, length in enumerate((13, 5))]
  pieces = list(chunks(tables, size))
  assert len(pieces) == -(-13 // size)
  for name in pieces[0]._fields:
    joined = np.concatenate([getattr(piece, name) for piece in pieces], axis=1)
    assert joined.shape[:2] == (2, len(pieces) * size)
    for row, table in enumerate(tables):
      whole = getattr(table.near, name)
      whole = table.pairs[whole] if name == "pair_signals" else whole
      np.testing.assert_array_equal(joined[row, : table.length], whole)
      assert joined.dtype == whole.dtype
      beyond = joined[row, table.length :]
      if name == "step":  # counts on, as that of `rollout` does
        expected = np.arange(table.length, len(pieces) * size)
      else:
        expected = {"claim_id": NONE, "neighbours": NONE}.get(name, 0)
        expected = -np.inf if name in ("similarity", "beyond") else expected
      np.testing.assert_array_equal(beyond, np.broadcast_to(expected, beyond.shape), name)


def test_claims_are_padded_with_zeros():
  tables = [table_of(repeating_stream(i, length), 6) for i, length in enumerate((13, 5))]
  stacked = stack_claims(tables, 16)
  for name in stacked._fields:
    leaf = getattr(stacked, name)
    for row, table in enumerate(tables):
      np.testing.assert_array_equal(leaf[row, : table.length], getattr(table.claims, name))
      assert not leaf[row, table.length :].any()
