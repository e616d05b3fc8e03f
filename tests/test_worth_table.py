"""The worth study as a command: results.json, the table, the plots, and what is refused."""

import dataclasses
import json
import math
from collections.abc import Iterator

import matplotlib.image
import numpy as np
import pytest
from small_worth import SMALL
from smoke_runs import ROOT, Scripts, compiled_once, listing

from tarl_jax.errors import InputError
from tarl_jax.evaluation import worth_table
from tarl_jax.evaluation.worth_table import evaluate_worth, format_worth, summarize
from tarl_jax.experiments import retrieval, sensitivity, studies
from tarl_jax.experiments.figures import Figure
from tarl_jax.models.encoder import make_encoder

WORTH = ROOT / "configs" / "worth.py"
PAPER = {
  "1 known utility, random retrieval": {
    "rho, uniform weights": 0.89,
    "rho, score-proportional weights": 0.89,
    "rho, oracle weights": 0.89,
    "rho, never updated": 0.0,
  },
  "2 easy and hard tasks": {"rho, all tasks": -0.33, "rho, hard tasks only": 0.14},
  "3 retrieval steered by worth": {},
  "4 anchor and hitchhiker": {
    "seeds apart, 0% independent": 0.0,
    "seeds apart, 30% independent": 1.0,
  },
  "5 real texts": {
    "stale, before the change": 0.97,
    "stale, episodes from the change to under 0.40": 300.0,
    "stale, in the end": 0.17,
    "specialist, in the end": 0.77,
    "hitchhiker, in the end": 0.77,
  },
}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
  """A small study, what it printed, and its folder; studies and sensitivity are made up."""
  workdir = tmp_path_factory.mktemp("worth") / "new" / "folder"
  printed: list[str] = []
  with pytest.MonkeyPatch.context() as patch, compiled_once():
    patch.setattr(retrieval, "choose_encoder", lambda weights: make_encoder("hashed"))
    patch.setattr(studies, "run", lambda settings, seeds: [_line("first"), _line("second")])
    patch.setattr(
      sensitivity, "run", lambda *_: iter([Figure("sensitivity", "1, as set: x", _NONE)])
    )
    patch.setattr(worth_table, "print", printed.append, raising=False)
    results = evaluate_worth(dataclasses.replace(SMALL, sensitivity=True), workdir)
  return results, "\n".join(printed), workdir


_NONE = np.full(3, np.nan)


def _line(condition: str) -> studies.Line:
  return studies.Line("attack", condition, "rank", np.array([1.0, 2.0, np.nan]))


def refuse_constant(name: str):
  raise AssertionError(f"{name} is not JSON")


def test_results_have_every_experiment_with_the_papers_numbers(study):
  results, _, workdir = study
  text = (workdir / "results.json").read_text()
  assert json.loads(text, parse_constant=refuse_constant) == results
  assert set(results) == {*PAPER, "study: attack", "sensitivity"}
  for experiment, quantities in results.items():
    for quantity, summary in quantities.items():
      assert list(summary) == ["mean", "sd", "n", "paper"]
      assert summary["paper"] == PAPER.get(experiment, {}).get(quantity)
      assert (summary["mean"] is None) == (summary["n"] == 0)
    assert set(quantities) >= set(PAPER.get(experiment, {}))
    if experiment in PAPER and experiment[0] != "5":
      assert all(summary["n"] == len(SMALL.seeds) for summary in quantities.values())
  attack = results["study: attack"]
  assert attack["first: rank"] == {"mean": 1.5, "sd": math.sqrt(0.5), "n": 2, "paper": None}
  assert results["sensitivity"]["1, as set: x"] == {"mean": None, "sd": None, "n": 0, "paper": None}


def test_experiment_3_tells_every_regime_and_policy(study):
  told = study[0]["3 retrieval steered by worth"]
  assert len(told) == 3 * 3 * 4
  assert told["all alike, greedy: rho"]["mean"] == 0


