"""What a text encoder is: the protocol, what it returns, and the choice by name.

Owns the contract that `hashed.py` and `minilm.py` fulfil and that `cache.py` relies on.
Knows neither weights nor files. Runs on the host: arrays are NumPy, moved by the caller.

Axis legend: N texts, L token positions, D sentence size, D_t token size.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from tarl_jax.errors import InputError


class TextEncoding(NamedTuple):
  """Frozen features of N texts.

  The mask of a text is true for its first tokens and false after them. Rows of a text
  without any word may be all zero, in `sentence` too; every value is finite.
  """

  sentence: np.ndarray  # float32 [N, D], unit norm
  tokens: np.ndarray  # float16 [N, L, D_t], unit-norm token states, zeros where padded
  token_mask: np.ndarray  # bool [N, L]


class Encoder(Protocol):
  """A frozen text encoder.

  `encode` gives a text the same row whatever the other texts and their order. Any string
  is accepted, also an empty one, one beyond the last token, or one with a lone surrogate.
  """

  @property
  def name(self) -> str:
    """The name that `make_encoder` knows."""

  @property
  def dim(self) -> int:
    """Sentence size D."""

  @property
  def token_dim(self) -> int:
    """Token size D_t."""

  @property
  def max_tokens(self) -> int:
    """Token positions L; later tokens of a text still count in its sentence vector."""

  @property
  def fingerprint(self) -> str:
    """Usable as a file name; differs when weights, settings or the encoding code differ."""

  def encode(self, texts: Sequence[str]) -> TextEncoding:
    """Encodes N texts (N may be 0), in the order given."""


def empty_encoding(encoder: Encoder, num_texts: int) -> TextEncoding:
  """All-zero, all-masked rows for `num_texts` texts, to be filled in place."""
  return TextEncoding(
    sentence=np.zeros((num_texts, encoder.dim), np.float32),
    tokens=np.zeros((num_texts, encoder.max_tokens, encoder.token_dim), np.float16),
    token_mask=np.zeros((num_texts, encoder.max_tokens), np.bool_),
  )


def _make_hashed(weights: str | None) -> Encoder:
  from tarl_jax.models import hashed

  if weights:
    raise InputError(f"encoder hashed has no weights, found '{weights}'; leave them unset.")
  return hashed.HashedEncoder()


def _make_minilm(weights: str | None) -> Encoder:
  from tarl_jax.models import minilm

  return minilm.load_encoder(weights)


# Imported when chosen: `hashed` must work where the extra of `minilm` is not installed.
ENCODERS: dict[str, Callable[[str | None], Encoder]] = {
  "hashed": _make_hashed,
  "minilm": _make_minilm,
}


def make_encoder(name: str, weights: str | None = None) -> Encoder:
  """The encoder called `name` (see ENCODERS).

  Args:
    name: `hashed` (no weights, words only) or `minilm` (all-MiniLM-L6-v2).
    weights: folder with the weights; None or empty looks where the encoder usually finds
      them (see `minilm.find_weights`).

  Raises:
    InputError: for an unknown name, and for weights that are missing or damaged.
  """
  if name not in ENCODERS:
    raise InputError(f"encoder '{name}' is unknown; choose one of {', '.join(ENCODERS)}.")
  return ENCODERS[name](weights)
