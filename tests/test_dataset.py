"""From settings to splits: which streams go where, and the files in between."""

import dataclasses

import pytest

from tarl_jax.config import DataConfig, GeneratedConfig
from tarl_jax.data import dataset, generated
from tarl_jax.errors import InputError

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
