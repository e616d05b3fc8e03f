"""Memory Worth counters: what the outcomes say of each claim in Accepted (SPEC 7).

Owns the counters, how a graded retrieval adds to them, and how they fade with time. How they
follow their claims is in `by_claim.py`, what they *say* in `estimators.py`, credit for a task
that is graded at its end in `episodes.py`.

Legend as in `types.py`; also C task strata, R slots of one retrieval.

    live [K_A, C, 3]   by Accepted slot, the last axis by Outcome:  success  failure  unknown
    past [K_H, C, 3]   the same beside the History rows

Range: one cell is float32 and counts whole retrievals exactly up to 2^24. When success plus
failure of a slot and stratum have reached MAX_GRADED = 2^23, its three numbers are halved
at the next retrieval: worth and coverage stay, and the evidence is that of the latest
retrievals. `unknown` alone may stop growing at 2^24; it says nothing but coverage.

What is no outcome: a read for the memory's own upkeep (duplicate search, maintenance), a turn
that only asks back, and a mere report that a memory was used. Such a step is recorded as
`Outcome.NONE`, or not at all, and changes nothing. A use whose result never comes is UNKNOWN.
"""

import enum
import functools
from collections.abc import Mapping, Sequence
from typing import TypeGuard

import jax
import jax.numpy as jnp
import numpy as np

from tarl_jax import ledgers
from tarl_jax.by_claim import ByClaim
from tarl_jax.errors import InputError
from tarl_jax.types import TIME_UNBOUNDED, TIME_UNKNOWN, MemoryState

MAX_GRADED = 2.0**23  # where a pair is halved, half the exact range of float32
MAX_WEIGHT = 1024.0  # weights over it count as it, so that one retrieval cannot end the range


class Outcome(enum.IntEnum):
  """How a use of memory ended; the first three are the columns of the counters."""

  SUCCESS = 0
  FAILURE = 1
  UNKNOWN = 2  # used, never graded: no failure
  NONE = 3  # no use at all: changes nothing


class Worth(ByClaim, kw_only=True):
  """The counters, [K_A, C, 3] and [K_H, C, 3], and the time up to which they have faded."""

  last: jax.Array  # int32 [], minutes; TIME_UNKNOWN before the first `decay`

  @property
  def success(self) -> jax.Array:
    """float32 [K_A, C]: retrieval weights over episodes that succeeded."""
    return self.live[..., Outcome.SUCCESS]

  @property
  def failure(self) -> jax.Array:
    """float32 [K_A, C]: retrieval weights over episodes that failed."""
    return self.live[..., Outcome.FAILURE]

  @property
  def unknown(self) -> jax.Array:
    """float32 [K_A, C]: retrieval weights over episodes that were never graded."""
    return self.live[..., Outcome.UNKNOWN]


def init_worth(state: MemoryState, strata: int = 1) -> Worth:
  """Counters at zero for every claim of `state`, with C = `strata`. Unbatched.

  Raises:
    ValueError: if `strata` is under 1.
  """
  if strata < 1:
    raise ValueError(f"there must be at least one task stratum, got {strata}.")
  return Worth(
    live=jnp.zeros((state.accepted.capacity, strata, 3), jnp.float32),
    past=jnp.zeros((state.history.capacity, strata, 3), jnp.float32),
    past_id=jnp.copy(state.history.claim_id),
    last=jnp.asarray(TIME_UNKNOWN),
  )


def uniform_weights(valid: jax.Array) -> jax.Array:
  """float32 [R]: 1 for each slot of the retrieval, 0 where `valid` (bool [R]) is false."""
  return jnp.asarray(valid, jnp.float32)


@jax.jit
def similarity_weights(similarity: jax.Array, valid: jax.Array) -> jax.Array:
  """Weights proportional to similarity with mean 1 over the valid slots; float32 [R].

  A similarity that is negative or not finite counts as 0; where none is left, all are equal.
  """
  usable = jnp.isfinite(similarity) & (similarity > 0) & valid
  share = jnp.where(usable, similarity, 0.0)
  share = share / jnp.maximum(jnp.max(share), jnp.finfo(jnp.float32).tiny)  # the sum is finite
  total = jnp.sum(share)
  scaled = share * jnp.sum(valid, dtype=jnp.float32) / jnp.maximum(total, 1.0)
  return jnp.where(total > 0, scaled, uniform_weights(valid))


def sound_weights(weights: jax.Array) -> jax.Array:
  """Weights in [0, MAX_WEIGHT]: 0 for what is negative or not finite, else clipped."""
  usable = jnp.isfinite(weights) & (weights > 0)
  return jnp.minimum(jnp.where(usable, weights, 0.0), MAX_WEIGHT)


def merge_repeats(slots: jax.Array, weights: jax.Array, no_slot: int) -> tuple[jax.Array, ...]:
  """(slots, weights) with each slot once: its first place carries the sum, the rest NO_SLOT.

  So a scatter-add meets no index twice, and its order, which a GPU does not fix, cannot
  change the last bits.
  """
  same = slots[:, None] == slots[None, :]
  total = jnp.sum(jnp.where(same, weights[None, :], 0.0), axis=1)
  first = jnp.argmax(same, axis=1) == jnp.arange(slots.shape[0])
  return jnp.where(first, slots, no_slot), total


