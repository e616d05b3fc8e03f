"""The stored set: what is read equals what was written, in any process, without TensorFlow."""

import dataclasses
import hashlib
import os
import pathlib
import subprocess
import sys
import typing

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from small_streams import claim, random_stream, stream

from tarl_jax.config import DataConfig, GeneratedConfig
from tarl_jax.data import columns, tarl_mem
from tarl_jax.data.columns import NO_TEXT, UNKNOWN_NUMBER, from_columns, layout, to_columns
from tarl_jax.data.dataset import load_sources
from tarl_jax.data.record import Claim, Gold, Stream
from tarl_jax.data.release_files import ReleaseFiles
from tarl_jax.data.settings import SPLITS, Part
from tarl_jax.data.tarl_mem import (
  RELEASED,
  SOURCES,
  TarlMem,
  TarlMemConfig,
  build,
  read_parts_of,
  read_streams_of,
)
from tarl_jax.errors import InputError
from tarl_jax.types import Action

property_test = hypothesis.settings(derandomize=True, deadline=None)
SMALL = GeneratedConfig(train_streams=3, val_streams=1, test_streams=1, claims=12)
SMALL_CONFIG = "small"
NOBODY: dict[str, list[Part]] = {"val": [], "test": []}
OWN = TarlMemConfig(name="own", generated=SMALL)

# Every text that Python can hold, and often those that a format may lose.
TEXTS = st.sampled_from(["", "\ud800", "a\0", "\0\0"]) | st.text(max_size=6).filter(
  lambda text: text != NO_TEXT
)
SHARES = st.floats(allow_nan=False)
TIMES = st.integers(-(2**63), 2**63 - 1).filter(lambda t: t != UNKNOWN_NUMBER)
BY_TYPE = {
  str: TEXTS,
  str | None: st.none() | TEXTS,
  int | None: st.none() | TIMES,
  float | None: st.none() | SHARES,
  bool: st.booleans(),
  tuple[str, ...]: st.lists(TEXTS, max_size=3).map(tuple),
  Action: st.sampled_from(Action),
}


def records(record: type) -> st.SearchStrategy:
  """Every field drawn by its type alone."""
  hints = typing.get_type_hints(record)
  names = [field.name for field in dataclasses.fields(record)]
  return st.builds(record, **{name: BY_TYPE[hints[name]] for name in names})


BY_TYPE[Gold | None] = st.none() | records(Gold)
BY_TYPE[tuple[Claim, ...]] = st.lists(records(Claim), min_size=1, max_size=5).map(tuple)
STREAMS = records(Stream)


def store(folder: pathlib.Path, monkeypatch, parts: dict[str, list[Part]]) -> TarlMem:
  """A set that holds these parts, through the real files."""
  with monkeypatch.context() as patch:
    patch.setattr(tarl_mem, "divided", lambda config, downloads: parts)
    return build(folder, OWN)


@property_test
@hypothesis.given(STREAMS, st.data())
def test_columns_give_back_the_stream_and_its_steps(whole, data):
  size = len(whole.claims)
  steps = tuple(sorted(data.draw(st.sets(st.integers(0, size - 1)))))
  stored = to_columns(whole, steps)
  assert from_columns(stored) == (whole, steps)
  for name, column in layout().items():
    if name != "gold":
      assert stored["claims"][name].dtype == column.dtype and len(stored["claims"][name]) == size


@hypothesis.settings(
  property_test,
  max_examples=4,
  suppress_health_check=list(hypothesis.HealthCheck),
)
@hypothesis.given(st.lists(STREAMS, min_size=4, max_size=20))
def test_files_give_back_the_streams_in_their_order(tmp_path_factory, whole):
  folder = tmp_path_factory.mktemp("stored")
  parts = {
    "train": [Part(one, (0,) if len(one.claims) > 1 else None) for one in whole[2:]],
    "val": [Part(whole[1])],
    "test": [Part(whole[0])],
  }
  with pytest.MonkeyPatch.context() as patch:
    builder = store(folder, patch, parts)
  for split in SPLITS:
    assert read_parts_of(builder, "own", split) == parts[split]
    assert read_parts_of(folder, "own", split) == parts[split]
    assert read_streams_of(folder, "own", split) == [part.stream for part in parts[split]]


