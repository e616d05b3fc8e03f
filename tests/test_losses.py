"""Each term of the loss by hand, finite for every mask, and the counterfactual executions."""

import dataclasses
import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from small_policy import V, make_labels, random_inputs

from tarl_jax import losses
from tarl_jax.inputs import Labels, PolicyInputs, window_state
from tarl_jax.losses import COUNTERFACTUAL_FORMS, LossConfig, Term
from tarl_jax.models.policy import NUM_RELATIONS, RELATIONS, PolicyOutput
from tarl_jax.quality import LedgerWeights
from tarl_jax.types import NUM_ACTIONS, Action, Status

APPEND, NOOP, REVISE, REJECT, DEFER = (int(action) for action in Action)
NONE = V
WEIGHTS = LedgerWeights(accepted=4.0, pending=2.0, history=1.0)
WINDOWS = [(a, n) for n in range(V + 1) for a in range(n + 1)]  # (num_accepted, num_visible)


def _situations() -> list[tuple[int, int, int, int]]:
  """Every (num_accepted, num_visible, gold action, gold target) that a memory allows."""
  found = []
  for (accepted, visible), action in itertools.product(WINDOWS, range(NUM_ACTIONS)):
    if action in (REVISE, REJECT):
      targets = list(range(accepted))
    else:
      targets = [NONE] if action == APPEND else [*range(visible), NONE]
    found += [(accepted, visible, action, target) for target in targets]
  return found


SITUATIONS = _situations()
NUM_ACCEPTED, NUM_VISIBLE, GOLD, TARGET = np.array(SITUATIONS, np.int32).T


@functools.cache
def situations() -> tuple[PolicyInputs, Labels]:
  return random_inputs(1, NUM_ACCEPTED, NUM_VISIBLE), make_labels(GOLD, TARGET)


@functools.cache
def random_heads(seed: int = 0) -> dict[str, np.ndarray]:
  """What a policy would say of every situation, before `scores` becomes log_alpha."""
  rng = np.random.default_rng(seed)
  number = len(SITUATIONS)
  return {
    "action_logits": rng.normal(size=(number, NUM_ACTIONS)).astype(np.float32) * 2,
    "scores": rng.normal(size=(number, V + 1)).astype(np.float32) * 2,
    "reliability": rng.uniform(size=(number, 2)).astype(np.float32),
    "scope_logits": rng.normal(size=(number, 4)).astype(np.float32),
    "relation_logits": rng.normal(size=(number, V, NUM_RELATIONS)).astype(np.float32),
  }


def to_output(heads: dict[str, jax.Array], num_visible: jax.Array) -> PolicyOutput:
  visible = (jnp.arange(V + 1) < num_visible) | (jnp.arange(V + 1) == NONE)
  return PolicyOutput(
    action_logits=heads["action_logits"],
    log_alpha=jax.nn.log_softmax(jnp.where(visible, heads["scores"], -jnp.inf)),
    reliability=heads["reliability"],
    scope_logits=heads["scope_logits"],
    relation_logits=heads["relation_logits"],
  )


@functools.cache
def evaluator(form: str):
  """(heads, inputs, labels) -> terms [E] and the gradient of each example's total loss."""
  config = LossConfig(counterfactual_form=form, ledger_weights=WEIGHTS)

  def total(heads: dict, inputs: PolicyInputs, labels: Labels):
    output = to_output(heads, inputs.num_visible)
    terms = losses.loss_terms(output, inputs, labels, config)
    return losses.total_loss(terms, config)[0], terms

  def one(heads: dict, inputs: PolicyInputs, labels: Labels):
    (loss, terms), gradient = jax.value_and_grad(total, has_aux=True)(heads, inputs, labels)
    return terms, loss, gradient

  return jax.jit(jax.vmap(one))


def evaluate(labels: Labels, form: str = "action_slot", heads: dict | None = None):
  heads = random_heads() if heads is None else heads
  return jax.device_get(evaluator(form)(heads, situations()[0], labels))


def softmax(values) -> np.ndarray:
  values = np.exp(np.float64(values) - np.max(values))
  return values / values.sum()


def alpha_of(row: int) -> np.ndarray:
  """float64 [V + 1]: probability of each position, 0 where nothing is visible."""
  scores = random_heads()["scores"][row].astype(np.float64)
  scores[NUM_VISIBLE[row] : V] = -np.inf
  return softmax(scores)


