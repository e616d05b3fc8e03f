"""How many transitions a second: `execute` under `vmap` in a scan, and what else there is.

Three forms do the same work on the same transactions: `execute`, a `vmap` of `lax.switch`
over the five named functions, and plain Python lists. Each starts from empty memories and
returns the final ledgers and what every single step reported. They are checked equal first
and then timed in turn, so that a busy machine slows all three alike.
"""

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tarl_jax import actions, ledgers
from tarl_jax.types import (
  NO_CLAIM,
  NUM_ACTIONS,
  Action,
  Claim,
  LedgerId,
  MemoryState,
  Status,
  TransitionInfo,
)

BATCHES = (64, 512, 2048)
REPETITIONS = 9

# append, noop, revise, reject_conflict, defer_verify in a made-up but ordinary stream.
ACTION_SHARES = (0.30, 0.20, 0.20, 0.15, 0.15)
BAD_TARGET_SHARE = 0.05
REPEATED_CLAIM_SHARE = 0.03


# Plain ints for the Python form: enum members are slower to compare and to store.
APPEND, NOOP, REVISE, REJECT, DEFER = (int(action) for action in Action)
ACTIVE, HELD, SUPERSEDED, REJECTED = (int(status) for status in list(Status)[1:5])
UNLINKED = int(NO_CLAIM)
PythonRow = tuple[int, int, int, int]
NO_ROW: PythonRow = (UNLINKED, int(Status.EMPTY), UNLINKED, 0)
DONE = (False, int(LedgerId.NONE), NO_ROW)
INVALID = (True, int(LedgerId.NONE), NO_ROW)
ACCEPTED_FULL = (False, int(LedgerId.ACCEPTED), NO_ROW)
PENDING_FULL = (False, int(LedgerId.PENDING), NO_ROW)


class Sizes(NamedTuple):
  """Length of the streams and capacities of the ledgers."""

  steps: int = 128
  accepted: int = 64
  pending: int = 32
  history: int = 128


class Stream(NamedTuple):
  """What to execute: int32 [T, B] each."""

  action: np.ndarray
  slot: np.ndarray
  claim_id: np.ndarray


class Outcome(NamedTuple):
  """What a form leaves behind, the same for all three; int32."""

  rows: tuple[np.ndarray, ...]  # [B, 4, K] for Accepted, Pending, History
  invalid: np.ndarray  # [T, B], 0 or 1
  overflow: np.ndarray  # [T, B], a LedgerId
  evicted: np.ndarray  # [T, B, 4], the row that left History, or the empty row


def make_stream(rng: np.random.Generator, batch: int, sizes: Sizes) -> Stream:
  """Random transactions, most of them executable: targets are live but for a few."""
  shape = (sizes.steps, batch)
  action = rng.choice(NUM_ACTIONS, size=shape, p=ACTION_SHARES)
  steps = np.arange(sizes.steps)[:, None]
  repeated = rng.random(shape) < REPEATED_CLAIM_SHARE
  claim_id = np.where(repeated, rng.integers(0, steps + 1, shape), steps)
  appends = action == Action.APPEND
  live = np.minimum(np.cumsum(appends, axis=0) - appends, sizes.accepted)  # but for refusals
  slot = rng.integers(0, np.maximum(live, 1))
  bad = rng.random(shape) < BAD_TARGET_SHARE
  slot = np.where(bad, rng.integers(-1, sizes.accepted + 1, shape), slot)
  return Stream(*(field.astype(np.int32) for field in (action, slot, claim_id)))


def _run_python(transactions: list[tuple[int, int, int]], sizes: Sizes) -> tuple[list, list]:
  """One stream in plain Python: rows are tuples in lists, membership is a set.

  Returns:
    The three lists of rows in slot order, and (invalid, overflow, row that left) a step.
  """
  accepted: list[PythonRow] = []
  pending: list[PythonRow] = []
  history: list[PythonRow] = []
  entered: set[int] = set()
  oldest = 0
  infos = []
  for step, (action, slot, claim_id) in enumerate(transactions):
    info = DONE
    if action != NOOP:
      live = 0 <= slot < len(accepted)
      new = 0 <= claim_id < sizes.steps and claim_id not in entered
      if not new or (not live and (action == REVISE or action == REJECT)):
        info = INVALID
      elif action == APPEND and len(accepted) == sizes.accepted:
        info = ACCEPTED_FULL
      elif action == DEFER and len(pending) == sizes.pending:
        info = PENDING_FULL
      else:
        entered.add(claim_id)
        target = accepted[slot][0] if live else UNLINKED
        if action == APPEND:
          accepted.append((claim_id, ACTIVE, UNLINKED, step))
        elif action == DEFER:
          pending.append((claim_id, HELD, target, step))
        else:
          row = (claim_id, REJECTED, target, step)
          if action == REVISE:
            accepted[slot] = (claim_id, ACTIVE, target, step)
            row = (target, SUPERSEDED, claim_id, step)
          if len(history) < sizes.history:
            history.append(row)
          else:
            info = (False, int(LedgerId.NONE), history[oldest])
            history[oldest] = row
            oldest = (oldest + 1) % sizes.history
    infos.append(info)
  return [accepted, pending, history], infos


