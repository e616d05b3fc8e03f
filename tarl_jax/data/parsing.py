"""One text taken apart once: words, stems, values, names, cues, subject, old and new value.

Owns `Parsed` and how it is found; knows no second text and no memory. Everything that a
comparison of two texts needs is stored as sets, so that comparing is set operations.
"""

import dataclasses
import functools
import itertools
import operator
import re
from collections.abc import Sequence

from tarl_jax.data.cues import CUE_BIT, CueHit, find_cues
from tarl_jax.data.moves import split_move
from tarl_jax.data.quantities import Date, Quantity
from tarl_jax.data.subject import Who, find_who
from tarl_jax.data.tokens import IS_CJK, OTHER_SCRIPT, Text, normalise, tokenise
from tarl_jax.data.values import find_values
from tarl_jax.data.words import FUNCTION_WORDS, SELF_NOUNS, stem

_QUOTED = re.compile(
  '"([^"]{1,400})"|“([^”]{1,400})”|«([^»]{1,400})»|「([^」]{1,400})」|(?<!\\w)\'(.{1,400}?)\'(?!\\w)'
)

# Cues whose following words are collected: what stopped, what is new, the condition.
_STOP, _ARRIVAL, _SCOPE = CUE_BIT["stop"], CUE_BIT["change"], CUE_BIT["condition"]
_ARRIVAL_ENDS = frozenset("to into became become becomes now with".split())
# Cues whose own words say how a claim is meant and nothing about its content.
_EMPTY = sum(
  CUE_BIT[cue]
  for cue in ("hedge", "hearsay", "correction", "filler", "additive", "lasting", "no_negation")
)

NEGATIVE_CUES = CUE_BIT["negation"] | CUE_BIT["stop"]


@dataclasses.dataclass(frozen=True, slots=True)
class Parsed:
  """What `parse` finds in a text.

  "Value text" below is the text without the old value of a 'from "a" to "b"' form.
  """

  plain: str  # value text: casefolded words joined by spaces
  words: tuple[str, ...]  # the words of `plain`
  stems: tuple[str, ...]  # their stems, one a word
  bag: frozenset[str]  # content stems and value keys of the whole text
  content: frozenset[str]  # the same of the value text
  trigrams: frozenset[tuple[str, ...]]
  frame: tuple[str, ...]  # function words in order
  quantities: tuple[Quantity, ...]
  dates: tuple[Date, ...]
  near: tuple[frozenset[str], ...]  # content stems beside each quantity
  who: Who  # names, owner, subject, head verb
  quoted: frozenset[str]
  cues: int  # bits of cues.CUE_BIT
  negative: bool  # negated or said to have stopped
  poles: frozenset[int]  # sides of antonym axes that are named
  left: frozenset[str]  # content stems and value keys said to be left behind
  arrived: frozenset[str]  # content stems and value keys said to be new
  scope: frozenset[str]  # content stems of a condition
  latin: frozenset[str]  # content stems in Latin letters
  other_script: bool  # has letters of a script other than Latin
  cjk: bool
  question: float  # share of sentences that ask
  sentences: int

  @property
  def names(self) -> frozenset[str]:
    """Words capitalised inside a sentence, or followed by 's."""
    return self.who.names

  def has_value(self, start: int, count: int) -> bool:
    """True where a number or date lies within `count` words from `start` on."""
    end = start + count
    values: list[Quantity | Date] = [*self.quantities, *self.dates]
    return any(value.start < end and start < value.end for value in values)


