"""LongMemEval's files as streams with gold (DATA.md, "Shapes and the dirt").

Owns the shape of the files, dates, and which questions belong together: a list of records,
each a question with a haystack of dated sessions, in the oracle shape (answer sessions
alone) and in the S and M shapes (among others). What a record means for a memory is in
`longmemeval_gold.py`.
"""

import collections
import dataclasses
import datetime
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tarl_jax.data.jsonl import Fields, minutes, read_json_list
from tarl_jax.data.longmemeval_evidence import Record, Session, Turn
from tarl_jax.data.longmemeval_gold import read_gold
from tarl_jax.data.record import Stream
from tarl_jax.data.weave import weave
from tarl_jax.errors import InputError

_DATE = re.compile(r"(\d{4})/(\d{1,2})/(\d{1,2})(?:\s*\([A-Za-z]+\))?(?:\s+(\d{1,2}):(\d{2}))?")
_FAMILY = re.compile(r"(?:_abs)?(?:_\d+)?$")
_LOGGED = ("sharegpt_", "ultrachat_")


def load_longmemeval(
  paths: Sequence[str | pathlib.Path],
) -> tuple[list[Stream], collections.Counter[str]]:
  """Streams of all questions in the files, and how many items were skipped, by reason.

  The first stream of a question holds the user's own sentences with constructed claims
  between them; further streams are constructed. Stream ids hold the name of the file
  without its suffix, as the variants date one question differently. `person` is the
  question id without `_abs`, or the first id of all questions with answer sessions of one
  family (`answer_` names that differ in `_abs` or number alone). A session that several
  people would be told is told to one of them. A turn is timed one minute after the one
  before it, from the session's date.

  Raises:
    InputError: naming file, record and field, where a file cannot be read.
  """
  skips: collections.Counter[str] = collections.Counter()
  records: dict[str, tuple[str, Record]] = {}
  for path in sorted(map(pathlib.Path, paths)):
    for i, value in enumerate(read_json_list(path, "questions")):
      fields = Fields(value, f"{path}, record {i}")
      question = fields.text("question_id")
      if not question or not question.isprintable():
        raise fields.fail("question_id", "a text that can be printed")
      key = f"{path.stem}:{question}"
      record = _read_record(value, key, f"{path}, record {i} ({question})", skips)
      if key in records:
        skips["question given twice"] += 1
      else:
        records[key] = question, record
  people = _people(records)
  owners = _owners(records, people)
  streams: list[Stream] = []
  for key, (_, record) in records.items():
    person = people[key]
    own = [session for session in record.sessions if owners[session.name] == person]
    skips["session told under another question"] += len(record.sessions) - len(own)
    background = read_gold(record._replace(sessions=own), skips)
    if background.background:
      told = weave(background, skips)
      streams += [dataclasses.replace(stream, person=person) for stream in told]
    else:
      skips["question without claims"] += 1
  return streams, +skips


def _read_record(value: Any, key: str, where: str, skips: collections.Counter[str]) -> Record:
  fields = Fields(value, where)
  answer = value.get("answer")
  if isinstance(answer, bool) or not isinstance(answer, str | int | float | None):
    raise fields.fail("answer", "a text, a number or null")
  kind = fields.text("question_type")
  abstains = fields.text("question_id").endswith("_abs") or kind == "abstention"
  answering = frozenset(_texts(fields, "answer_session_ids"))
  sessions = _read_sessions(fields, answering, where, skips)
  skips["answer session not in the haystack"] += len(
    answering - {session.name for session in sessions}
  )
  return Record(
    key=key,
    question=fields.text("question"),
    answer="" if answer is None else str(answer),
    updates=kind == "knowledge-update" and not abstains,
    abstains=abstains,
    sessions=sessions,
  )


def _texts(fields: Fields, name: str) -> list[str]:
  values = fields.items(name)
  if not all(isinstance(value, str) for value in values):
    raise fields.fail(name, "a list of texts")
  return values


def _read_sessions(
  fields: Fields, answering: frozenset[str], where: str, skips: collections.Counter[str]
) -> list[Session]:
  """The sessions in order of their dates; one that starts before another ends is moved on."""
  names, dates = (_texts(fields, f"haystack_{name}") for name in ("session_ids", "dates"))
  talks = fields.items("haystack_sessions")
  for name, values in (("haystack_session_ids", names), ("haystack_dates", dates)):
    if len(values) != len(talks):
      raise InputError(
        f"{where}, field '{name}': expected one for each of the {len(talks)} haystack_sessions, "
        f"found {len(values)}."
      )
  found: dict[str, tuple[int, list[Turn]]] = {}
  for place, (name, day, talk) in enumerate(zip(names, dates, talks)):
    if name in found:
      skips["session given twice"] += 1
      continue
    when = _read_date(day, f"{where}, field 'haystack_dates', item {place}")
    found[name] = when, _read_turns(talk, f"{where}, haystack_sessions {place}", skips)
  sessions: list[Session] = []
  free = 0
  for name, (date, turns) in sorted(found.items(), key=lambda item: item[1][0]):
    start = max(date, free) if sessions else date
    free = start + len(turns)
    sessions.append(Session(name, date, start, name in answering, name.startswith(_LOGGED), turns))
  return sessions


def _read_date(text: str, where: str) -> int:
  match = _DATE.fullmatch(text.strip())
  try:
    if match:
      year, month, day, hour, minute = (int(part or 0) for part in match.groups())
      return minutes(datetime.datetime(year, month, day, hour, minute))
  except ValueError:
    pass
  raise InputError(
    f"{where}: expected a date such as '2023/04/10 (Mon) 23:07', found {text[:60]!r}."
  )


def _read_turns(talk: Any, where: str, skips: collections.Counter[str]) -> list[Turn]:
  if not isinstance(talk, list):
    raise InputError(f"{where}: expected a list of turns, found {type(talk).__name__}.")
  turns = []
  for place, value in enumerate(talk):
    fields = Fields(value, f"{where}, turn {place}")
    role, text = fields.text("role"), fields.text("content")
    marked = fields.has("has_answer") and fields.flag("has_answer")
    if text.strip():
      by_user = role == "user"
      turns.append(Turn(place, by_user, text if by_user else "", marked))
    else:
      skips["turn without text"] += 1
  return turns


def _people(records: Mapping[str, tuple[str, Record]]) -> dict[str, str]:
  """By key the person: the first id of all questions that share answer sessions."""
  head: dict[str, str] = {}

  def find(name: str) -> str:
    while head.setdefault(name, name) != name:
      name = head[name]
    return name

  for question, record in records.values():
    for session in filter(lambda session: session.answers, record.sessions):
      # Behind every question id, so that the first of a family is a question.
      ends = find(_base(question)), find(f"\U0010ffff{_family(session.name)}")
      head[max(ends)] = min(ends)
  return {key: find(_base(question)) for key, (question, _) in records.items()}


def _base(question: str) -> str:
  return question.removesuffix("_abs")


def _family(session: str) -> str:
  """The name that the sessions of one set of evidence share."""
  return _FAMILY.sub("", session) if session.startswith("answer_") else session


def _owners(records: Mapping[str, tuple[str, Record]], people: Mapping[str, str]) -> dict[str, str]:
  """By session the person to whom it is told: whose question it answers, else the first."""
  wants = sorted(
    (not session.answers, people[key], session.name)
    for key, (_, record) in records.items()
    for session in record.sessions
  )
  owners: dict[str, str] = {}
  for _, person, name in wants:
    owners.setdefault(name, person)
  return owners
