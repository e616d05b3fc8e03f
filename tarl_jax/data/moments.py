"""Moments of decision: a candidate and the entries in sight, from streams and from cases.

Owns retrieval (which at most V entries are visible) and the gold rollout that gives the
state at each step. Knows texts only as vectors.
"""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from tarl_jax import ledgers
from tarl_jax.data.record import Case, Claim, Gold, Stream
from tarl_jax.errors import InputError
from tarl_jax.rollout import Step, Transactions, count_refusals, rollout
from tarl_jax.types import NO_CLAIM, OUTCOMES, Action, MemoryState, Status


@dataclasses.dataclass(frozen=True)
class Capacities:
  """Slots of the three ledgers in a rollout of a whole stream."""

  accepted: int = 512
  pending: int = 256
  history: int = 512


@dataclasses.dataclass(frozen=True)
class Moment:
  """One decision. Entries of Accepted come first, then those of Pending, nearest first.

  `slots` are the entries' slots in their ledgers; `targets` the visible positions of the
  right entries (the gold target first, if it is visible), `resolves` that of the Pending
  entry that gold settles (None: nothing, or out of sight). `stream` and `step` say where the
  moment comes from; -1 for a case.
  """

  candidate: Claim
  entries: tuple[Claim, ...]
  slots: tuple[int, ...]
  num_accepted: int
  gold: Gold | None
  targets: tuple[int, ...]
  stream: int = -1
  step: int = -1
  resolves: int | None = None


def gold_transactions(stream: Stream, length: int) -> Transactions:
  """The gold transactions of a stream, padded to `length` steps with noops; int32 [T].

  Raises:
    InputError: if a claim has no gold.
  """
  position = {claim.id: i for i, claim in enumerate(stream.claims)}
  action = np.full(length, Action.NOOP, np.int32)
  target = np.full(length, NO_CLAIM, np.int32)
  resolves = np.full(length, NO_CLAIM, np.int32)
  outcome = np.full(length, Status.EMPTY, np.int32)
  for i, claim in enumerate(stream.claims):
    if claim.gold is None:
      raise InputError(
        f"stream {stream.stream_id}, claim '{claim.id}', field 'gold': is missing; training "
        "and scoring need the gold transaction of every claim."
      )
    action[i] = claim.gold.action
    if claim.gold.target is not None:
      target[i] = position[claim.gold.target]
    if claim.gold.resolves is not None and claim.gold.outcome is not None:
      resolves[i] = position[claim.gold.resolves]
      outcome[i] = OUTCOMES[claim.gold.outcome]
  return Transactions(
    action=action,
    target=target,
    claim_id=np.arange(length, dtype=np.int32),
    resolves=resolves,
    outcome=outcome,
  )


def initial_state(capacities: Capacities, num_claims: int) -> MemoryState:
  """An empty memory for a stream of `num_claims` claims."""
  return ledgers.init_state(capacities.accepted, capacities.pending, capacities.history, num_claims)


@jax.jit
def _gold_rollout(state: MemoryState, transactions: Transactions) -> tuple[Step, dict]:
  _, steps = rollout(state, transactions)
  return steps, count_refusals(steps)


