"""Embeddings on disk: every text is encoded once a fingerprint, also across runs.

Owns the shard files; knows an encoder only by its protocol.

    cache_dir/
      <fingerprint>/              another encoder, weights or code version: another folder
        <digest>.npz              one shard: up to CHUNK texts, never changed once written
          keys        uint8   [n, 16]   BLAKE2b of fingerprint and text
          sentence    float32 [n, D]
          lengths     int32   [n]       tokens of each text
          states      float16 [sum of lengths, D_t]   tokens of all texts, unpadded

A shard is named by the digest of its bytes and moved into place when it is complete, so an
interrupted run resumes behind its last shard, two processes can share a folder, and a
damaged shard is seen, dropped with a message and encoded again.
"""

import hashlib
import io
import logging
import pathlib
import zipfile
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tqdm

from tarl_jax.errors import InputError
from tarl_jax.files import replace_file
from tarl_jax.models.encoder import Encoder, TextEncoding, empty_encoding

CHUNK = 512
_KEY_SIZE = 16

_log = logging.getLogger(__name__)


class _Shard(NamedTuple):
  keys: np.ndarray  # uint8 [n, 16]
  sentence: np.ndarray  # float32 [n, D]
  lengths: np.ndarray  # int32 [n]
  states: np.ndarray  # float16 [sum of lengths, D_t]


def encode_cached(
  encoder: Encoder,
  texts: Sequence[str],
  cache_dir: str | pathlib.Path | None,
  *,
  show_progress: bool = False,
) -> TextEncoding:
  """`encoder.encode(texts)`, equal to the byte, with what the cache holds not encoded again.

  Beside the result no more than one shard is held in memory. Equal texts are encoded once.

  Args:
    encoder: what encodes the texts the cache lacks.
    texts: N texts, N may be 0.
    cache_dir: folder of the cache, made if absent; None leaves the disk alone.
    show_progress: a progress bar on stderr while encoding.

  Raises:
    InputError: where the cache can be neither read nor written. What `encoder` raises
      passes through; the shards written before stay.
  """
  encoding = empty_encoding(encoder, len(texts))
  rows: dict[bytes, list[int]] = {}  # the rows still to be filled
  for row, text in enumerate(texts):
    rows.setdefault(_key(encoder.fingerprint, text), []).append(row)
  folder = None if cache_dir is None else _open_folder(cache_dir, encoder)
  if folder is not None:
    for path in sorted(folder.glob("*.npz")):
      if not rows:
        break
      shard = _read_shard(path, encoder)
      if shard is not None:
        _fill(encoding, rows, shard)
  # The longest first: neighbours then share a padded length, and the bar only speeds up.
  todo = sorted(rows, key=lambda key: -len(texts[rows[key][0]]))
  with tqdm.tqdm(total=len(todo), unit="text", disable=not show_progress) as bar:
    for start in range(0, len(todo), CHUNK):
      keys = todo[start : start + CHUNK]
      shard = _pack(keys, encoder, [texts[rows[key][0]] for key in keys])
      if folder is not None:
        _write_shard(folder, shard)
      _fill(encoding, rows, shard)
      bar.update(len(keys))
  return encoding


def _key(fingerprint: str, text: str) -> bytes:
  content = fingerprint.encode() + b"\0" + text.encode("utf-8", "surrogatepass")
  return hashlib.blake2b(content, digest_size=_KEY_SIZE).digest()


def _digest(data: bytes) -> str:
  return hashlib.blake2b(data, digest_size=20).hexdigest()


def _pack(keys: Sequence[bytes], encoder: Encoder, texts: Sequence[str]) -> _Shard:
  """Encodes `texts` and drops their padding; checks what the encoder returned."""
  sentence, tokens, token_mask = encoder.encode(texts)
  lengths = token_mask.sum(1, dtype=np.int32)
  for value, like in zip((sentence, tokens, token_mask), empty_encoding(encoder, len(texts))):
    assert value.shape == like.shape and value.dtype == like.dtype, (value.shape, value.dtype)
  assert np.array_equal(token_mask, np.arange(encoder.max_tokens)[None, :] < lengths[:, None])
  if not (np.isfinite(sentence).all() and np.isfinite(tokens).all()):
    raise InputError(f"encoder {encoder.name} gives values that are not finite; check its weights.")
  key_array = np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), _KEY_SIZE)
  return _Shard(key_array, sentence, lengths, tokens[token_mask])


def _fill(encoding: TextEncoding, rows: dict[bytes, list[int]], shard: _Shard) -> None:
  """Copies the texts that are still wanted into their rows and takes them off `rows`."""
  ends = np.cumsum(shard.lengths)
  for place, key in enumerate(shard.keys):
    length, end = shard.lengths[place], ends[place]
    for row in rows.pop(key.tobytes(), ()):
      encoding.sentence[row] = shard.sentence[place]
      encoding.tokens[row, :length] = shard.states[end - length : end]
      encoding.token_mask[row, :length] = True


def _open_folder(cache_dir: str | pathlib.Path, encoder: Encoder) -> pathlib.Path:
  folder = pathlib.Path(cache_dir) / encoder.fingerprint
  try:
    folder.mkdir(parents=True, exist_ok=True)
  except OSError as error:
    raise InputError(
      f"{folder}: the cache folder cannot be made ({error.strerror}); choose another."
    ) from None
  return folder


def _write_shard(folder: pathlib.Path, shard: _Shard) -> None:
  """Writes a shard under its digest; it appears complete or not at all."""
  buffer = io.BytesIO()
  np.savez(buffer, **shard._asdict())
  data = buffer.getvalue()
  replace_file(folder / f"{_digest(data)}.npz", data)


def _read_shard(path: pathlib.Path, encoder: Encoder) -> _Shard | None:
  """The shard; None, after a message, where it was damaged and is now dropped."""
  try:
    data = path.read_bytes()
  except FileNotFoundError:  # another process dropped it
    return None
  except OSError as error:
    raise InputError(
      f"{path}: the cache cannot be read ({error.strerror}); choose another folder."
    ) from None
  if _digest(data) == path.stem:
    shard = _parse_shard(data, encoder)
    if shard is not None:
      return shard
  path.unlink(missing_ok=True)
  _log.warning("%s: this part of the embedding cache was damaged; it is encoded again.", path)
  return None


def _parse_shard(data: bytes, encoder: Encoder) -> _Shard | None:
  try:
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
      shard = _Shard(**{name: arrays[name] for name in _Shard._fields})
  except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile):
    return None
  num_texts, num_states = len(shard.keys), int(shard.lengths.sum())
  shapes = (num_texts, _KEY_SIZE), (num_texts, encoder.dim), (num_texts,)
  expected = (*shapes, (num_states, encoder.token_dim))
  return shard if tuple(value.shape for value in shard) == expected else None
