"""Measures a trained run: `python eval.py --workdir=DIR [--cases=FILE.jsonl]`."""

import functools
import pathlib

from absl import app, flags

from tarl_jax.entry import parse_flags, quiet_libraries, stop
from tarl_jax.errors import InputError
from tarl_jax.evaluation.cases import decide_cases
from tarl_jax.evaluation.table import evaluate

_WORKDIR = flags.DEFINE_string("workdir", None, "Folder that train.py wrote.", required=True)
_CASES = flags.DEFINE_string("cases", None, "JSONL of one-step cases to decide instead.")


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
  app.run(main, flags_parser=functools.partial(parse_flags, "eval.py", "the flags"))
