"""The pipeline of rows: every row once an epoch, processes share a batch, order is checked."""

import dataclasses
import json
import os
import time

import grain
import hypothesis
import hypothesis.strategies as st
import jax
import numpy as np
import pytest

from tarl_jax.data import pipeline
from tarl_jax.data.order import epoch_order
from tarl_jax.data.pipeline import check_fingerprint, fingerprint, training_rows
from tarl_jax.errors import InputError

property_test = hypothesis.settings(derandomize=True, deadline=None)
SIZES = st.tuples(st.integers(1, 17), st.integers(1, 40), st.integers(0, 2**63 - 1))


def by_hand(number, batch_size, seed, step):
  """The rows of a step, one after the other, without Grain."""
  places = range(step * batch_size, (step + 1) * batch_size)
  return [epoch_order(seed, place // number, number)[place % number] for place in places]


@property_test
@hypothesis.given(SIZES, st.integers(1, 4))
def test_every_row_is_seen_once_an_epoch(size, epochs):
  number, batch_size, seed = size
  batches = training_rows(number, batch_size, seed)
  rows = np.concatenate([batches[step] for step in range(-(-epochs * number // batch_size))])
  for epoch in range(epochs):
    seen = rows[epoch * number : (epoch + 1) * number]
    assert sorted(seen) == list(range(number))
    np.testing.assert_array_equal(seen, epoch_order(seed, epoch, number))


@property_test
@hypothesis.given(SIZES, st.integers(0, 10**6))
def test_grain_gives_what_plain_numpy_gives_at_any_step(size, step):
  number, batch_size, seed = size
  rows = training_rows(number, batch_size, seed)[step]
  assert rows.shape == (batch_size,) and rows.dtype == np.int32
  np.testing.assert_array_equal(rows, by_hand(number, batch_size, seed, step))


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("number", [3, 50])
def test_the_slices_of_all_processes_are_the_batch_of_one(count, number):
  whole = training_rows(number, 8, 5, process_index=0, process_count=1)
  slices = [
    training_rows(number, 8, 5, process_index=index, process_count=count) for index in range(count)
  ]
  for step in (0, 1, 2, 11, 10**6):
    parts = [part[step] for part in slices]
    assert {part.shape for part in parts} == {(8 // count,)}
    np.testing.assert_array_equal(np.concatenate(parts), whole[step])


def test_by_default_the_slice_is_that_of_the_jax_process(monkeypatch):
  own = training_rows(9, 4, 0)[2]
  np.testing.assert_array_equal(own, by_hand(9, 4, 0, 2))
  monkeypatch.setattr(jax, "process_index", lambda: 1)
  monkeypatch.setattr(jax, "process_count", lambda: 2)
  np.testing.assert_array_equal(training_rows(9, 4, 0)[2], own[2:])


def test_seeds_and_epochs_have_orders_of_their_own():
  """Also epoch 1 of a seed and epoch 0 of the next, which a shuffle seeded by a sum confuses."""
  orders = {tuple(training_rows(50, 50, seed)[epoch]) for seed in range(4) for epoch in range(4)}
  assert len(orders) == 16


def test_an_iterator_over_it_resumes_from_its_state():
  """Whoever wants read-ahead gets the same rows from Grain's iterator."""
  batches = training_rows(11, 4, 3)
  options = grain.ReadOptions(num_threads=1, prefetch_buffer_size=2)
  first = iter(batches.to_iter_dataset(options))
  for step in range(5):
    np.testing.assert_array_equal(next(first), batches[step])
  second = iter(batches.to_iter_dataset(options))
  second.set_state(first.get_state())
  np.testing.assert_array_equal(next(second), batches[5])


def test_the_cached_order_cannot_be_changed():
  with pytest.raises(ValueError, match="read-only"):
    epoch_order(0, 0, 5)[0] = 1


@pytest.mark.parametrize("number", [50, 100_000])
def test_a_batch_of_rows_takes_no_time(number):
  """Against the 20 ms of a training step; the bound leaves room for a busy machine."""
  batches = training_rows(number, 256, 0)
  times = []
  for step in range(100):
    start = time.perf_counter()
    batches[step]
    times.append(time.perf_counter() - start)
  assert np.median(times) < 3e-3


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    ((0, 4, 0), "the training split has no example"),
    ((5, 6, 0, 0, 4), "batch_size of 6 does not divide among 4 processes"),
    ((5, 0, 0, 0, 1), "batch_size of 0 does not divide"),
    ((5, 4, 0, 2, 2), "process_index 2 is not one of 2 processes"),
    ((5, 4, 0, -1, 2), "process_index -1 is not one"),
  ],
)
def test_bad_sizes_are_refused(arguments, message):
  index, count = arguments[3:] or (0, 1)
  with pytest.raises(InputError, match=message):
    training_rows(*arguments[:3], process_index=index, process_count=count)


# The fingerprint.

EXPECTED = fingerprint(10, 4, 0, "digest-a")


def test_a_resume_with_the_same_pipeline_writes_nothing(tmp_path):
  folder = tmp_path / "seed_0"
  check_fingerprint(folder, EXPECTED, resumes=False)
  (path,) = folder.iterdir()
  content, changed = path.read_bytes(), path.stat().st_mtime_ns
  check_fingerprint(folder, fingerprint(10, 4, 0, "digest-a"), resumes=True)
  assert [path.read_bytes(), path.stat().st_mtime_ns] == [content, changed]
  assert [entry.name for entry in folder.iterdir()] == ["pipeline.json"]


@pytest.mark.parametrize(
  ("other", "names"),
  [
    ((11, 4, 0, "digest-a"), ["number of training examples (10 there, 11 here)", "order"]),
    ((10, 5, 0, "digest-a"), ["batch size (4 there, 5 here)"]),
    ((10, 4, 1, "digest-a"), ["seed (0 there, 1 here)", "order"]),
    ((10, 4, 0, "digest-b"), ["data (digest-a there, digest-b here)"]),
  ],
)
def test_a_resume_on_other_data_is_refused_in_one_sentence(tmp_path, other, names):
  check_fingerprint(tmp_path, EXPECTED, resumes=False)
  before = (tmp_path / "pipeline.json").read_bytes()
  with pytest.raises(InputError) as caught:
    check_fingerprint(tmp_path, fingerprint(*other), resumes=True)
  message = str(caught.value)
  assert all(name in message for name in names) and message.count("\n") == 0
  assert message.count(" there, ") == len(names) + ("batch" in names[0])
  assert (tmp_path / "pipeline.json").read_bytes() == before


def test_another_order_of_the_same_rows_is_refused(tmp_path, monkeypatch):
  """As after a change of the code, or of the library, that shuffles."""
  check_fingerprint(tmp_path, EXPECTED, resumes=False)
  monkeypatch.setattr(pipeline, "epoch_order", lambda seed, epoch, number: np.arange(number))
  with pytest.raises(InputError, match=r"differ in order of the examples \([0-9a-f]{32} there"):
    check_fingerprint(tmp_path, fingerprint(10, 4, 0, "digest-a"), resumes=True)


def test_the_number_of_processes_is_no_part_of_it(monkeypatch):
  monkeypatch.setattr(jax, "process_index", lambda: 1)
  monkeypatch.setattr(jax, "process_count", lambda: 2)
  assert fingerprint(10, 4, 0, "digest-a") == EXPECTED


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"num_rows": 10', '"text"'])
def test_a_resume_without_a_readable_fingerprint_is_refused(tmp_path, content):
  if content is not None:
    (tmp_path / "pipeline.json").write_text(content, encoding="utf-8")
  before = {path: path.read_bytes() for path in tmp_path.iterdir()}
  with pytest.raises(InputError, match=r"pipeline\.json: is missing or damaged"):
    check_fingerprint(tmp_path, EXPECTED, resumes=True)
  assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_run_without_a_checkpoint_starts_anew(tmp_path):
  (tmp_path / "pipeline.json").write_text("cut o", encoding="utf-8")
  check_fingerprint(tmp_path, EXPECTED, resumes=False)
  assert os.listdir(tmp_path) == ["pipeline.json"]
  stored = json.loads((tmp_path / "pipeline.json").read_text(encoding="utf-8"))
  assert stored == dataclasses.asdict(EXPECTED)
