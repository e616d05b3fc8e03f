"""Claims that no source annotates: one pair of texts told in many contexts (DATA.md).

Owns the speakers with their reliability and the scene: a chain of claims about one slot
whose texts stay unchanged while memory, source and time change. The label of every claim
comes from `label_table.decide`. Knows no file format and does not compare texts:
whoever makes a `Pair` says which texts agree.
"""

import collections
import dataclasses
import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

import numpy as np

from tarl_jax.data.label_table import TRUSTED, Order, Relation, Step, decide
from tarl_jax.data.record import Claim, Gold
from tarl_jax.types import Action

# True reliability by role. Trusted is above 0.65. Against user and tool every untrusted
# role is clearly less reliable (gap above 0.25); against a friend the assistant and
# hearsay are comparable (gap at most 0.20). No gap falls in between.
RELIABILITY = {
  "user": 0.95,
  "tool": 0.93,
  "friend": 0.75,
  "hearsay": 0.58,
  "assistant": 0.56,
  "web_comment": 0.3,
  "unknown": 0.22,
}
NOISE_SD = 0.06  # of the reading that the policy sees
MISSING_SHARE = 0.08  # of readings that are absent

# How often a role speaks in a scene, among the trusted and among the others.
_TRUSTED = {"user": 0.45, "tool": 0.15, "friend": 0.4}
_UNTRUSTED = {"hearsay": 0.25, "assistant": 0.45, "web_comment": 0.17, "unknown": 0.13}
# How often a claim is newer than the live entry, and so on.
_TIMINGS = {"newer": 0.45, "older": 0.2, "equal": 0.18, "unknown": 0.17}
_UNTRUSTED_TIMINGS = {"newer": 0.6, "older": 0.24, "equal": 0.08, "unknown": 0.08}
_DAY = 24 * 60
_T = TypeVar("_T")
_YEAR = re.compile(r"\b(19|20)\d\d\b")
_PAST = re.compile(r"\b(used to|formerly|previously|as a (?:kid|child)|grew up|years ago)\b", re.I)
_BOUNDED = re.compile(r"\b(until|for the next|temporarily|this (?:week|month|summer))\b", re.I)


def seeded(*parts: object) -> np.random.Generator:
  """A generator that depends on `parts` alone, equal in every process."""
  content = "\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass")
  digest = hashlib.blake2b(content, digest_size=16).digest()
  return np.random.default_rng(int.from_bytes(digest, "big"))


class People(NamedTuple):
  """Whose memory it is: names behind the roles, empty where a role stands alone."""

  owner: str = ""  # speaks as "user"
  other: str = ""  # stands behind "friend" and "hearsay"

  def source(self, role: str) -> str:
    name = {"user": self.owner, "friend": self.other, "hearsay": self.other}.get(role, "")
    return f"{role}:{name}" if name else role


_ALONE = People()


class Draft(NamedTuple):
  """A claim and the minute at which it reaches the memory; its id is provisional."""

  arrival: int
  claim: Claim


def in_group(draft: Draft, groups: Mapping[str, str]) -> Draft:
  """The draft with the group that `groups` names for its claim's id; others unchanged."""
  claim = draft.claim
  if claim.gold is None or claim.id not in groups:
    return draft
  gold = dataclasses.replace(claim.gold, group=groups[claim.id])
  return Draft(draft.arrival, dataclasses.replace(claim, gold=gold))


class Pair(NamedTuple):
  """Two texts for one slot that cannot both hold, and other words for each."""

  group: str
  texts: tuple[str, str]
  subject: str
  time: int  # minutes; when the slot comes up in the source
  kind: str
  restated: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())


def make_claim(
  key: str,
  text: str,
  role: str,
  gold: Gold,
  *,
  people: People = _ALONE,
  observed_at: int | None = None,
  subject: str | None = None,
) -> Claim:
  """A claim by `role` with its true reliability in gold and a noisy one in the open.

  The reading is normal around the truth (`NOISE_SD`), clipped to [0.01, 0.99] and absent
  in a share `MISSING_SHARE`; it depends on `key` alone, which becomes the provisional id.
  """
  rng = seeded("reading", key)
  truth = RELIABILITY[role]
  reading = round(float(np.clip(rng.normal(truth, NOISE_SD), 0.01, 0.99)), 3)
  if gold.scope is None:
    past, bounded = _PAST.search(text), _BOUNDED.search(text)
    gold = dataclasses.replace(gold, scope="past" if past else "bounded" if bounded else "present")
  return Claim(
    id=key,
    text=text,
    source=people.source(role),
    source_reliability=None if rng.random() < MISSING_SHARE else reading,
    observed_at=observed_at,
    subject=subject,
    gold=dataclasses.replace(gold, reliability=truth),
  )


