"""Checkpoints: what comes back is what was saved, or it is said that it is not."""

import logging
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import textwrap

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tarl_jax.errors import InputError
from tarl_jax.training.checkpoints import Checkpoints, workdir_lock
from tarl_jax.training.digests import leaf_digests

# The readers below Orbax leave unawaited coroutines behind when a file is damaged.
pytestmark = [
  pytest.mark.filterwarnings("ignore::RuntimeWarning"),
  pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@flax.struct.dataclass(kw_only=True)
class State:
  """A state as a training loop has it."""

  params: dict
  opt_state: optax.OptState
  key: jax.Array
  count: jax.Array
  keys: jax.Array
  cursor: np.ndarray
  unused: None = None


def make_state(seed: int, size: int = 5) -> State:
  key = jax.random.key(seed)
  params = {
    "w": jax.random.normal(key, (size, 3), jnp.float32),
    "half": jax.random.normal(key, (4,), jnp.bfloat16),
    "bits": jax.random.bits(key, (3,), jnp.uint32),
  }
  return State(
    params=params,
    opt_state=optax.adamw(1e-3).init({"w": params["w"]}),
    key=key,
    count=jnp.asarray(seed, jnp.int32),
    keys=jax.random.split(jax.random.key(seed, impl="rbg"), 2),
    cursor=np.arange(seed, seed + 3, dtype=np.int64),
  )


def open_run(folder: pathlib.Path, fingerprint: str = "aa") -> Checkpoints:
  return Checkpoints(folder, run_fingerprint=fingerprint, best_of="f1")


def save_all(folder: pathlib.Path, scores: dict[int, float | None]) -> None:
  with open_run(folder) as run:
    for step, score in scores.items():
      run.save(step, make_state(step), None if score is None else {"f1": score})


def steps_in(folder: pathlib.Path) -> list[int]:
  return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())


def assert_same(got, expected) -> None:
  """Written without `leaf_digests`, so that the two check each other."""
  assert jax.tree.structure(got) == jax.tree.structure(expected)
  for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
    assert type(a) is type(b)
    assert a.dtype == b.dtype and a.shape == b.shape
    if jax.dtypes.issubdtype(a.dtype, jax.dtypes.prng_key):
      a, b = jax.random.key_data(a), jax.random.key_data(b)
    np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> pathlib.Path:
  """Steps 1 and 2; 2 is the newest and the best. Copy it before changing it."""
  folder = tmp_path_factory.mktemp("saved") / "run"
  save_all(folder, {1: 0.25, 2: 0.5})
  return folder


def test_round_trip_from_arrays_and_from_shapes(saved):
  shapes = jax.eval_shape(lambda: make_state(0).replace(cursor=None))
  shapes = shapes.replace(cursor=np.zeros(3, np.int64))
  for like in (make_state(0), shapes):
    with open_run(saved) as run:
      step, state = run.restore_latest(like)
    assert step == 2
    assert_same(state, make_state(2))
  drawn = jax.random.normal(state.keys[1], (3,), jnp.float32)
  np.testing.assert_array_equal(drawn, jax.random.normal(make_state(2).keys[1], (3,)))


def test_digests_see_value_dtype_shape_and_key_kind():
  base = {"a": jnp.arange(4, dtype=jnp.int32), "k": jax.random.key(1)}
  digests = leaf_digests(base)
  assert list(digests) == ["['a']", "['k']"]
  assert digests["['k']"].endswith(":key<fry>[]")
  assert digests == leaf_digests(jax.tree.map(lambda x: x, base))
  others = [
    base["a"].at[2].set(7),
    base["a"].astype(jnp.uint32),
    base["a"].reshape(2, 2),
  ]
  for other in others:
    assert leaf_digests({**base, "a": other})["['a']"] != digests["['a']"]
  assert leaf_digests({"k": jax.random.key_data(base["k"])})["['k']"] != digests["['k']"]


