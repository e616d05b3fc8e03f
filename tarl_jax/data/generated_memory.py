"""What the generator knows of a stream's memory, slot by slot.

Owns the slots (one quad told about one person) and the relation of a claim to what is live
in them. Knows no wording, no source name and no randomness.
"""

import dataclasses
from typing import NamedTuple

from tarl_jax.data.label_table import Relation
from tarl_jax.data.quads import SINGLE, Quad
from tarl_jax.data.record import Gold
from tarl_jax.types import Action


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
  frozen: bool = False  # a composite claim holds its value: it may only be repeated

  @property
  def key(self) -> tuple[str, str]:
    return self.quad.id, self.person

  def relate(self, item: str) -> tuple[Relation | None, Entry | None]:
    """The relation of `item` to the live entries and the entry it touches.

    The relation is None where the quad does not say, e.g. for "no longer X" while the
    live value is not X.
    """
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
    if self.frozen or None in [self._rival(item, name) for name in values]:
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
      gone = next(name for name, old in self.live.items() if old == target)
      del self.live[gone]
      self.replaced.add(gone)
    self.live[item] = entry


def is_value(item: str) -> bool:
  """Whether an item is a value of the slot, not a sentence beside it."""
  return item in ("fact", "negation") or item.startswith("change")


def with_settling(gold: Gold, slot: Slot, item: str, observed: int | None) -> Gold:
  """Gold with the Pending claim that telling `item` settles, if it does."""
  settled = slot.settles(item, observed) if gold.action in (Action.APPEND, Action.REVISE) else None
  if settled is None:
    return gold
  waiting, outcome = settled
  contradicts = outcome == "contradicted" and gold.kind != "composite_change"
  kind = "contradicts_pending" if contradicts else gold.kind
  resolves = slot.pending[waiting].claim_id
  return dataclasses.replace(gold, resolves=resolves, outcome=outcome, kind=kind)
