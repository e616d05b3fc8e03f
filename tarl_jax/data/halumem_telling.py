"""What one person's stage files are turned into, piece by piece: claims, pairs, anchors.

Owns the records that pass between the reader of the files and the rules, and the list of
claims told so far with their counterparts. Knows no file and no rule.
"""

import collections
import dataclasses
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from tarl_jax.data.construct import Draft, Pair, make_claim, seeded
from tarl_jax.data.halumem_frames import Taste
from tarl_jax.data.record import Gold
from tarl_jax.data.weave import Anchor
from tarl_jax.types import Action

SOURCE = "halumem_stages"

# Field or person -> (role, value); the role is empty for a field, no value is an empty text.
Value: TypeAlias = tuple[str, str]
Section: TypeAlias = dict[str, Value]


class Profile(NamedTuple):
  """The person at the beginning, at minute `start`."""

  name: str
  start: int
  fixed: Section
  dynamic: dict[str, Section]
  tastes: list[Taste]


class Update(NamedTuple):
  """A dated change of one section."""

  time: int
  section: str
  before: Section
  after: Section


class Event(NamedTuple):
  """A change of one preference; None where the file does not give exactly one."""

  before: Taste | None
  after: Taste | None
  reasons: tuple[str, ...]


class Telling:
  """Claims of one person in the order in which the rules make them."""

  def __init__(self, person: str, name: str, skips: collections.Counter[str]):
    self.person, self.name, self.skips = person, name, skips
    self.drafts: list[Draft] = []
    self.pairs: list[Pair] = []
    self._counterparts: list[tuple[int, Pair]] = []  # place of the draft that tells one side
    self._targets: set[str] = set()

  def rng(self, what: str) -> np.random.Generator:
    """For the choice of the next claim's words."""
    return seeded("frame", self.person, len(self.drafts), ascii(what))

  def tell(self, time: int, text: str, gold: Gold) -> str:
    """Adds a claim by the person; returns its provisional id."""
    key = f"{self.person}/stage/{len(self.drafts)}"
    claim = make_claim(key, text, "user", gold, observed_at=time, subject=self.name or None)
    self.drafts.append(Draft(time, claim))
    self._targets.update(filter(None, (gold.target,)))
    return key

  def pair(
    self, time: int, texts: tuple[str, str], ways: tuple[Sequence[str], Sequence[str]], kind: str
  ) -> Pair:
    """A pair about the next claim; `ways` are all wordings of either side."""
    first, second = (tuple(way for way in some if way != text) for some, text in zip(ways, texts))
    group = f"{SOURCE}/{self.person}/{len(self.drafts)}"
    return Pair(group, texts, self.name, time, kind, (first, second))

  def counter(self, pair: Pair) -> None:
    """Keeps a pair whose first text the next claim tells."""
    self._counterparts.append((len(self.drafts), pair))

  def anchors(self) -> list[Anchor]:
    """The counterparts of claims that nothing refers to later; marks those claims."""
    anchors = []
    for place, pair in self._counterparts:
      claim = self.drafts[place].claim
      if claim.id in self._targets or claim.gold is None:
        continue
      gold = dataclasses.replace(claim.gold, group=pair.group)
      claim = dataclasses.replace(claim, gold=gold)
      self.drafts[place] = self.drafts[place]._replace(claim=claim)
      anchors.append(Anchor(pair, claim.id, 0))
    return anchors


def new() -> Gold:
  """Gold of a value where there was none."""
  return Gold(action=Action.APPEND, provenance="annotated", kind="new")


def repeat(target: str, kind: str = "repeat") -> Gold:
  """Gold of a value that is live already."""
  return Gold(action=Action.NOOP, target=target, provenance="derived", kind=kind)


def revised(target: str, agrees: bool, kind: str, group: str = "") -> Gold:
  """Gold of another value; `agrees`: what the source says was before is what is live."""
  return Gold(
    action=Action.REVISE,
    target=target,
    provenance="annotated" if agrees else "derived",
    temporal=True,
    group=group,
    kind=kind,
  )
