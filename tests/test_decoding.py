"""Decoding by cost: the closed form against executed states, and choices by hand."""

import itertools

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st
from small_policy import V, random_inputs
from small_streams import random_stream
from test_judging import CAPACITIES, split_of
from test_policy import random_outputs

from tarl_jax import actions, quality
from tarl_jax.decoding import Costs, beliefs, decode, expected_costs
from tarl_jax.evaluation.decoding_curve import Run, choose, decoding_curve, draw_curve
from tarl_jax.evaluation.judging import judge_split
from tarl_jax.inputs import PolicyInputs, window_state
from tarl_jax.models.policy import PolicyOutput, decide
from tarl_jax.quality import LedgerWeights
from tarl_jax.types import Action, Claim, LedgerId, Status

NONE = V
APPEND, NOOP, REVISE, REJECT, DEFER = range(5)
WINDOWS = ((0, 0), (0, 2), (1, 1), (1, 4), (3, 4), (4, 4))  # Accepted and all that is in sight
ONE = jnp.float32(1)


def slots_of(action: int, num_accepted: int) -> list[int]:
  """What an action can bind to, written from SPEC 3."""
  live = list(range(num_accepted))
  return {REVISE: live, REJECT: live, DEFER: [*live, NONE]}.get(action, [NONE])


@jax.jit
def execute_every(inputs: PolicyInputs) -> quality.LocationMap:
  """Where each claim is after every (action, slot), by really executing it; [5 (V + 1), N]."""
  state = window_state(inputs)
  claim = Claim(claim_id=jnp.int32(NONE), step=jnp.int32(1))
  pairs = jnp.indices((5, V + 1), dtype=jnp.int32).reshape(2, -1)
  next_states, _ = jax.vmap(actions.execute, in_axes=(None, 0, 0, None))(state, *pairs, claim)
  return jax.vmap(quality.location_map)(next_states)


DISTANCES = jax.jit(
  jax.vmap(
    jax.vmap(quality.distance, in_axes=(0, None, None)), in_axes=(None, 0, None)
  )
)  # fmt: skip


def executed_costs(window: tuple[int, int], costs: Costs) -> np.ndarray:
  """Cost of choosing the second transaction where the first is right; [5 (V + 1)] squared."""
  inputs = random_inputs(0, [window[0]], [window[1]])
  places = execute_every(jax.tree.map(lambda leaf: leaf[0], inputs))
  table = np.array(DISTANCES(places, places, costs.ledgers))  # [right, chosen]
  enters = np.asarray(places.ledger)[:, NONE] == LedgerId.ACCEPTED
  return table + costs.pollution * (enters[None] & ~enters[:, None])


def transactions(num_accepted: int) -> list[tuple[int, int]]:
  return [(action, slot) for action in range(5) for slot in slots_of(action, num_accepted)]


def belief_by_hand(output: PolicyOutput, num_accepted: int) -> dict[tuple[int, int], float]:
  """p(a) alpha(s | a) of every transaction that can be executed."""
  p = np.exp(np.float64(output.action_logits) - output.action_logits.max())
  p /= p.sum()
  alpha = np.exp(np.float64(output.log_alpha))
  bound = alpha[:num_accepted].sum()
  found = {}
  for action, slot in transactions(num_accepted):
    if action in (REVISE, REJECT):
      share = alpha[slot] / bound
    elif action == DEFER:
      share = alpha[slot] if slot < num_accepted else 1 - bound
    else:
      share = 1.0
    found[action, slot] = p[action] * share
  return found


def possible_output(seed: int, window: tuple[int, int]) -> PolicyOutput:
  """A random output for the window; nothing is revised or rejected with nothing accepted."""
  outputs, accepted, visible = random_outputs(seed)
  rows = np.flatnonzero((accepted == window[0]) & (visible == window[1]))
  output = jax.tree.map(lambda leaf: leaf[rows[0]], outputs)
  cannot = np.isin(np.arange(5), (REVISE, REJECT)) & (window[0] == 0)
  logits = np.where(cannot, np.float32(-1e4), output.action_logits)
  return output._replace(action_logits=logits)


@jax.jit
def costs_and_choice(output: PolicyOutput, num_accepted, costs: Costs):
  belief = beliefs(output, num_accepted, ONE)
  return expected_costs(belief, costs), decode(output, num_accepted, ONE, costs)


DECIDE = jax.jit(decide)
WEIGHT = st.floats(0, 8, width=32)


