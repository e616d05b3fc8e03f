"""The embedding cache: same bytes as without it, resumes, and never uses a damaged shard."""

import io
import logging
import multiprocessing
import pathlib

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from tarl_jax import files
from tarl_jax.errors import InputError
from tarl_jax.models import cache
from tarl_jax.models.cache import encode_cached
from tarl_jax.models.hashed import HashedEncoder

TEXTS = [f"jar {n} holds {'plum ' * (n % 5)}jam 🙂" for n in range(23)] + ["", "漢字", "\ud800"]


class Counting(HashedEncoder):
  """Counts what it encodes and fails, as a killed run would, after `limit` texts."""

  def __init__(self, limit: int | None = None):
    self.texts: list[str] = []
    self._limit = limit

  def encode(self, texts):
    if self._limit is not None and len(self.texts) >= self._limit:
      raise KeyboardInterrupt
    self.texts += texts
    return super().encode(texts)


class OtherWeights(Counting):
  fingerprint = "hashed-other"


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
  monkeypatch.setattr(cache, "CHUNK", 5)


def assert_equal(got, want):
  for one, other in zip(got, want):
    assert one.shape == other.shape and one.dtype == other.dtype
    assert one.tobytes() == other.tobytes()


def shards(folder: pathlib.Path) -> list[pathlib.Path]:
  return sorted((folder / HashedEncoder.fingerprint).glob("*.npz"))


def test_equal_with_and_without_the_cache(tmp_path):
  want = HashedEncoder().encode(TEXTS)
  for cache_dir in (None, tmp_path / "new" / "folder", tmp_path / "new" / "folder"):
    assert_equal(encode_cached(HashedEncoder(), TEXTS, cache_dir), want)
  assert len(shards(tmp_path / "new" / "folder")) == 6


