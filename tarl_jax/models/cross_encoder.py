"""A BERT that reads two texts at once and says what one is to the other.

Owns how a pair becomes tokens, the forward pass to a score per relation, and the batches a
long list of pairs is scored in. Any folder that `bert.py` reads will do. Knows neither labels
nor training (`training/pairs.py`), and no cache (`pair_cache.py`).

    [CLS] candidate [SEP] entry [SEP]      the order says whose side a text is on
      0       0       0     1     1        types

    fixed = {embed, layers[:frozen]}       as published, never trained
    params = {layers[frozen:], head}       what is trained: the parameters of this module

Freezing the lower layers saves their backward pass, and the word embeddings, which are half
of all weights, would be the slow part of an optimizer step.

Axis legend: M pairs, T padded length, D hidden, R relations, B batch.
"""

import functools
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import tqdm

from tarl_jax.errors import InputError
from tarl_jax.models import bert
from tarl_jax.models.bert import Bert, Params, read_bert, require_libraries
from tarl_jax.models.minilm import find_weights

MAX_LENGTH = 96  # tokens of a pair with the three special ones
# As for single texts: a pair is padded to the first that holds it, whatever its neighbours.
BUCKETS = (32, 48, 64, 96)
_TOKENS_PER_BATCH = 1024
_CODE_VERSION = 1  # raise it whenever a pair may get other scores than before

Texts = tuple[str, str]  # (candidate, entry)


class PairTokens(NamedTuple):
  """Tokens of M pairs; NumPy int32."""

  ids: np.ndarray  # [M, MAX_LENGTH], 0 from `length` on
  length: np.ndarray  # [M], tokens with the special ones
  first: np.ndarray  # [M], tokens up to and with the [SEP] behind the candidate


