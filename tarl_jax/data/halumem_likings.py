"""Likes and dislikes of HaluMem's construction stages: which slot an event is about.

Owns the slots of one person's preferences: a slot is one like or dislike of the profile
with all that it turned into. Knows no file. A modified or deleted preference revises what
is live in its slot; where the source's `before` is out of date, the label is derived.
"""

import dataclasses
from collections.abc import Sequence

from tarl_jax.data.halumem_frames import Taste, pick, taste
from tarl_jax.data.halumem_telling import Event, Telling, new, repeat, revised
from tarl_jax.data.linking import Change, plain


@dataclasses.dataclass
class _Slot:
  key: str  # of the live claim
  now: Taste
  past: set[str]  # all items, the present one too


class Likings:
  """The preferences of one person."""

  def __init__(self, telling: Telling):
    self._telling = telling
    self._slots: list[_Slot] = []

  def start(self, time: int, what: Taste) -> None:
    """A preference of the profile; its counterpart is the opposite."""
    telling = self._telling
    ways = taste(telling.name, what)
    text = pick(ways, telling.rng(what.item))
    other = taste(telling.name, what._replace(likes=not what.likes))
    telling.counter(telling.pair(time, (text, other[0]), (ways, other), "counterpart"))
    key = telling.tell(time, text, new())
    self._slots.append(_Slot(key, what, {plain(what.item)}))

  def read(self, events: Sequence[Event], start: int, span: int) -> None:
    """The events in their order, spread evenly over `span` minutes from `start` on."""
    for i, event in enumerate(events):
      if event.before is None or event.after is None:
        self._telling.skips["preference event without one preference before and after"] += 1
        continue
      time = start + span * (i + 1) // (len(events) + 1)
      slot = self._find(event.before)
      if slot is None:
        self._telling.skips["preference that is not in the memory"] += 1
      else:
        self._change(time, slot, event.before, event.after, event.reasons)

  def _find(self, before: Taste) -> _Slot | None:
    """The slot that holds the preference now, or else the one that once did."""
    item = plain(before.item)
    slots = [slot for slot in self._slots if slot.now.kind == before.kind]
    for slot in slots:
      if plain(slot.now.item) == item and not slot.now.over:
        return slot
    return next((slot for slot in slots if item in slot.past), None)

  def _change(
    self, time: int, slot: _Slot, before: Taste, after: Taste, reasons: Sequence[str]
  ) -> None:
    telling, now = self._telling, slot.now
    rng = telling.rng(after.item)
    ways = taste(telling.name, after)
    told = pick(ways, rng)
    same = _side(now) == _side(after) and plain(now.item) == plain(after.item)
    if same and (after.over or plain(now.reason) == plain(after.reason)):
      telling.tell(time, told, repeat(slot.key))
      return
    more = ["", *reasons] if after.over else ["", after.reason, *reasons]
    text = f"{told} {after.reason if same else pick(more, rng)}".strip()
    group = ""
    if plain(now.item) == plain(after.item) and not same:
      old = taste(telling.name, now)
      pair = telling.pair(time, (old[0], told), (old, ways), "update")
      telling.pairs.append(pair)
      group = pair.group if text == told else ""
    agrees = _side(now) == _side(before) and plain(now.item) == plain(before.item)
    slot.key = telling.tell(time, text, revised(slot.key, agrees, _kind_of(now, after), group))
    slot.now = after
    slot.past.add(plain(after.item))


def _side(what: Taste) -> tuple[bool, bool]:
  return what.likes, what.over


def _kind_of(now: Taste, after: Taste) -> str:
  """An end, another value, or (the old words kept) a mere addition."""
  if after.over:
    return "retraction"
  kept = set(plain(now.item).split()) <= set(plain(after.item).split())
  return (Change.MORE if kept and _side(now) == _side(after) else Change.VALUE).value
