"""Metrics against scikit-learn and by hand, and the same numbers for any batching."""

import math

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sklearn.metrics

from tarl_jax import actions, ledgers, metrics
from tarl_jax.types import (
  ACTION_LABELS,
  NUM_ACTIONS,
  Action,
  Claim,
  MemoryState,
  Settling,
  Status,
)

APPEND, NOOP, REVISE, REJECT, DEFER = (int(action) for action in Action)
ROWS = 12  # fixed, so that one trace serves all examples


def random_examples(seed: int, number: int) -> dict[str, np.ndarray]:
  """Gold and predicted actions with probabilities; about one in two is right."""
  rng = np.random.default_rng(seed)
  probabilities = rng.dirichlet(np.full(NUM_ACTIONS, 0.6), number).astype(np.float32)
  gold = np.where(rng.random(number) < 0.4, probabilities.argmax(1), rng.integers(0, 5, number))
  return {
    "gold": gold.astype(np.int32),
    "predicted": probabilities.argmax(1).astype(np.int32),
    "probabilities": probabilities,
    "weight": np.ones(number, np.float32),
  }


@jax.jit
def sums(examples: dict[str, jax.Array]) -> dict[str, jax.Array]:
  """Everything that is added up over batches, as an evaluation does it."""
  gold, predicted = examples["gold"], examples["predicted"]
  probabilities, weight = examples["probabilities"], examples["weight"]
  chosen = probabilities[jnp.arange(ROWS), predicted]
  return {
    "confusion": metrics.confusion(gold, predicted, weight),
    "bins": metrics.calibration_bins(chosen, predicted == gold, weight),
    "brier": jnp.sum(weight * metrics.brier(probabilities, gold)),
    "nll": jnp.sum(weight * metrics.nll(probabilities, gold)),
    "count": jnp.sum(weight),
  }


@pytest.mark.parametrize("seed", range(3))
def test_numbers_equal_those_of_scikit_learn(seed):
  examples = random_examples(seed, ROWS)
  found = jax.device_get(sums(examples))
  gold, predicted = examples["gold"], examples["predicted"]
  present = sorted(set(gold.tolist()))
  by_class = sklearn.metrics.f1_score(
    gold, predicted, labels=range(5), average=None, zero_division=np.nan
  )
  np.testing.assert_array_equal(
    found["confusion"], sklearn.metrics.confusion_matrix(gold, predicted, labels=range(5))
  )
  np.testing.assert_allclose(metrics.per_class_f1(found["confusion"]), by_class, rtol=1e-12)
  expected = sklearn.metrics.f1_score(gold, predicted, labels=present, average="macro")
  assert metrics.macro_f1(found["confusion"]) == pytest.approx(expected, rel=1e-12)
  brier = np.sum((examples["probabilities"] - np.eye(5)[gold]) ** 2)
  assert found["brier"] == pytest.approx(brier, rel=1e-5)
  probabilities = examples["probabilities"].astype(np.float64)
  probabilities /= probabilities.sum(1, keepdims=True)
  log_loss = sklearn.metrics.log_loss(gold, probabilities, labels=range(5))
  assert found["nll"] / ROWS == pytest.approx(log_loss, rel=1e-5)


def test_brier_of_two_classes_is_twice_that_of_scikit_learn():
  p = np.array([0.9, 0.4, 0.0, 1.0], np.float32)
  gold = np.array([1, 1, 0, 0])
  probabilities = np.stack([1 - p, p, 0 * p, 0 * p, 0 * p], axis=1)
  expected = 2 * sklearn.metrics.brier_score_loss(gold, p)
  assert float(np.mean(metrics.brier(probabilities, gold))) == pytest.approx(expected, rel=1e-6)


def test_nll_has_a_floor_for_a_probability_of_zero():
  probabilities = np.array([[1, 0, 0, 0, 0], [0.25, 0.75, 0, 0, 0]], np.float32)
  found = metrics.nll(probabilities, np.array([4, 0]))
  np.testing.assert_allclose(found, [-math.log(1e-7), -math.log(0.25)], rtol=1e-6)


