"""The benchmark's command line, its three forms, and what it prints."""

import json
import subprocess
import sys

import numpy as np
import oracle
import pytest

from tarl_jax import actions
from tarl_jax.bench import __main__ as command
from tarl_jax.bench import transitions
from tarl_jax.types import LedgerId

SMALL = transitions.Sizes(steps=40, accepted=4, pending=2, history=3)


@pytest.fixture(scope="module")
def stream() -> transitions.Stream:
  return transitions.make_stream(np.random.default_rng(0), 6, SMALL)


def test_the_python_form_equals_the_oracle(stream):
  results = transitions._python_form(stream, SMALL)()
  for member, (lists, infos) in enumerate(results):
    memory = oracle.OracleMemory(SMALL.accepted, SMALL.pending, SMALL.history, SMALL.steps)
    for step, info in enumerate(infos):
      action, slot, claim_id = (int(field[step, member]) for field in stream)
      assert info == memory.execute(action, slot, claim_id, step)
    for rows, ledger in zip(lists, memory.ledgers(), strict=True):
      assert rows == [row for row in ledger.slots if row != oracle.EMPTY_ROW]


def test_a_form_that_does_something_else_is_not_timed(stream):
  expected = transitions._python_outcome(transitions._python_form(stream, SMALL)(), SMALL)
  form, _ = transitions._scan_form(actions.execute, stream, SMALL)
  outcome = transitions._scan_outcome(form())
  transitions._check_equal("execute", outcome, expected)
  for field in ("invalid", "overflow", "evicted"):
    wrong = outcome._replace(**{field: np.roll(getattr(outcome, field), 1, axis=0)})
    with pytest.raises(AssertionError, match="execute form"):
      transitions._check_equal("execute", wrong, expected)
  wrong = outcome._replace(rows=(*outcome.rows[:2], outcome.rows[2] + 1))
  with pytest.raises(AssertionError, match="execute form"):
    transitions._check_equal("execute", wrong, expected)


def test_most_transactions_of_a_stream_are_executable():
  sizes = transitions.Sizes()
  stream = transitions.make_stream(np.random.default_rng(1), 64, sizes)
  outcome = transitions._python_outcome(transitions._python_form(stream, sizes)(), sizes)
  refused = outcome.invalid.astype(bool) | (outcome.overflow != LedgerId.NONE)
  assert 0.02 < refused.mean() < 0.15
  shares = np.bincount(stream.action.ravel(), minlength=5) / stream.action.size
  np.testing.assert_allclose(shares, transitions.ACTION_SHARES, atol=0.02)


def test_a_record_has_every_field_and_survives_json():
  record = json.loads(json.dumps(transitions.measure(4, SMALL, repetitions=1)))
  assert list(record) == [
    "bench", "batch", "per_second", "ratio_python", "ratio_switch", "compile_s", "device",
  ]  # fmt: skip
  assert record["bench"] == "transitions" and record["batch"] == 4
  assert record["per_second"] > 0 and record["ratio_python"] > 0 and record["ratio_switch"] > 0


@pytest.mark.parametrize("arguments", [[], ["nope"], ["transitions", "fast"], ["--help"]])
def test_a_bad_command_line_is_one_sentence_and_exit_code_2(arguments, capsys):
  assert command.main(arguments) == 2
  printed = capsys.readouterr()
  assert printed.out == "" and printed.err.count("\n") == 1
  assert "transitions" in printed.err and printed.err.endswith(".\n")


def test_the_module_can_be_run():
  done = subprocess.run(
    [sys.executable, "-m", "tarl_jax.bench", "nope"], capture_output=True, text=True
  )
  assert done.returncode == 2 and "no benchmark named 'nope'" in done.stderr


def test_each_record_is_one_line(monkeypatch, capsys):
  monkeypatch.setitem(command.BENCHES, "transitions", lambda: iter([{"batch": 1}, {"batch": 2}]))
  assert command.main(["transitions"]) == 0
  assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
    {"batch": 1},
    {"batch": 2},
  ]
