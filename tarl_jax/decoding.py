"""Decoding by cost: the transaction whose executed state is the cheapest to be wrong with.

Owns the choice of action and target from the policy's own beliefs and from what a misplaced
claim costs. Knows arrays only; `models.policy.decide`, which takes the most probable action,
is what it stands beside.

Beliefs: p(a) is the softmax of the calibrated scores, alpha(s | a) the grounding cut down to
the slots that the action can bind to: Accepted entries for revise and reject_conflict, these
or none for defer_verify. So no belief is spent on a transaction that would be refused.

The cost of choosing (a', s') where (a, s) is right is the ledger-weighted distance of the two
executed states (`quality.distance`). No state need be executed for it. Only the candidate c
and the targets of a revision move:

                     c                                 e_s
    append           Accepted                          stays
    noop             nowhere                           stays
    revise s         Accepted, linked to e_s           History, linked to c
    reject s         History, linked to e_s            stays
    defer s          Pending, linked to e_s or none    stays

  - c costs max(w[a], w[a']), w being the weight of the ledger it goes to, unless both put it
    into one ledger with one link;
  - every entry that one of the two revises and the other does not costs
    max(w[Accepted], w[History]).

With a belief over (a, s) the expectation needs p and alpha alone: A x A + V operations
instead of (A x V)^2 executed pairs. No slot of an action costs less than its most probable
one, so that costs decide between actions. Settling is left out, as in
`losses.execution_costs`: the relation head decides it, not the action.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from tarl_jax.models.policy import Decision, PolicyOutput, decide
from tarl_jax.quality import LedgerWeights
from tarl_jax.types import NUM_ACTIONS, Action, Array

_WRITES = (Action.APPEND, Action.REVISE)


class Costs(NamedTuple):
  """What a wrong transaction costs; non-negative."""

  ledgers: LedgerWeights = LedgerWeights()  # of one misplaced claim, the same both ways
  pollution: float = 0.0  # added where the candidate gets into Accepted and does not belong there


class Beliefs(NamedTuple):
  """What the policy holds possible; float32."""

  action: Array  # [A]
  target: Array  # [A, V + 1], each row the slots of an action, last "none"; sums to 1


def beliefs(output: PolicyOutput, num_accepted: Array, temperature: Array) -> Beliefs:
  """p(a) and alpha(s | a). Unbatched.

  With nothing accepted, revise and reject_conflict have no slot: their rows of `target` are 0.

  Args:
    output: of the policy.
    num_accepted: int32 [], Accepted entries in sight.
    temperature: float32 [], divides the action scores.
  """
  number = output.log_alpha.shape[0]
  positions = jnp.arange(number)
  accepted = positions < num_accepted
  none = jax.nn.one_hot(number - 1, number)
  alpha = jnp.exp(output.log_alpha)
  # An entry of Pending is no slot that a row could be linked to: it counts as none.
  about = jnp.where(accepted, alpha, jnp.sum(alpha, where=~accepted) * none)
  bound = jax.nn.softmax(output.log_alpha, where=accepted)
  rows = {Action.REVISE: bound, Action.REJECT_CONFLICT: bound, Action.DEFER_VERIFY: about}
  return Beliefs(
    action=jax.nn.softmax(output.action_logits / temperature),
    target=jnp.stack([rows.get(action, none) for action in Action]),
  )


def expected_costs(belief: Beliefs, costs: Costs) -> Array:
  """Expected cost of every (action, slot) under the beliefs; float32 [A, V + 1]. Unbatched.

  What cannot be executed is not ruled out here; `decode` does that.
  """
  accepted, pending, history = (jnp.float32(weight) for weight in costs.ledgers)
  p, alpha = belief
  goes_to = jnp.stack([accepted, jnp.float32(0), accepted, history, pending])
  moves = p[:, None] * jnp.maximum(goes_to[:, None], goes_to[None])  # [A, A], right by chosen
  same = p[:, None] * alpha  # [A, V + 1]: the chosen transaction is the right one
  candidate = jnp.sum(moves, axis=0)[:, None] - goes_to[:, None] * same

  replaced = p[Action.REVISE]
  moved = jnp.full_like(alpha, replaced)  # entries that the right transaction revises alone
  by_revision = replaced + 1.0 - 2.0 * same[Action.REVISE]  # and those that the chosen one does
  moved = moved.at[Action.REVISE].set(by_revision)
  target = jnp.maximum(accepted, history) * moved

  writes = jnp.isin(jnp.arange(NUM_ACTIONS), jnp.asarray(_WRITES))
  pollutes = jnp.where(writes, costs.pollution * (1.0 - jnp.sum(p, where=writes)), 0.0)
  return candidate + target + pollutes[:, None]


def decode(output: PolicyOutput, num_accepted: Array, temperature: Array, costs: Costs) -> Decision:
  """The transaction of the least expected cost (an alternative to `policy.decide`). Unbatched.

  Probabilities and margin are those of `decide`, and what an append or a revise settles is
  decided in the same way. Ties go to the action that comes first.

  Args:
    output: of the policy.
    num_accepted: int32 [], Accepted entries in sight.
    temperature: float32 [], fitted on validation; divides the action scores.
    costs: may be traced, so that one program serves a whole curve of costs.
  """
  belief = beliefs(output, num_accepted, temperature)
  slots = jnp.argmax(belief.target, axis=-1).astype(jnp.int32)
  at_best = jnp.take_along_axis(expected_costs(belief, costs), slots[:, None], axis=-1)[:, 0]
  # With nothing accepted, revise and reject_conflict have no slot that could be right: they cost
  # at least what append and noop do, which come first.
  action = jnp.argmin(at_best).astype(jnp.int32)
  forced = jnp.where(jnp.arange(NUM_ACTIONS) == action, 0.0, -jnp.inf)
  settled = decide(output._replace(action_logits=forced), num_accepted, jnp.float32(1))
  return settled._replace(action=action, position=slots[action], probabilities=belief.action)
