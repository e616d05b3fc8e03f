"""The policy's rollout: two ways to every answer, on the gold path and off it."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from small_rollouts import (
  CAPACITIES,
  LENGTH,
  PADDED,
  PARAMS,
  POLICY,
  RUN,
  SEEDS,
  WIDTH,
  V,
  Walk,
  arguments,
  claims_of,
  compiled,
  looks_of,
  narrowed,
  random_transactions,
  repeating_stream,
  run,
  start,
  table_of,
)
from small_streams import rows_of_pairs, texts_of

from tarl_jax import quality
from tarl_jax.data.examples import featurize
from tarl_jax.data.moments import Moment, _gold_rollout, gold_transactions, stream_moments
from tarl_jax.models.policy import decide
from tarl_jax.policy_rollout import choose_by_policy, evicted_rows, make_rollout, run_chunks
from tarl_jax.tracking import NOWHERE, places_of, track
from tarl_jax.types import NO_CLAIM, Action, LedgerId


@jax.jit
@jax.vmap
def read_off(state):
  """Location maps and places, both built anew from the whole state."""
  maps = quality.location_map(state)
  return jnp.stack([maps.ledger, maps.status, maps.link], axis=-1), track(state).where


@functools.cache
def random_run(seed: int):
  """(transactions, carry, report) of random transactions over a stream with repeated texts."""
  transactions = random_transactions(seed)
  return transactions, *run(looks_of(table_of(repeating_stream(seed))), transactions)


@pytest.mark.parametrize("seed", SEEDS)
def test_on_the_gold_path_inputs_are_those_of_featurize_and_states_those_of_rollout(seed):
  stream = repeating_stream(seed)
  texts, table = texts_of(stream), table_of(stream)
  moments = stream_moments([stream], texts.vectors(), CAPACITIES, V)
  expected, _ = featurize(moments, texts, V, rows_of_pairs)
  gold = gold_transactions(stream, PADDED)
  carry, report = run(looks_of(table), gold, claims=claims_of(table))
  found = jax.tree.map(lambda leaf: leaf[:LENGTH], report.said[0].inputs)
  chex.assert_trees_all_equal(found, expected)
  chex.assert_trees_all_equal_shapes_and_dtypes(found, expected)
  steps, _ = _gold_rollout(start().memory.state, jax.tree.map(jnp.asarray, gold))  # `rollout`
  after = jax.tree.map(lambda leaf: leaf[:-1], report.after[0].state)
  chex.assert_trees_all_equal(after, jax.tree.map(lambda leaf: leaf[1:], steps.state))
  chex.assert_trees_all_equal(carry.memory.state, jax.tree.map(lambda leaf: leaf[-1], steps.state))
  chex.assert_trees_all_equal(report.info, steps.info)
  chex.assert_trees_all_equal(report.settled, steps.settled)
  assert np.all(report.exact)
  ties = [len(set(row)) < len(row) for row in (r[r > -2] for r in table.near.similarity)]
  assert sum(ties) > LENGTH // 2


@pytest.mark.parametrize("seed", range(6))
def test_off_the_gold_path_a_walk_over_plain_lists_sees_and_does_the_same(seed):
  transactions, _, report = random_run(seed)
  stream = repeating_stream(seed)
  vectors = texts_of(stream).vectors()
  table = np.stack([vectors[claim.text] for claim in stream.claims])
  similarity, nowhere = table @ table.T, tuple(NOWHERE[:3].tolist())
  walk, left = Walk(), []
  for step in range(LENGTH):
    entries, num_accepted = walk.sight(similarity[step])
    assert report.said[0].entries[step].tolist() == entries + [NO_CLAIM] * (V - len(entries))
    assert report.said[0].inputs.num_accepted[step] == num_accepted
    assert report.num_visible[step] == len(entries)
    _, gone, _ = walk.transact(tuple(int(field[step]) for field in transactions), step)
    left += gone
    places = walk.memory.location_map()
    found = [tuple(row) for row in report.after[0].where[step, :, :3].tolist()]
    assert found == [places.get(claim_id, nowhere) for claim_id in range(PADDED)]
  assert [tuple(row) for row in evicted_rows(report).tolist()] == left


def test_the_transactions_above_are_of_every_kind():
  reports = [random_run(seed)[2] for seed in range(6)]
  overflow = np.concatenate([report.info.overflow for report in reports]).tolist()
  assert {LedgerId.ACCEPTED, LedgerId.PENDING} <= set(overflow)
  assert sum(np.sum(report.info.invalid) for report in reports) > 5
  assert sum(np.sum(report.settled.invalid) for report in reports) > 1
  pairs = [np.stack([r.info.evicted.claim_id, r.settled.evicted.claim_id]) for r in reports]
  both = np.concatenate(pairs, axis=1) != NO_CLAIM
  assert both.sum() > 10 and np.any(both.all(axis=0))


@pytest.mark.parametrize("seed", range(6))
def test_where_every_claim_is_equals_the_full_comparison_at_every_step(seed):
  memory, touched = random_run(seed)[2].after
  maps, where = read_off(memory.state)
  np.testing.assert_array_equal(memory.where[..., :3], maps)
  np.testing.assert_array_equal(memory.where, where)  # slots as well
  for step in range(1, PADDED):  # what was not touched did not move
    moved = np.any(memory.where[step] != memory.where[step - 1], axis=1)
    assert set(np.flatnonzero(moved)) <= set(touched[step].tolist())


def test_places_of_what_is_no_claim():
  claims = jnp.array([-1, PADDED, NO_CLAIM, PADDED - 1], jnp.int32)
  memory = jax.tree.map(jnp.asarray, random_run(0)[1].memory)
  np.testing.assert_array_equal(places_of(memory, claims), [NOWHERE] * 4)


@pytest.mark.parametrize("width", [V, V + 3])
def test_a_narrow_table_is_exact_where_it_says_so(width):
  right, wrong, careful = 0, 0, 0
  for seed in range(6):
    transactions, _, full = random_run(seed)
    looks = narrowed(looks_of(table_of(repeating_stream(seed))), width)
    _, narrow = run(looks, transactions)
    same = np.all(full.said[0].entries == narrow.said[0].entries, axis=1)
    assert np.all(full.exact) and np.all(same[narrow.exact])
    assert np.all(narrow.exact[LENGTH:])  # nothing is decided there
    right, wrong = right + np.sum(narrow.exact[:LENGTH]), wrong + np.sum(~same)
    careful += np.sum(same & ~narrow.exact)
  assert right > 30 and wrong > 5 and careful < right


def test_a_tie_at_the_edge_of_the_table_is_not_exact():
  looks = narrowed(looks_of(table_of(repeating_stream(0))), V)
  last = looks.similarity[:, V - 1]
  beyond = np.where(np.arange(PADDED) % 2 == 0, last, np.nextafter(last, np.float32(-2)))
  gold = gold_transactions(repeating_stream(0), PADDED)
  everything = gold._replace(action=np.zeros(PADDED, np.int32), resolves=gold.resolves * 0 - 1)
  _, report = run(looks._replace(beyond=beyond), everything)
  # Until Accepted is full all neighbours are in memory; the first V + 1 steps see all there is.
  assert report.exact[: V + 1].all()
  for step in range(V + 1, CAPACITIES.accepted + 1):
    assert report.exact[step] == (step % 2 == 1)


def walk_by_policy(stream):
  """Transactions of the policy, from `featurize` and `decide` over a memory in plain lists."""
  (weight, temperature), texts, walk = PARAMS, texts_of(stream), Walk()
  vectors = texts.vectors()
  table = np.stack([vectors[claim.text] for claim in stream.claims])
  similarity = table @ table.T
  answer = jax.jit(
    lambda inputs: decide(POLICY.apply(weight, inputs), inputs.num_accepted, temperature)
  )
  for step, candidate in enumerate(stream.claims):
    ids, num_accepted = walk.sight(similarity[step])
    moment = Moment(candidate, tuple(stream.claims[i] for i in ids), (), num_accepted, None, ())
    inputs, _ = featurize([moment], texts, V, rows_of_pairs)
    decision = answer(jax.tree.map(lambda leaf: leaf[0], inputs))
    named = ids + [int(NO_CLAIM)] * (V + 1 - len(ids))
    target, resolves = named[int(decision.position)], named[int(decision.resolves)]
    row = (int(decision.action), target, step, resolves, int(decision.outcome))
    walk.transact(row, step)
    yield row, walk.memory.location_map()


def test_a_policy_goes_the_way_that_a_python_loop_goes():
  stream = repeating_stream(1, WIDTH)
  table = table_of(stream)
  _, report = run(looks_of(table), claims=claims_of(table))
  nowhere, actions = tuple(NOWHERE[:3].tolist()), []
  for step, (row, places) in enumerate(walk_by_policy(stream)):
    assert tuple(int(field[step]) for field in report.transaction) == row
    found = [tuple(row) for row in report.after[0].where[step, :, :3].tolist()]
    assert found == [places.get(claim_id, nowhere) for claim_id in range(PADDED)]
    actions.append(row[0])
  assert set(actions) == set(Action)
  assert np.sum(report.transaction.resolves != NO_CLAIM) > 0
  assert report.said[1].probabilities.shape == (PADDED, len(Action))


def equations(jaxpr):
  """All equations of a jaxpr and of those within it."""
  for equation in jaxpr.eqns:
    inner = list(jax.extend.core.jaxprs_in_params(equation.params))
    if not inner:
      yield equation
    for part in inner:
      yield from equations(part)


def test_the_work_of_a_step_does_not_grow_with_the_stream():
  """Only scatters make what is as long as the claim table, and they need no copy of it."""
  only = make_rollout(choose_by_policy(POLICY), V)
  whole = jax.make_jaxpr(only)(*arguments(looks_of(table_of(repeating_stream(0)))))
  (scan,) = [equation for equation in whole.eqns if equation.primitive.name == "scan"]
  made = [
    equation.primitive.name
    for equation in equations(scan.params["jaxpr"].jaxpr)
    if any(PADDED in out.aval.shape for out in equation.outvars)
  ]
  assert made == ["scatter", "scatter"]
  loops, _ = compiled().as_text().split("ENTRY ")
  assert f"s32[{PADDED},4]" in loops
  assert f"s32[{PADDED},4]{{1,0}} copy(" not in loops


@pytest.mark.parametrize("size", [5, 8])
def test_chunks_give_what_one_run_gives(size):
  transactions, whole_carry, whole = random_run(1)
  looks = looks_of(table_of(repeating_stream(1)))
  parts = np.arange(PADDED) // size

  def run_part(params, claims, carry, looks, part):
    """The steps of one chunk; what lies outside it is padding, so that nothing compiles."""
    now = parts == part
    piece = looks._replace(claim_id=np.where(now, looks.claim_id, NO_CLAIM))
    carry, report = run(piece, transactions, claims=claims, carry=carry)
    return carry, jax.tree.map(lambda leaf: leaf[now], report)

  pieces = [(looks, part) for part in range(parts[-1] + 1)]
  claims = claims_of(table_of(repeating_stream(0)))
  carry, report = run_chunks(run_part, None, claims, start(), pieces)
  chex.assert_trees_all_equal(carry, whole_carry)
  chex.assert_trees_all_equal(report, whole)


def test_padding_changes_no_bit():
  transactions, carry, _ = random_run(2)
  nothing = looks_of(table_of(repeating_stream(2)))._replace(claim_id=np.full(PADDED, NO_CLAIM))
  again, report = run(nothing, transactions, carry=carry)
  chex.assert_trees_all_equal(again, carry)
  assert set(report.transaction.action.tolist()) == {Action.NOOP}
  assert not np.any(report.info.invalid) and not np.any(report.settled.invalid)
  assert len(evicted_rows(report)) == 0


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_lost_that_history_had_no_room_for(seed):
  _, carry, report = random_run(seed)
  rows, state = evicted_rows(report), carry.memory.state
  held = [ledger.claim_id for ledger in (state.accepted, state.pending, state.history)]
  present = np.concatenate([*held, rows[:, 0]])
  assert sorted(present[present != NO_CLAIM].tolist()) == np.flatnonzero(state.entered).tolist()
  assert set(rows[:, 1].tolist()) <= {oracle.SUPERSEDED, oracle.REJECTED}


def test_what_follows_a_transition_may_change_the_memory_and_carries_its_own():
  stream = repeating_stream(SEEDS[0])
  gold, looks = gold_transactions(stream, PADDED), looks_of(table_of(stream))
  (_, before), (carry, after) = run(looks, gold), run(looks, gold, forget_at=0)
  assert int(carry.extra) == LENGTH
  assert gold.action[0] == Action.APPEND and np.any(before.said[0].entries == 0)
  assert not np.any(after.said[0].entries == 0)
  assert carry.memory.where[0].tolist() == NOWHERE.tolist()


def test_too_few_neighbours_are_refused():
  table = table_of(repeating_stream(0), V - 1)
  with pytest.raises(ValueError, match="3 neighbours cannot fill 4 visible entries"):
    jax.eval_shape(RUN, *arguments(looks_of(table), random_transactions(0)))


@pytest.mark.parametrize("action", [np.zeros(PADDED, np.float32), np.zeros((PADDED, 1), np.int32)])
def test_what_is_chosen_must_be_int32_scalars(action):
  bare = make_rollout(lambda params, seen, given: (given, None), V)
  given = random_transactions(0)._replace(action=action)
  looks = looks_of(table_of(repeating_stream(0)))
  with pytest.raises(ValueError, match=r"int32 \[\] for 'action', got"):
    jax.eval_shape(bare, *arguments(looks)[:-1], given)
