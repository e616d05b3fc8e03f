"""Trains a policy: `python train.py --config=configs/quickstart.py --workdir=DIR`."""

import pathlib
import sys

from absl import app, flags, logging
from ml_collections import config_flags

from tarl_jax.config import make_config
from tarl_jax.errors import InputError
from tarl_jax.training.loop import train

_CONFIG = config_flags.DEFINE_config_file("config", None, "Settings, e.g. configs/quickstart.py.")
_WORKDIR = flags.DEFINE_string("workdir", None, "Folder for checkpoints and metrics.")
flags.mark_flags_as_required(["config", "workdir"])


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f"unexpected argument {argv[1]}")
  logging.set_verbosity(logging.WARNING)
  try:
    train(make_config(_CONFIG.value.to_dict()), pathlib.Path(_WORKDIR.value))
  except InputError as error:
    print(f"train.py: {error}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
  app.run(main)
