"""Measures a trained run: `python eval.py --workdir=DIR [--cases=FILE.jsonl]`."""

import pathlib

from absl import app, flags

from tarl_jax.entry import quiet_libraries, stop
from tarl_jax.errors import InputError
from tarl_jax.evaluation.cases import decide_cases
from tarl_jax.evaluation.table import evaluate

_WORKDIR = flags.DEFINE_string("workdir", None, "Folder that train.py wrote.", required=True)
_CASES = flags.DEFINE_string("cases", None, "JSONL of one-step cases to decide instead.")


def _parse(argv: list[str]) -> list[str]:
  """Reads the flags; what is wrong with them is said in one line."""
  try:
    rest = flags.FLAGS(argv)
  except flags.Error as error:
    stop("eval.py", f"the flags cannot be used ({error}); correct them.")
  if len(rest) > 1:
    stop("eval.py", f"unexpected argument '{rest[1]}'; flags are written --name=value.")
  return rest


def main(argv: list[str]) -> None:
  del argv
  quiet_libraries()
  workdir = pathlib.Path(_WORKDIR.value)
  try:
    if _CASES.value is not None:
      decide_cases(workdir, pathlib.Path(_CASES.value))
    else:
      evaluate(workdir)
  except InputError as error:
    stop("eval.py", str(error))


if __name__ == "__main__":
  app.run(main, flags_parser=_parse)
