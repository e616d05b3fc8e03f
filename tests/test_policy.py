"""The policy: order and padding of the entries, batching, dropout, and what it binds to."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_policy import MODEL, V, params, policy, random_inputs, sizes

from tarl_jax.models import policy as policy_module
from tarl_jax.models.policy import Decision, PolicyOutput, decide, make_policy
from tarl_jax.types import NUM_ACTIONS, Action, Status

APPEND, NOOP, REVISE, REJECT, DEFER = (int(action) for action in Action)
NONE = V
WINDOWS = [(a, n) for n in range(V + 1) for a in range(n + 1)]
PER_ENTRY = ("entries", "pair_signals", "time_signals", "entry_source", "pair_source")


@pytest.fixture(scope="module")
def batch_fn():
  """(inputs with a leading [E = 15]) -> outputs."""
  apply = jax.jit(jax.vmap(policy().apply, in_axes=(None, 0)))
  return lambda inputs: jax.device_get(apply(params(), inputs))


@pytest.fixture(scope="module")
def one_fn():
  return jax.jit(policy().apply)


@pytest.fixture(scope="module")
def inputs():
  return random_inputs(3, *np.array(WINDOWS).T)


def visible_part(output: PolicyOutput, num_visible: np.ndarray) -> PolicyOutput:
  """The output with zeros where it says something of a position that holds no entry."""
  visible = (np.arange(V) < num_visible[:, None])[..., None]
  return output._replace(relation_logits=np.where(visible, output.relation_logits, 0))


def close(left, right, tolerance: float = 2e-5) -> None:
  chex.assert_trees_all_close(left, right, rtol=tolerance, atol=tolerance)


def test_outputs_are_finite_with_the_documented_shapes(batch_fn, inputs):
  output = batch_fn(inputs)
  number = len(WINDOWS)
  assert output.action_logits.shape == (number, NUM_ACTIONS)
  assert output.log_alpha.shape == (number, V + 1)
  assert output.scope_logits.shape == (number, 4)
  assert output.relation_logits.shape == (number, V, 3)
  assert output.margin.shape == (number,)
  assert all(leaf.dtype == np.float32 for leaf in jax.tree.leaves(output))
  for leaf in (
    output.action_logits,
    output.scope_logits,
    output.reliability,
    output.relation_logits,
  ):
    assert np.isfinite(leaf).all()
  assert (output.reliability > 0).all() and (output.reliability < 1).all()
  np.testing.assert_array_equal(output.margin, output.reliability[:, 0] - output.reliability[:, 1])


def test_what_is_not_visible_has_probability_zero_and_the_rest_sums_to_one(batch_fn, inputs):
  """With nothing visible all of it is on "none"."""
  alpha = np.exp(batch_fn(inputs).log_alpha)
  visible = np.arange(V) < inputs.num_visible[:, None]
  assert (alpha[:, :V][~visible] == 0).all()
  assert (alpha[:, :V][visible] > 0).all()
  np.testing.assert_allclose(alpha.sum(1), 1.0, rtol=1e-6)
  assert (alpha[inputs.num_visible == 0, NONE] == 1).all()


def test_the_order_of_entries_inside_a_ledger_does_not_matter(batch_fn, inputs):
  before = batch_fn(inputs)
  rng = np.random.default_rng(0)
  order = np.tile(np.arange(V + 1), (len(WINDOWS), 1))
  for row, (accepted, visible) in enumerate(WINDOWS):
    order[row, :accepted] = rng.permutation(accepted)
    order[row, accepted:visible] = accepted + rng.permutation(visible - accepted)
  assert (order != np.arange(V + 1)).any(1).sum() >= 5
  changed = {
    name: np.take_along_axis(getattr(inputs, name), order[:, :V, None], axis=1)
    for name in PER_ENTRY
  }
  after = batch_fn(inputs._replace(**changed))
  close(after.log_alpha, np.take_along_axis(before.log_alpha, order, axis=1))
  relations = np.take_along_axis(before.relation_logits, order[:, :V, None], axis=1)
  close(after.relation_logits, relations)
  same = {"log_alpha": before.log_alpha, "relation_logits": before.relation_logits}
  close(after._replace(**same), before)


def test_the_ledger_of_an_entry_matters(batch_fn, inputs):
  """Otherwise the test above would hold for a policy that is blind to the ledgers."""
  fewer = inputs._replace(num_accepted=np.maximum(inputs.num_accepted - 1, 0).astype(np.int32))
  moved = np.abs(np.exp(batch_fn(fewer).log_alpha) - np.exp(batch_fn(inputs).log_alpha))
  rows = inputs.num_accepted > 0
  assert (moved[rows].max(1) > 1e-5).all()


@pytest.mark.parametrize("size", [1.0, 1e3, 1e12])
def test_padding_has_no_influence_at_all(batch_fn, inputs, size):
  hidden = (np.arange(V) >= inputs.num_visible[:, None])[..., None]
  rng = np.random.default_rng(1)
  garbage = {}
  for name in PER_ENTRY:
    values = getattr(inputs, name)
    noise = (rng.normal(size=values.shape) * size).astype(np.float32)
    garbage[name] = np.where(hidden, noise, values)
  found = [batch_fn(x) for x in (inputs._replace(**garbage), inputs)]
  chex.assert_trees_all_equal(*[visible_part(output, inputs.num_visible) for output in found])


def test_every_kind_of_input_is_read(batch_fn, inputs):
  """A signal that no output depends on would be a lost feature."""
  before = batch_fn(inputs)
  full = inputs.num_visible == V
  for name in inputs._fields[:8]:
    after = batch_fn(inputs._replace(**{name: getattr(inputs, name) + np.float32(0.5)}))
    assert (np.abs(after.action_logits - before.action_logits)[full].max(1) > 1e-5).all(), name


def test_batch_equals_loop(batch_fn, one_fn, inputs):
  output = batch_fn(inputs)
  for row in range(len(WINDOWS)):
    one = jax.tree.map(lambda leaf: leaf[row], inputs)  # noqa: B023
    close(jax.device_get(one_fn(params(), one)), jax.tree.map(lambda leaf: leaf[row], output))  # noqa: B023


def test_jit_equals_no_jit_and_without_a_key_there_is_no_dropout(one_fn, inputs):
  """MODEL drops half of the hidden units where a key is given."""
  one = jax.tree.map(lambda leaf: leaf[-2], inputs)
  plain = policy().apply(params(), one)
  close(one_fn(params(), one), plain)
  dropped = [policy().apply(params(), one, jax.random.key(seed)) for seed in (0, 0, 1)]
  chex.assert_trees_all_equal(dropped[0], dropped[1])
  for other in (plain, dropped[2]):
    assert np.abs(np.asarray(dropped[0].action_logits - other.action_logits)).max() > 1e-3


def test_parameters_are_a_plain_dict_of_float32_arrays():
  shapes = jax.eval_shape(policy().init, jax.random.key(0))
  assert type(shapes) is dict
  assert {leaf.dtype for leaf in jax.tree.leaves(shapes)} == {np.dtype(np.float32)}
  again = make_policy(sizes(), MODEL)
  assert jax.tree.structure(jax.eval_shape(again.init, jax.random.key(1))) == jax.tree.structure(
    params()
  )


def test_the_operation_code_says_what_each_action_does():
  """Columns: writes Accepted, Pending, History, needs a target, changes what is active."""
  expected = {APPEND: "10001", NOOP: "00000", REVISE: "10111", REJECT: "00110", DEFER: "01000"}
  for action, code in expected.items():
    assert policy_module.OPERATION_CODE[action].tolist() == [float(bit) for bit in code]


# decide: bound by hand.

DECIDE = jax.jit(jax.vmap(decide, in_axes=(0, 0, None)))


def random_outputs(seed: int, scale: float = 3.0) -> tuple[PolicyOutput, np.ndarray, np.ndarray]:
  """Outputs for 40 of each window, with num_accepted and num_visible."""
  rng = np.random.default_rng(seed)
  accepted, visible = np.array(WINDOWS * 40, np.int32).T
  number = len(accepted)
  hidden = (np.arange(V + 1) >= visible[:, None]) & (np.arange(V + 1) < NONE)
  scores = np.where(hidden, -np.inf, rng.normal(size=(number, V + 1)) * 2)
  log_alpha = scores - np.log(np.exp(scores).sum(1, keepdims=True))
  output = PolicyOutput(
    action_logits=(rng.normal(size=(number, NUM_ACTIONS)) * scale).astype(np.float32),
    log_alpha=log_alpha.astype(np.float32),
    reliability=rng.uniform(size=(number, 2)).astype(np.float32),
    scope_logits=np.zeros((number, 4), np.float32),
    relation_logits=(rng.normal(size=(number, V, 3)) * 2).astype(np.float32),
  )
  return output, accepted, visible


def decided(output: PolicyOutput, accepted: np.ndarray, temperature: float = 1.0) -> Decision:
  return jax.device_get(DECIDE(output, accepted, jnp.float32(temperature)))


def test_decisions_by_hand():
  output, accepted, _ = random_outputs(0)
  decision = decided(output, accepted)
  bound = set()
  for row in range(len(accepted)):
    action, log_alpha = decision.action[row], output.log_alpha[row]
    assert action == output.action_logits[row].argmax()
    best = int(log_alpha[: accepted[row]].argmax()) if accepted[row] else NONE
    if action == DEFER and (best == NONE or log_alpha[best] <= log_alpha[NONE]):
      best = NONE
    expected = best if action in (REVISE, REJECT, DEFER) else NONE
    assert decision.position[row] == expected
    bound.add((int(action), bool(expected < NONE)))
    probabilities = np.exp(output.action_logits[row].astype(np.float64))
    np.testing.assert_allclose(
      decision.probabilities[row], probabilities / probabilities.sum(), rtol=1e-5
    )
  assert len(bound) == 8  # the two that write without a target, the three others both ways
  np.testing.assert_array_equal(decision.margin, output.margin)


def test_a_target_is_always_an_accepted_entry():
  """Also where an entry of Pending, or none, is far more probable."""
  output, accepted, visible = random_outputs(1)
  pending = (np.arange(V + 1) >= accepted[:, None]) & (np.arange(V + 1) < visible[:, None])
  log_alpha = np.where(pending, np.float32(0), output.log_alpha - 20)
  for decision in (
    decided(output._replace(log_alpha=log_alpha), accepted),
    decided(output._replace(log_alpha=output.log_alpha[:, ::-1].copy()), accepted),
  ):
    assert ((decision.position < accepted) | (decision.position == NONE)).all()
    needs = np.isin(decision.action, (REVISE, REJECT)) & (accepted > 0)
    assert needs.any() and (decision.position[needs] < accepted[needs]).all()


def test_what_is_settled_by_hand():
  """The Pending entry that is most probably related, where that is more than even."""
  output, accepted, visible = random_outputs(3)
  decision = decided(output, accepted)
  seen = set()
  for row, (start, end) in enumerate(zip(accepted, visible)):
    expected = (NONE, Status.EMPTY)
    shares = np.exp(output.relation_logits[row].astype(np.float64))
    shares /= shares.sum(1, keepdims=True)
    related = [(1 - shares[v, 0], v) for v in range(start, end)]
    if decision.action[row] in (APPEND, REVISE) and related and max(related)[0] > 0.5:
      best = max(related)[1]
      confirmed = shares[best, 1] >= shares[best, 2]
      expected = (best, Status.SUPERSEDED if confirmed else Status.REJECTED)
    assert (decision.resolves[row], decision.outcome[row]) == expected
    seen.add((int(decision.action[row]), int(expected[1])))
  settled = {(action, int(status)) for action in (APPEND, REVISE)
             for status in (Status.EMPTY, Status.SUPERSEDED, Status.REJECTED)}  # fmt: skip
  assert seen == settled | {(action, 0) for action in (NOOP, REJECT, DEFER)}
  assert decision.resolves.dtype == decision.outcome.dtype == np.int32


def test_the_temperature_changes_the_probabilities_and_no_decision():
  output, accepted, _ = random_outputs(2)
  plain, warm, cold = (decided(output, accepted, t) for t in (1.0, 4.0, 0.25))
  for other in (warm, cold):
    np.testing.assert_array_equal(other.action, plain.action)
    np.testing.assert_array_equal(other.position, plain.position)
    np.testing.assert_array_equal(other.resolves, plain.resolves)
  chosen = [np.max(decision.probabilities, axis=1) for decision in (warm, plain, cold)]
  assert (chosen[0] < chosen[1]).all() and (chosen[1] <= chosen[2]).all()


def test_with_nothing_accepted_no_action_that_needs_a_target_is_chosen(one_fn):
  """Whatever the parameters prefer: here the operation embeddings are drawn anew."""
  rng = np.random.default_rng(5)
  batch = random_inputs(6, [0] * 6, [0, 1, 2, 3, 4, 4])
  preferred = set()
  for _ in range(20):
    drawn = jax.tree.map(
      lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), jnp.float32), params()
    )
    for row in range(6):
      one = jax.tree.map(lambda leaf: leaf[row], batch)  # noqa: B023
      open_to_all = one_fn(drawn, one._replace(num_accepted=np.int32(1)))
      preferred.add(int(np.argmax(open_to_all.action_logits)))
      output = one_fn(drawn, one)
      decision = decide(output, one.num_accepted, jnp.float32(1.0))
      assert int(decision.action) not in (REVISE, REJECT)
      assert int(decision.position) == NONE
  assert preferred & {REVISE, REJECT}