def test_the_table_shows_what_results_hold(study):
  results, printed, _ = study
  assert format_worth(results) in printed
  lines = printed.splitlines()
  for experiment, quantities in results.items():
    at = lines.index(experiment)
    has_paper = any(summary["paper"] is not None for summary in quantities.values())
    columns = {line.count("|") for line in lines[at + 2 : at + 5]}
    assert columns == {5} if has_paper else len(columns) == 1
    assert lines[at + 2].startswith("| quantity |" if has_paper else "| condition |")
  mixed = results["2 easy and hard tasks"]["rho, all tasks"]
  row = next(line for line in lines if line.startswith("| rho, all tasks |"))
  assert row == f"| rho, all tasks | {mixed['mean']:.3f} ± {mixed['sd']:.3f} | 3 | -0.330 |"
  assert "| 1, as set | – |" in lines
  alike = results["3 retrieval steered by worth"]["all alike, random: memories in use in the end"]
  row = next(line for line in lines if line.startswith("| all alike, random |"))
  assert row.split(" | ")[2] == f"{alike['mean']:.3f} ± {alike['sd']:.3f}"


def test_summaries_by_hand():
  told = [
    Figure("a", "one seed", np.array([0.25]), 0.3),
    Figure("a", "all", np.array([1.0, 2.0, 6.0])),
    Figure("b", "far: x", np.array([310.4, np.nan])),
    Figure("b", "near: x", np.array([1.0])),
    Figure("b", "other: y", np.array([2.0])),
  ]
  results = summarize(told)
  assert results["a"]["one seed"] == {"mean": 0.25, "sd": 0.0, "n": 1, "paper": 0.3}
  assert results["a"]["all"] == {"mean": 3.0, "sd": math.sqrt(7.0), "n": 3, "paper": None}
  assert format_worth(results).splitlines()[5:7] == [
    "| one seed | 0.250 | 1 | 0.300 |",
    "| all | 3.000 ± 2.646 | 3 | – |",
  ]
  assert format_worth(results).splitlines()[-8:] == [
    "| condition | x |",
    "|---|---|",
    "| far | 310 |",
    "| near | 1.000 |",
    "",
    "| condition | y |",
    "|---|---|",
    "| other | 2.000 |",
  ]


def test_plots_are_images(study):
  for name in ("worth_rho.png", "worth_texts.png", "worth_pair.png"):
    image = matplotlib.image.imread(study[2] / name)
    assert image.ndim == 3 and min(image.shape[:2]) > 200
    assert image[..., :3].std() > 0.01, f"{name} is blank"


def test_a_trained_run_keeps_its_results(tmp_path):
  (tmp_path / "run.json").write_text("{}")
  before = listing(tmp_path)
  with pytest.raises(InputError, match="holds a trained run"):
    evaluate_worth(SMALL, tmp_path)
  assert listing(tmp_path) == before


# The command.


@pytest.fixture(scope="module")
def scripts(tmp_path_factory) -> Iterator[Scripts]:
  running = Scripts(tmp_path_factory.mktemp("scripts"))
  yield running
  running.close()


REFUSED = {
  "typo": (["--config.episods=5"], 'Did you mean "episodes"'),
  "episodes": (["--config.episodes=77"], "config.episodes must be a multiple"),
  "no number": (["--config.pair.level=high"], "config.pair.level=high"),
  "retrieved": (["--config.known.retrieved=500"], "config.known.retrieved must be from 1 to 100"),
  "experiment 5": (["--config.retrieval.retrieved=0"], "retrieval.retrieved"),
  "weights": (["--config.weights=absent"], "has no config.json"),
  "other study": (["--config.study=wealth"], "config.study is 'wealth'"),
  "cases": (["--cases=cases.jsonl"], "--cases"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_command_refuses(scripts, tmp_path, name):
  flags, word = REFUSED[name]
  done = scripts.run("eval.py", f"--config={WORTH}", f"--workdir={tmp_path}", *flags)
  assert_refused(done, word)
  assert list(tmp_path.iterdir()) == []


def test_configs_and_folders_that_cannot_be_used(scripts, tmp_path):
  path = tmp_path / "file"
  path.write_text("mine")
  done = scripts.run("eval.py", f"--config={WORTH}", f"--workdir={path}")
  assert_refused(done, "choose another folder")
  assert path.read_text() == "mine"
  training = ROOT / "configs" / "smoke.py"
  done = scripts.run("eval.py", f"--config={training}", f"--workdir={tmp_path}")
  assert_refused(done, "names no study")
  done = scripts.run("eval.py", "--config=absent.py", f"--workdir={tmp_path}")
  assert_refused(done, "absent.py")


def assert_refused(done, word: str) -> None:
  assert done.code == 2, done
  assert "Traceback" not in done.err
  (sentence,) = done.sentences
  assert sentence.startswith("eval.py: ") and sentence.endswith(".") and word in sentence, sentence
