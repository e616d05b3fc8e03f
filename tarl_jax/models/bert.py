"""A BERT in JAX: the files of a folder, checked, and the forward pass over token ids.

Owns how weights, sizes and tokenizer are read and what the layers compute. Any folder of the
family works (BERT layout, exact GELU, absolute positions; tensor names bare or under `bert.`):
all sizes come from its `config.json`. Knows no text feature: `minilm.py` makes vectors of one
text from it, `cross_encoder.py` relations of two.

Axis legend: V vocabulary, P positions, S types, D hidden, F inner, N layers, T padded length.
"""

import hashlib
import importlib.util
import json
import pathlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tarl_jax.errors import InputError

FILES = ("config.json", "model.safetensors", "tokenizer.json")
_PREFIX = "bert."  # before the tensors' names where a model was saved with a head
_LARGEST = 1e4  # a weight beyond it is a damaged one; the published ones stay below 10

Params = dict[str, Any]


class Bert(NamedTuple):
  """What a folder holds."""

  params: Params  # NumPy float32; see `_read_params`
  tokenizer: Any  # tokenizers.Tokenizer that neither pads nor truncates
  sizes: dict[str, Any]  # the numbers of config.json that the forward pass needs
  digest: str  # of the bytes of the files


def require_libraries() -> None:
  """Stops with an InputError where a library that the files need is not installed."""
  for library in ("safetensors", "tokenizers"):
    if importlib.util.find_spec(library) is None:
      raise InputError(f"encoder minilm needs {library}; run `pip install 'tarl_jax[minilm]'`.")


def read_bert(folder: pathlib.Path) -> Bert:
  """Reads and checks the FILES of `folder`; call `require_libraries` first.

  Raises:
    InputError: where a file cannot be read or is damaged.
  """
  paths = [folder / name for name in FILES]
  try:
    data = [path.read_bytes() for path in paths]
  except OSError as error:
    raise InputError(f"{folder}: cannot be read ({error.strerror}); check the files.") from None
  digest = hashlib.blake2b(digest_size=12)
  for part in data:
    digest.update(hashlib.blake2b(part).digest())
  sizes = _read_sizes(data[0], paths[0])
  params = _read_params(_Tensors(data[1], paths[1]), sizes)
  tokenizer = _read_tokenizer(data[2], paths[2], sizes)
  return Bert(params, tokenizer, sizes, digest.hexdigest())


class _Tensors:
  """The tensors of a safetensors file, taken one by one under checks."""

  def __init__(self, data: bytes, path: pathlib.Path):
    from safetensors import numpy as safetensors_numpy

    self._path = path
    try:
      tensors = safetensors_numpy.load(data)
    except Exception as error:  # safetensors and NumPy raise by many names
      raise self._damaged(f"cannot be read ({error})") from error
    self._tensors = {name.removeprefix(_PREFIX): value for name, value in tensors.items()}

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


def _read_params(tensors: _Tensors, sizes: dict[str, Any]) -> Params:
  """`embed` and `layers`, float32; the layers are stacked on a leading axis [N] for the scan."""
  hidden, inner = sizes["hidden_size"], sizes["intermediate_size"]
  layers = []
  for index in range(sizes["num_hidden_layers"]):
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
  positions, types = sizes["max_position_embeddings"], sizes["type_vocab_size"]
  embed = {
    "word": tensors.take(at + "word_embeddings.weight", sizes["vocab_size"], hidden),
    "position": tensors.take(at + "position_embeddings.weight", positions, hidden),
    "type": tensors.take(at + "token_type_embeddings.weight", types, hidden),
    "norm": tensors.norm(at + "LayerNorm", hidden),
  }
  return {"embed": embed, "layers": jax.tree.map(lambda *leaves: np.stack(leaves), *layers)}


def dense(params: Params, x: jax.Array) -> jax.Array:
  """`x` [T, inputs] through a kernel [inputs, outputs] and a bias; float32 [T, outputs]."""
  return x @ params["kernel"] + params["bias"][None, :]


