"""Phrases that say how a claim is meant: question, hedge, past, change, negation and so on.

Owns how the lists of `phrases.py` and `axes.py` are found in a list of words; knows nothing of
numbers, names or pairs. The longest phrase at a place wins and hides the shorter ones inside
it, so that "do not forget" is no negation.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tarl_jax.data.axes import AXES
from tarl_jax.data.phrases import CUE_PHRASES
from tarl_jax.data.words import stem

CUES = tuple(CUE_PHRASES)
CUE_BIT = {name: 1 << position for position, name in enumerate(CUES)}

# Forms in two parts, within one sentence: cue, first word, second word, how many words apart at
# most, and the words that may not follow the second ("if you would like" supposes nothing).
_TWO_PARTS = (
  ("hypothetical", "if", "would", 12, frozenset("like you mind prefer rather care".split())),
  ("hypothetical", "if", "were", 6, frozenset("used".split())),
)


class _Entry(NamedTuple):
  at_start: bool  # counts at the start of a sentence only
  at_end: bool
  cues: int  # bits of CUE_BIT
  pole: int  # signed axis number, 0 for none


class _Node(dict[str, "_Node"]):
  """Next word -> node; `entries` are the phrases that end here."""

  __slots__ = ("anywhere", "entries")

  def __init__(self) -> None:
    super().__init__()
    self.entries: tuple[_Entry, ...] = ()
    self.anywhere = True  # no entry asks for the start or the end of a sentence


def _phrases(block: str) -> list[str]:
  """The phrases of a list, "a/b c" spelled out as "a c" and "b c"."""
  found = []
  for phrase in map(str.strip, block.split(",")):
    start, end = "^" * phrase.startswith("^"), "$" * phrase.endswith("$")
    choices = [word.split("/") for word in phrase.strip("^$").split()]
    for words in itertools.product(*choices):
      found.append(start + " ".join(filter(None, words)) + end)
  return [phrase for phrase in found if phrase.strip("^$")]


def _cue_lexicon() -> _Node:
  found: dict[tuple[str, bool, bool], int] = {}
  for cue, block in CUE_PHRASES.items():
    for phrase in _phrases(block):
      key = (phrase.strip("^$"), phrase[0] == "^", phrase[-1] == "$")
      found[key] = found.get(key, 0) | CUE_BIT[cue]
  return _lexicon(
    (text.split(), _Entry(start, end, bits, 0)) for (text, start, end), bits in found.items()
  )


def _axis_lexicon() -> _Node:
  rows = []
  for axis, line in enumerate(AXES.strip().replace(",\n  ", ", ").splitlines(), 1):
    for sign, side in zip((1, -1), line.split("|"), strict=True):
      for phrase in _phrases(side):
        words = [stem(word) for word in phrase.split()]
        rows.append((words, _Entry(False, False, 0, sign * axis)))
  return _lexicon(rows)


def _lexicon(rows: Iterable[tuple[list[str], _Entry]]) -> _Node:
  root = _Node()
  for words, entry in rows:
    node = root
    for word in words:
      node = node.setdefault(word, _Node())
    node.entries = (*node.entries, entry)
    node.anywhere = node.anywhere and not (entry.at_start or entry.at_end)
  return root


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
    node = _AXIS_LEXICON.get(stems[place])
    if node is not None:
      end, found = _longest(node, stems, place, starts)
      if found:
        poles.update([entry.pole for entry in found])
        length = end - place
    node = _CUE_LEXICON.get(words[place])
    if node is not None:
      end, found = _longest(node, words, place, starts)
      if found:
        cues = 0
        for entry in found:
          cues |= entry.cues
        hits.append(CueHit(place, end, cues))
        length = max(length, end - place)
    place += length
  if "if" in words:
    hits += _two_parts(words, starts)
  return hits, frozenset(poles)


def _longest(
  node: _Node, words: list[str], place: int, starts: set[int]
) -> tuple[int, Sequence[_Entry]]:
  """End of the longest phrase at `place`, with its entries: one a way in which it is listed."""
  best: Sequence[_Entry] = ()
  best_end, end, count = place, place + 1, len(words)
  while True:
    if node.entries:
      found = node.entries if node.anywhere else _fitting(node, words, place, end, starts)
      if found:
        best, best_end = found, end
    if end == count or words[end] not in node:
      return best_end, best
    node = node[words[end]]
    end += 1


def _fitting(
  node: _Node, words: list[str], place: int, end: int, starts: set[int]
) -> tuple[_Entry, ...]:
  """The entries that may stand from `place` to `end` (exclusive)."""
  begins, ends = place in starts, end == len(words) or end in starts
  return tuple(e for e in node.entries if (begins or not e.at_start) and (ends or not e.at_end))


def _two_parts(words: list[str], starts: set[int]) -> list[CueHit]:
  found = []
  for cue, first, second, within, barred in _TWO_PARTS:
    for place, word in enumerate(words):
      if word != first:
        continue
      for end in range(place + 1, min(place + within + 1, len(words))):
        if end in starts:
          break
        if words[end] == second and barred.isdisjoint(words[end + 1 : end + 2]):
          found.append(CueHit(place, place + 1, CUE_BIT[cue]))
          break
  return found
