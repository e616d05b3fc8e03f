"""What the end-to-end tests share: one trained workdir, and a quick way to run the scripts.

The smoke config is compiled once; later runs find their programs in memory (in this process)
or in JAX's cache on disk (in others).
"""

import contextlib
import functools
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest.mock
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
from jax.experimental.compilation_cache import compilation_cache

from tarl_jax.config import Config, make_config
from tarl_jax.data.record import Claim, Gold, Stream, write_streams
from tarl_jax.evaluation.table import evaluate
from tarl_jax.training import loop
from tarl_jax.types import Action

ROOT = pathlib.Path(__file__).parents[1]
STEPS, EVAL_EVERY = 20, 4
SMOKE = ROOT / "configs" / "smoke.py"

_DAY = 24 * 60
# Compiling is what costs here, not running; and what is compiled is kept on disk.
_JAX = {
  "jax_disable_most_optimizations": True,
  "jax_persistent_cache_min_compile_time_secs": 0.0,
  "jax_compilation_cache_dir": "",
}


def load_config(path: pathlib.Path) -> dict[str, Any]:
  """The settings of a config file, as train.py gets them."""
  script: dict[str, Any] = {"__name__": "config", "__file__": str(path)}
  with unittest.mock.patch.object(sys, "path", [str(ROOT), *sys.path]):
    exec(compile(path.read_text(), str(path), "exec"), script)
  return script["get_config"]().to_dict()


def smoke_values(streams: pathlib.Path | None = None) -> dict[str, Any]:
  """The smoke config with more checkpoints, and with a file of streams beside it."""
  values = load_config(SMOKE)
  values["opt"]["steps"], values["eval_every"] = STEPS, EVAL_EVERY
  values["data"]["streams"] = () if streams is None else (str(streams),)
  return values


def smoke_flags(streams: pathlib.Path) -> list[str]:
  """The same on the command line."""
  return [
    f"--config={SMOKE}",
    f"--config.opt.steps={STEPS}",
    f"--config.eval_every={EVAL_EVERY}",
    f"--config.data.streams=({str(streams)!r},)",
  ]


def make_streams() -> list[Stream]:
  """Three people of the source "diary", with gold of every action and every provenance."""
  people = (("iris", "barn", "green"), ("olaf", "boathouse", "white"), ("wim", "shed", "brown"))
  return [_stream(person, place, color) for person, place, color in people]


def _stream(person: str, place: str, color: str) -> Stream:
  def claim(number: int, text: str, source: str, reliability: float, gold: Gold) -> Claim:
    return Claim(
      id=f"{person}-{number}",
      text=text,
      source=source,
      source_reliability=reliability,
      observed_at=26_000_000 + number * _DAY,
      gold=gold,
    )

  def about(number: int) -> str:
    return f"{person}-{number}"

  owner = f"user:{person}"
  return Stream(
    stream_id=f"diary-{person}",
    source="diary",
    person=person,
    claims=(
      claim(
        0,
        f"{person.title()} keeps two goats behind the {place}.",
        owner,
        0.9,
        Gold(Action.APPEND, provenance="annotated"),
      ),
      claim(
        1,
        f"The {place} roof is {color}.",
        owner,
        0.9,
        Gold(Action.APPEND, provenance="derived"),
      ),
      claim(
        2,
        f"The roof of the {place} is {color}.",
        owner,
        0.9,
        Gold(Action.NOOP, target=about(1), provenance="derived"),
      ),
      claim(
        3,
        f"The {place} roof is now red.",
        owner,
        0.9,
        Gold(Action.REVISE, target=about(1), provenance="annotated", temporal=True),
      ),
      claim(
        4,
        f"The {place} roof is blue.",
        "web_comment",
        0.2,
        Gold(Action.REJECT_CONFLICT, target=about(3), provenance="constructed"),
      ),
      claim(
        5,
        f"The goats behind the {place} were given away.",
        "neighbour",
        0.6,
        Gold(Action.DEFER_VERIFY, target=about(0), provenance="constructed"),
      ),
    ),
  )


@functools.cache
def cache_folder() -> str:
  """JAX's compilation cache of this test run; JAX_COMPILATION_CACHE_DIR where it is set."""
  return os.environ.get("JAX_COMPILATION_CACHE_DIR") or tempfile.mkdtemp(prefix="jax-cache-")