# Terms by hand.


def test_action_target_and_scope_terms_by_hand():
  rng = np.random.default_rng(2)
  scope = rng.integers(-1, 4, len(GOLD)).astype(np.int32)
  weight = rng.choice(np.float32([0, 0.5, 1, 2]), len(GOLD))
  targets = situations()[1].targets | (rng.random((len(GOLD), V + 1)) < 0.3)
  labels = situations()[1]._replace(scope=scope, weight=weight, targets=targets)
  terms, _, _ = evaluate(labels)
  heads = random_heads()
  for row in range(len(GOLD)):
    action = -math.log(softmax(heads["action_logits"][row])[GOLD[row]])
    target = -math.log(alpha_of(row)[targets[row]].sum())
    speaks = -math.log(softmax(heads["scope_logits"][row])[scope[row]])
    known = weight[row] * (scope[row] >= 0)
    expected = {
      "action": (action * weight[row], weight[row]),
      "target": (target * weight[row], weight[row]),
      "scope": (speaks * known, known),
    }
    for name, pair in expected.items():
      found = (terms[name].sum[row], terms[name].count[row])
      assert found == pytest.approx(pair, rel=1e-4, abs=1e-5), (name, row)


def test_the_reliability_term_is_the_mean_over_what_is_known():
  rng = np.random.default_rng(3)
  true = rng.uniform(size=len(GOLD)).astype(np.float32)
  true[rng.random(len(GOLD)) < 0.4] = np.nan
  entries = rng.uniform(size=(len(GOLD), V)).astype(np.float32)
  entries[rng.random(entries.shape) < 0.4] = np.nan
  labels = situations()[1]._replace(reliability=true, entry_reliability=entries)
  terms, _, gradient = evaluate(labels)
  for row, (new, old) in enumerate(random_heads()["reliability"]):
    at_target = entries[row, TARGET[row]] if TARGET[row] != NONE else np.nan
    errors = [(new - true[row]) ** 2, (old - at_target) ** 2]
    known = [error for error in errors if not np.isnan(error)]
    assert terms["reliability"].count[row] == (1.0 if known else 0.0)
    expected = float(np.mean(known)) if known else 0.0
    assert terms["reliability"].sum[row] == pytest.approx(expected, abs=1e-6)
    np.testing.assert_array_equal(gradient["reliability"][row] != 0, ~np.isnan(errors))


def test_the_relation_term_is_the_mean_over_the_visible_entries():
  rng = np.random.default_rng(4)
  targets = situations()[1].targets | (rng.random((len(GOLD), V + 1)) < 0.3)
  resolves = rng.integers(0, V + 1, len(GOLD)).astype(np.int32)
  outcome = rng.choice(np.int32([Status.SUPERSEDED, Status.REJECTED]), len(GOLD))
  labels = situations()[1]._replace(targets=targets, resolves=resolves, outcome=outcome)
  terms, _, gradient = evaluate(labels)
  for row, (_, visible, action, _) in enumerate(SITUATIONS):
    losses_here = []
    for v in range(visible):
      name = "unrelated"
      if targets[row, v]:
        name = "same" if action == NOOP else "other_value"
      if resolves[row] == v:
        name = "same" if outcome[row] == Status.SUPERSEDED else "other_value"
      share = softmax(random_heads()["relation_logits"][row, v])[RELATIONS.index(name)]
      losses_here.append(-math.log(share))
    expected = (float(np.mean(losses_here)), 1.0) if visible else (0.0, 0.0)
    found = (terms["relation"].sum[row], terms["relation"].count[row])
    assert found == pytest.approx(expected, rel=1e-4)
    assert not gradient["relation_logits"][row, visible:].any()


def test_weight_zero_contributes_nothing_not_even_nan():
  zero = np.zeros(len(GOLD), np.float32)
  labels = situations()[1]._replace(scope=np.full(len(GOLD), 2, np.int32), weight=zero)
  for form in COUNTERFACTUAL_FORMS:
    heads = {name: np.full_like(value, np.nan) for name, value in random_heads().items()}
    terms, loss, _ = evaluate(labels, form, heads)
    assert not np.any([term for pair in terms.values() for term in pair])
    assert not np.any(loss)
    _, _, gradient = evaluate(labels, form)
    assert not any(np.any(leaf) for leaf in gradient.values())