@hypothesis.settings(derandomize=True, deadline=None, max_examples=40)
@hypothesis.given(
  st.sampled_from(WINDOWS), st.integers(0, 30), st.tuples(WEIGHT, WEIGHT, WEIGHT), WEIGHT
)
def test_the_closed_form_is_the_expected_distance_of_executed_states(window, seed, weights, dear):
  num_accepted = window[0]
  costs = Costs(LedgerWeights(*weights), dear)
  output = possible_output(seed, window)
  found, choice = jax.device_get(costs_and_choice(output, jnp.int32(num_accepted), costs))
  table = executed_costs(window, costs)
  allowed = transactions(num_accepted)
  belief = belief_by_hand(output, num_accepted)
  assert sum(belief.values()) == pytest.approx(1, abs=1e-6)
  expected = {}
  for chosen in allowed:
    column = chosen[0] * (V + 1) + chosen[1]
    expected[chosen] = sum(p * table[a * (V + 1) + s, column] for (a, s), p in belief.items())
    assert found[chosen] == pytest.approx(expected[chosen], abs=2e-4), chosen
  # What is chosen is the cheapest of all pairs, although only one slot an action is looked at.
  pair = int(choice.action), int(choice.position)
  assert expected[pair] == pytest.approx(min(expected.values()), abs=2e-4)


def test_a_cost_is_zero_for_the_same_transaction_alone():
  """So executed states of different transactions differ in every window."""
  for window in WINDOWS:
    allowed = [a * (V + 1) + s for a, s in transactions(window[0])]
    table = executed_costs(window, Costs())[np.ix_(allowed, allowed)]
    np.testing.assert_array_equal(table == 0, np.eye(len(allowed), dtype=bool))


def output_by_hand(p: list[float], alpha: list[float]) -> PolicyOutput:
  with np.errstate(divide="ignore"):
    return PolicyOutput(
      action_logits=np.log(np.float32(p)),
      log_alpha=np.log(np.float32(alpha)),
      reliability=np.float32([0.75, 0.5]),
      scope_logits=np.zeros(4, np.float32),
      relation_logits=np.zeros((V, 3), np.float32),
    )


def chosen(output: PolicyOutput, num_accepted: int, costs: Costs) -> tuple[int, int]:
  choice = costs_and_choice(output, jnp.int32(num_accepted), costs)[1]
  return int(choice.action), int(choice.position)


def test_pollution_is_avoided_once_it_is_dear():
  """append 0.6, noop 0.4: append costs 0.4 (1 + dear), noop 0.6; even at dear = 0.5."""
  output = output_by_hand([0.6, 0.4, 0, 0, 0], [0, 0, 0, 0, 1])
  assert chosen(output, 0, Costs(pollution=0.4)) == (APPEND, NONE)
  assert chosen(output, 0, Costs(pollution=0.6)) == (NOOP, NONE)


def test_what_is_not_written_settles_nothing():
  """The entry in Pending says the same, and only an append would settle it."""
  output = output_by_hand([0.6, 0.4, 0, 0, 0], [0.1, 0, 0, 0, 0.9])
  output.relation_logits[0, 1] = 9
  appended, kept_out = (
    costs_and_choice(output, jnp.int32(0), Costs(pollution=dear))[1] for dear in (0.4, 0.6)
  )
  assert (int(appended.resolves), int(appended.outcome)) == (0, Status.SUPERSEDED)
  assert (int(kept_out.resolves), int(kept_out.outcome)) == (NONE, Status.EMPTY)


def test_the_most_probable_action_can_be_the_dearest():
  """revise 0.4, append 0.35, reject 0.25, with equal slots: a revision of the wrong entry moves
  two entries too many, so it costs 0.4 (0.5 * 3) + 0.35 * 2 + 0.25 * 2 = 1.8, appending
  0.4 * 2 + 0.25 = 1.05, rejecting 0.4 * 2 + 0.35 + 0.25 * 0.5 = 1.275."""
  output = output_by_hand([0.35, 0, 0.4, 0.25, 0], [0.5, 0.5, 0, 0, 0])
  assert int(DECIDE(output, jnp.int32(2), ONE).action) == REVISE
  found = costs_and_choice(output, jnp.int32(2), Costs())[0]
  assert float(found[REVISE, 0]) == pytest.approx(1.8)
  assert float(found[APPEND, NONE]) == pytest.approx(1.05)
  assert float(found[REJECT, 1]) == pytest.approx(1.275)
  assert chosen(output, 2, Costs()) == (APPEND, NONE)


def test_with_nothing_accepted_nothing_is_revised_or_rejected():
  """Whatever the beliefs say: here all but sure of it, with two entries in Pending."""
  for action in (REVISE, REJECT):
    p = [0.01] * 5
    p[action] = 0.96
    output = output_by_hand(p, [0.5, 0.4, 0, 0, 0.1])
    for weights in ((1.0, 1.0, 1.0), (8.0, 8.0, 0.5), (0.0, 1.0, 0.0), (0.0, 0.0, 0.0)):
      assert chosen(output, 0, Costs(LedgerWeights(*weights)))[0] in (APPEND, NOOP, DEFER)


def test_a_deferred_claim_about_a_pending_entry_is_linked_to_none():
  """Position 0 is Accepted, 1 to 3 are Pending: 0.4 against 0.6 in all."""
  output = output_by_hand([0, 0, 0, 0, 1], [0.4, 0.3, 0.2, 0, 0.1])
  assert chosen(output, 1, Costs()) == (DEFER, NONE)
  assert chosen(output, 2, Costs()) == (DEFER, 0)


