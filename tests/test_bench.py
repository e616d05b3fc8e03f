"""The benchmark's command line, its three forms, and what it prints."""

import dataclasses
import json
import subprocess
import sys

import numpy as np
import oracle
import pytest
from small_worth import SMALL as SMALL_WORTH
from smoke_runs import compiled_once

from tarl_jax import actions
from tarl_jax.bench import __main__ as command
from tarl_jax.bench import transitions, worth
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


# Worth.


@pytest.fixture(scope="module")
def worth_records():
  with compiled_once():
    return [json.loads(json.dumps(r)) for r in worth.measure(SMALL_WORTH, 1, loop_episodes=30)]


def test_each_experiment_has_a_record_and_all_four_another(worth_records):
  assert [r["experiment"] for r in worth_records] == ["known", "mixed", "steered", "pair", "all"]
  for record in worth_records:
    assert list(record) == [
      "bench", "experiment", "seeds", "episodes", "seconds", "numpy_loop_seconds", "numpy_loop",
      "ratio", "compile_s", "dtype", "device",
    ]  # fmt: skip
    assert record["bench"] == "worth" and record["seeds"] == 3
    assert record["seconds"] > 0 and record["ratio"] > 0
  *parts, whole = worth_records
  assert [r["episodes"] for r in worth_records] == [240, 240, 240, 120, 240]
  assert all("30 episodes of 1 seed" in record["numpy_loop"] for record in worth_records)
  for name in ("seconds", "numpy_loop_seconds", "compile_s"):
    assert whole[name] == pytest.approx(sum(part[name] for part in parts), abs=0.03)


def test_the_numpy_loops_count_every_retrieval():
  """The same numbers of retrievals and, about, of successes as the programs have."""
  rng = np.random.default_rng(0)
  known = worth.loop_known(rng, SMALL_WORTH.known, 400)
  np.testing.assert_allclose(known.sum((0, 1)), [400 * 3] * 3, rtol=1e-4)
  mixed = worth.loop_mixed(rng, dataclasses.replace(SMALL_WORTH.mixed, effect=0.0), 1500)
  assert mixed.sum() == 1500 * 3 and mixed[6:, :, 0].sum() == 0
  success = mixed[:, 0].sum(0) / mixed.sum((0, 1))
  np.testing.assert_allclose(success, [0.78, 0.28], atol=0.05)
  steered = worth.loop_steered(rng, SMALL_WORTH.steered, 300)
  np.testing.assert_array_equal(steered.sum((2, 3)), np.full((3, 3), 300 * 2))
  assert steered[0, 0, :, 0].sum() > steered[0, 1, :, 0].sum()
  together, _, alone = worth.loop_pair(rng, SMALL_WORTH.pair, 300)
  np.testing.assert_array_equal(together[0], together[1])
  np.testing.assert_allclose(alone[:, 0] / alone.sum(1), [0.9, 0.05], atol=0.08)
