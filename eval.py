"""Measures a trained run, `python eval.py --workdir=DIR [--cases=FILE.jsonl]`, or runs a study,
`python eval.py --config=configs/worth.py --workdir=DIR`."""

import functools
import pathlib
from typing import Any

from absl import app, flags
from ml_collections import config_flags

from tarl_jax.entry import parse_flags, quiet_libraries, stop
from tarl_jax.errors import InputError
from tarl_jax.evaluation.cases import decide_cases
from tarl_jax.evaluation.table import evaluate
from tarl_jax.evaluation.worth_table import evaluate_worth
from tarl_jax.experiments.config import make_worth_config

_CONFIG = config_flags.DEFINE_config_file("config", None, "A study, e.g. configs/worth.py.")
_WORKDIR = flags.DEFINE_string(
  "workdir", None, "Folder that train.py wrote; with --config, a folder for results.", required=True
)
_CASES = flags.DEFINE_string("cases", None, "JSONL of one-step cases to decide instead.")


def _study() -> dict[str, Any] | None:
  """The settings of the study; None without --config."""
  try:
    return None if _CONFIG.value is None else _CONFIG.value.to_dict()
  except (OSError, AttributeError) as error:
    reason = str(error).strip().split("\n")[-1].strip()
    raise InputError(f"the config file cannot be used ({reason}); check --config.") from None


def _run_study(study: dict[str, Any], workdir: pathlib.Path) -> None:
  name = study.pop("study", None)
  if _CASES.value is not None:
    raise InputError("--cases asks a trained run, which a study has not; leave out one of them.")
  if name == "worth":
    evaluate_worth(make_worth_config(study), workdir)
  else:
    raise InputError(
      f"the config names no study (config.study is {name!r}); use configs/worth.py, or leave out "
      "--config to measure a trained run."
    )


def main(argv: list[str]) -> None:
  del argv
  quiet_libraries()
  workdir = pathlib.Path(_WORKDIR.value)
  try:
    study = _study()
    if study is not None:
      _run_study(study, workdir)
    elif _CASES.value is not None:
      decide_cases(workdir, pathlib.Path(_CASES.value))
    else:
      evaluate(workdir)
  except InputError as error:
    stop("eval.py", str(error))


if __name__ == "__main__":
  app.run(
    main, flags_parser=functools.partial(parse_flags, "eval.py", "the flags or the config file")
  )
