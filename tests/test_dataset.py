"""From settings to splits: which streams go where, and the files in between."""

import collections
import dataclasses

import jax
import numpy as np
import pytest

from tarl_jax.config import Config, DataConfig, GeneratedConfig
from tarl_jax.data import dataset, generated, settings
from tarl_jax.data.generated_plan import reserved_kinds
from tarl_jax.data.record import Claim, Gold, Stream, write_streams
from tarl_jax.data.release_files import WHOLE
from tarl_jax.data.settings import SPLITS
from tarl_jax.errors import InputError
from tarl_jax.evaluation import scores
from tarl_jax.types import Action

SMALL = DataConfig(
  generated=GeneratedConfig(train_streams=6, val_streams=2, test_streams=3, claims=30)
)


def groups(streams) -> set[str]:
  return {claim.gold.group for stream in streams for claim in stream.claims if claim.gold.group}


@pytest.fixture(scope="module")
def sources() -> dataset.Sources:
  return dataset.load_sources(SMALL)


def test_known_and_new_facts_are_told_apart(sources):
  by_source = {
    name: [part.stream for part in sources.splits["test"] if part.stream.source == name]
    for name in ("generated", "generated, new facts")
  }
  assert [len(streams) for streams in by_source.values()] == [3, 3]
  told = {split_of_group(group) for group in groups(by_source["generated"])}
  assert told == {"train"}
  assert {split_of_group(group) for group in groups(by_source["generated, new facts"])} == {"test"}


def split_of_group(group: str) -> str:
  return next(quad.split for quad in generated.load_quads() if quad.id == group)


def test_no_person_is_on_two_sides(sources):
  people = {name: {part.stream.person for part in parts} for name, parts in sources.splits.items()}
  assert not people["train"] & people["test"]
  assert not people["train"] & people["val"]
  assert not people["val"] & people["test"]


def test_the_digest_sees_one_changed_claim(sources):
  again = dataset.load_sources(SMALL)
  assert again.digest == sources.digest
  other = dataclasses.replace(SMALL.generated, claims=31)
  assert dataset.load_sources(dataclasses.replace(SMALL, generated=other)).digest != again.digest