@contextlib.contextmanager
def compiled_once() -> Iterator[None]:
  """Compiles quickly, and keeps on disk what was compiled."""
  before = {name: jax.config.values[name] for name in _JAX}
  _configure({**_JAX, "jax_compilation_cache_dir": cache_folder()})
  try:
    yield
  finally:
    _configure(before)


def _configure(settings: Mapping[str, Any]) -> None:
  for name, value in settings.items():
    jax.config.update(name, value)
  compilation_cache.reset_cache()


class SmokeRun(NamedTuple):
  """A finished run with two seeds; copy the workdir before changing it."""

  workdir: pathlib.Path
  streams: pathlib.Path
  config: Config
  results: dict[str, Any]  # what evaluate returned


@functools.cache
def smoke_run() -> SmokeRun:
  """Trains and evaluates the smoke config with seeds 0 and 1, once in a test session."""
  folder = pathlib.Path(tempfile.mkdtemp(prefix="smoke-run-"))
  streams = folder / "streams.jsonl"
  write_streams(streams, make_streams())
  config = make_config(smoke_values(streams) | {"seeds": (0, 1)})
  with compiled_once():
    loop.train(config, folder / "run")
    results = evaluate(folder / "run")
  return SmokeRun(folder / "run", streams, config, results)


def listing(folder: pathlib.Path) -> dict[str, str]:
  """Digest of every file under a folder; without the lock, which names its last holder."""
  return {
    str(path.relative_to(folder)): hashlib.blake2b(path.read_bytes()).hexdigest()
    for path in sorted(folder.rglob("*"))
    if path.is_file() and path.name != "lock"
  }


class Finished(NamedTuple):
  """What a script left behind."""

  code: int
  out: str
  err: str

  @property
  def sentences(self) -> list[str]:
    """Lines of stderr that are no progress bar."""
    lines = [line.rpartition("\r")[2] for line in self.err.splitlines() if "\r" not in line[-1:]]
    return [line for line in lines if line.strip() and "%|" not in line and "text/s" not in line]


_SERVER = """
import gc, json, os, runpy, sys
import tarl_jax.evaluation.cases, tarl_jax.evaluation.table, tarl_jax.training.loop
import ml_collections.config_flags, tensorboardX
gc.freeze()  # else each child's exit walks, and so copies, all that was imported
for line in sys.stdin:
  sys.argv, out, err = json.loads(line)
  pid = os.fork()
  if pid == 0:
    for number, path in ((1, out), (2, err)):
      os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    runpy.run_path(sys.argv[0], run_name="__main__")
    sys.exit(0)
  print(pid, flush=True)
  print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Scripts:
  """Runs train.py and eval.py as processes of their own, forked after the slow imports."""

  def __init__(self, folder: pathlib.Path):
    self._folder, self._number = folder, 0
    self._server = subprocess.Popen(
      [sys.executable, "-c", _SERVER],
      cwd=ROOT,
      env=script_environment(),
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=subprocess.DEVNULL,
      text=True,
    )

  def run(self, *argv: str, watch: Callable[[int], None] | None = None) -> Finished:
    """Runs a script to its end; `watch` is given the process id meanwhile."""
    self._number += 1
    out, err = (self._folder / f"{self._number}.{name}" for name in ("out", "err"))
    assert self._server.stdin is not None
    self._server.stdin.write(json.dumps([argv, str(out), str(err)]) + "\n")
    self._server.stdin.flush()
    pid = int(self._line())
    if watch is not None:
      watch(pid)
    return Finished(int(self._line()), _read(out), _read(err))

  def _line(self) -> str:
    assert self._server.stdout is not None
    return self._server.stdout.readline()

  def close(self) -> None:
    assert self._server.stdin is not None
    self._server.stdin.close()
    self._server.wait(timeout=60)


def _read(path: pathlib.Path) -> str:
  with open(path, newline="", encoding="utf-8") as file:
    return file.read()


def script_environment() -> dict[str, str]:
  """Of a script: JAX as in `compiled_once`."""
  settings = {**_JAX, "jax_compilation_cache_dir": cache_folder()}
  return os.environ | {name.upper(): str(value) for name, value in settings.items()}


def run_script(argv: Sequence[str]) -> Finished:
  """Runs a script in a fresh interpreter, as a person does."""
  done = subprocess.run(
    [sys.executable, *argv], cwd=ROOT, env=script_environment(), capture_output=True, text=True
  )
  return Finished(done.returncode, done.stdout, done.stderr)
