"""Late interaction against a loop over words in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tarl_jax.models import interaction as module
from tarl_jax.models.encoder import TextEncoding
from tarl_jax.models.interaction import INTERACTION_SIGNALS, interaction_signals

L, SIZE = 5, 6


def random_encoding(lengths: list[int], seed: int = 0) -> TextEncoding:
  rng = np.random.default_rng(seed)
  number = len(lengths)
  tokens = rng.normal(size=(number, L, SIZE)) + 0.8  # a common part, so that some words meet
  tokens /= np.linalg.norm(tokens, axis=-1, keepdims=True)
  mask = np.arange(L) < np.array(lengths)[:, None]
  sentence = rng.normal(size=(number, 4))
  sentence /= np.linalg.norm(sentence, axis=-1, keepdims=True)
  return TextEncoding(
    sentence=sentence.astype(np.float32),
    tokens=np.where(mask[..., None], tokens, 0).astype(np.float16),
    token_mask=mask,
  )


def plain_direction(words: np.ndarray, others: np.ndarray) -> list[float]:
  """How each word is met by its best counterpart, summed up word by word."""
  if not len(words):
    return [0.0] * 5
  met = sorted(max((float(w @ o) for o in others), default=0.0) for w in words)
  second = met[1] if len(met) > 1 else met[0]
  weakly, unmet = (sum(m < limit for m in met) / len(met) for limit in (0.7, 0.45))
  return [sum(met) / len(met), met[0], second, weakly, unmet]


def plain_signals(encoding: TextEncoding, left: int, right: int) -> list[float]:
  words = [
    encoding.tokens[row][encoding.token_mask[row]].astype(np.float32) for row in (left, right)
  ]
  cosine = float(encoding.sentence[left] @ encoding.sentence[right])
  return [cosine, *plain_direction(*words), *plain_direction(*words[::-1])]


def test_signals_equal_a_loop_over_words():
  encoding = random_encoding([5, 3, 1, 2, 0, 4])
  pairs = np.array([(a, b) for a in range(6) for b in range(6)])
  found = interaction_signals(encoding, pairs)
  assert found.shape == (36, len(INTERACTION_SIGNALS)) and found.dtype == np.float32
  for row, (left, right) in zip(found, pairs):
    np.testing.assert_allclose(row, plain_signals(encoding, left, right), atol=2e-6)
  assert 0 < (found[:, INTERACTION_SIGNALS.index("candidate_weakly_met")] > 0).sum() < 36


def test_a_text_meets_itself_fully_and_the_two_directions_swap():
  encoding = random_encoding([5, 3, 4])
  itself = interaction_signals(encoding, np.array([(0, 0), (2, 2)]))
  np.testing.assert_allclose(itself[:, :4], 1.0, atol=2e-3)
  there, back = interaction_signals(encoding, np.array([(0, 1), (1, 0)]))
  np.testing.assert_array_equal(there[1:6], back[6:])
  np.testing.assert_array_equal(there[6:], back[1:6])
  assert np.abs(there[1:6] - there[6:]).max() > 1e-2


def test_garbage_beyond_the_last_word_changes_nothing():
  encoding = random_encoding([2, 3, 0])
  pairs = np.array([(0, 1), (1, 2), (2, 0)])
  garbage = np.where(encoding.token_mask[..., None], encoding.tokens, np.float16(9))
  np.testing.assert_array_equal(
    interaction_signals(encoding._replace(tokens=garbage), pairs),
    interaction_signals(encoding, pairs),
  )


@pytest.mark.parametrize("number", [0, 1, 255, 256, 257, 600])
def test_chunks_do_not_show(number):
  """More pairs than one chunk holds, exactly one chunk, and none at all."""
  encoding = random_encoding([5, 3, 1, 2, 0, 4])
  pairs = np.random.default_rng(number).integers(0, 6, (number, 2))
  found = interaction_signals(encoding, pairs)
  table = interaction_signals(encoding, np.array([(a, b) for a in range(6) for b in range(6)]))
  np.testing.assert_array_equal(found, table[pairs[:, 0] * 6 + pairs[:, 1]])


def test_one_token_position_is_enough():
  shapes = [jax.ShapeDtypeStruct((1, SIZE), jnp.float16), jax.ShapeDtypeStruct((1,), jnp.bool_)]
  out = jax.eval_shape(module.interaction, tuple(shapes), tuple(shapes))
  assert out.shape == (len(INTERACTION_SIGNALS) - 1,)
