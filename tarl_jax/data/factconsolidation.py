"""FactConsolidation's Conflict_Resolution file as streams and questions (DATA.md, "Shapes").

Owns the shape of the file: rows with one text of numbered facts, with questions and answers.
What the facts mean for a memory is in `factconsolidation_gold.py`.
"""

import collections
import json
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tarl_jax.data.factconsolidation_gold import Fact, parse_fact, read_gold
from tarl_jax.data.jsonl import Fields, read_jsonl
from tarl_jax.data.record import Stream
from tarl_jax.errors import InputError

_NAME = re.compile(r"factconsolidation_(mh|sh)_([0-9a-zA-Z]+)")
_HOPS = {"mh": "multi", "sh": "single"}
_LINE = re.compile(r"([0-9]{1,7})\.\s+(.+)")


class Question(NamedTuple):
  """A question about the end of a stream. An answer is right if it is one of `answers`."""

  text: str
  answers: tuple[str, ...]
  hops: str  # "single" or "multi"


class _Row(NamedTuple):
  name: str  # the size of the context as the file names it, "6k"
  hops: str
  context: str
  fields: Fields


def load_factconsolidation(
  paths: Sequence[str | pathlib.Path],
) -> tuple[list[Stream], collections.Counter[str]]:
  """One stream for each distinct context, and how much was left out, by reason.

  A stream holds all facts in the order of their serial numbers, each observed at `EPOCH`
  plus its serial in minutes and told by `SOURCE`. The first value of a slot is an append,
  another value a revise of the live claim, the same value a noop about it. The rows with
  single-hop and multi-hop questions share their context, which is counted and told once.
  Contexts repeat each other's facts, so all streams have one `person`; `by_subject` makes
  streams that can be divided.

  Args:
    paths: the release as JSON, a list of rows or one row a line. A parquet file has to be
      converted first.

  Raises:
    InputError: naming file, row and field, where a file cannot be read.
  """
  skips: collections.Counter[str] = collections.Counter()
  streams: dict[str, Stream | None] = {}
  for row in _read_rows(paths, skips):
    if row.name in streams:
      skips["context given twice"] += 1
      continue
    facts = _read_facts(row.context, skips)
    streams[row.name] = read_gold(_stream_id(row.name), facts) if facts else None
    skips["context without facts"] += not facts
  return [stream for stream in streams.values() if stream], +skips


def load_questions(paths: Sequence[str | pathlib.Path]) -> dict[str, list[Question]]:
  """The questions of all rows by stream id, in the order of the file.

  Raises:
    InputError: naming file, row and field, where a file cannot be read.
  """
  found: dict[str, list[Question]] = {}
  for row in _read_rows(paths, collections.Counter()):
    questions, answers = (row.fields.items(name) for name in ("questions", "answers"))
    if len(questions) != len(answers):
      raise row.fields.fail("answers", f"{len(questions)} items, one for each question")
    for i, (text, answer) in enumerate(zip(questions, answers)):
      if not isinstance(text, str) or not text.strip():
        raise row.fields.fail("questions", f"a text as item {i}")
      accepted = tuple(_flatten(answer))
      if not accepted:
        raise row.fields.fail("answers", f"an answer, or a list of some, as item {i}")
      found.setdefault(_stream_id(row.name), []).append(Question(text, accepted, row.hops))
  return found


def _stream_id(name: str) -> str:
  return f"factconsolidation_{name}"


def _flatten(value: Any) -> Iterator[str]:
  """Answers in a list of any depth, in order; a number becomes a text."""
  waiting = [value]
  while waiting:
    value = waiting.pop()
    if isinstance(value, list):
      waiting += reversed(value)
    elif isinstance(value, str | int | float) and str(value).strip():
      yield str(value).strip()


def _read_rows(
  paths: Sequence[str | pathlib.Path], skips: collections.Counter[str]
) -> Iterator[_Row]:
  """Rows of FactConsolidation, each once; stops where one name has two contexts."""
  contexts: dict[str, tuple[str, str]] = {}
  seen: set[str] = set()
  for path in paths:
    for fields, where in _read_objects(pathlib.Path(path)):
      context = fields.text("context")
      source = fields.child("metadata").text("source")
      match = _NAME.fullmatch(source)
      if not match:
        skips["row of another dataset"] += 1
        continue
      if source in seen:
        skips["row given twice"] += 1
        continue
      seen.add(source)
      hops, name = _HOPS[match[1]], match[2]
      first, text = contexts.setdefault(name, (where, context))
      if text != context:
        raise InputError(
          f"{where}, field 'context': differs from that of {first}, and both are '{name}'; "
          "give files of one release."
        )
      yield _Row(name, hops, context, fields)


def _read_objects(path: pathlib.Path) -> Iterator[tuple[Fields, str]]:
  try:
    text = path.read_text(encoding="utf-8-sig")
  except OSError as error:
    raise InputError(f"{path}: cannot be read ({error.strerror}); check the path.") from None
  except UnicodeDecodeError as error:
    raise InputError(
      f"{path}: is not UTF-8 text (byte {error.start}); convert a parquet file to JSON first."
    ) from None
  if not text.strip():
    raise InputError(f"{path}: is empty; expected a list of rows.")
  if not text.lstrip().startswith("["):
    yield from read_jsonl(path)
    return
  try:
    rows = json.loads(text)
  except (ValueError, RecursionError) as error:
    raise InputError(f"{path}: is not JSON ({error}); the file may be cut off.") from None
  if not rows:
    raise InputError(f"{path}: expected a list of rows, found an empty list.")
  for i, row in enumerate(rows):
    where = f"{path}, row {i}"
    yield Fields(row, where), where


def _read_facts(context: str, skips: collections.Counter[str]) -> dict[int, tuple[str, Fact]]:
  """Sentences and what they say, by serial number."""
  facts: dict[int, tuple[str, Fact]] = {}
  for line in context.split("\n"):
    match = _LINE.fullmatch(line.strip())
    if not match:
      heading = not facts and line.rstrip().endswith(":")
      skips["line without a serial number"] += bool(line.strip()) and not heading
    elif int(match[1]) in facts:
      skips["serial number given twice"] += 1
    elif fact := parse_fact(match[2]):
      facts[int(match[1])] = match[2], fact
    else:
      skips["fact fits no template"] += 1
  return facts
