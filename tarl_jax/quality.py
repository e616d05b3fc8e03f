"""Comparison of states: location maps and the ledger-weighted distance to gold (SPEC 2, 5).

A location map says for each claim of the table where it is: (ledger, status, link). Slot
order never matters, and a claim in no ledger is in `LedgerId.NONE`.
"""

from typing import NamedTuple

import flax.struct
import jax
import jax.numpy as jnp

from tarl_jax.types import NO_CLAIM, Ledger, LedgerId, MemoryState, Status


class LocationMap(flax.struct.PyTreeNode, kw_only=True):
  """Canonical form of a state over a table of N claims."""

  ledger: jax.Array  # int32 [N], a LedgerId
  status: jax.Array  # int32 [N], a Status
  link: jax.Array  # int32 [N], a claim id or NO_CLAIM


class LedgerWeights(NamedTuple):
  """What one misplaced claim costs, by ledger; non-negative."""

  accepted: float = 1.0
  pending: float = 1.0
  history: float = 1.0


def _place(places: LocationMap, ledger: Ledger, ledger_id: LedgerId) -> LocationMap:
  index = ledger.claim_id  # NO_CLAIM is out of range and dropped
  return LocationMap(
    ledger=places.ledger.at[index].set(jnp.int32(ledger_id), mode="drop"),
    status=places.status.at[index].set(ledger.status, mode="drop"),
    link=places.link.at[index].set(ledger.link, mode="drop"),
  )


def location_map(state: MemoryState) -> LocationMap:
  """Where each claim of the table is (SPEC 2). Unbatched; leaves int32 [N]."""
  num_claims = state.num_claims
  places = LocationMap(
    ledger=jnp.full(num_claims, int(LedgerId.NONE), jnp.int32),
    status=jnp.full(num_claims, int(Status.EMPTY), jnp.int32),
    link=jnp.full(num_claims, NO_CLAIM, jnp.int32),
  )
  places = _place(places, state.accepted, LedgerId.ACCEPTED)
  places = _place(places, state.pending, LedgerId.PENDING)
  return _place(places, state.history, LedgerId.HISTORY)


def differs(places: LocationMap, gold: LocationMap) -> jax.Array:
  """bool [N]: the claim is in the wrong place, or has the wrong status or link."""
  wrong_place = places.ledger != gold.ledger
  return wrong_place | (places.status != gold.status) | (places.link != gold.link)


def distance(places: LocationMap, gold: LocationMap, weights: LedgerWeights) -> jax.Array:
  """Ledger-weighted number of claims that differ; float32 []. Zero for equal states.

  A claim that differs costs the larger weight of the ledger it is in and the one it belongs
  in, so that a polluted Accepted costs as much as a lost Accepted entry.
  """
  by_ledger = jnp.asarray([*weights, 0.0], jnp.float32)  # LedgerId.NONE weighs nothing
  cost = jnp.maximum(by_ledger[places.ledger], by_ledger[gold.ledger])
  return jnp.sum(jnp.where(differs(places, gold), cost, 0.0))


def quality(state: MemoryState, gold_state: MemoryState, weights: LedgerWeights) -> jax.Array:
  """Q of SPEC 5: the negative ledger-weighted distance to the gold state; float32 []."""
  return -distance(location_map(state), location_map(gold_state), weights)


def same_state(state: MemoryState, gold_state: MemoryState) -> jax.Array:
  """bool []: the canonical forms are equal; slot order and write steps do not matter."""
  return ~jnp.any(differs(location_map(state), location_map(gold_state)))