def test_no_cache_leaves_the_disk_alone(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  encode_cached(HashedEncoder(), TEXTS, None)
  assert not list(tmp_path.iterdir())


def test_second_call_encodes_nothing_in_any_order(tmp_path):
  encode_cached(HashedEncoder(), TEXTS, tmp_path)
  texts = TEXTS[::-1] + TEXTS[3:6]
  second = Counting()
  assert_equal(encode_cached(second, texts, tmp_path), HashedEncoder().encode(texts))
  assert second.texts == []


def test_only_new_texts_are_encoded(tmp_path):
  encode_cached(HashedEncoder(), TEXTS[:9], tmp_path)
  second = Counting()
  assert_equal(encode_cached(second, TEXTS, tmp_path), HashedEncoder().encode(TEXTS))
  assert sorted(second.texts) == sorted(TEXTS[9:])


@pytest.mark.parametrize("cached", [False, True])
def test_equal_texts_are_encoded_once(tmp_path, cached):
  texts = ["a jar", "a lid", "a jar", "a jar"]
  encoder = Counting()
  got = encode_cached(encoder, texts, tmp_path if cached else None)
  assert sorted(encoder.texts) == ["a jar", "a lid"]
  assert_equal(got, HashedEncoder().encode(texts))


def test_no_text(tmp_path):
  assert_equal(encode_cached(HashedEncoder(), [], tmp_path), HashedEncoder().encode([]))
  assert not shards(tmp_path)


def test_interrupted_run_resumes_with_the_rest(tmp_path):
  first = Counting(limit=15)
  with pytest.raises(KeyboardInterrupt):
    encode_cached(first, TEXTS, tmp_path)
  second = Counting()
  assert_equal(encode_cached(second, TEXTS, tmp_path), HashedEncoder().encode(TEXTS))
  assert len(first.texts) == 15 and len(second.texts) == len(TEXTS) - 15
  assert sorted(first.texts + second.texts) == sorted(TEXTS)


def test_interrupted_write_leaves_no_shard(tmp_path, monkeypatch):
  def killed(*args):
    raise KeyboardInterrupt

  with monkeypatch.context() as patch:
    patch.setattr(files.os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
      encode_cached(HashedEncoder(), TEXTS, tmp_path)
  assert not list((tmp_path / HashedEncoder.fingerprint).iterdir())
  (tmp_path / HashedEncoder.fingerprint / "left.part").write_bytes(b"half a sh")  # kill -9
  assert_equal(encode_cached(HashedEncoder(), TEXTS, tmp_path), HashedEncoder().encode(TEXTS))


def flipped(data: bytes) -> bytes:
  return data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 4]) + data[len(data) // 2 + 1 :]


def saved_again(data: bytes) -> bytes:
  """A sound archive with one value changed, which only the digest can tell."""
  parts = dict(np.load(io.BytesIO(data)))
  parts["sentence"][0, 0] += 0.25
  buffer = io.BytesIO()
  np.savez(buffer, **parts)
  return buffer.getvalue()


@pytest.mark.parametrize(
  "harm",
  [flipped, saved_again, lambda data: data[:-30], lambda data: b""],
  ids=["flipped", "saved_again", "cut", "empty"],
)
def test_damaged_shard_is_told_dropped_and_encoded_again(tmp_path, caplog, harm):
  encode_cached(HashedEncoder(), TEXTS, tmp_path)
  path = shards(tmp_path)[2]
  sound = path.read_bytes()
  path.write_bytes(harm(sound))
  second = Counting()
  with caplog.at_level(logging.WARNING):
    got = encode_cached(second, TEXTS, tmp_path)
  assert_equal(got, HashedEncoder().encode(TEXTS))
  assert 0 < len(second.texts) <= 5
  assert [str(path) in message and "damaged" in message for message in caplog.messages] == [True]
  third = Counting()
  assert_equal(encode_cached(third, TEXTS, tmp_path), got)
  assert third.texts == []


def test_sound_bytes_that_are_no_shard_are_dropped(tmp_path, caplog):
  encode_cached(HashedEncoder(), TEXTS[:5], tmp_path)
  [path] = shards(tmp_path)
  with np.load(path) as arrays:
    parts = dict(arrays)
  parts["states"] = parts["states"][:-1]
  np.savez(path, **parts)
  path = path.rename(path.with_name(f"{cache._digest(path.read_bytes())}.npz"))
  assert_equal(
    encode_cached(HashedEncoder(), TEXTS[:5], tmp_path), HashedEncoder().encode(TEXTS[:5])
  )
  assert len(caplog.messages) == 1 and not path.exists()


def test_other_weights_have_another_folder(tmp_path):
  encode_cached(HashedEncoder(), TEXTS, tmp_path)
  other = OtherWeights()
  encode_cached(other, TEXTS, tmp_path)
  assert len(other.texts) == len(TEXTS)


def test_shard_moved_from_another_fingerprint_matches_nothing(tmp_path):
  encode_cached(HashedEncoder(), TEXTS, tmp_path)
  (tmp_path / HashedEncoder.fingerprint).rename(tmp_path / OtherWeights.fingerprint)
  other = OtherWeights()
  encode_cached(other, TEXTS, tmp_path)
  assert len(other.texts) == len(TEXTS)


def encode_in_process(cache_dir: pathlib.Path, start: int) -> bool:
  cache.CHUNK = 2
  texts = TEXTS[start:] + TEXTS[:start]
  got = encode_cached(HashedEncoder(), texts, cache_dir)
  want = HashedEncoder().encode(texts)
  return all(one.tobytes() == other.tobytes() for one, other in zip(got, want))


def test_processes_share_a_folder(tmp_path):
  with multiprocessing.get_context("spawn").Pool(2) as pool:
    assert all(pool.starmap(encode_in_process, [(tmp_path, start) for start in (0, 4, 0, 9)]))
  last = Counting()
  encode_cached(last, TEXTS, tmp_path)
  assert last.texts == []


def test_cache_folder_that_is_a_file_stops(tmp_path):
  (tmp_path / "taken").write_text("notes")
  with pytest.raises(InputError, match=r"cannot be made .*; choose another"):
    encode_cached(HashedEncoder(), TEXTS, tmp_path / "taken")
  assert (tmp_path / "taken").read_text() == "notes"


def test_full_disk_stops(tmp_path, monkeypatch):
  def full(*args):
    raise OSError(28, "No space left on device")

  monkeypatch.setattr(files.os, "replace", full)
  with pytest.raises(InputError, match="No space left on device"):
    encode_cached(HashedEncoder(), TEXTS, tmp_path)


def test_values_that_are_not_finite_are_never_kept(tmp_path):
  class Broken(HashedEncoder):
    def encode(self, texts):
      encoding = super().encode(texts)
      encoding.sentence[0, 0] = np.nan
      return encoding

  with pytest.raises(InputError, match="not finite"):
    encode_cached(Broken(), TEXTS, tmp_path)
  assert not shards(tmp_path)


def test_progress_goes_to_stderr_when_asked(capsys):
  encode_cached(HashedEncoder(), TEXTS, None)
  assert capsys.readouterr() == ("", "")
  encode_cached(HashedEncoder(), TEXTS, None, show_progress=True)
  out, err = capsys.readouterr()
  assert out == "" and f"{len(TEXTS)}/{len(TEXTS)}" in err


@hypothesis.settings(
  derandomize=True,
  deadline=None,
  max_examples=25,
  suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
@hypothesis.given(st.lists(st.lists(st.sampled_from(TEXTS), max_size=12), max_size=4))
def test_any_history_of_calls_gives_the_plain_result(tmp_path_factory, calls):
  folder = tmp_path_factory.mktemp("calls")
  for texts in calls:
    assert_equal(encode_cached(HashedEncoder(), texts, folder), HashedEncoder().encode(texts))
