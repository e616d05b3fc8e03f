"""What worth and governance cost in a policy's rollout, as ratios within one run.

One rollout in three forms, timed in turn, so that a busy machine slows all alike: the policy
decides and its memory is asked questions (`asked`); the outcomes are counted as well and the
counters follow their claims (`counted`); and what is due is deprecated (`governed`). The
policy has the sizes of a real run and random weights, features and neighbours: what it
decides is noise, what it costs is not.
"""

import functools
import statistics
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tarl_jax.data.examples import PAIR_SOURCE_SIGNALS, SOURCE_SIGNALS, TIME_SIGNALS
from tarl_jax.data.lexical import CLAIM_SIGNALS, PAIR_SIGNALS
from tarl_jax.data.moments import Capacities, initial_state
from tarl_jax.experiments.queries import NEVER, NOTHING, Facts, Near, Questions
from tarl_jax.experiments.together import (
  Extra,
  Given,
  Mode,
  Use,
  World,
  answer,
  ask,
  follow,
  make_after,
  start_extra,
)
from tarl_jax.inputs import PolicyInputs
from tarl_jax.models.hashed import SENTENCE_DIM
from tarl_jax.models.interaction import INTERACTION_SIGNALS
from tarl_jax.models.policy import ModelConfig, make_policy
from tarl_jax.policy_rollout import (
  AfterFn,
  Carry,
  ClaimFeatures,
  Look,
  choose_by_policy,
  make_rollout,
)
from tarl_jax.tracking import track
from tarl_jax.types import NO_CLAIM

REPETITIONS = 7
VISIBLE = 16


class Sizes(NamedTuple):
  """Of the benchmark."""

  streams: int = 8  # side by side
  steps: int = 512
  capacity: int = 512  # of each ledger
  neighbours: int = 64
  questions: int = 1  # a step
  near: int = 64  # claims near a question


def _features(rng: np.random.Generator, sizes: Sizes) -> tuple[ClaimFeatures, Look]:
  number, width = sizes.steps, sizes.neighbours
  draw = lambda *shape: np.asarray(rng.normal(size=shape), np.float32)  # noqa: E731
  steps = np.arange(number, dtype=np.int32)
  back = 1 + np.argsort(rng.random((number, 2 * width)), axis=1)[:, :width].astype(np.int32)
  earlier = steps[:, None] - back
  similarity = np.where(earlier >= 0, -np.sort(-rng.random(earlier.shape)), -np.inf)
  pairs = len(PAIR_SIGNALS) + len(INTERACTION_SIGNALS)
  claims = ClaimFeatures(
    embedding=draw(number, SENTENCE_DIM) / np.float32(SENTENCE_DIM**0.5),
    signals=draw(number, len(CLAIM_SIGNALS)),
    source=draw(number, len(SOURCE_SIGNALS)),
  )
  return claims, Look(
    claim_id=steps,
    step=steps,
    neighbours=np.where(earlier >= 0, earlier, NO_CLAIM),
    similarity=similarity.astype(np.float32),
    beyond=np.zeros(number, np.float32),
    pair_signals=draw(number, width, pairs),
    time_signals=draw(number, width, len(TIME_SIGNALS)),
    pair_source=draw(number, width, len(PAIR_SOURCE_SIGNALS)),
  )


def _world(rng: np.random.Generator, sizes: Sizes) -> tuple[World, Questions]:
  """Few topics and few sayings, so that answers are right and wrong; gold trusts nothing."""
  number = sizes.steps
  topic = rng.integers(0, 16, number).astype(np.int32)
  never = np.full(number, NEVER)
  order = np.argsort(rng.random((number, number)), axis=1)[:, : sizes.near].astype(np.int32)
  similarity = -np.sort(-rng.random(order.shape)).astype(np.float32)
  world = World(
    Facts(topic, rng.integers(0, 32, number).astype(np.int32), never, never),
    Near(order, similarity),
    np.zeros(number, bool),
  )
  steps = np.arange(number)[:, None]
  anchor = (rng.random((number, sizes.questions)) * (steps + 1)).astype(np.int32)
  right = np.where(rng.random(anchor.shape) < 0.9, rng.integers(0, 32, anchor.shape), NOTHING)
  return world, Questions(anchor, right.astype(np.int32))