# Finite for every mask.


@pytest.mark.parametrize("form", COUNTERFACTUAL_FORMS)
@pytest.mark.parametrize("right", ["none at all", "one", "all visible", "everything", "masked"])
def test_loss_and_gradient_are_finite_for_any_mask(form, right):
  """Whatever is right and whatever is visible, a masked softmax must not give NaN."""
  visible = np.arange(V + 1) < NUM_VISIBLE[:, None]
  base = situations()[1]
  targets = {
    "none at all": np.zeros_like(visible),
    "one": base.targets,
    "all visible": visible,
    "everything": np.ones_like(visible),
    "masked": ~visible & (np.arange(V + 1) < V),
  }[right]
  heads = {name: value * np.float32(30) for name, value in random_heads(4).items()}
  terms, loss, gradient = evaluate(base._replace(targets=targets), form, heads)
  for leaf in jax.tree.leaves((terms, loss, gradient)):
    assert np.isfinite(leaf).all()
  in_sight = (targets & (visible | (np.arange(V + 1) == V))).any(1)
  np.testing.assert_array_equal(terms["target"].count, in_sight)
  assert (terms["target"].sum >= 0).all() and not terms["target"].sum[~in_sight].any()
  # A position out of sight has probability 0 and gets no gradient.
  assert not gradient["scores"][:, :V][~visible[:, :V]].any()


# The counterfactual executions.


def plain_memory(num_accepted: int, num_visible: int) -> oracle.OracleMemory:
  memory = oracle.OracleMemory(V + 1, V + 1, V + 1, V + 1)
  for position in range(num_visible):
    action = APPEND if position < num_accepted else DEFER
    memory.execute(action, V + 1, position, 0)
  return memory


def plain_cost(places: dict, gold: dict, weights: LedgerWeights) -> float:
  """Ledger-weighted number of claims in the wrong place, or with a wrong status or link."""
  by_ledger = (*weights, 0.0)
  nowhere = (oracle.LEDGER_NONE, oracle.EMPTY, oracle.NO_CLAIM)
  total = 0.0
  for claim in set(places) | set(gold):
    here, there = places.get(claim, nowhere), gold.get(claim, nowhere)
    if here != there:
      total += max(by_ledger[here[0]], by_ledger[there[0]])
  return total


def plain_costs(make_memory, slots: list[int], gold: tuple[int, int], claim: int) -> list:
  """[S][A] costs by executing every action at every slot on a fresh memory of lists."""
  right = make_memory()
  assert right.execute(*gold, claim, 1)[:2] == (False, oracle.LEDGER_NONE)
  table = []
  for slot in slots:
    row = []
    for action in range(NUM_ACTIONS):
      memory = make_memory()
      invalid, _, _ = memory.execute(action, slot, claim, 1)
      cost = plain_cost(memory.location_map(), right.location_map(), WEIGHTS)
      row.append(max(cost, max(WEIGHTS)) if invalid else cost)
    table.append(row)
  return table


@functools.cache
def all_costs() -> np.ndarray:
  """float32 [E, V + 1, A]: costs of every situation, position and action."""
  positions = jnp.arange(V + 1, dtype=jnp.int32)
  costs_fn = functools.partial(losses.execution_costs, positions=positions, weights=WEIGHTS)
  return np.asarray(jax.jit(jax.vmap(costs_fn))(*situations()))


def test_costs_equal_executions_in_plain_lists():
  for row, (accepted, visible, action, target) in enumerate(SITUATIONS):
    expected = plain_costs(
      lambda a=accepted, n=visible: plain_memory(a, n), list(range(V + 1)), (action, target), V
    )
    np.testing.assert_array_equal(all_costs()[row], expected, err_msg=str(SITUATIONS[row]))


def test_two_rows_of_costs_by_hand():
  """Accepted holds positions 0 and 1, Pending position 2; Accepted weighs 4, History 1."""
  row = SITUATIONS.index((2, 3, REVISE, 1))
  # At the gold slot: append leaves the old entry (4) and lacks a link (4); noop lacks the
  # claim (4) and leaves the old entry (4); the two others misplace both in the same way.
  np.testing.assert_array_equal(all_costs()[row, 1], [8, 8, 0, 8, 8])
  # At position 2, which is in Pending, revise and reject_conflict are refused: like noop.
  np.testing.assert_array_equal(all_costs()[row, 2], [8, 8, 8, 8, 8])
  # At the other entry revise also loses that one.
  np.testing.assert_array_equal(all_costs()[row, 0], [8, 8, 12, 8, 8])
  row = SITUATIONS.index((2, 3, NOOP, NONE))
  np.testing.assert_array_equal(all_costs()[row, NONE], [4, 0, 4, 4, 2])


