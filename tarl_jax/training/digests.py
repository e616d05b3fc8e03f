"""What is checked of a stored pytree: its form on disk, one digest a leaf, a seal.

Owns how a leaf becomes bytes and comes back. Knows no file and no Orbax.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tarl_jax.errors import InputError

PyTree = Any


def _is_key(leaf: Any) -> bool:
  return hasattr(leaf, "dtype") and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _signature(leaf: Any) -> str:
  """Dtype and shape as text, e.g. bfloat16[3, 2]; a typed key is key<fry>[]."""
  if not hasattr(leaf, "dtype"):
    leaf = np.asarray(leaf)
  return f"{leaf.dtype}{list(leaf.shape)}"


def to_stored(tree: PyTree) -> PyTree:
  """Host copies of the leaves; a typed PRNG key becomes its uint32 key data."""
  return jax.tree.map(lambda x: np.array(jax.random.key_data(x) if _is_key(x) else x), tree)


def _hash(stored: np.ndarray) -> str:
  return hashlib.blake2b(np.ascontiguousarray(stored).tobytes(), digest_size=16).hexdigest()


def leaf_digests(tree: PyTree) -> dict[str, str]:
  """Path of each leaf to `<hash of the bytes>:<dtype><shape>`.

  Typed PRNG keys are hashed as key data and named by their own dtype. Leaves come to the host.
  """
  stored = jax.tree.leaves(to_stored(tree))
  return {
    jax.tree_util.keystr(path): f"{_hash(data)}:{_signature(leaf)}"
    for (path, leaf), data in zip(jax.tree_util.tree_leaves_with_path(tree), stored, strict=True)
  }


def find_difference(leaves: Mapping[str, str], like: PyTree, stored: PyTree) -> str | None:
  """Path of the first leaf of `stored` that is not the one digested in `leaves`, or None.

  `stored` has the form that `to_stored` gives to a state like `like`.
  """
  paths = jax.tree_util.tree_leaves_with_path(like)
  for (path, leaf), data in zip(paths, jax.tree.leaves(stored), strict=True):
    name = jax.tree_util.keystr(path)
    same_kind = _signature(data) == _signature(abstract(leaf))
    if not same_kind or leaves.get(name) != f"{_hash(data)}:{_signature(leaf)}":
      return name
  return None


def abstract(leaf: Any) -> np.ndarray:
  """What Orbax needs to know of a leaf that was stored by `to_stored`; takes no memory."""
  if _is_key(leaf):
    leaf = jax.eval_shape(jax.random.key_data, leaf)
  elif not hasattr(leaf, "dtype"):
    leaf = np.asarray(leaf)
  return np.broadcast_to(np.zeros((), leaf.dtype), leaf.shape)


def from_stored(like: Any, stored: np.ndarray) -> Any:
  """The stored leaf in the kind (NumPy, JAX, typed key) and on the devices of `like`."""
  if not isinstance(like, jax.Array | jax.ShapeDtypeStruct):
    return stored
  if _is_key(like):
    impl = jax.random.key_impl(jnp.empty((), like.dtype))
    return jax.random.wrap_key_data(jnp.asarray(stored), impl=impl)
  restored = jax.device_put(stored, like.sharding)
  assert restored.dtype == like.dtype, "a 64-bit leaf needs jax_enable_x64"
  return restored


def seal(record: Mapping[str, Any]) -> str:
  """Digest of a JSON object, the same after it was written and read."""
  text = json.dumps(record, sort_keys=True)
  return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def check_like(leaves: Mapping[str, str], like: PyTree, where: str) -> None:
  """Stops where structure, shapes or dtypes of `like` are not those that were saved."""
  saved = {path: digest.partition(":")[2] for path, digest in leaves.items()}
  wanted = {
    jax.tree_util.keystr(path): _signature(leaf)
    for path, leaf in jax.tree_util.tree_leaves_with_path(like)
  }
  for path in [*wanted, *saved]:
    if wanted.get(path) != saved.get(path):
      raise InputError(
        f"{where}: leaf {path} is {saved.get(path, 'absent')} in the checkpoint and "
        f"{wanted.get(path, 'absent')} in this run; the code has changed since, so choose "
        "another workdir."
      )