def _asked(world: World, mode: Mode, use: Use) -> AfterFn:
  """Questions are answered from the memory; nobody counts for whom."""

  def after(memory, extra: Extra, event):
    def one(right, now):
      found = answer(memory, extra, world, *now, mode, use)
      return right + found.is_right, None

    given, tally = event.given, extra.tally
    right, _ = jax.lax.scan(one, tally.right, (given.questions, given.keys))
    return memory, extra._replace(tally=tally._replace(right=right)), None

  return after


def _counted(world: World, mode: Mode, use: Use) -> AfterFn:
  """The outcomes are counted, and the counters follow their claims."""

  def after(memory, extra: Extra, event):
    extra = ask(memory, follow(memory, extra, event, use), world, event.given, mode, use)
    return memory, extra._replace(before=memory.state), None

  return after


FORMS = {"asked": _asked, "counted": _counted, "governed": make_after}


def _inputs_of(claims: ClaimFeatures, looks: Look) -> PolicyInputs:
  """Shapes of the policy's inputs, for `make_policy`."""
  of = lambda *shape: jax.ShapeDtypeStruct(shape, np.float32)  # noqa: E731
  count = jax.ShapeDtypeStruct((), np.int32)
  dims = [leaf.shape[-1] for leaf in claims]
  pairs = [leaf.shape[-1] for leaf in (looks.pair_signals, looks.time_signals, looks.pair_source)]
  return PolicyInputs(
    candidate=of(dims[0]),
    entries=of(VISIBLE, dims[0]),
    claim_signals=of(dims[1]),
    pair_signals=of(VISIBLE, pairs[0]),
    time_signals=of(VISIBLE, pairs[1]),
    source=of(dims[2]),
    entry_source=of(VISIBLE, dims[2]),
    pair_source=of(VISIBLE, pairs[2]),
    num_accepted=count,
    num_visible=count,
  )


def _compile(sizes: Sizes) -> dict[str, Any]:
  """Each form as a call without arguments that runs all streams and returns the tallies."""
  rng = np.random.default_rng(0)
  made = [(*_features(rng, sizes), *_world(rng, sizes)) for _ in range(sizes.streams)]
  streams = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *made)
  policy = make_policy(_inputs_of(*made[0][:2]), ModelConfig())
  params = (policy.init(jax.random.key(0)), jnp.float32(1.0))
  keys = jax.random.split(jax.random.key(1), (sizes.streams, sizes.steps, sizes.questions))
  capacities = Capacities(sizes.capacity, sizes.capacity, sizes.capacity)
  mode = Mode(jnp.bool_(True), jnp.bool_(True))

  def roll_out(form, stream, keys):
    claims, looks, world, questions = stream
    run = make_rollout(choose_by_policy(policy), VISIBLE, form(world, mode, Use()))
    state = initial_state(capacities, sizes.steps)
    carry = Carry(track(state), start_extra(state))
    return run(params, claims, carry, looks, Given(None, questions, keys))[0].extra.tally

  calls = {}
  for name, form in FORMS.items():
    program = jax.jit(jax.vmap(functools.partial(roll_out, form)))
    calls[name] = functools.partial(program.lower(streams, keys).compile(), streams, keys)
  return calls


def measure(sizes: Sizes, repetitions: int) -> Iterator[dict[str, Any]]:
  """One record a form: seconds, and how much more than the form before it."""
  calls = _compile(sizes)
  seconds: dict[str, list[float]] = {name: [] for name in calls}
  tallies = {name: jax.device_get(call()) for name, call in calls.items()}
  for _ in range(repetitions):
    for name, call in calls.items():
      start = time.perf_counter()
      jax.block_until_ready(call())
      seconds[name].append(time.perf_counter() - start)
  for name in calls:
    pairs = zip(seconds[name], seconds["asked"], strict=True)
    yield {
      "bench": "governed_rollout",
      "form": name,
      **sizes._asdict(),
      "microseconds_a_step": round(
        1e6 * statistics.median(seconds[name]) / (sizes.streams * sizes.steps), 2
      ),
      "ratio_to_asked": round(statistics.median(own / base for own, base in pairs), 4),
      "graded": int(np.sum(tallies[name].graded)),
      "deprecated": int(np.sum(tallies[name].deprecated)),
      "dtype": "float32",
      "device": jax.devices()[0].device_kind,
    }


def run() -> Iterator[dict[str, object]]:
  """The default sizes."""
  yield from measure(Sizes(), REPETITIONS)
