"""The rule oracle: every gold label again, from the label table and a replay of the stream.

Owns what each `gold.kind` says of a claim's relation to the memory, and the check that the
label, the target and the texts agree with it. The table itself is in `label_table.py`.
"""

import collections
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tarl_jax.data.construct import order_of
from tarl_jax.data.label_table import Order, Relation, Step, decide
from tarl_jax.data.linking import plain
from tarl_jax.data.record import Claim, Gold, Stream
from tarl_jax.types import Action


class Kind(NamedTuple):
  """What a `gold.kind` says. `hedged` is None where a claim of the kind may be either."""

  relation: Relation
  hedged: bool | None = False
  twin: bool = False  # the same waits in Pending
  adds: bool = False  # replaces the entry by more of the same: both texts can hold


_NOTHING, _SAME = Kind(Relation.NOTHING), Kind(Relation.SAME)
_NEW, _PAST = Kind(Relation.NEW), Kind(Relation.PAST)
_OTHER = Kind(Relation.OTHER)
_HEDGED_OTHER = Kind(Relation.OTHER, True)

KINDS = {
  # says nothing to keep
  "chat": _NOTHING,
  "greeting": _NOTHING,
  "hypothetical": _NOTHING,
  "injected_command": _NOTHING,
  "one_off": _NOTHING,
  "question": _NOTHING,
  # the same fact with the same value
  "composite_repeat": _SAME,
  "echo": _SAME,
  "exact_repeat": _SAME,
  "paraphrase": _SAME,
  "repeat": _SAME,
  "restated": _SAME,
  "rewording": _SAME,
  # nothing live on its slot says otherwise
  "addition": _NEW,
  "bounded": _NEW,
  "conditional": _NEW,
  "contradicts_pending": _NEW,
  "evidence": _NEW,
  "interference_unreferenced": _NEW,
  "late_new": _NEW,
  "namesake_intro": _NEW,
  "new": _NEW,
  "new_turn": _NEW,
  "other_account": _NEW,
  "other_person": _NEW,
  "plural_value": _NEW,
  "untrusted_new": _NEW,
  "update_of_unknown": _NEW,
  "weak_addition": _NEW,
  "weak_bounded": _NEW,
  "weak_conditional": _NEW,
  "weak_new": _NEW,
  "hedged_addition": Kind(Relation.NEW, True),
  "hedged_bounded": Kind(Relation.NEW, True),
  "hedged_conditional": Kind(Relation.NEW, True),
  "hedged_new": Kind(Relation.NEW, True),
  "confirmed_new": Kind(Relation.NEW, twin=True),
  "pending_confirmed": Kind(Relation.NEW, twin=True),
  "pending_repeat": Kind(Relation.NEW, None, twin=True),
  # about the past as such
  "past": _PAST,
  "weak_past": _PAST,
  "hedged_past": Kind(Relation.PAST, True),
  # one of two people of a name
  "same_name": Kind(Relation.AMBIGUOUS, None),
  # the same slot with another value
  "change": _OTHER,
  "change_back": _OTHER,
  "change_contradicts_pending": _OTHER,
  "clearly_less_reliable": _OTHER,
  "comparable": _OTHER,
  "comparable_conflict": _OTHER,
  "composite_change": _OTHER,
  "enrichment": Kind(Relation.OTHER, adds=True),
  "injected_conflict": _OTHER,
  "interference": _OTHER,
  "late_conflict": _OTHER,
  "outdated": _OTHER,
  "partial_change": _OTHER,
  "retraction": _OTHER,
  "stop": _OTHER,
  "unorderable": _OTHER,
  "update": _OTHER,
  "weak_conflict": _OTHER,
  "weak_late_conflict": _OTHER,
  "hedged_conflict": _HEDGED_OTHER,
  "hedged_late_conflict": _HEDGED_OTHER,
  "expired_conflict": Kind(Relation.OTHER, None),
  "unordered_conflict": Kind(Relation.OTHER, None),
  "confirmed_change": Kind(Relation.OTHER, twin=True),
  "pending_confirmed_change": Kind(Relation.OTHER, twin=True),
}


class Memory(NamedTuple):
  """The claims of a stream by place, as gold has put them."""

  accepted: dict[str, Claim]
  pending: dict[str, Claim]
  history: dict[str, Claim]


