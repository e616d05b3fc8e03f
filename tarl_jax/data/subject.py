"""Who and what a text is about: names, head verb, subject, owner.

Owns these rules of thumb; knows no second text. They read English word order and give
"none" rather than a guess where it does not help.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tarl_jax.data.quantities import Date, Quantity
from tarl_jax.data.tokens import Text
from tarl_jax.data.words import (
  DETERMINERS,
  FUNCTION_WORDS,
  IRREGULAR,
  RELATIONS,
  SELF_WORDS,
  VERB_STEMS,
  stem,
)

# Kinds of owner: nobody to be seen, the person of the memory, a named person, a relation.
OWNER_NONE, OWNER_SELF, OWNER_NAMED, OWNER_RELATION = range(4)


class Who(NamedTuple):
  """Names are casefolded words, not stems."""

  names: frozenset[str]  # capitalised inside a sentence, or followed by 's
  maybe_names: frozenset[str]  # capitalised at the start of a sentence
  full_names: tuple[frozenset[str], ...]  # names of two words and more
  full_names_all: frozenset[str]  # their words
  owner_kind: int  # one of OWNER_*
  owner: frozenset[str]  # names or relation of the one whom the text is about
  owner_stems: frozenset[str]  # stems of `owner`
  subject: frozenset[str]  # content stems before the head verb
  verb: str  # stem of the head verb, "" if none was found


def find_who(
  tokens: Text, stems: list[str], keys: list[str], values: Sequence[Quantity | Date]
) -> Who:
  """Reads names, subject and owner; `keys` is the content of each word, "" for none."""
  names, maybe_names, full_names = _find_names(tokens, keys)
  first, verb = _find_head(tokens, _without_values(tokens.words, values), stems)
  lead = range(first, verb if verb >= 0 else min(len(stems), first + 2))
  kind, owner = _find_owner(tokens, keys, lead, names, maybe_names)
  return Who(
    names=names,
    maybe_names=maybe_names,
    full_names=full_names,
    full_names_all=frozenset().union(*full_names),
    owner_kind=kind,
    owner=owner,
    owner_stems=frozenset(map(stem, owner)),
    subject=frozenset(filter(None, keys[first : max(verb, 0)])),
    verb=stems[verb] if 0 <= verb < len(stems) else "",
  )


def _find_names(
  tokens: Text, keys: list[str]
) -> tuple[frozenset[str], frozenset[str], tuple[frozenset[str], ...]]:
  """Names for sure, names perhaps (first words of a sentence), and runs of two and more."""
  sure: set[str] = set()
  perhaps: set[str] = set()
  runs: list[frozenset[str]] = []
  run: list[str] = []
  words = tokens.words
  for place, capital in enumerate(tokens.capitals + [False]):
    capital = capital and keys[place][:1] not in ("", "#", "@")
    if run and not (capital and place not in tokens.breaks):
      _close_run(run, place, tokens, sure, perhaps, runs)
      run = []
    if capital:
      run.append(words[place])
  return frozenset(sure), frozenset(perhaps - sure), tuple(runs)


def _close_run(
  run: list[str],
  end: int,
  tokens: Text,
  sure: set[str],
  perhaps: set[str],
  runs: list[frozenset[str]],
) -> None:
  first = end - len(run)
  possessive = end < len(tokens.words) and tokens.words[end] == "'s"
  if len(run) > 1:
    runs.append(frozenset(run))
  if len(run) == 1 and first in tokens.starts and not possessive:
    if stem(run[0]) not in VERB_STEMS:
      perhaps.update(run)
  else:
    sure.update(run)


_BARE_VERB_AFTER = SELF_WORDS | frozenset(
  "you they who to not also always never people and".split()
)
_THIRD_PERSON = RELATIONS | frozenset("he she it".split())
_FINITE = frozenset(
  """is are was were am has have had will would can could may might must shall should do does did
  """.split()
)
_HELPERS = _FINITE - frozenset("is are was were am".split())
_OBJECTS = frozenset("me us him her them you".split())
_PRONOUNS = frozenset("that he she they it".split())
_CLAUSE_OPENERS = _PRONOUNS | DETERMINERS | SELF_WORDS | {"there"}
_REPORTING = frozenset(map(stem, "say tell mention think believe know report claim state".split()))


def _without_values(words: list[str], values: Sequence[Quantity | Date]) -> list[str]:
  if not values:
    return words
  words = list(words)
  for value in values:
    words[value.start : value.end] = [""] * (value.end - value.start)
  return words


def _find_head(tokens: Text, words: list[str], stems: list[str]) -> tuple[int, int]:
  """(start of the subject, index of the head verb); the verb is -1 where none was found.

  After "label:" the clause behind the colon counts; where it opens with its verb or has
  none, the label is the subject and the verb is the word after the colon. `words` has ""
  where a value stands.
  """
  colon = tokens.colon if 0 < tokens.colon <= 6 else 0
  verb = _find_verb(words, stems, colon)
  if colon and verb in (-1, colon):
    return 0, colon
  if verb >= 0 and stems[verb] in _REPORTING and verb + 2 < len(stems):
    # "Omar says she likes ...", "Ana told us the gate is shut": what is said counts.
    inner = _find_verb(words, stems, verb + 1)
    told = verb + 1 + (words[verb + 1] in _OBJECTS)
    opens = words[told] not in FUNCTION_WORDS or words[told] in _CLAUSE_OPENERS
    if opens and told < inner <= told + 4:
      pronoun = all(word in _PRONOUNS for word in words[told:inner])
      return (colon if pronoun else told), inner
  return colon, verb


def _find_verb(words: list[str], stems: list[str], start: int) -> int:
  """Index of the first word that is likely a finite verb; after helpers, the main verb."""
  for place in range(start, min(len(words), start + 14)):
    word = words[place]
    before = words[place - 1] if place > start else ""
    if before in DETERMINERS or not word or word[-3:] == "ing":
      continue
    if word in _HELPERS:
      return _main_verb(words, stems, place)
    if stems[place] in VERB_STEMS:
      # "Garden plan", "Work 12 ended": a bare form is a verb only where its place asks for one.
      bare = (
        word not in FUNCTION_WORDS
        and word not in IRREGULAR
        and word[-1] != "s"
        and word[-2:] != "ed"
      )
      if bare and place == start:
        bare = any(map(_surely_verb, words[place + 1 : place + 4]))
      elif bare:
        bare = before not in _BARE_VERB_AFTER and before[-1:] != "s"
      if not bare:
        return place
    elif place > start and len(word) > 4 and word[-2:] == "ed":
      return place
    elif word[-1] == "s" and len(word) > 3 and (place == 1 or before in _THIRD_PERSON):
      return place  # "Ines sings": any verb, after a first word or a person
  return -1


def _surely_verb(word: str) -> bool:
  past = word[-2:] == "ed" or word in IRREGULAR
  return word in _FINITE or (past and stem(word) in VERB_STEMS)


def _main_verb(words: list[str], stems: list[str], helper: int) -> int:
  for place in range(helper + 1, min(helper + 4, len(words))):
    if words[place] not in DETERMINERS and words[place - 1] not in DETERMINERS:
      if stems[place] in VERB_STEMS or words[place][-2:] == "ed":
        return place
  return helper


def _find_owner(
  tokens: Text, keys: list[str], lead: range, names: frozenset[str], maybe: frozenset[str]
) -> tuple[int, frozenset[str]]:
  """Whom the text is about: a relation, a named person, the person of the memory, or none.

  `lead` is the places of the subject. A word that is only capitalised as the first one is a
  name where nothing else is in the subject and it does not look like a plural.
  """
  words = [tokens.words[place] for place in lead]
  named = frozenset(word for word in words if word in names)
  relation = frozenset(word for word in words if word in RELATIONS)
  if relation:
    return OWNER_RELATION, relation | named
  filled = [tokens.words[place] for place in lead if keys[place]]
  if not named and len(filled) == 1 and filled[0] in maybe:
    after = tokens.words[lead.stop] if lead.stop < len(tokens.words) else ""
    if filled[0][-1] != "s" or after[-1:] == "s":
      named = frozenset(filled)
  if named:
    return OWNER_NAMED, named
  if not words or any(word in SELF_WORDS for word in words):
    return OWNER_SELF, frozenset()
  return OWNER_NONE, frozenset()
