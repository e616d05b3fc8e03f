"""Training end to end: a killed run ends where a straight one does, and NaN stops it."""

import itertools
import json
import os
import pathlib
import shutil
import signal
import time

import jax
import numpy as np
import pytest
from smoke_runs import (
  EVAL_EVERY,
  STEPS,
  Scripts,
  compiled_once,
  listing,
  smoke_flags,
  smoke_run,
  smoke_values,
)

from tarl_jax.config import Config, make_config
from tarl_jax.data.dataset import build_split, load_encoder, load_sources, read_vocabulary
from tarl_jax.errors import InputError
from tarl_jax.inputs import PolicyInputs
from tarl_jax.training import loop
from tarl_jax.training.learner import TrainState, make_learner
from tarl_jax.training.workdir import open_checkpoints, read_stamp
from tarl_jax.training.writers import read_metrics

# Orbax leaves unawaited coroutines behind when a file is damaged.
pytestmark = [
  pytest.mark.filterwarnings("ignore::RuntimeWarning"),
  pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def one_compilation():
  with compiled_once():
    yield


@pytest.fixture(scope="module")
def sizes() -> PolicyInputs:
  """Shapes of one example of the smoke run."""
  run = smoke_run()
  encoder = load_encoder(run.config.encoder)
  idf = read_vocabulary(run.workdir / "vocabulary.json")
  streams = load_sources(run.config.data).splits["val"]
  return loop.example_sizes(build_split(streams, run.config, encoder, idf).inputs)


@pytest.fixture()
def config() -> Config:
  """The smoke run with seed 0 alone: its own run, with the policy of seed 0."""
  return make_config(smoke_values(smoke_run().streams))


def final_state(workdir: pathlib.Path, sizes: PolicyInputs) -> tuple[int, TrainState]:
  stamp = read_stamp(workdir)
  like = jax.eval_shape(make_learner(sizes, stamp.config).init, jax.random.key(0))
  with open_checkpoints(workdir, 0, stamp) as checkpoints:
    found = checkpoints.restore_latest(like)
  assert found is not None
  return found


def metric_bytes(workdir: pathlib.Path) -> bytes:
  return (workdir / "seed_0" / "metrics.jsonl").read_bytes()


def steps_on_disk(workdir: pathlib.Path) -> list[int]:
  folder = workdir / "seed_0" / "checkpoints"
  if not folder.exists():
    return []
  return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())


def assert_ends_like_the_straight_run(workdir: pathlib.Path, sizes: PolicyInputs) -> None:
  """Parameters, optimizer, key, temperature and metrics of seed 0, bit by bit."""
  straight = smoke_run().workdir
  (step, state), (straight_step, straight_state) = (
    final_state(folder, sizes) for folder in (workdir, straight)
  )
  assert step == straight_step == STEPS == int(state.step)
  leaves = zip(
    jax.tree_util.tree_leaves_with_path(state), jax.tree.leaves(straight_state), strict=True
  )
  for (path, leaf), expected in leaves:
    name = jax.tree_util.keystr(path)
    assert leaf.dtype == expected.dtype, name
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
      leaf, expected = jax.random.key_data(leaf), jax.random.key_data(expected)
    np.testing.assert_array_equal(np.asarray(leaf), np.asarray(expected), err_msg=name)
  assert metric_bytes(workdir) == metric_bytes(straight)


def wait_for(happened, pid: int) -> None:
  """Waits until something happened, then kills the process at once; fails if it ended."""
  deadline = time.monotonic() + 120
  while not happened() and time.monotonic() < deadline:
    time.sleep(0.0005)
  os.kill(pid, signal.SIGKILL)


def test_a_run_killed_at_any_moment_ends_like_a_straight_one(tmp_path, sizes):
  """Killed before its first checkpoint, while one is written, just after one, then finished."""
  workdir = tmp_path / "run"
  folder = workdir / "seed_0" / "checkpoints"
  argv = ["train.py", *smoke_flags(smoke_run().streams), f"--workdir={workdir}"]
  half_written = ("*orbax-checkpoint-tmp*", "*/*orbax-checkpoint-tmp*")
  moments = {
    "before": lambda: (workdir / "seed_0" / "metrics.jsonl").exists(),
    "during": lambda: any(path for name in half_written for path in folder.glob(name)),
    "after": lambda: max(steps_on_disk(workdir), default=0) >= 2 * EVAL_EVERY,
  }
  scripts = Scripts(tmp_path)
  reached = {}
  try:
    for name, happened in moments.items():
      killed = scripts.run(*argv, watch=lambda pid, happened=happened: wait_for(happened, pid))
      assert killed.code == -signal.SIGKILL, f"{name}: {killed.err}"
      reached[name] = steps_on_disk(workdir)
    finished = scripts.run(*argv)
  finally:
    scripts.close()
  assert finished.code == 0, finished.err
  assert reached["before"] == []
  assert max(reached["during"], default=0) < STEPS
  assert 2 * EVAL_EVERY <= max(reached["after"]) < STEPS
  assert_ends_like_the_straight_run(workdir, sizes)
  assert finished.sentences == []


