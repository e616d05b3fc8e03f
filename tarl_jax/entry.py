"""What train.py and eval.py share: flags, quiet libraries, one sentence before exit code 2.

Defines no flag and asks for none by its name.
"""

import logging
import sys
import warnings
from typing import NoReturn

from absl import flags
from absl import logging as absl_logging


def quiet_libraries() -> None:
  """Leaves progress bars and our own warnings on stderr; Orbax reports what we report again.

  When a file is damaged, the readers below Orbax also leave callbacks and coroutines behind
  that fail later, which nobody can act on.
  """
  absl_logging.set_verbosity(absl_logging.WARNING)
  for name in ("absl", "asyncio"):
    logging.getLogger(name).setLevel(logging.CRITICAL)
  sys.unraisablehook = lambda _: None
  warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)


def stop(script: str, sentence: str) -> NoReturn:
  """Says on stderr why the script cannot go on, and exits with code 2."""
  print(f"{script}: {sentence}", file=sys.stderr)
  sys.exit(2)


def parse_flags(script: str, what: str, argv: list[str]) -> list[str]:
  """Reads the flags that the script defined; what is wrong with them is said in one line.

  Args:
    script: name of the script, e.g. "train.py".
    what: what may be at fault, e.g. "the flags".
    argv: the command line, with the script first.

  Returns:
    The script alone: an argument that is no flag stops it.
  """
  try:
    rest = flags.FLAGS(argv)
  except Exception as error:  # a config file is code, and an unknown setting an AttributeError
    cause = error
    while cause.args and isinstance(cause.args[0], Exception):
      cause = cause.args[0]
    text = str(cause.args[0] if cause.args else cause).strip()
    text = text.split("\n")[-1] if "Traceback" in text else " ".join(text.split())
    stop(script, f"{what} cannot be used ({text}); correct them.")
  if len(rest) > 1:
    stop(script, f"unexpected argument '{rest[1]}'; flags are written --name=value.")
  return rest