def test_a_state_may_be_donated_or_changed_during_the_save(tmp_path):
  bump = jax.jit(lambda x: x + 1, donate_argnums=0)
  with open_run(tmp_path) as run:
    value, cursor = jnp.zeros((2_000_000,), jnp.float32), np.zeros(2_000_000, np.int32)
    for step in range(3):
      run.save(step, {"x": value, "cursor": cursor}, None)
      value = bump(value)
      cursor += 1
    step, state = run.restore_latest({"x": value, "cursor": cursor})
  assert step == 2
  np.testing.assert_array_equal(state["x"], np.full(2_000_000, 2, np.float32))
  np.testing.assert_array_equal(state["cursor"], np.full(2_000_000, 2, np.int32))


@pytest.mark.parametrize(
  "change, words",
  [
    (lambda s: s.replace(count=s.count.astype(jnp.uint32)), r"\.count is int32\[\] .* uint32\[\]"),
    (lambda s: s.replace(count=s.count[None]), r"int32\[1\]"),
    (lambda s: s.replace(key=jax.random.key(0, impl="rbg")), "key<rbg>"),
    (lambda s: s.replace(params={"w": s.params["w"]}), r"\['bits'\].* absent in this run"),
    (lambda s: s.replace(unused=s.count), r"\.unused is absent in the checkpoint"),
  ],
)
def test_another_state_is_refused(saved, change, words):
  with open_run(saved) as run:
    for restore in (run.restore_latest, run.restore_best):
      with pytest.raises(InputError, match=words):
        restore(change(make_state(0)))


def test_two_latest_and_best_are_kept(tmp_path):
  save_all(tmp_path, {1: float("nan"), 2: 0.9, 3: 0.5, 4: None, 5: float("nan"), 6: 0.9})
  assert steps_in(tmp_path) == [2, 5, 6]
  with open_run(tmp_path) as run:
    step, state = run.restore_best(make_state(0))
    assert step == 2
    assert_same(state, make_state(2))
    assert run.restore_latest(make_state(0))[0] == 6
    run.save(7, make_state(7), {"f1": 1.5, "loss": 0.1})
    assert run.restore_best(make_state(0))[0] == 7
  assert steps_in(tmp_path) == [6, 7]


def test_nothing_saved(tmp_path):
  folder = tmp_path / "absent"
  with open_run(folder) as run:
    assert run.restore_latest(make_state(0)) is None
    with pytest.raises(InputError, match="holds no checkpoint"):
      run.restore_best(make_state(0))
  assert not folder.exists()
  save_all(folder, {1: None})
  with open_run(folder) as run, pytest.raises(InputError, match="no checkpoint was measured"):
    run.restore_best(make_state(0))


def test_a_run_of_another_config_is_refused_and_left_alone(saved):
  before = {path: path.stat().st_mtime_ns for path in saved.rglob("*")}
  with pytest.raises(InputError, match=r"another config .* choose another workdir") as caught:
    open_run(saved, "bb")
  assert str(saved) in str(caught.value)
  assert {path: path.stat().st_mtime_ns for path in saved.rglob("*")} == before


def test_bad_saves_are_refused(saved, tmp_path):
  folder = tmp_path / "run"
  shutil.copytree(saved, folder)
  with open_run(folder) as run:
    for step in (1, 2):
      with pytest.raises(InputError, match="already holds step 2"):
        run.save(step, make_state(9), None)
    with pytest.raises(InputError, match="'f1' that marks the best is not among: loss"):
      run.save(3, make_state(3), {"loss": 1.0})
    assert run.restore_latest(make_state(0))[0] == 2
  (tmp_path / "file").write_text("")
  with open_run(tmp_path / "file" / "run") as run, pytest.raises(InputError, match="cannot be wr"):
    run.save(1, make_state(1), None)