def test_the_vocabulary_comes_back_and_damage_is_seen(tmp_path, sources):
  idf = dataset.fit_vocabulary(c for part in sources.splits["train"] for c in part.examples)
  path = tmp_path / "vocabulary.json"
  dataset.save_vocabulary(path, idf)
  assert dataset.read_vocabulary(path) == idf
  data = bytearray(path.read_bytes())
  data[len(data) // 2] ^= 1
  path.write_bytes(bytes(data))
  with pytest.raises(InputError, match=r"digest|damaged"):
    dataset.read_vocabulary(path)


def test_a_split_without_streams_stops():
  nothing = dataclasses.replace(SMALL.generated, test_streams=0)
  with pytest.raises(InputError, match="test split"):
    dataset.load_sources(dataclasses.replace(SMALL, generated=nothing))


ROWS = ("generated", "generated, new facts", "generated, new kinds")
RESERVED = reserved_kinds("val") | reserved_kinds("test")


@pytest.mark.parametrize("name", ["val", "test"])
def test_the_generated_rows_hold_every_step_once(sources, name):
  number = getattr(SMALL.generated, f"{name}_streams")
  told = {
    stream.stream_id: (stream, row)
    for row, facts in (("generated", "train"), ("generated, new facts", name))
    for stream in generated.generate(SMALL.generated.seed, number, 30, name, facts)
  }
  steps: dict[str, list[int]] = {stream_id: [] for stream_id in told}
  for part in sources.splits[name]:
    stream_id = part.stream.stream_id.rpartition("/")[0]
    stream, row = told[stream_id]
    assert (part.stream.claims, part.stream.person) == (stream.claims, stream.person)
    steps[stream_id] += part.kept
    new = part.stream.source == "generated, new kinds"
    assert new or part.stream.source == row
    assert all((claim.gold.kind in RESERVED) == new for claim in part.examples)
  assert all(sorted(found) == list(range(30)) for found in steps.values())
  ids = [part.stream.stream_id for part in sources.splits[name]]
  assert len(set(ids)) == len(ids)
  assert {part.stream.source for part in sources.splits[name]} == set(ROWS)


def kinds_of(parts) -> set[str]:
  return {claim.gold.kind for part in parts for claim in part.examples}


def test_training_tells_the_reserved_kinds_only_where_nothing_is_held_out(sources):
  assert not kinds_of(sources.splits["train"]) & RESERVED
  assert all(part.steps is None for part in sources.splits["train"])
  everything = dataclasses.replace(SMALL.generated, hold_out=False)
  again = dataset.load_sources(dataclasses.replace(SMALL, generated=everything)).splits
  told = kinds_of(again["train"])
  assert told & reserved_kinds("val") and told & reserved_kinds("test")
  assert all(part.steps is None for part in again["train"])
  domains = {split_of_group(group) for group in groups(part.stream for part in again["train"])}
  assert domains == set(SPLITS)
  assert again["test"] == sources.splits["test"], "what is tested stays"


def diaries() -> list[Stream]:
  """Six people of each of two sources; everybody says the same at last."""
  found = []
  for source in ("diary", "letters"):
    for person in range(6):
      name = f"{source}{person}"
      texts = [f"{name} paints {name}boat{number} with {name}tar{number}" for number in range(9)]
      claims = [
        Claim(f"{number}", text, "user", observed_at=number, gold=Gold(Action.APPEND))
        for number, text in enumerate([*texts, "The ferry leaves at noon."])
      ]
      found.append(Stream(f"{source}:{person}", source, tuple(claims), name))
  return found


@pytest.mark.parametrize(
  ("fields", "divide"),
  [
    ({"setting": "temporal"}, settings.temporal),
    (
      {"setting": "cross-source", "held_out": "letters"},
      lambda streams: settings.cross_source(streams, "letters"),
    ),
  ],
  ids=["temporal", "cross-source"],
)
def test_the_examples_of_a_split_are_the_steps_of_its_setting(tmp_path, fields, divide):
  streams = diaries()
  write_streams(tmp_path / "one.jsonl", streams[:6])
  write_streams(tmp_path / "two.jsonl", streams[6:])
  data = DataConfig(streams=(str(tmp_path / "*.jsonl"),), cache_dir="", **fields)
  splits = dataset.load_sources(data).splits
  assert splits == divide(streams)
  assert all(part.steps is not None for part in splits["train"]), "the last text is tested"
  encoder = dataset.load_encoder(Config().encoder)
  for name, parts in splits.items():
    split = dataset.build_split(parts, Config(data=data), encoder, {})
    wanted = [(i, step) for i, part in enumerate(parts) for step in part.kept]
    assert len(split.moments) == 10 * len(parts), "the memory is told every step"
    rows = [e for e, m in enumerate(split.moments) if (m.stream, m.step) in wanted]
    assert np.flatnonzero(split.counts).tolist() == rows and len(rows) == len(wanted)
    assert name != "train" or len(rows) < len(split.moments)
    found = dataset.examples_of(split)
    for leaf, whole in zip(jax.tree.leaves(found), jax.tree.leaves((split.inputs, split.labels))):
      np.testing.assert_array_equal(leaf, np.stack([whole[row] for row in rows]))
    shown = scores.parts(split)
    np.testing.assert_array_equal(shown["all"], split.counts)
    by_source = np.sum([part for row, part in shown.items() if row.startswith("source: ")], axis=0)
    np.testing.assert_array_equal(by_source, split.counts)


@pytest.mark.parametrize(
  ("setting", "used"), [("in-domain", "by subject"), ("sequential", "whole")]
)
def test_factconsolidation_is_whole_in_the_sequential_setting_alone(monkeypatch, setting, used):
  facts = [
    dataclasses.replace(s, source="factconsolidation", stream_id=f"f:{s.stream_id}")
    for s in diaries()[:6]
  ]
  loaded = {
    "locomo": diaries()[6:],
    "factconsolidation": [dataclasses.replace(s, stream_id="by subject") for s in facts],
    WHOLE: [dataclasses.replace(s, stream_id="whole") for s in facts],
  }
  monkeypatch.setattr(dataset, "load_release", lambda files: (loaded, collections.Counter()))
  splits = dataset.load_sources(DataConfig(setting=setting)).splits
  parts = [part.stream for found in splits.values() for part in found]
  assert len(parts) == 12
  assert {s.stream_id for s in parts if s.source == "factconsolidation"} == {used}