def test_macro_f1_by_hand():
  counts = np.zeros((5, 5))
  counts[0, 0], counts[0, 1], counts[1, 1], counts[2, 0] = 3, 1, 2, 4
  counts[1, 3] = 1  # a class that is predicted and never gold is left out of the mean
  f1 = metrics.per_class_f1(counts)
  np.testing.assert_allclose(f1[:4], [6 / 11, 4 / 6, 0, 0])
  assert np.isnan(f1[4])
  assert metrics.macro_f1(counts) == pytest.approx((6 / 11 + 4 / 6 + 0) / 3)


def bins_of(probability, correct, weight=None) -> np.ndarray:
  probability = np.asarray(probability, np.float32)
  weight = np.ones(len(probability), np.float32) if weight is None else np.float32(weight)
  return np.asarray(metrics.calibration_bins(probability, np.asarray(correct, bool), weight))


def test_a_probability_on_an_edge_belongs_to_the_bin_below():
  edges = np.arange(16) / 15
  expected = np.zeros(15)
  expected[0], expected[1:] = 2, 1  # 0 and 1/15 both lie in the first bin, 1.0 in the last
  np.testing.assert_array_equal(bins_of(edges, np.zeros(16))[:, 0], expected)


def test_ece_by_hand():
  probability = [0.05, 0.06, 0.5, 1.0, 1.0, 0.99, 0.0]
  correct = [1, 0, 1, 1, 0, 1, 0]
  bins = bins_of(probability, correct)
  np.testing.assert_array_equal(np.flatnonzero(bins[:, 0]), [0, 7, 14])
  np.testing.assert_allclose(bins[[0, 7, 14]], [[3, 0.11, 1], [1, 0.5, 1], [3, 2.99, 2]], rtol=1e-6)
  # Bin by bin |mean probability - share right|, weighted by its share of the examples.
  expected = 3 / 7 * abs(0.11 / 3 - 1 / 3) + 1 / 7 * 0.5 + 3 / 7 * abs(2.99 / 3 - 2 / 3)
  assert metrics.ece(bins) == pytest.approx(expected, rel=1e-6)


def test_a_perfectly_calibrated_bin_costs_nothing():
  assert metrics.ece(bins_of([0.75] * 4, [1, 1, 1, 0])) == pytest.approx(0.0, abs=1e-7)
  # Errors of opposite sign cancel inside a bin and not across bins.
  assert metrics.ece(bins_of([0.75, 0.25], [0, 1])) == pytest.approx(0.75)


def test_without_weight_every_number_is_undefined_and_none_is_wrong():
  examples = random_examples(5, ROWS) | {"weight": np.zeros(ROWS, np.float32)}
  found = jax.device_get(sums(examples))
  assert all(not np.any(leaf) for leaf in found.values())
  assert math.isnan(metrics.macro_f1(found["confusion"])) and math.isnan(metrics.ece(found["bins"]))
  assert np.isnan(metrics.per_class_f1(found["confusion"])).all()


def batch_of(examples: dict, rows: list[int], seed: int) -> dict:
  """The given rows first, then garbage of weight 0 up to ROWS rows."""
  padded = random_examples(seed, ROWS)
  padded["weight"][:] = 0
  for name, column in examples.items():
    padded[name][: len(rows)] = column[rows]
  return padded