def test_sure_beliefs_are_decided_as_ever_and_settle_the_same():
  outputs, accepted, _ = random_outputs(5)
  both = jax.jit(
    lambda output, number: (
      decode(output, number, ONE, Costs(pollution=3.0)),
      decide(output, number, ONE),
    )
  )
  first = np.where(accepted > 0, outputs.action_logits.argmax(1), np.arange(len(accepted)) % 2)
  sure = outputs._replace(
    action_logits=np.where(np.arange(5) == first[:, None], 40, 0).astype(np.float32)
  )
  by_cost, plain = jax.device_get(jax.vmap(both)(sure, accepted))
  np.testing.assert_array_equal(by_cost.action, first)
  bound = by_cost.action != DEFER  # which counts Pending as none
  for name in ("action", "probabilities", "margin", "resolves", "outcome"):
    np.testing.assert_array_equal(getattr(by_cost, name), getattr(plain, name), err_msg=name)
  np.testing.assert_array_equal(by_cost.position[bound], plain.position[bound])
  assert (by_cost.resolves < NONE).any() and set(first) == set(range(5))
  assert {leaf.dtype for leaf in (by_cost.action, by_cost.position)} == {np.dtype(np.int32)}


def test_dearer_pollution_only_ever_takes_claims_out_of_accepted():
  outputs, accepted, _ = random_outputs(8, scale=1.0)
  impossible = (np.arange(5) // 2 == 1)[None] & (accepted[:, None] == 0)
  outputs = outputs._replace(action_logits=np.where(impossible, -1e4, outputs.action_logits))
  every = jax.jit(jax.vmap(decode, in_axes=(0, 0, None, None)))
  writes = []
  for dear in (0.0, 0.5, 2.0, 8.0, 1e4):
    action = np.asarray(every(outputs, accepted, ONE, Costs(pollution=dear)).action)
    writes.append(np.isin(action, (Action.APPEND, Action.REVISE)))
  assert all((later <= earlier).all() for earlier, later in itertools.pairwise(writes))
  assert writes[0].mean() > 0.3 and not writes[-1].any()


# The curve over a split.


@pytest.fixture(scope="module")
def points():
  split = split_of(*[random_stream(seed, 30, f"s{seed}_") for seed in range(3)])
  rng = np.random.default_rng(0)
  number = len(split.moments)
  runs = []
  for _ in range(2):
    scores = rng.normal(size=(number, V + 1)) + 2 * split.labels.targets
    hidden = np.arange(V + 1) >= split.inputs.num_visible[:, None]
    hidden[:, NONE] = False
    log_alpha = jax.nn.log_softmax(jnp.asarray(np.where(hidden, -np.inf, scores)))
    logits = 2 * rng.normal(size=(number, 5)) + 0.5 * np.eye(5)[split.labels.action]
    empty = split.inputs.num_accepted[:, None] == 0
    logits = np.where(empty & np.isin(np.arange(5), (REVISE, REJECT)), -1e4, logits)
    output = PolicyOutput(
      action_logits=logits.astype(np.float32),
      log_alpha=np.asarray(log_alpha, np.float32),
      reliability=np.zeros((number, 2), np.float32),
      scope_logits=np.zeros((number, 4), np.float32),
      relation_logits=rng.normal(size=(number, V, 3)).astype(np.float32),
    )
    runs.append(Run(output, 1.5))
  settings = (Costs(), Costs(pollution=0.4), Costs(pollution=1e6))
  return split, runs, decoding_curve(split, runs, CAPACITIES, settings)


def test_a_curve_has_a_point_for_each_setting_after_the_most_probable_action(points):
  split, runs, curve = points
  assert [point.costs and point.costs.pollution for point in curve] == [None, 0.0, 0.4, 1e6]
  for costs, point in zip((None, Costs(pollution=0.4)), (curve[0], curve[2])):
    expected = []
    for run in runs:
      one = choose(run, split.inputs.num_accepted, costs)
      verdict = judge_split(split, one, CAPACITIES)
      assert not verdict.refused.any()
      expected.append(verdict.strict[split.counts].mean())
    assert point.scores["next_state"]["mean"] == pytest.approx(np.mean(expected))
    assert point.scores["next_state"]["n"] == 2
  pollution = [point.scores["pollution"]["mean"] for point in curve[1:]]
  assert pollution[0] > pollution[1] > pollution[2] == 0, pollution
  action = choose(runs[0], split.inputs.num_accepted, None).action
  np.testing.assert_array_equal(action, runs[0].output.action_logits.argmax(1))


def test_the_curve_is_drawn(points, tmp_path):
  path = tmp_path / "curve.png"
  draw_curve(path, {"validation": points[2], "test": points[2]})
  assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 5000
