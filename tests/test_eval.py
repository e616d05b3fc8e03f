"""Evaluation end to end: the table, the plots, the gold oracle, and cases of one's own."""

import json
import math
import pathlib
import shutil

import matplotlib.image
import numpy as np
import pytest
from smoke_runs import compiled_once, listing, smoke_run

from tarl_jax.data.dataset import Split, build_split, load_encoder, load_sources, read_vocabulary
from tarl_jax.data.record import read_cases
from tarl_jax.evaluation.cases import decide_cases, format_answers
from tarl_jax.evaluation.judging import Predictions, judge_split
from tarl_jax.evaluation.scores import LOWER_IS_BETTER, METRICS, parts, score
from tarl_jax.evaluation.table import evaluate, format_results
from tarl_jax.types import ACTION_LABELS, NUM_ACTIONS

SETTINGS = {
  "all",
  "annotated+derived",
  "source: diary",
  "source: generated",
  "provenance: annotated",
  "provenance: derived",
  "provenance: constructed",
}
TRAINED = {"tarl", "candidate-only probe"}
METHODS = TRAINED | {
  "hand rule",
  "majority",
  "gold write/hold, plain",
  "gold write/hold, heuristic",
}


@pytest.fixture(autouse=True)
def one_compilation():
  with compiled_once():
    yield


@pytest.fixture(scope="module")
def test_split() -> Split:
  run = smoke_run()
  idf = read_vocabulary(run.workdir / "vocabulary.json")
  streams = load_sources(run.config.data).splits["test"]
  return build_split(streams, run.config, load_encoder(run.config.encoder), idf)


def refuse_constant(name: str):
  raise AssertionError(f"{name} is not JSON")


def test_results_have_every_setting_method_and_metric(test_split):
  text = (smoke_run().workdir / "results.json").read_text()
  results = json.loads(text, parse_constant=refuse_constant)
  assert set(results) == set(parts(test_split)) >= SETTINGS
  sources = {stream.source for stream in test_split.streams}
  assert {name for name in results if name.startswith("source: ")} == {
    f"source: {name}" for name in sources
  }
  for setting, methods in results.items():
    assert set(methods) == METHODS
    for method, values in methods.items():
      assert set(values) >= {*METRICS, *(f"f1_{label}" for label in ACTION_LABELS), "examples"}
      for name, summary in values.items():
        assert set(summary) == {"mean", "sd", "n"}, (setting, method, name)
        assert summary["n"] == (2 if method in TRAINED else 1)
        for number in (summary["mean"], summary["sd"]):
          assert number is None or math.isfinite(number)
  number = results["all"]["tarl"]["examples"]["mean"]
  assert number == test_split.counts.sum()
  for kind in ("source: ", "provenance: "):
    names = [name for name in results if name.startswith(kind)]
    assert number == sum(results[name]["tarl"]["examples"]["mean"] for name in names)
  table = format_results(smoke_run().results)
  assert all(f"\n{setting} (" in table for setting in SETTINGS)
  assert all(f"| {method} |" in table for method in METHODS) and " ± " in table


def test_a_second_evaluation_is_the_same(tmp_path, capsys):
  workdir = shutil.copytree(smoke_run().workdir, tmp_path / "run")
  for name in ("results.json", "confusion.png", "reliability.png", "training.png"):
    (workdir / name).unlink()
  results = evaluate(workdir)
  assert json.dumps(results) == json.dumps(smoke_run().results)
  assert listing(workdir) == listing(smoke_run().workdir)
  assert format_results(results) in capsys.readouterr().out


def test_plots_are_images():
  for name in ("confusion.png", "reliability.png", "training.png"):
    image = matplotlib.image.imread(smoke_run().workdir / name)
    assert image.ndim == 3 and min(image.shape[:2]) > 200
    assert image[..., :3].std() > 0.01, f"{name} is blank"


