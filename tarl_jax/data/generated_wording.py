"""From an item of a slot to the text of a claim, and the name of its kind.

Owns the choice of wordings and frames; knows no label rule.
"""

import datetime
import random
import re
from collections.abc import Sequence

from tarl_jax.data.generated_forms import Forms
from tarl_jax.data.generated_memory import Entry, Slot, is_value
from tarl_jax.data.jsonl import minutes
from tarl_jax.data.label_table import TRUSTED, Order, Relation, Step
from tarl_jax.data.quads import PLURAL
from tarl_jax.types import Action

_DAY = 24 * 60
_YEAR = re.compile(r"\b(19\d\d|20\d\d)\b")
_FRAMED = 0.3  # share of unhedged claims with a lead-in
# Kinds of a message that states nothing, with their weights.
_NOTHING = {
  "question": 38,
  "hypothetical": 30,
  "one_off": 14,
  "greeting": 10,
  "injected_command": 8,
}
_THE_USER = 0.3  # share of sentences about the owner that call them "the user"


class Teller:
  """Puts items into words; `owner` is the person whose memory the stream is."""

  def __init__(self, rng: random.Random, forms: Forms, owner: str):
    self._rng, self._forms, self._owner = rng, forms, owner

  def sentence(self, slot: Slot, item: str, entry: Entry | None, name: str | None = None) -> str:
    """A wording of `item`, other than the one of `entry` where there is a choice."""
    choices = [self._fill(text, slot, name) for text in slot.quad.items[item]]
    if entry is not None:
      choices = [text for text in choices if text != entry.wording] or choices
    return self._rng.choice(choices)

  def _fill(self, text: str, slot: Slot, name: str | None) -> str:
    person = name or slot.person
    if person == self._owner and text.startswith("{name}") and self._rng.random() < _THE_USER:
      text = "The user" + text.removeprefix("{name}")
    return text.replace("{name}", person).replace("{other}", slot.other)

  def framed(
    self, sentence: str, hedged: bool, *, injected: bool = False, slot: Slot | None = None,
    item: str = "",
  ) -> str:  # fmt: skip
    """The sentence as it arrives: plain, with a lead-in, a hedge or an injected order."""
    rng, forms = self._rng, self._forms
    if hedged and slot is not None and slot.quad.hedged and item == "change0":
      return self._fill(slot.quad.hedged, slot, None)
    if hedged:
      return rng.choice(forms.hedges).format(s=sentence)
    if injected:
      return rng.choice(forms.injections).format(s=sentence)
    if rng.random() < _FRAMED:
      return rng.choice(forms.leads).format(s=sentence)
    return sentence

  def nothing(self, slot: Slot, withheld: frozenset[str]) -> tuple[str, str]:
    """(kind, text) of a message that states nothing, of a kind that is not withheld."""
    rng, forms = self._rng, self._forms
    kinds = [kind for kind in _NOTHING if kind not in withheld]
    kind = rng.choices(kinds, [_NOTHING[kind] for kind in kinds])[0]
    if kind == "question":
      return kind, self._fill(slot.quad.question, slot, None)
    if kind == "hypothetical":
      item = rng.choice([item for item in slot.quad.items if is_value(item)])
      return kind, rng.choice(forms.hypotheticals).format(s=self.sentence(slot, item, None))
    texts = {"one_off": forms.one_offs, "greeting": forms.greetings}.get(kind, forms.commands)
    return kind, rng.choice(texts)

  def namesakes(self, first: str, full: tuple[str, ...]) -> str:
    """The sentence that introduces two people of one first name."""
    return self._rng.choice(self._forms.namesakes).format(first=first, a=full[0], b=full[1])


def expiry_of_past(text: str, now: int, rng: random.Random) -> int:
  """When a statement about the past stopped to hold, in minutes; always before `now`.

  The end of the last year that the text names, else some time in the years before.
  """
  years = [int(year) for year in _YEAR.findall(text)]
  if years:
    end = minutes(datetime.datetime(max(years) + 1, 1, 1, tzinfo=datetime.UTC))
    return min(end, now - _DAY)
  return now - rng.randrange(30 * _DAY, 1500 * _DAY)


def kind_of(step: Step, action: Action, slot: Slot, accounts: Sequence[Slot]) -> str:
  """The short name of the event for tables (repeats of a live entry aside).

  `accounts` are the open slots of the quad, by person.
  """
  if action == Action.APPEND:
    return _append_kind(step, slot, accounts)
  if action == Action.NOOP:
    return "pending_repeat"
  if action == Action.REVISE:
    if slot.beside:
      return "partial_change"
    if step.twin:
      return "confirmed_change"
    if step.item in slot.replaced:
      return "change_back"
    return "stop" if step.item == "negation" else "change"
  if action == Action.REJECT_CONFLICT:
    if step.order == Order.EXPIRED:
      return "expired_conflict"
    weak = "weak" if step.reliability <= TRUSTED else "hedged" if step.hedged else ""
    if step.order == Order.OLDER:
      return f"{weak}_late_conflict".removeprefix("_")
    return f"{weak}_conflict"
  return _defer_kind(step)


def _append_kind(step: Step, slot: Slot, accounts: Sequence[Slot]) -> str:
  if step.twin:
    return "confirmed_new"
  if not is_value(step.item):
    return step.item.rstrip("0123456789")
  if any(is_value(item) for item in slot.live) and slot.quad.scope == PLURAL:
    return "plural_value"
  for other in accounts:
    if other.person != slot.person and any(map(is_value, other.live)):
      return "other_account" if not slot.quad.has_name else "other_person"
  return "late_new" if step.order == Order.OLDER else "new"


def _defer_kind(step: Step) -> str:
  weak = "weak" if step.reliability <= TRUSTED else "hedged"
  if step.relation == Relation.OTHER:
    if step.order == Order.UNORDERED:
      return "unordered_conflict"
    return "hedged_conflict" if step.hedged else "comparable_conflict"
  if not is_value(step.item):
    return f"{weak}_{step.item.rstrip('0123456789')}"
  return f"{weak}_new"
