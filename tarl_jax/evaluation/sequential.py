"""Autoregressive evaluation: a policy rolled out over whole streams beside gold (SPEC 2, 6).

Owns the comparison of the two memories, kept up to date in O(1) a step inside the scan, and
the curves that come of it. Sums and counts are added up over streams and divided once, on the
host. Knows neither how a decision is made nor how a stream was prepared.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tarl_jax import ledgers
from tarl_jax.data.moments import Capacities, gold_transactions, initial_state
from tarl_jax.data.neighbours import NeighbourTable, chunks, stack_claims
from tarl_jax.data.record import Stream
from tarl_jax.errors import InputError
from tarl_jax.policy_rollout import (
  Carry,
  ChooseFn,
  Event,
  Look,
  Report,
  make_rollout,
  run_chunks,
)
from tarl_jax.rollout import Transactions
from tarl_jax.tracking import (
  LEDGER,
  SLOT,
  STATUS,
  Executed,
  TrackedMemory,
  places_of,
  track,
  transact,
)
from tarl_jax.types import NO_CLAIM, LedgerId, Status, TransitionInfo

CHUNK = 512  # steps that one call runs at most
BATCH = 8  # streams side by side
_SHORTEST = 64  # chunks and claim tables are this times a power of two, so that few compile

# Columns of `find_faults`.
MISPLACED, POLLUTED, CONTRADICTION = range(3)


class Beside(NamedTuple):
  """Gold's memory beside the policy's, and what is wrong with each claim of the policy's."""

  gold: TrackedMemory
  faults: jax.Array  # int32 [N, 3], 0 or 1 each
  totals: jax.Array  # int32 [3], their sums over the claims


class Trace(NamedTuple):
  """The comparison after a step; leaves [T] when stacked."""

  misplaced: Any  # int32 [], claims in the wrong place, status or link; 0 for the gold state
  polluted: Any  # int32 [], claims in Accepted that gold does not hold there
  contradictions: Any  # int32 [], claims in Accepted that gold has superseded or rejected
  accepted: Any  # int32 [], claims in Accepted
  decision_wrong: Any  # bool [], the claim, or what it settles, did not go where gold's did
  has_target: Any  # bool [], gold names a target that it holds in Accepted or Pending
  target_seen: Any  # bool [], ... and it was in sight
  exact: Any  # bool [], retrieval was
  refused: Any  # bool [], the transaction or its settling
  evicted: Any  # int32 [], rows that left the policy's History
  gold_refused: Any  # bool [], gold's transaction or its settling


def start_beside(state) -> Beside:
  """Gold's side at the start: the same empty memory, nothing wrong."""
  return Beside(
    gold=track(state),
    faults=jnp.zeros((state.num_claims, 3), jnp.int32),
    totals=jnp.zeros(3, jnp.int32),
  )


def find_faults(places: jax.Array, gold: jax.Array) -> jax.Array:
  """What is wrong with claims at `places` that belong at `gold`, int32 [n, 4] each.

  Returns:
    int32 [n, 3] of 0 and 1 by MISPLACED, POLLUTED, CONTRADICTION.
  """
  held = places[:, LEDGER] == LedgerId.ACCEPTED
  wrong = jnp.any(places[:, :SLOT] != gold[:, :SLOT], axis=1)
  refuted = (gold[:, STATUS] == Status.SUPERSEDED) | (gold[:, STATUS] == Status.REJECTED)
  polluted = held & (gold[:, LEDGER] != LedgerId.ACCEPTED)
  return jnp.stack([wrong, polluted, held & refuted], axis=1).astype(jnp.int32)


def _update(memory: TrackedMemory, beside: Beside, gold: TrackedMemory, touched: jax.Array):
  """`beside` after a step in which the `touched` claims, int32 [n], may have moved; O(n^2)."""
  num_claims = beside.faults.shape[0]
  known = (touched >= 0) & (touched < num_claims)
  before = beside.faults.at[touched].get(mode="clip")
  faults = find_faults(places_of(memory, touched), places_of(gold, touched))
  faults = jnp.where(known[:, None], faults, before)
  first = jnp.argmax(touched[:, None] == touched[None], axis=1) == jnp.arange(len(touched))
  change = jnp.where((known & first)[:, None], faults - before, 0)
  return Beside(
    gold=gold,
    faults=beside.faults.at[touched].set(faults, mode="drop"),
    totals=beside.totals + jnp.sum(change, axis=0, dtype=jnp.int32),
  )


def _refused(info: TransitionInfo, settled: TransitionInfo) -> jax.Array:
  return info.invalid | (info.overflow != LedgerId.NONE) | settled.invalid


def _done(transaction: Transactions, executed: Executed) -> jax.Array:
  """(claim that was settled, what it became), int32 [2]; NO_CLAIM and 0 where none was."""
  done = (transaction.resolves != NO_CLAIM) & ~executed.settled.invalid
  settled = jnp.stack([transaction.resolves, transaction.outcome])
  return jnp.where(done, settled, jnp.array([NO_CLAIM, 0], jnp.int32))


