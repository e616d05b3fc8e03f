"""Fine-tuning of the cross-encoder on pairs with sets of relations.

Owns the loss, the optimizer, the order of the batches and the files of one model. Which pairs
there are is decided in `data/pairs.py`, which model scores what in `cross_fit.py`.

    PATH          the trained weights, with their digest
    PATH.state    weights, optimizer and step of an unfinished run; removed at its end
"""

import dataclasses
import functools
import math
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from tqdm import tqdm

from tarl_jax.data.order import epoch_order
from tarl_jax.data.pairs import Pairs
from tarl_jax.errors import InputError
from tarl_jax.models.bert import Params
from tarl_jax.models.cross_encoder import CrossEncoder, pad_batch, pair_logits
from tarl_jax.models.tree_file import load_tree, save_tree


@dataclasses.dataclass(frozen=True)
class CrossConfig:
  """The cross-encoder: what is trained, on how much, and what is scored."""

  num_pairs: int = 6000  # a model is fine-tuned on, at most
  epochs: int = 2
  frozen_layers: int = 2  # from the bottom, beside the word embeddings
  lr: float = 1e-4  # of the layers; linear warm-up, cosine decay to zero
  head_rate: float = 10.0  # the head learns so much faster: it starts from nothing
  warmup: float = 0.1  # share of the steps
  weight_decay: float = 1e-2
  clip: float = 1.0
  batch_tokens: int = 1536
  folds: int = 2  # for cross-fitting
  num_scored: int = 4  # nearest entries of a decision that are scored, and taught at most
  seed: int = 0
  save_every: int = 100  # steps


class _State(NamedTuple):
  step: Any  # int32 [], updates applied; also the place in the order of batches
  params: Params
  opt_state: Any


def set_loss(logits: jax.Array, allowed: jax.Array) -> jax.Array:
  """Negative log of the probability on the *set* of allowed relations, float32 []. Unbatched.

  Cross-entropy where the set has one relation, 0 where it has all.

  Args:
    logits: float32 [R].
    allowed: bool [R], one at least.
  """
  inside = jax.nn.logsumexp(jnp.where(allowed, logits, -jnp.inf))
  return jax.nn.logsumexp(logits) - inside


def plan_batches(
  encoder: CrossEncoder, lengths: np.ndarray, config: CrossConfig
) -> list[tuple[int, np.ndarray]]:
  """(padded length, rows) of every step; each epoch has every row once.

  Rows are shuffled, put together with others of their padded length, and the batches shuffled
  again: a function of the arguments alone.
  """
  plan = []
  for epoch in range(config.epochs if len(lengths) else 0):
    order = epoch_order(config.seed, epoch, len(lengths))
    found = encoder.batches(lengths, order, config.batch_tokens)
    shuffled = np.random.default_rng([config.seed, epoch]).permutation(len(found))
    plan += [found[i] for i in shuffled]
  return plan


def make_optimizer(config: CrossConfig, total: int) -> optax.GradientTransformation:
  """AdamW with clipping, linear warm-up and cosine decay; a faster head."""
  warmup = int(config.warmup * total)
  schedule = optax.warmup_cosine_decay_schedule(0.0, config.lr, warmup, max(total, warmup + 1))
  return optax.chain(
    optax.clip_by_global_norm(config.clip),
    optax.adamw(schedule, weight_decay=config.weight_decay),
    optax.masked(optax.scale(config.head_rate), {"layers": False, "head": True}),
  )


@functools.lru_cache(maxsize=4)
def _make_step(config: CrossConfig, total: int, num_heads: int, eps: float) -> Callable:
  """`step(state, fixed, batch, allowed) -> (state, loss)`; the state is donated."""
  optimizer = make_optimizer(config, total)
  logits = functools.partial(pair_logits, num_heads=num_heads, eps=eps)

  def batch_loss(params, fixed, batch, allowed):
    found = jax.vmap(logits, in_axes=(None, None, 0, 0, 0))(params, fixed, *batch)
    number = jnp.sum(batch.length > 0)  # padding has length 0 and everything allowed
    return jnp.sum(jax.vmap(set_loss)(found, allowed)) / number

  @functools.partial(jax.jit, donate_argnums=0)
  def step(state: _State, fixed, batch, allowed) -> tuple[_State, jax.Array]:
    loss, gradient = jax.value_and_grad(batch_loss)(state.params, fixed, batch, allowed)
    updates, opt_state = optimizer.update(gradient, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    return _State(state.step + 1, params, opt_state), loss

  return step


def fine_tune(
  encoder: CrossEncoder,
  pairs: Pairs,
  config: CrossConfig,
  *,
  path: pathlib.Path | None,
  about: str,
  name: str = "cross-encoder",
) -> Params:
  """Weights fine-tuned on all `pairs`; deterministic given the arguments.

  A finished file at `path` is read instead; an unfinished run goes on where it was saved.

  Args:
    encoder: tokenizer and published weights.
    pairs: what to train on.
    config: settings.
    path: where the weights go; None keeps nothing. Its folder must exist.
    about: what the weights depend on; a file that says otherwise stops the run.
    name: for the progress bar.

  Raises:
    InputError: for no pairs, a loss that is not finite, or a file that is damaged, of another
      run or cannot be written.
  """
  state_path = path and path.with_name(path.name + ".state")
  tokens = encoder.tokenize(pairs.texts)
  plan = plan_batches(encoder, tokens.length, config)
  if not plan:
    raise InputError("the cross-encoder has no pair to learn from; give more data.")
  params = encoder.init(jax.random.key(config.seed))
  if path is not None and path.exists():
    return load_tree(path, params, about)
  optimizer = make_optimizer(config, len(plan))
  state = _State(jnp.zeros((), jnp.int32), params, optimizer.init(params))
  if state_path is not None and state_path.exists():
    state = load_tree(state_path, state, about)
  # Fresh or read, every leaf is committed to the device: one program serves both.
  state = jax.device_put(state, jax.local_devices()[0])
  step_fn = _make_step(config, len(plan), **encoder.statics)
  first = int(state.step)
  pending: tuple[int, jax.Array] | None = None  # read when the next step is under way
  bar = tqdm(range(first, len(plan)), initial=first, total=len(plan), desc=name, mininterval=1.0)
  for step in bar:
    width, rows = plan[step]
    batch = pad_batch(tokens, width, rows, config.batch_tokens)
    allowed = np.ones((len(batch.length), encoder.num_relations), bool)
    allowed[: len(rows)] = pairs.allowed[rows]
    state, loss = step_fn(state, encoder.fixed, *jax.device_put((batch, allowed)))
    _check(pending, bar)
    pending = step, loss
    if state_path is not None and (step + 1) % config.save_every == 0 and step + 1 < len(plan):
      _check(pending, bar)
      save_tree(state_path, state, about)
  _check(pending, bar)
  if path is not None and state_path is not None:
    save_tree(path, state.params, about)
    state_path.unlink(missing_ok=True)
  return state.params


def _check(pending: tuple[int, jax.Array] | None, bar: tqdm) -> None:
  """Stops where the loss of a step is not finite, before it could be saved."""
  if pending is None:
    return
  step, value = pending[0], float(pending[1])
  if not math.isfinite(value):
    raise InputError(
      f"the loss of the cross-encoder is {value} at step {step + 1}; lower its lr and use a new "
      "workdir."
    )
  bar.set_postfix(loss=f"{value:.3f}", refresh=False)
