"""Who is in a generated stream, who speaks, how far that can be trusted, and when.

Owns people, sources and times; knows no wording and no label rule.
"""

import random
from typing import NamedTuple

from tarl_jax.data import generated_forms as forms
from tarl_jax.data.generated_memory import Entry, Slot
from tarl_jax.data.generated_wording import expiry_of_past
from tarl_jax.data.label_table import Order, Relation, Step
from tarl_jax.data.quads import Quad

DAY = 24 * 60  # minutes
_FIRST_START = 28_400_000  # minutes since 1970 UTC: the end of 2023
_START_RANGE = 900 * DAY
_READING_SD = 0.06  # of a claim's source_reliability around the true one
_READING_MISSING = 0.06
_BANDS = _STRONG, _FAIR, _MIDDLING, _WEAK = (0, 1, 2, 3)  # of generated_forms
_BAND_SHARES = (40, 24, 19, 17)
_ORDERS = tuple(Order)
_ORDER_SHARES = (74, 14, 9, 3)
_HEDGED = 0.14
_NEW_PEER = 150  # claims until one more person is talked about
_ECHO = 0.12


class Source(NamedTuple):
  """Who speaks, and how far that can be trusted in truth."""

  name: str
  reliability: float


class Setting(NamedTuple):
  """The circumstances of a claim."""

  source: Source
  hedged: bool = False
  order: Order = Order.NEWER

  def step(self, slot: Slot, item: str, relation: Relation) -> Step:
    """The reason record of `item` told under these circumstances."""
    twin = item in slot.pending
    key = slot.key
    return Step(key, item, relation, self.source.reliability, self.hedged, self.order, twin)


class Cast:
  """People, sources and the clock of one stream.

  `peers` may be the subject of a quad, `others` only stand where a quad says `{other}`, so
  that no sentence about somebody else meets a slot of that person.
  """

  def __init__(self, rng: random.Random, split: str):
    self._rng = rng
    names = rng.sample(forms.FIRST_NAMES[split], len(forms.FIRST_NAMES[split]))
    self.owner, self.housemate, self.shared_name = names[:3]
    self.peers, self.others, self._strangers = names[3:7], names[7:9], names[9:]
    self._told = 0
    surnames = rng.sample(forms.SURNAMES[split], 2)
    self.namesakes = tuple(f"{self.shared_name} {surname}" for surname in surnames)
    self.accounts = rng.random() < 0.5  # two people write; sources carry their names
    self.now = _FIRST_START + rng.randrange(_START_RANGE)
    self._pace = rng.uniform(0.5, 3.0) * DAY
    self._bands = forms.bands(split)
    self._echoes = forms.ECHOES[split]
    self._trust: dict[tuple[str, int], float] = {}

  def advance(self) -> None:
    """Lets time pass until the next claim arrives; a long stream gets to know more people."""
    self._told += 1
    if self._told % _NEW_PEER == 0 and self._strangers:
      self.peers.append(self._strangers.pop())
    self.now += 30 + int(self._rng.expovariate(1 / self._pace))

  def person_for(self, quad: Quad) -> str:
    """Whom a quad is told about; empty for things."""
    if quad.has_name:
      about_owner = not quad.own_voice and self._rng.random() < 0.3
      return self.owner if about_owner else self._rng.choice(self.peers)
    if not quad.own_voice:
      return ""
    shared = self.accounts and quad.per_speaker
    return self.housemate if shared and self._rng.random() < 0.4 else self.owner

  def source(self, slot: Slot, band: int | None = None) -> Source:
    """A source that can say the slot's sentences; `band` counts from the most reliable."""
    rng = self._rng
    if band is None:
      band = rng.choices(_BANDS, _BAND_SHARES)[0]
    if not slot.quad.own_voice:
      name = rng.choice(self._bands[band].others)
      return self._reliable(name.replace("{peer}", rng.choice(self.peers).lower()), band)
    name = rng.choice(self._bands[band].voice)
    if self.accounts:
      speaker = self.housemate if slot.person == self.housemate else self.owner
      name = f"{name}:{speaker.lower()}"
    return self._reliable(name, band)

  def untrusted(self, slot: Slot) -> Source:
    """A source of the two lower bands."""
    return self.source(slot, self._rng.choice((_MIDDLING, _WEAK)))

  def trusted(self, slot: Slot) -> Source:
    """A source of the highest band."""
    return self.source(slot, _STRONG)

  def is_echo(self, source: Source) -> bool:
    """Whether the source only plays back what the memory itself said."""
    return source.name in self._echoes

  def _reliable(self, name: str, band: int) -> Source:
    bounds = self._bands[band]
    drawn = round(self._rng.uniform(bounds.low, bounds.high), 3)
    return Source(name, self._trust.setdefault((name, band), drawn))

  def propose(self, slot: Slot, item: str, relation: Relation, entry: Entry | None) -> Setting:
    """Circumstances under which `item` might be told; not every one has a label."""
    rng = self._rng
    order = rng.choices(_ORDERS, _ORDER_SHARES)[0]
    if entry is not None and entry.time is None:
      order = Order.UNORDERED
    if order == Order.EXPIRED and relation != Relation.OTHER:
      order = Order.NEWER
    if (relation == Relation.SAME or item in slot.replaced) and rng.random() < _ECHO:
      return Setting(self._reliable(rng.choice(self._echoes), _MIDDLING), False, order)
    band = None
    if relation == Relation.OTHER and entry and entry.reliability < 0.8 and rng.random() < 0.4:
      band = _MIDDLING  # the only sources that are comparable to a fair entry
    return Setting(self.source(slot, band), rng.random() < _HEDGED, order)

  def observed(self, order: Order, entry: Entry | None) -> int | None:
    """When the claim was observed, in minutes since 1970 UTC; None is unknown."""
    rng = self._rng
    known = entry.time if entry else None
    if order == Order.OLDER:
      return (self.now if known is None else known) - rng.randrange(DAY // 2, 200 * DAY)
    if order != Order.UNORDERED:
      return self.now
    if entry is not None and known is None:
      return self.now if rng.random() < 0.5 else None
    return None if known is None or rng.random() < 0.6 else known

  def validity(
    self, step: Step, observed: int | None, entry: Entry | None, text: str
  ) -> tuple[int | None, int | None]:
    """(valid_from, valid_until) in minutes since 1970 UTC; None is not stated."""
    rng = self._rng
    base = self.now if observed is None else observed
    if step.order == Order.EXPIRED and entry is not None and entry.time is not None:
      end = entry.time - rng.randrange(DAY, 120 * DAY)
      return end - rng.randrange(90 * DAY, 700 * DAY), end
    if step.item == "past":
      return None, expiry_of_past(text, base, rng)
    if step.item == "bounded" and rng.random() < 0.5:
      return base, base + rng.randrange(10 * DAY, 200 * DAY)
    return (base if observed is not None and rng.random() < 0.08 else None), None

  def reading(self, source: Source) -> float | None:
    """The noisy `source_reliability` of one claim; sometimes unknown."""
    reading = min(1.0, max(0.0, self._rng.gauss(source.reliability, _READING_SD)))
    return None if self._rng.random() < _READING_MISSING else round(reading, 2)
