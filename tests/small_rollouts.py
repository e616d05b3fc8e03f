"""Streams with repeated texts, their tables, and transactions of every kind along them."""

import dataclasses
import functools
import random
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import oracle
from small_streams import random_stream, rows_of_pairs, texts_of

from tarl_jax.data.moments import Capacities, gold_transactions, initial_state
from tarl_jax.data.neighbours import NeighbourTable, build_table, chunks, stack_claims
from tarl_jax.data.record import Stream
from tarl_jax.inputs import PolicyInputs, valid_entries
from tarl_jax.models.policy import Policy, PolicyOutput, executable
from tarl_jax.policy_rollout import Carry, ClaimFeatures, Look, choose_by_policy, make_rollout
from tarl_jax.rollout import Transactions
from tarl_jax.tracking import NOWHERE, track
from tarl_jax.types import NO_CLAIM, Action, Status

V = 4
LENGTH, WIDTH = 24, 40  # claims of most streams, neighbours of their tables
PADDED = 64  # steps, and claims of the table: what `stream_moments` pads to as well
# Gold of the seeds below fits in, so that one compilation serves it and what does not.
CAPACITIES = Capacities(accepted=7, pending=5, history=2)
SEEDS = (0, 2, 4, 5)


def repeating_stream(seed: int, length: int = LENGTH, name: str = "s") -> Stream:
  """A random stream in which every text occurs about three times, so that similarities tie."""
  whole = random_stream(seed, length, name)
  rng = random.Random(seed)
  texts = [f"{name} text {rng.randrange(1 + length // 3)}" for _ in whole.claims]
  claims = [dataclasses.replace(c, text=text) for c, text in zip(whole.claims, texts)]
  return dataclasses.replace(whole, claims=tuple(claims))


def table_of(stream: Stream, width: int = WIDTH) -> NeighbourTable:
  return build_table(stream, texts_of(stream), rows_of_pairs, width)


def looks_of(table: NeighbourTable) -> Look:
  """All steps of one stream, padded to PADDED."""
  (looks,) = chunks([table], PADDED)
  return jax.tree.map(lambda leaf: leaf[0], looks)


def narrowed(looks: Look, width: int) -> Look:
  """What a table of `width` neighbours holds, in arrays of the same shape."""
  hidden = np.arange(looks.neighbours.shape[1]) >= width
  return looks._replace(
    neighbours=np.where(hidden, NO_CLAIM, looks.neighbours),
    similarity=np.where(hidden, np.float32(-np.inf), looks.similarity),
    beyond=looks.similarity[:, width],
  )


def claims_of(table: NeighbourTable) -> ClaimFeatures:
  return jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), stack_claims([table], PADDED))


def start() -> Carry:
  """An empty memory, and a count of the claims that have come."""
  return Carry(track(initial_state(CAPACITIES, PADDED)), jnp.int32(0))


def show_and_forget(memory, count, event):
  """Reports the memory after the step and what was touched; loses the claim if so asked."""
  lost = jnp.where(event.given.forget, event.claim_id, PADDED)
  where = memory.where.at[lost].set(jnp.asarray(NOWHERE), mode="drop")
  count += event.claim_id != NO_CLAIM
  memory = memory.replace(where=where)
  return memory, count, (memory, event.executed.touched)


def _apply(weight: jax.Array, inputs: PolicyInputs, key=None) -> PolicyOutput:
  """Formulas that read what a network reads, and change their mind from step to step."""
  del key
  scores = weight * (inputs.entries @ inputs.candidate) + inputs.pair_source[:, 0]
  visible = jnp.append(valid_entries(inputs), True)
  turn = jnp.sin(25 * inputs.candidate[0] + inputs.num_visible + 2.6 * jnp.arange(len(Action)))
  return PolicyOutput(
    action_logits=jnp.where(executable(inputs.num_accepted), 9 * turn, -1e4),
    log_alpha=jax.nn.log_softmax(jnp.where(visible, jnp.append(scores, 0.3), -jnp.inf)),
    reliability=jnp.stack([inputs.source[0], jnp.max(inputs.entry_source[:, 0])]),
    scope_logits=inputs.claim_signals[:4],
    relation_logits=4 * jnp.sin(inputs.pair_signals[:, -1:] * jnp.arange(1.0, 4.0)[None]),
  )


POLICY = Policy(init=lambda key: jnp.float32(2.0), apply=_apply)
PARAMS = (jnp.float32(2.0), jnp.float32(0.7))  # with a temperature


class Given(NamedTuple):
  """What the compiled rollout below is told at a step."""

  transaction: Transactions
  by_policy: Any  # bool []: let the policy decide instead
  forget: Any  # bool []: lose the claim afterwards