def test_reliabilities_and_times_keep_all_their_digits(tmp_path, monkeypatch):
  """0.1 is another number in 32 bits, and the year 9999 lies beyond them."""
  one = claim("a", Action.APPEND, gold_reliability=0.1, observed_at=4_223_000_000)
  one = dataclasses.replace(one, source_reliability=1 / 3)
  whole = stream(one)
  builder = store(tmp_path, monkeypatch, {"train": [Part(whole)]} | NOBODY)
  (found,) = read_streams_of(builder, "own", "train")
  assert found == whole
  assert found.claims[0].gold.reliability == 0.1
  assert isinstance(found.claims[0].gold.action, Action)


def test_the_longest_stream_fits(tmp_path, monkeypatch):
  """As many claims as the longest context of FactConsolidation has facts."""
  whole = random_stream(0, 18_332)
  builder = store(tmp_path, monkeypatch, {"train": [Part(whole)]} | NOBODY)
  assert read_streams_of(builder, "own", "train") == [whole]


def test_a_split_without_streams_is_left_out(tmp_path, monkeypatch):
  parts = {"train": [Part(stream(claim("a")))]} | NOBODY
  builder = store(tmp_path, monkeypatch, parts)
  assert list(builder.info.splits) == ["train"]
  with pytest.raises(InputError, match=r"has no split 'test', only train\.$"):
    read_parts_of(builder, "own", "test")


def test_a_field_added_to_the_record_is_stored(monkeypatch):
  more_gold = dataclasses.make_dataclass(
    "Gold",
    [("notes", tuple[str, ...], ()), ("other", "str | None", None), ("rank", "int | None", None)],
    bases=(Gold,),
    frozen=True,
  )
  more = dataclasses.make_dataclass(
    "Claim", [("gold", more_gold | None, None)], bases=(Claim,), frozen=True
  )
  monkeypatch.setattr(columns, "Claim", more)
  golds = [more_gold(Action.NOOP, notes=("b", ""), other="c"), None, more_gold(Action.NOOP, rank=3)]
  whole = stream(*(more(id=str(i), text="t", gold=gold) for i, gold in enumerate(golds)))
  assert from_columns(to_columns(whole, ())) == (whole, ())
  assert {"notes", "num_notes", "other", "rank"} <= set(layout(more)["gold"])


# The generated config, which needs no file of anybody's.

IN_A_PROCESS = """
import importlib.machinery
import sys

find = importlib.machinery.PathFinder.find_spec

def find_other(name, path=None, target=None):
  return None if name == "tensorflow" else find(name, path, target)  # as where it is missing

importlib.machinery.PathFinder.find_spec = find_other
from tarl_jax.data.tarl_mem import TarlMemConfig, build, read_parts_of
from test_tarl_mem import SMALL, SPLITS, decoded_digest

folder = sys.argv[1]
builder = build(folder, TarlMemConfig(name="small", generated=SMALL))
for split in SPLITS:
  assert read_parts_of(folder, "small", split)
assert "tensorflow" not in sys.modules
print(decoded_digest(builder))
"""


def decoded_digest(builder: TarlMem) -> str:
  """Over names, dtypes, shapes and bytes of every decoded example, in order."""
  state = hashlib.blake2b()

  def add(name: str, value) -> None:
    if isinstance(value, dict):
      for inner in sorted(value):
        add(f"{name}/{inner}", value[inner])
      return
    array = np.asarray(value)
    content = repr(array.tolist()) if array.dtype == object else array.tobytes()
    state.update(repr((name, str(array.dtype), array.shape, content)).encode())

  for split in builder.info.splits:
    for position, example in enumerate(builder.as_data_source(split)):
      add(f"{split}/{position}", example)
  return state.hexdigest()


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> TarlMem:
  config = TarlMemConfig(name=SMALL_CONFIG, generated=SMALL)
  return build(tmp_path_factory.mktemp("data"), config)


