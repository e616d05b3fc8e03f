"""The HaluMem release file as streams with gold (DATA.md, "Shapes and the dirt").

Owns the shape of the file: one JSON object a line is one person, with sessions of memory
points. What betrays an interference point is never read (importance, the extra keys) or
shuffled away (its place in the session); `memory_source` serves for the label alone. What
the annotations mean for a memory is in `halumem_gold.py`.
"""

import collections
import datetime
import pathlib
import re
from collections.abc import Sequence
from typing import NamedTuple

from tarl_jax.data.construct import seeded
from tarl_jax.data.halumem_gold import Annotations, Point
from tarl_jax.data.jsonl import Fields, minutes, read_jsonl
from tarl_jax.data.record import Stream
from tarl_jax.data.weave import weave

_DATE = re.compile(r"([A-Z][a-z]{2}) (\d{1,2}), (\d{4}), (\d{1,2}):(\d{2}):(\d{2})")
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_SOURCES = ("primary", "secondary", "interference", "system")
_NAME = re.compile(r"\bName:\s*([^;\n]+?)\s*(?:;|$)")


class _Session(NamedTuple):
  number: int
  start: int  # minutes
  end: int
  points: list[Point]


def load_halumem(
  paths: Sequence[str | pathlib.Path],
) -> tuple[list[Stream], collections.Counter[str]]:
  """Streams of all people in the files, and how many points were skipped, by reason.

  The first stream of a person holds the source's own claims and constructed ones between
  them; further streams (same `person`) are constructed from that person's pairs of texts.
  All points of a session carry its end as their time; here they are spread evenly from
  its start to its end in their shuffled order, so that what comes later is newer.

  Raises:
    InputError: naming file, line and field, where a file cannot be read.
  """
  skips: collections.Counter[str] = collections.Counter()
  streams: list[Stream] = []
  seen: set[str] = set()
  for path in paths:
    for fields, where in read_jsonl(path):
      person = read_uuid(fields)
      if person in seen:
        skips["person given twice"] += 1
        continue
      seen.add(person)
      sessions = _read_sessions(fields, where, person)
      if not any(session.points for session in sessions):
        skips["person without memory points"] += 1
        continue
      match = _NAME.search(fields.text("persona_info", ""))
      annotations = Annotations(person, match.group(1) if match else "", skips)
      streams += weave(annotations.read(_in_order(sessions, person)), skips)
  return streams, skips


def read_uuid(fields: Fields) -> str:
  """Who the line is about; everything drawn for the person is seeded by it."""
  person = fields.text("uuid")
  try:
    person.encode()
  except UnicodeEncodeError:
    raise fields.fail("uuid", "a text of whole characters") from None
  return person


def _read_sessions(fields: Fields, where: str, person: str) -> list[_Session]:
  sessions = []
  for number, value in enumerate(fields.items("sessions")):
    session = Fields(value, f"{where}, session {number}")
    start, end = (_read_date(session, name) for name in ("start_time", "end_time"))
    points = [
      _read_point(Fields(point, f"{where}, session {number}, memory point {i}"))
      for i, point in enumerate(session.items("memory_points"))
    ]
    sessions.append(_Session(number, min(start, end), end, points))
  return sorted(sessions, key=lambda session: session.end)


def _read_point(fields: Fields) -> Point:
  """One point; `timestamp` is checked and else unused, as it repeats the session's end."""
  _read_date(fields, "timestamp")
  originals = fields.items("original_memories", optional=True)
  if not all(isinstance(original, str) for original in originals):
    raise fields.fail("original_memories", "a list of texts")
  return Point(
    text=fields.text("memory_content").strip(),
    interference=fields.one_of("memory_source", _SOURCES) == "interference",
    update=fields.one_of("is_update", ("True", "False")) == "True",
    originals=tuple(originals),
    reference=(fields.optional_text("reference_memory_content") or "").strip(),
  )


def _read_date(fields: Fields, name: str) -> int:
  match = _DATE.fullmatch(fields.text(name).strip())
  try:
    if match and match.group(1) in _MONTHS:
      day, year, hour, minute, second = map(int, match.groups()[1:])
      month = _MONTHS.index(match.group(1)) + 1
      return minutes(datetime.datetime(year, month, day, hour, minute, second))
  except ValueError:
    pass
  raise fields.fail(name, "a date such as 'Jan 15, 2029, 16:15:20'")


def _in_order(sessions: Sequence[_Session], person: str) -> list[tuple[int, str, Point]]:
  """(minute, provisional id, point), each session shuffled by a seed from its own content."""
  ordered = []
  for session in sessions:
    rng = seeded("session", person, session.number)
    size = len(session.points)
    for place, i in enumerate(rng.permutation(size)):
      time = session.start + (session.end - session.start) * (place + 1) // size
      ordered.append((time, f"{person}/{session.number}/{place}", session.points[int(i)]))
  return ordered
