"""The scan against a Python loop and the oracle, and the search for a target's slot."""

import random

import chex
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest

from tarl_jax import actions, ledgers
from tarl_jax import settling as settling_module
from tarl_jax.rollout import Transactions, count_refusals, find_pending_slot, find_slot, rollout
from tarl_jax.types import NO_CLAIM, Claim, Settling

SIZES = (3, 2, 2, 24)
STEPS = 30
JIT_ROLLOUT = jax.jit(rollout)


def random_stream(seed: int) -> Transactions:
  """Targets are mostly entries that are in Accepted by then, else any claim or none; what is
  settled is mostly in Pending by then."""
  rng, memory = random.Random(seed), oracle.OracleMemory(*SIZES)
  rows = []
  for step in range(STEPS):
    held = [row[0] for row in memory.accepted.rows()]
    anything = [NO_CLAIM, -1, *range(step + 1)]
    target = rng.choice(held if held and rng.random() < 0.7 else anything)
    slot = held.index(target) if target in held else SIZES[0]
    waiting = [row[0] for row in memory.pending.rows()]
    resolves = rng.choice(waiting if waiting and rng.random() < 0.5 else [NO_CLAIM] * 9 + [step])
    status = rng.choice((oracle.SUPERSEDED, oracle.REJECTED, oracle.REJECTED, oracle.PENDING))
    rows.append((rng.randrange(5), int(target), step % SIZES[3], int(resolves), status))
    pending_slot = waiting.index(resolves) if resolves in waiting else SIZES[1]
    memory.transact(rows[-1][0], slot, rows[-1][2], step, pending_slot, status)
  return Transactions(*jnp.asarray(rows, jnp.int32).T)


@pytest.mark.parametrize("seed", range(3))
def test_scan_equals_a_loop_and_the_oracle(seed):
  stream = random_stream(seed)
  final, steps = JIT_ROLLOUT(ledgers.init_state(*SIZES), stream)
  state, memory = ledgers.init_state(*SIZES), oracle.OracleMemory(*SIZES)
  names = ("invalid", "overflow_accepted", "overflow_pending", "unsettled", "evicted")
  refusals = dict.fromkeys(names, 0)
  for number in range(STEPS):
    action, target, claim_id, resolves, status = (int(field[number]) for field in stream)
    here = jax.tree.map(lambda leaf: leaf[number], steps)  # noqa: B023
    chex.assert_trees_all_equal(here.state, state)
    held = [row[0] for row in memory.accepted.slots]
    expected_slot = held.index(target) if target in held and target != NO_CLAIM else SIZES[0]
    assert int(here.slot) == expected_slot
    claim = Claim(claim_id=jnp.int32(claim_id), step=jnp.int32(number))
    waiting = [row[0] for row in memory.pending.slots]
    found = resolves in waiting and resolves != NO_CLAIM
    pending_slot = waiting.index(resolves) if found else SIZES[1]
    assert int(here.pending_slot) == pending_slot
    settling = Settling(jnp.int32(pending_slot), jnp.int32(status))
    state, info, settled = settling_module.transact(
      state, jnp.int32(action), jnp.int32(expected_slot), claim, settling
    )
    chex.assert_trees_all_equal(here.info, info)
    chex.assert_trees_all_equal(here.settled.evicted, settled.evicted)
    invalid, overflow, left, unsettled, also_left = memory.transact(
      action, expected_slot, claim_id, number, pending_slot, status
    )
    unsettled |= resolves != NO_CLAIM and not found
    assert bool(here.settled.invalid) == unsettled
    refusals["unsettled"] += unsettled
    refusals["evicted"] += also_left != oracle.EMPTY_ROW
    refusals["invalid"] += invalid
    refusals["overflow_accepted"] += overflow == oracle.LEDGER_ACCEPTED
    refusals["overflow_pending"] += overflow == oracle.LEDGER_PENDING
    refusals["evicted"] += left != oracle.EMPTY_ROW
  chex.assert_trees_all_equal(final, state)
  for ledger, plain in zip((final.accepted, final.pending, final.history), memory.ledgers()):
    assert [tuple(row) for row in np.asarray(ledger.rows).T.tolist()] == plain.slots
  assert {name: int(value) for name, value in count_refusals(steps).items()} == refusals


def test_the_streams_above_are_refused_in_every_way():
  totals = np.zeros(5, int)
  for seed in range(3):
    _, steps = JIT_ROLLOUT(ledgers.init_state(*SIZES), random_stream(seed))
    totals += [int(value) for value in count_refusals(steps).values()]
  assert (totals > 0).all()


def test_batched_rollouts_equal_single_ones():
  streams = [random_stream(seed) for seed in range(3)]
  stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *streams)
  state = ledgers.init_state(*SIZES)
  batched = jax.jit(jax.vmap(rollout, in_axes=(None, 0)))(state, stacked)
  for member, stream in enumerate(streams):
    one = jax.tree.map(lambda leaf: leaf[member], batched)  # noqa: B023
    chex.assert_trees_all_equal(one, JIT_ROLLOUT(state, stream))


def test_find_slot_of_each_claim_and_of_none():
  state = ledgers.init_state(4, 2, 2, num_claims=30)
  for step, claim_id in enumerate((21, 4, 9)):
    claim = Claim(claim_id=jnp.int32(claim_id), step=jnp.int32(step))
    state, _ = actions.append(state, claim, jnp.int32(0))
  claim = Claim(claim_id=jnp.int32(5), step=jnp.int32(3))
  state, _ = actions.defer_verify(state, claim, jnp.int32(0))
  wanted = {21: 0, 4: 1, 9: 2}
  # 5 is in Pending, NO_CLAIM is what free slots hold, 0 is a status, 1000 is nothing.
  for claim_id in (21, 4, 9, 5, int(NO_CLAIM), 0, -1, 1000):
    slot = find_slot(state, jnp.int32(claim_id))
    assert int(slot) == wanted.get(claim_id, state.accepted.no_slot)
    assert slot.dtype == jnp.int32 and not slot.weak_type
    waiting = find_pending_slot(state, jnp.int32(claim_id))
    assert int(waiting) == (0 if claim_id == 5 else state.pending.no_slot)


def test_a_stream_can_be_cut_anywhere_when_the_steps_are_only_labels():
  stream = random_stream(5)
  whole, _ = JIT_ROLLOUT(ledgers.init_state(*SIZES), stream)
  middle, _ = rollout(ledgers.init_state(*SIZES), Transactions(*(f[:11] for f in stream)))
  joined, _ = rollout(middle, Transactions(*(f[11:] for f in stream)))
  for ledger, other in ((whole.accepted, joined.accepted), (whole.history, joined.history)):
    chex.assert_trees_all_equal(ledger.rows[:3], other.rows[:3])  # all but the step
    chex.assert_trees_all_equal(ledger.written, other.written)
