"""The memory of SPEC 2 and 3 in plain Python lists, written from the text; imports no JAX.

A row is the tuple (claim_id, status, link, step). A ledger is the list of what its slots
hold, EMPTY_ROW where free, and the number of rows ever put in, less those taken out.
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

  def take(self, slot: int) -> tuple:
    """Takes the row out of a ledger that is no ring; the last row moves into its place."""
    row, last = self.slots[slot], self.total - 1
    self.slots[slot] = self.slots[last]
    self.slots[last] = EMPTY_ROW
    self.total -= 1
    return row

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

  def settle(self, claim_id: int, slot: int, status: int, step: int) -> tuple[bool, tuple]:
    """Settles a Pending claim in place; returns (invalid, row that left History)."""
    if slot == self.pending.capacity:
      return False, EMPTY_ROW
    live = 0 <= slot < self.pending.capacity and self.pending.slots[slot] != EMPTY_ROW
    held = claim_id in [row[0] for row in self.accepted.rows()]
    if not live or not held or status not in (SUPERSEDED, REJECTED):
      return True, EMPTY_ROW
    waiting = self.pending.take(slot)[0]
    return False, self.history.put((waiting, status, claim_id, step))

  def transact(
    self, action: int, slot: int, claim_id: int, step: int, pending_slot: int, status: int
  ) -> tuple:
    """A whole step; returns what `execute` and what `settle` return, joined."""
    info = self.execute(action, slot, claim_id, step)
    if action in (APPEND, REVISE) and info[:2] == (False, LEDGER_NONE):
      return *info, *self.settle(claim_id, pending_slot, status, step)
    return *info, pending_slot != self.pending.capacity, EMPTY_ROW

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