@hypothesis.settings(derandomize=True, deadline=None, max_examples=60)
@hypothesis.given(
  st.integers(0, 50),
  st.lists(st.integers(0, 3), min_size=ROWS, max_size=ROWS),
  st.permutations(range(ROWS)),
)
def test_any_split_into_batches_gives_the_same_numbers(seed, batch_of_row, order):
  examples = random_examples(seed, ROWS)
  whole = jax.device_get(sums(examples))
  parts = []
  for number in range(4):
    rows = [row for row in order if batch_of_row[row] == number]
    parts.append(jax.device_get(sums(batch_of(examples, rows, seed=100 + number))))
  merged = jax.tree.map(lambda *leaves: sum(leaves), *parts)
  np.testing.assert_array_equal(merged["confusion"], whole["confusion"])
  for name in ("bins", "brier", "nll", "count"):
    np.testing.assert_allclose(merged[name], whole[name], rtol=1e-5, atol=1e-6)
  assert metrics.macro_f1(merged["confusion"]) == metrics.macro_f1(whole["confusion"])
  assert metrics.ece(merged["bins"]) == pytest.approx(metrics.ece(whole["bins"]), abs=1e-6)


@pytest.mark.parametrize("size", [1, 5, 12])
def test_batches_of_other_shapes_give_the_same_confusion_and_bins(size):
  examples = random_examples(9, 12)
  gold, predicted, weight = (examples[name] for name in ("gold", "predicted", "weight"))
  chosen = examples["probabilities"].max(1)
  whole = jax.device_get(sums(examples))
  counts, bins = np.zeros((5, 5)), np.zeros((15, 3))
  for start in range(0, 12, size):
    rows = slice(start, start + size)
    counts += np.asarray(metrics.confusion(gold[rows], predicted[rows], weight[rows]))
    right = predicted[rows] == gold[rows]
    bins += np.asarray(metrics.calibration_bins(chosen[rows], right, weight[rows]))
  np.testing.assert_array_equal(counts, whole["confusion"])
  np.testing.assert_allclose(bins, whole["bins"], rtol=1e-6)


# judge: Accepted holds claims 0, 1, 2 in slots 0, 1, 2; Pending holds 3. Claim 4 comes in.
JUDGE = jax.jit(jax.vmap(metrics.judge, in_axes=(None, None, 0, 0, 0, 0, 0, 0)))
NONE = 4


@pytest.fixture(scope="module")
def memory() -> MemoryState:
  state = ledgers.init_state(4, 2, 2, 6)
  for number, action in enumerate((APPEND, APPEND, APPEND, DEFER)):
    claim = Claim(claim_id=jnp.int32(number), step=jnp.int32(number))
    state, _ = actions.execute(state, jnp.int32(action), jnp.int32(NONE), claim)
  return state


VERDICTS = {
  # name: (gold action, gold slots), (action, slot), what is true of the verdict
  "append": ((APPEND, (4, 4)), (APPEND, NONE), "strict setwise"),
  "append ignores its slot": ((APPEND, (4, 4)), (APPEND, 1), "strict setwise"),
  "append for noop": ((NOOP, (0, 0)), (APPEND, NONE), "outside polluted"),
  "append for revise": ((REVISE, (0, 0)), (APPEND, NONE), ""),
  "noop": ((NOOP, (1, 1)), (NOOP, 1), "strict setwise outside"),
  "noop says it of any entry": ((NOOP, (1, 1)), (NOOP, NONE), "strict setwise outside"),
  "refused for noop": ((NOOP, (1, 1)), (REVISE, NONE), "outside refused"),
  "refused in a free slot": ((NOOP, (1, 1)), (REJECT, 3), "outside refused"),
  "no action at all": ((NOOP, (1, 1)), (7, 0), "outside refused"),
  "revise": ((REVISE, (1, 1)), (REVISE, 1), "strict setwise"),
  "revise of another": ((REVISE, (1, 1)), (REVISE, 0), ""),
  "revise of another right one": ((REVISE, (1, 2)), (REVISE, 2), "setwise"),
  "reject": ((REJECT, (2, 2)), (REJECT, 2), "strict setwise outside conflict preserved"),
  "reject for another entry": ((REJECT, (2, 2)), (REJECT, 0), "outside conflict preserved"),
  "reject for another right one": (
    (REJECT, (2, 0)), (REJECT, 0), "setwise outside conflict preserved",
  ),
  "reject as append": ((REJECT, (2, 2)), (APPEND, NONE), "outside polluted conflict"),
  "trusted entry replaced": ((REJECT, (2, 2)), (REVISE, 2), "outside polluted conflict"),
  "other entry replaced": ((REJECT, (2, 2)), (REVISE, 0), "outside polluted conflict"),
  "reject as noop": ((REJECT, (2, 2)), (NOOP, NONE), "outside conflict"),
  "reject as defer": ((REJECT, (2, 2)), (DEFER, 2), "outside conflict"),
  # The further target has left Accepted: doing nothing is no right answer for it.
  "dead further target": ((REJECT, (2, 4)), (NOOP, NONE), "outside conflict"),
  "dead further target, revise": ((REVISE, (2, 4)), (NOOP, NONE), ""),
  "defer": ((DEFER, (4, 4)), (DEFER, NONE), "strict setwise outside"),
  "defer about an entry": ((DEFER, (0, 0)), (DEFER, 0), "strict setwise outside"),
  "defer about another": ((DEFER, (0, 0)), (DEFER, NONE), "outside"),
  "defer about another right one": ((DEFER, (0, 4)), (DEFER, NONE), "setwise outside"),
}  # fmt: skip


