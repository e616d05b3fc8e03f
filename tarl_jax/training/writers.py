"""Metrics on disk: JSON Lines as the source of truth, TensorBoard scalars for the eye.

Owns the layout of `config.json`, `metrics.jsonl` and `tensorboard/` in a working folder.
Knows neither what a metric means nor when it is measured.
"""

import json
import logging
import math
import pathlib
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from tarl_jax.errors import InputError
from tarl_jax.files import replace_file

_log = logging.getLogger(__name__)


def _read_lines(path: pathlib.Path) -> list[tuple[bytes, dict[str, Any]]]:
  """Lines as (bytes without the line end, object); drops a half-written last one."""
  try:
    lines = path.read_bytes().split(b"\n")
  except OSError as error:
    raise InputError(f"{path}: cannot be read ({error.strerror}); check the path.") from None
  ended = lines[-1] == b""
  if ended:
    lines.pop()
  parsed = []
  for number, line in enumerate(lines, 1):
    try:
      value = json.loads(line)
      if not isinstance(value, dict) or type(value.get("step")) is not int:
        raise ValueError("no object with a whole number as 'step'")
    except (ValueError, RecursionError) as error:
      if number == len(lines) and not ended:
        break
      raise InputError(
        f"{path}, line {number}: is not a line of metrics ({error}); repair or remove it."
      ) from None
    parsed.append((line, value))
  return parsed


def read_metrics(path: str | pathlib.Path) -> list[dict[str, Any]]:
  """One dict a line: `step` and the metrics by name, None where a value was not finite.

  A last line that a crash cut off is left out.

  Raises:
    InputError: naming the file and the line that is no line of metrics.
  """
  return [value for _, value in _read_lines(pathlib.Path(path))]


class MetricWriter:
  """Writes the resolved config once and metrics as they come; a context manager.

  On resume call `truncate_after` before the first `write`. Write all lines of a step before
  its checkpoint is saved: a resumed run does not measure that step again.

  Args:
    folder: working folder, made where missing. Holds `config.json` (replaced), `metrics.jsonl`
      (continued) and `tensorboard/`.
    config: resolved config; anything JSON can hold.

  Raises:
    InputError: the folder cannot be written.
  """

  def __init__(self, folder: pathlib.Path, config: Mapping[str, Any]):
    self._folder = pathlib.Path(folder)
    self._path = self._folder / "metrics.jsonl"
    content = json.dumps(config, indent=2, sort_keys=True) + "\n"
    try:
      self._folder.mkdir(parents=True, exist_ok=True)
      replace_file(self._folder / "config.json", content)
      self._file = open(self._path, "ab", buffering=0)
    except OSError as error:
      raise InputError(
        f"{self._folder}: cannot be written ({error.strerror}); choose another workdir."
      ) from None
    self._tensorboard: Any = None
    self._has_tensorboard = True

  def write(self, step: int, prefix: str, values: Mapping[str, float]) -> None:
    """Appends one line with the names `<prefix>/<name>`; on disk when this returns.

    A value that is not finite becomes null in the line and no point in TensorBoard.
    """
    scalars = {f"{prefix}/{name}": float(value) for name, value in values.items()}
    line = {name: value if math.isfinite(value) else None for name, value in scalars.items()}
    self._file.write(json.dumps({"step": step, **line}, allow_nan=False).encode() + b"\n")
    if self._tensorboard is None:
      self._open_tensorboard(purge_step=None)
    if self._tensorboard is not None:
      for name, value in scalars.items():
        if math.isfinite(value):
          self._tensorboard.add_scalar(name, value, step)

  def truncate_after(self, step: int) -> None:
    """Drops what was written for later steps, and a half-written last line.

    What a resumed run writes then continues the file as if there had been no break. In
    TensorBoard the later points are hidden.

    Raises:
      InputError: naming a line that is no line of metrics, or saying that the file cannot be
        written; nothing is changed then.
    """
    lines = _read_lines(self._path)
    kept = b"".join(line + b"\n" for line, value in lines if value["step"] <= step)
    self._file.close()
    replace_file(self._path, kept)
    self._file = open(self._path, "ab", buffering=0)
    if self._tensorboard is not None:
      self._tensorboard.close()
    self._open_tensorboard(purge_step=step + 1)

  def _open_tensorboard(self, purge_step: int | None) -> None:
    """Opens the event file, or says once that tensorboardX is missing."""
    if not self._has_tensorboard:
      return
    try:
      import tensorboardX
    except ImportError:
      self._has_tensorboard = False
      _log.warning("tensorboardX is not installed, so metrics go to %s only.", self._path)
      return
    self._tensorboard = tensorboardX.SummaryWriter(
      str(self._folder / "tensorboard"),
      purge_step=purge_step,
      flush_secs=10,
      # Else two files of one second have one name and the later replaces the earlier.
      filename_suffix=f".{time.time_ns()}",
    )

  def close(self) -> None:
    """Flushes and closes the files; may be called twice."""
    self._file.close()
    if self._tensorboard is not None:
      self._tensorboard.close()
      self._tensorboard = None

  def __enter__(self) -> Self:
    return self

  def __exit__(
    self,
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: TracebackType | None,
  ) -> None:
    del kind, error, trace
    self.close()
