"""LoCoMo's locomo10.json as streams with gold (DATA.md, "Shapes and the dirt").

Owns the shape of the file: a list of conversations with dated sessions of turns and with
observations by speaker. Questions, summaries and events are not read. What the
observations mean for a memory is in `locomo_gold.py`.
"""

import collections
import datetime
import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

from tarl_jax.data.jsonl import Fields, minutes, one_line, read_json_list
from tarl_jax.data.locomo_gold import Conversation, Observation, Session, Turn, read_gold
from tarl_jax.data.record import Stream
from tarl_jax.data.weave import weave
from tarl_jax.errors import InputError

_DATE = re.compile(r"(\d{1,2}):(\d{2})\s*(am|pm) on (\d{1,2}) ([A-Z][a-z]+),? (\d{4})", re.I)
_MONTHS = (
  "january february march april may june july august september october november december".split()
)
# Numbers as they are written: "session_01" is not the name of session 1.
_SESSION = re.compile(r"session_(0|[1-9][0-9]{0,5})")
_DATED = re.compile(_SESSION.pattern + "_date_time")
_NOTED = re.compile(_SESSION.pattern + "_observation")
_EVIDENCE = re.compile(r"D\d+:\d+")


def load_locomo(path: str | pathlib.Path) -> tuple[list[Stream], collections.Counter[str]]:
  """Streams of all conversations, and how many items were skipped, by reason.

  The first stream of a conversation holds its observations and some of its turns with
  constructed claims between them; further streams (same `person`) are constructed. A turn
  is timed one minute after the one before it, from the session's date; an observation has
  the time of the first turn that it rests on.

  Raises:
    InputError: naming file, sample and field, where the file cannot be read.
  """
  skips: collections.Counter[str] = collections.Counter()
  streams: list[Stream] = []
  seen: set[str] = set()
  for i, value in enumerate(read_json_list(path, "conversations")):
    conversation = _read_conversation(value, f"{path}, sample {i}", skips)
    if conversation.person in seen:
      skips["conversation given twice"] += 1
    elif not any(session.observations for session in conversation.sessions):
      skips["conversation without observations"] += 1
    else:
      seen.add(conversation.person)
      streams += weave(read_gold(conversation, skips), skips)
  return streams, +skips


def _read_conversation(value: Any, where: str, skips: collections.Counter[str]) -> Conversation:
  person = Fields(value, where).text("sample_id")
  where = f"{where} ({one_line(person)})"
  fields = Fields(value, where)
  talk, notes = fields.child("conversation"), fields.child("observation")
  speakers = talk.text("speaker_a"), talk.text("speaker_b")
  numbers = sorted(_numbers(_SESSION, value["conversation"]))
  dated = set(_numbers(_DATED, value["conversation"])) - set(numbers)
  noted = set(_numbers(_NOTED, value["observation"])) - set(numbers)
  skips["dated session without turns"] += len(dated)
  skips["observations without a session"] += len(noted)
  sessions = []
  for number in numbers:
    time = _read_date(talk, f"session_{number}_date_time")
    turns = _read_turns(talk, number, f"{where}, session_{number}", skips)
    name = f"session_{number}_observation"
    if notes.has(name):
      by_speaker = notes.child(name), value["observation"][name]
      observations = _read_observations(*by_speaker, f"{where}, {name}", skips)
    else:
      skips["session without observations"] += 1
      observations = []
    sessions.append(Session(time, turns, observations))
  return Conversation(person, speakers, sorted(sessions, key=lambda session: session.time))


def _numbers(pattern: re.Pattern[str], names: Iterable[str]) -> Iterator[int]:
  return (int(match.group(1)) for name in names if (match := pattern.fullmatch(name)))


def _read_date(fields: Fields, name: str) -> int:
  match = _DATE.fullmatch(fields.text(name).strip())
  try:
    if match and match.group(5).casefold() in _MONTHS:
      hour, minute, day, year = (int(match.group(i)) for i in (1, 2, 4, 6))
      month = _MONTHS.index(match.group(5).casefold()) + 1
      hour = hour % 12 + 12 * (match.group(3).casefold() == "pm")
      return minutes(datetime.datetime(year, month, day, hour, minute))
  except ValueError:
    pass
  raise fields.fail(name, "a date such as '1:56 pm on 8 May, 2023'")


def _read_turns(
  talk: Fields, number: int, where: str, skips: collections.Counter[str]
) -> dict[str, Turn]:
  """Turns by their id; an image's caption is left out."""
  turns: dict[str, Turn] = {}
  for place, value in enumerate(talk.items(f"session_{number}")):
    fields = Fields(value, f"{where}, turn {place}")
    name, speaker, text = (fields.text(key) for key in ("dia_id", "speaker", "text"))
    if not text.strip():
      skips["turn without text"] += 1
    elif name in turns:
      skips["turn id given twice"] += 1
    else:
      turns[name] = Turn(place, speaker, " ".join(text.split()))
  return turns


def _read_observations(
  fields: Fields, speakers: Iterable[str], where: str, skips: collections.Counter[str]
) -> list[Observation]:
  """Observations of one session; each item is [text, evidence]."""
  found = []
  for speaker in speakers:
    for place, item in enumerate(fields.items(speaker)):
      if not isinstance(item, list) or not item or not isinstance(item[0], str):
        raise InputError(
          f"{where}, field '{one_line(speaker)}', item {place}: expected [text, evidence], "
          f"found {repr(item)[:60]}."
        )
      if item[0].strip():
        found.append(Observation(speaker, item[0].strip(), _evidence(item[1:], skips)))
      else:
        skips["observation without text"] += 1
  return found


def _evidence(value: list[Any], skips: collections.Counter[str]) -> tuple[str, ...]:
  """Turn ids from one id, several joined in a text, or a list; the malformed are counted."""
  if not value:
    skips["observation without evidence"] += 1
    return ()
  found = []
  for part in value[0] if isinstance(value[0], list) else value[:1]:
    for name in re.split(r"[,;\s]+", part.strip()) if isinstance(part, str) else ("",):
      if _EVIDENCE.fullmatch(name):
        found.append(name)
      else:
        skips["evidence id malformed"] += 1
  return tuple(found)
