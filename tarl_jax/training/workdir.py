"""The layout of a workdir, and the stamp that says which run it belongs to.

workdir/run.json           settings and digests of data and encoder, checked when read
workdir/vocabulary.json    idf table, with its digest
workdir/seed_0/            config.json, pipeline.json, metrics.jsonl, tensorboard/, checkpoints/
workdir/results.json, cases.json, *.png     written by eval.py
"""

import dataclasses
import json
import pathlib

from tarl_jax.config import Config, fingerprint, make_config, to_dict
from tarl_jax.errors import InputError
from tarl_jax.files import replace_file
from tarl_jax.training.checkpoints import Checkpoints

BEST_OF = "macro_f1"  # validation metric whose highest value marks the best checkpoint


@dataclasses.dataclass(frozen=True)
class Stamp:
  """What a run was made with."""

  config: Config
  data: str  # digest of the streams
  encoder: str  # fingerprint of the encoder
  run: str  # fingerprint of all of it


def make_stamp(config: Config, data: str, encoder: str) -> Stamp:
  """The stamp of a run with these settings and digests."""
  return Stamp(config=config, data=data, encoder=encoder, run=fingerprint(config, data, encoder))


def seed_folder(workdir: pathlib.Path, seed: int) -> pathlib.Path:
  """Where the run of one seed lives."""
  return workdir / f"seed_{seed}"


def open_checkpoints(workdir: pathlib.Path, seed: int, stamp: Stamp) -> Checkpoints:
  """Checkpoints of one seed.

  Raises:
    InputError: if the folder holds those of another run.
  """
  folder = seed_folder(workdir, seed) / "checkpoints"
  return Checkpoints(folder, run_fingerprint=stamp.run, best_of=BEST_OF)


def check_same_run(workdir: pathlib.Path, stamp: Stamp) -> None:
  """Stops where `run.json` is of another run; one that is missing or damaged says nothing.

  Raises:
    InputError: naming what differs.
  """
  try:
    found = read_stamp(workdir)
  except InputError:
    return
  differs = {
    "settings": fingerprint(found.config) != fingerprint(stamp.config),
    "data": found.data != stamp.data,
    "text encoder": found.encoder != stamp.encoder,
  }
  names = [name for name, other in differs.items() if other]
  if names:
    raise InputError(
      f"{workdir}: holds a run of another config (other {' and '.join(names)}); choose another "
      "workdir or delete this one."
    )


def write_stamp(workdir: pathlib.Path, stamp: Stamp) -> None:
  """Writes `run.json`, atomically.

  Raises:
    InputError: if it cannot be written; what was there is unchanged.
  """
  content = dataclasses.asdict(stamp) | {"config": to_dict(stamp.config)}
  replace_file(workdir / "run.json", json.dumps(content, indent=2) + "\n")


def read_stamp(workdir: pathlib.Path) -> Stamp:
  """The stamp in `run.json`.

  Raises:
    InputError: if no run is there, or the file is damaged.
  """
  path = workdir / "run.json"
  damaged = InputError(f"{path}: is damaged; run train.py with the same config again.")
  try:
    values = json.loads(path.read_text(encoding="utf-8"))
  except OSError:
    raise InputError(
      f"{path}: no trained run is here; run train.py with this workdir first."
    ) from None
  except ValueError:
    raise damaged from None
  try:
    stamp = make_stamp(make_config(values["config"]), values["data"], values["encoder"])
    intact = stamp.run == values["run"]
  except (InputError, KeyError, TypeError, AttributeError):
    raise damaged from None
  if not intact:
    raise damaged
  return stamp