def test_the_generated_streams_come_back_as_they_were_made(built):
  made = load_sources(DataConfig(generated=SMALL)).splits
  for split in SPLITS:
    assert made[split]
    read = read_parts_of(built, SMALL_CONFIG, split)
    assert [(p.stream, tuple(p.kept)) for p in read] == [
      (p.stream, tuple(p.kept)) for p in made[split]
    ]
  assert "tensorflow" not in sys.modules


def test_a_second_build_in_another_process_is_equal_and_needs_no_tensorflow(built, tmp_path):
  here = pathlib.Path(__file__).parent
  path = os.pathsep.join([str(here), str(here.parent), os.environ.get("PYTHONPATH", "")])
  done = subprocess.run(
    [sys.executable, "-c", IN_A_PROCESS, str(tmp_path)],
    capture_output=True,
    text=True,
    env=os.environ | {"PYTHONPATH": path, "PYTHONHASHSEED": "7"},
  )
  assert done.returncode == 0, done.stderr
  assert done.stdout.split()[-1] == decoded_digest(built)


def test_a_set_that_is_built_is_not_built_again(built, monkeypatch):
  def stop(*args):
    raise AssertionError

  monkeypatch.setattr(tarl_mem, "load_sources", stop)
  again = build(built.data_dir_root, TarlMemConfig(name=SMALL_CONFIG, generated=SMALL))
  assert decoded_digest(again) == decoded_digest(built)


# Configs and their licences.


def test_one_config_a_source_and_all():
  names = [config.name for config in TarlMem.BUILDER_CONFIGS]
  assert names == [*SOURCES, "all"]
  assert {config.name: config.sources for config in TarlMem.BUILDER_CONFIGS} == {
    **{name: (name,) for name in SOURCES},
    "all": tuple(SOURCES),
  }


@pytest.mark.parametrize("config", [*SOURCES, "all"])
def test_every_config_states_the_licence_of_each_of_its_sources(tmp_path, config):
  info = TarlMem(data_dir=tmp_path, config=config, file_format="array_record").info
  for source in SOURCES if config == "all" else (config,):
    published, licence = SOURCES[source]
    for text in (info.description, info.redistribution_info.license):
      assert f"{source}: {licence}" in text
    assert f"{source}: {published}" in info.citation
  stated = {source for source in SOURCES if f"{source}: " in info.description}
  assert stated == (set(SOURCES) if config == "all" else {config})


def test_the_features_document_what_stands_for_unknown(built):
  claims = built.info.features["claims"]
  assert str(UNKNOWN_NUMBER) in claims["observed_at"].doc.desc
  assert "NaN" in claims["source_reliability"].doc.desc
  assert "NO_LABEL, -1" in claims["gold"]["action"].doc.desc
  assert "3 reject_conflict" in claims["gold"]["action"].doc.desc
  assert "NO_TEXT" in claims["subject"].doc.desc


def three_people(prefix: str) -> list[Stream]:
  return [stream(claim(f"{prefix} {i} told"), name=f"{prefix}-{i}") for i in range(3)]


@pytest.mark.parametrize("config", [*RELEASED, "all"])
def test_release_files_are_those_of_the_config(tmp_path, monkeypatch, config):
  """Files of other sources in the same folder are not read, and `all` reads every one."""
  every = {name: (pathlib.Path(f"{name}.json"),) for name in RELEASED}
  files = ReleaseFiles(**every)
  monkeypatch.setattr(tarl_mem, "find_release_files", lambda folder: files)
  read = []

  def load(wanted):
    read.extend(name for name in RELEASED if getattr(wanted, name))
    return {name: three_people(name) for name in (*read, "factconsolidation, whole")}, {}

  monkeypatch.setattr(tarl_mem, "load_release", load)
  own = [one for one in TarlMem.BUILDER_CONFIGS if one.name == config]
  small = SMALL if config == "all" else GeneratedConfig()
  own = TarlMemConfig(name=f"{config}_own", released=own[0].released, generated=small)
  builder = build(tmp_path / "data", own, manual_dir=tmp_path)
  assert read == list(RELEASED if config == "all" else (config,))
  found = [s for split in SPLITS for s in read_streams_of(builder, own.name, split)]
  told = {whole.stream_id for whole in found if not whole.stream_id.startswith("generated")}
  assert told == {whole.stream_id for name in read for whole in three_people(name)}
  assert (len(told) < len(found)) == (config == "all")
  again = build(tmp_path / "data", own)  # what is built needs its files no more
  assert read_streams_of(again, own.name, "test") == read_streams_of(builder, own.name, "test")


