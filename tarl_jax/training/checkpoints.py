"""Checkpoints that are verified when read, and the lock on a working folder.

Owns what a checkpoint folder holds: Orbax steps, each with a sealed record in its metadata
(step, run fingerprint, metrics, one digest a leaf). Knows no model and no loop: a state is a
pytree of arrays. Orbax by itself restores a flipped byte and a cast dtype without a word.

  folder/
    120/ 140/      steps: the two newest and the best
    damaged-160/   a damaged step that was set aside when training went on from an older one
"""

import contextlib
import dataclasses
import fcntl
import logging
import math
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import jax
from orbax.checkpoint import v1 as ocp

from tarl_jax.errors import InputError
from tarl_jax.training.digests import (
  PyTree,
  abstract,
  check_like,
  find_difference,
  from_stored,
  leaf_digests,
  seal,
  to_stored,
)

Record = dict[str, Any]

_LOCK_NAME = "lock"
_log = logging.getLogger(__name__)


class _Damaged(Exception):
  """A checkpoint does not hold what was saved; the message says how that was seen."""


@dataclasses.dataclass(frozen=True)
class _KeepBest:
  """Orbax preservation policy that keeps the step named by `best_step`.

  Unlike Orbax's BestN it reads the sealed metrics: a damaged metrics file must not decide
  which checkpoint is deleted.
  """

  best_step: Callable[[], int | None]

  def should_preserve(self, checkpoints: Sequence[Any], *, context: Any) -> list[bool]:
    del context
    best = self.best_step()
    return [checkpoint.step == best for checkpoint in checkpoints]


