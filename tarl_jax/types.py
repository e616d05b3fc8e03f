"""What the memory is made of: actions, statuses, ledgers, claims and their pytrees.

Owns the names and the layout; knows no rule. The rules are in `ledgers.py` (one ledger),
`actions.py` (the five transitions), `settling.py` (Pending claims that a step settles) and
`quality.py` (comparison of states).

Axis legend: B batch, T steps of a stream, K slots of a ledger (K_A, K_P, K_H for
Accepted, Pending and History), V visible slots, N claims of a claim table, D embedding,
A = 5 actions.
"""

import enum
from typing import Any, NamedTuple

import flax.struct
import jax
import numpy as np

# A jax.Array on the device or an np.ndarray on the host: they share no static type.
Array = Any


class Action(enum.IntEnum):
  """The five transactions in label order (SPEC 3)."""

  APPEND = 0
  NOOP = 1
  REVISE = 2
  REJECT_CONFLICT = 3
  DEFER_VERIFY = 4

  @property
  def label(self) -> str:
    """Name in files and tables, e.g. `reject_conflict`."""
    return self.name.lower()


NUM_ACTIONS = len(Action)
ACTION_LABELS = tuple(action.label for action in Action)


class LedgerId(enum.IntEnum):
  """Which ledger; NONE where no ledger is meant."""

  ACCEPTED = 0
  PENDING = 1
  HISTORY = 2
  NONE = 3


class Status(enum.IntEnum):
  """What a row is. EMPTY marks a free row; the last three belong to governance."""

  EMPTY = 0
  ACCEPTED = 1
  PENDING = 2
  SUPERSEDED = 3
  REJECTED = 4
  DEPRECATED = 5
  EXPIRED = 6
  ERASED = 7


# What a Pending claim becomes when it is settled, by the name of the outcome in files.
OUTCOMES = {"confirmed": Status.SUPERSEDED, "contradicted": Status.REJECTED}

# Out of range for every claim table, so that a scatter at it is dropped (never -1, which
# would write the last row).
NO_CLAIM = np.int32(2**31 - 1)

# Times are int32 minutes since 1970-01-01 UTC: seconds would end in 2038.
TIME_UNKNOWN = np.int32(-(2**31))
TIME_UNBOUNDED = np.int32(2**31 - 1)


class Row(NamedTuple):
  """One ledger row: every field int32 []. In this order the fields lie in `Ledger.rows`."""

  claim_id: jax.Array
  status: jax.Array
  link: jax.Array  # claim it replaced, was replaced by, or conflicts with; NO_CLAIM if none
  step: jax.Array  # step of the stream at which the row was written; ~step (negative) in a
  # History row that expired out of Pending, so that it can go back there


class Ledger(flax.struct.PyTreeNode, kw_only=True):
  """One fixed-capacity ledger. Free rows hold NO_CLAIM, EMPTY, NO_CLAIM, 0.

  The four fields share one array so that a write is one scatter; `Row(*ledger.rows)` names
  them. Live rows lie in the first slots. `written` counts them and is folded by K after the
  ring has wrapped (range 0 to 2K - 1), so it neither overflows nor forgets that it is full.
  """

  rows: jax.Array  # int32 [4, K], fields of Row by slot
  written: jax.Array  # int32 []

  @property
  def capacity(self) -> int:
    """Number of slots K."""
    return self.rows.shape[-1]

  @property
  def no_slot(self) -> int:
    """NO_SLOT, the index that means "no slot": the capacity, which a scatter drops."""
    return self.capacity

  @property
  def claim_id(self) -> jax.Array:
    """int32 [K], NO_CLAIM where free."""
    return self.rows[..., 0, :]

  @property
  def status(self) -> jax.Array:
    """int32 [K], a Status."""
    return self.rows[..., 1, :]

  @property
  def link(self) -> jax.Array:
    """int32 [K], a claim id or NO_CLAIM."""
    return self.rows[..., 2, :]

  @property
  def step(self) -> jax.Array:
    """int32 [K], step at which the row was written."""
    return self.rows[..., 3, :]

  @property
  def valid(self) -> jax.Array:
    """bool [K], true where a row is live."""
    return self.claim_id != NO_CLAIM


class MemoryState(flax.struct.PyTreeNode, kw_only=True):
  """The three ledgers (SPEC 2), and which claims of the table have entered one."""

  accepted: Ledger
  pending: Ledger
  history: Ledger
  entered: jax.Array  # bool [N]; a claim that is in a ledger, or left History, is no new one

  @property
  def num_claims(self) -> int:
    """Size N of the claim table; claim ids run from 0 to N - 1."""
    return self.entered.shape[-1]


class Claim(NamedTuple):
  """What the executor must know of the incoming claim; all else is in the claim table."""

  claim_id: jax.Array  # int32 []
  step: jax.Array  # int32 []


class Settling(NamedTuple):
  """Which Pending claim a step settles beside its action, and how."""

  slot: Array  # int32 []: Pending slot, NO_SLOT where nothing is settled
  status: Array  # int32 []: a Status of OUTCOMES; means nothing where nothing is settled


class TransitionInfo(NamedTuple):
  """What a transition reports beside the next state; nothing of it feeds back."""

  invalid: jax.Array  # bool []: no live target where one is needed, a bad action or claim id
  overflow: jax.Array  # int32 []: LedgerId of the full ledger that refused, else NONE
  evicted: Row  # the History row that left to make room; claim_id is NO_CLAIM if none
