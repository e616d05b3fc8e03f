"""What a generated stream tells next: the plan of claims and the kinds a split keeps back.

Owns the weights of the plan, the kinds held out for val and test, and the share of conflicts.
Knows no fact, no wording and no label rule.
"""

import random
from collections.abc import Iterator
from typing import NamedTuple

from tarl_jax.errors import InputError
from tarl_jax.types import Action

_TRIES = 8
_PULL = 0.1  # how hard a stream is drawn back to its share of conflicts, per conflict owed
MAX_CONFLICT_RATE = 0.6

# What is stated, and a weight for every wanted action in label order. The values of a slot
# ("fact", "change", "negation") get all five actions; the sentences beside it only three.
_PLAN = (
  ("fact", (3.0, 6.0, 6.0, 6.2, 4.4)),
  ("change", (3.0, 3.5, 9.8, 9.8, 5.3)),
  ("negation", (0.8, 1.0, 4.0, 4.0, 2.0)),
  ("addition", (5.0, 2.0, 0.0, 0.0, 2.3)),
  ("past", (2.0, 0.8, 0.0, 0.0, 1.3)),
  ("bounded", (1.0, 0.5, 0.0, 0.0, 0.7)),
  ("conditional", (1.5, 0.5, 0.0, 0.0, 1.0)),
  ("nothing", (0.0, 5.0, 0.0, 0.0, 0.0)),
  ("composite", (0.0, 1.5, 0.0, 0.0, 0.0)),
  ("namesake", (0.0, 0.0, 0.0, 0.0, 4.0)),
)
_VALUES = ("fact", "change", "negation")
_CONFLICT = (Action.REVISE, Action.REJECT_CONFLICT)

# Kinds of a different nature each. In val: several statements in one claim; what holds under
# a condition. In test: orders injected into a text; a validity that is over; two people of
# one name. All of a nature goes together: a half that stays in training would teach that the
# other half never occurs.
_RESERVED = {
  "train": frozenset[str](),
  "val": frozenset(
    "composite_change composite_repeat partial_change "
    "conditional weak_conditional hedged_conditional".split()
  ),
  "test": frozenset(
    "injected_conflict injected_command expired_conflict same_name namesake_intro".split()
  ),
}
# The part of the plan that a kind is all of.
_PART = {"composite_repeat": "composite", "conditional": "conditional", "same_name": "namesake"}


def reserved_kinds(split: str) -> frozenset[str]:
  """Values of `gold.kind` that no split tells before `split`, in the order train, val, test.

  Empty for "train". Those of "val" also occur in test streams, those of "test" nowhere else;
  no training stream has either, unless it was generated with `all_kinds`.
  """
  return _RESERVED[split]


def withheld_kinds(split: str) -> frozenset[str]:
  """Values of `gold.kind` that a stream of `split` never tells."""
  names = tuple(_RESERVED)
  later = names[names.index(split) + 1 :]
  return frozenset(kind for name in later for kind in _RESERVED[name])


def check_rate(conflict_rate: float | None) -> None:
  """Stops at a share of conflicts that no stream can have."""
  if conflict_rate is not None and not 0.0 <= conflict_rate <= MAX_CONFLICT_RATE:
    raise InputError(
      f"conflict_rate: expected a share from 0 to {MAX_CONFLICT_RATE}, found {conflict_rate}."
    )


class Wish(NamedTuple):
  """A claim to tell. `conflict`: whether it states another value for a live slot; None where
  either will do."""

  what: str
  action: Action
  conflict: bool | None


class Plan:
  """Draws wishes for one stream and keeps its share of conflicts."""

  def __init__(
    self, rng: random.Random, withheld: frozenset[str], conflict_rate: float | None = None
  ):
    self._rng, self._rate = rng, conflict_rate
    left_out = {part for kind, part in _PART.items() if kind in withheld}
    plan = [
      (what, action, weights[action])
      for what, weights in _PLAN
      for action in Action
      if weights[action] and what not in left_out
    ]
    values = [row for row in plan if row[0] in _VALUES]
    # By the wish for a conflict: the rows that can be one, and those that need not be.
    self._rows = {
      None: plan,
      True: [row for row in values if row[1] in (*_CONFLICT, Action.DEFER_VERIFY)],
      False: [row for row in plan if row[1] not in _CONFLICT],
    }
    self._owed = 0.0  # conflicts that the claims so far should have had, less those they had

  def wishes(self) -> Iterator[Wish]:
    """Wishes for the next claim in the order to try them."""
    if self._rate is None:
      tries: tuple[bool | None, ...] = (None,)
    else:
      due = self._rng.random() < self._rate + _PULL * self._owed
      tries = (True, False) if due else (False,)
    for conflict in tries:
      rows = self._rows[conflict]
      weights = [row[2] for row in rows]
      for _ in range(_TRIES):
        what, action, _ = self._rng.choices(rows, weights)[0]
        yield Wish(what, action, conflict)

  def told(self, conflict: bool) -> None:
    """Takes over that a claim was told, and whether it was a conflict."""
    self._owed += (self._rate or 0.0) - conflict