# Bad input.


def test_an_unknown_config_is_refused(tmp_path):
  with pytest.raises(InputError, match=r"'locom' is no config; known are: halumem, .*, all\.$"):
    build(tmp_path, "locom")
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("config", [*RELEASED, "all"])
@pytest.mark.parametrize("given", [None, "missing", "file"])
def test_release_files_need_a_folder(tmp_path, config, given):
  (tmp_path / "file").write_text("{}", encoding="utf-8")
  folder = None if given is None else tmp_path / given
  with pytest.raises(InputError, match=f"config '{config}' needs manual_dir, .*; found"):
    build(tmp_path / "data", config, manual_dir=folder)
  assert not list((tmp_path / "data").rglob("*1.0.0*"))


def test_a_folder_without_the_files_is_refused_and_leaves_nothing(tmp_path, monkeypatch):
  (tmp_path / "notes.json").write_text("[]", encoding="utf-8")
  with pytest.raises(InputError, match="holds no release file"):
    build(tmp_path / "data", "locomo", manual_dir=tmp_path)
  files = ReleaseFiles(halumem=(tmp_path / "h.jsonl",))
  monkeypatch.setattr(tarl_mem, "find_release_files", lambda folder: files)
  with pytest.raises(InputError, match=r"holds no file of locomo; download it there"):
    build(tmp_path / "data", "locomo", manual_dir=tmp_path)
  assert not list((tmp_path / "data").rglob("*1.0.0*"))  # neither a set nor the start of one


def test_reading_what_is_not_there_is_refused(built, tmp_path):
  with pytest.raises(InputError, match=r"no stored set is here; build it"):
    read_streams_of(tmp_path, "locomo", "train")
  with pytest.raises(InputError, match=r"has no split 'dev', only train, val, test\.$"):
    read_streams_of(built, SMALL_CONFIG, "dev")
  with pytest.raises(InputError, match=r"is config 'small', not 'locomo'\.$"):
    read_streams_of(built, "locomo", "train")


@pytest.mark.parametrize("damage", ["cut", "empty", "gone", "info"])
def test_damaged_files_are_refused_in_one_sentence(tmp_path, monkeypatch, damage):
  builder = store(tmp_path, monkeypatch, {"train": [Part(random_stream(0, 50))]} | NOBODY)
  folder = pathlib.Path(builder.data_path)
  (path,) = folder.glob("*train*")
  if damage == "gone":
    path.unlink()
  elif damage == "info":
    (folder / "dataset_info.json").write_text("{", encoding="utf-8")
  else:
    path.write_bytes(path.read_bytes()[: len(path.read_bytes()) // 2] if damage == "cut" else b"")
  with pytest.raises(InputError, match="damaged") as caught:
    read_streams_of(tmp_path, "own", "train")
  assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
  ("bad", "message"),
  [
    (claim("a", text=NO_TEXT), r"field 'text': '\\x00' cannot be stored"),
    (claim("a", subject=NO_TEXT), r"field 'subject': '\\x00'"),
    (claim("a", Action.NOOP, gold_alt_targets=("b", NO_TEXT)), "field 'alt_targets'"),
    (claim("a", observed_at=UNKNOWN_NUMBER), f"field 'observed_at': {UNKNOWN_NUMBER} cannot"),
    (claim("a", valid_until=2**63), "field 'valid_until': holds a number beyond 64 bits"),
    (claim("a", source_reliability=float("nan")), "field 'source_reliability': nan cannot"),
    (claim("a", Action.NOOP, gold_reliability=float("nan")), "field 'reliability': nan"),
  ],
)
def test_a_value_that_stands_for_none_is_refused(bad, message):
  with pytest.raises(InputError, match=f"^stream s, {message}"):
    to_columns(stream(claim("first"), bad), (0, 1))
