"""Replacing a file: all of it or none, and one sentence where the disk is full."""

import errno
import os

import pytest

from tarl_jax import files
from tarl_jax.errors import InputError
from tarl_jax.files import replace_file


def test_a_file_is_made_and_replaced_with_exactly_the_content(tmp_path):
  path = tmp_path / "run.json"
  for content, stored in (
    ("Zoë\n\r\n", b"Zo\xc3\xab\n\r\n"),
    (b"\xff\0\n", b"\xff\0\n"),
    ("", b""),
  ):
    replace_file(path, content)
    assert path.read_bytes() == stored
    assert os.listdir(tmp_path) == ["run.json"]


class _FullFile:
  """A file that takes the half of what it is given, as on a full disk."""

  def __init__(self, path, mode):
    self._file = open(path, mode)

  def __enter__(self):
    return self

  def __exit__(self, *error):
    self._file.close()

  def write(self, data):
    self._file.write(data[: len(data) // 2])
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _full(*arguments):
  raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("fails", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_no_part(tmp_path, monkeypatch, exists, fails):
  path = tmp_path / "run.json"
  if exists:
    path.write_text("old")
  if fails == "write":
    monkeypatch.setattr(files, "open", _FullFile, raising=False)
  else:
    monkeypatch.setattr(files.os, fails, _full)
  with pytest.raises(InputError) as caught:
    replace_file(path, "new content")
  assert str(caught.value) == (
    f"{path}: cannot be written (No space left on device); free space there or choose another "
    "folder."
  )
  assert os.listdir(tmp_path) == ["run.json"] * exists
  assert not exists or path.read_text() == "old"


def test_the_new_content_is_on_disk_before_it_takes_the_name(tmp_path, monkeypatch):
  path, seen = tmp_path / "run.json", []
  path.write_text("old")

  def fsync(number):
    (part,) = set(tmp_path.iterdir()) - {path}
    assert os.fstat(number).st_ino == part.stat().st_ino
    seen.append((part.read_text(), path.read_text()))

  monkeypatch.setattr(files.os, "fsync", fsync)
  replace_file(path, "new")
  assert seen == [("new", "old")] and path.read_text() == "new"


def test_an_interrupt_leaves_no_part(tmp_path, monkeypatch):
  def interrupted(*arguments):
    raise KeyboardInterrupt

  monkeypatch.setattr(files.os, "fsync", interrupted)
  with pytest.raises(KeyboardInterrupt):
    replace_file(tmp_path / "run.json", "new")
  assert not os.listdir(tmp_path)


@pytest.mark.parametrize("place", ["absent/run.json", "file/run.json", "folder"])
def test_a_place_that_cannot_hold_the_file_is_named(tmp_path, place):
  (tmp_path / "file").write_text("kept")
  (tmp_path / "folder").mkdir()
  with pytest.raises(InputError, match=rf"{place}: cannot be written \("):
    replace_file(tmp_path / place, "new")
  assert sorted(os.listdir(tmp_path)) == ["file", "folder"]
  assert (tmp_path / "file").read_text() == "kept"


def test_of_two_writers_the_later_wins(tmp_path, monkeypatch):
  """The second comes while the first is between writing and moving."""
  path, replace, inside = tmp_path / "run.json", os.replace, []

  def late(part, target):
    if not inside:
      inside.append(True)
      replace_file(path, "the second, which is longer")
      assert path.read_text() == "the second, which is longer"
    replace(part, target)

  monkeypatch.setattr(files.os, "replace", late)
  replace_file(path, "the first")
  assert path.read_text() == "the first" and os.listdir(tmp_path) == ["run.json"]
