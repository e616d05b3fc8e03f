"""Governance transitions, mixed with actions, settling and outcomes, against the oracle."""

import functools
import random

import governance_oracle
import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
from governance_memory import NUM_CLAIMS, STRATA, counts_of, marks, memory_of, rows_of, worth_of
from governance_oracle import GovernedMemory
from hypothesis import strategies as st

from tarl_jax import (
  by_claim,
  governance,
  governance_history,
  governance_plan,
  governance_step,
  settling,
  worth,
)
from tarl_jax.types import NO_CLAIM, Claim, LedgerId, MemoryState, Settling

SIZES = (3, 1, 3)  # so that ledgers fill, the ring wraps and a slot is the only one
STEPS, LANES = 60, 12
SETTINGS = governance_plan.Settings(
  low=0.4, high=0.45, confidence=0.7, min_evidence=2.0, budget=1, expiries=1
)
OPS = ("transact", "record", "deprecate", "expire", "reconsider", "restore", "erase", "govern")


class Table(dict):
  """What is known of the claims: valid_until, protected, content_key, as lists of N."""

  def arrays(self) -> dict[str, jax.Array]:
    kinds = {"valid_until": jnp.int32, "protected": bool, "content_key": jnp.int32}
    return {name: jnp.asarray(self[name], kind) for name, kind in kinds.items()}


def apply(memory: tuple, op: jax.Array, step: jax.Array, table: dict[str, jax.Array]):
  """(state, counters, doubtful) after one operation, what it refused or left waiting, int32
  [2], and the claims that left all ledgers, int32 [4]."""
  state, counts, doubtful = memory
  a, b, c, d, e = op[1:]
  until, protected, key = table["valid_until"], table["protected"], table["content_key"]
  due = governance_plan.is_due(counts, jnp.ones(SIZES[0], bool), SETTINGS)

  def simple(result):
    next_state, next_counts, info = result
    memory = (next_state, next_counts, doubtful)
    return memory, (info.invalid, info.overflow), info.left.claim_id

  def transact():
    after, info, settled = settling.transact(state, a, b, Claim(c, step), Settling(d, e))
    moved, _ = by_claim.follow_step(counts, state, after, b)
    gone = jnp.stack([info.evicted.claim_id, settled.evicted.claim_id])
    return (after, moved, doubtful), (info.invalid, info.overflow), gone

  def record():
    weight = d.astype(jnp.float32)[None]
    added = worth.record(counts, state, a[None], weight, b, c)
    return (state, added, doubtful), (False, LedgerId.NONE), []

  def erase():
    after, moved, info = governance_history.erase(state, counts, a, key)
    return (after, moved, doubtful & ~info.erased), (info.invalid, LedgerId.NONE), []

  def govern():
    *memory, info = governance_step.govern(
      state, counts, doubtful, step, a, until, protected, settings=SETTINGS
    )
    waiting = (info.waiting_to_expire, info.waiting_for_budget)
    return tuple(memory), waiting, info.filed.left.claim_id[:, 0]

  branches = {
    "transact": transact,
    "record": record,
    "deprecate": lambda: simple(governance.deprecate(state, counts, a, step, due, protected)),
    "expire": lambda: simple(governance.expire(state, counts, a, step, until, b)),
    "reconsider": lambda: simple(governance.reconsider(state, counts, a, b, c, step)),
    "restore": lambda: simple(governance_history.restore(state, counts, a, step)),
    "erase": erase,
    "govern": govern,
  }
  return jax.lax.switch(op[0], [aligned(branches[name]) for name in OPS])


def aligned(branch):
  """The branch with a report of the one form that `lax.switch` wants."""

  def run_branch():
    memory, refused, gone = branch()
    refused = jnp.stack([jnp.asarray(part, jnp.int32) for part in refused])
    gone = jnp.asarray(gone, jnp.int32)
    return memory, refused, jnp.pad(gone, (0, 4 - gone.shape[0]), constant_values=NO_CLAIM)

  return run_branch


