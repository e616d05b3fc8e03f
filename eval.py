"""Measures a trained run: `python eval.py --workdir=DIR [--cases=FILE.jsonl]`."""

import pathlib
import sys

from absl import app, flags, logging

from tarl_jax.errors import InputError
from tarl_jax.evaluation.cases import decide_cases
from tarl_jax.evaluation.table import evaluate

_WORKDIR = flags.DEFINE_string("workdir", None, "Folder that train.py wrote.", required=True)
_CASES = flags.DEFINE_string("cases", None, "JSONL of one-step cases to decide instead.")


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f"unexpected argument {argv[1]}")
  logging.set_verbosity(logging.WARNING)
  workdir = pathlib.Path(_WORKDIR.value)
  try:
    if _CASES.value:
      decide_cases(workdir, pathlib.Path(_CASES.value))
    else:
      evaluate(workdir)
  except InputError as error:
    print(f"eval.py: {error}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
  app.run(main)