class Checkpoints:
  """The checkpoints of one run in `folder`; a context manager that waits for saves at exit.

  Opening creates and changes nothing, so that an evaluation may read while a run writes. The
  first `save` clears what a killed save left behind; hold `workdir_lock` before it.

  Args:
    folder: holds the steps and nothing else; made by the first save.
    run_fingerprint: digest of everything that makes a run what it is (resolved config, data,
      settings of the code).
    best_of: metric whose highest value marks the best step; a tie goes to the earlier step.

  Raises:
    InputError: `folder` holds the checkpoints of another run.
  """

  def __init__(self, folder: pathlib.Path, *, run_fingerprint: str, best_of: str):
    self._folder = pathlib.Path(folder).absolute()
    self._fingerprint = run_fingerprint
    self._best_of = best_of
    self._orbax: ocp.training.Checkpointer | None = None
    self._writing = False
    self._records: dict[int, Record | None] = {}  # None where the metadata is damaged
    self._damaged: set[int] = set()
    if self._folder.exists():
      self._open(cleanup=False)

  def _open(self, cleanup: bool) -> ocp.training.Checkpointer:
    if self._orbax is not None:
      self._orbax.close()
    training = ocp.training
    keep = [training.preservation_policies.LatestN(2), _KeepBest(self._best_step)]
    self._orbax = training.Checkpointer(
      self._folder,
      save_decision_policy=training.save_decision_policies.FixedIntervalPolicy(1),
      preservation_policy=training.preservation_policies.AnyPreservationPolicy(keep),
      cleanup_tmp_directories=cleanup,
    )
    self._records = {step: self._read_record(step) for step in self._steps()}
    self._check_fingerprint()
    return self._orbax

  def _steps(self) -> list[int]:
    """Steps in the folder, newest first, once pending saves are done."""
    if self._orbax is None:
      return []
    self._orbax.wait()
    return sorted((checkpoint.step for checkpoint in self._orbax.checkpoints), reverse=True)

  def _read_record(self, step: int) -> Record | None:
    assert self._orbax is not None
    try:
      sealed = self._orbax.metadata(step).custom_metadata
      record = sealed["record"]
      intact = sealed["seal"] == seal(record) and record["step"] == step
    except Exception:  # damaged metadata raises whatever its reader meets first
      return None
    return record if intact else None

  def _check_fingerprint(self) -> None:
    for record in self._records.values():
      if record is not None and record["run_fingerprint"] != self._fingerprint:
        raise InputError(
          f"{self._folder}: holds checkpoints of another config (run "
          f"{record['run_fingerprint']}, this one is {self._fingerprint}); choose another "
          "workdir or delete this one."
        )

  def _best_step(self) -> int | None:
    """The best of the steps whose record is known; the earlier where two are equal."""
    values = {
      step: record["metrics"][self._best_of]
      for step, record in sorted(self._records.items())
      if record is not None and record["metrics"] is not None
    }
    values = {step: value for step, value in values.items() if not math.isnan(value)}
    return max(values, key=values.__getitem__, default=None)

  def _start_writing(self) -> None:
    """Sets aside damaged steps newer than all good ones, then clears leftovers of saves."""
    for step in self._steps():
      if self._records[step] is not None and step not in self._damaged:
        break
      aside = self._folder / f"damaged-{step}"
      number = 1
      while aside.exists():
        number += 1
        aside = self._folder / f"damaged-{step}-{number}"
      (self._folder / str(step)).rename(aside)
      _log.warning("%s: the damaged checkpoint of step %d is now %s.", self._folder, step, aside)
    self._open(cleanup=True)
    self._writing = True

  def save(self, step: int, state: PyTree, metrics: Mapping[str, float] | None) -> None:
    """Starts to save `state` as `step` and returns once it is copied; the rest is async.

    The two newest steps and the best are kept. `state` may be donated or changed afterwards.
    Typed PRNG keys are stored as their key data.

    Raises:
      InputError: `metrics` lacks `best_of`, the folder holds `step` or a later one, or it
        cannot be written.
    """
    if metrics is not None and self._best_of not in metrics:
      names = ", ".join(sorted(metrics)) or "none"
      raise InputError(f"The metric '{self._best_of}' that marks the best is not among: {names}.")
    try:
      if not self._writing:
        self._start_writing()
      self._save(step, state, metrics)
    except OSError as error:
      raise InputError(
        f"{self._folder}: the checkpoint of step {step} cannot be written ({error}); make room "
        "or choose another workdir."
      ) from error

  def _save(self, step: int, state: PyTree, metrics: Mapping[str, float] | None) -> None:
    assert self._orbax is not None
    steps = self._steps()
    if steps and steps[0] >= step:
      raise InputError(
        f"{self._folder}: already holds step {steps[0]}, so step {step} cannot be saved; resume "
        "from the latest checkpoint or choose another workdir."
      )
    self._records = {kept: self._records[kept] for kept in steps}
    record: Record = {
      "step": step,
      "run_fingerprint": self._fingerprint,
      "metrics": metrics and {name: float(value) for name, value in metrics.items()},
      "leaves": leaf_digests(state),
    }
    self._records[step] = record
    record["best_step"] = self._best_step()
    sealed = {"record": record, "seal": seal(record)}
    started = self._orbax.save_async(step, to_stored(state), custom_metadata=sealed)
    assert started is not None, f"Orbax declined to save step {step}"

  def restore_latest(self, like: PyTree) -> tuple[int, PyTree] | None:
    """The newest step that verifies, with its state; None where there is no checkpoint.

    A damaged step is skipped with a warning of one sentence and stays where it is until the
    next save sets it aside.

    Args:
      like: state with the structure, shapes, dtypes and devices to come back; arrays or
        `jax.ShapeDtypeStruct`. Its values are not read.

    Raises:
      InputError: all steps are damaged, or `like` differs from what was saved.
    """
    steps = self._steps()
    for step in steps:
      try:
        return step, self._load(step, like)
      except _Damaged as error:
        self._damaged.add(step)
        _log.warning(
          "%s: the checkpoint of step %d is damaged (%s) and is skipped.",
          self._folder,
          step,
          error,
        )
    if not steps:
      return None
    raise InputError(
      f"{self._folder}: every checkpoint in it is damaged (steps {_listed(steps)}); bring back a "
      "copy of the folder, or choose another workdir to start afresh."
    )

  def restore_best(self, like: PyTree) -> tuple[int, PyTree]:
    """The step with the highest `best_of` so far, with its state; `like` as above.

    Raises:
      InputError: no step has the metric, the best step is damaged, or the newest one is so
        damaged that the best cannot be known.
    """
    steps = self._steps()
    advice = "evaluate the latest checkpoint, or train on"
    if not steps:
      raise InputError(f"{self._folder}: holds no checkpoint; train first or check the path.")
    newest = self._records[steps[0]]
    if newest is None:
      raise InputError(
        f"{self._folder}: the record of step {steps[0]} is damaged, so that the best step is "
        f"unknown; {advice}."
      )
    best = newest["best_step"]
    if best is None:
      raise InputError(f"{self._folder}: no checkpoint was measured so far; {advice}.")
    try:
      if best not in steps:
        raise _Damaged("it is gone")
      return best, self._load(best, like)
    except _Damaged as error:
      raise InputError(
        f"{self._folder}: the best checkpoint, step {best}, is damaged ({error}); {advice}."
      ) from error

  def best_score(self) -> float:
    """The highest `best_of` so far; minus infinity where no kept step has one."""
    best = self._best_step()
    record = None if best is None else self._records[best]
    return float("-inf") if record is None else record["metrics"][self._best_of]

  def _load(self, step: int, like: PyTree) -> PyTree:
    assert self._orbax is not None
    record = self._records[step]
    if record is None:
      raise _Damaged("its metadata cannot be read")
    check_like(record["leaves"], like, f"{self._folder}, step {step}")
    try:
      stored = self._orbax.load(step, jax.tree.map(abstract, like))
      wrong = find_difference(record["leaves"], like, stored)
    except MemoryError:
      raise
    except Exception as error:  # the readers below Orbax raise many types
      raise _Damaged(f"reading it fails with {type(error).__name__}") from error
    if wrong is not None:
      raise _Damaged(f"leaf {wrong} is not what was saved")
    return jax.tree.map(from_stored, like, stored)

  def close(self) -> None:
    """Waits for pending saves and releases the folder; may be called twice."""
    if self._orbax is not None:
      self._orbax.close()
      self._orbax = None

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


def _listed(steps: Iterable[int]) -> str:
  return ", ".join(str(step) for step in sorted(steps))


@contextlib.contextmanager
def workdir_lock(folder: pathlib.Path) -> Iterator[None]:
  """Holds `folder` for one writing process; the system frees it even after a kill.

  Makes `folder` where it is missing. The file `lock` in it stays and says who wrote last.

  Raises:
    InputError: another process holds it, or it cannot be made.
  """
  folder = pathlib.Path(folder)
  try:
    folder.mkdir(parents=True, exist_ok=True)
    file = open(folder / _LOCK_NAME, "a+", encoding="utf-8")
  except OSError as error:
    raise InputError(f"{folder}: cannot be used as workdir ({error.strerror}).") from None
  with file:
    try:
      fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      file.seek(0)
      raise InputError(
        f"{folder}: another process ({file.read().strip() or 'unknown'}) writes in this workdir; "
        "wait for it or choose another workdir."
      ) from None
    file.truncate(0)
    file.write(f"pid {os.getpid()}\n")
    file.flush()
    yield
