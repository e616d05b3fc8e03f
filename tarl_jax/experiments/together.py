"""Worth and TARL together: questions, outcomes, worth and governance inside one rollout (SPEC 7).

Owns what follows each transition of a rollout here, and what it is measured by:

    transact ──> counters follow ──> questions: retrieve ──> read ──> outcome ──> counters
                                                                                      │
    next step  <── places of what moved  <── deprecate what is due  <─────────────────┘

The reader knows whether an entry is about what was asked, not whether it is true: it answers
from the first retrieved entry on the topic, and asks back where there is none, which is no
outcome. Worth learns of gold only through outcomes, of which some never come and some are
wrong. Nothing here is of the paper. Who writes, and its mistakes, is the rollout's
`choose_fn`; what is asked is in `queries.py`.

Axis legend: N claims of a stream and its steps, K_A Accepted slots, M claims near a question,
R places of a retrieval, Q questions a step, B claims deprecated in a step at most.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tarl_jax import by_claim, estimators, ledgers, retrieval, worth
from tarl_jax.experiments.queries import Facts, Near, Questions
from tarl_jax.governance_plan import Settings
from tarl_jax.governance_step import Filed, govern
from tarl_jax.policy_rollout import AfterFn, Event
from tarl_jax.tracking import LEDGER, LINK, SLOT, STATUS, TrackedMemory, places_of
from tarl_jax.types import NO_CLAIM, TIME_UNBOUNDED, LedgerId, MemoryState
from tarl_jax.worth import Outcome, Worth


@dataclasses.dataclass(frozen=True, kw_only=True)
class Use:
  """How the memory is used and governed; static under jit."""

  retrieved: int = 1  # R, entries that the reader gets
  candidates: int = 8  # entries nearest to the question among which worth and chance may choose
  margin: float = 0.3  # of similarity that full worth outweighs, see `retrieval.priority`
  optimism: float = 2.0  # standard deviations over the mean that a little-tried claim is given
  floor: float = 0.02  # least probability of a candidate to be retrieved
  half_life: float = 200.0  # steps in which counters fade to half, as facts change under them
  unknown: float = 0.3  # share of outcomes that never come
  flipped: float = 0.05  # share of the others that are reported wrongly
  governance: Settings = Settings(low=0.35, expiries=0)


class World(NamedTuple):
  """What the stream is about: the same for every writer and every mode of use."""

  facts: Facts
  near: Near
  protected: Any  # bool [N], claims that are never deprecated


class Mode(NamedTuple):
  """What worth is used for; both false: it is only counted."""

  steers: Any  # bool []: it changes the order of retrieval
  governs: Any  # bool []: what it finds due is deprecated


class Tally(NamedTuple):
  """Counts from the start of the stream on; int32 []."""

  asked: Any  # questions
  right: Any  # of them answered as gold would
  asked_back: Any  # of them without an entry on the topic
  graded: Any  # outcomes that came
  deprecated: Any  # claims
  wrong: Any  # of them trusted by gold at that time
  refused: Any  # transactions


class Extra(NamedTuple):
  """What goes from step to step beside the memory."""

  counters: Worth
  doubtful: jax.Array  # bool [N]
  tally: Tally
  before: MemoryState  # after the last step, which `by_claim.follow_step` compares with


class Given(NamedTuple):
  """The caller's own of a step: what the writer would do, and the questions after it."""

  transaction: Any  # Transactions, int32 [] each
  questions: Questions  # int32 [Q] each
  keys: Any  # typed keys [Q]


class Answer(NamedTuple):
  """One question, asked and graded."""

  slots: jax.Array  # int32 [R], what was retrieved, NO_SLOT where nothing
  is_right: jax.Array  # bool []: as gold would; asking back where gold trusts nothing is
  asked_back: jax.Array  # bool []
  outcome: jax.Array  # int32 [], what the memory is told


def start_extra(state: MemoryState) -> Extra:
  """Nothing counted yet, for an empty memory."""
  zero = jnp.int32(0)
  no_doubt = jnp.zeros(state.num_claims, bool)
  return Extra(worth.init_worth(state), no_doubt, Tally(*[zero] * 7), state)


def is_trusted(facts: Facts, claim_id: jax.Array, step: jax.Array) -> jax.Array:
  """bool, in the shape of `claim_id`: gold holds the claim in Accepted after the step."""
  since = jnp.asarray(facts.since).at[claim_id].get(mode="fill", fill_value=NO_CLAIM)
  until = jnp.asarray(facts.until).at[claim_id].get(mode="fill", fill_value=NO_CLAIM)
  return (since <= step) & (step < until)


