"""What HaluMem's construction stages mean for the memory: labels and pairs of texts.

Owns the reading of initial values (new) and of before and after: a revise of what is live
in the same slot, by the true difference of the two. A slot is a field, a relation to
somebody, or a preference (`halumem_likings.py`). Knows no file.
"""

import collections
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tarl_jax.data.construct import People
from tarl_jax.data.halumem_frames import OPEN_FIELDS, VERBATIM, change, end, pick, state, tie
from tarl_jax.data.halumem_likings import Likings
from tarl_jax.data.halumem_telling import (
  SOURCE,
  Event,
  Profile,
  Telling,
  Update,
  Value,
  new,
  repeat,
  revised,
)
from tarl_jax.data.linking import Change, Overlap, change_between, plain
from tarl_jax.data.weave import Person

_DAY = 24 * 60
_YEAR = 365 * _DAY


class _Entry(NamedTuple):
  key: str
  value: Value
  text: str


def read_person(
  person: str,
  profile: Profile,
  updates: Sequence[Update],
  events: Sequence[Event],
  choices: Mapping[str, Sequence[str]],
  skips: collections.Counter[str],
) -> Person:
  """Background claims, anchors and pairs of one person.

  Args:
    person: the uuid.
    profile, updates, events: what the stages say, in the order of the files.
    choices: by field, the values that anybody has, for counterparts.
    skips: counts by reason; added to.
  """
  telling = Telling(person, profile.name, skips)
  fields = _Fields(telling, updates, profile)
  for section, values in (("", profile.fixed), *profile.dynamic.items()):
    for field, value in values.items():
      fields.start(profile.start, section, field, value, choices.get(field, ()))
  likings = Likings(telling)
  for what in profile.tastes:
    likings.start(profile.start, what)
  last = fields.read(updates, profile.start)
  likings.read(events, profile.start, max(last - profile.start, _YEAR))
  anchors = telling.anchors()
  pairs = telling.pairs + [anchor.pair for anchor in anchors]
  texts = [draft.claim.text for draft in telling.drafts]
  for pair in pairs:
    texts += [*pair.texts, *pair.restated[0], *pair.restated[1]]
  return Person(
    person=person,
    source=SOURCE,
    background=telling.drafts,
    anchors=anchors,
    pairs=pairs,
    overlap=Overlap(texts, frozenset(profile.name.casefold().split())),
    people_of=lambda subject: People(),
  )


class _Fields:
  """The fields and relations of one person: what is live, and what a change of it means."""

  def __init__(self, telling: Telling, updates: Sequence[Update], profile: Profile):
    self._telling = telling
    self._live: dict[tuple[str, str], _Entry] = {}
    sections = [section for update in updates for section in (update.before, update.after)]
    free = [
      self._plainest(field, value)
      for section in (*sections, *profile.dynamic.values())
      for field, value in section.items()
      if value[0] or field in VERBATIM
    ]
    self._overlap = Overlap(free, frozenset(profile.name.casefold().split()))

  def _ways(self, field: str, value: Value) -> tuple[str, ...]:
    role, text = value
    name = self._telling.name
    return tie(name, field, role, text) if role else state(name, field, text)

  def _plainest(self, field: str, value: Value) -> str:
    return self._ways(field, value)[0]

  def start(
    self, time: int, section: str, field: str, value: Value, choices: Sequence[str]
  ) -> None:
    """A value of the profile, and its counterpart: the field with somebody else's value."""
    if not value[1]:
      return
    telling = self._telling
    ways, rng = self._ways(field, value), telling.rng(field)
    text = pick(ways, rng)
    others = [other for other in choices if plain(other) != plain(value[1])]
    if others and field not in OPEN_FIELDS:
      other = state(telling.name, field, pick(others, rng))
      telling.counter(telling.pair(time, (text, other[0]), (ways, other), "counterpart"))
    self._live[section, field] = _Entry(telling.tell(time, text, new()), value, text)

  def read(self, updates: Sequence[Update], start: int) -> int:
    """The updates in their order; returns the minute of the last one."""
    last = start
    for update in updates:
      if update.time < last - _DAY:
        self._telling.skips["update dated before the one it follows"] += 1
        continue
      last = max(update.time, last + 1)
      fields = [
        field
        for field in dict.fromkeys((*update.before, *update.after))
        if not _same(update.before.get(field), update.after.get(field))
      ]
      if not fields:
        self._telling.skips["update without a change"] += 1
      for field in fields:
        self._change(last, update, field)
    return last

  def _change(self, time: int, update: Update, field: str) -> None:
    telling = self._telling
    slot, after = (update.section, field), update.after.get(field)
    entry = self._live.get(slot)
    if after is None or not (after[1] or (entry and entry.value[1])):
      telling.skips["value that is gone without a word"] += 1
    elif entry is not None and not _same(entry.value, after):
      self._revise(time, slot, entry, after, _same(entry.value, update.before.get(field)))
    else:
      text = pick(self._ways(field, after), telling.rng(field))
      key = telling.tell(time, text, repeat(entry.key) if entry else new())
      if entry is None:
        self._live[slot] = _Entry(key, after, text)

  def _revise(
    self, time: int, slot: tuple[str, str], entry: _Entry, after: Value, agrees: bool
  ) -> None:
    telling, (_, field), old = self._telling, slot, entry.value[1]
    rng = telling.rng(field)
    ways, kind, group = self._ways(field, after), Change.VALUE.value, ""
    if not after[1]:
      ways, kind = end(telling.name, field, old), "retraction"
    elif after[0] or field in VERBATIM:
      kind = self._kind(field, entry.value, after)
    elif old:
      ways = change(telling.name, field, old, after[1])
    text = pick(ways, rng)
    if kind == Change.NONE.value:
      telling.tell(time, text, repeat(entry.key, kind))
      return
    if old and after[1] and not after[0] and field not in OPEN_FIELDS:
      both = self._ways(field, entry.value), self._ways(field, after)
      telling.pairs.append(telling.pair(time, (entry.text, text), both, "update"))
      group = telling.pairs[-1].group
    key = telling.tell(time, text, revised(entry.key, agrees, kind, group))
    self._live[slot] = _Entry(key, after, text)

  def _kind(self, field: str, before: Value, after: Value) -> str:
    """The kind of change of a text in free words."""
    if not before[1] or before[0] != after[0]:
      return Change.VALUE.value
    texts = self._plainest(field, before), self._plainest(field, after)
    return change_between(*texts, self._overlap).value


def _same(a: Value | None, b: Value | None) -> bool:
  """Whether two values are equal, upper and lower case and punctuation aside."""
  one, two = a or ("", ""), b or ("", "")
  return plain(one[0]) == plain(two[0]) and plain(one[1]) == plain(two[1])