def kept_lengths(first: int, second: int, room: int) -> tuple[int, int]:
  """Tokens kept of two texts in `room`: the longer is cut first, of equals the second."""
  kept = min(first, max(room - second, room - room // 2))
  return kept, min(second, room - kept)


def _features(states: jax.Array, length: jax.Array, first: jax.Array) -> jax.Array:
  """State of [CLS], mean of each text and their distance, float32 [4 D]."""
  places = jnp.arange(states.shape[0], dtype=jnp.int32)

  def mean(inside: jax.Array) -> jax.Array:
    return jnp.where(inside[:, None], states, 0.0).sum(0) / jnp.maximum(jnp.sum(inside), 1)

  candidate, entry = mean(places < first), mean((places >= first) & (places < length))
  return jnp.concatenate([states[0], candidate, entry, jnp.abs(candidate - entry)])


def pair_logits(
  params: Params,
  fixed: Params,
  ids: jax.Array,
  length: jax.Array,
  first: jax.Array,
  *,
  num_heads: int,
  eps: float,
) -> jax.Array:
  """A score per relation of one pair, float32 [R]. Unbatched.

  Args:
    params: see the head of this file.
    fixed: likewise.
    ids: int32 [T], anything from `length` on.
    length: int32 [], as in `PairTokens`.
    first: int32 [], likewise.
    num_heads: attention heads; divides D.
    eps: added to the variance in every layer norm.
  """
  num_types = fixed["embed"]["type"].shape[0]
  types = (jnp.arange(ids.shape[0], dtype=jnp.int32) >= first).astype(jnp.int32)
  with jax.default_matmul_precision("highest"):  # else GPUs round the factors to 10 bits
    x = bert.embed(fixed["embed"], ids, jnp.minimum(types, num_types - 1), eps=eps)
    for layers in (fixed["layers"], params["layers"]):
      x = bert.run_layers(layers, x, length, num_heads=num_heads, eps=eps)
    inner = jnp.tanh(bert.dense(params["head"]["inner"], _features(x, length, first)[None]))
    return bert.dense(params["head"]["relation"], inner)[0]


@functools.partial(jax.jit, static_argnames=("num_heads", "eps"))
def _score_batch(params, fixed, ids, length, first, *, num_heads: int, eps: float) -> jax.Array:
  """Log-probabilities float32 [B, R] of pairs with a leading [B]."""
  logits = functools.partial(pair_logits, num_heads=num_heads, eps=eps)
  return jax.nn.log_softmax(
    jax.vmap(logits, in_axes=(None, None, 0, 0, 0))(params, fixed, ids, length, first)
  )


class CrossEncoder:
  """Tokenizer and published weights; the trained ones are given to each call."""

  def __init__(self, read: Bert, frozen_layers: int, num_relations: int):
    sizes, layers = read.sizes, read.params["layers"]
    if not 0 <= frozen_layers <= sizes["num_hidden_layers"]:
      raise InputError(
        f"{frozen_layers} layers cannot be frozen of {sizes['num_hidden_layers']}; choose fewer."
      )
    self.fingerprint = (
      f"cross-v{_CODE_VERSION}-{MAX_LENGTH}-{frozen_layers}-{num_relations}-{read.digest}"
    )
    self.num_relations = num_relations
    self.statics = {"num_heads": sizes["num_attention_heads"], "eps": sizes["layer_norm_eps"]}
    lower = jax.tree.map(lambda leaf: leaf[:frozen_layers], layers)
    self.fixed: Params = jax.device_put({"embed": read.params["embed"], "layers": lower})
    self._upper = jax.tree.map(lambda leaf: leaf[frozen_layers:], layers)
    self._hidden = sizes["hidden_size"]
    self._limit = min(MAX_LENGTH, sizes["max_position_embeddings"])
    self._buckets = (*(size for size in BUCKETS if size < self._limit), self._limit)
    self._tokenizer = read.tokenizer
    self._frame = read.tokenizer.encode("").ids
    if len(self._frame) != 2:
      raise InputError(
        "the tokenizer must put one special token before a text and one behind it, found "
        f"{len(self._frame)} around an empty text; take a BERT's tokenizer.json."
      )

  def init(self, key: jax.Array) -> Params:
    """Published upper layers and a random head; float32. Consumes the key."""
    key_inner, key_relation = jax.random.split(key)
    make = jax.nn.initializers.lecun_normal()
    size, number = self._hidden, self.num_relations

    def fresh(key: jax.Array, inputs: int, outputs: int) -> Params:
      return {
        "kernel": make(key, (inputs, outputs), jnp.float32),
        "bias": jnp.zeros(outputs, jnp.float32),
      }

    head = {
      "inner": fresh(key_inner, 4 * size, size),
      "relation": fresh(key_relation, size, number),
    }
    return {"layers": jax.device_put(self._upper), "head": head}

  def tokenize(self, pairs: Sequence[Texts]) -> PairTokens:
    """Tokens of the pairs, each text read once; any string is accepted."""
    distinct = sorted({text for pair in pairs for text in pair})
    clean = [text.encode("utf-8", "replace").decode() for text in distinct]  # no lone surrogates
    encoded = self._tokenizer.encode_batch(clean, add_special_tokens=False)
    ids_of = {text: one.ids for text, one in zip(distinct, encoded)}
    ids = np.zeros((len(pairs), MAX_LENGTH), np.int32)
    length, first = np.zeros(len(pairs), np.int32), np.zeros(len(pairs), np.int32)
    start, end = self._frame
    for row, (candidate, entry) in enumerate(pairs):
      one, two = ids_of[candidate], ids_of[entry]
      kept, kept_entry = kept_lengths(len(one), len(two), self._limit - 3)
      tokens = [start, *one[:kept], end, *two[:kept_entry], end]
      ids[row, : len(tokens)] = tokens
      length[row], first[row] = len(tokens), kept + 2
    return PairTokens(ids, length, first)

  def batches(
    self, lengths: np.ndarray, order: np.ndarray, batch_tokens: int
  ) -> list[tuple[int, np.ndarray]]:
    """(padded length, rows) of batches that hold the rows of `order` in that order.

    Args:
      lengths: int [M], of `tokenize`.
      order: int, rows to take.
      batch_tokens: a batch of a bucket has `batch_tokens // bucket` rows, the last one fewer.
    """
    widths = np.asarray(self._buckets)[np.searchsorted(self._buckets, lengths[order])]
    found = []
    for width in self._buckets:
      rows = order[widths == width]
      size = max(1, batch_tokens // width)
      found += [(width, rows[start : start + size]) for start in range(0, len(rows), size)]
    return found

  def score(
    self, params: Params, pairs: Sequence[Texts], *, show_progress: bool = False
  ) -> np.ndarray:
    """Log-probability of each relation of each pair, float32 [M, R], M may be 0.

    A pair has the same bytes whatever the other pairs. (a, b) and (b, a) differ: a relation
    has a candidate and an entry.
    """
    tokens, params = self.tokenize(pairs), jax.device_put(params)
    out = np.zeros((len(pairs), self.num_relations), np.float32)
    with tqdm.tqdm(total=len(pairs), unit="pair", disable=not show_progress) as bar:
      for width, rows in self.batches(tokens.length, np.arange(len(pairs)), _TOKENS_PER_BATCH):
        batch = jax.device_put(pad_batch(tokens, width, rows, _TOKENS_PER_BATCH))
        found = _score_batch(params, self.fixed, *batch, **self.statics)
        out[rows] = np.asarray(found)[: len(rows)]
        bar.update(len(rows))
    return out


def pad_batch(tokens: PairTokens, width: int, rows: np.ndarray, batch_tokens: int) -> PairTokens:
  """The rows cut to `width` and padded to the size of a full batch by pairs of length 0."""
  size = max(1, batch_tokens // width)
  padded = PairTokens(np.zeros((size, width), np.int32), *np.zeros((2, size), np.int32))
  padded.ids[: len(rows)] = tokens.ids[rows, :width]
  padded.length[: len(rows)], padded.first[: len(rows)] = tokens.length[rows], tokens.first[rows]
  return padded


def load_cross_encoder(
  weights: str | pathlib.Path | None = None, *, frozen_layers: int, num_relations: int
) -> CrossEncoder:
  """A cross-encoder on the weights of `find_weights(weights)`: MiniLM, or any BERT's folder.

  Args:
    weights: folder with config.json, model.safetensors and tokenizer.json.
    frozen_layers: layers, from the bottom, that stay as published.
    num_relations: R.

  Raises:
    InputError: where a library or the weights are missing, a file is damaged, or the model
      has fewer layers.
  """
  require_libraries()
  return CrossEncoder(read_bert(find_weights(weights)), frozen_layers, num_relations)