def hope(success: jax.Array, failure: jax.Array, optimism: float) -> jax.Array:
  """Posterior mean of the worth and `optimism` standard deviations, at most 1. Elementwise.

  So what was seldom tried is tried first, and soon found out.
  """
  mean = estimators.posterior_mean(success, failure)
  deviation = jnp.sqrt(mean * (1 - mean) / (success + failure + 3))
  return jnp.minimum(mean + optimism * deviation, 1.0)


def search(
  memory: TrackedMemory,
  extra: Extra,
  world: World,
  anchor: jax.Array,
  key: jax.Array,
  steers: jax.Array,
  use: Use,
) -> tuple[jax.Array, jax.Array]:
  """(claims, slots) int32 [R] of what is retrieved for the question about `anchor`, int32 [].

  Only the M claims near the question are looked at, as far as they are in Accepted. Costs
  O(M), whatever the size of the memory. Consumes `key`.
  """
  near = jnp.asarray(world.near.claim_id)[anchor]
  place = places_of(memory, near)
  accepted = (place[:, LEDGER] == LedgerId.ACCEPTED) & (anchor != NO_CLAIM)
  accepted &= jnp.cumsum(accepted) <= use.candidates
  slot = jnp.where(accepted, place[:, SLOT], memory.state.accepted.no_slot)
  success, failure = (
    counts.at[slot, 0].get(mode="fill", fill_value=0.0)
    for counts in (extra.counters.success, extra.counters.failure)
  )
  hopes = jnp.where(steers, hope(success, failure, use.optimism), estimators.PRIOR)
  doubtful = retrieval.suppressed(
    jnp.zeros_like(accepted), extra.doubtful, jnp.asarray(world.protected), near
  )
  similarity = jnp.asarray(world.near.similarity)[anchor]
  score = retrieval.priority(similarity, hopes, doubtful, margin=use.margin)
  found = retrieval.retrieve(key, score, accepted, near, num=use.retrieved, floor=use.floor)
  claims = near.at[found.places].get(mode="fill", fill_value=NO_CLAIM)
  return claims, slot.at[found.places].get(mode="fill", fill_value=memory.state.accepted.no_slot)


def read(facts: Facts, claims: jax.Array, anchor: jax.Array, right: jax.Array):
  """The reader's answer from the retrieved `claims`, int32 [R], best first.

  Returns:
    (is_right, asked_back), bool [] each.
  """
  on_topic = (claims != NO_CLAIM) & (
    jnp.asarray(facts.topic).at[claims].get(mode="clip") == jnp.asarray(facts.topic)[anchor]
  )
  asked_back = ~jnp.any(on_topic)
  used = claims[jnp.argmax(on_topic)]
  says = jnp.asarray(facts.saying).at[used].get(mode="clip")
  return jnp.where(asked_back, right < 0, says == right), asked_back


def report_outcome(
  key: jax.Array, is_right: jax.Array, asked_back: jax.Array, use: Use
) -> jax.Array:
  """What the memory is told, int32 []: NONE for asking back, else graded but for the noise."""
  unknown, flipped = jax.random.uniform(key, (2,)) < jnp.array([use.unknown, use.flipped])
  graded = jnp.where(is_right ^ flipped, int(Outcome.SUCCESS), int(Outcome.FAILURE))
  graded = jnp.where(unknown, int(Outcome.UNKNOWN), graded)
  return jnp.where(asked_back, int(Outcome.NONE), graded).astype(jnp.int32)


def answer(
  memory: TrackedMemory,
  extra: Extra,
  world: World,
  question: Questions,
  key: jax.Array,
  mode: Mode,
  use: Use,
) -> Answer:
  """Retrieves, reads and grades one question, int32 [] each; nothing is changed."""
  search_key, outcome_key = jax.random.split(key)
  claims, slots = search(memory, extra, world, question.anchor, search_key, mode.steers, use)
  is_right, asked_back = read(world.facts, claims, question.anchor, question.right)
  outcome = report_outcome(outcome_key, is_right, asked_back, use)
  nothing_asked = question.anchor == NO_CLAIM
  return Answer(
    slots=slots,
    is_right=is_right & ~nothing_asked,
    asked_back=asked_back & ~nothing_asked,
    outcome=jnp.where(nothing_asked, int(Outcome.NONE), outcome),
  )


