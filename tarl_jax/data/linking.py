"""Which texts of one person are about the same thing, and what a new text changes.

Owns the overlap of all texts of a person, the field that a template text fills, and the
kind of change from an old text to a new one (DATA.md, sharper rules 1, 2, 4 and 5). Knows
no file format and no action.
"""

import difflib
import enum
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tarl_jax.data.lexical import PAIR_SIGNALS, Parsed, fit_idf, pair_signals, parse
from tarl_jax.data.moves import split_move
from tarl_jax.data.subject import OWNER_NAMED
from tarl_jax.data.words import stem

SAME_THING = 0.6  # idf-F1 from which two texts are about one thing (rule 3)
LINK = 0.5  # an original that overlaps less is not linked (rule 1)
LINK_FREE = 0.65  # the same where not both texts fill one field: shared topics overlap too
HELD = 0.8  # share of one text that the other must hold, where the link is free
MARGIN = 0.05  # by which the best link must beat the second best
PARAPHRASE = 0.8  # idf-F1 from which a text without another value is a paraphrase

_PREFIX = re.compile(
  r"^(?:(?:\s*\[[^\]]*\])+|\s*[A-Z][a-z]{2} \d{1,2}, \d{4}, \d{1,2}:\d\d:\d\d\s*[-:])\s*"
)
_FIELDS = (
  re.compile(r"\bupdated (?P<field>\w+) from\b"),
  re.compile(r"(?P<field>\w+ (?:styles )?(?:they|i) (?:dis)?like)\b[^:]*?(?P<why> reason)?:", re.I),
  re.compile(r"^'s (?P<field>[a-z_ ]{3,32}?)(?: (?:is|are|include|includes|changed)\b|:)", re.I),
  re.compile(r"^(?P<field>[a-z_ ]{3,32}):", re.I),
)
_EMPTY_FIELD = frozenset("status condition current".split())  # "health status: ill", "health: ill"
_LIKED = re.compile(r"\b(?:they|i) (?:dis)?like\b[^:]*:(.+)$", re.I)
_STATED = re.compile(r"'s [a-z_ ]{3,32}?(?: is\b|:) *(\D+)$", re.I)
_DIGITS = re.compile(r"\d[\d,]*(?:\.\d+)?")
_SHORT = 6  # words of a new value that must recur as they are
_CHANGE = re.compile(
  r"\b(chang\w+|updat\w+|no longer|not any ?more|stopp\w+|quit|retir\w+|resign\w*|replac\w+"
  r"|remov\w+|switch\w+|mov(?:ed|ing)|promot(?:ed|ion)|shift\w*|reconsider\w*|newfound|evol\w+"
  r"|now|improv(?:ed|ement) from|instead|decreas\w+|increas\w+|began|started)\b",
  re.I,
)


def strip_prefix(text: str) -> str:
  """The text without leading stamps: `[Jan 02, 2030, 10:00:00] `, `Jan 02, 2030, 10:00:00 - `."""
  return _PREFIX.sub("", text).strip()


@functools.lru_cache(maxsize=1 << 15)
def plain(text: str) -> str:
  """The text for telling exact repeats: casefolded words alone."""
  return " ".join(re.findall(r"\w+", text.casefold()))


class Overlap:
  """Idf-weighted token F1 between all texts of one person, the person's name left out.

  Args:
    texts: every text that will be asked for; repeated ones count once.
    ignored: casefolded words without weight, such as the person's names.
  """

  def __init__(self, texts: Iterable[str], ignored: frozenset[str]):
    self.names = ignored
    self._row = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    parsed = [parse(text) for text in self._row]
    idf = fit_idf(parsed)
    names = {stem(word) for word in ignored} | ignored
    bags = [item.content - names for item in parsed]
    column = {word: i for i, word in enumerate(sorted(set().union(*bags)))}
    weight = np.array([idf.get(word, 1.0) for word in column], np.float32)
    holds = np.zeros((len(bags), len(column)), np.float32)
    for row, bag in enumerate(bags):
      holds[row, [column[word] for word in bag]] = 1.0
    shared = (holds * weight) @ holds.T
    mass = holds @ weight
    self.f1 = 2 * shared / np.maximum(mass[:, None] + mass[None, :], 1e-6)  # [N, N]
    self._covered = shared / np.maximum(mass[:, None], 1e-6)

  def of(self, a: str, b: str) -> float:
    """The overlap of two texts, 0 to 1."""
    return float(self.f1[self._row[a], self._row[b]])

  def with_all(self, text: str, others: Sequence[str]) -> np.ndarray:
    """The overlap of `text` with each of `others`, float32 [len(others)]."""
    return self.f1[self._row[text], [self._row[other] for other in others]]

  def covered(self, a: str, b: str) -> float:
    """The share of a's weight that b holds too."""
    return float(self._covered[self._row[a], self._row[b]])


@functools.lru_cache(maxsize=1 << 15)
def field_of(text: str, name: str) -> frozenset[str]:
  """The words of the field that a template text fills ("job title"), empty for free text."""
  text = strip_prefix(text)
  for called in (name, *name.split()[:1]):
    if re.match(re.escape(called.casefold()) + r"\b", text.casefold()):
      text = text[len(called) :].strip()
      break
  for pattern in _FIELDS:
    match = pattern.search(text)
    if match:
      words = match.group("field").casefold().replace("_", " ").split()
      why = {"reason"} if match.groupdict().get("why") else set()
      return frozenset(words) - _EMPTY_FIELD | why
  return frozenset()


def fields_agree(a: frozenset[str], b: frozenset[str]) -> bool:
  """Whether two texts can be about one field; free text agrees with any."""
  return not a or not b or a <= b or b <= a


