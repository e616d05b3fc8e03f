"""Governance: what happens later to claims that the memory already holds (SPEC 7).

Owns the transitions outside the five actions and what refuses them. It chooses no claim:
thresholds and which claims are due is in `governance_plan.py`.

    Accepted  --deprecate-->  History, DEPRECATED  --restore-->  Accepted
    Accepted  --expire----->  History, EXPIRED     --restore-->  Accepted
    Pending   --expire----->  History, EXPIRED     --restore-->  Pending
    Pending   --reconsider->  where the action puts it; a noop puts it in History, SUPERSEDED
    anywhere  --erase------>  nowhere, for good

All are pure, jitted, unbatched and deterministic: `(state, worth, ...) -> (next_state,
next_worth, info)`, structure, shapes and dtypes unchanged. What is refused leaves state and
counters bit-identical and says so in `info`. Live rows stay in the first slots of a ledger
and History keeps the order in which its rows came. `worth` may be any table by claim.

A row that is deprecated or expires keeps its link, which `restore` brings back. Its step is
the step of the move; a row that expired out of Pending carries `~step`, which is negative:
the one mark that it never was accepted.
"""

from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp

from tarl_jax import actions, by_claim, ledgers
from tarl_jax.types import (
  NO_CLAIM,
  TIME_UNBOUNDED,
  TIME_UNKNOWN,
  Action,
  Array,
  Claim,
  LedgerId,
  MemoryState,
  Row,
  Status,
)

Table = TypeVar("Table", bound=by_claim.ByClaim)


class GovernanceInfo(NamedTuple):
  """What a governance transition reports; nothing of it feeds back."""

  invalid: jax.Array  # bool []: no such claim there, or not allowed; nothing was changed
  overflow: jax.Array  # int32 []: LedgerId of the full ledger that refused, else NONE
  evicted: Row  # the History row that left to make room; claim_id is NO_CLAIM if none
  left: by_claim.Left  # its counters


Transition = tuple[MemoryState, Table, GovernanceInfo]


def look_up(table: jax.Array, claim_id: jax.Array, missing: Array) -> jax.Array:
  """Entries of a claim table [N] in the shape of `claim_id`, `missing` where no claim is."""
  in_table = (claim_id >= 0) & (claim_id < table.shape[0])
  return jnp.where(in_table, table.at[claim_id].get(mode="clip"), missing)


def is_over(valid_until: jax.Array, now: jax.Array) -> jax.Array:
  """bool, in the shape of `valid_until`: the claim no longer holds at `now`.

  `valid_until` is the first minute at which it does not: `valid_until <= now` is over. An
  unknown or unbounded end never is. Both int32 minutes.
  """
  bounded = (valid_until != TIME_UNKNOWN) & (valid_until != TIME_UNBOUNDED)
  return bounded & (valid_until <= now)


def nothing_left(worth: by_claim.ByClaim) -> by_claim.Left:
  """What a transition reports that took nothing out of Accepted and History."""
  numbers = jnp.zeros((3, *worth.past.shape[1:]), worth.past.dtype)
  return by_claim.Left(claim_id=jnp.full(3, NO_CLAIM, jnp.int32), numbers=numbers)


def select(when: jax.Array, chosen, otherwise):
  """`chosen` where `when` (bool []) is true, leaf by leaf, else `otherwise`."""
  return jax.tree.map(lambda one, other: jnp.where(when, one, other), chosen, otherwise)


def _info(invalid: jax.Array, overflow: Array, evicted: Row, left: by_claim.Left) -> GovernanceInfo:
  return GovernanceInfo(invalid, jnp.asarray(overflow, jnp.int32), evicted, left)


def file_claim(
  state: MemoryState,
  worth: Table,
  claim_id: jax.Array,
  step: jax.Array,
  status: jax.Array,
  when: jax.Array,
) -> Transition:
  """Moves a claim from Accepted or Pending to History where `when` is true; O(K) compares.

  Unbatched. The claim keeps its link and its counters are archived beside it. What fills
  its slot takes its own counters along.

  Returns:
    (next_state, next_worth, info); refused with `info.invalid` where `when` is false or the
    claim is in neither ledger.
  """
  slot = ledgers.find(state.accepted, claim_id)
  pending_slot = ledgers.find(state.pending, claim_id)
  was_accepted = when & (slot != state.accepted.no_slot)
  was_pending = when & (pending_slot != state.pending.no_slot)
  accepted, entry = ledgers.take_row(state.accepted, slot, was_accepted)
  pending, waiting = ledgers.take_row(state.pending, pending_slot, was_pending)
  row = Row(
    claim_id=claim_id,
    status=status,
    link=jnp.where(was_accepted, entry.link, waiting.link),
    step=jnp.where(was_accepted, step, ~step),
  )
  done = was_accepted | was_pending
  history, evicted = ledgers.push_ring(state.history, row, done)
  next_state = state.replace(accepted=accepted, pending=pending, history=history)
  next_worth, left = by_claim.follow_step(worth, state, next_state, slot)
  return next_state, next_worth, _info(~done, LedgerId.NONE, evicted, left)


