"""Which examples each training step sees: a Grain pipeline of row numbers, and its fingerprint.

Owns the order of the rows and how processes share a batch; knows no feature. The features
stay on the device, so all that travels is the rows of a step. Element `step` of the pipeline
is a function of the step alone: a resumed run needs no iterator state, and the fingerprint,
stored beside the checkpoints, says whether the order is still the same.
"""

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Sequence

import grain
import jax
import numpy as np

from tarl_jax.data.order import epoch_order
from tarl_jax.errors import InputError
from tarl_jax.files import replace_file

_FILE = "pipeline.json"


class _ShuffledRows(grain.MapDataset[int]):
  """Row numbers in the order of `epoch_order`; index i is in epoch i // num_rows.

  Grain's own `shuffle` takes 7 ms for a batch of 256 and 6 ms for one element of a small
  set, since it walks a permutation of 2^16 numbers; this takes half a millisecond a batch.
  """

  def __init__(self, num_rows: int, seed: int):
    super().__init__()
    self._num_rows, self._seed = num_rows, seed

  def __len__(self) -> int:
    return self._num_rows

  def __getitem__(self, index):
    if isinstance(index, slice):
      return self.slice(index)
    epoch, position = divmod(index, self._num_rows)
    return epoch_order(self._seed, epoch, self._num_rows)[position]


def training_rows(
  num_rows: int,
  batch_size: int,
  seed: int,
  *,
  process_index: int | None = None,
  process_count: int | None = None,
) -> "grain.MapDataset[np.ndarray]":
  """The rows of every step: element `step` is int32 [batch_size / process_count].

  Each epoch is a fresh permutation of the rows; batches run on over its end, so that every
  row is seen equally often whatever the batch size. A process gets its own slice of each
  batch: the slices in the order of the processes are the batch of a single process, so
  that a run may be resumed with another number of processes. Nothing is read ahead.

  Args:
    num_rows: rows to choose from.
    batch_size: rows of a step over all processes.
    seed: of the order, 0 to 2^63 - 1.
    process_index: whose slice; by default that of this JAX process.
    process_count: how many processes share a batch; by default those of JAX.

  Raises:
    InputError: if there is no row, or the batch does not divide among the processes.
  """
  index = jax.process_index() if process_index is None else process_index
  count = jax.process_count() if process_count is None else process_count
  if num_rows < 1:
    raise InputError("the training split has no example; give more data.")
  if not 0 <= index < count:
    raise InputError(f"process_index {index} is not one of {count} processes.")
  if batch_size < 1 or batch_size % count:
    raise InputError(
      f"config.opt.batch_size of {batch_size} does not divide among {count} processes; choose "
      "a multiple."
    )
  rows = _ShuffledRows(num_rows, seed).repeat()
  batches = rows.batch(batch_size // count, drop_remainder=True, batch_fn=_as_array)
  return batches[index::count]


def _as_array(rows: Sequence[np.int32]) -> np.ndarray:
  return np.array(rows, np.int32)


@dataclasses.dataclass(frozen=True)
class Fingerprint:
  """What the order of the rows, and what the rows stand for, depends on."""

  num_rows: int
  batch_size: int
  seed: int
  order: str  # digest of the first two batches of a single process and of the first epoch
  data: str  # digest of the streams that the rows come from


_NAMES = {
  "num_rows": "number of training examples",
  "batch_size": "batch size",
  "seed": "seed",
  "order": "order of the examples",
  "data": "data",
}


def fingerprint(num_rows: int, batch_size: int, seed: int, data: str) -> Fingerprint:
  """The fingerprint of `training_rows` over data with the digest `data`.

  The number of processes is no part of it: it does not change what a step sees.
  """
  batches = training_rows(num_rows, batch_size, seed, process_index=0, process_count=1)
  parts = [batches[0], batches[1], epoch_order(seed, 0, num_rows)]
  content = b"".join(part.astype("<i4").tobytes() for part in parts)
  digest = hashlib.blake2b(content, digest_size=16).hexdigest()
  return Fingerprint(num_rows, batch_size, seed, digest, data)


def check_fingerprint(folder: pathlib.Path, expected: Fingerprint, *, resumes: bool) -> None:
  """Compares `expected` with what `folder` holds, or writes it there for a run that starts.

  Raises:
    InputError: for a run that `resumes`, naming what differs, or that the fingerprint is
      missing or damaged; for one that starts, that it cannot be written. Nothing is written then.
  """
  path = folder / _FILE
  if not resumes:
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(path, json.dumps(dataclasses.asdict(expected), indent=2) + "\n")
    return
  found = _read(path)
  differs = [
    f"{name} ({getattr(found, field)} there, {getattr(expected, field)} here)"
    for field, name in _NAMES.items()
    if getattr(found, field) != getattr(expected, field)
  ]
  if differs:
    raise InputError(
      f"{path}: the examples of the run here come in another way, and differ in "
      f"{' and '.join(differs)}; choose another workdir or delete this one."
    )


def _read(path: pathlib.Path) -> Fingerprint:
  try:
    return Fingerprint(**json.loads(path.read_text(encoding="utf-8")))
  except (OSError, ValueError, TypeError):
    raise InputError(
      f"{path}: is missing or damaged, so that a resume could see other examples; choose another "
      "workdir or delete this one."
    ) from None
