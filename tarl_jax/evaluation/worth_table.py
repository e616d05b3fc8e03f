"""`eval.py --config=configs/worth.py --workdir=DIR`: the worth experiments and their table.

Owns the order of the experiments, `results.json` and the printed table.
"""

import itertools
import json
import pathlib
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from tarl_jax.errors import InputError
from tarl_jax.evaluation import worth_plots
from tarl_jax.experiments import figures, retrieval, sensitivity, studies
from tarl_jax.experiments.config import WorthConfig
from tarl_jax.experiments.figures import Figure
from tarl_jax.experiments.program import run_experiments
from tarl_jax.files import replace_file

Summary = dict[str, float | int | None]  # mean, sd, n, paper
Results = dict[str, dict[str, Summary]]  # by experiment and quantity


def evaluate_worth(config: WorthConfig, workdir: pathlib.Path) -> Results:
  """Runs the study, writes `results.json` and plots into `workdir`, prints the table.

  Raises:
    InputError: if the folder holds a trained run or cannot be written, or MiniLM's weights
      were named and cannot be used.
  """
  _prepare(workdir)
  similarity = retrieval.similarities(retrieval.choose_encoder(config.weights or None))
  raw = run_experiments(config, similarity)
  told = [
    *figures.known_figures(raw.known),
    *figures.mixed_figures(raw.mixed),
    *figures.steered_figures(raw.steered),
    *figures.pair_figures(raw.pair, config.pair),
    *figures.text_figures(raw.texts),
    *figures.study_figures(studies.run(config.studies, config.seeds)),
    *(sensitivity.run(config, similarity) if config.sensitivity else ()),
  ]
  results = summarize(told)
  replace_file(workdir / "results.json", json.dumps(results, indent=2, allow_nan=False) + "\n")
  worth_plots.draw_all(workdir, config, raw)
  print(format_worth(results))
  return results


def _prepare(workdir: pathlib.Path) -> None:
  if (workdir / "run.json").exists():
    raise InputError(f"{workdir}: holds a trained run, whose results stay; choose another folder.")
  try:
    workdir.mkdir(parents=True, exist_ok=True)
  except OSError as error:
    raise InputError(
      f"the workdir {workdir} cannot be made ({error.strerror}); choose another folder."
    ) from None


def summarize(told: Iterable[Figure]) -> Results:
  """{experiment: {quantity: {mean, sd, n, paper}}}; null where there is no number.

  `n` is the number of seeds that have the figure, `sd` the sample's (0 for one seed).
  """
  results: Results = {}
  for figure in told:
    values = np.asarray(figure.values, np.float64)
    values = values[np.isfinite(values)]
    results.setdefault(figure.experiment, {})[figure.quantity] = {
      "mean": float(values.mean()) if values.size else None,
      "sd": float(values.std(ddof=1)) if values.size > 1 else 0.0 if values.size else None,
      "n": int(values.size),
      "paper": figure.paper,
    }
  return results


def format_worth(results: Results) -> str:
  """The table that a person reads, in Markdown: mean ± sd over the seeds, and the paper's."""
  return "\n".join(_lines(results))


def _lines(results: Results) -> Iterator[str]:
  for experiment, quantities in results.items():
    yield f"\n{experiment}\n"
    if any(summary["paper"] is not None for summary in quantities.values()):
      yield from _beside_paper(quantities)
    else:
      yield from _by_condition(quantities)


def _beside_paper(quantities: Mapping[str, Summary]) -> Iterator[str]:
  yield "| quantity | ours | seeds | reported |"
  yield "|---" * 4 + "|"
  for quantity, summary in quantities.items():
    cells = (quantity, _cell(summary), str(summary["n"]), _number(summary["paper"]))
    yield "| " + " | ".join(cells) + " |"


def _by_condition(quantities: Mapping[str, Summary]) -> Iterator[str]:
  """Names are "condition: measure"; conditions with the same measures share a table."""
  rows: dict[str, dict[str, Summary]] = {}
  for quantity, summary in quantities.items():
    condition, _, measure = quantity.rpartition(": ")
    rows.setdefault(condition, {})[measure] = summary
  for number, (measures, group) in enumerate(itertools.groupby(rows, lambda row: (*rows[row],))):
    if number:
      yield ""
    yield "| condition | " + " | ".join(measures) + " |"
    yield "|---" * (len(measures) + 1) + "|"
    for condition in group:
      cells = (condition, *(_cell(summary) for summary in rows[condition].values()))
      yield "| " + " | ".join(cells) + " |"


def _cell(summary: Summary) -> str:
  spread = summary["n"] is not None and summary["n"] > 1
  return _number(summary["mean"]) + (f" ± {_number(summary['sd'])}" if spread else "")


def _number(value: float | int | None) -> str:
  if value is None:
    return "–"
  return f"{value:.0f}" if abs(value) >= 20 else f"{value:.3f}"