def padded_length(streams: Sequence[Stream]) -> int:
  """Steps that every stream of the list is padded to: the next multiple of 64."""
  longest = max(len(stream.claims) for stream in streams)
  return -(-longest // 64) * 64


def stream_moments(
  streams: Sequence[Stream],
  vectors: dict[str, np.ndarray],
  capacities: Capacities,
  num_visible: int,
) -> list[Moment]:
  """Every decision of the streams along their gold path, in order.

  Args:
    streams: streams with gold.
    vectors: text -> float32 [D], unit norm.
    capacities: of the rollout.
    num_visible: V, the most entries in sight.

  Raises:
    InputError: if a gold transaction was refused, naming the stream and what to raise.
  """
  length = padded_length(streams)
  moments: list[Moment] = []
  for index, stream in enumerate(streams):
    transactions = jax.tree.map(jnp.asarray, gold_transactions(stream, length))
    steps, refusals = _gold_rollout(initial_state(capacities, length), transactions)
    for name, number in refusals.items():
      if name != "evicted" and int(number):
        raise InputError(
          f"stream {stream.stream_id}: {int(number)} gold transactions were refused ({name}); "
          "raise config.data.capacities or split the stream."
        )
    similarity = _similarities(stream, vectors)
    accepted = np.asarray(steps.state.accepted.claim_id)
    pending = np.asarray(steps.state.pending.claim_id)
    for step in range(len(stream.claims)):
      live = _Live.of(accepted[step], pending[step])
      moments.append(_look(stream, index, step, live, similarity[step], num_visible))
  return moments


def _similarities(stream: Stream, vectors: dict[str, np.ndarray]) -> np.ndarray:
  """float32 [T, T]: cosine of every two claims of the stream."""
  table = np.stack([vectors[claim.text] for claim in stream.claims])
  return table @ table.T


@dataclasses.dataclass(frozen=True)
class _Live:
  """Claims in memory at one step: int32 [n] ids and slots, the first `num_accepted` Accepted."""

  claim_ids: np.ndarray
  slots: np.ndarray
  num_accepted: int

  @classmethod
  def of(cls, accepted: np.ndarray, pending: np.ndarray) -> "_Live":
    in_accepted = np.flatnonzero(accepted != NO_CLAIM)
    in_pending = np.flatnonzero(pending != NO_CLAIM)
    return cls(
      claim_ids=np.concatenate([accepted[in_accepted], pending[in_pending]]),
      slots=np.concatenate([in_accepted, in_pending]),
      num_accepted=len(in_accepted),
    )


def nearest(similarity: np.ndarray, num_accepted: int, num_visible: int) -> np.ndarray:
  """Indices of the `num_visible` most similar, Accepted before Pending, nearest first.

  Ties go to the lower index. The first `num_accepted` values belong to Accepted.
  """
  order = np.argsort(-similarity, kind="stable")[:num_visible]
  return np.concatenate([order[order < num_accepted], order[order >= num_accepted]])


def _look(
  stream: Stream, index: int, step: int, live: _Live, similarity: np.ndarray, num_visible: int
) -> Moment:
  claim = stream.claims[step]
  chosen = nearest(similarity[live.claim_ids], live.num_accepted, num_visible)
  entries = tuple(stream.claims[i] for i in live.claim_ids[chosen])
  gold = claim.gold
  names = [] if gold is None else [gold.target, *gold.alt_targets]
  visible = {entry.id: position for position, entry in enumerate(entries)}
  return Moment(
    candidate=claim,
    entries=entries,
    slots=tuple(int(slot) for slot in live.slots[chosen]),
    num_accepted=int(np.sum(chosen < live.num_accepted)),
    gold=gold,
    targets=tuple(visible[name] for name in names if name in visible),
    stream=index,
    step=step,
    resolves=visible.get(gold.resolves) if gold and gold.resolves else None,
  )


def case_moments(
  cases: Sequence[Case], vectors: dict[str, np.ndarray], num_visible: int
) -> list[Moment]:
  """The decision of each case. Slots are indices into `accepted` and `pending`.

  Like in a stream, the entries nearest to the candidate are in sight, `num_visible` at most.
  """
  moments = []
  for case in cases:
    entries = (*case.accepted, *case.pending)
    candidate = vectors[case.candidate.text]
    similarity = np.array([vectors[entry.text] @ candidate for entry in entries], np.float32)
    chosen = nearest(similarity, len(case.accepted), num_visible)
    num_accepted = int(np.sum(chosen < len(case.accepted)))
    slots = [int(i) if i < len(case.accepted) else int(i) - len(case.accepted) for i in chosen]
    moments.append(
      Moment(
        candidate=case.candidate,
        entries=tuple(entries[i] for i in chosen),
        slots=tuple(slots),
        num_accepted=num_accepted,
        gold=None,
        targets=(),
      )
    )
  return moments
