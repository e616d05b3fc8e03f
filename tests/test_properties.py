"""Invariants of SPEC 3 under any transactions, drawn by hypothesis.

Every example has the same number of steps and one of two sizes, so that two traces serve
them all; the shorter ones are filled up with noops.
"""

import functools

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from test_actions import run_batch

from tarl_jax.types import NO_CLAIM, Action, LedgerId, Status

STEPS = 24
SIZES = ((1, 1, 1, 12), (3, 2, 2, 16))
FREE = (NO_CLAIM, Status.EMPTY, NO_CLAIM, 0)

INT32 = st.integers(-(2**31), 2**31 - 1)
TRANSACTION = st.tuples(
  st.one_of(st.integers(0, 4), st.sampled_from((0, 2, 3)), INT32),
  st.one_of(st.integers(0, 3), st.integers(-2, 5), INT32),
  st.one_of(st.integers(0, 16), st.integers(0, 16), INT32),
)
STREAM = st.tuples(st.sampled_from(SIZES), st.lists(TRANSACTION, max_size=STEPS))
property_test = hypothesis.settings(derandomize=True, deadline=None, max_examples=150)


@functools.lru_cache(maxsize=512)
def _run(sizes: tuple, transactions: tuple):
  padded = list(transactions) + [(Action.NOOP, 0, 0)] * (STEPS - len(transactions))
  batch = jnp.asarray(np.asarray(padded, np.int64).astype(np.int32)[:, None])
  states, infos = jax.device_get(run_batch(sizes, batch))
  return jax.tree.map(lambda leaf: leaf[:, 0], (states, infos))


class Trace:
  """A run as plain values: after step t, `ledgers[t]` is three lists of rows."""

  def __init__(self, stream: tuple):
    self.sizes, transactions = stream
    self.transactions = [tuple(int(part) for part in row) for row in transactions]
    states, infos = _run(self.sizes, tuple(self.transactions))
    self.raw = [self._bits(states, step) for step in range(STEPS)]
    parts = (states.accepted, states.pending, states.history)
    self.ledgers = [
      [[tuple(row) for row in part.rows[step].T.tolist()] for part in parts]
      for step in range(STEPS)
    ]
    self.refused = (infos.invalid | (infos.overflow != LedgerId.NONE)).tolist()
    self.left = [tuple(int(field[step]) for field in infos.evicted) for step in range(STEPS)]

  @staticmethod
  def _bits(states, step: int) -> tuple[bytes, ...]:
    """Accepted, Pending, History, entered; two leaves for a ledger."""
    parts = (states.accepted, states.pending, states.history)
    packed = [part.rows[step].tobytes() + part.written[step].tobytes() for part in parts]
    return (*packed, states.entered[step].tobytes())

  def __iter__(self):
    """(step, transaction, ledgers before, ledgers after, bits before, bits after)."""
    empty = [[FREE] * capacity for capacity in self.sizes[:3]]
    zero = np.int32(0).tobytes()
    rows = [np.asarray(ledger, np.int32).T.copy().tobytes() + zero for ledger in empty]
    before, bits = empty, (*rows, bytes(self.sizes[3]))
    for step, transaction in enumerate(self.transactions):
      yield step, transaction, before, self.ledgers[step], bits, self.raw[step]
      before, bits = self.ledgers[step], self.raw[step]


def live(rows: list[tuple]) -> list[tuple]:
  return [row for row in rows if row != FREE]


@property_test
@hypothesis.given(STREAM)
def test_noop_and_refused_transactions_leave_every_bit(stream):
  trace = Trace(stream)
  for step, (action, _, _), _, _, bits, next_bits in trace:
    if action == Action.NOOP or trace.refused[step]:
      assert bits == next_bits
    else:
      assert bits != next_bits
    assert not (action == Action.NOOP and trace.refused[step])


