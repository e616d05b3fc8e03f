"""Trains a policy: `python train.py --config=configs/quickstart.py --workdir=DIR`."""

import pathlib
import sys
from typing import NoReturn

from absl import app, flags, logging
from ml_collections import config_flags

from tarl_jax.config import Config, make_config
from tarl_jax.errors import InputError
from tarl_jax.training.loop import train

_CONFIG = config_flags.DEFINE_config_file("config", None, "Settings, e.g. configs/quickstart.py.")
_WORKDIR = flags.DEFINE_string(
  "workdir", None, "Folder for checkpoints and metrics.", required=True
)
flags.mark_flag_as_required("config")


def _stop(sentence: str) -> NoReturn:
  print(f"train.py: {sentence}", file=sys.stderr)
  sys.exit(2)


def _parse(argv: list[str]) -> list[str]:
  """Reads the flags; what is wrong with them is said in one line."""
  try:
    rest = flags.FLAGS(argv)
  except Exception as error:  # a config file is code, and an unknown setting an AttributeError
    cause = error
    while cause.args and isinstance(cause.args[0], Exception):
      cause = cause.args[0]
    text = str(cause.args[0] if cause.args else cause)
    _stop(" ".join((text.strip().split("\n")[-1] if "Traceback" in text else text).split()))
  if len(rest) > 1:
    _stop(f"unexpected argument '{rest[1]}'; flags are written --name=value.")
  return rest


def _settings() -> Config:
  try:
    values = _CONFIG.value.to_dict()
  except (OSError, AttributeError) as error:
    reason = str(error).strip().split("\n")[-1].strip()
    raise InputError(f"the config file cannot be used ({reason}); check --config.") from None
  return make_config(values)


def main(argv: list[str]) -> None:
  del argv
  logging.set_verbosity(logging.WARNING)
  try:
    train(_settings(), pathlib.Path(_WORKDIR.value))
  except InputError as error:
    _stop(str(error))


if __name__ == "__main__":
  app.run(main, flags_parser=_parse)