def settlings(number: int, slot: int = 2, status: int = Status.EMPTY) -> Settling:
  """The same settling `number` times; by default of nothing (Pending has two slots)."""
  return Settling(jnp.full(number, slot, jnp.int32), jnp.full(number, int(status), jnp.int32))


def test_verdicts_by_hand(memory):
  gold, slots, action, slot = [], [], [], []
  for (gold_action, gold_slots), (predicted, predicted_slot), _ in VERDICTS.values():
    gold.append(gold_action), slots.append(gold_slots)
    action.append(predicted), slot.append(predicted_slot)
  claim = Claim(claim_id=jnp.int32(4), step=jnp.int32(4))
  columns = [jnp.asarray(column, jnp.int32) for column in (gold, slots, action, slot)]
  nothing = settlings(len(VERDICTS))
  verdict = jax.device_get(JUDGE(memory, claim, *columns, nothing, nothing))
  for row, (name, (_, _, expected)) in enumerate(VERDICTS.items()):
    found = [field for field in verdict._fields if getattr(verdict, field)[row]]
    assert sorted(found) == sorted(expected.split()), name


def test_a_full_ledger_refuses_and_is_never_right(memory):
  claim = Claim(claim_id=jnp.int32(4), step=jnp.int32(4))
  state, _ = actions.execute(memory, jnp.int32(APPEND), jnp.int32(NONE), claim)
  claim = Claim(claim_id=jnp.int32(5), step=jnp.int32(5))
  columns = [jnp.asarray(column, jnp.int32) for column in ([NOOP], [(4, 4)], [APPEND], [NONE])]
  padded = [jnp.broadcast_to(column, (len(VERDICTS), *column.shape[1:])) for column in columns]
  nothing = settlings(len(VERDICTS))
  verdict = jax.tree.map(lambda leaf: bool(leaf[0]), JUDGE(state, claim, *padded, nothing, nothing))
  assert verdict.refused and not verdict.strict and not verdict.polluted


# (gold action, slot, what it settles), the same predicted, what is true of the verdict. Claim
# 3 waits in Pending slot 0; slot 2 is NO_SLOT.
NOTHING = (2, Status.EMPTY)
CONFIRM, CONTRADICT = (0, Status.SUPERSEDED), (0, Status.REJECTED)
SETTLED = {
  "right": ((APPEND, NONE, CONFIRM), (APPEND, NONE, CONFIRM), "strict setwise"),
  "other outcome": ((APPEND, NONE, CONFIRM), (APPEND, NONE, CONTRADICT), ""),
  "left": ((APPEND, NONE, CONFIRM), (APPEND, NONE, NOTHING), ""),
  "settled too much": ((APPEND, NONE, NOTHING), (APPEND, NONE, CONTRADICT), ""),
  "by a revise": ((REVISE, 1, CONTRADICT), (REVISE, 1, CONTRADICT), "strict setwise"),
  "right, and another target": ((REVISE, 1, CONTRADICT), (REVISE, 0, CONTRADICT), ""),
  "by no action that may": ((NOOP, 1, NOTHING), (NOOP, 1, CONFIRM), "outside refused"),
  "a dead slot": ((APPEND, NONE, NOTHING), (APPEND, NONE, (1, Status.REJECTED)), "refused"),
}


