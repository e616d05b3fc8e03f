"""Trains a policy: `python train.py --config=configs/quickstart.py --workdir=DIR`."""

import functools
import pathlib

from absl import app, flags
from ml_collections import config_flags

from tarl_jax.config import Config, make_config
from tarl_jax.entry import parse_flags, quiet_libraries, stop
from tarl_jax.errors import InputError
from tarl_jax.training.loop import train

_CONFIG = config_flags.DEFINE_config_file("config", None, "Settings, e.g. configs/quickstart.py.")
_WORKDIR = flags.DEFINE_string(
  "workdir", None, "Folder for checkpoints and metrics.", required=True
)
flags.mark_flag_as_required("config")


def _settings() -> Config:
  try:
    values = _CONFIG.value.to_dict()
  except (OSError, AttributeError) as error:
    reason = str(error).strip().split("\n")[-1].strip()
    raise InputError(f"the config file cannot be used ({reason}); check --config.") from None
  return make_config(values)


def main(argv: list[str]) -> None:
  del argv
  quiet_libraries()
  try:
    train(_settings(), pathlib.Path(_WORKDIR.value))
  except InputError as error:
    stop("train.py", str(error))


if __name__ == "__main__":
  app.run(
    main, flags_parser=functools.partial(parse_flags, "train.py", "the flags or the config file")
  )
