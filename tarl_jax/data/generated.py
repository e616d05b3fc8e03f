"""The generated source: streams of claims with known gold, told from the fact quads.

Owns the order of events in a stream. The label comes from `label_table.decide`, people,
sources and times from `generated_cast`, the text from `generated_wording`.

Every claim is drawn as (what is stated, wanted action) first; then a slot, a source and a
time are sought under which the label table gives that action. So the same sentence occurs
with every action, and neither text, source nor time alone gives the action away.
"""

import dataclasses
import hashlib
import random
from collections.abc import Iterator

from tarl_jax.data import generated_forms as forms
from tarl_jax.data.generated_cast import Cast, Setting
from tarl_jax.data.generated_memory import Entry, Slot, is_value, with_settling
from tarl_jax.data.generated_wording import Teller, kind_of
from tarl_jax.data.label_table import Order, Relation, Step, decide
from tarl_jax.data.quads import SPLITS, Quad, load_quads
from tarl_jax.data.record import Claim, Gold, Stream
from tarl_jax.errors import InputError
from tarl_jax.types import Action

_TRIES = 8
_APPEND, _NOOP, _REVISE, _REJECT, _DEFER = Action
# What is stated, and a weight for every wanted action in label order. The values of a slot
# ("fact", "change", "negation") get all five actions; the sentences beside it only three.
_PLAN = (
  ("fact", (3.4, 6.0, 6.0, 6.0, 4.6)),
  ("change", (3.4, 3.5, 9.0, 9.0, 5.5)),
  ("negation", (0.8, 1.0, 4.0, 4.0, 2.0)),
  ("addition", (5.5, 2.0, 0.0, 0.0, 2.5)),
  ("past", (2.2, 0.8, 0.0, 0.0, 1.3)),
  ("bounded", (1.5, 0.5, 0.0, 0.0, 1.0)),
  ("nothing", (0.0, 5.0, 0.0, 0.0, 0.0)),
  ("composite", (0.0, 1.0, 0.0, 0.0, 0.0)),
  ("namesake", (0.0, 0.0, 0.0, 0.0, 2.0)),
)
_PLAN_KEYS = tuple(
  (what, action) for what, weights in _PLAN for action in Action if weights[action]
)
_PLAN_WEIGHTS = tuple(weight for _, weights in _PLAN for weight in weights if weight)


def generate(
  seed: int, num_streams: int, claims_per_stream: int, split: str, facts: str | None = None
) -> list[Stream]:
  """Streams with gold by the label table (DATA.md, "What a label means").

  The same arguments give the same streams on every machine; stream i does not depend on
  `num_streams`. Quads and people are disjoint between the three splits; frames, source
  names of our own and one-off texts between train and test.

  Args:
    seed: any int.
    num_streams: how many streams, each about one person's memory over some months.
    claims_per_stream: how many claims each.
    split: "train", "val" or "test".
    facts: split whose quads are told; by default `split` itself. With "train", a test
      stream has new people, sources and forms, and facts that were seen in training.

  Raises:
    InputError: for an unknown split or a size below 1.
  """
  made = generate_with_steps(seed, num_streams, claims_per_stream, split, facts)
  return [stream for stream, _ in made]


def generate_with_steps(
  seed: int, num_streams: int, claims_per_stream: int, split: str, facts: str | None = None
) -> Iterator[tuple[Stream, tuple[Step, ...]]]:
  """As `generate`, with the reason of every label beside the claims."""
  facts = facts or split
  for name in (split, facts):
    if name not in SPLITS:
      raise InputError(f"split: expected one of {', '.join(SPLITS)}, found {name!r}.")
  if num_streams < 1 or claims_per_stream < 1:
    raise InputError("generated source: num_streams and claims_per_stream must be at least 1.")
  quads = tuple(quad for quad in load_quads() if quad.split == facts)
  kind = split if facts == split else f"{split}-{facts}-facts"
  for index in range(num_streams):
    digest = hashlib.blake2b(f"{seed}/{kind}/{index}".encode(), digest_size=8).digest()
    builder = _StreamBuilder(random.Random(int.from_bytes(digest)), split, quads)
    while len(builder.claims) < claims_per_stream:
      builder.advance()
    person = f"{builder.cast.owner}-{seed}-{index}"
    stream_id = f"generated-{kind}-{seed}-{index}"
    yield Stream(stream_id, "generated", tuple(builder.claims), person), tuple(builder.steps)