def choose(params, seen, given: Given):
  """What is given or what the policy decides; reports what was in sight and the decision."""
  decided, said = choose_by_policy(POLICY)(params, seen, None)
  pick = lambda ours, theirs: jnp.where(given.by_policy, theirs, ours)  # noqa: E731
  return jax.tree.map(pick, given.transaction, decided), (seen, said)


# One function for every test of the rollout: it takes seconds to compile.
RUN = make_rollout(choose, V, show_and_forget)


def arguments(looks: Look, transactions=None, *, claims=None, carry=None, forget_at=-1) -> tuple:
  """Of RUN; the policy decides where no transactions are given."""
  by_policy = np.full(PADDED, transactions is None)
  if transactions is None:
    transactions = gold_transactions(repeating_stream(0), PADDED)
  given = Given(transactions, by_policy, np.arange(PADDED) == forget_at)
  claims = claims_of(table_of(repeating_stream(0))) if claims is None else claims
  return PARAMS, claims, start() if carry is None else carry, looks, given


@functools.cache
def compiled():
  table = table_of(repeating_stream(0))
  return jax.jit(RUN).lower(*arguments(looks_of(table))).compile()


def run(looks: Look, transactions=None, **options):
  """(carry, report) on the host."""
  return jax.device_get(compiled()(*arguments(looks, transactions, **options)))


class Walk:
  """One memory in plain lists, driven by claim ids."""

  def __init__(self):
    sizes = (CAPACITIES.accepted, CAPACITIES.pending, CAPACITIES.history)
    self.memory = oracle.OracleMemory(*sizes, PADDED)

  def slot(self, claim_id: int) -> int:
    held = [row[0] for row in self.memory.accepted.slots]
    found = claim_id in held and claim_id != NO_CLAIM
    return held.index(claim_id) if found else CAPACITIES.accepted

  def pending_slot(self, claim_id: int) -> int:
    held = [row[0] for row in self.memory.pending.slots]
    found = claim_id in held and claim_id != NO_CLAIM
    return held.index(claim_id) if found else CAPACITIES.pending

  def transact(self, row: tuple, step: int) -> tuple[bool, list[tuple], bool]:
    """(refused, rows that left History, settled); `row` is (action, target, claim, ...)."""
    action, target, claim_id, resolves, outcome = row
    pending_slot = self.pending_slot(resolves)
    invalid, overflow, left, unsettled, also = self.memory.transact(
      action, self.slot(target), claim_id, step, pending_slot, outcome
    )
    unsettled |= resolves != NO_CLAIM and pending_slot == CAPACITIES.pending
    gone = [one for one in (left, also) if one != oracle.EMPTY_ROW]
    refused = invalid or overflow != oracle.LEDGER_NONE or unsettled
    return refused, gone, resolves != NO_CLAIM and not unsettled

  def sight(self, similarity: np.ndarray) -> tuple[list[int], int]:
    """The V nearest in memory, Accepted before Pending, and how many are Accepted."""
    live = [(-similarity[row[0]], 0, slot, row[0]) for slot, row in self._live("accepted")]
    live += [(-similarity[row[0]], 1, slot, row[0]) for slot, row in self._live("pending")]
    best = sorted(live)[:V]
    best = [row for row in best if row[1] == 0] + [row for row in best if row[1] == 1]
    return [row[3] for row in best], sum(row[1] == 0 for row in best)

  def _live(self, name: str) -> list[tuple[int, tuple]]:
    slots = enumerate(getattr(self.memory, name).slots)
    return [(slot, row) for slot, row in slots if row != oracle.EMPTY_ROW]


def random_transactions(seed: int, length: int = LENGTH) -> Transactions:
  """Mostly about what is in memory by then, else about anything; NumPy int32 [PADDED]."""
  rng, walk = random.Random(seed), Walk()
  rows = []
  for step in range(length):
    held = [row[0] for row in walk.memory.accepted.rows()]
    waiting = [row[0] for row in walk.memory.pending.rows()]
    anything = [int(NO_CLAIM), -1, PADDED, *range(step + 1)]
    target = rng.choice(held if held and rng.random() < 0.8 else anything)
    resolves = rng.choice(waiting if waiting and rng.random() < 0.5 else [int(NO_CLAIM)] * 9 + [0])
    outcome = int(rng.choice((Status.SUPERSEDED, Status.REJECTED, Status.REJECTED, Status.PENDING)))
    claim_id = step if rng.random() < 0.9 else rng.randrange(step + 1)
    rows.append((rng.choice((0, 0, 0, 1, 2, 2, 3, 4, 4, 7)), target, claim_id, resolves, outcome))
    walk.transact(rows[-1], step)
  none = (1, int(NO_CLAIM), int(NO_CLAIM), int(NO_CLAIM), int(Status.EMPTY))
  rows += [none] * (PADDED - length)
  return Transactions(*np.array(rows, np.int64).T.astype(np.int32))
