"""The terms of the loss (SPEC 5), each unbatched and returning (sum, count).

Owns what each head is taught. The caller vmaps, adds up sums and counts, and divides once,
so that padding (weight 0) and the batch size never move a number.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tarl_jax import actions, quality
from tarl_jax.inputs import Labels, PolicyInputs, valid_entries, window_state
from tarl_jax.models.policy import PolicyOutput
from tarl_jax.types import Action, Claim, Status


class Term(NamedTuple):
  """A weighted sum and its weight; float32 []."""

  sum: jax.Array
  count: jax.Array  # type: ignore[assignment]  # hides tuple.count


def _term(value: jax.Array, weight: jax.Array) -> Term:
  return Term(sum=jnp.where(weight > 0, value * weight, 0.0), count=weight)


def action_loss(output: PolicyOutput, labels: Labels) -> Term:
  """Cross-entropy of the gold action."""
  return _term(-jax.nn.log_softmax(output.action_logits)[labels.action], labels.weight)


def target_loss(output: PolicyOutput, labels: Labels) -> Term:
  """Negative log of the probability on the *set* of right positions, "none" among them.

  Counts nothing where no right position is in sight: log 0 teaches nothing.
  """
  inside = jnp.where(labels.targets, output.log_alpha, -jnp.inf)
  usable = jnp.any(inside > -jnp.inf)
  safe = jnp.where(usable, inside, 0.0)
  return _term(-jax.nn.logsumexp(safe), labels.weight * usable)


def reliability_loss(output: PolicyOutput, labels: Labels) -> Term:
  """Squared error of r_new and r_old against the true reliabilities, where they are known."""
  at_target = jnp.concatenate([labels.entry_reliability, jnp.full(1, jnp.nan)])[labels.target]
  true = jnp.stack([labels.reliability, at_target])
  known = ~jnp.isnan(true)
  error = jnp.where(known, jnp.square(output.reliability - jnp.where(known, true, 0.0)), 0.0)
  number = jnp.sum(known).astype(jnp.float32)
  return _term(jnp.sum(error) / jnp.maximum(number, 1.0), labels.weight * (number > 0))


def scope_loss(output: PolicyOutput, labels: Labels) -> Term:
  """Cross-entropy of the temporal scope, where it is known."""
  known = labels.scope >= 0
  scope = jnp.where(known, labels.scope, 0)
  return _term(-jax.nn.log_softmax(output.scope_logits)[scope], labels.weight * known)


def relation_loss(output: PolicyOutput, inputs: PolicyInputs, labels: Labels) -> Term:
  """Cross-entropy of what each visible entry is to the candidate, mean over the entries.

  The right targets of a noop say the same, those of other actions hold another value, and
  all else is unrelated, but for the Pending entry that the claim settles: it says the same
  where it is confirmed and holds another value where it is contradicted.
  """
  related = jnp.where(labels.action == Action.NOOP, 1, 2)
  relation = jnp.where(labels.targets[:-1], related, 0)
  settled = jnp.where(labels.outcome == Status.SUPERSEDED, 1, 2)
  positions = jnp.arange(relation.shape[0], dtype=jnp.int32)
  relation = jnp.where(positions == labels.resolves, settled, relation)
  log_p = jax.nn.log_softmax(output.relation_logits)
  loss = -jnp.take_along_axis(log_p, relation[:, None], axis=-1)[:, 0]
  visible = valid_entries(inputs)
  number = jnp.sum(visible).astype(jnp.float32)
  mean = jnp.sum(jnp.where(visible, loss, 0.0)) / jnp.maximum(number, 1.0)
  return _term(mean, labels.weight * (number > 0))


def execution_costs(
  inputs: PolicyInputs, labels: Labels, positions: jax.Array, weights: quality.LedgerWeights
) -> jax.Array:
  """Distance to the gold next state of every (slot, action); float32 [S, A]. Unbatched.

  All five actions are executed on the visible memory once per position. A refused
  transaction costs at least one misplaced claim. Settling is left out on both sides: the
  relation head decides it, not the action.

  Args:
    inputs: what is visible.
    labels: gold action and target.
    positions: int32 [S], visible positions used as the target slot.
    weights: by ledger.
  """
  state = window_state(inputs)
  claim = Claim(claim_id=jnp.int32(state.num_claims - 1), step=jnp.int32(1))
  gold_state, _ = actions.execute(state, labels.action, labels.target, claim)
  gold = quality.location_map(gold_state)

  def costs_at(position: jax.Array) -> jax.Array:
    next_states, infos = actions.execute_all(state, position, claim)
    places = jax.vmap(quality.location_map)(next_states)
    costs = jax.vmap(quality.distance, in_axes=(0, None, None))(places, gold, weights)
    return jnp.where(infos.invalid, jnp.maximum(costs, max(weights)), costs)

  return jax.vmap(costs_at)(positions)


@dataclasses.dataclass(frozen=True)
class LossConfig:
  """Weights of the terms, and the form of the counterfactual one.

  counterfactual_form:
    "gold_slot" (the paper's): the five executions use the gold slot. In one step from a gold
      state this is cost-shaped label smoothing; kept for comparison (SPEC 5).
    "predicted_slot": the cost of an action is expected over the policy's own slots.
    "action_slot": the expected cost over (action, slot) pairs, which teaches the slot too.
  """

  action: float = 1.0
  target: float = 1.0
  reliability: float = 1.0
  scope: float = 0.2
  relation: float = 2.0
  counterfactual: float = 0.3
  counterfactual_form: str = "action_slot"
  tau: float = 0.5
  ledger_weights: quality.LedgerWeights = quality.LedgerWeights()


COUNTERFACTUAL_FORMS = ("gold_slot", "predicted_slot", "action_slot")


def counterfactual_loss(
  output: PolicyOutput, inputs: PolicyInputs, labels: Labels, config: LossConfig
) -> Term:
  """Counterfactual execution supervision (SPEC 5); see `LossConfig` for the forms.

  The costs come from executed states and carry no gradient; the policy's probabilities do.
  """
  log_p = jax.nn.log_softmax(output.action_logits)
  if config.counterfactual_form == "gold_slot":
    costs = execution_costs(inputs, labels, labels.target[None], config.ledger_weights)[0]
    return _term(_cross_entropy_to(costs, log_p, config.tau), labels.weight)
  positions = jnp.arange(output.log_alpha.shape[0], dtype=jnp.int32)
  costs = execution_costs(inputs, labels, positions, config.ledger_weights)
  alpha = jnp.exp(output.log_alpha)
  if config.counterfactual_form == "predicted_slot":
    expected = jax.lax.stop_gradient(alpha) @ costs
    return _term(_cross_entropy_to(expected, log_p, config.tau), labels.weight)
  return _term(alpha @ costs @ jnp.exp(log_p), labels.weight)


def _cross_entropy_to(costs: jax.Array, log_p: jax.Array, tau: float) -> jax.Array:
  """- sum_a softmax(Q / tau)(a) log p(a) with Q = -costs; float32 []."""
  return -jnp.sum(jax.nn.softmax(-costs / tau) * log_p)


def loss_terms(
  output: PolicyOutput, inputs: PolicyInputs, labels: Labels, config: LossConfig
) -> dict[str, Term]:
  """All terms of one example, by the names of their weights in `LossConfig`."""
  terms = {
    "action": action_loss(output, labels),
    "target": target_loss(output, labels),
    "reliability": reliability_loss(output, labels),
    "scope": scope_loss(output, labels),
    "relation": relation_loss(output, inputs, labels),
  }
  if config.counterfactual > 0:
    terms["counterfactual"] = counterfactual_loss(output, inputs, labels, config)
  return terms


def total_loss(terms: dict[str, Term], config: LossConfig) -> tuple[jax.Array, dict]:
  """Weighted sum of the mean terms, and the means by name. Terms may be summed over a batch."""
  means = {name: term.sum / jnp.maximum(term.count, 1.0) for name, term in terms.items()}
  weights = {name: getattr(config, name) for name in means}
  total = sum(weight * means[name] for name, weight in weights.items() if weight)
  return jnp.asarray(total), means