@pytest.mark.parametrize("name", SETTLED)
def test_a_wrong_or_missed_settling_makes_the_next_state_wrong(memory, name):
  (gold_action, gold_slot, gold), (action, slot, predicted), expected = SETTLED[name]
  claim = Claim(claim_id=jnp.int32(4), step=jnp.int32(4))
  number = len(VERDICTS)  # one compilation for all
  columns = [
    jnp.full((number, *shape), value, jnp.int32)
    for value, shape in ((gold_action, ()), (gold_slot, (2,)), (action, ()), (slot, ()))
  ]
  both = (settlings(number, *gold), settlings(number, *predicted))
  verdict = jax.device_get(JUDGE(memory, claim, *columns, *both))
  found = [field for field in verdict._fields if getattr(verdict, field)[0]]
  assert sorted(found) == sorted(expected.split())


FIT = jax.jit(metrics.fit_temperature)


def mean_nll(action_logits, gold, temperature) -> float:
  log_p = np.asarray(jax.nn.log_softmax(action_logits / np.float32(temperature)), np.float64)
  return float(-np.mean(log_p[np.arange(len(gold)), gold]))


@pytest.mark.parametrize("true", [0.5, 1.0, 1.7, 3.0])
def test_a_known_temperature_is_found(true):
  rng = np.random.default_rng(3)
  calibrated = rng.normal(size=(8000, 5)).astype(np.float32) * 1.5
  gumbel = rng.gumbel(size=calibrated.shape)
  gold = (calibrated + gumbel).argmax(1).astype(np.int32)  # drawn from softmax(calibrated)
  found = float(FIT(jnp.asarray(calibrated * np.float32(true)), gold, np.ones(8000, np.float32)))
  assert found == pytest.approx(true, rel=0.08)


def test_a_fitted_temperature_never_worsens_nll():
  for seed in range(20):
    rng = np.random.default_rng(seed)
    action_logits = (rng.normal(size=(8000, 5)) * rng.uniform(0.1, 8)).astype(np.float32)
    gold = rng.integers(0, 5, 8000).astype(np.int32)
    found = float(FIT(jnp.asarray(action_logits), gold, np.ones(8000, np.float32)))
    assert 0.25 <= found <= 4.0 + 1e-5
    fitted, plain = mean_nll(action_logits, gold, found), mean_nll(action_logits, gold, 1.0)
    assert fitted <= plain + 1e-6


def test_padding_does_not_move_the_temperature():
  rng = np.random.default_rng(1)
  action_logits = rng.normal(size=(8000, 5)).astype(np.float32) * 3
  gold = rng.integers(0, 5, 8000).astype(np.int32)
  weight = (np.arange(8000) < 4000).astype(np.float32)
  other = action_logits.copy()
  other[4000:] = other[4000:, ::-1] * 50
  found = [float(FIT(jnp.asarray(rows), gold, weight)) for rows in (action_logits, other)]
  assert found[0] == found[1]


def test_labels_of_the_confusion_are_in_action_order():
  counts = metrics.confusion(jnp.array([REVISE]), jnp.array([DEFER]), jnp.ones(1))
  row, column = np.argwhere(np.asarray(counts))[0]
  assert (ACTION_LABELS[row], ACTION_LABELS[column]) == ("revise", "defer_verify")