def order_of(time: int | None, entry_time: int | None) -> Order:
  """How a claim's time stands to an entry's; unknown or equal times have no order."""
  if time is None or entry_time is None or time == entry_time:
    return Order.UNORDERED
  return Order.NEWER if time > entry_time else Order.OLDER


def _draw(rng: np.random.Generator, weights: Mapping[_T, float]) -> _T:
  """One key, as often as its weight says."""
  threshold = rng.random() * sum(weights.values())
  for key, weight in weights.items():
    threshold -= weight
    if threshold < 0:
      return key
  return key


class _Option(NamedTuple):
  which: int
  relation: Relation
  action: Action
  twin: str | None  # the claim of the same text in Pending
  order: Order


class Tally(NamedTuple):
  """How often each label occurs in a stream."""

  by_action: collections.Counter[Action]
  by_look: collections.Counter[tuple[str, Action]]  # among claims that look alike without texts

  @classmethod
  def of(cls, drafts: Iterable[Draft] = ()) -> "Tally":
    """Of claims that are there before any scene; they count as looking like no other."""
    actions = (draft.claim.gold.action for draft in drafts if draft.claim.gold)
    return cls(collections.Counter(actions), collections.Counter())


def _look(role: str, time: int | None, arrival: int, live: Claim | None) -> str:
  """What source and time alone tell of a claim: who speaks, and when against the live entry."""
  if time is None:
    return f"{role} unknown"
  if live is not None and time == live.observed_at:
    return f"{role} equal"
  return f"{role} newest" if time == arrival else f"{role} late"