def test_gold_as_prediction_is_perfect(test_split):
  labels = test_split.labels
  assert labels.weight.all(), "the oracle needs every target in sight"
  gold = Predictions(
    action=labels.action,
    position=labels.target,
    grounded=labels.target,
    probabilities=np.eye(NUM_ACTIONS, dtype=np.float32)[labels.action],
    resolves=labels.resolves,
    outcome=labels.outcome,
  )
  settled = [moment.gold.resolves is not None for moment in test_split.moments]
  np.testing.assert_array_equal(labels.resolves < labels.targets.shape[1] - 1, settled)
  verdict = judge_split(test_split, gold, smoke_run().config.data.capacities)
  for setting, part in parts(test_split).items():
    values = score(test_split, gold, verdict, part)
    for name in METRICS:
      perfect = 0.0 if name in LOWER_IS_BETTER else 1.0
      assert math.isnan(values[name]) or values[name] == pytest.approx(perfect, abs=1e-6), setting
    assert values["refused"] == values["out_of_sight"] == 0
  values = score(test_split, gold, verdict, parts(test_split)["all"])
  assert not any(math.isnan(values[name]) for name in METRICS)


def test_one_wrong_prediction_counts_once(test_split):
  labels = test_split.labels
  action = labels.action.copy()
  first = int(np.flatnonzero(test_split.counts)[0])
  action[first] = (action[first] + 1) % NUM_ACTIONS
  wrong = Predictions(action, labels.target, labels.target, None, labels.resolves, labels.outcome)
  verdict = judge_split(test_split, wrong, smoke_run().config.data.capacities)
  everything = parts(test_split)["all"]
  number = int(everything.sum())
  assert score(test_split, wrong, verdict, everything)["next_state"] == (number - 1) / number


# Cases.

KEYS = (
  "id kind expected_action action expected_target target resolves outcome correct probability "
  "margin debatable"
).split()
HARBOUR = [
  {"text": "The ferry to Vell leaves at seven.", "source": "timetable", "source_reliability": 0.9},
  {"text": "Marta's boat is called Otter.", "source": "user", "time": "2030-02-01"},
  {"text": "The harbour café closes on Mondays.", "source": "a passing gull"},
]
TENANTS = "Abel Bock Cole Dane Eck Fink Gast Holm Iske Jahn Kroll Lind Moll Ott Pohl Quist".split()
CASES = [
  {
    "id": "full",
    "kind": "change",
    "accepted": HARBOUR,
    "pending": [{"text": "The crane may be replaced."}],
    "candidate": {
      "text": "The ferry to Vell now leaves at nine.",
      "source": "timetable",
      "source_reliability": 0.95,
      "time": "2030-03-01T08:00:00Z",
    },
    "expected_action": "revise",
    "expected_target": 0,
    "alt_actions": ["defer_verify"],
    "debatable": True,
    "colour": "any further field",
  },
  {
    "id": "empty memory",
    "kind": "new",
    "accepted": [],
    "pending": [],
    "candidate": {"text": "Marta rows every morning.", "source": "user"},
    "expected_action": "append",
  },
  {
    "id": "only pending",
    "kind": "new",
    "pending": [{"text": "Somebody saw a seal in the harbour.", "source": "¿?"}],
    "candidate": {"text": "There is a seal in the harbour.", "source": "harbour-cam 3"},
    "expected_action": "append",
  },
  {"id": "nothing known", "candidate": {"text": "Low tide is at noon."}},
  {
    "id": "crowded \ud800",
    "accepted": [
      *({"text": f"Berth {n} is rented by {name}."} for n, name in enumerate(TENANTS)),
      *HARBOUR,
    ],
    "candidate": {"text": "Berth 11 is rented by Sommer.", "source": "user"},
    "expected_action": "revise",
    "expected_target": 11,
  },
]


def write_cases(path: pathlib.Path, cases: list[dict]) -> pathlib.Path:
  path.write_text("\n".join(json.dumps(case) for case in cases) + "\n\n")
  return path


@pytest.fixture()
def workdir(tmp_path) -> pathlib.Path:
  return shutil.copytree(smoke_run().workdir, tmp_path / "run")


