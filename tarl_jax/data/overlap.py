"""How much of their content two texts share, weighted by the rarity of the words.

Owns idf and the overlap signals; `idf_overlap` also links an update to its original
(DATA.md, sharper rule 1).
"""

import collections
import math
from collections.abc import Iterable, Mapping, Sequence

from tarl_jax.data.parsing import Parsed
from tarl_jax.data.subject import OWNER_NAMED, OWNER_SELF

_RUN_WORDS = 200  # a claim is shorter; bounds the time on anything else


def fit_idf(parsed: Iterable[Parsed]) -> dict[str, float]:
  """Inverse document frequency of content stems, log((1 + n) / (1 + df)) / log(1 + n).

  In [0, 1): 0 for a stem of every text. A stem never seen is at the maximum, 1.0, which is
  the `default_idf` to go with it.
  """
  counts: collections.Counter[str] = collections.Counter()
  total = 0
  for item in parsed:
    counts.update(item.bag)
    total += 1
  return {
    word: math.log((1 + total) / (1 + count)) / math.log(1 + total)
    for word, count in counts.items()
  }


def _mass(bag: Iterable[str], idf: Mapping[str, float], default_idf: float) -> float:
  return math.fsum([idf.get(word, default_idf) for word in bag])


def _f1(shared: float, first: float, second: float) -> float:
  return 2.0 * shared / (first + second) if first + second > 0 else 0.0


def idf_overlap(
  candidate: Parsed, entry: Parsed, idf: Mapping[str, float], default_idf: float
) -> float:
  """idf-weighted F1 of content, without the name of the person both texts are about.

  Symmetric, in [0, 1]. Different people keep their names, so that they count against the
  link; where one text says "the user" or "I" and the other a name, the name is left out.
  """
  masses = [
    _mass(bag, idf, default_idf) for bag in (candidate.bag & entry.bag, candidate.bag, entry.bag)
  ]
  return _link(candidate, entry, masses, idf, default_idf)


def _link(
  candidate: Parsed,
  entry: Parsed,
  masses: Sequence[float],
  idf: Mapping[str, float],
  default_idf: float,
) -> float:
  """`idf_overlap` from the masses of the shared, the candidate's and the entry's content."""
  names = _common_owner(candidate, entry)
  if not names:
    return _f1(*masses)
  first, second = candidate.bag & names, entry.bag & names
  less = [_mass(bag, idf, default_idf) for bag in (first & second, first, second)]
  return _f1(*(max(0.0, mass - part) for mass, part in zip(masses, less)))


def _common_owner(candidate: Parsed, entry: Parsed) -> frozenset[str]:
  kinds = {candidate.who.owner_kind, entry.who.owner_kind}
  if kinds == {OWNER_NAMED}:
    return candidate.who.owner_stems & entry.who.owner_stems
  if kinds == {OWNER_NAMED, OWNER_SELF}:
    return candidate.who.owner_stems | entry.who.owner_stems
  return frozenset()


OVERLAP_SIGNALS = (
  "idf_f1",
  "idf_precision",
  "idf_recall",
  "idf_link",
  "max_shared_idf",
  "max_new_idf",
  "stem_jaccard",
  "trigram_cosine",
  "text_equal",
  "content_equal",
  "entry_in_candidate",
  "candidate_in_entry",
  "longest_run",
)


def overlap_signals(
  c: Parsed, e: Parsed, idf: Mapping[str, float], default_idf: float
) -> tuple[float, ...]:
  weights = [idf.get(word, default_idf) for word in c.bag & e.bag]
  new = [idf.get(word, default_idf) for word in c.content - e.bag]
  shared = math.fsum(weights)
  of_candidate = _mass(c.bag, idf, default_idf)
  of_entry = _mass(e.bag, idf, default_idf)
  both = len(c.content & e.content)
  union = len(c.content) + len(e.content) - both
  common = len(c.trigrams & e.trigrams)
  return (
    _f1(shared, of_candidate, of_entry),
    shared / of_candidate if of_candidate > 0 else 0.0,
    shared / of_entry if of_entry > 0 else 0.0,
    _link(c, e, (shared, of_candidate, of_entry), idf, default_idf),
    max(weights, default=0.0),
    max(new, default=0.0),
    both / union if union else float(c.plain == e.plain),
    common / math.sqrt(len(c.trigrams) * len(e.trigrams)) if common else float(c.plain == e.plain),
    c.plain == e.plain,
    c.content == e.content,
    bool(e.content) and e.content <= c.content,
    bool(c.content) and c.content <= e.content,
    _longest_run(c.stems, e.stems),
  )


def _longest_run(first: tuple[str, ...], second: tuple[str, ...]) -> float:
  """Longest run of words in common, as a share of the shorter text; its time is quadratic."""
  first, second = first[:_RUN_WORDS], second[:_RUN_WORDS]
  if not first or not second:
    return 0.0
  places: dict[str, list[int]] = {}
  for place, word in enumerate(second):
    places.setdefault(word, []).append(place)
  best = 0
  runs: dict[int, int] = {}  # where a common run ends in `second` -> its length
  for word in first:
    longer = {}
    for place in places.get(word, ()):
      longer[place] = length = runs.get(place - 1, 0) + 1
      if length > best:
        best = length
    runs = longer
  return best / min(len(first), len(second))
