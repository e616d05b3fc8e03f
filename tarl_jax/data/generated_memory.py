"""What the generator knows of a stream's memory, slot by slot.

Owns the slots (one quad told about one person) and the relation of a claim to what is live
in them. Knows no wording, no source name and no randomness.
"""

import dataclasses
from typing import NamedTuple

from tarl_jax.data.label_table import Relation
from tarl_jax.data.quads import SINGLE, Quad
from tarl_jax.types import Action


class Entry(NamedTuple):
  """A live Accepted claim. `wording` is its sentence without any lead-in."""

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
  pending: dict[str, str] = dataclasses.field(default_factory=dict)  # item -> claim id
  resolved: set[str] = dataclasses.field(default_factory=set)  # confirmed Pending items
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

  def apply(self, item: str, action: Action, entry: Entry, target: Entry | None) -> None:
    """Takes over one decided claim (`entry` is the claim itself)."""
    if action == Action.DEFER_VERIFY:
      self.pending[item] = entry.claim_id
    if action not in (Action.APPEND, Action.REVISE):
      return
    if self.pending.pop(item, None):
      self.resolved.add(item)
    if action == Action.REVISE:
      gone = next(name for name, old in self.live.items() if old == target)
      del self.live[gone]
      self.replaced.add(gone)
    self.live[item] = entry


def is_value(item: str) -> bool:
  """Whether an item is a value of the slot, not a sentence beside it."""
  return item in ("fact", "negation") or item.startswith("change")
