"""The policy's own rollout: retrieve, decide, execute, settle, in one `lax.scan` over a stream.

Owns the loop whose mistakes are its next input (SPEC 6, "Sequential"). Knows neither texts nor
gold: which earlier claims are near, and the signals of each pair, come prepared from the host
(`data/neighbours.py`); who decides and what follows a transition are functions of the caller.
Batching is his `vmap`.

    look ──> see ──> choose_fn ──> transact ──> after_fn ──> report
              ^                       │             │
              └──────── memory <──────┴─────────────┘

M is the number of neighbours prepared for a step; of these the nearest V that are in memory
are seen. A step without a claim (padding) is an exact no-op.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tarl_jax import ledgers
from tarl_jax.inputs import PolicyInputs
from tarl_jax.models.policy import Decision, Policy, decide
from tarl_jax.rollout import Transactions
from tarl_jax.tracking import LEDGER, SLOT, Executed, TrackedMemory, places_of, transact
from tarl_jax.types import NO_CLAIM, Action, Array, LedgerId, Status, TransitionInfo


class ClaimFeatures(NamedTuple):
  """What the policy reads of each claim of a stream; float32."""

  embedding: Array  # [N, D], sentence vector
  signals: Array  # [N, C]
  source: Array  # [N, R]


class Look(NamedTuple):
  """One step as prepared on the host; a stream has a leading [T].

  The neighbours are the M earlier claims most similar to the claim, nearest first.
  """

  claim_id: Array  # int32 [], NO_CLAIM for padding
  step: Array  # int32 [], number of the step in the stream
  neighbours: Array  # int32 [M], claim ids, NO_CLAIM where there are fewer
  similarity: Array  # float32 [M]
  beyond: Array  # float32 [], similarity of the next claim that found no place, -inf if none
  pair_signals: Array  # float32 [M, P]
  time_signals: Array  # float32 [M, T]
  pair_source: Array  # float32 [M, S]


class Seen(NamedTuple):
  """What is in sight at a step."""

  inputs: PolicyInputs
  claim_id: Array  # int32 []
  entries: Array  # int32 [V], claim ids by visible position, NO_CLAIM beyond
  exact: Array  # bool []: no claim beyond the M neighbours could have been in sight


class Event(NamedTuple):
  """What `after_fn` learns of a step; `claim_id` is NO_CLAIM for padding."""

  claim_id: Array  # int32 []
  step: Array  # int32 []
  given: Any  # the caller's own of this step
  seen: Seen
  transaction: Transactions
  executed: Executed


class Report(NamedTuple):
  """One step of a policy's rollout; leaves [T, ...] when stacked by the scan."""

  transaction: Transactions  # what was chosen, by claim ids
  num_visible: Array  # int32 []
  exact: Array  # bool []
  info: TransitionInfo
  settled: TransitionInfo
  said: Any  # what `choose_fn` adds, e.g. the decision
  after: Any  # what `after_fn` adds


class Carry(NamedTuple):
  """What goes from step to step."""

  memory: TrackedMemory
  extra: Any  # of `after_fn`


# (params, seen, given) -> (transaction int32 [] each, anything to report)
ChooseFn = Callable[[Any, Seen, Any], tuple[Transactions, Any]]
# (memory, extra, event) -> (memory, extra, anything to report)
AfterFn = Callable[[TrackedMemory, Any, Event], tuple[TrackedMemory, Any, Any]]
RunFn = Callable[..., tuple[Carry, Report]]


class _Sight(NamedTuple):
  """Which neighbours are seen, by visible position."""

  chosen: jax.Array  # int32 [V], into the M neighbours; means nothing beyond `num_visible`
  num_accepted: jax.Array  # int32 []
  num_visible: jax.Array  # int32 []
  exact: jax.Array  # bool []