def test_every_batch_is_applied_once_over_a_break(tmp_path, config, sizes, monkeypatch):
  """The restored step is the number of updates applied, and the next batch is that step's."""

  class Break(Exception):
    pass

  seen: list[tuple[int, tuple[int, ...]]] = []
  stop_at = [11]  # after the line of step 10, which a resumed run must write again

  class Recorded:
    def __init__(self, *sizes: int):
      self.batches = training_rows(*sizes)

    def __getitem__(self, step: int) -> np.ndarray:
      if step == stop_at[0]:
        raise Break
      rows = self.batches[step]
      seen.append((step, tuple(rows)))
      return rows

  training_rows = loop.training_rows
  monkeypatch.setattr(loop, "training_rows", Recorded)
  with pytest.raises(Break):
    loop.train(config, tmp_path)
  kept, state = final_state(tmp_path, sizes)
  assert kept == int(state.step) == 2 * EVAL_EVERY
  first = [entry for entry in seen if entry[0] < kept]
  seen.clear()
  stop_at[0] = -1
  loop.train(config, tmp_path)
  assert [step for step, _ in first + seen] == list(range(STEPS))
  assert len({rows for _, rows in first + seen}) == STEPS
  assert_ends_like_the_straight_run(tmp_path, sizes)
  _, state = final_state(tmp_path, sizes)
  counts = [
    int(leaf)
    for path, leaf in jax.tree_util.tree_leaves_with_path(state.opt_state)
    if "count" in jax.tree_util.keystr(path)
  ]
  assert counts and set(counts) == {STEPS}


def test_seeds_differ_and_a_finished_run_stays_as_it_is(capsys):
  run = smoke_run()
  before = listing(run.workdir)
  assert before["seed_0/metrics.jsonl"] != before["seed_1/metrics.jsonl"]
  loop.train(run.config, run.workdir)
  assert listing(run.workdir) == before
  assert f"seed 1: all {STEPS} steps are done" in capsys.readouterr().out


def test_a_damaged_last_checkpoint_is_trained_again(tmp_path, config, sizes, caplog):
  workdir = tmp_path / "run"
  loop.train(config, workdir)
  (data,) = (workdir / "seed_0" / "checkpoints" / str(STEPS) / "state" / "d").iterdir()
  content = bytearray(data.read_bytes())
  content[len(content) // 2] ^= 1
  data.write_bytes(content)
  loop.train(config, workdir)
  assert f"the checkpoint of step {STEPS} is damaged" in caplog.text
  assert_ends_like_the_straight_run(workdir, sizes)


def spoil(monkeypatch: pytest.MonkeyPatch, bad_step: int, change) -> None:
  """Passes what step `bad_step` returns through `change(state, metrics)`."""
  make = loop.make_learner

  def make_spoiled(sizes: PolicyInputs, config: Config):
    learner, done = make(sizes, config), itertools.count(1)

    def step(state: TrainState, *data):
      result = learner.step(state, *data)
      with jax.transfer_guard("allow"):
        return change(*result) if next(done) == bad_step else result

    return learner._replace(step=step)

  monkeypatch.setattr(loop, "make_learner", make_spoiled)


@pytest.mark.parametrize("metric", ["loss", "gradient_norm"])
def test_nan_stops_with_the_step_and_keeps_the_last_checkpoint(
  tmp_path, config, sizes, metric, monkeypatch
):
  bad_step = 2 * EVAL_EVERY + 2
  with monkeypatch.context() as patch:
    spoil(patch, bad_step, lambda state, values: (state, values | {metric: np.float32("nan")}))
    message = rf"^the {metric.replace('_', ' ')} is nan at step {bad_step}, .* {bad_step - 1};"
    with pytest.raises(InputError, match=message):
      loop.train(config, tmp_path)
  assert steps_on_disk(tmp_path)[-1] == 2 * EVAL_EVERY
  lines = read_metrics(tmp_path / "seed_0" / "metrics.jsonl")
  assert lines[-1]["step"] == 2 * EVAL_EVERY
  loop.train(config, tmp_path)
  assert_ends_like_the_straight_run(tmp_path, sizes)


def test_parameters_that_are_not_finite_are_never_a_checkpoint(
  tmp_path, config, sizes, monkeypatch
):
  """The update of a checkpointed step gives NaN while its own loss is still finite."""

  def change(state: TrainState, values: dict):
    return state.replace(params=jax.tree.map(lambda x: x * np.float32("nan"), state.params)), values

  spoil(monkeypatch, 2 * EVAL_EVERY, change)
  with pytest.raises(InputError, match=rf"validation loss is nan at step {2 * EVAL_EVERY},"):
    loop.train(config, tmp_path)
  step, state = final_state(tmp_path, sizes)
  assert step == EVAL_EVERY
  assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.params))


def test_another_config_or_seed_is_refused_before_anything_is_written(tmp_path):
  run = smoke_run()
  workdir = tmp_path / "run"
  shutil.copytree(run.workdir, workdir)
  before = listing(workdir)
  values = smoke_values(run.streams)
  others = [values | {"seeds": (1,)}, values | {"seeds": (2,)}, values | {"eval_every": 5}]
  for other in others:
    with pytest.raises(InputError, match=r"holds a run of another config \(other settings\)"):
      loop.train(make_config(other), workdir)
  (workdir / "run.json").unlink()  # the checkpoints alone tell as well
  with pytest.raises(InputError, match="checkpoints of another config"):
    loop.train(make_config(others[0]), workdir)
  shutil.copy(run.workdir / "run.json", workdir)
  assert listing(workdir) == before


@pytest.mark.parametrize("field", ["num_rows", "order", "data"])
def test_a_resume_on_other_examples_is_refused(tmp_path, field):
  """Even where settings, data and encoder are said to be the same."""
  run = smoke_run()
  workdir = tmp_path / "run"
  shutil.copytree(run.workdir, workdir)
  path = workdir / "seed_0" / "pipeline.json"
  stored = json.loads(path.read_text(encoding="utf-8"))
  assert stored["data"] == read_stamp(workdir).data
  path.write_text(json.dumps(stored | {field: "other"}), encoding="utf-8")
  before = listing(workdir)
  with pytest.raises(
    InputError, match=r"pipeline\.json: .* differ in .* \(other there, \w+ here\);"
  ):
    loop.train(run.config, workdir)
  assert listing(workdir) == before
