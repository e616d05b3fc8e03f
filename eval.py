"""Measures a trained run: `python eval.py --workdir=DIR [--cases=FILE.jsonl]`."""

import pathlib
import sys
from typing import NoReturn

from absl import app, flags, logging

from tarl_jax.errors import InputError
from tarl_jax.evaluation.cases import decide_cases
from tarl_jax.evaluation.table import evaluate

_WORKDIR = flags.DEFINE_string("workdir", None, "Folder that train.py wrote.", required=True)
_CASES = flags.DEFINE_string("cases", None, "JSONL of one-step cases to decide instead.")


def _stop(sentence: str) -> NoReturn:
  print(f"eval.py: {sentence}", file=sys.stderr)
  sys.exit(2)


def _parse(argv: list[str]) -> list[str]:
  """Reads the flags; what is wrong with them is said in one line."""
  try:
    rest = flags.FLAGS(argv)
  except flags.Error as error:
    _stop(str(error))
  if len(rest) > 1:
    _stop(f"unexpected argument '{rest[1]}'; flags are written --name=value.")
  return rest


def main(argv: list[str]) -> None:
  del argv
  logging.set_verbosity(logging.WARNING)
  workdir = pathlib.Path(_WORKDIR.value)
  try:
    if _CASES.value is not None:
      decide_cases(workdir, pathlib.Path(_CASES.value))
    else:
      evaluate(workdir)
  except InputError as error:
    _stop(str(error))


if __name__ == "__main__":
  app.run(main, flags_parser=_parse)
