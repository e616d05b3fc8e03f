"""Scores of pairs on disk: every pair is scored once a model, also across runs.

Owns the shard files; knows a model only by its fingerprint and the function that scores.

    cache_dir/
      <fingerprint>/              another model, weights or code version: another folder
        <digest>.npz              one shard: up to CHUNK pairs, never changed once written
          keys        uint8   [n, 16]   BLAKE2b of both texts
          scores      float32 [n, R]

As in `cache.py` a shard is named by the digest of its bytes and appears complete or not at
all: an interrupted run goes on behind its last shard, and a damaged one is seen and dropped.
"""

import hashlib
import io
import logging
import pathlib
import zipfile
from collections.abc import Callable, Sequence

import numpy as np
import tqdm

from tarl_jax.errors import InputError
from tarl_jax.files import replace_file

CHUNK = 2048
_KEY_SIZE = 16

_log = logging.getLogger(__name__)


def score_cached(
  score: Callable[[Sequence[tuple[str, str]]], np.ndarray],
  pairs: Sequence[tuple[str, str]],
  fingerprint: str,
  cache_dir: str | pathlib.Path | None,
  num_relations: int,
) -> np.ndarray:
  """`score(pairs)`, equal to the byte, with what the cache holds not scored again.

  Args:
    score: pairs -> float32 [n, R], the same for a pair whatever the others.
    pairs: M pairs, M may be 0; equal ones are scored once.
    fingerprint: of the model, usable as a file name.
    cache_dir: folder of the cache, made if absent; None leaves the disk alone.
    num_relations: R.

  Returns:
    float32 [M, R].

  Raises:
    InputError: where the cache can be neither read nor written.
  """
  found: dict[bytes, np.ndarray] = {}
  keys = [_key(pair) for pair in pairs]
  folder = None if cache_dir is None else _open_folder(pathlib.Path(cache_dir) / fingerprint)
  for path in sorted(folder.glob("*.npz")) if folder is not None else ():
    found.update(_read_shard(path, num_relations))
  todo = {key: pair for key, pair in zip(keys, pairs) if key not in found}
  # The longest first: neighbours then share a padded length, and the bar only speeds up.
  order = sorted(todo, key=lambda key: -sum(map(len, todo[key])))
  with tqdm.tqdm(total=len(order), unit="pair", disable=len(order) < CHUNK) as bar:
    for start in range(0, len(order), CHUNK):
      chunk = order[start : start + CHUNK]
      scores = score([todo[key] for key in chunk])
      assert scores.shape == (len(chunk), num_relations) and scores.dtype == np.float32
      if folder is not None:
        _write_shard(folder, chunk, scores)
      found.update(zip(chunk, scores))
      bar.update(len(chunk))
  return np.array([found[key] for key in keys], np.float32).reshape(len(keys), num_relations)


def _key(pair: tuple[str, str]) -> bytes:
  parts = [text.encode("utf-8", "surrogatepass") for text in pair]
  content = len(parts[0]).to_bytes(8, "little") + parts[0] + parts[1]
  return hashlib.blake2b(content, digest_size=_KEY_SIZE).digest()


def _digest(data: bytes) -> str:
  return hashlib.blake2b(data, digest_size=20).hexdigest()


def _open_folder(folder: pathlib.Path) -> pathlib.Path:
  try:
    folder.mkdir(parents=True, exist_ok=True)
  except OSError as error:
    raise InputError(
      f"{folder}: the cache folder cannot be made ({error.strerror}); choose another."
    ) from None
  return folder


def _write_shard(folder: pathlib.Path, keys: Sequence[bytes], scores: np.ndarray) -> None:
  buffer = io.BytesIO()
  table = np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), _KEY_SIZE)
  np.savez(buffer, keys=table, scores=scores)
  replace_file(folder / f"{_digest(buffer.getvalue())}.npz", buffer.getvalue())


def _read_shard(path: pathlib.Path, num_relations: int) -> dict[bytes, np.ndarray]:
  """Scores by key; none, after a message, where the shard was damaged and is now dropped."""
  try:
    data = path.read_bytes()
  except FileNotFoundError:  # another process dropped it
    return {}
  except OSError as error:
    raise InputError(
      f"{path}: the cache cannot be read ({error.strerror}); choose another folder."
    ) from None
  if _digest(data) == path.stem:
    try:
      with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        keys, scores = arrays["keys"], arrays["scores"]
      if keys.shape == (len(scores), _KEY_SIZE) and scores.shape[1:] == (num_relations,):
        return {key.tobytes(): row for key, row in zip(keys, scores)}
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile):
      pass
  path.unlink(missing_ok=True)
  _log.warning("%s: this part of the cache of scores was damaged; it is scored again.", path)
  return {}