def _retrieve(memory: TrackedMemory, look: Look, num_visible: int) -> _Sight:
  """The `num_visible` nearest neighbours that are in memory, Accepted before Pending.

  The order is that of `data.moments.nearest`: among equals Accepted comes before Pending, and
  the lower slot first.
  """
  place = places_of(memory, look.neighbours)
  live = place[:, LEDGER] < LedgerId.HISTORY
  offset = jnp.where(place[:, LEDGER] == LedgerId.PENDING, memory.state.accepted.capacity, 0)
  distance = jnp.where(live, -look.similarity, jnp.inf)
  index = jnp.arange(look.neighbours.shape[0], dtype=jnp.int32)
  keys = (distance, place[:, SLOT] + offset, index)
  distance, _, index = (key[:num_visible] for key in jax.lax.sort(keys, num_keys=2))
  found = jnp.sum(live, dtype=jnp.int32)
  visible = jnp.minimum(found, num_visible)
  positions = jnp.arange(num_visible, dtype=jnp.int32)
  ledger = jnp.where(positions < visible, place[index, LEDGER], int(LedgerId.NONE))
  _, index = jax.lax.sort((ledger, index), num_keys=1, is_stable=True)
  in_memory = ledgers.count(memory.state.accepted) + ledgers.count(memory.state.pending)
  enough = (found >= num_visible) & (-distance[-1] > look.beyond)
  exact = enough | (found == in_memory) | (look.claim_id == NO_CLAIM)
  accepted = jnp.sum(ledger == LedgerId.ACCEPTED, dtype=jnp.int32)
  return _Sight(index, accepted, visible, exact)


def see(memory: TrackedMemory, claims: ClaimFeatures, look: Look, num_visible: int) -> Seen:
  """What the policy sees of the step (SPEC 4), with zeros where nothing is. Unbatched.

  Args:
    memory: before the step.
    claims: of the stream.
    look: of the step, with M >= `num_visible`.
    num_visible: V.

  Raises:
    ValueError: if M is under V.
  """
  if look.neighbours.shape[0] < num_visible:
    raise ValueError(
      f"{look.neighbours.shape[0]} neighbours cannot fill {num_visible} visible entries; prepare "
      "at least as many neighbours."
    )
  sight = _retrieve(memory, look, num_visible)
  valid = jnp.arange(num_visible) < sight.num_visible
  entries = jnp.where(valid, look.neighbours[sight.chosen], NO_CLAIM)

  def shown(rows: Array) -> jax.Array:
    return jnp.where(valid[:, None], rows, 0.0)

  def of_claim(table: Array, claim_id: Array) -> jax.Array:
    return jnp.asarray(table).at[claim_id].get(mode="clip")

  inputs = PolicyInputs(
    candidate=of_claim(claims.embedding, look.claim_id),
    entries=shown(of_claim(claims.embedding, entries)),
    claim_signals=of_claim(claims.signals, look.claim_id),
    pair_signals=shown(look.pair_signals[sight.chosen]),
    time_signals=shown(look.time_signals[sight.chosen]),
    source=of_claim(claims.source, look.claim_id),
    entry_source=shown(of_claim(claims.source, entries)),
    pair_source=shown(look.pair_source[sight.chosen]),
    num_accepted=sight.num_accepted,
    num_visible=sight.num_visible,
  )
  return Seen(inputs=inputs, claim_id=look.claim_id, entries=entries, exact=sight.exact)


def by_claims(decision: Decision, seen: Seen) -> Transactions:
  """A decision about visible positions as a transaction about claims; int32 [] each."""
  named = jnp.append(seen.entries, NO_CLAIM)
  return Transactions(
    action=decision.action,
    target=named[decision.position],
    claim_id=seen.claim_id,
    resolves=named[decision.resolves],
    outcome=decision.outcome,
  )


def choose_by_policy(policy: Policy) -> ChooseFn:
  """Decides as `models.policy.decide` does; `params` is (parameters, temperature float32 []).

  What it reports is the Decision.
  """

  def choose(params: Any, seen: Seen, given: Any) -> tuple[Transactions, Decision]:
    del given
    weights, temperature = params
    output = policy.apply(weights, seen.inputs)
    decision = decide(output, seen.inputs.num_accepted, temperature)
    return by_claims(decision, seen), decision

  return choose


