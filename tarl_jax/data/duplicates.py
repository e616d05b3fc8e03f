"""Texts that say the same in nearly the same words, found without comparing all pairs.

Owns what counts as a duplicate across splits: the same words in the same order, or word sets
with a Jaccard similarity of at least `NEAR` and no value that differs. Knows no claim.
"""

import collections
from collections.abc import Iterable

from tarl_jax.data.linking import plain, values_differ

NEAR = 0.8


class Duplicates:
  """Which of a set of texts are duplicates of each other; built once, asked often.

  Exact, not approximate: of two word sets with Jaccard similarity of at least t, sorted from
  rare to frequent, the first n - ceil(t n) + 1 words of each share one (prefix filtering).
  Texts of the same words in the same order are one class; classes are compared by the first
  of their texts in alphabetical order.
  """

  def __init__(self, texts: Iterable[str]):
    self._class: dict[str, str] = {}  # text -> first text of its class
    first: dict[str, str] = {}
    for text in sorted(set(texts)):
      self._class[text] = first.setdefault(plain(text), text)
    self._near: dict[str, set[str]] = {name: {name} for name in first.values()}
    self._join()

  def _join(self) -> None:
    """Finds the pairs of near classes; short texts first, so that candidates are shorter."""
    words = {name: frozenset(plain(name).split()) for name in self._near}
    count = collections.Counter(word for bag in words.values() for word in bag)
    shorter: dict[str, list[str]] = {}
    for name in sorted(words, key=lambda name: (len(words[name]), name)):
      bag = words[name]
      prefix = _prefix(bag, count)
      candidates = {other for word in prefix for other in shorter.get(word, ())}
      for other in candidates:
        long_enough = len(words[other]) >= NEAR * len(bag) - 1e-9
        if long_enough and jaccard(bag, words[other]) >= NEAR and not values_differ(name, other):
          self._near[name].add(other)
          self._near[other].add(name)
      for word in prefix:
        shorter.setdefault(word, []).append(name)

  def among(self, texts: Iterable[str], others: Iterable[str]) -> set[str]:
    """Those of `texts` that are a duplicate of one of `others`; all must be known."""
    told = {self._class[other] for other in others}
    return {text for text in texts if not told.isdisjoint(self._near[self._class[text]])}


def jaccard(a: frozenset[str], b: frozenset[str]) -> float:
  """Size of the intersection over that of the union; 0 where both are empty."""
  shared = len(a & b)
  return shared / (len(a) + len(b) - shared) if a or b else 0.0


def _prefix(words: frozenset[str], count: collections.Counter[str]) -> list[str]:
  """The rarest words, as many as one of them must be shared."""
  ordered = sorted(words, key=lambda word: (count[word], word))
  # The smallest overlap is ceil(t n); a hair is taken off against 0.8 * 5 = 4.000...1.
  least = -int(-(NEAR * len(words) - 1e-9) // 1)
  return ordered[: len(words) - least + 1]