def parse(text: str) -> Parsed:
  """Takes a text apart; deterministic, never raises on a str, the empty text included."""
  text = normalise(text)
  move = split_move(text)
  tokens = tokenise(move.text)
  words = tokens.words
  stems = [stem(word) for word in words]
  hits, poles = find_cues(words, stems, tokens.starts)
  quantities, dates = find_values(words, tokens.capitals, tokens.starts)
  values: list[Quantity | Date] = [*quantities, *dates]
  keys = _content_keys(words, stems, hits, values)
  cues = functools.reduce(operator.or_, [hit.cues for hit in hits], 0)
  left = _after_cues(tokens, keys, hits, _STOP) | _content(move.old)
  arrived = _content(move.new) or _after_cues(tokens, keys, hits, _ARRIVAL)
  if move.old:
    cues |= CUE_BIT["change"]
  cjk = not move.text.isascii() and IS_CJK.search(move.text) is not None
  content = frozenset(filter(None, keys)) | (_neighbours(words) if cjk else frozenset())
  plain = " ".join(words)
  return Parsed(
    plain=plain,
    words=tuple(words),
    stems=tuple(stems),
    bag=content | left,
    content=content,
    trigrams=_ngrams(plain, cjk),
    frame=tuple(word for word in words if word in FUNCTION_WORDS),
    quantities=tuple(quantities),
    dates=tuple(dates),
    near=tuple(_near(keys, value) for value in quantities),
    who=find_who(tokens, stems, keys, values),
    quoted=frozenset(_find_quoted(move.text)),
    cues=cues,
    negative=bool(cues & NEGATIVE_CUES),
    poles=poles,
    left=left,
    arrived=arrived,
    scope=_after_cues(tokens, keys, hits, _SCOPE),
    latin=frozenset(word for word in content if word.isascii() and word.isalpha()),
    other_script=not plain.isascii() and OTHER_SCRIPT.search(plain) is not None,
    cjk=cjk,
    question=min(1.0, max(tokens.questions, _asked(hits)) / tokens.sentences),
    sentences=tokens.sentences,
  )


def _asked(hits: list[CueHit]) -> int:
  return sum(hit.cues & CUE_BIT["question"] != 0 for hit in hits)


def _content_keys(
  words: list[str],
  stems: list[str],
  hits: Sequence[CueHit],
  values: Sequence[Quantity | Date],
) -> list[str]:
  """Per word its content: the stem, the key of the value that begins there, or ""."""
  keys = [
    "" if word in FUNCTION_WORDS or word in SELF_NOUNS else root for word, root in zip(words, stems)
  ]
  for hit in hits:
    if hit.cues & _EMPTY or (hit.cues & _STOP and hit.end - hit.start > 1):
      keys[hit.start : hit.end] = [""] * (hit.end - hit.start)
  for value in values:
    for place in range(value.start, value.end):
      keys[place] = ""
    keys[value.start] = value.key
  return keys


def _ngrams(plain: str, cjk: bool) -> frozenset[tuple[str, ...]]:
  """Character trigrams; also pairs where a character is a word."""
  if not cjk:
    return frozenset(zip(plain, plain[1:], plain[2:]))
  plain = plain.replace(" ", "")
  pairs: list[tuple[str, ...]] = list(itertools.pairwise(plain))
  return frozenset([*pairs, *zip(plain, plain[1:], plain[2:])])


def _neighbours(words: list[str]) -> frozenset[str]:
  """Pairs of neighbouring characters of a script without spaces."""
  return frozenset(
    a + b for a, b in itertools.pairwise(words) if len(a) == len(b) == 1 and a > "\u0e00" < b
  )


def _content(text: str) -> frozenset[str]:
  """Content stems and value keys of a part of a text."""
  if not text:
    return frozenset()
  tokens = tokenise(text)
  stems = [stem(word) for word in tokens.words]
  quantities, dates = find_values(tokens.words, tokens.capitals, tokens.starts)
  keys = _content_keys(tokens.words, stems, (), [*quantities, *dates])
  return frozenset(filter(None, keys))


def _find_quoted(text: str) -> list[str]:
  if '"' not in text and "'" not in text and text.isascii():
    return []
  spans = ("".join(groups) for groups in _QUOTED.findall(text))
  return [" ".join(span.casefold().split()).strip(" .,;:!?") for span in spans]


_CLAUSE_WORDS = frozenset(
  """and but because since so if when while after before until for last next this yesterday today
  tomorrow recently""".split()
)


def _after_cues(tokens: Text, keys: list[str], hits: list[CueHit], bits: int) -> frozenset[str]:
  """Content of up to six words after each cue, to the end of its clause.

  A condition counts with its own words: "at weekends" is one by itself.
  """
  found: list[str] = []
  for hit in hits:
    if not hit.cues & bits:
      continue
    if bits == _ARRIVAL and tokens.words[hit.end - 1] not in _ARRIVAL_ENDS:
      continue
    first = hit.start if bits == _SCOPE else hit.end
    for place in range(first, min(hit.end + 6, len(keys))):
      ends = place in tokens.breaks and place > hit.start
      if ends or (place > hit.end and tokens.words[place] in _CLAUSE_WORDS):
        break
      if keys[place]:
        found.append(keys[place])
  return frozenset(found)


def _near(keys: list[str], value: Quantity) -> frozenset[str]:
  before = keys[max(0, value.start - 2) : value.start]
  return frozenset(filter(None, before + keys[value.end : value.end + 2]))