def test_the_window_agrees_with_the_whole_memory():
  """Entries out of sight stay where they are whatever is done, so they change no cost."""
  claim = 11

  def whole() -> oracle.OracleMemory:
    memory = oracle.OracleMemory(10, 6, 8, 12)
    plan = [APPEND] * 5 + [DEFER] * 3 + [REVISE, REJECT, APPEND]
    for number, action in enumerate(plan):
      assert memory.execute(action, 2, number, 0) == (False, oracle.LEDGER_NONE, oracle.EMPTY_ROW)
    return memory

  held = [slot[0] for slot in whole().accepted.slots]
  assert held[:6] == [0, 1, 8, 3, 4, 10]
  for slots, num_pending in (((5, 2, 0), 1), ((2,), 3), ((4, 3, 1, 5), 0)):
    accepted = len(slots)
    window = [
      row for row, s in enumerate(SITUATIONS) if s[:2] == (accepted, accepted + num_pending)
    ]
    slot_of = [*slots, *[10] * (V + 1 - accepted)]  # NO_SLOT for Pending, padding and none
    for row in window:
      action, target = SITUATIONS[row][2:]
      expected = plain_costs(whole, slot_of, (action, slot_of[target]), claim)
      np.testing.assert_array_equal(all_costs()[row], expected, err_msg=str(SITUATIONS[row]))


def test_the_window_holds_what_is_visible_and_nothing_can_overflow():
  for accepted, visible in WINDOWS:
    state = window_state(jax.tree.map(lambda x: x[0], random_inputs(0, [accepted], [visible])))
    memory = plain_memory(accepted, visible)
    for ledger, plain in zip((state.accepted, state.pending), memory.ledgers()):
      assert [tuple(row) for row in np.asarray(ledger.rows).T.tolist()] == plain.slots
      assert int(ledger.written) == plain.total < ledger.capacity
    assert int(state.history.written) == 0
    assert np.asarray(state.entered).tolist() == [bool(flag) for flag in memory.entered]


def test_with_the_gold_slot_the_costs_depend_on_the_gold_action_alone():
  """SPEC 5's trap: whatever is in memory, pi_cf is one of five constant rows."""
  has_entry = np.array([target < accepted for accepted, _, _, target in SITUATIONS])
  at_gold = all_costs()[np.arange(len(GOLD)), TARGET]
  pi = np.array([softmax(-row / 0.5) for row in at_gold])
  seen = set()
  for action in range(NUM_ACTIONS):
    # append has no target; the others are about an entry of Accepted here.
    rows = pi[(GOLD == action) & (has_entry | (action == APPEND))]
    assert len(rows) > 5
    assert (rows == rows[0]).all()
    assert rows[0].argmax() == action
    seen.add(tuple(rows[0]))
  assert len(seen) == NUM_ACTIONS


@pytest.mark.parametrize("form", COUNTERFACTUAL_FORMS)
def test_the_counterfactual_term_by_hand(form):
  found, _, _ = evaluate(situations()[1], form)
  tau = LossConfig().tau
  for row in range(len(GOLD)):
    costs = all_costs()[row].astype(np.float64)
    alpha, p = alpha_of(row), softmax(random_heads()["action_logits"][row])
    pi = softmax(-(costs[TARGET[row]] if form == "gold_slot" else alpha @ costs) / tau)
    pairs = sum(alpha[s] * p[a] * costs[s, a] for s in range(V + 1) for a in range(NUM_ACTIONS))
    expected = pairs if form == "action_slot" else -float(np.sum(pi * np.log(p)))
    assert found["counterfactual"].sum[row] == pytest.approx(expected, rel=2e-4, abs=1e-5)
    assert found["counterfactual"].count[row] == 1.0


def sure_heads() -> dict[str, np.ndarray]:
  """Heads whose alpha is one-hot on the gold target."""
  scores = np.full((len(GOLD), V + 1), -np.inf, np.float32)
  scores[np.arange(len(GOLD)), TARGET] = 0.0
  return random_heads() | {"scores": scores}