@jax.jit
def deprecate(
  state: MemoryState,
  worth: Table,
  slot: jax.Array,
  step: jax.Array,
  due: jax.Array,
  protected: jax.Array,
) -> Transition:
  """Accepted to History as DEPRECATED: a claim that no longer earns its place. Unbatched.

  Pending unchanged. It sets no mark that would keep a restored claim: `govern` does.

  Args:
    state: memory, leaves [K] or [].
    worth: counters by claim.
    slot: Accepted slot, int32 [].
    step: step of the stream, int32 [], not negative.
    due: what the counters allow, bool [K_A]; see `governance_plan.is_due`.
    protected: claims that are exempt, bool [N].

  Returns:
    (next_state, next_worth, info); refused with `info.invalid` where the slot is not live,
    not due or holds a protected claim.
  """
  claim_id = ledgers.read_claim(state.accepted, slot)
  allowed = due.at[slot].get(mode="clip") & ~look_up(protected, claim_id, True)
  return file_claim(state, worth, claim_id, step, jnp.int32(Status.DEPRECATED), allowed)


@jax.jit
def expire(
  state: MemoryState,
  worth: Table,
  claim_id: jax.Array,
  step: jax.Array,
  valid_until: jax.Array,
  now: jax.Array,
) -> Transition:
  """Accepted or Pending to History as EXPIRED: a claim whose time is over. Unbatched.

  Protection does not matter: its end is part of what the claim says.

  Args:
    state: memory, leaves [K] or [].
    worth: counters by claim.
    claim_id: the claim, int32 [].
    step: step of the stream, int32 [], not negative.
    valid_until: per claim of the table the first minute at which it no longer holds, int32
      [N]; see `is_over`.
    now: int32 [] minutes.

  Returns:
    (next_state, next_worth, info); refused with `info.invalid` where the claim is in neither
    ledger or not over.
  """
  over = is_over(look_up(valid_until, claim_id, TIME_UNKNOWN), now)
  return file_claim(state, worth, claim_id, step, jnp.int32(Status.EXPIRED), over)


@jax.jit
def reconsider(
  state: MemoryState,
  worth: Table,
  pending_slot: jax.Array,
  action: jax.Array,
  slot: jax.Array,
  step: jax.Array,
) -> Transition:
  """A Pending claim is judged again and takes any of the five actions. Unbatched.

  As if it came in now (`actions.execute`), but for two: `defer_verify` lets it wait, the
  state bit-identical; `noop`, "it adds nothing", files it in History as SUPERSEDED, linked
  to the entry in `slot` that says the same, or to nothing. An append or a revise starts its
  counters at zero. The last Pending row moves into the place that is freed.

  Args:
    state: memory, leaves [K] or [].
    worth: counters by claim.
    pending_slot: Pending slot of the claim, int32 [].
    action: an Action, int32 [].
    slot: Accepted slot of the target, int32 []; NO_SLOT where there is none.
    step: step of the stream, int32 [].

  Returns:
    (next_state, next_worth, info); refused, with the claim still waiting, with
    `info.invalid` where the Pending slot is not live or `execute` says so, and with
    `info.overflow` where Accepted is full.
  """
  claim_id = ledgers.read_claim(state.pending, pending_slot)
  live = claim_id != NO_CLAIM
  pending, _ = ledgers.take_row(state.pending, pending_slot, live)
  free = state.entered.at[claim_id].set(False, mode="drop")
  taken = state.replace(pending=pending, entered=free)
  executed, info = actions.execute(taken, action, slot, Claim(claim_id, step))

  is_noop = action == Action.NOOP
  repeats = ledgers.read_claim(state.accepted, slot)
  row = Row(claim_id, jnp.int32(Status.SUPERSEDED), repeats, step)
  history, left_row = ledgers.push_ring(state.history, row, is_noop & live)
  filed = state.replace(pending=pending, history=history)

  invalid = ~live | info.invalid
  stays = invalid | (info.overflow != LedgerId.NONE) | (action == Action.DEFER_VERIFY)
  next_state = select(stays, state, select(is_noop, filed, executed))
  next_worth, left = by_claim.follow_step(worth, state, next_state, slot)
  evicted = select(stays, ledgers.empty_row(), select(is_noop, left_row, info.evicted))
  return next_state, next_worth, _info(invalid, info.overflow, evicted, left)
