"""Metric writers: a resumed run leaves the file of an uninterrupted one."""

import builtins
import json
import pathlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarl_jax.errors import InputError
from tarl_jax.training.writers import MetricWriter, read_metrics

CONFIG = {"opt": {"lr": 1e-3}, "sizes": (1, 2), "name": "smoke"}


def write_steps(writer: MetricWriter, steps) -> None:
  for step in steps:
    writer.write(step, "train", {"loss": 1.0 / (step + 1), "f1": step / 10})
    if step % 2 == 0:
      writer.write(step, "eval", {"f1": np.float32(0.5)})


def refuse_constant(name: str):
  raise AssertionError(f"{name} is not JSON")


def test_lines_are_strict_json_and_there_at_once(tmp_path):
  with MetricWriter(tmp_path / "run", CONFIG) as writer:
    values = {"loss": float("nan"), "norm": float("-inf"), "f1": np.float32(0.25), "count": 3}
    writer.write(7, "train", values)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
  expected = {"step": 7, "train/loss": None, "train/norm": None, "train/f1": 0.25, "train/count": 3}
  assert [json.loads(line, parse_constant=refuse_constant) for line in lines] == [expected]
  assert read_metrics(tmp_path / "run" / "metrics.jsonl") == [expected]


def test_config_is_written_whole_and_replaced(tmp_path):
  for config in (CONFIG, {"name": "b"}):
    MetricWriter(tmp_path, config).close()
    assert json.loads((tmp_path / "config.json").read_text()) == json.loads(json.dumps(config))
  assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "metrics.jsonl"]


@settings(derandomize=True, deadline=None, max_examples=20)
@given(kept=st.integers(-1, 6), reached=st.integers(0, 6), cut=st.integers(0, 60))
def test_resumed_file_equals_uninterrupted(tmp_path_factory, kept, reached, cut):
  folder = tmp_path_factory.mktemp("run")
  with MetricWriter(folder / "straight", CONFIG) as writer:
    write_steps(writer, range(8))
  with MetricWriter(folder / "resumed", CONFIG) as writer:
    write_steps(writer, range(max(kept, reached) + 1))
  half = json.dumps({"step": 7, "train/loss": 0.12345678901234567, "train/f1": 0.75})[:cut]
  path = folder / "resumed" / "metrics.jsonl"
  path.write_bytes(path.read_bytes() + half.encode())
  with MetricWriter(folder / "resumed", CONFIG) as writer:
    writer.truncate_after(kept)
    write_steps(writer, range(kept + 1, 8))
  assert path.read_bytes() == (folder / "straight" / "metrics.jsonl").read_bytes()


def test_a_whole_last_line_without_line_end_counts(tmp_path):
  path = tmp_path / "metrics.jsonl"
  path.write_text('{"step": 1}\n{"step": 2}')
  assert [line["step"] for line in read_metrics(path)] == [1, 2]
  with MetricWriter(tmp_path, {}) as writer:
    writer.truncate_after(2)
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n'


@pytest.mark.parametrize("bad", ["{", "", "[1]", '{"loss": 1}', '{"step": true}', "\xff", "NaN"])
def test_a_bad_line_stops_with_its_place_and_is_kept(tmp_path, bad):
  path = tmp_path / "metrics.jsonl"
  content = b'{"step": 1}\n' + bad.encode("latin-1") + b'\n{"step": 2}\n'
  path.write_bytes(content)
  with pytest.raises(InputError, match=r"metrics\.jsonl, line 2"):
    read_metrics(path)
  with MetricWriter(tmp_path, {}) as writer, pytest.raises(InputError, match="line 2"):
    writer.truncate_after(0)
  assert path.read_bytes() == content


def test_a_bad_line_with_line_end_is_not_half_written(tmp_path):
  (tmp_path / "m.jsonl").write_text('{"step": 1}\n{"ste\n')
  with pytest.raises(InputError, match="line 2"):
    read_metrics(tmp_path / "m.jsonl")


def test_unusable_paths(tmp_path):
  with pytest.raises(InputError, match="cannot be read"):
    read_metrics(tmp_path / "absent.jsonl")
  (tmp_path / "file").write_text("")
  with pytest.raises(InputError, match="cannot be written"):
    MetricWriter(tmp_path / "file", {})


def shown_points(folder: pathlib.Path) -> dict[str, list[tuple[int, float]]]:
  """What TensorBoard shows: points by name, later sessions purge the steps they redo."""
  from tensorboardX.proto import event_pb2

  points: dict[str, list[tuple[int, float]]] = {}
  for path in sorted(folder.glob("events.*")):
    data = path.read_bytes()
    while data:  # each record: length, checksum of it, payload, checksum of that
      size = int.from_bytes(data[:8], "little")
      event = event_pb2.Event.FromString(data[12 : 12 + size])
      data = data[16 + size :]
      if event.session_log.status == event_pb2.SessionLog.START:
        for name in points:
          points[name] = [point for point in points[name] if point[0] < event.step]
      for value in event.summary.value:
        points.setdefault(value.tag, []).append((event.step, value.simple_value))
  return points


def test_tensorboard_curves_do_not_double(tmp_path):
  with MetricWriter(tmp_path, {}) as writer:
    for step in range(5):
      writer.write(step, "train", {"loss": float(step)})
    writer.truncate_after(2)
    for step in range(3, 6):
      writer.write(step, "train", {"loss": 10.0 + step, "nan": float("nan")})
  assert shown_points(tmp_path / "tensorboard") == {
    "train/loss": [(0, 0.0), (1, 1.0), (2, 2.0), (3, 13.0), (4, 14.0), (5, 15.0)]
  }


def test_without_tensorboardx_the_lines_are_written(tmp_path, monkeypatch, caplog):
  real_import = builtins.__import__

  def fake_import(name, *args, **kwargs):
    if name == "tensorboardX":
      raise ImportError(name)
    return real_import(name, *args, **kwargs)

  monkeypatch.setattr(builtins, "__import__", fake_import)
  with MetricWriter(tmp_path, {}) as writer:
    write_steps(writer, range(3))
  assert len(read_metrics(tmp_path / "metrics.jsonl")) == 5
  assert len(caplog.records) == 1
  assert not (tmp_path / "tensorboard").exists()


def test_lines_survive_a_kill(tmp_path):
  code = """
    import os, pathlib, signal, sys
    from tarl_jax.training.writers import MetricWriter
    writer = MetricWriter(pathlib.Path(sys.argv[1]), {})
    for step in range(3):
      writer.write(step, "train", {"loss": step})
    os.kill(os.getpid(), signal.SIGKILL)
    """
  subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(tmp_path)], check=False)
  assert [line["step"] for line in read_metrics(tmp_path / "metrics.jsonl")] == [0, 1, 2]