@property_test
@hypothesis.given(STREAM)
def test_what_is_refused_is_what_the_table_forbids(stream):
  trace = Trace(stream)
  seen: set[int] = set()
  for step, (action, slot, claim_id), before, _, _, _ in trace:
    accepted, pending, _ = (live(rows) for rows in before)
    allowed = {
      Action.APPEND: len(accepted) < trace.sizes[0],
      Action.NOOP: True,
      Action.REVISE: 0 <= slot < len(accepted),
      Action.REJECT_CONFLICT: 0 <= slot < len(accepted),
      Action.DEFER_VERIFY: len(pending) < trace.sizes[1],
    }.get(action, False)
    if action != Action.NOOP:
      allowed = allowed and 0 <= claim_id < trace.sizes[3] and claim_id not in seen
    assert trace.refused[step] == (not allowed)
    if allowed and action != Action.NOOP:
      seen.add(claim_id)


@property_test
@hypothesis.given(STREAM)
def test_each_action_touches_only_its_ledgers(stream):
  touched = {
    Action.APPEND: (0, 3), Action.REVISE: (0, 2, 3), Action.REJECT_CONFLICT: (2, 3),
    Action.DEFER_VERIFY: (1, 3),
  }  # fmt: skip
  trace = Trace(stream)
  for step, (action, _, _), _, _, bits, next_bits in trace:
    changed = tuple(part for part in range(4) if bits[part] != next_bits[part])
    assert changed == (() if trace.refused[step] else touched.get(action, ()))


@property_test
@hypothesis.given(STREAM)
def test_nothing_is_lost_and_nothing_is_twice(stream):
  trace = Trace(stream)
  handed_out: list[int] = []
  entered: list[int] = []
  for step, (action, _, claim_id), _, after, _, _ in trace:
    if action != Action.NOOP and not trace.refused[step]:
      entered.append(claim_id)
    if trace.left[step] != FREE:
      handed_out.append(trace.left[step][0])
    held = [row[0] for rows in after for row in live(rows)]
    assert sorted(held + handed_out) == sorted(entered)
    assert len(set(entered)) == len(entered)


@property_test
@hypothesis.given(STREAM)
def test_history_only_grows_and_then_lets_the_oldest_go(stream):
  trace = Trace(stream)
  order: list[tuple] = []
  for step, _, before, after, _, _ in trace:
    old, new = live(before[2]), live(after[2])
    assert len(new) >= len(old)
    gone = [row for row in old if row not in new]
    assert gone == ([trace.left[step]] if trace.left[step] != FREE else [])
    if gone:
      assert len(old) == trace.sizes[2] and gone == [order.pop(0)]
    order += [row for row in new if row not in old]
    assert sorted(order) == sorted(new)


@property_test
@hypothesis.given(STREAM)
def test_a_claim_is_where_its_last_transition_put_it(stream):
  trace = Trace(stream)
  places: dict[int, tuple] = {}  # claim to (ledger, status, link, step)
  for step, (action, slot, claim_id), before, after, _, _ in trace:
    if not trace.refused[step]:
      target = before[0][slot][0] if 0 <= slot < trace.sizes[0] else NO_CLAIM
      if action == Action.APPEND:
        places[claim_id] = (0, Status.ACCEPTED, NO_CLAIM, step)
      elif action == Action.DEFER_VERIFY:
        places[claim_id] = (1, Status.PENDING, target, step)
      elif action == Action.REJECT_CONFLICT:
        places[claim_id] = (2, Status.REJECTED, target, step)
      elif action == Action.REVISE:
        places[claim_id] = (0, Status.ACCEPTED, target, step)
        places[target] = (2, Status.SUPERSEDED, claim_id, step)
    if trace.left[step] != FREE:
      places.pop(trace.left[step][0])
    found = {row[0]: (part, *row[1:]) for part, rows in enumerate(after) for row in live(rows)}
    assert found == places


@property_test
@hypothesis.given(STREAM)
def test_rejected_evidence_never_enters_accepted(stream):
  trace = Trace(stream)
  rejected: set[int] = set()
  for step, (action, _, claim_id), before, after, _, _ in trace:
    if action == Action.REJECT_CONFLICT and not trace.refused[step]:
      rejected.add(claim_id)
      assert before[0] == after[0] and before[1] == after[1]
    assert not rejected & {row[0] for row in live(after[0]) + live(after[1])}
    assert {row[1] for row in live(after[0])} <= {Status.ACCEPTED}
    assert {row[1] for row in live(after[1])} <= {Status.PENDING}
    assert {row[1] for row in live(after[2])} <= {Status.SUPERSEDED, Status.REJECTED}
