"""Governance of SPEC 7 in plain Python on top of `oracle.py`; imports no JAX.

Counters lie in a dict by claim: they are there while the claim is in Accepted or History,
so that "they follow their claim" needs no rule.
"""

import copy
import math

import oracle
from oracle import (
  DEFER_VERIFY,
  EMPTY_ROW,
  LEDGER_ACCEPTED,
  LEDGER_NONE,
  LEDGER_PENDING,
  NO_CLAIM,
  NOOP,
  SUPERSEDED,
)

DEPRECATED, EXPIRED = 5, 6
TIME_UNKNOWN, TIME_UNBOUNDED = -(2**31), 2**31 - 1


def beta_below(success: float, failure: float, threshold: float) -> float:
  """P(worth < threshold) under Beta(success + 1, failure + 1) with whole counts: the chance
  that of n = success + failure + 1 uniform draws more than `success` fall under it."""
  draws = round(success + failure) + 1
  return sum(
    math.comb(draws, k) * threshold**k * (1 - threshold) ** (draws - k)
    for k in range(round(success) + 1, draws + 1)
  )


class GovernedMemory(oracle.OracleMemory):
  """Each method returns (invalid, overflow, claims that left all ledgers)."""

  def __init__(self, accepted: int, pending: int, history: int, num_claims: int, strata: int):
    super().__init__(accepted, pending, history, num_claims)
    self.strata = strata
    self.counts: dict[int, list[list[float]]] = {}
    self.doubtful: set[int] = set()

  def snapshot(self) -> "GovernedMemory":
    """A copy that later operations leave as it is."""
    copied = copy.copy(self)
    copied.accepted, copied.pending, copied.history = map(copy.copy, self.ledgers())
    for ledger in copied.ledgers():
      ledger.slots = list(ledger.slots)
    copied.entered, copied.doubtful = bytearray(self.entered), set(self.doubtful)
    copied.counts = {claim: [list(cell) for cell in cells] for claim, cells in self.counts.items()}
    return copied

  def ids(self, ledger: oracle.OracleLedger) -> list[int]:
    return [row[0] for row in ledger.slots]

  def where(self, claim: int) -> int:
    for ledger_id, ledger in enumerate(self.ledgers()):
      if claim != NO_CLAIM and claim in self.ids(ledger):
        return ledger_id
    return LEDGER_NONE

  def file(self, row: tuple) -> list[int]:
    """Puts a row into History; returns the claim that left for it, if any."""
    self.counts.setdefault(row[0], self.zeros())
    gone = self.history.put(row)[0]
    self.counts.pop(gone, None)
    return [] if gone == NO_CLAIM else [gone]

  def zeros(self) -> list[list[float]]:
    return [[0.0, 0.0, 0.0] for _ in range(self.strata)]

  def after(self, result: tuple) -> tuple[bool, int, list[int]]:
    """Sees to the counters after `execute` or `transact` of the plain oracle."""
    invalid, overflow, *lefts = result
    gone = [row[0] for row in lefts if row != EMPTY_ROW]
    for claim in gone:
      self.counts.pop(claim, None)
    for claim in self.ids(self.accepted) + self.ids(self.history):
      if claim != NO_CLAIM:
        self.counts.setdefault(claim, self.zeros())
    return invalid, overflow, gone

  def record(self, slot: int, stratum: int, outcome: int, weight: int):
    claim = self.target(slot)
    if claim != NO_CLAIM and 0 <= stratum < self.strata and 0 <= outcome < 3:
      self.counts[claim][stratum][outcome] += weight
    return False, LEDGER_NONE, []

  def judged(self, claim: int) -> list[list[float]]:
    return [cell for cell in self.counts[claim] if cell[0] + cell[1] > 0]

  def under(self, claim: int, threshold: float, confidence: float) -> bool:
    cells = self.judged(claim)
    return bool(cells) and all(beta_below(s, f, threshold) >= confidence for s, f, _ in cells)

  def is_due(self, claim: int, settings) -> bool:
    evidence = sum(s + f for s, f, _ in self.counts[claim])
    enough = evidence >= settings.min_evidence
    return enough and self.under(claim, settings.low, settings.confidence)

  def standing(self, claim: int) -> float:
    return max(((s + 1) / (s + f + 2) for s, f, _ in self.judged(claim)), default=0.5)

  def move(self, claim: int, status: int, step: int) -> list[int]:
    """From Accepted or Pending to History."""
    if self.where(claim) == LEDGER_ACCEPTED:
      row, at = self.accepted.take(self.ids(self.accepted).index(claim)), step
    else:
      row, at = self.pending.take(self.ids(self.pending).index(claim)), -1 - step
    return self.file((claim, status, row[2], at))

  def deprecate(self, slot: int, step: int, protected: set[int], settings):
    claim = self.target(slot)
    if claim == NO_CLAIM or claim in protected or not self.is_due(claim, settings):
      return True, LEDGER_NONE, []
    return False, LEDGER_NONE, self.move(claim, DEPRECATED, step)

  def is_over(self, claim: int, valid_until: list[int], now: int) -> bool:
    end = valid_until[claim] if 0 <= claim < len(valid_until) else TIME_UNKNOWN
    return end not in (TIME_UNKNOWN, TIME_UNBOUNDED) and end <= now

  def expire(self, claim: int, step: int, valid_until: list[int], now: int):
    held = self.where(claim) in (LEDGER_ACCEPTED, LEDGER_PENDING)
    if not held or not self.is_over(claim, valid_until, now):
      return True, LEDGER_NONE, []
    return False, LEDGER_NONE, self.move(claim, EXPIRED, step)

  def reconsider(self, pending_slot: int, action: int, slot: int, step: int):
    live = 0 <= pending_slot < self.pending.capacity
    row = self.pending.slots[pending_slot] if live else EMPTY_ROW
    if row == EMPTY_ROW:
      return True, LEDGER_NONE, []
    if action == DEFER_VERIFY:
      return False, LEDGER_NONE, []
    if action == NOOP:
      self.pending.take(pending_slot)
      return False, LEDGER_NONE, self.file((row[0], SUPERSEDED, self.target(slot), step))
    self.entered[row[0]] = 0
    invalid, overflow, gone = self.after(self.execute(action, slot, row[0], step))
    self.entered[row[0]] = 1
    if not invalid and overflow == LEDGER_NONE:
      self.pending.take(pending_slot)
    return invalid, overflow, gone

  def restore(self, claim: int, step: int):
    rows = [row for row in self.history.rows() if row[0] == claim]
    if not rows or rows[0][1] not in (DEPRECATED, EXPIRED):
      return True, LEDGER_NONE, []
    _, _, link, filed = rows[0]
    home = self.pending if filed < 0 else self.accepted
    if home.full:
      return False, LEDGER_PENDING if filed < 0 else LEDGER_ACCEPTED, []
    self.remove({claim}, self.history)
    home.put((claim, oracle.PENDING if filed < 0 else oracle.ACCEPTED, link, step))
    if filed < 0:
      self.counts.pop(claim)
    return False, LEDGER_NONE, []

  def remove(self, claims: set[int], ledger: oracle.OracleLedger) -> int:
    """The rest moves together, the oldest first; nothing moves if nothing goes."""
    rows = ledger.rows()
    kept = [row for row in rows if row[0] not in claims]
    if len(kept) < len(rows):
      ledger.slots = kept + [EMPTY_ROW] * (ledger.capacity - len(kept))
      ledger.total = len(kept)
    return len(rows) - len(kept)

  def erase(self, claim: int, content_key: list[int]):
    if not 0 <= claim < len(self.entered):
      return True, LEDGER_NONE, []
    key = content_key[claim]
    claims = {claim} | {i for i, other in enumerate(content_key) if other == key and key >= 0}
    for ledger in self.ledgers():
      self.remove(claims, ledger)
      ledger.slots = [
        (row[0], row[1], NO_CLAIM if row[2] in claims else row[2], row[3]) for row in ledger.slots
      ]
    for one in claims:
      self.entered[one] = 1
      self.counts.pop(one, None)
    self.doubtful -= claims
    return False, LEDGER_NONE, []

  def govern(self, step: int, now: int, valid_until: list[int], protected: set[int], settings):
    """Reports how many wait to expire and for the budget, in place of refusals."""
    live = [row[0] for part in (self.accepted, self.pending) for row in part.rows()]
    over = [claim for claim in live if self.is_over(claim, valid_until, now)]
    over.sort(key=lambda claim: (valid_until[claim], -claim))
    entries = [row[0] for row in self.accepted.rows()]
    for claim in entries:
      if not self.under(claim, settings.high, settings.confidence):
        self.doubtful.discard(claim)
    gone = []
    for claim in over[: settings.expiries]:
      gone += self.move(claim, EXPIRED, step)
    exempt = protected | self.doubtful | set(over)
    due = [claim for claim in entries if claim not in exempt and self.is_due(claim, settings)]
    due.sort(key=lambda claim: (self.standing(claim), -claim))
    for claim in due[: settings.budget]:
      gone += self.move(claim, DEPRECATED, step)
      self.doubtful.add(claim)
    waiting = [max(len(over) - settings.expiries, 0), max(len(due) - settings.budget, 0)]
    return *waiting, gone
