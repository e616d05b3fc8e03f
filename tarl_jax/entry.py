"""What train.py and eval.py share: quiet libraries, and one sentence before exit code 2.

Knows no flag.
"""

import logging
import sys
import warnings
from typing import NoReturn

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