def test_predicted_slot_equals_gold_slot_when_alpha_is_sure_of_the_target():
  gold, _, _ = evaluate(situations()[1], "gold_slot", sure_heads())
  predicted, _, _ = evaluate(situations()[1], "predicted_slot", sure_heads())
  np.testing.assert_allclose(predicted["counterfactual"].sum, gold["counterfactual"].sum, rtol=1e-6)


def test_the_expected_cost_is_zero_for_a_policy_that_is_sure_and_right():
  sure = np.where(np.arange(NUM_ACTIONS) == GOLD[:, None], 0.0, -np.inf).astype(np.float32)
  terms, _, _ = evaluate(situations()[1], "action_slot", sure_heads() | {"action_logits": sure})
  assert not terms["counterfactual"].sum.any()


def test_only_the_action_slot_form_teaches_the_slot():
  """With every position right, the target term is flat and leaves the slot to this one."""
  everywhere = situations()[1]._replace(targets=np.ones((len(GOLD), V + 1), bool))
  moved = {
    form: np.abs(evaluate(everywhere, form)[2]["scores"]).max(1) > 1e-6
    for form in COUNTERFACTUAL_FORMS
  }
  assert not moved["gold_slot"].any() and not moved["predicted_slot"].any()
  needs_slot = np.isin(GOLD, (REVISE, REJECT, DEFER)) & (NUM_ACCEPTED > 0)
  assert moved["action_slot"][needs_slot].all()


# The sum of the terms.

TERMS = ("action", "target", "reliability", "scope", "relation", "counterfactual")


def mean_terms(values) -> dict[str, Term]:
  return {
    name: Term(jnp.float32(total), jnp.float32(count)) for name, (total, count) in values.items()
  }


def test_the_total_is_the_weighted_sum_of_the_means():
  terms = mean_terms({name: (2.0 * (i + 1), 4.0) for i, name in enumerate(TERMS)})
  weights = (1.0, 0.5, 2.0, 0.25, 3.0, 4.0)
  config = LossConfig(**dict(zip(TERMS, weights)))
  total, means = losses.total_loss(terms, config)
  assert [float(means[name]) for name in TERMS] == [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
  assert float(total) == pytest.approx(0.5 + 0.5 + 3.0 + 0.5 + 7.5 + 12.0)


@pytest.mark.parametrize("name", TERMS)
def test_a_weight_of_zero_gives_the_loss_without_the_term(name):
  terms = mean_terms({other: (i + 1.0, 2.0) for i, other in enumerate(TERMS)})
  config = dataclasses.replace(LossConfig(), **{name: 0.0})
  without = {other: term for other, term in terms.items() if other != name}
  expected = losses.total_loss(without, LossConfig())[0]
  assert float(losses.total_loss(terms, config)[0]) == pytest.approx(float(expected))


def test_without_its_weight_nothing_is_executed_for_the_counterfactual_term():
  def terms_of(heads: dict, inputs: PolicyInputs, labels: Labels) -> dict[str, Term]:
    output = to_output(heads, inputs.num_visible)
    return losses.loss_terms(output, inputs, labels, LossConfig(counterfactual=0.0))

  example = jax.tree.map(lambda leaf: leaf[0], (random_heads(), *situations()))
  assert set(jax.eval_shape(terms_of, *example)) == set(TERMS) - {"counterfactual"}


def test_a_batch_without_any_weight_has_the_loss_zero():
  terms = mean_terms({name: (0.0, 0.0) for name in TERMS})
  total, means = losses.total_loss(terms, LossConfig())
  assert float(total) == 0.0 and not any(float(mean) for mean in means.values())


def test_terms_do_not_depend_on_the_other_members_of_the_batch():
  """Rows in another order, beside other rows: the same terms, so any batch has their sum."""
  rows = np.random.default_rng(0).permutation(len(GOLD))
  inputs, labels = situations()
  before = evaluate(labels)[0]
  shuffled = jax.tree.map(lambda leaf: leaf[rows], (random_heads(), inputs, labels))
  after = jax.device_get(evaluator("action_slot")(*shuffled)[0])
  jax.tree.map(
    lambda x, y: np.testing.assert_allclose(y, x[rows], rtol=1e-6, atol=1e-6), before, after
  )
