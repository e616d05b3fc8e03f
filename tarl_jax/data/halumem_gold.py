"""What HaluMem's annotations mean for the memory: links, labels and pairs of texts.

Owns the reading of updates (linked to the entry that their original restates), of
interference (a contradiction spoken by the assistant) and of new points. Knows nothing of
the file. Rule 3's second test (cosine of embeddings) is not made: there is no encoder here.
"""

import collections
import dataclasses
import re
from collections.abc import Sequence
from typing import NamedTuple

from tarl_jax.data.construct import Draft, Pair, People, make_claim, seeded
from tarl_jax.data.linking import (
  LINK,
  SAME_THING,
  Change,
  Overlap,
  change_between,
  differ_in_one_place,
  field_of,
  find_link,
  in_first_person,
  plain,
  strip_prefix,
  values_differ,
)
from tarl_jax.data.record import Gold
from tarl_jax.data.swap import collect_values, flip_polarity, is_plural_slot, swap_value
from tarl_jax.data.weave import Anchor, Person
from tarl_jax.types import Action

NEAR = 0.33  # an entry that overlaps this much is close to an interference (rule 10)
IDENTICAL = 0.95  # overlap of a near-identical interference (rule 4 decides)
RELATED = 0.3  # least overlap of an update and an original that is in no entry


class Point(NamedTuple):
  """A memory point, without what betrays interference."""

  text: str
  interference: bool
  update: bool
  originals: tuple[str, ...]
  reference: str


