"""The cross-encoder: tokens of a pair, scores whatever the neighbours, any BERT, its files."""

import json

import hypothesis
import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from small_bert import write_tiny

from tarl_jax.errors import InputError
from tarl_jax.models import cross_encoder as cross
from tarl_jax.models.cross_encoder import MAX_LENGTH, load_cross_encoder, pad_batch
from tarl_jax.models.pair_cache import score_cached
from tarl_jax.models.tree_file import load_tree, save_tree

LONG = "the red boat is in the harbour and the blue boat is at sea ".split() * 8
PAIRS = [
  ("the red boat", "the blue boat"),
  ("", ""),
  ("the boat is at sea", " ".join(LONG[:24])),
  (" ".join(LONG[:41]), "boat"),
  (" ".join(LONG), " ".join(LONG[:90])),
  ("\ud800 half a pair", "漢字 🙂"),
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
  return load_cross_encoder(
    write_tiny(tmp_path_factory.mktemp("tiny"), max_position_embeddings=128),
    frozen_layers=1,
    num_relations=3,
  )


@pytest.fixture(scope="module")
def params(tiny):
  return tiny.init(jax.random.key(3))


# Tokens.


def test_a_pair_is_framed_and_its_texts_told_apart(tiny):
  tokens = tiny.tokenize([("the red boat", "is odd"), ("", "sea")])
  np.testing.assert_array_equal(tokens.ids[0, :9], [2, 4, 5, 6, 3, 7, 1, 3, 0])
  np.testing.assert_array_equal(tokens.ids[1, :5], [2, 3, 13, 3, 0])
  assert tokens.length.tolist() == [8, 4] and tokens.first.tolist() == [5, 2]
  assert not tokens.ids[0, 8:].any() and tokens.ids.shape == (2, MAX_LENGTH)


@hypothesis.settings(derandomize=True, deadline=None, max_examples=200)
@hypothesis.given(st.integers(0, 90), st.integers(0, 90), st.integers(0, 60))
def test_the_longer_text_is_cut_first(first, second, room):
  one, two = first, second
  while one + two > room:
    one, two = (one - 1, two) if one > two else (one, two - 1)
  assert cross.kept_lengths(first, second, room) == (one, two)


def test_a_long_pair_keeps_the_beginning_of_both(tiny):
  tokens = tiny.tokenize([(" ".join(LONG), "sea at sea"), (" ".join(LONG), " ".join(LONG[1:]))])
  assert tokens.length.tolist() == [MAX_LENGTH, MAX_LENGTH]
  assert tokens.first.tolist() == [MAX_LENGTH - 4, 2 + 47]
  assert tokens.ids[0, -4:].tolist() == [13, 12, 13, 3]
  whole = tiny.tokenize([(" ".join(LONG[:60]), "")]).ids[0]
  np.testing.assert_array_equal(tokens.ids[1, :48], whole[:48])


# Scores.


def test_a_pair_scores_the_same_whatever_its_neighbours(tiny, params):
  many = PAIRS * 6
  together = tiny.score(params, many)
  assert together.shape == (36, 3) and together.dtype == np.float32
  np.testing.assert_allclose(np.exp(together).sum(1), 1, atol=1e-6)
  backwards = tiny.score(params, many[::-1])[::-1]
  assert together.tobytes() == np.ascontiguousarray(backwards).tobytes()
  for row, pair in enumerate(PAIRS):
    assert tiny.score(params, [pair])[0].tobytes() == together[row].tobytes()
  assert tiny.score(params, []).shape == (0, 3)


def score_padded(encoder, params, tokens, width, fill=0):
  """Of the first pair, in the shape of a full batch so that few programs are compiled."""
  batch = pad_batch(tokens, width, np.arange(1), 1024)
  ids = np.where(np.arange(width) < batch.length[:, None], batch.ids, fill)
  found = cross._score_batch(params, encoder.fixed, *batch._replace(ids=ids), **encoder.statics)
  return np.asarray(found[0])


def test_padding_has_no_effect(tiny, params):
  tokens = tiny.tokenize(PAIRS[:1])
  short, long = (score_padded(tiny, params, tokens, width) for width in (32, 48))
  np.testing.assert_allclose(long, short, atol=2e-6)
  np.testing.assert_array_equal(score_padded(tiny, params, tokens, 48, fill=9), long)


def test_the_order_of_a_pair_counts(tiny, params):
  one, other = tiny.score(params, [("the red boat", "at sea"), ("at sea", "the red boat")])
  assert np.abs(one - other).max() > 1e-3


def test_types_count_beside_places(tiny, params):
  tokens = tiny.tokenize([("the red boat", "sea")])
  moved = tokens._replace(first=tokens.first - 1)
  scores = [score_padded(tiny, params, some, 32) for some in (tokens, moved)]
  embed = tiny.fixed["embed"]
  alike = dict(tiny.fixed, embed=dict(embed, type=embed["type"][:1].repeat(2, 0)))
  blind = cross._score_batch(
    params, alike, *pad_batch(tokens, 32, np.arange(1), 1024), **tiny.statics
  )[0]
  assert np.abs(scores[0] - scores[1]).max() > 1e-3
  assert np.abs(scores[0] - blind).max() > 1e-3


@pytest.mark.parametrize("prefix", ["", "bert."])
def test_another_width_depth_and_vocabulary(tmp_path, prefix):
  words = "[SEP] [CLS] [PAD] [UNK] a b c d e f g h"
  sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 3, "vocab_size": 12}
  sizes["type_vocab_size"] = 1  # used for both texts
  folder = write_tiny(tmp_path, words, prefix, **sizes, max_position_embeddings=20)
  encoder = load_cross_encoder(folder, frozen_layers=0, num_relations=4)
  params = encoder.init(jax.random.key(0))
  assert params["layers"]["query"]["kernel"].shape == (3, 8, 8)
  assert encoder.tokenize([("a b", "h " * 40)]).length.tolist() == [20]  # its positions
  scores = encoder.score(params, [("a b", "c"), ("a b", "h " * 40)])
  assert scores.shape == (2, 4) and np.isfinite(scores).all()
  assert encoder.tokenize([("a", "h")]).ids[0, :6].tolist() == [1, 4, 0, 11, 0, 0]


