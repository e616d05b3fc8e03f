"""`eval.py --workdir=DIR`: every method on the test split, as a table and `results.json`."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from tarl_jax.baselines.probe import hide_memory, probe
from tarl_jax.baselines.rule import decide_by_rule, fit_thresholds
from tarl_jax.baselines.simple import majority, write_hold_heuristic, write_hold_plain
from tarl_jax.data import lexical
from tarl_jax.data.dataset import (
  Split,
  build_split,
  encode_texts,
  examples_of,
  load_sources,
  read_vocabulary,
)
from tarl_jax.data.settings import Part
from tarl_jax.errors import InputError
from tarl_jax.evaluation import plots
from tarl_jax.evaluation.judging import Predictions, judge_split
from tarl_jax.evaluation.policies import load_same_encoder, predict
from tarl_jax.evaluation.scores import METRICS, parts, score, summarize
from tarl_jax.files import replace_file
from tarl_jax.models.encoder import Encoder
from tarl_jax.training.loop import example_sizes
from tarl_jax.training.workdir import Stamp, read_stamp, seed_folder
from tarl_jax.training.writers import read_metrics

Results = dict[str, dict[str, dict[str, dict[str, float]]]]
Methods = dict[str, list[Predictions]]  # one entry a seed; one where no seed matters


def evaluate(workdir: pathlib.Path) -> Results:
  """Scores the run in `workdir`, writes `results.json` and plots, prints the table.

  Raises:
    InputError: for a missing or damaged run, data other than it was trained on, or a file that
      cannot be written.
  """
  stamp = read_stamp(workdir)
  sources = load_sources(stamp.config.data)
  if sources.digest != stamp.data:
    raise InputError(
      f"{workdir}: was trained on other data than its config now gives; restore the files, or "
      "train again."
    )
  curves = {
    seed: read_metrics(seed_folder(workdir, seed) / "metrics.jsonl") for seed in stamp.config.seeds
  }
  encoder = load_same_encoder(stamp)
  idf = read_vocabulary(workdir / "vocabulary.json")
  test = build_split(sources.splits["test"], stamp.config, encoder, idf)
  val = build_split(sources.splits["val"], stamp.config, encoder, idf)
  methods = {"tarl": _policies(workdir, stamp, test)}
  methods |= _baselines(stamp, sources.splits["train"], encoder, idf, val, test)
  results = _score_all(methods, test, stamp)
  _write_json(workdir / "results.json", results)
  plots.draw_all(workdir, curves, methods["tarl"], test)
  print(format_results(results))
  if test.num_ambiguous:
    print(f"\n{test.num_ambiguous} new points too close to a live entry are left out.")
  return results


def _policies(workdir: pathlib.Path, stamp: Stamp, test: Split) -> list[Predictions]:
  predictions = []
  for seed in stamp.config.seeds:
    output, decision = predict(workdir, stamp, seed, test.inputs)
    predictions.append(
      Predictions(
        action=decision.action,
        position=decision.position,
        grounded=output.log_alpha.argmax(-1),
        probabilities=decision.probabilities,
        resolves=decision.resolves,
        outcome=decision.outcome,
      )
    )
  return predictions


def _baselines(
  stamp: Stamp,
  train: list[Part],
  encoder: Encoder,
  idf: Mapping[str, float],
  val: Split,
  test: Split,
) -> Methods:
  """Majority, candidate-only probe, hand rule and the two Write/Hold executors."""
  claims = [claim for part in train for claim in part.examples]
  action = np.array([claim.gold.action for claim in claims if claim.gold], np.int32)
  texts = encode_texts((c.text for c in claims), encoder, stamp.config.data.cache_dir, idf)
  signals = {text: lexical.claim_signals(lexical.parse(text)) for text in texts.row}
  sizes = example_sizes(test.inputs)
  shown = hide_memory(
    texts.encoding.sentence[[texts.row[claim.text] for claim in claims]],
    np.stack([signals[claim.text] for claim in claims]),
    sizes,
  )
  hidden = hide_memory(test.inputs.candidate, test.inputs.claim_signals, sizes)
  thresholds = fit_thresholds(*examples_of(val))
  return {
    "hand rule": [decide_by_rule(test.inputs, thresholds)],
    "candidate-only probe": [
      probe(stamp.config, seed, shown, action, hidden) for seed in stamp.config.seeds
    ],
    "majority": [majority(action, test.inputs)],
    "gold write/hold, plain": [write_hold_plain(test.inputs, test.labels)],
    "gold write/hold, heuristic": [write_hold_heuristic(test.inputs, test.labels, thresholds)],
  }


def _score_all(methods: Methods, test: Split, stamp: Stamp) -> Results:
  """{setting: {method: {metric: {mean, sd, n}}}}."""
  settings = parts(test)
  results: Results = {name: {} for name in settings}
  for method, runs in methods.items():
    verdicts = [judge_split(test, run, stamp.config.data.capacities) for run in runs]
    for setting, part in settings.items():
      scored = [score(test, run, verdict, part) for run, verdict in zip(runs, verdicts)]
      results[setting][method] = summarize(scored)
  return results


def _write_json(path: pathlib.Path, value: Any) -> None:
  """Writes JSON atomically; what is not a number becomes null."""
  clean = jax.tree.map(
    lambda leaf: None if isinstance(leaf, float) and not np.isfinite(leaf) else leaf, value
  )
  replace_file(path, json.dumps(clean, indent=2, allow_nan=False) + "\n")


def format_results(results: Results) -> str:
  """The table that a person reads, in Markdown; mean ± sd where there are several seeds."""
  lines = []
  for setting, methods in results.items():
    examples = next(iter(methods.values()))["examples"]["mean"]
    lines += [f"\n{setting} ({examples:.0f} examples)\n"]
    lines += ["| method | " + " | ".join(METRICS) + " |", "|---" * (len(METRICS) + 1) + "|"]
    for method, values in methods.items():
      lines.append(f"| {method} | " + " | ".join(_cell(values[m]) for m in METRICS) + " |")
    if setting == "all":
      lines += _class_lines(methods)
  return "\n".join(lines + _warnings(results["all"]))


def _cell(value: Mapping[str, float]) -> str:
  if not np.isfinite(value["mean"]):
    return "–"
  spread = f" ± {value['sd']:.3f}" if value["n"] > 1 else ""
  return f"{value['mean']:.3f}{spread}"


def _class_lines(methods: Mapping[str, Mapping[str, Mapping[str, float]]]) -> list[str]:
  names = [name for name in next(iter(methods.values())) if name.startswith("f1_")]
  header = ["\nF1 by class\n", "| method | " + " | ".join(n[3:] for n in names) + " |"]
  rows = [
    f"| {method} | " + " | ".join(_cell(values[name]) for name in names) + " |"
    for method, values in methods.items()
  ]
  return [*header, "|---" * (len(names) + 1) + "|", *rows]


def _warnings(methods: Mapping[str, Mapping[str, Mapping[str, float]]]) -> list[str]:
  """What a reader must not overlook."""
  tarl = methods["tarl"]
  lines = []
  if tarl["out_of_sight"]["mean"] > 0:
    lines.append(
      f"\n{tarl['out_of_sight']['mean']:.0f} gold targets were not among the visible entries; "
      "they count as wrong."
    )
  if tarl["refused"]["mean"] > 0:
    lines.append(
      f"\n{tarl['refused']['mean']:.1f} predicted transactions were refused by the executor; "
      "they count as wrong."
    )
  return lines
