"""The views of the published memory systems: ranges of time, PageRank, graphs, fixed slots."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from situations import entry, moment, random_decisions, situation, stack
from small_policy import V
from small_streams import claim

from tarl_jax.baselines import a_mem, g_memory, hipporag, mem_agent, retrieval

CHECK = settings(max_examples=25, derandomize=True, deadline=None)


def test_retrieval_takes_the_most_similar_in_range_in_order_of_arrival():
  inputs = stack([situation([entry(0.9), entry(0.2), entry(0.8), entry(0.7)])] * 2)
  entries = [claim(n, observed_at=t) for n, t in zip("abcd", (50, 10, 30, None))]
  moments = [
    moment(claim("x"), *entries),
    moment(claim("y", valid_from=20, valid_until=40), *entries),
  ]
  seen = retrieval.view(inputs, moments, top=3)
  assert seen.place.tolist() == [[3, 2, 0, V], [3, 2, V, V]]
  assert retrieval.view(inputs, moments, top=1).place[:, 0].tolist() == [0, 2]


# PageRank.


def solved(holds: np.ndarray, seeds: np.ndarray) -> np.ndarray:
  """The fixed point of the walk, by solving the linear equations."""
  links = holds @ holds.T
  np.fill_diagonal(links, 0.0)
  columns = np.empty_like(links)
  for n, degree in enumerate(links.sum(0)):
    columns[:, n] = links[:, n] / degree if degree else seeds
  return np.linalg.solve(np.eye(len(seeds)) - 0.5 * columns, 0.5 * seeds)


def test_pagerank_of_a_chain_by_hand():
  """Phrases a - b - c, from a: r_a = 1/2 + r_b / 4, r_b = r_a / 2 + r_c / 2, r_c = r_b / 4."""
  holds = np.array([[1, 0], [1, 1], [0, 1]], np.float64)
  found = hipporag.pagerank(holds, np.array([1.0, 0.0, 0.0]))
  np.testing.assert_allclose(found, np.array([7, 4, 1]) / 12, atol=1e-8)


@CHECK
@given(seed=st.integers(0, 10_000))
def test_pagerank_is_the_fixed_point(seed):
  rng = np.random.default_rng(seed)
  holds = (rng.random((7, 4)) < 0.3).astype(np.float64)
  holds[holds.sum(1) == 0, rng.integers(4)] = 1.0
  seeds = rng.random(7) * (rng.random(7) < 0.5)
  seeds[0] += 0.1
  seeds /= seeds.sum()
  found = hipporag.pagerank(holds, seeds)
  np.testing.assert_allclose(found, solved(holds, seeds), atol=1e-8)
  assert found.sum() == pytest.approx(1.0)


def test_passages_are_found_over_a_shared_phrase():
  """The second passage shares no word with the query, but one with the first."""
  passages = [{"kofi", "boat"}, {"boat", "harbour"}, {"nora", "bread"}]
  first, second, third = hipporag.passage_scores(
    frozenset({"kofi"}), [frozenset(p) for p in passages]
  )
  assert first > second > 0 and third == 0
  nobody = hipporag.passage_scores(frozenset({"ines"}), [frozenset(p) for p in passages])
  assert nobody.tolist() == [0, 0, 0]
  assert hipporag.passage_scores(frozenset({"kofi"}), []).shape == (0,)


def test_a_seed_counts_by_how_few_passages_hold_it():
  """Of the phrases a, b, x, y, z the query has a (in one passage) and b (in two)."""
  holds = np.array([[1, 0, 0], [0, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float64)
  expected = solved(holds, np.array([2, 1, 0, 0, 0]) / 3) @ holds
  passages = [frozenset("ax"), frozenset("by"), frozenset("bz")]
  found = hipporag.passage_scores(frozenset("abq"), passages)
  np.testing.assert_allclose(found, expected, atol=1e-8)


def test_hipporag_falls_back_to_similarity():
  inputs = stack([situation([entry(0.2), entry(0.9), entry(0.5)])] * 2)
  entries = [claim(n, text=t) for n, t in zip("abc", ("Kofi sails", "Nora bakes", "Ines paints"))]
  moments = [moment(claim("x", text=text), *entries) for text in ("Kofi swims", "It rains")]
  seen = hipporag.view(inputs, moments, top=2)
  assert seen.place.tolist() == [[0, 1, V, V], [1, 2, V, V]]


# The graphs of G-Memory and A-Mem, the slots of MemAgent.


def symmetric(size: int, pairs) -> np.ndarray:
  links = np.zeros((1, size, size), bool)
  for a, b in pairs:
    links[0, a, b] = links[0, b, a] = True
  return links


@CHECK
@given(st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=8))
def test_clusters_are_those_of_a_search(pairs):
  links = symmetric(7, pairs)
  found = g_memory.clusters(links)[0]
  for start in range(7):
    reached, front = {start}, [start]
    while front:
      here = front.pop()
      new = set(np.flatnonzero(links[0, here]).tolist()) - reached
      reached |= new
      front += new
    assert set(np.flatnonzero(found[start]).tolist()) == reached


def test_g_memory_goes_along_and_up():
  """On a circle, entries at 0, 38, 80, 120 and 200 degrees; a link is at most 45 wide. The
  chain of the first four is one cluster with its middle at 80."""
  degrees = np.radians([0, 38, 80, 120, 200])
  vectors = np.stack([np.cos(degrees), np.sin(degrees)], 1).astype(np.float32)
  inputs, moments = random_decisions(0, 1)
  inputs = inputs._replace(
    entries=np.pad(vectors, ((0, 1), (0, 0)))[None],
    num_accepted=np.int32([5]),
    num_visible=np.int32([5]),
  )

  def seen_from(nearest: int) -> list[int]:
    signals = np.zeros_like(inputs.pair_signals)
    signals[0, nearest] = 1.0
    place = g_memory.view(inputs._replace(pair_signals=signals), moments, seeds=1).place[0]
    return place[place < 6].tolist()

  assert [seen_from(v) for v in range(5)] == [[0, 1, 2], [0, 1, 2], [1, 2, 3], [2, 3], [4]]


def test_notes_are_linked_to_their_nearest_older_ones():
  near = np.array(
    [[[1, 0.9, 0.8, 0.1], [0.9, 1, 0.6, 0.7], [0.8, 0.6, 1, 0.9], [0.1, 0.7, 0.9, 1]]]
  )
  held = np.array([[True, True, True, True]])
  times = np.array([[1.0, 2.0, 3.0, 3.0]])  # of 2 and 3 the latter is the newer
  one = a_mem.note_links(near, held, times, 1)[0]
  assert np.argwhere(one).tolist() == [[0, 1], [0, 2], [1, 0], [2, 0], [2, 3], [3, 2]]
  two = a_mem.note_links(near, held, times, 2)[0]
  assert np.argwhere(np.triu(two)).tolist() == [[0, 1], [0, 2], [1, 2], [1, 3], [2, 3]]
  alone = a_mem.note_links(near, np.array([[True, False, False, True]]), times, 3)[0]
  assert not alone.any()  # 0 and 3 are not alike


def test_a_mem_follows_links_once():
  inputs, _ = random_decisions(0, 1)
  vectors = np.float32([[1, 0], [0.8, 0.6], [0.2, 0.98], [-1, 0], [0, 0], [0, 0]])
  signals = np.zeros_like(inputs.pair_signals)
  signals[0, 0] = 1.0
  inputs = inputs._replace(
    entries=vectors[None],
    pair_signals=signals,
    num_accepted=np.int32([4]),
    num_visible=np.int32([4]),
  )
  moments = [moment(claim("x"), *(claim(n, observed_at=1) for n in "abcd"))]
  assert a_mem.view(inputs, moments, top=1).place.tolist() == [[0, 1, 6, 6, 6, 6]]
  assert a_mem.view(inputs, moments, top=2).place.tolist() == [[0, 1, 2, 6, 6, 6]]


def test_mem_agent_by_hand():
  """Two slots, entries written as 2, 0, 1: the last one is nearer to 0 than to 2."""
  near = np.array([[[1, 0.9, 0], [0.9, 1, 0.1], [0, 0.1, 1]]], np.float32)
  order = np.array([[2, 0, 1]])
  mixture, last = mem_agent.write_all(near, order, np.int32([3]), 2)
  np.testing.assert_array_equal(mixture, [[[0, 0, 1], [0.5, 0.5, 0]]])
  assert last.tolist() == [[2, 1]]
  mixture, last = mem_agent.write_all(near, order, np.int32([1]), 2)
  np.testing.assert_array_equal(mixture, [[[0, 0, 1], [0, 0, 0]]])
  assert last.tolist() == [[2, 3]]


@CHECK
@given(seed=st.integers(0, 10_000), slots=st.integers(1, 8))
def test_mem_agent_has_a_fixed_size_and_mixes(seed, slots):
  inputs, moments = random_decisions(seed, 8)
  seen = mem_agent.view(inputs, moments, slots=slots)
  filled = np.minimum(inputs.num_visible, slots)
  np.testing.assert_array_equal(seen.inputs.num_visible, filled)
  np.testing.assert_array_equal(seen.inputs.num_accepted, filled)
  for e in range(8):
    low, high = inputs.pair_signals[e].min(0), inputs.pair_signals[e].max(0)
    held = seen.inputs.pair_signals[e, : filled[e]]
    assert (held >= low - 1e-6).all() and (held <= high + 1e-6).all()
    if inputs.num_visible[e] and slots == 1:  # the last to arrive was written last
      times = [-1 if c.observed_at is None else c.observed_at for c in moments[e].entries]
      assert times[seen.place[e, 0]] == max(times)
    if inputs.num_visible[e] <= slots:  # no need to mix: the entries in order of arrival
      where = seen.place[e, : filled[e]]
      np.testing.assert_array_equal(held, inputs.pair_signals[e, where])
