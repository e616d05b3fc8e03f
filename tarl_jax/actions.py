"""The five transactions as pure state transitions (SPEC 3).

Owns what an action does to the ledgers, and when it is refused. It knows neither texts nor
scores. Every function is unbatched, jitted and parameter-free; the batch is the caller's
`vmap`.

The named functions say the rules one by one. `execute` is the same for an action that is
traced: it writes each ledger at most once, at a masked index. (A `vmap` over `lax.switch`
would run all five branches for every element; `python -m tarl_jax.bench transitions`
shows the price.) Tests hold the two forms equal.

Every transition returns `(next_state, info)` with the structure, shapes and dtypes of the
state unchanged. It is refused, with the state bit-identical, when
  - it needs a live Accepted target and `slot` is none (`info.invalid`),
  - the claim is none of the table, or entered a ledger before (`info.invalid`),
  - the ledger it would add to is full (`info.overflow` names it).
History is never full: its oldest row leaves and comes back as `info.evicted`.
"""

import jax
import jax.numpy as jnp

from tarl_jax import ledgers
from tarl_jax.types import (
  NO_CLAIM,
  NUM_ACTIONS,
  Action,
  Claim,
  Ledger,
  LedgerId,
  MemoryState,
  Row,
  Status,
  TransitionInfo,
)

Transition = tuple[MemoryState, TransitionInfo]


def _is_new(state: MemoryState, claim: Claim) -> jax.Array:
  """bool []: the claim is one of the table and has never entered a ledger."""
  in_table = (claim.claim_id >= 0) & (claim.claim_id < state.num_claims)
  return in_table & ~state.entered.at[claim.claim_id].get(mode="clip")


def _enter(state: MemoryState, claim: Claim, when: jax.Array) -> jax.Array:
  """bool [N]: `state.entered` with the claim marked where `when` is true."""
  index = jnp.where(when, claim.claim_id, state.num_claims)
  return state.entered.at[index].set(True, mode="drop")


def _row(claim_id: jax.Array, status: Status, link: jax.Array, step: jax.Array) -> Row:
  return Row(claim_id=claim_id, status=jnp.int32(status), link=link, step=step)


def _info(invalid: jax.Array, overflow: jax.Array | LedgerId, evicted: Row) -> TransitionInfo:
  return TransitionInfo(
    invalid=jnp.asarray(invalid, bool), overflow=jnp.asarray(overflow, jnp.int32), evicted=evicted
  )


def _refusal(ledger: Ledger, ledger_id: LedgerId, when: jax.Array) -> jax.Array:
  """int32 []: `ledger_id` where the ledger is full and would be added to, else NONE."""
  return jnp.where(when & ledgers.is_full(ledger), int(ledger_id), int(LedgerId.NONE))


@jax.jit
def append(state: MemoryState, claim: Claim, slot: jax.Array) -> Transition:
  """Adds the claim to Accepted. Unbatched; Pending and History unchanged, `slot` unused.

  Args:
    state: memory before the step, leaves [K] or [].
    claim: the incoming claim, int32 [] each.
    slot: ignored, int32 [].

  Returns:
    (next_state, info); refused with `info.overflow` = ACCEPTED when Accepted is full.
  """
  del slot
  new = _is_new(state, claim)
  overflow = _refusal(state.accepted, LedgerId.ACCEPTED, new)
  row = _row(claim.claim_id, Status.ACCEPTED, jnp.int32(NO_CLAIM), claim.step)
  done = new & (overflow == LedgerId.NONE)
  accepted = ledgers.push_row(state.accepted, row, done)
  next_state = state.replace(accepted=accepted, entered=_enter(state, claim, done))
  return next_state, _info(~new, overflow, ledgers.empty_row())


@jax.jit
def noop(state: MemoryState, claim: Claim, slot: jax.Array) -> Transition:
  """Changes nothing: the state comes back bit-identical. Unbatched; never refused."""
  del claim, slot
  return state, _info(jnp.zeros((), bool), LedgerId.NONE, ledgers.empty_row())


@jax.jit
def revise(state: MemoryState, claim: Claim, slot: jax.Array) -> Transition:
  """Puts the claim in the target's place and files the old entry. Unbatched.

  The Accepted row `slot` becomes the claim, linked to the entry it replaced; the old entry
  goes to History as SUPERSEDED, linked to the claim. Pending unchanged.

  Args:
    state: memory before the step, leaves [K] or [].
    claim: the incoming claim, int32 [] each.
    slot: Accepted slot of the entry it replaces, int32 [].

  Returns:
    (next_state, info); refused with `info.invalid` where `slot` is not a live Accepted slot.
  """
  old_id = ledgers.read_claim(state.accepted, slot)
  done = _is_new(state, claim) & (old_id != NO_CLAIM)
  new_row = _row(claim.claim_id, Status.ACCEPTED, old_id, claim.step)
  old_row = _row(old_id, Status.SUPERSEDED, claim.claim_id, claim.step)
  history, evicted = ledgers.push_ring(state.history, old_row, done)
  next_state = state.replace(
    accepted=ledgers.write_row(state.accepted, slot, new_row, done),
    history=history,
    entered=_enter(state, claim, done),
  )
  return next_state, _info(~done, LedgerId.NONE, evicted)