def follow_gold(
  memory: TrackedMemory, beside: Beside, event: Event
) -> tuple[TrackedMemory, Beside, Trace]:
  """The `after_fn` that executes gold beside the policy and compares; the memory is unchanged.

  `event.given` is gold's transaction, a noop at padding.
  """
  gold, right = transact(beside.gold, event.given, event.step)
  executed = event.executed
  beside = _update(memory, beside, gold, jnp.concatenate([executed.touched, right.touched]))
  here = places_of(memory, event.claim_id[None])[0, :SLOT]
  there = places_of(gold, event.claim_id[None])[0, :SLOT]
  settles_wrong = jnp.any(_done(event.transaction, executed) != _done(event.given, right))
  has_target = right.target[LEDGER] < LedgerId.HISTORY
  evicted = jnp.stack([executed.info.evicted.claim_id, executed.settled.evicted.claim_id])
  trace = Trace(
    misplaced=beside.totals[MISPLACED],
    polluted=beside.totals[POLLUTED],
    contradictions=beside.totals[CONTRADICTION],
    accepted=ledgers.count(memory.state.accepted),
    decision_wrong=jnp.any(here != there) | settles_wrong,
    has_target=has_target,
    target_seen=has_target & jnp.any(event.seen.entries == event.given.target),
    exact=event.seen.exact,
    refused=_refused(executed.info, executed.settled),
    evicted=jnp.sum(evicted != NO_CLAIM, dtype=jnp.int32),
    gold_refused=_refused(right.info, right.settled),
  )
  return memory, beside, trace


def make_runner(choose_fn: ChooseFn, num_visible: int) -> Callable[..., tuple[Carry, Report]]:
  """The compiled rollout beside gold of a batch of streams; parameters are shared.

  One runner serves every seed and every stream: it compiles once for each shape.
  """
  run = make_rollout(choose_fn, num_visible, follow_gold)
  return jax.jit(jax.vmap(run, in_axes=(None, 0, 0, 0, 0)))


def roll_out(
  runner: Callable[..., tuple[Carry, Report]],
  params: Any,
  streams: Sequence[Stream],
  tables: Sequence[NeighbourTable],
  capacities: Capacities,
) -> list[Trace]:
  """The trace of every stream, NumPy [T] each, in the order of `streams`.

  Streams of like length run side by side, in chunks of CHUNK steps at most.

  Args:
    runner: of `make_runner`.
    params: for its `choose_fn`.
    streams: with gold.
    tables: their neighbour tables, of one width.
    capacities: of both memories.

  Raises:
    InputError: if a gold transaction is missing or was refused, naming the stream.
  """
  traces: dict[int, Trace] = {}
  order = sorted(range(len(streams)), key=lambda i: -len(streams[i].claims))
  for start in range(0, len(order), BATCH):
    batch = order[start : start + BATCH]
    filled = [*batch, *[batch[-1]] * (BATCH - len(batch))]  # one batch size, one compilation
    stacked = _roll_out_batch(
      runner, params, [streams[i] for i in filled], [tables[i] for i in filled], capacities
    )
    for row, i in enumerate(batch):
      length = len(streams[i].claims)
      traces[i] = jax.tree.map(lambda leaf, row=row, n=length: leaf[row, :n], stacked)
      _check_gold(streams[i], traces[i])
  return [traces[i] for i in range(len(streams))]


def _roll_out_batch(runner, params, streams, tables, capacities: Capacities) -> Trace:
  """Traces of streams side by side, leaves [B, padded T]."""
  longest = max(table.length for table in tables)
  padded = _SHORTEST
  while padded < longest:
    padded *= 2
  state = initial_state(capacities, padded)
  one = Carry(track(state), start_beside(state))
  carry = jax.tree.map(lambda leaf: jnp.tile(leaf[None], (len(tables),) + (1,) * leaf.ndim), one)
  claims = jax.tree.map(jnp.asarray, stack_claims(tables, padded))
  gold = jax.tree.map(
    lambda *rows: np.stack(rows), *[gold_transactions(stream, padded) for stream in streams]
  )
  pieces = _with_gold(tables, gold, min(padded, CHUNK))
  _, report = run_chunks(runner, params, claims, carry, pieces, axis=1)
  return report.after


def _with_gold(
  tables: Sequence[NeighbourTable], gold: Transactions, size: int
) -> Iterator[tuple[Look, Transactions]]:
  for number, looks in enumerate(chunks(tables, size)):
    steps = slice(number * size, (number + 1) * size)
    yield looks, jax.tree.map(lambda leaf, steps=steps: leaf[:, steps], gold)


def _check_gold(stream: Stream, trace: Trace) -> None:
  refused = int(np.sum(trace.gold_refused))
  if refused:
    raise InputError(
      f"stream {stream.stream_id}: {refused} gold transactions were refused; raise "
      "config.data.capacities or split the stream."
    )