def ask(memory: TrackedMemory, extra: Extra, world: World, given: Given, mode: Mode, use: Use):
  """The questions of a step one after the other, each counted before the next.

  Returns:
    Extra with counters and tally brought up to date.
  """

  def one(extra: Extra, now: tuple[Questions, jax.Array]) -> tuple[Extra, None]:
    question, key = now
    got = answer(memory, extra, world, question, key, mode, use)
    weights = worth.uniform_weights(got.slots != memory.state.accepted.no_slot)
    counters = worth.record(
      extra.counters, memory.state, got.slots, weights, jnp.int32(0), got.outcome
    )
    tally = extra.tally
    tally = tally._replace(
      asked=tally.asked + (question.anchor != NO_CLAIM),
      right=tally.right + got.is_right,
      asked_back=tally.asked_back + got.asked_back,
      graded=tally.graded + (got.outcome < Outcome.UNKNOWN),
    )
    return extra._replace(counters=counters, tally=tally), None

  return jax.lax.scan(one, extra, (given.questions, given.keys))[0]


def track_filed(before: TrackedMemory, state, filed: Filed) -> TrackedMemory:
  """The memory `state` after governance, with the place of every claim kept up to date.

  Rows that fill a gap in Accepted end in a slot that one of the filed claims left, so that
  only these slots, the newest rows of History and what left it need a look; O(B).
  """
  claims = filed.claim_id
  slots = places_of(before, claims)[:, SLOT]
  newest = ledgers.next_slot(state.history) - 1 - jnp.arange(len(claims), dtype=jnp.int32)
  parts = (
    (LedgerId.ACCEPTED, state.accepted, slots),
    (LedgerId.HISTORY, state.history, newest % state.history.capacity),
  )
  gone = filed.evicted.claim_id
  nowhere = jnp.zeros((len(gone), 4), jnp.int32)
  nowhere = nowhere.at[:, LEDGER].set(int(LedgerId.NONE)).at[:, LINK:].set(NO_CLAIM)
  where = before.where.at[gone].set(nowhere, mode="drop")
  for ledger_id, ledger, at in parts:
    row = jax.vmap(ledgers.read_row, in_axes=(None, 0))(ledger, at)
    place = jnp.zeros((len(at), 4), jnp.int32).at[:, LEDGER].set(int(ledger_id))
    place = place.at[:, STATUS].set(row.status).at[:, LINK].set(row.link).at[:, SLOT].set(at)
    where = where.at[row.claim_id].set(place, mode="drop")
  return TrackedMemory(state=state, where=where)


def weed(
  memory: TrackedMemory, extra: Extra, world: World, step: jax.Array, mode: Mode, use: Use
) -> tuple[TrackedMemory, Extra]:
  """Deprecates what is due after the step, within the budget; nothing where not `governs`."""
  exempt = jnp.asarray(world.protected) | ~mode.governs
  never = jnp.full(exempt.shape, TIME_UNBOUNDED, jnp.int32)
  state, counters, doubtful, info = govern(
    memory.state,
    extra.counters,
    extra.doubtful,
    step,
    jnp.int32(0),
    never,
    exempt,
    settings=use.governance,
  )
  claims = info.filed.claim_id
  wrong = is_trusted(world.facts, claims, step)
  tally = extra.tally._replace(
    deprecated=extra.tally.deprecated + jnp.sum(claims != NO_CLAIM, dtype=jnp.int32),
    wrong=extra.tally.wrong + jnp.sum(wrong, dtype=jnp.int32),
  )
  memory = track_filed(memory, state, info.filed)
  return memory, extra._replace(counters=counters, doubtful=doubtful, tally=tally)


def follow(memory: TrackedMemory, extra: Extra, event: Event, use: Use) -> Extra:
  """The counters after the transition of the event: moved with their claims, and faded."""
  state, executed = memory.state, event.executed
  is_accepted = executed.target[LEDGER] == LedgerId.ACCEPTED
  slot = jnp.where(is_accepted, executed.target[SLOT], state.accepted.no_slot)
  counters, _ = by_claim.follow_step(extra.counters, extra.before, state, slot)
  counters = worth.decay(counters, event.step, use.half_life)  # a step counts as a minute
  refused = executed.info.invalid | (executed.info.overflow != LedgerId.NONE)
  tally = extra.tally._replace(refused=extra.tally.refused + refused)
  return extra._replace(counters=counters, tally=tally)


def make_after(world: World, mode: Mode, use: Use) -> AfterFn:
  """What follows each transition: the counters follow, questions are asked, governance acts.

  `event.given` is a Given; the carry is an Extra. Padding asks nothing if its anchors are
  NO_CLAIM. Nothing is reported: the tally says it.
  """

  def after(memory: TrackedMemory, extra: Extra, event: Event):
    extra = follow(memory, extra, event, use)
    extra = ask(memory, extra, world, event.given, mode, use)
    memory, extra = weed(memory, extra, world, event.step, mode, use)
    return memory, extra._replace(before=memory.state), None

  return after
