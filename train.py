"""Trains a policy: `python train.py --config=configs/quickstart.py --workdir=DIR`."""

import pathlib

from absl import app, flags
from ml_collections import config_flags

from tarl_jax.config import Config, make_config
from tarl_jax.entry import quiet_libraries, stop
from tarl_jax.errors import InputError
from tarl_jax.training.loop import train

_CONFIG = config_flags.DEFINE_config_file("config", None, "Settings, e.g. configs/quickstart.py.")
_WORKDIR = flags.DEFINE_string(
  "workdir", None, "Folder for checkpoints and metrics.", required=True
)
flags.mark_flag_as_required("config")


def _parse(argv: list[str]) -> list[str]:
  """Reads the flags; what is wrong with them is said in one line."""
  try:
    rest = flags.FLAGS(argv)
  except Exception as error:  # a config file is code, and an unknown setting an AttributeError
    cause = error
    while cause.args and isinstance(cause.args[0], Exception):
      cause = cause.args[0]
    text = str(cause.args[0] if cause.args else cause).strip()
    text = text.split("\n")[-1] if "Traceback" in text else " ".join(text.split())
    stop("train.py", f"the flags or the config file cannot be used ({text}); correct them.")
  if len(rest) > 1:
    stop("train.py", f"unexpected argument '{rest[1]}'; flags are written --name=value.")
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
  quiet_libraries()
  try:
    train(_settings(), pathlib.Path(_WORKDIR.value))
  except InputError as error:
    stop("train.py", str(error))


if __name__ == "__main__":
  app.run(main, flags_parser=_parse)