def replay(stream: Stream) -> Iterator[tuple[Claim, Gold, Memory]]:
  """Every claim with its gold and the memory before it; the memory changes with each step."""
  memory = Memory({}, {}, {})
  for claim in stream.claims:
    gold = claim.gold
    assert gold is not None
    yield claim, gold, memory
    if gold.action == Action.REVISE and gold.target in memory.accepted:
      memory.history[gold.target] = memory.accepted.pop(gold.target)
    if gold.action in (Action.APPEND, Action.REVISE):
      memory.accepted[claim.id] = claim
    elif gold.action == Action.REJECT_CONFLICT:
      memory.history[claim.id] = claim
    elif gold.action == Action.DEFER_VERIFY:
      memory.pending[claim.id] = claim


def label_faults(streams: Sequence[Stream]) -> tuple[collections.Counter[str], int]:
  """What is wrong with labels, counted by fault, and the number of claims checked.

  For each claim the relation comes from its kind; reliability from gold; order, the rival
  and what is live from the replay. A relation must also fit the texts: within a stream, two
  texts of a subject that were once called the same are never called two values of a slot.
  """
  faults: collections.Counter[str] = collections.Counter()
  checked = 0
  for stream in streams:
    sides = _Sides()
    for claim, gold, memory in replay(stream):
      checked += 1
      fault = _fault(claim, gold, memory, sides)
      if fault:
        faults[fault] += 1
  return faults, checked


def _fault(claim: Claim, gold: Gold, memory: Memory, sides: "_Sides") -> str | None:
  kind = KINDS.get(gold.kind)
  if kind is None:
    return f"kind '{gold.kind}' is in no table"
  if gold.reliability is None:
    return f"kind '{gold.kind}' without a true reliability"
  target = None if gold.target is None else memory.accepted.get(gold.target)
  misplaced = _misplaced(kind, gold, memory)
  if misplaced:
    return f"kind '{gold.kind}' {misplaced}"
  if gold.action not in _allowed(kind, claim, gold, target):
    return f"kind '{gold.kind}' labelled {gold.action.label} against the table"
  if target is not None and not kind.adds and not sides.agree(kind.relation, claim, target):
    return f"kind '{gold.kind}' between texts that were called the opposite before"
  return None


def _misplaced(kind: Kind, gold: Gold, memory: Memory) -> str | None:
  """What is wrong with the place of the target, if anything is."""
  live = gold.target in memory.accepted
  if kind.twin and gold.action == Action.NOOP:
    return None if gold.target in memory.pending else "repeats what is not in Pending"
  if kind.relation == Relation.OTHER and not live:
    return "conflicts with nothing live"
  if kind.relation == Relation.SAME and not live and gold.target not in memory.pending:
    return "repeats nothing live"
  if kind.relation in (Relation.NEW, Relation.PAST, Relation.NOTHING) and live:
    return "has a target though nothing conflicts"
  return None


def _allowed(kind: Kind, claim: Claim, gold: Gold, target: Claim | None) -> set[Action | None]:
  """The actions of the table, for either hedge where the kind leaves it open."""
  assert gold.reliability is not None
  rival, order = None, Order.NEWER
  if kind.relation == Relation.OTHER and target is not None:
    rival = target.gold.reliability if target.gold is not None else None
    order = order_of(claim.observed_at, target.observed_at)
    until, since = claim.valid_until, target.observed_at
    if order == Order.NEWER and until is not None and since is not None and until <= since:
      order = Order.EXPIRED
  found = set()
  for hedged in (False, True) if kind.hedged is None else (kind.hedged,):
    step = Step(("", ""), "", kind.relation, gold.reliability, hedged, order, kind.twin)
    found.add(decide(step, rival))
  return found


class _Sides:
  """Which texts of one subject were called the same, and which two values of one slot."""

  def __init__(self) -> None:
    self._root: dict[tuple[str | None, str], tuple[str | None, str]] = {}
    self._other: list[tuple[tuple[str | None, str], tuple[str | None, str]]] = []

  def _find(self, claim: Claim) -> tuple[str | None, str]:
    return self._top((claim.subject, plain(claim.text)))

  def _top(self, node: tuple[str | None, str]) -> tuple[str | None, str]:
    while self._root.get(node, node) != node:
      node = self._root[node]
    return node

  def agree(self, relation: Relation, claim: Claim, entry: Claim) -> bool:
    """Takes over a relation of two claims, unless it contradicts an earlier one."""
    one, two = self._find(claim), self._find(entry)
    if relation == Relation.SAME:
      if one != two and any({self._top(a), self._top(b)} == {one, two} for a, b in self._other):
        return False
      self._root[one] = two
    elif relation == Relation.OTHER:
      if one == two:
        return False
      self._other.append((one, two))
    return True