def find_link(
  text: str, live: Mapping[str, str], absent: Sequence[str], overlap: Overlap, name: str
) -> tuple[str, float] | str:
  """The live entry that `text` restates and its overlap, or why there is none (rule 1).

  Args:
    text: an original, as the source quotes it.
    live: texts of the memory by id.
    absent: texts that were told and are not live; one of them may fit better.
    overlap: of all texts of the person.
    name: the person's.
  """
  field = field_of(text, name)
  fields = {entry: field_of(other, name) for entry, other in live.items()}
  entries = [entry for entry in live if fields_agree(field, fields[entry])]
  if not entries:
    return "not in the memory"
  scores = overlap.with_all(text, [live[entry] for entry in entries])
  order = np.argsort(-scores, kind="stable")
  best = float(scores[order[0]])
  entry = entries[order[0]]
  if absent and float(overlap.with_all(text, absent).max()) > max(best, LINK):
    return "already replaced or left out"
  held = max(overlap.covered(text, live[entry]), overlap.covered(live[entry], text))
  same_field = bool(field and fields[entry])
  if best < LINK or not (same_field or (best >= LINK_FREE and held >= HELD)):
    return "not in the memory"
  if not values_agree(text, live[entry]):
    return "not in the memory"
  if len(order) > 1 and best - float(scores[order[1]]) < MARGIN:
    return "ambiguous"
  return entry, best


def values_agree(a: str, b: str) -> bool:
  """Whether the numbers, the stated or liked thing and the value called new can be one.

  Rules 4 and 5: a text that says otherwise in one of them is not a restatement.
  """
  liked = [match.group(1) for text in (a, b) if (match := _LIKED.search(text))]
  if len(liked) == 2 and plain(liked[0]) != plain(liked[1]):
    return False
  stated = [match.group(1) for text in (a, b) if (match := _STATED.search(text))]
  if len(stated) == 2 and not (_holds(stated[0], stated[1]) or _holds(stated[1], stated[0])):
    return False
  one, two = split_move(a), split_move(b)
  first, second = (
    {digits.replace(",", "") for digits in _DIGITS.findall(move.text)} for move in (one, two)
  )
  return (
    not (first - second and second - first)
    and _holds(two.text, one.new)
    and _holds(one.text, two.new)
  )


def _holds(text: str, value: str) -> bool:
  """Whether every word of a short value stands in the text."""
  words = plain(value.replace(",", "")).split()
  return len(words) > _SHORT or set(words) <= set(plain(text.replace(",", "")).split())


class Differences(NamedTuple):
  """Values that one of two texts holds and the other lacks, and a clash of polarity."""

  first: bool  # the first holds a number, date, name or quoted text that the second lacks
  second: bool
  polarity: bool


def compare_values(a: str, b: str, names: frozenset[str] = frozenset()) -> Differences:
  """What differs in exact values (rule 4); the "from a" of an update does not count (rule 5).

  `names` are casefolded words of the person's own name, which may stand in one text alone.
  """
  one, two = parse(a), parse(b)
  signals = dict(zip(PAIR_SIGNALS, pair_signals(one, two, {}, 1.0)))
  kinds = {one.who.owner_kind, two.who.owner_kind}
  others = kinds == {OWNER_NAMED} and one.who.owner.isdisjoint(two.who.owner)
  return Differences(
    first=bool(signals["number_candidate_only"] or signals["date_candidate_only"] or others)
    or _lacks(one, two, names),
    second=bool(signals["number_entry_only"] or signals["date_entry_only"] or others)
    or _lacks(two, one, names),
    polarity=one.negative != two.negative or _opposed(one, two),
  )


def values_differ(a: str, b: str, names: frozenset[str] = frozenset()) -> bool:
  """Whether a number, date, name, quoted text, the one it is about or the polarity differs."""
  return any(compare_values(a, b, names))


def _lacks(a: Parsed, b: Parsed, names: frozenset[str]) -> bool:
  """Whether a has a name or a quoted text (without digits, they are numbers) that b lacks.

  Names and words are casefolded and no stems on both sides, so a plural is another name.
  """
  quotes = {text for text in a.quoted - b.quoted if not re.search(r"\d", text)}
  return bool(a.names.difference(b.words, names) or quotes)


def _opposed(a: Parsed, b: Parsed) -> bool:
  """Whether the two name opposite sides of an axis ("like" against "dislike")."""
  return any(-pole in b.poles and pole not in b.poles for pole in a.poles)


class Change(enum.Enum):
  """What a new text does to the old one that it is linked to."""

  NONE = "paraphrase"
  MORE = "enrichment"
  VALUE = "update"


def change_between(old: str, new: str, overlap: Overlap) -> Change:
  """The kind of change (rule 2): another value, polarity or status; mere addition; nothing."""
  differences = compare_values(old, new, overlap.names)
  clash = differences.first and differences.second
  if _CHANGE.search(new) or differences.polarity or clash:
    return Change.VALUE
  if not any(differences) and overlap.of(old, new) >= PARAPHRASE:
    return Change.NONE
  return Change.MORE


def differ_in_one_place(a: str, b: str) -> bool:
  """Whether b is a with one or two short runs of words exchanged (at most four words each)."""
  one, two = plain(a).split(), plain(b).split()
  edits = [
    op for op in difflib.SequenceMatcher(None, one, two, False).get_opcodes() if op[0] != "equal"
  ]
  return 0 < len(edits) <= 2 and all(
    op[0] == "replace" and op[2] - op[1] <= 4 and op[4] - op[3] <= 4 for op in edits
  )


def in_first_person(text: str) -> bool:
  """Whether the text says "I" or "my": only its owner can say so."""
  return bool(re.search(r"\b(I|my|My|me|I'm|I've)\b", text))
