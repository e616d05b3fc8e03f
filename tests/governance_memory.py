"""Memories for governance tests, written down row by row; no transition is needed to get one."""

import jax
import jax.numpy as jnp
import numpy as np

from tarl_jax import governance_plan
from tarl_jax.types import NO_CLAIM, TIME_UNBOUNDED, TIME_UNKNOWN, Ledger, MemoryState, Status
from tarl_jax.worth import Worth

SIZES = (7, 2, 4)  # one for all worked examples, so that each transition is compiled once
NUM_CLAIMS = 30
STRATA = 2
FREE = (NO_CLAIM, 0, NO_CLAIM, 0)

ALL = jnp.asarray([True] * SIZES[0])

is_due = jax.jit(governance_plan.is_due, static_argnums=2)


def ledger_of(capacity: int, rows: list[tuple]) -> Ledger:
  """A ledger with the rows (claim, status, link, step) in its first slots."""
  padded = [*rows, *[FREE] * (capacity - len(rows))]
  return Ledger(rows=jnp.asarray(np.asarray(padded, np.int32).T), written=jnp.int32(len(rows)))


def memory_of(
  accepted: list[int | tuple] = (),
  pending: list[tuple] = (),
  history: list[tuple] = (),
  sizes: tuple[int, int, int] = SIZES,
) -> MemoryState:
  """Rows as above; an Accepted one may be its claim alone."""
  entries = [
    row if isinstance(row, tuple) else (row, int(Status.ACCEPTED), NO_CLAIM, 0) for row in accepted
  ]
  return MemoryState(
    accepted=ledger_of(sizes[0], entries),
    pending=ledger_of(sizes[1], list(pending)),
    history=ledger_of(sizes[2], list(history)),
    entered=marks(*[row[0] for row in (*entries, *pending, *history)]),
  )


def worth_of(state: MemoryState, counts: dict[int, tuple]) -> Worth:
  """Counters of claims in Accepted or History: (success, failure) in the first of two task
  strata, or one pair a stratum."""
  tables = []
  for ledger in (state.accepted, state.history):
    table = np.zeros((ledger.capacity, STRATA, 3), np.float32)
    for slot, claim in enumerate(np.asarray(ledger.rows)[0].tolist()):
      pairs = np.reshape(counts.get(claim, (0, 0)), (-1, 2))
      table[slot, : len(pairs), :2] = pairs
    tables.append(jnp.asarray(table))
  last, past_id = jnp.asarray(TIME_UNKNOWN), jnp.asarray(np.asarray(state.history.rows)[0])
  return Worth(live=tables[0], past=tables[1], past_id=past_id, last=last)


def counts_of(state: MemoryState, counters: Worth) -> dict[int, tuple]:
  """(success, failure) by claim, summed over strata, for claims in Accepted and History."""
  found = {}
  for ledger, table in ((state.accepted, counters.live), (state.history, counters.past)):
    sums = np.asarray(table).sum(1)[:, :2].tolist()
    ids = np.asarray(ledger.rows)[0].tolist()
    found |= {claim: tuple(pair) for claim, pair in zip(ids, sums) if claim != NO_CLAIM}
  return found


def rows_of(ledger: Ledger) -> list[tuple]:
  """Live rows as plain tuples, by slot."""
  return [row for row in map(tuple, np.asarray(ledger.rows).T.tolist()) if row != FREE]


def claims_of(ledger: Ledger) -> list[int]:
  return [row[0] for row in rows_of(ledger)]


def places_of(state: MemoryState) -> dict[int, tuple]:
  """Claim to (ledger, status, link)."""
  parts = (state.accepted, state.pending, state.history)
  return {row[0]: (part, *row[1:3]) for part, ledger in enumerate(parts) for row in rows_of(ledger)}


def marks(*claims: int) -> jnp.ndarray:
  """bool [N], true for the claims."""
  return jnp.asarray([claim in claims for claim in range(NUM_CLAIMS)])


def times(default: int = int(TIME_UNBOUNDED), **by_claim: int) -> jnp.ndarray:
  """int32 [N] minutes: c3=20 for claim 3."""
  table = np.full(NUM_CLAIMS, default, np.int32)
  for name, minutes in by_claim.items():
    table[int(name[1:])] = minutes
  return jnp.asarray(table)
