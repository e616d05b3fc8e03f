"""The encoder without weights: words hashed into random signs.

Owns word splitting and the two feature sizes. Knows no language model: it sees which words
and word parts two texts share, so it stands in for MiniLM where weights are not at hand
and is the baseline that a learned encoder has to beat.

Every feature (a word, a part of a word, a pair of words) is a vector of +1 and -1 drawn by
BLAKE2b from its spelling. Sums of them are exact in floating point, so a text has the same
bytes in every process and whatever the machine sums first.
"""

import functools
import hashlib
import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tarl_jax.models.encoder import TextEncoding, empty_encoding

SENTENCE_DIM = 256
TOKEN_DIM = 128
MAX_TOKENS = 48
_CODE_VERSION = 1  # raise it whenever a text may get other values than before

# Powers of two keep the sums exact.
_STOP_WEIGHT = 0.125
_PAIR_WEIGHT = 0.5
_CACHED_WORDS = 50_000  # about 1.5 KB each

# "ca" and "wo" are what is left of can't and won't. Negations are content.
_STOP_WORDS = frozenset(
  "a an the this that these those is are was were be been being am do does did have has had "
  "i me my mine we us our you your he him his she her it its they them their of to in on at "
  "by for with from as and or but so if then than there here will would can could shall "
  "should may might ca wo".split()
)

# Scripts without spaces give one token a character; combining marks stay in their word.
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_MARKS = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0963\u0966-\u0dff\u0e30-\u0e4e"
_TOKEN = re.compile(
  rf"[{_CJK}]"
  r"|(?<![^\W_])-?\d+(?:[.,:/-]\d+)*"  # 12, -3.5, 18:30, 2031-04-09
  rf"|(?:(?![{_CJK}])[^\W_]|[{_MARKS}])+"
  r"|[$€£¥%+#&°]"
  r"|[\u2190-\u2bff\U0001f000-\U0001faff]"  # arrows, pictures
)
_NOT = re.compile(r"n['’]t\b")
_POSSESSIVE = re.compile(r"['’]s\b")


def split_words(text: str) -> list[str]:
  """Lower-case words, numbers, CJK characters and symbols of a text, in order."""
  text = unicodedata.normalize("NFKC", text).casefold()
  if "'" in text or "’" in text:
    text = _POSSESSIVE.sub("", _NOT.sub(" not", text))
  return _TOKEN.findall(text)


def stem(word: str) -> str:
  """The word without a common English ending: moves, moved and moving give `mov`."""
  if len(word) < 4 or not word.isascii() or not word.isalpha():
    return word
  if word.endswith(("ies", "ied")):
    return word[:-3] + "y"
  for ending in ("ing", "ed", "es", "s", "e"):
    rest = word.removesuffix(ending)
    if rest == word or len(rest) < 3 or not re.search("[aeiouy]", rest):
      continue
    if ending == "s" and rest[-1] in "siu":
      return word
    if ending in ("ing", "ed") and rest[-1] == rest[-2] and rest[-1] not in "lsfz":
      return rest[:-1]
    return rest
  return word


def _signs(features: Sequence[str], dim: int) -> np.ndarray:
  """float32 [len(features), dim] of +1 and -1; each row depends on its spelling only."""
  digests = b"".join(
    hashlib.blake2b(feature.encode(), digest_size=dim // 8).digest() for feature in features
  )
  bits = np.unpackbits(np.frombuffer(digests, np.uint8)).reshape(len(features), dim)
  return 2.0 * bits.astype(np.float32) - 1.0


def _unit(vector: np.ndarray) -> np.ndarray:
  """float64 unit vector of a sum of signs, which is never zero."""
  vector = vector.astype(np.float64)
  return vector / np.sqrt(vector @ vector)


class _Word(NamedTuple):
  state: np.ndarray  # float16 [1, D_t], unit norm
  signs: np.ndarray  # float32 [1, D], +weight or -weight


@functools.lru_cache(maxsize=_CACHED_WORDS)
def _word(word: str) -> _Word:
  """A word by its stem and, for the token state, its 3- to 5-character parts."""
  root = stem(word)
  marked = f"<{word}>"
  parts = [marked[i : i + n] for n in (3, 4, 5) for i in range(len(marked) - n + 1)]
  parts_sum = _signs(parts or [marked], TOKEN_DIM).sum(0)
  # Scaled to the length of the sum, so that the stem and the parts weigh about the same.
  root_signs = round(max(1, len(parts)) ** 0.5) * _signs([f"={root}"], TOKEN_DIM)[0]
  return _Word(
    state=_unit(parts_sum + root_signs).astype(np.float16)[None],
    signs=_signs([root], SENTENCE_DIM) * (_STOP_WEIGHT if word in _STOP_WORDS else 1.0),
  )


def _sentence(words: Sequence[_Word]) -> np.ndarray:
  """float32 [D]: weighted sum of words and of neighbouring pairs, unit norm.

  The signs of a pair are the product of its words' signs, taken one place apart, so that
  `a b` and `b a` differ.
  """
  signs = np.concatenate([word.signs for word in words])
  total = signs.sum(0)
  total[1:] += _PAIR_WEIGHT * (signs[:-1, 1:] * signs[1:, :-1]).sum(0)
  return _unit(total).astype(np.float32)


class HashedEncoder:
  """The protocol `Encoder` by hashing. A text without a word gives zeros and no token."""

  name = "hashed"
  dim = SENTENCE_DIM
  token_dim = TOKEN_DIM
  max_tokens = MAX_TOKENS
  fingerprint = f"hashed-v{_CODE_VERSION}-{SENTENCE_DIM}-{TOKEN_DIM}-{MAX_TOKENS}"

  def encode(self, texts: Sequence[str]) -> TextEncoding:
    """See `Encoder.encode`. Host only, no JAX."""
    encoding = empty_encoding(self, len(texts))
    for row, text in enumerate(texts):
      words = [_word(word) for word in split_words(text)]
      if not words:
        continue
      kept = words[:MAX_TOKENS]
      encoding.sentence[row] = _sentence(words)
      np.concatenate([word.state for word in kept], out=encoding.tokens[row, : len(kept)])
      encoding.token_mask[row, : len(kept)] = True
    return encoding