def test_cases_are_answered_in_order_with_fixed_keys(workdir, tmp_path, capsys):
  assert len(CASES[-1]["accepted"]) > smoke_run().config.data.num_visible
  before = listing(workdir)
  path = write_cases(tmp_path / "cases.jsonl", CASES)
  answers = decide_cases(workdir, path)
  assert json.loads((workdir / "cases.json").read_text()) == answers
  assert {k: v for k, v in listing(workdir).items() if k != "cases.json"} == before
  assert [answer["id"] for answer in answers] == [case["id"] for case in CASES]
  for answer, case in zip(answers, CASES, strict=True):
    assert list(answer) == KEYS
    assert answer["action"] in ACTION_LABELS
    assert answer["expected_action"] == case.get("expected_action")
    assert answer["expected_target"] == case.get("expected_target")
    assert (answer["kind"], answer["debatable"]) == (case.get("kind", ""), "debatable" in case)
    assert 0.2 <= answer["probability"] <= 1 and -1 <= answer["margin"] <= 1
    number = len(case.get("accepted", []))
    assert answer["target"] is None or 0 <= answer["target"] < number
    assert (answer["action"] in ("revise", "reject_conflict")) <= (answer["target"] is not None)
    assert isinstance(answer["correct"], bool) == ("expected_action" in case)
    waiting = [entry["text"] for entry in case.get("pending", [])]
    settles = answer["action"] in ("append", "revise")
    assert answer["resolves"] is None or (settles and answer["resolves"] in waiting)
    assert (answer["outcome"] in ("confirmed", "contradicted")) == (answer["resolves"] is not None)
  printed = capsys.readouterr().out
  assert all(answer["action"] in line for answer, line in zip(answers, printed.splitlines()))
  firm = [a["correct"] for a in answers if a["correct"] is not None and not a["debatable"]]
  judged = [a["correct"] for a in answers if a["correct"] is not None]
  assert f"undebated: {sum(firm)} of {len(firm)} right" in printed
  assert f"all: {sum(judged)} of {len(judged)} right" in printed
  assert "new: " in printed and "change: " in printed and "(no kind): " in printed


def test_the_order_of_entries_does_not_matter(workdir, tmp_path):
  """Neither action nor target nor probability, also where not every entry is in sight."""
  cases, orders = [], []
  rng = np.random.default_rng(3)
  for case in CASES:
    number = len(case.get("accepted", []))
    for order in (np.arange(number), np.arange(number)[::-1], rng.permutation(number)):
      shuffled = {"accepted": [case["accepted"][i] for i in order]} if number else {}
      cases.append({k: v for k, v in case.items() if k != "expected_target"} | shuffled)
      orders.append(order)
  answers = decide_cases(workdir, write_cases(tmp_path / "cases.jsonl", cases))
  for start in range(0, len(answers), 3):
    found = set()
    for answer, order in zip(answers[start : start + 3], orders[start : start + 3], strict=True):
      target = None if answer["target"] is None else int(order[answer["target"]])
      found.add((answer["action"], target, answer["probability"], answer["margin"]))
    assert len(found) == 1, answers[start]["id"]


def test_totals_by_hand(tmp_path):
  """Right action with the wrong target is wrong; alternatives count; no target, no check."""
  base = {"accepted": HARBOUR, "candidate": {"text": "x"}, "expected_action": "revise"}
  cases = read_cases(
    write_cases(
      tmp_path / "cases.jsonl",
      [
        base | {"id": "0", "kind": "a", "expected_target": 1},
        base | {"id": "1", "kind": "a", "expected_target": 2, "debatable": True},
        {"id": "2", "candidate": {"text": "x"}},
      ],
    )
  )
  answers = [
    {"id": case.id, "kind": case.kind, "expected_action": None, "action": "revise", "target": 1}
    | {"correct": correct, "probability": 0.5, "margin": 0.1, "debatable": case.debatable}
    for case, correct in zip(cases[:2], (True, False))
  ]
  lines = format_answers(answers, cases[:2]).splitlines()
  assert lines[0].startswith("+ 0 ") and "Otter" in lines[0]
  assert lines[1].startswith("- 1 ")
  assert lines[2:] == [
    "",
    "right by kind",
    "  a: 1 of 2",
    "",
    "undebated: 1 of 1 right",
    "all: 1 of 2 right",
  ]
