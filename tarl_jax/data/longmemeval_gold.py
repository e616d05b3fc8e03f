"""What LongMemEval's evidence and talk mean for a memory: labels and pairs of texts.

Owns which sentences of a record are told, their labels, and the counterparts of facts. Only
the user's own sentences become claims. Knows nothing of the file.
"""

import collections
import re
from collections.abc import Iterator, Mapping, Sequence

from tarl_jax.data.construct import Draft, Pair, People, in_group, make_claim, seeded
from tarl_jax.data.linking import PARAPHRASE, SAME_THING, Change, Overlap, values_differ
from tarl_jax.data.longmemeval_evidence import (
  ASKED,
  Record,
  Said,
  change_of,
  covers_question,
  find_evidence,
  user_sentences,
)
from tarl_jax.data.longmemeval_talk import in_third_person, is_planned, says_nothing, states_fact
from tarl_jax.data.record import Gold
from tarl_jax.data.swap import collect_values, flip_polarity, swap_value
from tarl_jax.data.weave import Anchor, Person
from tarl_jax.types import Action

MAX_CHAT = 18  # sentences a record that say nothing to keep
MAX_ASIDE = 40  # facts a record from sessions that do not answer
FLIPS = 0.4  # share of facts without an exchangeable value that are denied instead

# What can happen more than once contradicts no other (rule 9).
_SEVERAL = re.compile(r"\b(also|another|more|some|visit\w*|trips?|went|got|bought)\b", re.I)
# Contractions look like names.
_OWNERS = frozenset(f"i{mark}{rest}" for mark in "'’" for rest in ("m", "ve", "d", "ll")) | {"user"}


def read_gold(record: Record, skips: collections.Counter[str]) -> Person:
  """Background claims, anchors and pairs of a record; what is left out is counted in `skips`."""
  said = list(user_sentences(record))
  evidence = find_evidence(record, said, skips)
  facts, chat = _select(record, said, evidence, skips)
  notes = _notes(facts, said)
  texts = [item.text for item in [*facts, *chat]]
  texts += [text for note in notes.values() for text in note if text]
  overlap = Overlap(texts, frozenset({"user"}))
  memory = _Memory(record, evidence, overlap, skips)
  for item in facts:
    memory.tell(item)
  anchors = [
    Anchor(_pair(record, item, *notes[item.key]), item.key, 0)
    for item in facts
    if item.key in memory.untouched and notes[item.key][1]
  ]
  pairs = list(_update_pairs(record, memory.updates, notes))
  groups = {anchor.key: anchor.pair.group for anchor in anchors}
  for pair, update in zip(pairs, memory.updates):
    groups |= dict.fromkeys((item.key for item in update), pair.group if pair else "")
  return Person(
    person=record.key,
    source="longmemeval",
    background=[in_group(draft, groups) for draft in memory.drafts + _chat(chat)],
    anchors=anchors,
    pairs=[*filter(None, pairs), *(anchor.pair for anchor in anchors)],
    overlap=overlap,
    people_of=lambda subject: People(),
    rounds=2,
  )


def _select(
  record: Record,
  said: Sequence[Said],
  evidence: dict[str, str],
  skips: collections.Counter[str],
) -> tuple[list[Said], list[Said]]:
  """The sentences to tell, in order: facts and evidence; and what says nothing to keep."""
  facts: list[Said] = []
  aside: list[Said] = []
  chat: list[Said] = []
  for item in said:
    if item.key in evidence:
      facts.append(item)
    elif says_nothing(item.text):
      chat.append(item)
    elif item.session.logged:
      skips["sentence of a public chat log"] += 1
    elif not states_fact(item.text):
      skips["sentence that is neither a clear fact nor empty"] += 1
    else:
      (facts if item.session.answers else aside).append(item)
  skips["fact beside the question over the limit"] += max(0, len(aside) - MAX_ASIDE)
  facts += _sample(aside, MAX_ASIDE, "aside", record.key)
  facts.sort(key=lambda item: item.time)
  return facts, _sample(chat, MAX_CHAT, "chat", record.key)


def _sample(items: list[Said], size: int, *seed: str) -> list[Said]:
  order = seeded(*seed).permutation(len(items))[:size]
  return [items[int(i)] for i in sorted(order)]


def _notes(facts: Sequence[Said], said: Sequence[Said]) -> dict[str, tuple[str | None, str | None]]:
  """By key: the fact in the third person, and that with another value or denied."""
  around = [item for item in said if item.session.answers]
  values = dict(collect_values((item.text for item in [*facts, *around]), _OWNERS))
  # Names of no known kind do not fit each other's places: an app, a town, a manager.
  names = {*values.pop("name", ()), *values.get("person", ())}
  values["place"] = tuple(value for value in values.get("place", ()) if value not in names)
  notes: dict[str, tuple[str | None, str | None]] = {}
  for item in facts:
    note = in_third_person(item.text)
    notes[item.key] = note, _counterpart(note, values, item.key) if note else None
  return notes