# Unoptimised code: it runs once for each example, so that compiling it costs more.
@functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
@jax.vmap
def run(start: tuple, table: dict[str, jax.Array], ops: jax.Array):
  """A batch of memories through operations int32 [B, T, 6]: (state, counters, doubtful),
  refusals and leavers after each of them, leaves [B, T, ...]."""

  def step(memory, inputs):
    number, op = inputs
    memory, refused, gone = apply(memory, op, number, table)
    return memory, (memory, refused, gone)

  return jax.lax.scan(step, start, (jnp.arange(STEPS, dtype=jnp.int32), ops))[1]


def ask(memory: GovernedMemory, op: tuple, step: int, table: Table):
  """The same operation of the oracle."""
  name, (a, b, c, d, e) = OPS[op[0]], op[1:]
  protected = {claim for claim, flag in enumerate(table["protected"]) if flag}
  until = table["valid_until"]
  if name == "transact":
    invalid, overflow, left, _, other = memory.transact(a, b, c, step, d, e)
    return memory.after((invalid, overflow, left, other))
  if name == "record":
    return memory.record(a, b, c, d)
  if name == "deprecate":
    return memory.deprecate(a, step, protected, SETTINGS)
  if name == "expire":
    return memory.expire(a, step, until, b)
  if name == "reconsider":
    return memory.reconsider(a, b, c, step)
  if name == "restore":
    return memory.restore(a, step)
  if name == "erase":
    return memory.erase(a, table["content_key"])
  return memory.govern(step, a, until, protected, SETTINGS)


WILD = (-(2**31), -1, 1, 2, 3, NUM_CLAIMS, NUM_CLAIMS + 1, NO_CLAIM)


def random_table(rng: random.Random) -> Table:
  ends = (3, 5, 5, 8, governance_oracle.TIME_UNKNOWN, *[governance_oracle.TIME_UNBOUNDED] * 3)
  numbers = range(NUM_CLAIMS)
  return Table(
    valid_until=[rng.choice(ends) for _ in numbers],
    protected=[rng.random() < 0.15 for _ in numbers],
    content_key=[rng.choice((-1, -1, -2, 0, 1, 2, 3, 4)) for _ in numbers],
  )


def random_op(rng: random.Random, memory: GovernedMemory) -> tuple:
  """An operation with arguments that mostly mean something in the memory as it is."""
  name = rng.choices(OPS, weights=(9, 14, 3, 2, 3, 4, 1, 4))[0]
  fresh = [claim for claim, entered in enumerate(memory.entered) if not entered]
  held = [row[0] for part in (memory.accepted, memory.pending) for row in part.rows()]
  past = [row[0] for row in memory.history.rows()]
  slot, pending_slot = rng.randrange(SIZES[0]), rng.randrange(SIZES[1])
  action = rng.choices(range(5), weights=(5, 1, 2, 1, 3))[0]
  lowly = rng.choices(range(4), weights=(2, 12, 1, 1))[0]  # an outcome, mostly a failure

  def claim(pool: list[int]) -> int:
    return rng.choice(pool or list(range(NUM_CLAIMS)))

  settled = (pending_slot, rng.choice((3, 4))) if rng.random() < 0.4 else (SIZES[1], 0)
  parts = {
    "transact": (action, slot, claim(fresh), *settled),
    "record": (slot, rng.choice((0, 0, 0, 1)), lowly, rng.choice((1, 1, 2, 4))),
    "deprecate": (slot,),
    "expire": (claim(held), rng.randrange(10)),
    "reconsider": (pending_slot, action, slot),
    "restore": (claim(past),),
    "erase": (claim(held + past),),
    "govern": (rng.randrange(10),),
  }[name]
  mild = 3 if name == "record" else len(WILD)  # the weight of an outcome stays one
  parts = [
    rng.choice(WILD) if i != mild and rng.random() < 0.04 else p for i, p in enumerate(parts)
  ]
  return name, *parts


