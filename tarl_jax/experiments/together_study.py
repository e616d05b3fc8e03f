"""Study: what governance by worth does to a memory that is being polluted (SPEC 7).

Owns the streams, the writers, the modes of use and the figures; what happens at a step is in
`together.py`. Nothing here is of the paper. A writer does what gold does, but for mistakes:
with the share `mistakes` of the claims it appends the claim, whatever gold says of it; with
share 1 it is Full History.

All writers, modes and seeds are one program: one `lax.scan` over the steps of a stream, in
tenths, so that the memory is measured after each tenth; everything else is `vmap`.

Axis legend: S seeds, W writers, X modes, N claims of a stream and its steps, Q questions a step.
"""

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tarl_jax import ledgers
from tarl_jax.data.generated import generate
from tarl_jax.data.moments import Capacities, gold_transactions, initial_state
from tarl_jax.data.record import Stream
from tarl_jax.errors import InputError
from tarl_jax.experiments.queries import (
  Questions,
  draw_questions,
  find_near,
  question_texts,
  read_facts,
)
from tarl_jax.experiments.simulate import make_keys
from tarl_jax.experiments.together import (
  Given,
  Mode,
  Tally,
  Use,
  World,
  is_trusted,
  make_after,
  start_extra,
)
from tarl_jax.models.hashed import HashedEncoder
from tarl_jax.policy_rollout import Carry, ClaimFeatures, Look, Seen, make_rollout
from tarl_jax.rollout import Transactions
from tarl_jax.tracking import TrackedMemory, track
from tarl_jax.types import NO_CLAIM, Action, Status

