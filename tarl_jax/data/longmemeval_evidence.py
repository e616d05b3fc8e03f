"""Which sentences of a LongMemEval record are its evidence, and what later evidence changes.

Owns a record as it was read and its user's sentences. Evidence is annotated where a turn is
marked and derived from question and answer elsewhere; both are left out where not clear.
Knows nothing of the file and of the memory.
"""

import collections
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tarl_jax.data.lexical import parse
from tarl_jax.data.linking import MARGIN, Change, in_first_person, plain
from tarl_jax.data.longmemeval_talk import split_sentences
from tarl_jax.data.quantities import Quantity, same_quantity
from tarl_jax.data.words import stem

ASKED = 0.5  # share of the question's words that derived evidence holds
ASKED_MARKED = 0.2  # the same in a turn that is marked
HOLDS, LACKS = 0.75, 0.34  # shares of an answer's words

_EARLIER = re.compile(
  r"\b(initial\w*|first|previous\w*|before|used to|original\w*|former\w*)\b", re.I
)

# Words that say what kind of value is asked for, and when.
_ASKING = frozenset(
  map(stem, "many much long often far old time kind type name current initially recently".split())
)


class Turn(NamedTuple):
  """One turn of a session; `marked` where the file says that it holds the answer."""

  place: int
  by_user: bool
  text: str
  marked: bool


class Session(NamedTuple):
  """One session: `date` in minutes as given, `start` the minute of its first turn here."""

  name: str
  date: int
  start: int
  answers: bool  # named as one that answers the question
  logged: bool  # a public chat log: somebody else speaks as "user"
  turns: list[Turn]


class Record(NamedTuple):
  """One question with its haystack, the sessions in order of time."""

  key: str  # the variant and the question id
  question: str
  answer: str
  updates: bool  # about a value that changes
  abstains: bool  # the sessions do not answer
  sessions: list[Session]


class Said(NamedTuple):
  """A sentence of the user."""

  key: str
  time: int
  session: Session
  turn: Turn
  text: str


def user_sentences(record: Record) -> Iterator[Said]:
  for number, session in enumerate(record.sessions):
    for turn in session.turns:
      for i, text in enumerate(split_sentences(turn.text) if turn.by_user else ()):
        key = f"{record.key}/{number}/{turn.place}/{i}"
        yield Said(key, session.start + turn.place, session, turn, text)


def find_evidence(
  record: Record, said: Sequence[Said], skips: collections.Counter[str]
) -> dict[str, str]:
  """The provenance of each evidence sentence by key: one a marked turn or answer session."""
  turns = [turn for session in record.sessions for turn in session.turns if turn.marked]
  skips["evidence spoken by the assistant"] += sum(not turn.by_user for turn in turns)
  groups: dict[tuple[int, int], list[Said]] = collections.defaultdict(list)
  for item in said:
    if turns and item.turn.marked:
      groups[item.session.start, item.turn.place].append(item)
    elif not turns and item.session.answers and not record.abstains:
      groups[item.session.start, 0].append(item)
  found = {}
  for group in groups.values():
    best = _best(record, group)
    if best:
      found[best.key] = "annotated" if turns else "derived"
    else:
      skips[f"{'marked turn' if turns else 'answer session'} without clear evidence"] += 1
  return found


def _best(record: Record, group: Sequence[Said]) -> Said | None:
  """The statement of a group that holds most of question and answer; None where unclear.

  Outside of updates, and where no turn is marked, it must hold half of the answer.
  """
  marked = group[0].turn.marked
  answer = parse(record.answer).content
  group = [
    item
    for item in group
    if "?" not in item.text
    and in_first_person(item.text)
    and (marked or record.updates or _share(answer, item.text) >= 0.5)
  ]
  if not group:
    return None
  asked = np.array([covers_question(record, item.text) for item in group])
  scores = asked + [_share(answer, item.text) / 2 for item in group]
  best = int(scores.argmax())
  if asked[best] < (ASKED_MARKED if marked else ASKED):
    return None
  rivals = [group[int(i)] for i in np.flatnonzero(scores > scores[best] - MARGIN)]
  if any(change_of(record, group[best].text, rival.text) != Change.NONE for rival in rivals):
    return None
  return rivals[0]


def covers_question(record: Record, text: str) -> float:
  """The share of the question's words, without those that ask, that a text holds.

  Not weighted by idf: what a question is about is what its sessions are about.
  """
  return _share(parse(record.question).content - _ASKING, text)


def _share(words: frozenset[str], text: str) -> float:
  return len(words & parse(text).content) / len(words) if words else 0.0


def change_of(record: Record, old: str, new: str) -> Change | None:
  """Whether the value that the question is about differs; None where that is not clear.

  With numbers in the answer, the numbers of its kind decide; else the words of the answer
  that are not in the question. The answer is the newer value unless the question asks for
  the earlier one.
  """
  if plain(old) == plain(new):
    return Change.NONE
  answer = parse(record.answer).quantities
  if answer:
    before, after = (_of_kind(text, answer) for text in (old, new))
    same = bool(before) and _all_in(before, after) and _all_in(after, before)
    clash = bool(before and after) and not same
    held = [[_all_in([number], found) for number in answer] for found in (before, after)]
    clash = clash and held[0] != held[1]
    newer = any(b and not a for a, b in zip(*held))
  else:
    words = parse(record.answer).content - parse(record.question).content
    if not words:
      return None
    shares = [_share(words, text) for text in (old, new)]
    same = min(shares) >= HOLDS
    clash = min(shares) <= LACKS and max(shares) >= HOLDS
    newer = shares[1] > shares[0]
  if same:
    return Change.NONE
  return Change.VALUE if clash and (newer or _EARLIER.search(record.question)) else None


def _of_kind(text: str, like: Sequence[Quantity]) -> list[Quantity]:
  dimensions = {number.dimension for number in like}
  return [found for found in parse(text).quantities if found.dimension in dimensions]


def _all_in(numbers: Sequence[Quantity], others: Sequence[Quantity]) -> bool:
  return all(any(same_quantity(number, other) for other in others) for number in numbers)