PROPERTY = hypothesis.settings(derandomize=True, deadline=None, max_examples=8)


def check_ledgers(state: MemoryState, memory: GovernedMemory):
  parts = (state.accepted, state.pending, state.history)
  for part, wanted in zip(parts, memory.ledgers()):
    assert list(map(tuple, part.rows.T.tolist())) == wanted.slots
    assert part.written == wanted.written
  assert bytes(state.entered) == bytes(memory.entered)


def check_counters(counts: worth.Worth, memory: GovernedMemory):
  for table, ledger in ((counts.live, memory.accepted), (counts.past, memory.history)):
    wanted = [memory.counts.get(row[0], memory.zeros()) for row in ledger.slots]
    assert table.tolist() == wanted


class Lane:
  """One memory of a batch with what happens to it, and the oracle's word on every step."""

  def __init__(self, state: MemoryState, counts: dict, table: Table):
    self.state, self.counts, self.table = state, worth_of(state, counts), table
    self.ops: list[tuple] = []
    self.memory = GovernedMemory(*SIZES, NUM_CLAIMS, STRATA)
    for part, wanted in zip((state.accepted, state.pending, state.history), self.memory.ledgers()):
      for row in rows_of(part):
        wanted.put(row)
        self.memory.entered[row[0]] = 1
    for claim, pair in counts_of(state, self.counts).items():
      self.memory.counts[claim] = [[*pair, 0.0], *self.memory.zeros()[1:]]
    self.expected: list[tuple] = []

  def do(self, name: str, *parts: int):
    op = (OPS.index(name), *parts, *[0] * (5 - len(parts)))
    self.expected.append((self.memory, ask(self.memory, op, len(self.ops), self.table)))
    self.ops.append(op)
    self.memory = self.memory.snapshot()

  def arrays(self) -> tuple:
    idle = (OPS.index("record"), 0, 0, 3, 0, 0)
    padded = self.ops + [idle] * (STEPS - len(self.ops))
    return (self.state, self.counts, marks()), self.table.arrays(), jnp.asarray(padded, jnp.int32)


def run_lanes(lanes: list[Lane]) -> list[tuple]:
  """What `run` gives for each lane, leaves [T, ...]; every step is compared with the oracle."""
  batch = [lanes[i % len(lanes)].arrays() for i in range(LANES)]
  found = jax.device_get(run(*jax.tree.map(lambda *leaves: jnp.stack(leaves), *batch)))
  traces = [jax.tree.map(lambda leaf: leaf[i], found) for i in range(len(lanes))]  # noqa: B023
  for lane, trace in zip(lanes, traces):
    for step, (oracle, (*refused, left)) in enumerate(lane.expected):
      (state, counts, doubtful), found_refused, gone = jax.tree.map(
        lambda leaf: leaf[step],  # noqa: B023
        trace,
      )
      said = (found_refused.tolist(), [claim for claim in gone.tolist() if claim != NO_CLAIM])
      assert said == (list(map(int, refused)), left), (lane.ops[: step + 1], step)
      check_ledgers(state, oracle)
      check_counters(counts, oracle)
      assert set(np.flatnonzero(doubtful).tolist()) == oracle.doubtful
  return traces


@PROPERTY
@hypothesis.given(st.integers(0, 2**32))
def test_every_state_equals_the_oracle(seed):
  rng, lanes = random.Random(seed), []
  for _ in range(LANES):
    lanes.append(Lane(memory_of(sizes=SIZES), {}, random_table(rng)))
    for _ in range(STEPS):
      name, *parts = random_op(rng, lanes[-1].memory)
      lanes[-1].do(name, *parts)
  run_lanes(lanes)
  for memory in (memory for lane in lanes for memory, _ in lane.expected):
    held = [row[0] for ledger in memory.ledgers() for row in ledger.rows()]
    assert len(held) == len(set(held))