def is_counted(strata: int, stratum: jax.Array, outcome: jax.Array) -> jax.Array:
  """bool []: the stratum is in range, and the outcome is one that the counters hold."""
  return (stratum >= 0) & (stratum < strata) & (outcome >= 0) & (outcome < Outcome.NONE)


def add_outcome(
  rows: jax.Array, slots: jax.Array, weights: jax.Array, stratum: jax.Array, outcome: jax.Array
) -> jax.Array:
  """`rows` with the weights added at (slot, stratum, outcome), halving where a pair is full.

  Unbatched. Slots at the length of `rows` are dropped; repeated slots all count. A stratum or
  outcome out of range changes nothing.

  Args:
    rows: float32 [K, C, 3], counters by slot.
    slots: int32 [R] in [0, K].
    weights: float32 [R].
    stratum: int32 [].
    outcome: an Outcome, int32 [].
  """
  capacity, strata, _ = rows.shape
  slots, weights = merge_repeats(slots, sound_weights(weights), capacity)
  slots = jnp.where(is_counted(strata, stratum, outcome), slots, capacity)
  held = rows.at[slots, stratum].get(mode="clip")  # [R, 3]
  full = held[:, Outcome.SUCCESS] + held[:, Outcome.FAILURE] >= MAX_GRADED
  added = weights[:, None] * jax.nn.one_hot(outcome, 3)[None, :]
  change = added - jnp.where(full[:, None], held / 2, 0.0)
  return rows.at[slots, stratum].add(change, mode="drop")


@jax.jit
def record(
  worth: Worth,
  state: MemoryState,
  slots: jax.Array,
  weights: jax.Array,
  stratum: jax.Array,
  outcome: jax.Array,
) -> Worth:
  """Adds one retrieval with its outcome to the counters, by scatter-add. Unbatched.

  `past` is unchanged. Slots that are not live (NO_SLOT, negative, beyond) are dropped;
  a slot that occurs several times counts each time.

  Args:
    worth: counters before.
    state: the memory that was retrieved from; the slots are its Accepted slots.
    slots: int32 [R].
    weights: float32 [R], at least 0; see `sound_weights` for what is not.
    stratum: kind of task, int32 [] in [0, C); out of range changes nothing.
    outcome: an Outcome, int32 []; NONE, or none of them, changes nothing.
  """
  live = (slots >= 0) & (slots < ledgers.count(state.accepted))
  index = jnp.where(live, slots, worth.live.shape[0])
  return worth.replace(live=add_outcome(worth.live, index, weights, stratum, outcome))


@functools.partial(jax.jit, static_argnames="half_life")
def decay(worth: Worth, now: jax.Array, half_life: float) -> Worth:
  """Lets all counters fade by the time since the last call, to half in `half_life` minutes.

  Success and failure shrink together: their ratio stays, the evidence falls, and with it the
  posterior mean goes back to the prior. So age alone never makes a memory look worse than
  an unknown one. Only elapsed time counts, not the number of calls. A time that is before
  the last one, TIME_UNKNOWN or TIME_UNBOUNDED changes nothing. The first call only starts the
  clock. Unbatched; costs one product over all counters, and may be called as seldom as wished.

  Args:
    worth: counters before.
    now: int32 [], minutes.
    half_life: minutes, over 0.

  Raises:
    ValueError: if the half-life is not over 0.
  """
  if not half_life > 0:
    raise ValueError(f"the half-life must be over 0 minutes, got {half_life}.")
  later = (now > worth.last) & (now != TIME_UNBOUNDED)
  started = worth.last != TIME_UNKNOWN
  # The difference can pass 2^31: it is right as an unsigned one.
  elapsed = (now.astype(jnp.uint32) - worth.last.astype(jnp.uint32)).astype(jnp.float32)
  factor = jnp.exp2(-jnp.where(later & started, elapsed, 0.0) / half_life)
  return worth.replace(
    live=worth.live * factor, past=worth.past * factor, last=jnp.where(later, now, worth.last)
  )


def read_counts(
  records: Sequence[Mapping[str, object] | None], where: str
) -> tuple[np.ndarray, np.ndarray]:
  """Counters from outside, checked: `success`, `failure` and, if given, `unknown` by memory.

  Args:
    records: one a memory; None, or a record with neither success nor failure, is absent.
    where: names the origin in messages, e.g. a file.

  Returns:
    (counts, known): float32 [K, 3] and bool [K]; an absent memory has zeros and is not known,
    one with observed zeros is.

  Raises:
    InputError: for a number that is missing, negative, not finite or over 2^24.
  """
  counts = np.zeros((len(records), 3), np.float32)
  known = np.zeros(len(records), bool)
  for number, record_ in enumerate(records):
    if record_ is None or not {"success", "failure"} & set(record_):
      continue
    known[number] = True
    for column, name in enumerate(("success", "failure", "unknown")):
      value = record_.get(name, 0 if name == "unknown" else None)
      if not _is_count(value):
        raise InputError(
          f"{where}: memory {number}, {name}: {value!r} is no count; give a finite number from"
          " 0 to 2^24, or leave the memory out."
        )
      counts[number, column] = value
  return counts, known


def _is_count(value: object) -> TypeGuard[float]:
  is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
  return is_number and 0 <= value <= 2**24  # type: ignore[operator]  # NaN is not
