"""One generated stream under construction.

Owns the order of events in a stream and the memory it has so far. The label comes from
`label_table.decide`, the wishes from `generated_plan`, people, sources and times from
`generated_cast`, the text from `generated_wording`.

Every claim is drawn as (what is stated, wanted action) first; then a slot, a source and a
time are sought under which the label table gives that action. So the same sentence occurs
with every action, and neither text, source nor time alone gives the action away.
"""

import dataclasses
import random

from tarl_jax.data import generated_forms as forms
from tarl_jax.data.generated_cast import Cast, Setting
from tarl_jax.data.generated_memory import Entry, Slot, Slots, is_value, with_settling
from tarl_jax.data.generated_plan import Plan, Wish
from tarl_jax.data.generated_wording import Teller, kind_of
from tarl_jax.data.label_table import Order, Relation, Step, decide
from tarl_jax.data.quads import Quad
from tarl_jax.data.record import Claim, Gold
from tarl_jax.types import Action

_TRIES = 8
_CANDIDATES = 24  # open slots to try for one wish
_COMPOSITE = 0.08  # share of changes that state an addition in the same breath
_APPEND, _NOOP, _REVISE, _REJECT, _DEFER = Action


class StreamBuilder:
  """One stream under construction: its cast, the slots of its memory, the claims so far."""

  def __init__(
    self, rng: random.Random, split: str, quads: tuple[Quad, ...],
    withheld: frozenset[str] = frozenset(), conflict_rate: float | None = None,
  ):  # fmt: skip
    self.rng, self.quads, self.withheld = rng, quads, withheld
    self.cast = Cast(rng, split)
    self.teller = Teller(rng, forms.FORMS[split], self.cast.owner)
    self.plan = Plan(rng, withheld, conflict_rate)
    self.slots = Slots()
    self.claims: list[Claim] = []
    self.steps: list[Step] = []
    self._sharable_quads: list[Quad] = []  # one for each open slot that others can have too
    self._namesakes: list[Slot] = []
    self._namesakes_known = False
    self._ambiguous: set[tuple[str, str]] = set()  # quad id and item told of "one of two"

  def advance(self) -> None:
    """Adds one claim (a message that states nothing, where no wish can be met)."""
    self.cast.advance()
    if not any(self._grant(wish) for wish in self.plan.wishes()):
      self._state_nothing()
    self.plan.told(self.steps[-1].relation == Relation.OTHER)

  def _grant(self, wish: Wish) -> bool:
    if wish.what == "nothing":
      self._state_nothing()
      return True
    if wish.what == "composite":
      return self._repeat_two()
    if wish.what == "namesake":
      return self._namesake()
    return any(self._state_in(slot, wish) for slot in self._candidates(wish))

  def _state_in(self, slot: Slot, wish: Wish) -> bool:
    """Tells an item of one slot so that it earns the wanted action, if there is a way."""
    items = [item for item in slot.quad.items if item.startswith(wish.what)]
    self.rng.shuffle(items)
    for item in items:
      relation, entry = slot.relate(item)
      if relation is None or not slot.can_earn(item, relation, wish.action):
        continue
      if wish.conflict is not None and wish.conflict != (relation == Relation.OTHER):
        continue
      if self._too_common(slot, item, relation, wish.action):
        continue
      if self._find_setting(slot, item, relation, wish.action, entry):
        return True
    return False

  def _find_setting(
    self, slot: Slot, item: str, relation: Relation, action: Action, entry: Entry | None
  ) -> bool:
    """Tells `item` in circumstances under which the label is `action`, if some are found."""
    for _ in range(_TRIES):
      setting = self.cast.propose(slot, item, relation, entry)
      step = setting.step(slot, item, relation)
      if decide(step, entry.reliability if entry else None) != action:
        continue
      kind = kind_of(step, action, slot, self.slots.of_quad(slot.quad))
      if kind not in self.withheld:
        self._tell(slot, step, kind, action, entry, setting)
        return True
    return False

  def _too_common(self, slot: Slot, item: str, relation: Relation, action: Action) -> bool:
    """Thins out the two ways that would crowd out the others of their class."""
    if action == _NOOP:
      return relation != Relation.SAME and self.rng.random() < 0.6
    return action == _DEFER and not slot.value and is_value(item) and self.rng.random() < 0.6

  def _candidates(self, wish: Wish) -> list[Slot]:
    """Some open slots in random order and one fresh slot, in the order to try them."""
    slots = self.slots.sample(self.rng, _CANDIDATES)
    fresh = [self._fresh_slot()]
    if wish.what == "addition" and self.rng.random() < 0.85:
      slots = [slot for slot in slots if any(map(is_value, slot.live))]
    fresh_first = {_APPEND: 0.6, _DEFER: 0.15}.get(wish.action, 0.0)
    return fresh + slots if self.rng.random() < fresh_first else slots + fresh

  def _fresh_slot(self, namesake: str | None = None) -> Slot:
    """A slot of any quad, mostly a new one; sometimes an open quad about somebody else."""
    sharable = self._sharable_quads
    while True:
      pool = sharable if sharable and self.rng.random() < 0.35 else self.quads
      quad = self.rng.choice(pool)
      if namesake and (quad.own_voice or not quad.per_person):
        sharable = []
        continue
      open_slots = self.slots.of_quad(quad)
      if open_slots and not self._sharable(quad):
        return open_slots[0]
      person = namesake or self.cast.person_for(quad)
      return self.slots.known(Slot(quad, person, self.rng.choice(self.cast.others), not open_slots))

  def _sharable(self, quad: Quad) -> bool:
    return quad.per_person or (quad.per_speaker and self.cast.accounts)

  def _open(self, slot: Slot) -> None:
    if not self.slots.add(slot):
      return
    if self._sharable(slot.quad):
      self._sharable_quads.append(slot.quad)
    if slot.person in self.cast.namesakes:
      self._namesakes.append(slot)

  def _state_nothing(self) -> None:
    slot = self.rng.choice(self.slots.sample(self.rng, 1) or [self._fresh_slot()])
    kind, text = self.teller.nothing(slot, self.withheld)
    injected = kind == "injected_command"
    setting = Setting(self.cast.untrusted(slot) if injected else self.cast.source(slot))
    step = setting.step(slot, "", Relation.NOTHING)
    on_topic = kind in ("question", "hypothetical")
    gold = Gold(_NOOP, group=slot.quad.id if on_topic else "", scope="none", kind=kind)
    self._add(text, slot, step, gold, setting)

  def _repeat_two(self) -> bool:
    """Two facts that are both known, in one claim."""
    some = self.slots.sample(self.rng, _CANDIDATES)
    told = [slot for slot in some if "fact" in slot.live and not slot.quad.own_voice]
    if len(told) < 2:
      return False
    first, second = self.rng.sample(told, 2)
    entry, alternative = first.live["fact"], second.live["fact"]
    setting = self.cast.propose(first, "fact", Relation.SAME, entry)
    halves = [self.teller.sentence(slot, "fact", slot.live["fact"]) for slot in (first, second)]
    gold = Gold(_NOOP, entry.claim_id, alt_targets=(alternative.claim_id,), group=first.quad.id,
                scope="present", kind="composite_repeat")  # fmt: skip
    step = setting.step(first, "fact", Relation.SAME)._replace(hedged=False)
    self._add(" ".join(halves), first, step, gold, setting, entry=entry)
    return True

  def _namesake(self) -> bool:
    """Introduces two people of one name, or tells something of "one of the two"."""
    known = [slot for slot in self._namesakes if slot.value]
    if not self._namesakes_known:
      self._introduce()
      return True
    if not known or self.rng.random() < 0.25:
      slot = self._fresh_slot(self.rng.choice(self.cast.namesakes))
      return self._state_in(slot, Wish("fact", _APPEND, False))
    slot = self.rng.choice(known)
    item = self.rng.choice([item for item in slot.quad.items if is_value(item)])
    if (slot.quad.id, item) in self._ambiguous:
      return False
    self._ambiguous.add((slot.quad.id, item))
    setting = Setting(self.cast.source(slot))
    step = setting.step(slot, item, Relation.AMBIGUOUS)
    name = self.cast.shared_name
    twins = [other for other in known if other.quad == slot.quad and other is not slot]
    gold = Gold(_DEFER, slot.value.claim_id if slot.value else None, group=slot.quad.id,
                alt_targets=tuple(twin.value.claim_id for twin in twins if twin.value),
                scope="present", kind="same_name")  # fmt: skip
    text = self.teller.framed(self.teller.sentence(slot, item, None, name), False)
    self._add(text, slot, step._replace(slot=(slot.quad.id, name), twin=False), gold, setting,
              subject=name)  # fmt: skip
    return True

  def _introduce(self) -> None:
    slot = self._fresh_slot(self.cast.namesakes[0])
    setting = Setting(self.cast.trusted(slot))
    name = self.cast.shared_name
    step = setting.step(slot, "intro", Relation.NEW)._replace(slot=("", name))
    text = self.teller.namesakes(name, self.cast.namesakes)
    gold = Gold(_APPEND, scope="present", kind="namesake_intro")
    self._add(text, slot, step, gold, setting, subject=name)
    self._namesakes_known = True

  def _tell(
    self, slot: Slot, step: Step, kind: str, action: Action, entry: Entry | None, setting: Setting
  ) -> None:
    both = slot.beside if kind == "partial_change" else self._composite(slot, step, action)
    if both and kind != "partial_change":
      kind = "composite_change"
    if self._injects(step, kind, action):
      kind = "injected_conflict"
    wording = self.teller.sentence(slot, step.item, entry if action == _NOOP else None)
    if both:
      wording += " " + self.teller.sentence(slot, both, None)
    injected = kind == "injected_conflict"
    text = self.teller.framed(wording, setting.hedged, injected=injected, slot=slot, item=step.item)
    target = entry.claim_id if entry and action != _APPEND else None
    if entry is not None and step.relation == Relation.SAME:
      if not step.hedged and self.rng.random() < 0.12:
        text, wording = entry.text, entry.wording
      kind = "exact_repeat" if wording == entry.wording else "rewording"
      kind = "echo" if self.cast.is_echo(setting.source) else kind
    elif step.twin and action == _NOOP:
      target = slot.pending[step.item].claim_id
    temporal = step.item == "past" or kind == "change_back" or (
      step.relation == Relation.OTHER and step.order != Order.NEWER and action != _NOOP
    )  # fmt: skip
    scope = step.item if step.item in ("past", "bounded") else "present"
    gold = Gold(action, target, temporal=temporal, group=slot.quad.id, scope=scope, kind=kind)
    told = self._add(text, slot, step, gold, setting, entry=entry, wording=wording)
    self._open(slot)
    slot.apply(step.item, action, told, entry)
    if both:
      slot.live[both] = told
      slot.beside = both

  def _injects(self, step: Step, kind: str, action: Action) -> bool:
    """Whether an untrusted conflict comes as an order to the reader."""
    if action != _REJECT or step.reliability >= 0.4 or step.hedged or kind == "expired_conflict":
      return False
    return "injected_conflict" not in self.withheld and self.rng.random() < 0.25

  def _composite(self, slot: Slot, step: Step, action: Action) -> str | None:
    """An addition to state in the same breath, for a few of the changes."""
    if "composite_change" in self.withheld or action != _REVISE or step.item == "negation":
      return None
    if self.rng.random() > _COMPOSITE:
      return None
    beside = [item for item in slot.quad.items if item.startswith("addition")]
    free = [item for item in beside
            if item not in slot.pending and slot.relate(item)[0] == Relation.NEW]  # fmt: skip
    return self.rng.choice(free) if free else None

  def _add(
    self, text: str, slot: Slot, step: Step, gold: Gold, setting: Setting, *,
    entry: Entry | None = None, wording: str = "", subject: str | None = None,
  ) -> Entry:  # fmt: skip
    """Writes one claim and returns it as an entry."""
    observed = self.cast.observed(setting.order, entry)
    valid_from, valid_until = self.cast.validity(step, observed, entry, text)
    about = slot.quad.subject.replace("{name}", slot.person)
    gold = dataclasses.replace(gold, reliability=setting.source.reliability)
    gold = with_settling(gold, slot, step.item, observed)
    claim = Claim(
      id=f"c{len(self.claims)}",
      text=text,
      source=setting.source.name,
      source_reliability=self.cast.reading(setting.source),
      observed_at=observed,
      valid_from=valid_from,
      valid_until=valid_until,
      subject=subject or (slot.person if about == "I" else about),
      gold=gold,
    )
    self.claims.append(claim)
    self.steps.append(step)
    return Entry(claim.id, setting.source.reliability, observed, text, wording)
