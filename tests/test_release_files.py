"""Official files are told by the shape of their first record, wherever they lie."""

import collections
import json
import os

import pytest

from tarl_jax.data import release_files
from tarl_jax.data.record import Claim, Gold, Stream
from tarl_jax.data.release_files import WHOLE, ReleaseFiles, find_release_files, load_release
from tarl_jax.errors import InputError
from tarl_jax.types import Action

RECORDS = {
  "halumem": {"uuid": "u", "persona_info": "", "sessions": []},
  "halumem_stages": {"uuid": "u", "profile": {}, "event_list": []},
  "locomo": {"sample_id": "s", "conversation": {}, "observation": {}},
  "longmemeval": {"question_id": "q", "haystack_sessions": []},
  "factconsolidation": {
    "context": "0. A fact.",
    "questions": [],
    "answers": [],
    "metadata": {"source": "factconsolidation_sh_6k"},
  },
}
OTHERS = {
  "other_task.json": [{"context": "", "questions": [], "metadata": {"source": "eventqa_64k"}}],
  "no_metadata.json": [{"context": "", "questions": [], "metadata": "factconsolidation"}],
  "number.json": 3,
  "empty_list.json": [],
  "texts.json": ["uuid", "sessions"],
}


def write(path, text):
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(text, encoding="utf-8")
  return path


@pytest.mark.parametrize("source", RECORDS)
@pytest.mark.parametrize("form", ["list", "lines", "bom", "long"])
def test_a_file_is_known_by_its_first_record(tmp_path, source, form):
  record = RECORDS[source]
  if form == "long":  # longer than what is read at first
    record = {"filler": "x" * 200_000, **record}
  text = json.dumps([record] * 2) if form != "lines" else (json.dumps(record) + "\n") * 2
  path = write(tmp_path / "a" / "b" / ("x.jsonl" if form == "lines" else "x.json"), text)
  if form == "bom":
    path.write_text(text, encoding="utf-8-sig")
  assert find_release_files(tmp_path) == ReleaseFiles(**{source: (path,)})


def test_unknown_files_are_reported_and_other_suffixes_are_not_read(tmp_path):
  known = write(tmp_path / "wrong_name.jsonl", json.dumps(RECORDS["locomo"]))
  unknown = [write(tmp_path / name, json.dumps(value)) for name, value in OTHERS.items()]
  unknown.append(write(tmp_path / "cut.json", '[{"uuid": "u", "sessions": ['))
  unknown.append(write(tmp_path / "deep.json", "[" * 100_000))
  (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe\x00")
  write(tmp_path / "notes.txt", json.dumps(RECORDS["halumem"]))
  found = find_release_files(tmp_path)
  assert found.locomo == (known,)
  assert set(found.unknown) == {*unknown, tmp_path / "bytes.jsonl"}
  assert not found.halumem and not found.factconsolidation


def test_a_folder_without_release_files_stops(tmp_path):
  with pytest.raises(InputError, match="among 0 JSON files"):
    find_release_files(tmp_path)
  write(tmp_path / "x.json", "[3]")
  with pytest.raises(InputError, match="among 1 JSON files"):
    find_release_files(tmp_path)
  with pytest.raises(InputError, match="is no folder"):
    find_release_files(tmp_path / "x.json")


def stream(source, person="p"):
  return Stream(f"{source}:0", source, (Claim("0", "x", gold=Gold(Action.APPEND)),), person)


def test_every_source_is_loaded_with_its_skips(monkeypatch, tmp_path):
  for name in ("halumem", "halumem_stages", "longmemeval", "factconsolidation"):
    found = [stream(name)], collections.Counter({"bad": 2, "fine": 0})
    monkeypatch.setattr(release_files, f"load_{name}", lambda paths, found=found: found)
  monkeypatch.setattr(
    release_files, "load_locomo", lambda path: ([stream("locomo")], collections.Counter(odd=1))
  )
  monkeypatch.setattr(release_files, "by_subject", lambda streams: [*streams, stream("short")])
  monkeypatch.setattr(
    release_files, "with_scenes", lambda streams, max_pairs: [*streams, stream("scene")]
  )
  files = ReleaseFiles(*[(tmp_path,)] * 5)
  loaded, skips = load_release(files._replace(locomo=(tmp_path, tmp_path)))
  assert {name: len(found) for name, found in loaded.items()} == {
    "halumem": 1,
    "halumem_stages": 1,
    "locomo": 1,
    "longmemeval": 1,
    "factconsolidation": 3,
    WHOLE: 1,
  }
  assert skips["halumem: bad"] == 2 and "halumem: fine" not in skips
  assert skips["locomo: odd"] == 2 and skips["locomo: conversation given twice"] == 1
  assert set(load_release(ReleaseFiles(halumem=(tmp_path,)))[0]) == {"halumem"}


def test_factconsolidation_is_whole_and_by_subject_where_it_is_not_too_large(monkeypatch):
  claims = tuple(Claim(f"{i}", f"x {i}") for i in range(4))
  sizes = [Stream(f"own:{n}", "own", claims[:n], "p") for n in (2, 3, 4)]
  monkeypatch.setattr(release_files, "load_factconsolidation", lambda paths: (sizes, {}))
  monkeypatch.setattr(release_files, "by_subject", lambda streams: [s.stream_id for s in streams])
  monkeypatch.setattr(release_files, "with_scenes", lambda streams, max_pairs: (streams, max_pairs))
  monkeypatch.setattr(release_files, "MAX_BY_SUBJECT", 3)
  loaded, _ = load_release(ReleaseFiles(factconsolidation=("any",)))
  assert loaded[WHOLE] == sizes
  assert loaded["factconsolidation"] == (["own:2", "own:3"], release_files.MAX_SCENES)


def test_files_come_in_the_order_of_their_paths(tmp_path):
  names = ("z.json", "a/x.json", "a/b/y.jsonl", "m/a.json")
  paths = [write(tmp_path / name, json.dumps(RECORDS["halumem"])) for name in names]
  assert find_release_files(tmp_path).halumem == tuple(sorted(paths))


def test_a_folder_below_that_cannot_be_listed_stops(monkeypatch, tmp_path):
  write(tmp_path / "x.json", json.dumps(RECORDS["halumem"]))
  (tmp_path / "closed").mkdir()
  scandir = os.scandir

  def refuse(folder):
    if os.path.basename(folder) == "closed":
      raise PermissionError(13, "Permission denied", str(folder))
    return scandir(folder)

  monkeypatch.setattr(os, "scandir", refuse)
  with pytest.raises(InputError, match=r"closed: cannot be listed \(Permission denied\)"):
    find_release_files(tmp_path)


def test_the_real_files_are_all_known(data_dir):
  found = find_release_files(data_dir)
  assert not found.unknown
  assert all(found[: len(release_files.SOURCES)])