TENTHS = 10
MODES = {  # name to (steers, governs)
  "counted only": (False, False),
  "steers": (True, False),
  "steers and governs": (True, True),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TogetherSettings:
  """Sizes and choices of the study."""

  claims: int = 1000  # N, a multiple of 10
  split: str = "test"  # of the generated source
  mistakes: tuple[float, ...] = (0.2, 1.0)  # share of claims appended whatever they are, W of them
  questions: int = 4  # Q after each claim
  left_out: float = 0.3  # share of the words of the anchor that the question lacks
  near: int = 64  # M, claims near a question
  protected: float = 1.0  # claims of sources given at least this reliability are never deprecated
  use: Use = Use()

  def __post_init__(self) -> None:
    if self.claims < TENTHS or self.claims % TENTHS:
      raise InputError("together.claims must be a multiple of 10, at least 10.")
    if self.questions < 1 or not 1 <= self.near <= self.claims:
      raise InputError(
        "together.questions must be at least 1, together.near from 1 to together.claims."
      )
    if not self.mistakes or not all(0 <= share <= 1 for share in self.mistakes):
      raise InputError("together.mistakes must be from 0 to 1, at least one.")
    for name in ("left_out", "protected"):
      if not 0 <= getattr(self, name) <= 1:
        raise InputError(f"together.{name} must be from 0 to 1.")


class Setting(NamedTuple):
  """One seed, as prepared on the host; NumPy."""

  world: World
  questions: Questions  # int32 [N, Q]
  transactions: Transactions  # int32 [W, N]


class Measures(NamedTuple):
  """One look at the memory; leaves [10] by tenth of the stream, at its end."""

  accepted: Any  # int32 [], entries of Accepted
  polluted: Any  # int32 [], of them not held there by gold
  stale: Any  # int32 [], of them superseded in gold
  copies: Any  # int32 [], of them saying what gold trusts on their topic: no harm but clutter
  lost: Any  # int32 [], claims that gold trusts, deprecated
  trusted: Any  # int32 [], claims that gold trusts
  ever_trusted: Any  # int32 [], claims that gold trusts or once did
  tally: Tally


def _protected(stream: Stream, bar: float) -> np.ndarray:
  given = [claim.source_reliability for claim in stream.claims]
  return np.array([one is not None and one >= bar for one in given])


def write_with_mistakes(gold: Transactions, share: float, luck: np.ndarray) -> Transactions:
  """Gold's transactions, where luck (float [N] in [0, 1)) is under `share` a plain append."""
  wrong = luck < share

  def pick(right: np.ndarray, instead: int | np.integer) -> np.ndarray:
    return np.where(wrong, np.int32(instead), right)

  return Transactions(
    action=pick(gold.action, Action.APPEND),
    target=pick(gold.target, NO_CLAIM),
    claim_id=np.asarray(gold.claim_id),
    resolves=pick(gold.resolves, NO_CLAIM),
    outcome=pick(gold.outcome, Status.EMPTY),
  )


def prepare(settings: TogetherSettings, seed: int) -> Setting:
  """Stream, questions and writers of one seed; the same seed gives the same."""
  (stream,) = generate(seed, 1, settings.claims, settings.split)
  stream = dataclasses.replace(stream, claims=stream.claims[: settings.claims])
  facts, gold = read_facts(stream), gold_transactions(stream, settings.claims)
  luck = np.random.default_rng(seed).random(settings.claims)
  writers = [write_with_mistakes(gold, share, luck) for share in settings.mistakes]
  asked = question_texts(seed, stream, settings.left_out)
  return Setting(
    world=World(
      facts,
      find_near(stream, asked, HashedEncoder(), settings.near),
      _protected(stream, settings.protected),
    ),
    questions=draw_questions(seed, stream, facts, settings.questions),
    transactions=jax.tree.map(lambda *rows: np.stack(rows), *writers),
  )


def measure(memory: TrackedMemory, tally: Tally, world: World, step: jax.Array) -> Measures:
  """The memory beside gold's after the step; O(N)."""
  facts = jax.tree.map(jnp.asarray, world.facts)
  ids = jnp.arange(memory.state.num_claims, dtype=jnp.int32)
  trusted = is_trusted(facts, ids, step)
  entries = memory.state.accepted.claim_id
  held = jnp.zeros(len(ids), bool).at[entries].set(True, mode="drop")
  said = jnp.zeros(len(ids), bool).at[facts.saying].max(trusted)
  count = functools.partial(jnp.sum, dtype=jnp.int32)
  return Measures(
    accepted=ledgers.count(memory.state.accepted),
    polluted=count(held & ~trusted),
    stale=count(held & (facts.until <= step)),
    copies=count(held & ~trusted & said[facts.saying]),
    lost=count(trusted & (memory.where[:, 1] == Status.DEPRECATED)),
    trusted=count(trusted),
    ever_trusted=count(facts.since <= step),
    tally=tally,
  )


def _no_features(number: int) -> tuple[ClaimFeatures, Look]:
  """Claims and looks of a stream for a writer that looks at nothing."""
  nothing = np.zeros((number, 0), np.float32)
  none = np.full((number, 1), NO_CLAIM, np.int32)
  far = np.full((number, 1), -np.inf, np.float32)
  steps = np.arange(number, dtype=np.int32)
  pairs = nothing[:, None]
  return ClaimFeatures(nothing, nothing, nothing), Look(
    steps, steps, none, far, far[:, 0], pairs, pairs, pairs
  )


def _as_given(params: Any, seen: Seen, given: Given) -> tuple[Transactions, None]:
  del params, seen
  return given.transaction, None


def simulate(
  key: jax.Array,
  world: World,
  questions: Questions,
  transactions: Transactions,
  mode: Mode,
  use: Use,
) -> Measures:
  """One seed, writer and mode over the whole stream; leaves [10]. Unbatched; uses `key` up.

  Args:
    key: typed.
    world: of the stream.
    questions: int32 [N, Q].
    transactions: of the writer, int32 [N].
    mode: bool [] each.
    use: static.
  """
  number, asked = questions.anchor.shape
  state = initial_state(Capacities(number, number, number), number)
  claims, looks = _no_features(number)
  keys = jax.random.split(key, (number, asked))
  run = make_rollout(_as_given, 1, make_after(world, mode, use))

  def tenth(carry: Carry, part: tuple[Look, Given]) -> tuple[Carry, Measures]:
    carry, _ = run(None, claims, carry, *part)
    return carry, measure(carry.memory, carry.extra.tally, world, part[0].step[-1])

  parts = jax.tree.map(
    lambda leaf: jnp.reshape(leaf, (TENTHS, number // TENTHS, *leaf.shape[1:])),
    (looks, Given(transactions, questions, keys)),
  )
  return jax.lax.scan(tenth, Carry(track(state), start_extra(state)), parts)[1]


@functools.partial(jax.jit, static_argnames="use")
def simulate_all(keys: jax.Array, setting: Setting, mode: Mode, *, use: Use) -> Measures:
  """Leaves [S, W, X, 10], from leaves [S, ...], those of `mode` [X]."""
  run = functools.partial(simulate, use=use)
  by_mode = jax.vmap(run, in_axes=(None, None, None, None, 0))
  by_writer = jax.vmap(by_mode, in_axes=(None, None, None, 0, None))
  by_seed = jax.vmap(by_writer, in_axes=(0, 0, 0, 0, None))
  return by_seed(keys, setting.world, setting.questions, setting.transactions, mode)


def measure_all(settings: TogetherSettings, seeds: Sequence[int]) -> Measures:
  """NumPy leaves [S, W, X, 10], modes in the order of MODES."""
  prepared = [prepare(settings, seed) for seed in seeds]
  stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *prepared)
  mode = Mode(*(jnp.asarray(column) for column in zip(*MODES.values(), strict=True)))
  found = simulate_all(make_keys(seeds), stacked, mode, use=settings.use)
  return jax.tree.map(np.asarray, jax.device_get(found))


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
  return part / np.maximum(whole, 1)


def figures_of(measures: Measures) -> Iterator[tuple[str, np.ndarray]]:
  """(name, float64 [..., 10]) of every figure, by tenth."""
  tally = measures.tally
  change = lambda counts: np.diff(counts, axis=-1, prepend=0)  # noqa: E731
  yield "pollution", _share(measures.polluted, measures.accepted)
  yield "pollution but for copies", _share(measures.polluted - measures.copies, measures.accepted)
  yield "stale facts held", measures.stale.astype(np.float64)
  yield "entries", measures.accepted.astype(np.float64)
  yield "deprecated", tally.deprecated.astype(np.float64)
  yield "wrongly deprecated, of all ever trusted", _share(tally.wrong, measures.ever_trusted)
  yield "trusted entries lost, of those trusted now", _share(measures.lost, measures.trusted)
  yield "right answers", _share(change(tally.right), change(tally.asked))
  yield "asked back", _share(change(tally.asked_back), change(tally.asked))
  yield "graded outcomes, an entry", _share(tally.graded, measures.accepted)
  yield "refused transactions", tally.refused.astype(np.float64)


def run(settings: TogetherSettings, seeds: Sequence[int]) -> dict[str, np.ndarray]:
  """Every figure by name, float64 [S, 10]: by seed and tenth, the last column is the end."""
  measures = measure_all(settings, seeds)
  told = {}
  for row, share in enumerate(settings.mistakes):
    for column, mode in enumerate(MODES):
      for name, values in figures_of(jax.tree.map(lambda leaf: leaf[:, row, column], measures)):  # noqa: B023
        told[f"{share:.0%} mistakes, worth {mode}: {name}"] = values
  return told