def _norm(params: Params, x: jax.Array, eps: float) -> jax.Array:
  centred = x - x.mean(-1, keepdims=True)
  scaled = centred * jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + eps)
  return scaled * params["scale"][None, :] + params["bias"][None, :]


def embed(
  params: Params, ids: jax.Array, types: jax.Array | None = None, *, eps: float
) -> jax.Array:
  """What enters the first layer, float32 [T, D]. Unbatched.

  Args:
    params: `embed` of `Bert.params`.
    ids: token ids, int32 [T].
    types: which text each token is of, int32 [T]; None: all of the first.
    eps: added to the variance in every layer norm.
  """
  type_rows = params["type"][0][None, :] if types is None else params["type"][types]
  x = params["word"][ids] + params["position"][: ids.shape[0]] + type_rows
  return _norm(params["norm"], x, eps)


def run_layers(
  layers: Params, x: jax.Array, length: jax.Array, *, num_heads: int, eps: float
) -> jax.Array:
  """`x` float32 [T, D] after the layers, same shape. Unbatched.

  Args:
    layers: `layers` of `Bert.params`, or a run of them along their leading axis.
    x: states; rows from `length` on are attended by none of the others.
    length: tokens that count, int32 [].
    num_heads: attention heads; divides D.
    eps: as for `embed`.
  """
  valid = jnp.arange(x.shape[0], dtype=jnp.int32) < length
  bias = jnp.where(valid, 0.0, jnp.finfo(jnp.float32).min)[None, None, :]

  def heads(x: jax.Array) -> jax.Array:  # [T, D] -> [heads, T, D / heads]
    return x.reshape(x.shape[0], num_heads, -1).swapaxes(0, 1)

  def layer(x: jax.Array, p: Params) -> tuple[jax.Array, None]:
    query, key, value = (heads(dense(p[name], x)) for name in ("query", "key", "value"))
    scores = query @ key.swapaxes(1, 2) / np.float32(np.sqrt(query.shape[-1]))
    mixed = jax.nn.softmax(scores + bias, axis=-1) @ value
    mixed = dense(p["mix"], mixed.swapaxes(0, 1).reshape(x.shape))
    x = _norm(p["mix_norm"], x + mixed, eps)
    inner = jax.nn.gelu(dense(p["widen"], x), approximate=False)
    return _norm(p["out_norm"], x + dense(p["narrow"], inner), eps), None

  return jax.lax.scan(layer, x, layers)[0]


def _read_sizes(data: bytes, path: pathlib.Path) -> dict[str, Any]:
  try:
    config = json.loads(data)
    names = "hidden_size intermediate_size num_hidden_layers num_attention_heads".split()
    names += "max_position_embeddings vocab_size type_vocab_size".split()
    sizes: dict[str, Any] = {name: int(config[name]) for name in names}
    sizes["layer_norm_eps"] = float(config["layer_norm_eps"])
  except (ValueError, KeyError, TypeError) as error:
    raise InputError(f"{path}: is not a BERT config ({error!r}); restore the file.") from None
  if min(sizes.values()) <= 0 or sizes["hidden_size"] % sizes["num_attention_heads"]:
    raise InputError(f"{path}: sizes must be positive and heads divide the hidden size.")
  if config.get("hidden_act") != "gelu":
    raise InputError(f"{path}: field 'hidden_act' must be 'gelu', the activation built in here.")
  return sizes


def _read_tokenizer(data: bytes, path: pathlib.Path, sizes: dict[str, Any]) -> Any:
  import tokenizers

  try:
    tokenizer = tokenizers.Tokenizer.from_str(data.decode("utf-8"))
  except Exception as error:  # tokenizers raises plain Exception
    raise InputError(f"{path}: is not a tokenizer file ({error}); restore it.") from None
  if tokenizer.get_vocab_size() > sizes["vocab_size"]:
    raise InputError(f"{path}: has more tokens than config.json says; take both from one model.")
  tokenizer.no_padding()  # the published file pads to 128 and cuts there
  tokenizer.no_truncation()
  return tokenizer