@jax.jit
def reject_conflict(state: MemoryState, claim: Claim, slot: jax.Array) -> Transition:
  """Files the claim in History as REJECTED, linked to the entry it protects. Unbatched.

  Accepted and Pending unchanged: rejected evidence never enters Accepted.

  Args:
    state: memory before the step, leaves [K] or [].
    claim: the incoming claim, int32 [] each.
    slot: Accepted slot of the entry that the claim conflicts with, int32 [].

  Returns:
    (next_state, info); refused with `info.invalid` where `slot` is not a live Accepted slot.
  """
  protected = ledgers.read_claim(state.accepted, slot)
  done = _is_new(state, claim) & (protected != NO_CLAIM)
  row = _row(claim.claim_id, Status.REJECTED, protected, claim.step)
  history, evicted = ledgers.push_ring(state.history, row, done)
  next_state = state.replace(history=history, entered=_enter(state, claim, done))
  return next_state, _info(~done, LedgerId.NONE, evicted)


@jax.jit
def defer_verify(state: MemoryState, claim: Claim, slot: jax.Array) -> Transition:
  """Holds the claim in Pending until it can be checked. Unbatched.

  Accepted and History unchanged. The row is linked to the entry in `slot` if that is a live
  Accepted slot, and to nothing otherwise.

  Args:
    state: memory before the step, leaves [K] or [].
    claim: the incoming claim, int32 [] each.
    slot: Accepted slot of the entry that the claim is about, or NO_SLOT; int32 [].

  Returns:
    (next_state, info); refused with `info.overflow` = PENDING when Pending is full.
  """
  new = _is_new(state, claim)
  overflow = _refusal(state.pending, LedgerId.PENDING, new)
  about = ledgers.read_claim(state.accepted, slot)
  row = _row(claim.claim_id, Status.PENDING, about, claim.step)
  done = new & (overflow == LedgerId.NONE)
  pending = ledgers.push_row(state.pending, row, done)
  next_state = state.replace(pending=pending, entered=_enter(state, claim, done))
  return next_state, _info(~new, overflow, ledgers.empty_row())


# In label order.
ACTIONS = (append, noop, revise, reject_conflict, defer_verify)


@jax.jit
def execute(state: MemoryState, action: jax.Array, slot: jax.Array, claim: Claim) -> Transition:
  """One transition for a traced action; equal to `ACTIONS[action](state, claim, slot)`.

  Unbatched. Each ledger is written at most once, so a batch of states costs a few scatters.

  Args:
    state: memory before the step, leaves [K] or [].
    action: an Action, int32 []. Any other value is refused with `info.invalid`.
    slot: Accepted slot, int32 []; NO_SLOT where there is none.
    claim: the incoming claim, int32 [] each.

  Returns:
    (next_state, info) as the five named functions return it.
  """
  accepted, pending, history = state.accepted, state.pending, state.history
  is_append = action == Action.APPEND
  is_revise = action == Action.REVISE
  is_reject = action == Action.REJECT_CONFLICT
  is_defer = action == Action.DEFER_VERIFY
  changes = is_append | is_revise | is_reject | is_defer
  target_id = ledgers.read_claim(accepted, slot)
  lacks_target = (is_revise | is_reject) & (target_id == NO_CLAIM)
  invalid = jnp.where(changes, lacks_target | ~_is_new(state, claim), action != Action.NOOP)

  full_accepted = _refusal(accepted, LedgerId.ACCEPTED, is_append & ~invalid)
  full_pending = _refusal(pending, LedgerId.PENDING, is_defer & ~invalid)
  overflow = jnp.minimum(full_accepted, full_pending)  # NONE is the largest
  done = ~invalid & (overflow == LedgerId.NONE)

  accepted_slot = jnp.where(is_append, ledgers.next_slot(accepted), slot)
  accepted_link = jnp.where(is_append, NO_CLAIM, target_id)
  accepted_row = _row(claim.claim_id, Status.ACCEPTED, accepted_link, claim.step)
  pending_row = _row(claim.claim_id, Status.PENDING, target_id, claim.step)
  history_row = Row(
    claim_id=jnp.where(is_revise, target_id, claim.claim_id),
    status=jnp.where(is_revise, int(Status.SUPERSEDED), int(Status.REJECTED)),
    link=jnp.where(is_revise, claim.claim_id, target_id),
    step=claim.step,
  )
  to_accepted = done & (is_append | is_revise)
  next_history, evicted = ledgers.push_ring(history, history_row, done & (is_revise | is_reject))
  written = ledgers.write_row(accepted, accepted_slot, accepted_row, to_accepted)
  next_state = state.replace(
    accepted=ledgers.advance(written, done & is_append),
    pending=ledgers.push_row(pending, pending_row, done & is_defer),
    history=next_history,
    entered=_enter(state, claim, done & changes),
  )
  return next_state, _info(invalid, overflow, evicted)


@jax.jit
def execute_all(state: MemoryState, slot: jax.Array, claim: Claim) -> Transition:
  """The five counterfactual next states from one state (SPEC 5).

  Unbatched; `state` is unchanged.

  Args:
    state: memory before the step, leaves [K] or [].
    slot: Accepted slot that every action uses, int32 [].
    claim: the incoming claim, int32 [] each.

  Returns:
    (next_states, infos), every leaf with a leading axis [A] in label order.
  """
  actions = jnp.arange(NUM_ACTIONS, dtype=jnp.int32)
  return jax.vmap(execute, in_axes=(None, 0, None, None))(state, actions, slot, claim)