class _StreamBuilder:
  """One stream under construction: its cast, the slots of its memory, the claims so far."""

  def __init__(self, rng: random.Random, split: str, quads: tuple[Quad, ...]):
    self.rng, self.quads = rng, quads
    self.cast = Cast(rng, split)
    self.teller = Teller(rng, forms.FORMS[split], self.cast.owner)
    self.slots: dict[tuple[str, str], Slot] = {}
    self.claims: list[Claim] = []
    self.steps: list[Step] = []
    self.namesakes_known = False
    self.ambiguous: set[tuple[str, str]] = set()  # quad id and item told of "one of two"

  def advance(self) -> None:
    """Adds one claim (a message that states nothing, where no plan can be met)."""
    self.cast.advance()
    for _ in range(_TRIES):
      what, action = self.rng.choices(_PLAN_KEYS, _PLAN_WEIGHTS)[0]
      if what == "nothing":
        break
      elif what == "composite":
        done = self._repeat_two()
      elif what == "namesake":
        done = self._namesake()
      else:
        done = self._state(what, action)
      if done:
        return
    self._state_nothing()

  def _state(self, what: str, action: Action) -> bool:
    return any(self._state_in(slot, what, action) for slot in self._candidates(what, action))

  def _state_in(self, slot: Slot, what: str, action: Action) -> bool:
    """Tells an item of one slot so that it earns `action`, if there is a way."""
    items = [item for item in slot.quad.items if item.startswith(what)]
    self.rng.shuffle(items)
    for item in items:
      relation, entry = slot.relate(item)
      if relation is None or not slot.can_earn(item, relation, action):
        continue
      if self._too_common(slot, item, relation, action):
        continue
      for _ in range(_TRIES):
        setting = self.cast.propose(slot, item, relation, entry)
        step = setting.step(slot, item, relation)
        if decide(step, entry.reliability if entry else None) == action:
          self._tell(slot, step, action, entry, setting)
          return True
    return False

  def _too_common(self, slot: Slot, item: str, relation: Relation, action: Action) -> bool:
    """Thins out the two ways that would crowd out the others of their class."""
    if action == _NOOP:
      return relation != Relation.SAME and self.rng.random() < 0.6
    return action == _DEFER and not slot.value and is_value(item) and self.rng.random() < 0.6

  def _candidates(self, what: str, action: Action) -> list[Slot]:
    """Open slots in random order and one fresh slot, in the order to try them."""
    slots = list(self.slots.values())
    self.rng.shuffle(slots)
    fresh = [self._fresh_slot()]
    if what == "addition" and self.rng.random() < 0.85:
      slots = [slot for slot in slots if any(map(is_value, slot.live))]
    fresh_first = {_APPEND: 0.6, _DEFER: 0.15}.get(action, 0.0)
    return fresh + slots if self.rng.random() < fresh_first else slots + fresh

  def _fresh_slot(self, namesake: str | None = None) -> Slot:
    """A slot of any quad, mostly a new one; sometimes an open quad about somebody else."""
    sharable = [slot.quad for slot in self.slots.values() if self._sharable(slot.quad)]
    while True:
      pool = sharable if sharable and self.rng.random() < 0.35 else self.quads
      quad = self.rng.choice(pool)
      if namesake and (quad.own_voice or not quad.per_person):
        sharable = []
        continue
      open_slots = [slot for slot in self.slots.values() if slot.quad is quad]
      if open_slots and not self._sharable(quad):
        return open_slots[0]
      person = namesake or self.cast.person_for(quad)
      slot = Slot(quad, person, self.rng.choice(self.cast.others), not open_slots)
      return self.slots.get(slot.key, slot)

  def _sharable(self, quad: Quad) -> bool:
    return quad.per_person or (quad.per_speaker and self.cast.accounts)

  def _state_nothing(self) -> None:
    slot = self.rng.choice(list(self.slots.values()) or [self._fresh_slot()])
    kind, text = self.teller.nothing(slot)
    injected = kind == "injected_command"
    setting = Setting(self.cast.untrusted(slot) if injected else self.cast.source(slot))
    step = setting.step(slot, "", Relation.NOTHING)
    on_topic = kind in ("question", "hypothetical")
    gold = Gold(_NOOP, group=slot.quad.id if on_topic else "", scope="none", kind=kind)
    self._add(text, slot, step, gold, setting)

  def _repeat_two(self) -> bool:
    """Two facts that are both known, in one claim."""
    told = [slot for slot in self.slots.values() if "fact" in slot.live and not slot.quad.own_voice]
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
    known = [slot for slot in self.slots.values() if slot.person in self.cast.namesakes]
    known = [slot for slot in known if slot.value]
    if not self.namesakes_known:
      self._introduce()
      return True
    if not known or self.rng.random() < 0.25:
      slot = self._fresh_slot(self.rng.choice(self.cast.namesakes))
      return self._state_in(slot, "fact", _APPEND)
    slot = self.rng.choice(known)
    item = self.rng.choice([item for item in slot.quad.items if is_value(item)])
    if (slot.quad.id, item) in self.ambiguous:
      return False
    self.ambiguous.add((slot.quad.id, item))
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
    self.namesakes_known = True

  def _tell(
    self, slot: Slot, step: Step, action: Action, entry: Entry | None, setting: Setting
  ) -> None:
    wording = self.teller.sentence(slot, step.item, entry if action == _NOOP else None)
    injected = action == _REJECT and step.reliability < 0.4 and self.rng.random() < 0.25
    injected = injected and not step.hedged
    both = self._composite(slot, step, action)
    if both:
      wording += " " + self.teller.sentence(slot, both, None)
    text = self.teller.framed(wording, setting.hedged, injected=injected, slot=slot, item=step.item)
    same = entry is not None and step.relation == Relation.SAME
    if same and entry is not None and not step.hedged and self.rng.random() < 0.12:
      text, wording = entry.text, entry.wording
    kind = "composite_change" if both else kind_of(step, action, slot, self.slots, injected)
    if action == _NOOP and same and entry is not None:
      kind = "exact_repeat" if wording == entry.wording else "rewording"
      kind = "echo" if self.cast.is_echo(setting.source) else kind
    target = entry.claim_id if entry and action != _APPEND else None
    if step.twin and action == _NOOP and not same:
      target = slot.pending[step.item].claim_id
    temporal = step.item == "past" or kind == "change_back" or (
      step.relation == Relation.OTHER and step.order != Order.NEWER and action != _NOOP
    )  # fmt: skip
    scope = step.item if step.item in ("past", "bounded") else "present"
    gold = Gold(action, target, temporal=temporal, group=slot.quad.id, scope=scope, kind=kind)
    told = self._add(text, slot, step, gold, setting, entry=entry, wording=wording)
    self.slots.setdefault(slot.key, slot)
    slot.apply(step.item, action, told, entry)
    if both:
      slot.live[both] = told
      slot.frozen = True

  def _composite(self, slot: Slot, step: Step, action: Action) -> str | None:
    """An addition to state in the same breath, for a few of the changes."""
    if action != _REVISE or step.item == "negation" or self.rng.random() > 0.05:
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