def damage(path: pathlib.Path, how: str) -> None:
  content = bytearray(path.read_bytes())
  if how == "flip" and content:
    content[len(content) // 2] ^= 0xFF
  path.write_bytes(bytes(content if how == "flip" else content[: len(content) // 2]))
  if how == "remove":
    path.unlink()


def restore_or_error(restore):
  """(step, state), or the InputError; anything else is a failure of the test."""
  try:
    return restore(make_state(0))
  except InputError as error:
    return error


@pytest.mark.parametrize("how", ["flip", "cut", "remove"])
def test_no_damaged_file_restores_other_values(saved, tmp_path, caplog, how):
  folder = tmp_path / "run"
  files = sorted(path.relative_to(saved) for path in (saved / "2").rglob("*") if path.is_file())
  outcomes = []
  for file in files:
    shutil.copytree(saved, folder)
    damage(folder / file, how)
    caplog.clear()
    with open_run(folder) as run:
      step, state = run.restore_latest(make_state(0))
      best = restore_or_error(run.restore_best)
    assert_same(state, make_state(step))
    warnings = [r for r in caplog.records if r.name.startswith("tarl_jax")]
    assert len(warnings) == (step == 1), (file, warnings)
    if isinstance(best, InputError):
      assert step == 1 and str(folder) in str(best)
    else:
      assert best[0] == step == 2, "the best is step 2 or nothing"
      assert_same(best[1], make_state(2))
    outcomes.append(step)
    shutil.rmtree(folder)
  assert outcomes.count(1) >= 4, "array data, manifest, structure and record all matter"


def test_a_flipped_byte_of_raw_array_data_is_seen(tmp_path):
  """Large enough for a chunk of its own, which the store does not protect by a checksum."""
  like = {"x": jnp.zeros((60_000,), jnp.float32)}
  with open_run(tmp_path) as run:
    for step in (1, 2):
      values = jax.random.normal(jax.random.key(step), (60_000,), jnp.float32)
      run.save(step, {"x": values}, None)
  largest = max((tmp_path / "2").rglob("*"), key=lambda path: path.stat().st_size)
  assert largest.stat().st_size > 100_000
  damage(largest, "flip")
  with open_run(tmp_path) as run:
    assert run.restore_latest(like)[0] == 1


def test_all_damaged_is_an_error_naming_the_folder(saved, tmp_path):
  folder = tmp_path / "run"
  shutil.copytree(saved, folder)
  for step in ("1", "2"):
    damage(folder / step / "state" / "manifest.ocdbt", "flip")
  with open_run(folder) as run, pytest.raises(InputError, match=r"steps 1, 2") as caught:
    run.restore_latest(make_state(0))
  assert str(folder) in str(caught.value)


def test_training_goes_on_from_an_older_step_and_keeps_the_damaged_one(saved, tmp_path, caplog):
  folder = tmp_path / "run"
  shutil.copytree(saved, folder)
  damage(folder / "2" / "state" / "manifest.ocdbt", "cut")
  with open_run(folder) as run:
    with caplog.at_level(logging.WARNING):
      assert run.restore_latest(make_state(0))[0] == 1
    assert steps_in(folder) == [1, 2]
    run.save(2, make_state(2), {"f1": 0.1})
    run.save(3, make_state(3), {"f1": 0.2})
    assert run.restore_latest(make_state(0))[0] == 3
    assert run.restore_best(make_state(0))[0] == 1, "0.25 is the best of what is left"
  assert steps_in(folder) == [1, 2, 3]
  assert (folder / "damaged-2").is_dir()
  assert any("step 2 is damaged" in message for message in caplog.messages)


def test_leftovers_of_a_killed_save_go_with_the_next_save_only(saved, tmp_path):
  folder = tmp_path / "run"
  shutil.copytree(saved, folder)
  leftover = folder / "7.orbax-checkpoint-tmp"
  shutil.copytree(saved / "2", leftover)
  with open_run(folder) as run:
    assert run.restore_latest(make_state(0))[0] == 2
    assert run.restore_best(make_state(0))[0] == 2
    assert leftover.exists(), "a reader must not disturb the save of a running process"
    run.save(3, make_state(3), None)
  assert steps_in(folder) == [2, 3]
  assert not leftover.exists()


def test_a_renamed_step_is_not_taken_for_another(saved, tmp_path):
  shutil.copytree(saved, tmp_path / "run")
  (tmp_path / "run" / "2").rename(tmp_path / "run" / "9")
  with open_run(tmp_path / "run") as run:
    assert run.restore_latest(make_state(0))[0] == 1


@pytest.mark.parametrize(
  "old, new", [('"best_step": 2', '"best_step": 1'), ('"f1": 0.5', '"f1": 0.4')]
)
def test_an_edited_record_is_not_believed(saved, tmp_path, old, new):
  folder = tmp_path / "run"
  shutil.copytree(saved, folder)
  path = folder / "2" / "_CHECKPOINT_METADATA"
  assert path.read_text().count(old) == 1
  path.write_text(path.read_text().replace(old, new))
  with open_run(folder) as run:
    assert run.restore_latest(make_state(0))[0] == 1
    with pytest.raises(InputError, match="record of step 2 is damaged"):
      run.restore_best(make_state(0))


def start(code: str, *args: object) -> subprocess.Popen[str]:
  return subprocess.Popen(
    [sys.executable, "-c", textwrap.dedent(code), *map(str, args)],
    stdout=subprocess.PIPE,
    text=True,
    env=os.environ | {"JAX_PLATFORMS": "cpu"},
  )


def test_lock_refuses_a_second_process_and_is_freed_by_a_kill(tmp_path):
  code = """
    import pathlib, sys, time
    from tarl_jax.training.checkpoints import workdir_lock
    with workdir_lock(pathlib.Path(sys.argv[1])):
      print("held", flush=True)
      time.sleep(60)
    """
  process = start(code, tmp_path / "new")
  try:
    assert process.stdout.readline() == "held\n"
    with pytest.raises(InputError, match=f"another process .pid {process.pid}. writes"):
      with workdir_lock(tmp_path / "new"):
        pass
  finally:
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
  with workdir_lock(tmp_path / "new"):
    with pytest.raises(InputError, match=f"pid {os.getpid()}"), workdir_lock(tmp_path / "new"):
      pass
  with workdir_lock(tmp_path / "new"):
    pass
  (tmp_path / "file").write_text("")
  with pytest.raises(InputError, match="cannot be used"), workdir_lock(tmp_path / "file"):
    pass


SAVE_IN_A_LOOP = """
  import pathlib, sys
  import jax, jax.numpy as jnp
  from tarl_jax.training.checkpoints import Checkpoints, workdir_lock
  folder = pathlib.Path(sys.argv[1])
  state = {"x": jnp.zeros((300, 1000), jnp.float32), "step": jnp.zeros((), jnp.int32)}
  with workdir_lock(folder), Checkpoints(folder, run_fingerprint="aa", best_of="f1") as run:
    found = run.restore_latest(state)
    step, state = found or (0, state)
    while True:
      step += 1
      state = {"x": jax.random.normal(jax.random.key(step), (300, 1000), jnp.float32),
               "step": state["step"] + 1}
      run.save(step, state, {"f1": float(step % 7)})
      print(step, flush=True)
  """


def test_kill_during_saves_leaves_a_whole_step(tmp_path):
  draw = random.Random(0)
  like = {"x": jnp.zeros((300, 1000), jnp.float32), "step": jnp.zeros((), jnp.int32)}
  last = 0
  for _ in range(3):
    process = start(SAVE_IN_A_LOOP, tmp_path)
    for _ in range(draw.randrange(3, 8)):
      started = int(process.stdout.readline())
    signal.sigtimedwait([], draw.uniform(0.0, 0.15))  # a random moment of the save
    process.send_signal(signal.SIGKILL)
    started = int(([started, *process.stdout.read().split()])[-1])
    process.wait()
    process.stdout.close()
    with open_run(tmp_path) as run:
      step, state = run.restore_latest(like)
    assert last < step and started - 1 <= step <= started, "at most the save under way is lost"
    assert int(state["step"]) == step
    expected = jax.random.normal(jax.random.key(step), (300, 1000), jnp.float32)
    np.testing.assert_array_equal(state["x"], expected)
    last = step
  with open_run(tmp_path) as run:
    run.restore_latest(like)
    run.save(last + 1, state, None)
    run.save(last + 2, state, None)
  assert len(steps_in(tmp_path)) <= 3
  leftovers = {path.name for path in tmp_path.iterdir()} - {str(s) for s in steps_in(tmp_path)}
  assert leftovers == {"lock"}
