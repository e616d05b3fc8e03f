"""The policy (SPEC 4): grounding, temporal scope, reliability, operation.

Owns the learned functions; knows arrays only. Flax is used for module definitions and
nothing else: `make_policy` returns pure functions over a plain dict of parameters.

The heads are separate so that a person can see why: which entry the claim is about
(`alpha`), how much each side is trusted (`reliability`, `margin`), what time it speaks of
(`scope_logits`), and the action that follows (`action_logits`).
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from tarl_jax.inputs import PolicyInputs, accepted_entries, valid_entries
from tarl_jax.types import NUM_ACTIONS, Action, Array, Status

Params = dict[str, Any]
NUM_SCOPES = 4

# What an entry is to the candidate: nothing, the same fact with the same value, or the fact
# that the candidate has another value for.
RELATIONS = ("unrelated", "same", "other_value")
NUM_RELATIONS = len(RELATIONS)

# phi(a): writes Accepted, writes Pending, writes History, needs a target, changes what is
# active. Rows in label order (SPEC 3, 4).
OPERATION_CODE = np.array(
  [[1, 0, 0, 0, 1], [0, 0, 0, 0, 0], [1, 0, 1, 1, 1], [0, 0, 1, 1, 0], [0, 1, 0, 0, 0]],
  np.float32,
)
# Score of an action that cannot be executed since no entry is accepted; finite, so that the
# loss of an example whose target is out of sight stays finite.
_CANNOT = -1e4


@dataclasses.dataclass(frozen=True)
class ModelConfig:
  """Sizes of the policy."""

  hidden: int = 128
  embed: int = 64
  trust: int = 16
  dropout: float = 0.2
  grounding: bool = True  # False: alpha is uniform over what is visible (ablation)


class PolicyOutput(NamedTuple):
  """What the policy says of one candidate; float32."""

  action_logits: Array  # [A]
  log_alpha: Array  # [V + 1], log-probability of each visible position, last "none"
  reliability: Array  # [2], r_new and r_old in [0, 1]
  scope_logits: Array  # [4], by SCOPES
  relation_logits: Array  # [V, 3], by RELATIONS; rows beyond what is visible mean nothing

  @property
  def margin(self) -> jax.Array:
    """rho = r_new - r_old, float32 []."""
    return self.reliability[..., 0] - self.reliability[..., 1]


class Policy(NamedTuple):
  """The two pure functions of a policy."""

  init: Callable[[jax.Array], Params]  # key -> parameters
  apply: Callable[..., PolicyOutput]  # (params, inputs, key=None) -> output; unbatched


def _linear(size: int, out: int, rngs: nnx.Rngs) -> nnx.Linear:
  return nnx.Linear(size, out, kernel_init=nnx.initializers.lecun_uniform(), rngs=rngs)


class _Mlp(nnx.Module):
  """Two layers; `keep` multiplies the hidden layer (dropout), 1 outside training."""

  def __init__(self, size: int, hidden: int, out: int, *, rngs: nnx.Rngs):
    self.norm = nnx.LayerNorm(size, rngs=rngs)
    self.first = _linear(size, hidden, rngs)
    self.second = _linear(hidden, out, rngs)

  def __call__(self, x: jax.Array, keep: jax.Array | float = 1.0) -> jax.Array:
    return self.second(nnx.gelu(self.first(self.norm(x))) * keep)


class _Keep(NamedTuple):
  """Dropout factors, 0 or 1 / (1 - rate); all 1 outside training."""

  candidate: jax.Array  # [E]
  entries: jax.Array  # [V, E]
  claim: jax.Array  # [H]
  pairs: jax.Array  # [V, H]
  state: jax.Array  # [H]


class _Network(nnx.Module):
  """The learned functions; see `make_policy` for the contract."""

  def __init__(self, sizes: PolicyInputs, config: ModelConfig, *, rngs: nnx.Rngs):
    num_time, num_source = sizes.time_signals.shape[-1], sizes.source.shape[-1]
    claim_size = sizes.claim_signals.shape[-1] + num_source
    pair_parts = (sizes.pair_signals, sizes.time_signals, sizes.pair_source, sizes.entry_source)
    pair_size = sum(part.shape[-1] for part in pair_parts) + claim_size + 1
    hidden, embed = config.hidden, config.embed
    self.config = config
    self.project = _linear(sizes.candidate.shape[-1], embed, rngs)
    self.claim = _Mlp(embed + claim_size, hidden, hidden, rngs=rngs)
    self.pair = _Mlp(2 * embed + pair_size, hidden, hidden, rngs=rngs)
    self.entry_score = _linear(hidden, 1, rngs)
    self.relation = _linear(hidden, NUM_RELATIONS, rngs)
    self.assertion = _linear(hidden, config.trust, rngs)
    self.none_score = _Mlp(2 * hidden, hidden, 1, rngs=rngs)
    self.trust = _linear(num_source, config.trust, rngs)
    self.compare = _Mlp(4 * config.trust, hidden, 2, rngs=rngs)
    self.scope = _Mlp(hidden + num_time, hidden, NUM_SCOPES, rngs=rngs)
    self.operation = nnx.Embed(NUM_ACTIONS, config.trust, rngs=rngs)
    code_size = config.trust + OPERATION_CODE.shape[1]
    state_size = config.trust + 2 * NUM_RELATIONS + 5 + NUM_SCOPES + num_time + num_source
    self.select = _Mlp(state_size + code_size, hidden, 1, rngs=rngs)

  def _dropout(self, num_visible: int, key: jax.Array | None) -> _Keep:
    """All factors of one example from one draw."""
    embed, hidden = self.config.embed, self.config.hidden
    shapes = [(embed,), (num_visible, embed), (hidden,), (num_visible, hidden), (hidden,)]
    if key is None:
      return _Keep(*[jnp.ones(shape, jnp.float32) for shape in shapes])
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    rate = self.config.dropout
    draw = jax.random.bernoulli(key, 1.0 - rate, (int(ends[-1]),)).astype(jnp.float32)
    pieces = jnp.split(draw / (1.0 - rate), ends[:-1])
    return _Keep(*[piece.reshape(shape) for piece, shape in zip(pieces, shapes)])

  def _pairs(self, x: PolicyInputs, claim: jax.Array, new: jax.Array, keep: _Keep) -> jax.Array:
    """What candidate and entry are to each other, float32 [V, H]."""
    old = self.project(x.entries) * keep.entries
    marker = accepted_entries(x).astype(jnp.float32)[:, None]
    everywhere = jnp.broadcast_to(claim, (x.entries.shape[0], claim.shape[-1]))
    signals = [x.pair_signals, x.time_signals, x.pair_source, x.entry_source, marker, everywhere]
    both = [new[None] * old, jnp.abs(new[None] - old)]
    related = nnx.gelu(self.pair(jnp.concatenate([*both, *signals], -1), keep.pairs))
    return jnp.where(valid_entries(x)[:, None], related, 0.0)

  def _ground(
    self, x: PolicyInputs, claim: jax.Array, pairs: jax.Array, best: jax.Array
  ) -> jax.Array:
    """Log-probability of each position and "none", float32 [V + 1]."""
    none = self.none_score(jnp.concatenate([claim, best]))
    scores = jnp.concatenate([self.entry_score(pairs)[:, 0], none])
    if not self.config.grounding:
      scores = jnp.zeros_like(scores)
    visible = jnp.concatenate([valid_entries(x), jnp.ones(1, bool)])
    return jax.nn.log_softmax(jnp.where(visible, scores, -jnp.inf))

  def _reliability(self, x: PolicyInputs, alpha: jax.Array) -> jax.Array:
    """r_new and r_old from [new; old; new - old; new * old], float32 [2]."""
    new, old = self.trust(x.source), alpha @ self.trust(x.entry_source)
    return jax.nn.sigmoid(self.compare(jnp.concatenate([new, old, new - old, new * old])))

  def __call__(self, x: PolicyInputs, key: jax.Array | None = None) -> PolicyOutput:
    keep = self._dropout(x.entries.shape[0], key)
    new = self.project(x.candidate) * keep.candidate
    claim_signals = jnp.concatenate([x.claim_signals, x.source])
    claim = nnx.gelu(self.claim(jnp.concatenate([new, claim_signals]), keep.claim))
    pairs = self._pairs(x, claim_signals, new, keep)
    best = jnp.max(pairs, axis=0)
    log_alpha = self._ground(x, claim, pairs, best)
    alpha = jnp.exp(log_alpha)
    time = alpha[:-1] @ x.time_signals
    reliability = self._reliability(x, alpha[:-1])
    scope_logits = self.scope(jnp.concatenate([claim, time]))
    margin = reliability[0] - reliability[1]
    scalars = jnp.stack([*reliability, margin, alpha[-1], jnp.max(alpha[:-1])])
    relation_logits = self.relation(pairs)
    relations = jax.nn.softmax(relation_logits)
    strongest = jnp.max(jnp.where(valid_entries(x)[:, None], relations, 0.0), axis=0)
    said = jnp.tanh(self.assertion(claim))
    scope = jax.nn.softmax(scope_logits)
    features = [said, alpha[:-1] @ relations, strongest, scalars, scope, time, x.source]
    action_logits = self._select(jnp.concatenate(features), keep.state[None])
    return PolicyOutput(
      action_logits=jnp.where(executable(x.num_accepted), action_logits, _CANNOT),
      log_alpha=log_alpha,
      reliability=reliability,
      scope_logits=scope_logits,
      relation_logits=relation_logits,
    )

  def _select(self, features: jax.Array, keep: jax.Array) -> jax.Array:
    """A score per operation from the state, its embedding and its code, float32 [A]."""
    codes = jnp.concatenate([self.operation.embedding[...], jnp.asarray(OPERATION_CODE)], -1)
    state = jnp.broadcast_to(features, (NUM_ACTIONS, features.shape[0]))
    return self.select(jnp.concatenate([state, codes], -1), keep)[:, 0]


def executable(num_accepted: jax.Array) -> jax.Array:
  """bool [A]: what can be executed; no revise or reject_conflict with nothing accepted."""
  needs_target = jnp.asarray(OPERATION_CODE[:, 3] > 0)
  return ~needs_target | (num_accepted > 0)


def make_policy(sizes: PolicyInputs, config: ModelConfig) -> Policy:
  """Binds the sizes.

  Args:
    sizes: inputs of one example (arrays or shapes), for their last axes.
    config: sizes of the network.

  Returns:
    `init(key)`, a plain dict of float32 arrays, and `apply(params, inputs, key=None)`,
    unbatched, with dropout where a key is given.
  """

  def build(key: jax.Array) -> _Network:
    return _Network(sizes, config, rngs=nnx.Rngs(key))

  graph, _ = nnx.split(nnx.eval_shape(lambda: build(jax.random.key(0))))

  def init(key: jax.Array) -> Params:
    return nnx.to_pure_dict(nnx.split(build(key))[1])

  def apply(params: Params, inputs: PolicyInputs, key: jax.Array | None = None) -> PolicyOutput:
    return nnx.merge(graph, params)(inputs, key)

  return Policy(init=init, apply=apply)


class Decision(NamedTuple):
  """The transaction chosen for one candidate."""

  action: Array  # int32 [], an Action
  position: Array  # int32 [], visible position of the target, V for none
  probabilities: Array  # float32 [A]
  margin: Array  # float32 [], rho
  resolves: Array  # int32 [], visible position of the Pending entry it settles, V for none
  outcome: Array  # int32 [], the Status that one gets, EMPTY where none


def decide(output: PolicyOutput, num_accepted: jax.Array, temperature: jax.Array) -> Decision:
  """The most probable action and its target (SPEC 4). Unbatched.

  `revise` and `reject_conflict` bind to the most probable Accepted entry, `defer_verify` to
  the most probable of Accepted and none; the others have none. `append` and `revise` also
  settle the Pending entry that is most probably related to the claim, if it more probably
  is than not: confirmed where the same value is more probable, else contradicted.

  Args:
    output: of the policy.
    num_accepted: int32 [], Accepted entries in sight.
    temperature: float32 [], fitted on validation; divides the action scores.
  """
  action_logits = output.action_logits / temperature
  action = jnp.argmax(action_logits).astype(jnp.int32)
  positions = jnp.arange(output.log_alpha.shape[0], dtype=jnp.int32)
  none = positions[-1]
  accepted = jnp.where(positions < num_accepted, output.log_alpha, -jnp.inf)
  nearest = jnp.where(num_accepted > 0, jnp.argmax(accepted).astype(jnp.int32), none)
  about = jnp.where(accepted[nearest] > output.log_alpha[-1], nearest, none)
  binds = (action == Action.REVISE) | (action == Action.REJECT_CONFLICT)
  position = jnp.where(binds, nearest, jnp.where(action == Action.DEFER_VERIFY, about, none))
  settles = (action == Action.APPEND) | (action == Action.REVISE)
  waiting, status = _most_related_pending(output, num_accepted)
  resolves = jnp.where(settles, waiting, none)
  return Decision(
    action=action,
    position=position,
    probabilities=jax.nn.softmax(action_logits),
    margin=output.margin,
    resolves=resolves,
    outcome=jnp.where(resolves < none, status, int(Status.EMPTY)),
  )


def _most_related_pending(
  output: PolicyOutput, num_accepted: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """(position, status) of the Pending entry to settle, int32 []; position V where none is."""
  none = output.log_alpha.shape[0] - 1
  positions = jnp.arange(none, dtype=jnp.int32)
  pending = (positions >= num_accepted) & (output.log_alpha[:-1] > -jnp.inf)  # and in sight
  _, same, other = jax.nn.softmax(output.relation_logits).T
  related = jnp.where(pending, same + other, 0.0)
  best = jnp.argmax(related).astype(jnp.int32)
  confirmed = same[best] >= other[best]
  status = jnp.where(confirmed, int(Status.SUPERSEDED), int(Status.REJECTED))
  return jnp.where(related[best] > 0.5, best, none), status
