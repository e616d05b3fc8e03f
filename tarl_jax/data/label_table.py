"""The label table of DATA.md, "What a label means": from relation, trust and time to an action.

Owns the table and the terms it is written in. Serves the generated source and everything
constructed around real facts; knows no text and no source name.
"""

import enum
from typing import NamedTuple

from tarl_jax.types import Action

TRUSTED = 0.65  # a source is trusted above this
CLEARLY_LESS = 0.25  # a larger gap to the entry's source: the claim loses
COMPARABLE = 0.20  # up to this gap nobody wins; between the two there is no label


class Relation(enum.Enum):
  """What a claim is to the live memory."""

  NOTHING = "nothing"  # states nothing to keep
  SAME = "same"  # same fact, same value
  NEW = "new"  # nothing live on its slot says otherwise
  OTHER = "other"  # same slot, another value
  PAST = "past"  # about the past as such
  AMBIGUOUS = "ambiguous"  # about one of two people of the same name


class Order(enum.Enum):
  """When the claim was observed, against the entry it touches."""

  NEWER = "newer"
  OLDER = "older"
  UNORDERED = "unordered"  # a time is unknown, or both are equal
  EXPIRED = "expired"  # newer, but its own validity had ended before the entry


class Step(NamedTuple):
  """Why a claim has its label: for tests and tables, never for a policy."""

  slot: tuple[str, str]  # quad id, person
  item: str
  relation: Relation
  reliability: float
  hedged: bool
  order: Order
  twin: bool  # the same item waits in Pending

  @property
  def strong(self) -> bool:
    """Whether the claim stands in the trusted column of the label table."""
    return self.reliability > TRUSTED and not self.hedged


def decide(step: Step, rival_reliability: float | None) -> Action | None:
  """The label of a claim by the table in DATA.md; None where the table gives none.

  Args:
    step: relation, true reliability, hedge and order of the claim.
    rival_reliability: of the entry it touches, None without one.
  """
  strong = step.strong
  if step.relation in (Relation.NOTHING, Relation.SAME):
    return Action.NOOP
  if step.relation == Relation.AMBIGUOUS:
    return Action.DEFER_VERIFY
  if step.relation != Relation.OTHER or rival_reliability is None:
    action: Action | None = Action.APPEND if strong else Action.DEFER_VERIFY
  else:
    gap = rival_reliability - step.reliability
    action = _decide_conflict(strong, gap, step.order)
  if not step.twin:
    return action
  if strong:  # a confirmation; one that cannot enter is left out
    return action if action in (Action.APPEND, Action.REVISE) else None
  return Action.NOOP if step.order == Order.NEWER else None


def _decide_conflict(strong: bool, gap: float, order: Order) -> Action | None:
  comparable = gap <= COMPARABLE
  if order in (Order.OLDER, Order.EXPIRED):
    return Action.REJECT_CONFLICT
  if order == Order.UNORDERED:
    return Action.DEFER_VERIFY if strong or comparable else None
  if strong:
    return Action.REVISE
  if comparable:
    return Action.DEFER_VERIFY
  return Action.REJECT_CONFLICT if gap > CLEARLY_LESS else None
