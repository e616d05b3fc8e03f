"""What the policy sees of one decision, and what is right: arrays only.

Owns the layout that `data/examples.py` fills and `models/policy.py`, `losses.py` and
`metrics.py` read. All shapes are of one example; a batch has a leading [B].

Visible entries lie in one row of V positions: first those of Accepted, then those of
Pending, then padding. Position V means "none" (NO_SLOT of the visible row).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from tarl_jax.types import NO_CLAIM, Array, Ledger, MemoryState, Row, Status


class PolicyInputs(NamedTuple):
  """What the policy sees (SPEC 4). Nothing here depends on the gold answer."""

  candidate: Array  # float32 [D], sentence vector
  entries: Array  # float32 [V, D], zeros where not valid
  claim_signals: Array  # float32 [C], exact signals of the candidate text
  pair_signals: Array  # float32 [V, P], exact and late-interaction signals of each pair
  time_signals: Array  # float32 [V, T], order and distance in time of each pair
  source: Array  # float32 [R], provenance of the candidate
  entry_source: Array  # float32 [V, R], provenance of the entries
  pair_source: Array  # float32 [V, S], provenance of each pair
  num_accepted: Array  # int32 [], entries of Accepted; they come first
  num_visible: Array  # int32 [], entries of both ledgers


class Labels(NamedTuple):
  """What is right, and how much it counts."""

  action: Array  # int32 [], an Action
  target: Array  # int32 [], visible position, V where there is none
  targets: Array  # bool [V + 1], every position that is right
  scope: Array  # int32 [], index into SCOPES, -1 where unknown
  reliability: Array  # float32 [], true reliability of the candidate's source, or NaN
  entry_reliability: Array  # float32 [V], of the entries, or NaN
  weight: Array  # float32 [], 0 for padding and where the target is out of sight
  resolves: Array  # int32 [], visible position of the Pending entry it settles, V where none
  outcome: Array  # int32 [], the Status that one gets, EMPTY where none


def valid_entries(inputs: PolicyInputs) -> jax.Array:
  """bool [V]: the position holds an entry. Unbatched."""
  return jnp.arange(inputs.entries.shape[0]) < inputs.num_visible


def accepted_entries(inputs: PolicyInputs) -> jax.Array:
  """bool [V]: the position holds an entry of Accepted. Unbatched."""
  return jnp.arange(inputs.entries.shape[0]) < inputs.num_accepted


def window_state(inputs: PolicyInputs) -> MemoryState:
  """The memory cut down to what is visible, ready for counterfactual execution. Unbatched.

  A claim's id is its visible position, the candidate's is V. Accepted slot s holds visible
  position s, so a visible position is its own slot. No ledger can overflow.

  What an action does to entries out of sight is the same for all five, so distances between
  next states are those of the full memory as long as the gold target is visible and the full
  History has room (a full one also loses its oldest row, which the window does not show).
  """
  capacity = inputs.entries.shape[0] + 1
  slots = jnp.arange(capacity, dtype=jnp.int32)
  num_pending = inputs.num_visible - inputs.num_accepted
  accepted = _window_ledger(slots, inputs.num_accepted, Status.ACCEPTED)
  pending = _window_ledger(slots + inputs.num_accepted, num_pending, Status.PENDING)
  history = _window_ledger(slots[:2], jnp.zeros((), jnp.int32), Status.REJECTED)
  entered = slots < inputs.num_visible
  return MemoryState(accepted=accepted, pending=pending, history=history, entered=entered)


def _window_ledger(claim_ids: jax.Array, count: jax.Array, status: Status) -> Ledger:
  """A ledger whose first `count` slots hold `claim_ids`, unlinked, written at step 0."""
  live = jnp.arange(claim_ids.shape[0]) < count
  no_claim = jnp.full_like(claim_ids, NO_CLAIM)
  rows = Row(
    claim_id=jnp.where(live, claim_ids, no_claim),
    status=jnp.where(live, jnp.int32(status), jnp.int32(Status.EMPTY)),
    link=no_claim,
    step=jnp.zeros_like(claim_ids),
  )
  return Ledger(rows=jnp.stack(rows), written=count)