class Annotations:
  """Reads one person's points in order and keeps track of what is live."""

  def __init__(self, person: str, name: str, skips: collections.Counter[str]):
    self._person, self._name, self._skips = person, name, skips
    self._live: dict[str, str] = {}  # provisional id -> text
    self._absent: list[str] = []  # texts that were superseded or left out
    self._drafts: list[Draft] = []
    self._pairs: list[Pair] = []
    self._targets: set[str] = set()

  def read(self, points: Sequence[tuple[int, str, Point]]) -> Person:
    """Background claims, anchors and pairs of the person; `points` are (minute, id, point)."""
    texts = [text for _, _, point in points for text in _texts_of(point)]
    counterparts = self._counterparts(points)
    self._overlap = Overlap([*texts, *counterparts.values()], self._ignored())
    for time, key, point in points:
      if not point.text:
        self._skips["empty text"] += 1
      elif not self._repeats(time, key, point):
        read = (
          self._interference if point.interference else self._update if point.update else self._new
        )
        read(time, key, point)
    anchors = self._anchors(counterparts)
    return Person(
      person=self._person,
      source="halumem",
      background=self._drafts,
      anchors=anchors,
      pairs=self._pairs + [anchor.pair for anchor in anchors],
      overlap=self._overlap,
      people_of=lambda subject: People(),
      rounds=2,
    )

  def _ignored(self) -> frozenset[str]:
    return frozenset(self._name.casefold().split()) | {"user"}

  def _add(self, time: int, key: str, point: Point, gold: Gold) -> None:
    role = "assistant" if point.interference else "user"
    claim = make_claim(key, point.text, role, gold, observed_at=time, subject=self._name or None)
    self._drafts.append(Draft(time, claim))
    self._targets.update(filter(None, (gold.target, *gold.alt_targets)))
    if gold.action == Action.REVISE and gold.target is not None:
      self._absent.append(self._live.pop(gold.target))
    if gold.action in (Action.APPEND, Action.REVISE):
      self._live[key] = point.text

  def _repeats(self, time: int, key: str, point: Point) -> bool:
    """Handles a text that is live already, word for word."""
    words = plain(point.text)
    for entry, text in self._live.items():
      if plain(text) == words:
        self._add(time, key, point, _derived(Action.NOOP, entry, "exact_repeat"))
        return True
    return False

  def _link(self, text: str) -> tuple[str, float] | str:
    return find_link(text, self._live, self._absent, self._overlap, self._name)

  def _update(self, time: int, key: str, point: Point) -> None:
    links = [self._link(strip_prefix(original)) for original in point.originals]
    found = {link[0]: link[1] for link in links if not isinstance(link, str)}
    if not found:
      why = next((link for link in links if isinstance(link, str)), "missing")
      self._pair_from_text(time, key, point)
      if why == "not in the memory" and self._is_far(point):
        self._add(time, key, point, _derived(Action.APPEND, None, "update_of_unknown"))
        return
      self._skips[f"update whose original is {why}"] += 1
      self._absent.append(point.text)
      return
    target, *others = sorted(found, key=lambda entry: -found[entry])
    change = change_between(self._live[target], point.text, self._overlap)
    if change == Change.NONE:
      self._add(time, key, point, _derived(Action.NOOP, target, change.value))
      return
    group = ""
    if change == Change.VALUE:
      group = self._pair(self._live[target], point, key, time, "update")
    gold = Gold(
      action=Action.REVISE,
      target=target,
      alt_targets=tuple(others),
      provenance="annotated",
      temporal=True,
      group=group,
      kind=change.value,
    )
    self._add(time, key, point, gold)

  def _is_far(self, point: Point) -> bool:
    """Whether neither the update nor an original of it is close to anything told so far."""
    told = [*self._live.values(), *self._absent]
    texts = [point.text, *map(strip_prefix, point.originals)]
    fields = {field_of(text, self._name) for text in texts} - {frozenset()}
    return bool(point.originals) and not any(
      field_of(other, self._name) in fields or self._overlap.of(text, other) >= NEAR
      for other in told
      for text in texts
    )

  def _pair_from_text(self, time: int, key: str, point: Point) -> None:
    """A pair from an update whose original is known by its text alone."""
    for original in map(strip_prefix, point.originals):
      related = self._overlap.of(original, point.text) >= RELATED
      if related and change_between(original, point.text, self._overlap) == Change.VALUE:
        self._pair(original, point, key, time, "update")
        return

  def _pair(self, old: str, point: Point, key: str, time: int, kind: str) -> str:
    """Keeps old and new text for construction, where both can be told by anybody."""
    group = f"halumem/{key}"
    if in_first_person(old) or in_first_person(point.text) or plain(old) == plain(point.text):
      return ""
    restated = tuple(
      text
      for text in map(strip_prefix, point.originals)
      if plain(text) != plain(old)
      and not in_first_person(text)
      and self._overlap.of(text, old) >= SAME_THING
      and not values_differ(text, old, self._overlap.names)
    )
    self._pairs.append(Pair(group, (old, point.text), self._name, time, kind, (restated, ())))
    return group

  def _interference(self, time: int, key: str, point: Point) -> None:
    link = self._link(point.reference) if point.reference else "missing"
    if isinstance(link, str):
      self._unreferenced(time, key, point)
      return
    target, _ = link
    entry = self._live[target]
    if self._says_the_same(entry, point.text):
      self._add(time, key, point, _derived(Action.NOOP, target, "echo"))
      return
    group = ""
    if differ_in_one_place(entry, point.text) and not is_plural_slot(entry):
      group = self._pair(entry, point, key, time, "contradiction")
    gold = Gold(
      action=Action.REJECT_CONFLICT,
      target=target,
      provenance="annotated",
      group=group,
      kind="interference",
    )
    self._add(time, key, point, gold)

  def _says_the_same(self, entry: str, text: str) -> bool:
    """Near-identical, or the same number for the same field (rule 4)."""
    if values_differ(entry, text, self._overlap.names):
      return False
    field = field_of(entry, self._name)
    overlap = self._overlap.of(entry, text)
    same_field = field == field_of(text, self._name) and re.search(r"\d", entry) is not None
    return overlap >= IDENTICAL or (bool(field) and same_field and overlap >= LINK)

  def _unreferenced(self, time: int, key: str, point: Point) -> None:
    """Interference whose reference is not live (rule 10)."""
    field = field_of(point.text, self._name)
    texts = list(self._live.values())
    near = bool(texts) and float(self._overlap.with_all(point.text, texts).max()) >= NEAR
    if near or (field and any(field == field_of(text, self._name) for text in texts)):
      self._skips["interference near another entry"] += 1
      return
    self._add(time, key, point, _derived(Action.DEFER_VERIFY, None, "interference_unreferenced"))

  def _new(self, time: int, key: str, point: Point) -> None:
    field = field_of(point.text, self._name)
    texts = [
      text
      for text in self._live.values()
      if not field or field_of(text, self._name) != field or not is_plural_slot(text)
    ]
    if texts and float(self._overlap.with_all(point.text, texts).max()) >= SAME_THING:
      self._skips["new point close to a live entry"] += 1
      self._absent.append(point.text)
      return
    gold = Gold(action=Action.APPEND, provenance="annotated", kind="new")
    self._add(time, key, point, gold)

  def _counterparts(self, points: Sequence[tuple[int, str, Point]]) -> dict[str, str]:
    """For new points, by text: the same with one value exchanged or the polarity flipped."""
    own = frozenset(self._name.casefold().split())
    texts = [point.text for _, _, point in points if not point.interference]
    values = collect_values(texts, own)
    found: dict[str, str] = {}
    for _, key, point in points:
      if point.update or point.interference or in_first_person(point.text):
        continue
      swapped = swap_value(point.text, values, own, seeded("swap", key))
      other = swapped[0] if swapped else flip_polarity(point.text)
      if other:
        found[point.text] = other
    return found

  def _anchors(self, counterparts: dict[str, str]) -> list[Anchor]:
    """New claims that nothing refers to later, with their counterparts."""
    anchors = []
    for i, draft in enumerate(self._drafts):
      claim = draft.claim
      other = counterparts.get(claim.text)
      if claim.gold is None or claim.gold.action != Action.APPEND or claim.id in self._targets:
        continue
      if other is None:
        continue
      group = f"halumem/{claim.id}"
      pair = Pair(group, (claim.text, other), self._name, draft.arrival, "counterpart")
      gold = dataclasses.replace(claim.gold, group=group)
      self._drafts[i] = Draft(draft.arrival, dataclasses.replace(claim, gold=gold))
      anchors.append(Anchor(pair, claim.id, 0))
    return anchors


def _derived(action: Action, target: str | None, kind: str) -> Gold:
  return Gold(action=action, target=target, provenance="derived", kind=kind)


def _texts_of(point: Point) -> list[str]:
  return [point.text, point.reference, *point.originals, *map(strip_prefix, point.originals)]