def _counterpart(note: str, values: Mapping[str, tuple[str, ...]], key: str) -> str | None:
  if _SEVERAL.search(note):
    return None
  rng = seeded("swap", key)
  swapped = swap_value(note, values, _OWNERS, rng)
  if swapped:
    return swapped[0]
  # Denying one clause of several would leave the others in the air.
  return flip_polarity(note) if "," not in note and rng.random() < FLIPS else None


def _pair(record: Record, item: Said, note: str | None, other: str | None) -> Pair:
  assert note and other
  group = f"longmemeval/{item.key}"
  return Pair(group, (note, other), "user", item.time, "counterpart", ((item.text,), ()))


def _update_pairs(
  record: Record,
  updates: Sequence[tuple[Said, Said]],
  notes: dict[str, tuple[str | None, str | None]],
) -> Iterator[Pair | None]:
  for old, new in updates:
    before, after = notes[old.key][0], notes[new.key][0]
    if before and after:
      group, restated = f"longmemeval/{new.key}", ((old.text,), (new.text,))
      yield Pair(group, (before, after), "user", old.time, "update", restated)
    else:
      yield None


class _Memory:
  """Tells facts in order and keeps track of what is live."""

  def __init__(
    self,
    record: Record,
    evidence: dict[str, str],
    overlap: Overlap,
    skips: collections.Counter[str],
  ):
    self.drafts: list[Draft] = []
    self.untouched: set[str] = set()  # appended, and nothing refers to them
    self.updates: list[tuple[Said, Said]] = []
    self._record, self._evidence, self._overlap, self._skips = record, evidence, overlap, skips
    self._live: dict[str, str] = {}  # key -> text
    self._gone: list[str] = []
    self._asked: Said | None = None  # the live evidence of a question about an update

  def tell(self, item: Said) -> None:
    evidence = item.key in self._evidence
    if evidence and self._record.updates and self._asked:
      self._update(self._asked, item)
    elif evidence and self._record.abstains and self._asked:
      # It may change the value of the first, and no answer says so.
      self._skips["later evidence of a question without answer"] += 1
    elif not self._is_close(item):
      self._add(item, Action.APPEND, None, "evidence" if evidence else "new")
      if evidence:
        self._asked = item

  def _add(self, item: Said, action: Action, target: str | None, kind: str) -> None:
    provenance = self._evidence.get(item.key, "derived")
    gold = Gold(action, target, provenance, temporal=action == Action.REVISE, kind=kind)
    claim = make_claim(item.key, item.text, "user", gold, observed_at=item.time, subject="user")
    self.drafts.append(Draft(item.time, claim))
    if target:
      self.untouched.discard(target)
    if action == Action.REVISE and target:
      self._gone.append(self._live.pop(target))
    if action in (Action.APPEND, Action.REVISE):
      self._live[item.key] = item.text
    if action == Action.APPEND:
      self.untouched.add(item.key)

  def _update(self, old: Said, new: Said) -> None:
    change = change_of(self._record, old.text, new.text)
    if change == Change.NONE:
      self._add(new, Action.NOOP, old.key, "restated")
    elif change is None:
      self._skips["update whose change is not clear"] += 1
    elif is_planned(old.text) or is_planned(new.text):
      self._skips["update that is only planned"] += 1
    elif old.session.date == new.session.date:
      self._skips["update of one date"] += 1
    else:
      self._add(new, Action.REVISE, old.key, "update")
      self.updates.append((old, new))
      self._asked = new

  def _is_close(self, item: Said) -> bool:
    """Handles a sentence that resembles what is live, replaced, or still to come (rule 3)."""
    if item.key not in self._evidence and self._record.updates and item.session.answers:
      if covers_question(self._record, item.text) >= ASKED:
        self._skips["statement close to the evidence of an update"] += 1
        return True
    if not self._live:
      return False
    scores = self._overlap.with_all(item.text, [*self._live.values(), *self._gone])
    best = int(scores.argmax())
    if scores[best] < SAME_THING:
      return False
    keys = [*self._live]
    same = best < len(keys) and scores[best] >= PARAPHRASE
    if same and not values_differ(self._live[keys[best]], item.text):
      self._add(item, Action.NOOP, keys[best], "restated")
    else:
      self._skips["statement close to another"] += 1
    return True


def _chat(chat: Sequence[Said]) -> list[Draft]:
  gold = Gold(Action.NOOP, provenance="derived", scope="none", kind="chat")
  drafts = []
  for item in chat:
    claim = make_claim(item.key, item.text, "user", gold, observed_at=item.time, subject="user")
    drafts.append(Draft(item.time, claim))
  return drafts