class Scene:
  """A chain of claims about one slot; the label follows from what is live at that moment.

  Source and time are drawn first and whether the text agrees with the live entry second,
  so that neither says what the label is. `tally` counts the labels of the stream so far,
  in all and by what source and time alone would tell, and steers towards the rare ones.
  """

  def __init__(self, pair: Pair, people: People, tally: Tally, *, key: str):
    self.drafts: list[Draft] = []
    self._pair, self._people, self._tally, self._key = pair, people, tally, key
    self._rng = seeded("scene", key)
    self._live: Claim | None = None
    self._which = int(self._rng.integers(2))  # the live text, or the one to come first
    self._pending: dict[int, Claim] = {}
    self._arrival = pair.time + int(self._rng.integers(1, 20 * _DAY))

  def adopt(self, claim: Claim, which: int) -> None:
    """Starts from `claim`, already live in the stream, which says `pair.texts[which]`."""
    assert claim.observed_at is not None
    self._live, self._which = claim, which
    self._arrival = claim.observed_at

  def play(self, steps: int) -> list[Draft]:
    """Up to `steps` claims; contexts without a label are left out."""
    for _ in range(3 * steps):
      if len(self.drafts) == steps:
        break
      self._step()
    return self.drafts

  def _step(self) -> None:
    rng = self._rng
    trusted = rng.random() < (0.6 if self._live else 0.66)
    role = _draw(rng, _TRUSTED if trusted else _UNTRUSTED)
    wait = _draw(rng, dict.fromkeys((_DAY, 6 * _DAY, 25 * _DAY, 100 * _DAY), 1.0))
    arrival = self._arrival + int(wait * rng.uniform(0.3, 1.0))
    time = self._time(arrival, trusted)
    options = [option for which in (0, 1) if (option := self._option(which, role, time))]
    if not options:
      return
    look = _look(role, time, arrival, self._live)
    wants = {option: self._want(look, option.action) for option in options}
    self._arrival = arrival
    option = _draw(rng, wants)
    self._tally.by_look[look, option.action] += 1
    self._tell(option, role, time)

  def _want(self, look: str, action: Action) -> float:
    """How much a label is wanted: little where it is frequent, in all or among its look-alikes."""
    tally = self._tally
    return (1 + tally.by_action[action]) ** -0.5 * (1 + tally.by_look[look, action]) ** -3.0

  def _time(self, arrival: int, trusted: bool) -> int | None:
    """When the claim was observed: newer, older than the live entry, equal or unknown."""
    rng = self._rng
    if self._live is None:
      draw = rng.random()
      if draw < 0.16:
        return None
      return arrival - self._lateness() if draw < 0.36 else arrival
    entry = self._live.observed_at
    timing = _draw(rng, _TIMINGS if trusted else _UNTRUSTED_TIMINGS)
    if timing == "newer" or (entry is None and timing != "unknown"):
      return arrival
    if timing == "unknown" or entry is None:
      return None
    return entry if timing == "equal" else entry - self._lateness()

  def _lateness(self) -> int:
    """Minutes; alike for what is new and what is outdated, so that they do not tell which."""
    return int(self._rng.integers(_DAY, 150 * _DAY))

  def _option(self, which: int, role: str, time: int | None) -> _Option | None:
    """What telling text `which` now would be, None where it has no label."""
    live, twin = self._live, self._pending.get(which)
    years = [int(match.group()) for match in _YEAR.finditer(self._pair.texts[which])]
    if time is not None and any(1970 + time / (365.25 * _DAY) < year for year in years):
      return None
    if live is None:
      if which != self._which and not self._pending:
        return None  # the other text comes once there is something that it contradicts
      relation, reference = Relation.NEW, twin
    else:
      relation = Relation.SAME if which == self._which else Relation.OTHER
      reference = live
    order = order_of(time, reference.observed_at) if reference else Order.NEWER
    step = Step(("", ""), "", relation, RELIABILITY[role], False, order, twin is not None)
    action = decide(step, _truth(live) if live else None)
    return (
      None if action is None else _Option(which, relation, action, twin.id if twin else None, order)
    )

  def _tell(self, option: _Option, role: str, time: int | None) -> None:
    which, action = option.which, option.action
    target = self._live.id if self._live else None
    if action == Action.NOOP and option.relation != Relation.SAME and option.twin:
      target = option.twin  # repeats what waits in Pending
    elif action == Action.APPEND:
      target = None
    key = f"{self._key}/{len(self.drafts)}"
    resolves, outcome = self._settled(option, time)
    claim = make_claim(
      key,
      self._wording(which, role),
      role,
      Gold(
        action=action,
        target=target,
        temporal=option.relation == Relation.OTHER and RELIABILITY[role] > TRUSTED,
        group=self._pair.group,
        kind=_kind(option, role, outcome),
        resolves=resolves,
        outcome=outcome,
      ),
      people=self._people,
      observed_at=time,
      subject=self._pair.subject,
    )
    self.drafts.append(Draft(self._arrival, claim))
    self._tally.by_action[action] += 1
    if action == Action.DEFER_VERIFY:
      self._pending[which] = claim
    if action in (Action.APPEND, Action.REVISE):
      self._live, self._which = claim, which
    self._pending = {i: other for i, other in self._pending.items() if other.id != resolves}

  def _settled(self, option: _Option, time: int | None) -> tuple[str | None, str | None]:
    """Id and outcome of the Pending claim that an append or a revise settles, if any.

    One of the same text is confirmed; else the other text is contradicted if it is older.
    """
    if option.action not in (Action.APPEND, Action.REVISE):
      return None, None
    if option.twin:
      return option.twin, "confirmed"
    rival = self._pending.get(1 - option.which)
    if rival is None or order_of(time, rival.observed_at) != Order.NEWER:
      return None, None
    return rival.id, "contradicted"

  def _wording(self, which: int, role: str) -> str:
    """The text itself, or now and then the owner's other words for it."""
    others = self._pair.restated[which]
    if role == "user" and others and self._rng.random() < 0.4:
      return str(self._rng.choice(others))
    return self._pair.texts[which]


def _truth(claim: Claim) -> float:
  assert claim.gold is not None and claim.gold.reliability is not None
  return claim.gold.reliability


def _kind(option: _Option, role: str, outcome: str | None) -> str:
  """Names the row of the label table, for reports."""
  if outcome == "contradicted":
    change = "change_" if option.action == Action.REVISE else ""
    return change + "contradicts_pending"
  if option.action == Action.NOOP:
    return "repeat" if option.relation == Relation.SAME else "pending_repeat"
  if option.action == Action.APPEND:
    return "confirmed_new" if option.twin else "new"
  if option.action == Action.REVISE:
    return "confirmed_change" if option.twin else "change"
  if option.action == Action.REJECT_CONFLICT:
    return "outdated" if option.order == Order.OLDER else "clearly_less_reliable"
  if option.relation == Relation.NEW:
    return "untrusted_new"
  return "unorderable" if RELIABILITY[role] > TRUSTED else "comparable"
