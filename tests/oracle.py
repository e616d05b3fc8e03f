"""The memory of SPEC 2 and 3 in plain Python lists, written from the text; imports no JAX.

A row is the tuple (claim_id, status, link, step). A ledger is the list of what its slots
hold, EMPTY_ROW where free, and the number of rows ever put in, which only rises.
"""

import random

NO_CLAIM = 2**31 - 1
EMPTY, ACCEPTED, PENDING, SUPERSEDED, REJECTED = range(5)
APPEND, NOOP, REVISE, REJECT_CONFLICT, DEFER_VERIFY = range(5)
LEDGER_ACCEPTED, LEDGER_PENDING, LEDGER_HISTORY, LEDGER_NONE = range(4)
EMPTY_ROW = (NO_CLAIM, EMPTY, NO_CLAIM, 0)


class OracleLedger:
  """Slots in order, the n-th row ever put in goes to slot n modulo the capacity."""

  def __init__(self, capacity: int):
    self.capacity = capacity
    self.slots = [EMPTY_ROW] * capacity
    self.total = 0

  @property
  def full(self) -> bool:
    return self.total >= self.capacity

  @property
  def written(self) -> int:
    """The counter of the array form, which is folded so that a full ledger stays full."""
    return self.total if not self.full else self.capacity + self.total % self.capacity

  def put(self, row: tuple) -> tuple:
    """Puts the row in and returns what the slot held."""
    slot = self.total % self.capacity
    left = self.slots[slot]
    self.slots[slot] = row
    self.total += 1
    return left

  def rows(self) -> list[tuple]:
    """Live rows, the oldest first."""
    start = self.total % self.capacity if self.full else 0
    order = self.slots[start:] + self.slots[:start]
    return [row for row in order if row != EMPTY_ROW]


class OracleMemory:
  """Three ledgers and the set of claims that ever entered one."""

  def __init__(self, accepted: int, pending: int, history: int, num_claims: int):
    self.accepted = OracleLedger(accepted)
    self.pending = OracleLedger(pending)
    self.history = OracleLedger(history)
    self.entered = bytearray(num_claims)

  def ledgers(self) -> tuple[OracleLedger, OracleLedger, OracleLedger]:
    return self.accepted, self.pending, self.history

  def target(self, slot: int) -> int:
    """Claim in an Accepted slot; NO_CLAIM for a dead slot and for one out of range."""
    return self.accepted.slots[slot][0] if 0 <= slot < self.accepted.capacity else NO_CLAIM

  def execute(self, action: int, slot: int, claim_id: int, step: int) -> tuple[bool, int, tuple]:
    """One transition in place; returns (invalid, ledger that overflowed, row that left)."""
    if action == NOOP:
      return False, LEDGER_NONE, EMPTY_ROW
    known = 0 <= action <= 4 and 0 <= claim_id < len(self.entered)
    if not known or self.entered[claim_id]:
      return True, LEDGER_NONE, EMPTY_ROW
    target = self.target(slot)
    if action in (REVISE, REJECT_CONFLICT) and target == NO_CLAIM:
      return True, LEDGER_NONE, EMPTY_ROW
    if action == APPEND and self.accepted.full:
      return False, LEDGER_ACCEPTED, EMPTY_ROW
    if action == DEFER_VERIFY and self.pending.full:
      return False, LEDGER_PENDING, EMPTY_ROW
    self.entered[claim_id] = 1
    left = EMPTY_ROW
    if action == APPEND:
      self.accepted.put((claim_id, ACCEPTED, NO_CLAIM, step))
    elif action == REVISE:
      self.accepted.slots[slot] = (claim_id, ACCEPTED, target, step)
      left = self.history.put((target, SUPERSEDED, claim_id, step))
    elif action == REJECT_CONFLICT:
      left = self.history.put((claim_id, REJECTED, target, step))
    else:
      self.pending.put((claim_id, PENDING, target, step))
    return False, LEDGER_NONE, left

  def location_map(self) -> dict[int, tuple[int, int, int]]:
    """Claim id to (ledger, status, link), for the claims that are in a ledger."""
    return {
      claim_id: (ledger_id, status, link)
      for ledger_id, ledger in enumerate(self.ledgers())
      for claim_id, status, link, _ in ledger.rows()
    }


def random_transaction(rng: random.Random, capacity: int, num_claims: int, step: int) -> tuple:
  """(action, slot, claim id), anything that an int32 can be but mostly near the live range."""
  action, slot, claim_id = int(rng.random() * 5), int(rng.random() * capacity), step % num_claims
  luck = rng.random()
  if luck < 0.05:
    action = rng.choice((-(2**31), -1, 5, 6, 2**31 - 1))
  elif luck < 0.15:
    slot = rng.choice((-(2**31), -capacity, -2, -1, capacity, capacity + 1, 2**31 - 1))
  elif luck < 0.20:
    claim_id = rng.choice((-(2**31), -1, num_claims, num_claims + 1, NO_CLAIM))
  elif luck < 0.30:
    claim_id = int(rng.random() * num_claims)
  return action, slot, claim_id
