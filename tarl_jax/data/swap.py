"""Counterparts of a text: the same sentence with exactly one value exchanged.

Owns the kinds of value it can tell (numbers, dates, names, places, titles and small sets of
words that exclude each other), where they stand in a text, and the exchange. A new value
always comes from the same kind elsewhere in the same conversation. Knows no claim.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

_SETS = {
  "month": """January February March April May June July August September October November
    December""",
  "month_short": "Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec",
  "weekday": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
  "count": "two three four five six seven eight nine ten eleven twelve",
  "frequency": "daily weekly monthly yearly",
  "period": "week month year weekend summer winter spring",
  "parent": "mother father grandmother grandfather aunt uncle",
  "parent_short": "mom dad grandma grandpa",
  "sibling": "sister brother cousin niece nephew son daughter",
  "partner": "wife husband girlfriend boyfriend fiancée fiancé",
  "circle": "family friends colleagues neighbors teammates classmates",
  "pet": "dog cat turtle rabbit hamster parrot snake",
  "pets": "dogs cats turtles rabbits hamsters parrots snakes horses",
  "instrument": "piano guitar violin drums clarinet flute saxophone cello trumpet",
  "sport": """basketball football soccer tennis baseball swimming running cycling surfing boxing
    yoga pilates hiking climbing skiing golf badminton volleyball kickboxing taekwondo""",
  "craft": "painting drawing pottery photography writing knitting sculpture gardening cooking",
  "stage": "dance ballet theater opera comedy poetry",
  "dish": """pizza pasta salad soup sushi burger sandwich cake cookies pie curry tacos steak
    chicken lasagna""",
  "flavour": "chocolate vanilla coconut strawberry lemon raspberry mango caramel",
  "drink": "coffee tea juice beer wine smoothie lemonade water",
  "colour": "red blue green yellow purple pink orange black white brown silver",
  "place_kind": """beach park mountains forest lake river island city countryside museum cafe
    library restaurant gym""",
  "vehicle": "car bike motorcycle truck van train boat bus",
  "media": "movie book song podcast album series",
  "meal": "breakfast lunch dinner brunch",
  "job": """teacher nurse doctor engineer lawyer chef designer manager director consultant
    programmer therapist counselor coach""",
  "level": "bachelor master phd doctorate diploma",
  "field": """engineering medicine psychology finance marketing law physics biology
    history politics""",
  "season_term": "semester quarter term holiday vacation",
  "rank": "first second third fourth fifth final",
  "event": """concert festival wedding exhibition conference tournament seminar workshop
    marathon competition ceremony retreat""",
  "genre": "fantasy romance thriller horror classical jazz rock pop country electronic mystery",
}
_KIND_OF = {word.casefold(): kind for kind, words in _SETS.items() for word in words.split()}
# "May" and the like are only dates with a capital letter.
_CAPITAL_ONLY = frozenset(
  word.casefold() for word in f"{_SETS['month']} {_SETS['month_short']}".split()
)

_QUOTED = re.compile(r"\"([^\"]{2,40})\"|“([^”]{2,40})”|(?<![\w])'([A-Z][^']{1,38})'(?!\w)")
_NUMBER = re.compile(r"(?<![\w.,-])\d[\d,]*(?:\.\d+)?(?![\w.-]*\d)(?!\w)")
_NAME = re.compile(r"\b[A-Z][\w&'’-]*[\w](?: (?:of |the |de |du )?[A-Z][\w&'’-]*[\w])*")
_WORD = re.compile(r"[^\W\d_][\w’-]*")
_AT = re.compile(r"\b(in|to|from|near|at|visit(?:ed|ing|s)?|around|across|through|toward)\s$")
_WHO = re.compile(
  r"\b(friends?|colleagues?|named|called|sister|brother|daughter|son|dogs?|cats?|with|by|and|met)\s$"
)
# Likes, habits and members do not exclude each other (rule 9).
_PLURAL = re.compile(
  r"\b(likes?|liked|loves?|loved|enjoy\w*|appreciat\w*|values?|fans?|fond|interest\w*|hobb\w+"
  r"|passion\w*|explor\w+|discuss\w*|mention\w*|including|such as|grateful|gratitude|prefers?"
  r"|preferences?|seeks?)\b",
  re.I,
)
_FLIPS = (
  (re.compile(r"\b(can)(?:not|'t)\b"), r"\1"),
  (re.compile(r"\b(is|are|was|were|can|will|could|should) (?!not\b|n't|no\b)"), r"\1 not "),
  (re.compile(r"\b(has|have) (?=been\b|\w+ed\b|started\b|made\b|found\b)(?!not\b)"), r"\1 not "),
  (re.compile(r"\b(enjoy|love|like|plan|want|believe|find|value|appreciate|work|live|play|use|own"
              r"|feel|need|prefer|hope|support|consider|encourage|dream)s\b"), r"does not \1"),
)  # fmt: skip
_NEGATED = re.compile(r"\b(not|no|never|without|hardly|nothing|nobody)\b|n't\b", re.I)


class Span(NamedTuple):
  """A value found in a text: `text[start:end]`."""

  start: int
  end: int
  kind: str
  value: str


def is_plural_slot(text: str) -> bool:
  """Whether the text speaks of likes, interests and the like, of which one can have many."""
  return bool(_PLURAL.search(text))


def find_values(text: str, owners: frozenset[str]) -> list[Span]:
  """The values in a text, in order and without overlap.

  Args:
    text: a sentence.
    owners: casefolded names of the people the memory is about; they are no values.
  """
  found: list[Span] = []

  def add(start: int, end: int, kind: str) -> None:
    if not any(start < span.end and span.start < end for span in found):
      found.append(Span(start, end, kind, text[start:end]))

  for match in _QUOTED.finditer(text):
    add(*match.span(match.lastindex or 0), "title")
  for match in _NUMBER.finditer(text):
    add(*match.span(), f"number{len(match.group().replace(',', ''))}")
  for match in _WORD.finditer(text):
    word = match.group()
    kind = _KIND_OF.get(word.casefold())
    if kind and (word.casefold() not in _CAPITAL_ONLY or word[0].isupper()):
      add(*match.span(), kind)
  for match in _NAME.finditer(text):
    start, end = match.span()
    if text[:end].endswith(("'s", "’s")):
      end -= 2
    words = {re.sub(r"['’]s$", "", word).casefold() for word in text[start:end].split()}
    if start and text[start - 2 : start] != ". " and not words & owners and end - start > 1:
      before = text[:start]
      add(
        start, end, "place" if _AT.search(before) else "person" if _WHO.search(before) else "name"
      )
  return sorted(found)


def collect_values(texts: Iterable[str], owners: frozenset[str]) -> Mapping[str, tuple[str, ...]]:
  """All values of a conversation by kind, sorted and without repetition."""
  values: dict[str, set[str]] = defaultdict(set)
  for text in texts:
    for span in find_values(text, owners):
      values[span.kind].add(span.value)
  return {kind: tuple(sorted(found)) for kind, found in sorted(values.items())}


def swap_value(
  text: str,
  values: Mapping[str, tuple[str, ...]],
  owners: frozenset[str],
  rng: np.random.Generator,
) -> tuple[str, str] | None:
  """The text with one value exchanged for another of its kind, and the kind.

  None where the text speaks of a plural slot or holds nothing that can be exchanged.
  """
  if is_plural_slot(text):
    return None
  spans = find_values(text, owners)
  for place in rng.permutation(len(spans)):
    span = spans[int(place)]
    words = set(re.findall(r"\w+", text.casefold()))
    others = [
      value
      for value in values.get(span.kind, ())
      if not set(re.findall(r"\w+", value.casefold())) & words
    ]
    if not others:
      continue
    value = _in_case_of(span.value, str(rng.choice(others)))
    return _article(text[: span.start], value) + value + text[span.end :], span.kind
  return None


def flip_polarity(text: str) -> str | None:
  """The text denied (or, after "cannot", affirmed); None where that is not one small edit."""
  if text.endswith("?"):
    return None
  cannot, *denials = _FLIPS
  flipped, count = cannot[0].subn(cannot[1], text, count=1)
  if count:
    return flipped
  if _NEGATED.search(text):
    return None
  places = [(match.start(), i) for i, flip in enumerate(denials) if (match := flip[0].search(text))]
  if not places or text[: min(places)[0]].count(" ") > 3:  # no verb of the main clause
    return None
  pattern, replacement = denials[min(places)[1]]
  return pattern.sub(replacement, text, count=1)


def _in_case_of(old: str, new: str) -> str:
  if old.islower() and new.casefold() in _KIND_OF and new.casefold() not in _CAPITAL_ONLY:
    return new.casefold()
  return new[0].upper() + new[1:] if old[0].isupper() else new


def _article(before: str, value: str) -> str:
  """`before`, its last word "a" or "an" made to fit `value`."""
  match = re.search(r"\b(a|an|A|An) $", before)
  if not match:
    return before
  article = match.group(1)[0] + ("n" if value[0].lower() in "aeiou" else "")
  return before[: match.start()] + article + " "
