"""A pytree of arrays in one file that is checked when read.

Owns the format: one line with the digest of all that follows, one line of JSON that says what
the arrays are of, then the leaves in the order of the tree as an `.npz`. Knows no model.
"""

import hashlib
import io
import json
import pathlib
from typing import Any

import jax
import numpy as np

from tarl_jax.errors import InputError
from tarl_jax.files import replace_file


def save_tree(path: pathlib.Path, tree: Any, about: str) -> None:
  """Writes the leaves of `tree`; the file holds the old or the new content at any time.

  Args:
    path: its folder must exist.
    tree: NumPy or JAX arrays.
    about: what the arrays are of, compared when read.

  Raises:
    InputError: where it cannot be written; what was there is unchanged.
  """
  buffer = io.BytesIO()
  np.savez(buffer, *map(np.asarray, jax.tree.leaves(tree)))
  content = json.dumps(about).encode() + b"\n" + buffer.getvalue()
  replace_file(path, _digest(content) + b"\n" + content)


def load_tree(path: pathlib.Path, like: Any, about: str) -> Any:
  """What `save_tree` wrote, NumPy leaves in the structure of `like`.

  Args:
    path: the file.
    like: a tree of the same structure, shapes and dtypes; its values are not read.
    about: what the arrays should be of.

  Raises:
    InputError: in one sentence, if the file is missing, damaged or of something else.
  """
  try:
    data = path.read_bytes()
  except OSError as error:
    raise InputError(
      f"{path}: cannot be read ({error.strerror}); train into this workdir again."
    ) from None
  digest, _, content = data.partition(b"\n")
  if digest != _digest(content):
    raise InputError(f"{path}: does not match its digest; delete it and train again.")
  found, _, arrays = content.partition(b"\n")
  if json.loads(found) != about:
    raise InputError(
      f"{path}: is of another run (other settings, data or weights); choose another workdir or "
      "delete it."
    )
  with np.load(io.BytesIO(arrays), allow_pickle=False) as stored:
    leaves = [stored[name] for name in stored.files]
  wanted, structure = jax.tree.flatten(like)
  if [(x.shape, x.dtype) for x in leaves] != [(x.shape, x.dtype) for x in wanted]:
    raise InputError(f"{path}: holds arrays of other shapes; delete it and train again.")
  return jax.tree.unflatten(structure, leaves)


def _digest(content: bytes) -> bytes:
  return hashlib.blake2b(content, digest_size=16).hexdigest().encode()
