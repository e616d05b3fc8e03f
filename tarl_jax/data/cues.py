"""Phrases that say how a claim is meant: question, hedge, past, change, negation and so on.

Owns how the lists of `phrases.py` are found in a list of words; knows nothing of numbers,
names or pairs. The longest phrase at a place wins and hides the shorter ones inside it, so
that "do not forget" is no negation.
"""

from typing import NamedTuple

from tarl_jax.data.phrases import AXES, CUE_PHRASES
from tarl_jax.data.words import stem

CUES = tuple(CUE_PHRASES)
CUE_BIT = {name: 1 << position for position, name in enumerate(CUES)}


class _Entry(NamedTuple):
  tail: tuple[str, ...]  # words after the second
  length: int
  at_start: bool
  cues: int  # bits of CUE_BIT
  pole: int  # signed axis number, 0 for none


# First word -> second word ("" for a phrase of one word) -> phrases, the longest first.
_Lexicon = dict[str, dict[str, tuple[_Entry, ...]]]


def _phrases(block: str) -> list[str]:
  return [" ".join(phrase.split()) for phrase in block.split(",") if phrase.strip()]


def _cue_lexicon() -> _Lexicon:
  found: dict[tuple[bool, tuple[str, ...]], int] = {}
  for cue, block in CUE_PHRASES.items():
    for phrase in _phrases(block):
      key = (phrase[:1] == "^", tuple(phrase.lstrip("^").split()))
      found[key] = found.get(key, 0) | CUE_BIT[cue]
  return _lexicon([(words, start, bits, 0) for (start, words), bits in found.items()])


def _axis_lexicon() -> _Lexicon:
  rows = []
  for axis, line in enumerate(AXES.strip().replace(",\n  ", ", ").splitlines(), 1):
    for sign, side in zip((1, -1), line.split("|"), strict=True):
      for phrase in _phrases(side):
        rows.append((tuple(stem(word) for word in phrase.split()), False, 0, sign * axis))
  return _lexicon(rows)


def _lexicon(rows: list[tuple[tuple[str, ...], bool, int, int]]) -> _Lexicon:
  lexicon: _Lexicon = {}
  for words, at_start, cues, pole in sorted(rows, key=lambda row: -len(row[0])):
    seconds = lexicon.setdefault(words[0], {})
    second = words[1] if len(words) > 1 else ""
    entry = _Entry(words[2:], len(words), at_start, cues, pole)
    seconds[second] = (*seconds.get(second, ()), entry)
  return lexicon


_CUE_LEXICON = _cue_lexicon()
_AXIS_LEXICON = _axis_lexicon()


class CueHit(NamedTuple):
  """A phrase found: its words are `start` to `end` (exclusive)."""

  start: int
  end: int
  cues: int


def find_cues(
  words: list[str], stems: list[str], starts: set[int]
) -> tuple[list[CueHit], frozenset[int]]:
  """Cue phrases in order, and the signed numbers of the axes whose sides are named.

  Args:
    words: casefolded words, contractions spelled out.
    stems: their stems.
    starts: indices of words that start a sentence.
  """
  hits = []
  poles: set[int] = set()
  place = 0
  while place < len(words):
    length = 1
    seconds = _AXIS_LEXICON.get(stems[place])
    if seconds:
      found = _longest(seconds, stems, place, True)
      if found:
        poles.update([entry.pole for entry in found])
        length = found[0].length
    seconds = _CUE_LEXICON.get(words[place])
    if seconds:
      found = _longest(seconds, words, place, place in starts)
      if found:
        size, cues = found[0].length, 0
        for entry in found:
          cues |= entry.cues
        hits.append(CueHit(place, place + size, cues))
        length = max(length, size)
    place += length
  return hits, frozenset(poles)


def _longest(
  seconds: dict[str, tuple[_Entry, ...]], words: list[str], place: int, at_start: bool
) -> list[_Entry]:
  """The longest phrases at `place`; several where one phrase is listed more than once."""
  after = words[place + 1] if place + 1 < len(words) else None
  for entries in (seconds.get(after) if after else None, seconds.get("")):
    found: list[_Entry] = []
    for entry in entries or ():
      if entry.at_start and not at_start:
        continue
      if found and entry.length < found[0].length:
        break
      if not entry.tail or tuple(words[place + 2 : place + entry.length]) == entry.tail:
        found.append(entry)
    if found:
      return found
  return []