def _python_form(stream: Stream, sizes: Sizes) -> Callable[[], Any]:
  """The Python form over a batch; its lists are made beforehand, outside the clock."""
  per_stream = np.stack(stream, axis=-1).swapaxes(0, 1).tolist()
  transactions = [[tuple(step) for step in steps] for steps in per_stream]
  return lambda: [_run_python(steps, sizes) for steps in transactions]


def _python_outcome(results: list, sizes: Sizes) -> Outcome:
  capacities = (sizes.accepted, sizes.pending, sizes.history)
  rows = tuple(
    np.tile(np.asarray(NO_ROW, np.int32)[:, None], (len(results), 1, capacity))
    for capacity in capacities
  )
  for stream, (lists, _) in enumerate(results):
    for array, filled in zip(rows, lists, strict=True):
      if filled:
        array[stream, :, : len(filled)] = np.asarray(filled, np.int32).T
  flat = [[(*info[:2], *info[2]) for info in infos] for _, infos in results]
  by_step = np.asarray(flat, np.int32).swapaxes(0, 1)  # [T, B, 2 + 4]
  return Outcome(rows, by_step[..., 0], by_step[..., 1], by_step[..., 2:])


def _switch(
  state: MemoryState, action: jax.Array, slot: jax.Array, claim: Claim
) -> tuple[MemoryState, TransitionInfo]:
  return jax.lax.switch(action, actions.ACTIONS, state, claim, slot)


def _scan_form(
  transition: Callable, stream: Stream, sizes: Sizes
) -> tuple[Callable[[], Any], float]:
  """The scan of a batched transition, compiled, and the seconds that took."""

  def scan(inputs: Stream):
    batch = inputs.action.shape[1]
    empty = ledgers.init_state(sizes.accepted, sizes.pending, sizes.history, sizes.steps)
    states = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (batch, *leaf.shape)), empty)

    def step(states: MemoryState, inputs: tuple[Stream, jax.Array]):
      transactions, number = inputs
      claim = Claim(
        claim_id=jnp.asarray(transactions.claim_id), step=jnp.broadcast_to(number, batch)
      )
      return jax.vmap(transition)(states, transactions.action, transactions.slot, claim)

    numbers = jnp.arange(sizes.steps, dtype=jnp.int32)
    return jax.lax.scan(step, states, (inputs, numbers))

  on_device = jax.tree.map(jnp.asarray, stream)
  start = time.perf_counter()
  compiled = jax.jit(scan).lower(on_device).compile()
  seconds = time.perf_counter() - start
  return lambda: jax.block_until_ready(compiled(on_device)), seconds


def _scan_outcome(result: tuple[MemoryState, TransitionInfo]) -> Outcome:
  state, info = jax.device_get(result)
  return Outcome(
    rows=(state.accepted.rows, state.pending.rows, state.history.rows),
    invalid=info.invalid.astype(np.int32),
    overflow=info.overflow,
    evicted=np.stack(info.evicted, axis=-1),
  )


def _check_equal(form: str, outcome: Outcome, expected: Outcome) -> None:
  for found, wanted in zip(jax.tree.leaves(outcome), jax.tree.leaves(expected), strict=True):
    if not np.array_equal(found, wanted):
      raise AssertionError(f"the {form} form does not do what the plain Python form does.")


def _median_seconds(forms: dict[str, Callable[[], Any]], repetitions: int) -> dict[str, float]:
  """Median seconds of each form, timed in turn, the garbage collector off."""
  seconds: dict[str, list[float]] = {name: [] for name in forms}
  collecting = gc.isenabled()
  gc.disable()
  try:
    for _ in range(repetitions):
      for name, form in forms.items():
        start = time.perf_counter()
        form()
        seconds[name].append(time.perf_counter() - start)
  finally:
    if collecting:
      gc.enable()
  return {name: statistics.median(times) for name, times in seconds.items()}


def measure(batch: int, sizes: Sizes, repetitions: int) -> dict[str, object]:
  """One record: transitions a second, ratios to the two other forms, seconds to compile.

  Raises:
    AssertionError: if the three forms disagree on a final ledger or on any step.
  """
  stream = make_stream(np.random.default_rng(batch), batch, sizes)
  execute_form, compile_seconds = _scan_form(actions.execute, stream, sizes)
  switch_form, _ = _scan_form(_switch, stream, sizes)
  python_form = _python_form(stream, sizes)
  expected = _python_outcome(python_form(), sizes)
  _check_equal("execute", _scan_outcome(execute_form()), expected)
  _check_equal("switch", _scan_outcome(switch_form()), expected)
  forms = {"execute": execute_form, "switch": switch_form, "python": python_form}
  seconds = _median_seconds(forms, repetitions)
  return {
    "bench": "transitions",
    "batch": batch,
    "per_second": round(batch * sizes.steps / seconds["execute"]),
    "ratio_python": round(seconds["python"] / seconds["execute"], 2),
    "ratio_switch": round(seconds["switch"] / seconds["execute"], 2),
    "compile_s": round(compile_seconds, 2),
    "device": jax.devices()[0].device_kind,
  }


def run() -> Iterator[dict[str, object]]:
  """One record for each batch size."""
  for batch in BATCHES:
    yield measure(batch, Sizes(), REPETITIONS)
