"""Which official release files a folder holds, and their streams.

Owns the recognition of a file by the keys of its first record (never by its name) and the
list of converters. Knows nothing of what the files mean; the converters do.
"""

import collections
import json
import os
import pathlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from tarl_jax.data.factconsolidation import load_factconsolidation
from tarl_jax.data.factconsolidation_gold import by_subject, with_scenes
from tarl_jax.data.halumem import load_halumem
from tarl_jax.data.halumem_stages import load_halumem_stages
from tarl_jax.data.locomo import load_locomo
from tarl_jax.data.longmemeval import load_longmemeval
from tarl_jax.data.record import Stream
from tarl_jax.errors import InputError

SUFFIXES = (".json", ".jsonl")
WHOLE = "factconsolidation, whole"  # in `load_release`: its streams before `by_subject`
# Of FactConsolidation, contexts up to this many facts enter one-step use: the largest alone
# would be two fifths of all examples. Scenes for each of its people, so that every class occurs.
MAX_BY_SUBJECT = 5000
MAX_SCENES = 40
_FIRST_READ = 1 << 16  # characters
_LAST_READ = 1 << 26  # a first record longer than this is no release file

Paths = tuple[pathlib.Path, ...]


class ReleaseFiles(NamedTuple):
  """Paths by source, sorted; `unknown` are .json and .jsonl files of no known shape."""

  halumem: Paths = ()
  halumem_stages: Paths = ()
  locomo: Paths = ()
  longmemeval: Paths = ()
  factconsolidation: Paths = ()
  unknown: Paths = ()


SOURCES = ReleaseFiles._fields[:-1]


def find_release_files(folder: str | pathlib.Path) -> ReleaseFiles:
  """The release files anywhere below `folder`.

  Raises:
    InputError: if the folder cannot be listed or holds no file of a known shape.
  """
  folder = pathlib.Path(folder)
  found: dict[str, list[pathlib.Path]] = {name: [] for name in ReleaseFiles._fields}
  if not folder.is_dir():
    raise InputError(f"{folder}: is no folder; give the one that holds the release files.")
  for path in sorted(_files_below(folder)):
    found[_shape_of(_first_record(path)) or "unknown"].append(path)
  if not any(found[name] for name in SOURCES):
    raise InputError(
      f"{folder}: holds no release file among {len(found['unknown'])} JSON files; download at "
      "least one of HaluMem, LoCoMo, LongMemEval and FactConsolidation into it."
    )
  return ReleaseFiles(**{name: tuple(paths) for name, paths in found.items()})


def _files_below(folder: pathlib.Path) -> Iterable[pathlib.Path]:
  def stop(error: OSError) -> None:
    raise InputError(f"{error.filename}: cannot be listed ({error.strerror}); check its rights.")

  for place, _, names in os.walk(folder, onerror=stop):
    yield from (pathlib.Path(place, name) for name in names if name.endswith(SUFFIXES))


def _first_record(path: pathlib.Path) -> Any:
  """The first JSON value of a file, or of the list that it is; None where there is none."""
  size = _FIRST_READ
  while size <= _LAST_READ:
    try:
      with open(path, encoding="utf-8-sig", errors="replace") as file:
        text = file.read(size)
    except OSError:
      return None
    start = text.lstrip().removeprefix("[").lstrip()
    try:
      return json.JSONDecoder().raw_decode(start)[0]
    except (ValueError, RecursionError):
      if len(text) < size:
        return None
    size *= 4
  return None


def _shape_of(record: Any) -> str | None:
  """The source whose release has such records."""
  if not isinstance(record, dict):
    return None
  keys = set(record)
  if {"uuid", "sessions"} <= keys:
    return "halumem"
  if {"uuid", "profile"} <= keys:
    return "halumem_stages"
  if {"conversation", "observation"} <= keys:
    return "locomo"
  if {"question_id", "haystack_sessions"} <= keys:
    return "longmemeval"
  if {"context", "questions", "metadata"} <= keys:  # other tasks of MemoryAgentBench have these
    metadata = record["metadata"]
    name = metadata.get("source") if isinstance(metadata, dict) else None
    if isinstance(name, str) and name.startswith("factconsolidation"):
      return "factconsolidation"
  return None


def load_release(
  files: ReleaseFiles,
) -> tuple[dict[str, list[Stream]], collections.Counter[str]]:
  """Streams by source, and what was skipped, by "source: reason".

  A source without files is left out. FactConsolidation comes twice: under its own name by
  subject (contexts up to MAX_BY_SUBJECT) with constructed scenes, and in its whole streams
  under `WHOLE`, for the sequential setting.

  Raises:
    InputError: naming file and field, where a file cannot be read.
  """
  converters = {
    "halumem": load_halumem,
    "halumem_stages": load_halumem_stages,
    "locomo": _load_locomo,
    "longmemeval": load_longmemeval,
    "factconsolidation": load_factconsolidation,
  }
  loaded: dict[str, list[Stream]] = {}
  skips: collections.Counter[str] = collections.Counter()
  for source, load in converters.items():
    paths = getattr(files, source)
    if not paths:
      continue
    streams, skipped = load(paths)
    skips.update({f"{source}: {reason}": number for reason, number in skipped.items() if number})
    loaded[source] = streams
  if "factconsolidation" in loaded:
    loaded[WHOLE] = loaded["factconsolidation"]
    told = [stream for stream in loaded[WHOLE] if len(stream.claims) <= MAX_BY_SUBJECT]
    loaded["factconsolidation"] = with_scenes(by_subject(told), max_pairs=MAX_SCENES)
  return loaded, skips


def _load_locomo(paths: Paths) -> tuple[list[Stream], collections.Counter[str]]:
  """`load_locomo` over several files; a conversation that comes again is left out."""
  streams: list[Stream] = []
  skips: collections.Counter[str] = collections.Counter()
  seen: set[str] = set()
  for path in paths:
    found, skipped = load_locomo(path)
    skips.update(skipped)
    again = {stream.person for stream in found} & seen
    skips["conversation given twice"] += len(again)
    streams += [stream for stream in found if stream.person not in again]
    seen.update(stream.person for stream in found)
  return streams, +skips
