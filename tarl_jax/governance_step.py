"""Governance in bulk: everything that is over or due moves to History, within a limit (SPEC 7).

Owns the loop that carries a plan out and the maintenance calls built on it: `govern` for
every step of a rollout, `forget_older_than` and `cut` for now and then. Which claims are due
is in `governance_plan.py`, the move itself in `governance.py`.

Every loop ends with the last claim that is due, so that a step without work costs only the
look at the ledgers; the limit gives the report its fixed size. All are unbatched, pure and
jitted, and fit into `vmap` and `lax.scan`.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tarl_jax import by_claim, ledgers
from tarl_jax.governance import Table, file_claim, is_over, look_up, nothing_left
from tarl_jax.governance_plan import (
  Settings,
  choose_due,
  is_due,
  lowest,
  plan_cut,
  under,
)
from tarl_jax.types import (
  NO_CLAIM,
  TIME_UNBOUNDED,
  TIME_UNKNOWN,
  MemoryState,
  Row,
  Status,
)
from tarl_jax.worth import Worth


class Filed(NamedTuple):
  """Claims that one call moved to History, in the order they went; L places."""

  claim_id: jax.Array  # int32 [L], NO_CLAIM where none went
  evicted: Row  # int32 [L] each: the History row that left for it, the empty row if none
  left: by_claim.Left  # the counters of those rows; leaves [L, 3, ...]


class GovernInfo(NamedTuple):
  """What one step of governance did: L = expiries + budget, what expired first."""

  filed: Filed
  waiting_to_expire: jax.Array  # int32 []: over, but left for the next step by the limit
  waiting_for_budget: jax.Array  # int32 []: due, but left for the next step by the budget


def _file_each(
  state: MemoryState, worth: Table, claim_ids: jax.Array, step: jax.Array, status: jax.Array
) -> tuple[MemoryState, Table, Filed]:
  """Files the claims one by one, in their order; `claim_ids`, `status` int32 [L]."""
  places = jnp.arange(claim_ids.shape[0], dtype=jnp.int32)
  end = jnp.max(jnp.where(claim_ids != NO_CLAIM, places + 1, 0), initial=0)
  none = (ledgers.empty_row(), nothing_left(worth))
  reports = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (*places.shape, *leaf.shape)), none)

  def file_one(carry):
    place, state, worth, reports = carry
    claim_id = claim_ids[place]
    wanted = claim_id != NO_CLAIM
    state, worth, info = file_claim(state, worth, claim_id, step, status[place], wanted)
    report = (info.evicted, info.left)
    reports = jax.tree.map(lambda all_, one: all_.at[place].set(one), reports, report)
    return place + 1, state, worth, reports

  carry = (jnp.int32(0), state, worth, reports)
  if places.size:
    carry = jax.lax.while_loop(lambda carry: carry[0] < end, file_one, carry)
  _, state, worth, (evicted, left) = carry
  return state, worth, Filed(claim_ids, evicted, left)


def _earliest(
  state: MemoryState, times: jax.Array, is_past: Callable[[jax.Array], jax.Array], limit: int
) -> tuple[jax.Array, jax.Array]:
  """Claims of Accepted and Pending whose time (int32 [N]) is past, the earliest first.

  Returns:
    (claim_ids, past_count): int32 [limit], NO_CLAIM after the last, and how many there are.
  """
  claim_id = jnp.concatenate([state.accepted.claim_id, state.pending.claim_id])
  time = look_up(times, claim_id, TIME_UNKNOWN)
  past = is_past(time)
  past_count = jnp.sum(past, dtype=jnp.int32)
  places = lowest(time, claim_id, past, limit, past_count)
  return _claims_at(claim_id, places), past_count


def _claims_at(claim_id: jax.Array, places: jax.Array) -> jax.Array:
  return claim_id.at[places].get(mode="fill", fill_value=NO_CLAIM)


def _count(claim_ids: jax.Array) -> jax.Array:
  return jnp.sum(claim_ids != NO_CLAIM, dtype=jnp.int32)


@functools.partial(jax.jit, static_argnames="settings")
def govern(
  state: MemoryState,
  worth: Worth,
  doubtful: jax.Array,
  step: jax.Array,
  now: jax.Array,
  valid_until: jax.Array,
  protected: jax.Array,
  *,
  settings: Settings,
) -> tuple[MemoryState, Worth, jax.Array, GovernInfo]:
  """One step of governance: what is over expires, then what is due is deprecated. Unbatched.

  Pending and Accepted lose what expires, Accepted what is deprecated. A claim that is marked
  doubtful is not deprecated; `governance_plan.py` says why.

  Args:
    state: memory, leaves [K] or [].
    worth: its counters.
    doubtful: claims under the mark, bool [N]; all false at the start.
    step: step of the stream, int32 [], not negative.
    now: int32 [] minutes.
    valid_until: first minute at which a claim no longer holds, int32 [N].
    protected: claims that are never deprecated, bool [N].
    settings: thresholds and limits; static.

  Returns:
    (next_state, next_worth, next_doubtful, info). Nothing is refused; what the limits leave
    over is counted in `info`.
  """
  over, over_count = _earliest(state, valid_until, lambda end: is_over(end, now), settings.expiries)
  entries = state.accepted.claim_id
  marked = look_up(doubtful, entries, False)
  still = under(worth, marked, settings.high, settings)
  spent = is_over(look_up(valid_until, entries, TIME_UNKNOWN), now)
  may_go = ~(look_up(protected, entries, True) | still | spent)
  is_due_now = is_due(worth, may_go, settings)
  due = _claims_at(entries, choose_due(state, worth, is_due_now, settings))
  statuses = jnp.asarray(
    [Status.EXPIRED] * settings.expiries + [Status.DEPRECATED] * settings.budget, jnp.int32
  )
  leaving = jnp.concatenate([over, due])
  next_state, next_worth, filed = _file_each(state, worth, leaving, step, statuses)
  due_count = jnp.sum(is_due_now, dtype=jnp.int32)
  info = GovernInfo(filed, over_count - _count(over), due_count - _count(due))
  kept = _mark(doubtful, jnp.where(marked & ~still, entries, NO_CLAIM), False)
  return next_state, next_worth, _mark(kept, due, True), info


def _mark(marks: jax.Array, claim_ids: jax.Array, value: bool) -> jax.Array:
  return marks.at[claim_ids].set(value, mode="drop")  # NO_CLAIM is out of range


@functools.partial(jax.jit, static_argnames="limit")
def forget_older_than(
  state: MemoryState,
  worth: Table,
  step: jax.Array,
  observed_at: jax.Array,
  now: jax.Array,
  max_age: jax.Array,
  protected: jax.Array,
  *,
  limit: int,
) -> tuple[MemoryState, Table, Filed, jax.Array]:
  """Expires the claims of Accepted and Pending that are older than `max_age`. Unbatched.

  Older means `now - observed_at > max_age`: a claim of exactly that age stays, as does one
  of unknown time or from the future. Oldest first. A negative age forgets nothing.

  Args:
    state: memory, leaves [K] or [].
    worth: counters by claim.
    step: step of the stream, int32 [], not negative.
    observed_at: int32 [N] minutes.
    now: int32 [] minutes.
    max_age: int32 [] minutes.
    protected: claims that are never too old, bool [N].
    limit: how many may go in one call; static.

  Returns:
    (next_state, next_worth, filed, waiting): int32 [] is how many old ones the limit left.
  """
  oldest = now - max_age
  out_of_range = (max_age < 0) | (oldest > now)  # the second: the difference wrapped
  oldest = jnp.where(out_of_range, TIME_UNKNOWN, oldest)
  times = jnp.where(protected | (observed_at == TIME_UNBOUNDED), TIME_UNKNOWN, observed_at)
  old, old_count = _earliest(
    state, times, lambda time: (time != TIME_UNKNOWN) & (time < oldest), limit
  )
  status = jnp.full(limit, Status.EXPIRED, jnp.int32)
  next_state, next_worth, filed = _file_each(state, worth, old, step, status)
  return next_state, next_worth, filed, old_count - _count(old)


@functools.partial(jax.jit, static_argnames="limit")
def cut(
  state: MemoryState,
  worth: Worth,
  step: jax.Array,
  protected: jax.Array,
  keep: jax.Array,
  *,
  limit: int,
) -> tuple[MemoryState, Worth, Filed, jax.Array]:
  """Deprecates what `plan_cut` chooses until `keep` entries are left in Accepted. Unbatched.

  Returns:
    (next_state, next_worth, filed, waiting): int32 [] is how many more than `keep` are left,
    because of the limit or because they are protected.
  """
  slots = plan_cut(state, worth, protected, keep, limit=limit)
  leaving = _claims_at(state.accepted.claim_id, slots)
  status = jnp.full(limit, Status.DEPRECATED, jnp.int32)
  next_state, next_worth, filed = _file_each(state, worth, leaving, step, status)
  return next_state, next_worth, filed, jnp.maximum(ledgers.count(next_state.accepted) - keep, 0)