def _only_for(claim_id: jax.Array, transaction: Transactions) -> Transactions:
  """The transaction, or a noop that settles nothing where there is no claim.

  Raises:
    ValueError: if a field of what was chosen is not int32 [].
  """
  for name, leaf in transaction._asdict().items():
    if jnp.shape(leaf) != () or jnp.result_type(leaf) != jnp.int32:
      raise ValueError(
        f"choose_fn must return int32 [] for '{name}', got {jnp.asarray(leaf).aval}."
      )
  nothing = Transactions(int(Action.NOOP), NO_CLAIM, NO_CLAIM, NO_CLAIM, int(Status.EMPTY))
  is_claim = claim_id != NO_CLAIM
  return jax.tree.map(lambda chosen, none: jnp.where(is_claim, chosen, none), transaction, nothing)


def make_rollout(choose_fn: ChooseFn, num_visible: int, after_fn: AfterFn | None = None) -> RunFn:
  """Binds who decides, and what follows each transition.

  Args:
    choose_fn: gets the parameters, what is in sight and the caller's own of the step.
    num_visible: V, the most entries in sight.
    after_fn: gets the memory after the transition, its own carry and the event, also at
      padding; returns the memory that the next step starts from.

  Returns:
    `run(params, claims, carry, looks, given)`, unbatched and pure: `claims` a ClaimFeatures,
    `looks` a Look and `given` any pytree with a leading [T]. It returns the carry after the
    last step and a Report with a leading [T]. Run on the next chunk of a stream from the
    carry of the last one, it gives what one run on the whole stream gives.
  """

  def run(params: Any, claims: ClaimFeatures, carry: Carry, looks: Look, given: Any):
    def step(carry: Carry, now: tuple[Look, Any]) -> tuple[Carry, Report]:
      look, own = now
      seen = see(carry.memory, claims, look, num_visible)
      transaction, said = choose_fn(params, seen, own)
      transaction = _only_for(look.claim_id, transaction)
      memory, executed = transact(carry.memory, transaction, look.step)
      extra, reported = carry.extra, None
      if after_fn is not None:
        event = Event(look.claim_id, look.step, own, seen, transaction, executed)
        memory, extra, reported = after_fn(memory, extra, event)
      report = Report(
        transaction=transaction,
        num_visible=seen.inputs.num_visible,
        exact=seen.exact,
        info=executed.info,
        settled=executed.settled,
        said=said,
        after=reported,
      )
      return Carry(memory, extra), report

    return jax.lax.scan(step, carry, (looks, given))

  return run


def run_chunks(
  run: RunFn, params: Any, claims: ClaimFeatures, carry: Carry, chunks: Iterable, axis: int = 0
) -> tuple[Carry, Report]:
  """Runs chunk after chunk, so that memory is bounded by one chunk and it compiles once.

  Args:
    run: jitted (and for a batch vmapped) result of `make_rollout`.
    params: for `choose_fn`.
    claims: of the stream, or a batch of them.
    carry: before the first step.
    chunks: pairs (looks, given) of equal shapes, e.g. of `data.neighbours.chunks`.
    axis: where the steps are: 0, or 1 behind the axis of a batch.

  Returns:
    (carry, report) as one run gives them; the report's leaves are NumPy arrays.
  """
  parts = []
  for looks, given in chunks:
    carry, report = run(params, claims, carry, looks, given)
    parts.append(jax.device_get(report))
  return carry, jax.tree.map(lambda *leaves: np.concatenate(leaves, axis), *parts)


def evicted_rows(report: Report) -> np.ndarray:
  """Rows that left History over one stream, oldest first; int32 [n, 4], fields of Row."""
  both = [np.stack(report.info.evicted, -1), np.stack(report.settled.evicted, -1)]
  rows = np.stack(both, axis=-2).reshape(-1, 4)
  return rows[rows[:, 0] != NO_CLAIM]