def test_frozen_and_trained_layers_are_one_model(tmp_path):
  folder = write_tiny(tmp_path, max_position_embeddings=128)
  scores = []
  for frozen in (0, 1):
    encoder = load_cross_encoder(folder, frozen_layers=frozen, num_relations=3)
    params = encoder.init(jax.random.key(5))
    assert params["layers"]["query"]["kernel"].shape[0] == 2 - frozen
    scores.append(encoder.score(params, PAIRS[:1]))
  np.testing.assert_allclose(scores[1], scores[0], atol=1e-6)
  with pytest.raises(InputError, match="3 layers cannot be frozen of 2"):
    load_cross_encoder(folder, frozen_layers=3, num_relations=3)


def test_a_tokenizer_without_frame_is_refused(tmp_path):
  folder = write_tiny(tmp_path)
  path = folder / "tokenizer.json"
  path.write_text(json.dumps(json.loads(path.read_text()) | {"post_processor": None}))
  with pytest.raises(InputError, match=r"one special token before a text.*found 0"):
    load_cross_encoder(folder, frozen_layers=1, num_relations=3)


# Files.


def test_weights_come_back_equal_and_a_flipped_byte_is_refused(tmp_path, tiny, params):
  path = tmp_path / "weights"
  save_tree(path, params, "run 1")
  like = jax.eval_shape(tiny.init, jax.random.key(0))
  back = load_tree(path, like, "run 1")
  jax.tree.map(np.testing.assert_array_equal, back, params)
  assert tiny.score(back, PAIRS).tobytes() == tiny.score(params, PAIRS).tobytes()
  good = path.read_bytes()
  for place in (3, 36, 700, len(good) - 1):
    bad = bytearray(good)
    bad[place] ^= 1
    path.write_bytes(bad)
    with pytest.raises(InputError, match="weights: does not match its digest; delete it"):
      load_tree(path, like, "run 1")
  path.write_bytes(good)
  with pytest.raises(InputError, match="weights: is of another run"):
    load_tree(path, like, "run 2")
  with pytest.raises(InputError, match="arrays of other shapes"):
    load_tree(path, params["head"], "run 1")
  with pytest.raises(InputError, match="nowhere: cannot be read"):
    load_tree(tmp_path / "nowhere", like, "run 1")


def test_cache_gives_the_same_and_scores_nothing_twice(tmp_path, caplog):
  asked: list[tuple[str, str]] = []

  def score(pairs):
    asked.extend(pairs)
    return np.array([[len(a), len(b)] for a, b in pairs], np.float32)

  pairs = [("a", "bc"), ("ab", "c"), ("a", "bc"), ("\ud800", "")]
  wanted = [[1, 2], [2, 1], [1, 2], [1, 0]]
  assert score_cached(score, pairs, "m", None, 2).tolist() == wanted
  assert score_cached(score, pairs[:2], "m", tmp_path, 2).tolist() == wanted[:2]
  asked.clear()
  assert score_cached(score, pairs, "m", tmp_path, 2).tolist() == wanted
  assert asked == [("\ud800", "")]
  assert score_cached(score, [], "m", tmp_path, 2).shape == (0, 2)
  asked.clear()
  score_cached(score, pairs, "other model", tmp_path, 2)
  assert len(asked) == 3
  for path in (tmp_path / "m").glob("*.npz"):
    path.write_bytes(path.read_bytes()[:-1] + b"x")
  asked.clear()
  assert score_cached(score, pairs, "m", tmp_path, 2).tolist() == wanted
  assert len(asked) == 3 and "was damaged" in caplog.text
