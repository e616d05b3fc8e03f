"""Retrieval by similarity and worth: what comes first, and that all come up at times."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tarl_jax.retrieval import priority, retrieve, suppressed

SIZE, NUM, FLOOR = 8, 3, 0.04
DRAWS = 20_000

draw = jax.jit(
  jax.vmap(
    functools.partial(retrieve, num=NUM, floor=FLOOR), in_axes=(0, None, None, None)
  )
)  # fmt: skip
SCORE = np.asarray([0.2, 0.9, -3.5, 0.7, 0.1, 0.8, 0.3, 0.75], np.float32)
BEST_FIRST = [1, 5, 7, 3, 6, 0, 4, 2]
IDS = np.arange(30, 30 + SIZE, dtype=np.int32)


def draws(score=SCORE, visible=None, ids=IDS, seed: int = 0):
  keys = jax.random.split(jax.random.key(seed), DRAWS)
  visible = np.ones(SIZE, bool) if visible is None else np.asarray(visible)
  return jax.device_get(draw(keys, jnp.asarray(score), jnp.asarray(visible), jnp.asarray(ids)))


def test_every_candidate_comes_up_as_often_as_its_probability_says():
  places, probability = draws()
  assert (probability == probability[0]).all()
  found = np.bincount(places.ravel(), minlength=SIZE) / DRAWS
  np.testing.assert_allclose(found, probability[0], atol=0.012)
  rest = BEST_FIRST[NUM:]
  np.testing.assert_allclose(probability[0][rest], FLOOR, rtol=1e-5)
  # What the others gain, the three best lose in equal parts.
  lost = FLOOR * (SIZE - NUM) / NUM
  np.testing.assert_allclose(probability[0][BEST_FIRST[:NUM]], 1 - lost, rtol=1e-5)
  assert (np.sort(places, -1)[:, 1:] != np.sort(places, -1)[:, :-1]).all()  # none twice


def test_the_same_key_draws_the_same_and_mostly_the_best():
  places, _ = draws(seed=1)
  np.testing.assert_array_equal(places, draws(seed=1).places)
  assert (places == BEST_FIRST[:NUM]).all(-1).mean() > 0.75
  assert (places != draws(seed=2).places).any()


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4])
def test_only_visible_candidates_come_and_few_all_come(count):
  shown = [0, 2, 4, 6][:count]
  visible = np.isin(np.arange(SIZE), shown)
  places, probability = draws(visible=visible)
  assert set(np.unique(places)) <= {*shown, SIZE}
  assert (probability[:, ~visible] == 0).all()
  if count <= NUM:
    assert (probability[:, visible] == 1).all()
    assert (np.sort(places, -1) == sorted(shown) + [SIZE] * (NUM - count)).all()
  else:
    np.testing.assert_allclose(probability[0].sum(), NUM, rtol=1e-5)


def test_no_slot_decides_between_equal_scores():
  score, ids = np.zeros(SIZE, np.float32), np.asarray([7, 3, 9, 1, 8, 2, 6, 4], np.int32)
  for seed in range(3):
    order = np.random.default_rng(seed).permutation(SIZE)
    places, _ = draws(score, ids=ids[order])
    often = np.bincount(ids[order][places].ravel()).argsort()[-NUM:]
    assert set(often.tolist()) == {1, 2, 3}


def test_a_score_that_is_no_number_never_comes_first():
  score = SCORE.copy()
  score[1] = np.nan
  places, probability = draws(score)
  np.testing.assert_allclose(probability[0][1], FLOOR, rtol=1e-5)
  assert (places == [5, 7, 3]).all(-1).mean() > 0.75


def test_without_a_floor_it_is_the_plain_ranking():
  chosen = retrieve(
    jax.random.key(0), jnp.asarray(SCORE), jnp.ones(SIZE, bool), jnp.asarray(IDS), num=10, floor=0.0
  )
  assert chosen.places.tolist() == [*BEST_FIRST, SIZE, SIZE]
  assert chosen.probability.tolist() == [1.0] * SIZE


@pytest.mark.parametrize(("num", "floor"), [(0, 0.1), (1, -0.1), (1, 1.1), (1, float("nan"))])
def test_a_floor_or_number_out_of_range_is_refused(num, floor):
  with pytest.raises(ValueError, match=r"^give num"):
    retrieve(jax.random.key(0), SCORE, SCORE > 0, IDS, num=num, floor=floor)


def order_of(similarity, worth, hidden=None, margin=0.1) -> list[int]:
  hidden = np.zeros(len(worth), bool) if hidden is None else np.asarray(hidden)
  arrays = (np.asarray(similarity, np.float32), np.asarray(worth, np.float32), hidden)
  return np.argsort(-np.asarray(priority(*arrays, margin=margin)), kind="stable").tolist()


def test_worth_decides_between_near_equals_and_not_against_similarity():
  assert order_of([0.80, 0.82, 0.50], [0.9, 0.2, 1.0]) == [0, 1, 2]
  assert order_of([0.80, 0.82, 0.50], [0.9, 0.2, 1.0], margin=0.0) == [1, 0, 2]
  assert order_of([0.70, 0.82], [1.0, 0.0]) == [1, 0]  # further apart than the margin
  assert order_of([0.80, 0.80], [0.5, 0.6]) == [1, 0]


def test_what_is_suppressed_comes_last_however_similar():
  assert order_of([0.99, -1.0, 0.5, -0.9], [1, 0, 1, 0], [True, False, True, False], 1.0) == [
    3, 1, 0, 2
  ]  # fmt: skip
  assert order_of([np.nan, -0.99, 7.0, 0.99], [0.5, 0.5, 0.5, 0.5]) == [2, 3, 1, 0]


@pytest.mark.parametrize("margin", [-0.1, 1.1, float("nan")])
def test_a_margin_out_of_range_is_refused(margin):
  with pytest.raises(ValueError, match="margin"):
    order_of([0.1], [0.5], margin=margin)


def test_a_low_or_doubtful_claim_is_suppressed_unless_it_is_protected():
  doubtful, protected = np.zeros((2, 6), bool)
  doubtful[[1, 4]], protected[[2, 4]] = True, True
  ids = jnp.asarray([0, 1, 2, 3, 4, 5, 2**31 - 1])  # the last: a free slot
  low = jnp.asarray([False, False, True, True, False, False, False])
  found = suppressed(low, jnp.asarray(doubtful), jnp.asarray(protected), ids)
  assert found.tolist() == [False, True, False, True, False, False, False]
