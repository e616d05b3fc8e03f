"""What the generator knows of a stream's memory, slot by slot.

Owns the slots (one quad told about one person) and the relation of a claim to what is live
in them. Knows no wording and no source name.
"""

import collections
import dataclasses
import random
from typing import NamedTuple

from tarl_jax.data.label_table import Relation
from tarl_jax.data.quads import SINGLE, Quad
from tarl_jax.data.record import Gold
from tarl_jax.types import Action

# Kinds of a claim that states a value and an addition in one breath.
TWO_PART = ("composite_change", "partial_change")


class Entry(NamedTuple):
  """A claim in Accepted or Pending. `wording` is its sentence without any lead-in."""

  claim_id: str
  reliability: float
  time: int | None
  text: str
  wording: str


@dataclasses.dataclass
class Slot:
  """One quad told about one person (`person` is empty for things).

  `other` is the name for `{other}`. Only the first slot of a quad may tell its sentences
  that do not name the person: they would be the same in every slot.
  """

  quad: Quad
  person: str
  other: str
  first: bool = True
  live: dict[str, Entry] = dataclasses.field(default_factory=dict)
  pending: dict[str, Entry] = dataclasses.field(default_factory=dict)  # by item, unsettled
  replaced: set[str] = dataclasses.field(default_factory=set)  # items that were live once
  beside: str = ""  # the addition that the entry of its value states in the same breath

  @property
  def key(self) -> tuple[str, str]:
    return self.quad.id, self.person

  def relate(self, item: str) -> tuple[Relation | None, Entry | None]:
    """The relation of `item` to the live entries and the entry it touches.

    The relation is None where the quad does not say, e.g. for "no longer X" while the
    live value is not X.
    """
    if item == self.beside:
      return None, None  # true of every value it stood beside: told with the value only
    if item in self.live:
      return Relation.SAME, self.live[item]
    if not self.first and not self.quad.tells_person(item):
      return None, None
    if item == "past":
      return Relation.PAST, None
    if not is_value(item):
      return (None if "negation" in self.live else Relation.NEW), None
    values = [name for name in self.live if is_value(name)]
    rivals = [name for name in values if self._rival(item, name)]
    if self.beside and item == "negation":
      return None, None  # it would leave the addition in the air
    if None in [self._rival(item, name) for name in values]:
      return None, None
    return (Relation.OTHER, self.live[rivals[0]]) if rivals else (Relation.NEW, None)

  def can_earn(self, item: str, relation: Relation, action: Action) -> bool:
    """Whether some source and time may give `action`; spares `decide` hopeless tries."""
    if relation == Relation.SAME or action == Action.NOOP:
      return action == Action.NOOP and (relation == Relation.SAME or item in self.pending)
    conflict = action in (Action.REVISE, Action.REJECT_CONFLICT)
    if relation == Relation.OTHER:
      return action != Action.APPEND
    return not conflict

  @property
  def value(self) -> Entry | None:
    """A live value of the slot, if there is one."""
    return next((entry for item, entry in self.live.items() if is_value(item)), None)

  def _rival(self, item: str, live: str) -> bool | None:
    pair = {item, live}
    if pair == {"fact", "negation"}:
      return True
    if "negation" in pair:
      return None
    return self.quad.scope == SINGLE

  def settles(self, item: str, time: int | None) -> tuple[str, str] | None:
    """(item, outcome) of the Pending claim that a trusted claim of `item` settles, if any.

    It confirms the one that says the same. It contradicts one that says otherwise, if that
    is the only value that waits and is known to be older.
    """
    if item in self.pending:
      return item, "confirmed"
    waiting = [name for name in self.pending if is_value(name)]
    if len(waiting) != 1 or not is_value(item) or not self._rival(item, waiting[0]):
      return None
    then = self.pending[waiting[0]].time
    newer = time is not None and then is not None and time > then
    return (waiting[0], "contradicted") if newer else None

  def apply(self, item: str, action: Action, entry: Entry, target: Entry | None) -> None:
    """Takes over one decided claim (`entry` is the claim itself)."""
    if action == Action.DEFER_VERIFY:
      self.pending[item] = entry
    if action not in (Action.APPEND, Action.REVISE):
      return
    settled = self.settles(item, entry.time)
    if settled:
      del self.pending[settled[0]]
    if action == Action.REVISE:
      gone = next(name for name, old in self.live.items() if old == target and is_value(name))
      del self.live[gone]
      self.replaced.add(gone)
    self.live[item] = entry


class Slots:
  """The open slots of one stream, by key, by quad and in order."""

  def __init__(self) -> None:
    self._by_key: dict[tuple[str, str], Slot] = {}
    self._by_quad: dict[str, list[Slot]] = collections.defaultdict(list)
    self._all: list[Slot] = []

  def add(self, slot: Slot) -> bool:
    """Opens a slot; False where one of its key is open already."""
    if slot.key in self._by_key:
      return False
    self._by_key[slot.key] = slot
    self._by_quad[slot.quad.id].append(slot)
    self._all.append(slot)
    return True

  def known(self, slot: Slot) -> Slot:
    """The open slot of the same key, else `slot` itself."""
    return self._by_key.get(slot.key, slot)

  def of_quad(self, quad: Quad) -> list[Slot]:
    """Open slots of one quad, by person."""
    return self._by_quad.get(quad.id, [])

  def sample(self, rng: random.Random, most: int) -> list[Slot]:
    """Some open slots in random order; the time does not grow with the stream."""
    return rng.sample(self._all, min(most, len(self._all)))


def is_value(item: str) -> bool:
  """Whether an item is a value of the slot, not a sentence beside it."""
  return item in ("fact", "negation") or item.startswith("change")


def with_settling(gold: Gold, slot: Slot, item: str, observed: int | None) -> Gold:
  """Gold with the Pending claim that telling `item` settles, if it does."""
  settled = slot.settles(item, observed) if gold.action in (Action.APPEND, Action.REVISE) else None
  if settled is None:
    return gold
  waiting, outcome = settled
  kind = gold.kind
  if outcome == "contradicted" and kind not in TWO_PART:
    revises = gold.action == Action.REVISE
    kind = "change_contradicts_pending" if revises else "contradicts_pending"
  resolves = slot.pending[waiting].claim_id
  return dataclasses.replace(gold, resolves=resolves, outcome=outcome, kind=kind)
