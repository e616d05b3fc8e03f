"""The settings of a run: frozen dataclasses, made once from a config file's mapping.

Owns which settings exist and which values are allowed. A config file (`configs/*.py`) is a
Python file whose `get_config()` names what differs from the defaults below.
"""

import dataclasses
import functools
import hashlib
import json
import math
import types
import typing
from collections.abc import Mapping
from typing import Any

from tarl_jax.data.moments import Capacities
from tarl_jax.errors import InputError
from tarl_jax.losses import COUNTERFACTUAL_FORMS, LossConfig
from tarl_jax.models.policy import ModelConfig

SETTINGS = ("in-domain", "cross-source", "temporal", "counterfactual", "sequential")
RELEASE_FIELDS = ("halumem", "halumem_stages", "locomo", "longmemeval", "factconsolidation")


@dataclasses.dataclass(frozen=True)
class GeneratedConfig:
  """How much of the generated source is used; 0 streams leave it out.

  Validation and test get their number twice: with the facts of training, and with facts of
  domains never seen. `hold_out` keeps those domains and whole kinds of claim from training,
  for measuring; without it a policy for use learns from everything.
  """

  seed: int = 0
  train_streams: int = 0
  val_streams: int = 0
  test_streams: int = 0
  claims: int = 60  # a stream
  hold_out: bool = True


@dataclasses.dataclass(frozen=True)
class DataConfig:
  """Where claims come from. Paths are files of the user's own, as downloaded.

  `setting` divides the files' streams (`data/settings.py`); the generated source has splits of
  its own, which are added to those of any setting.
  """

  halumem: tuple[str, ...] = ()  # release files, one user or many a file
  halumem_stages: tuple[str, ...] = ()  # its construction stages
  locomo: tuple[str, ...] = ()  # locomo10.json
  longmemeval: tuple[str, ...] = ()  # oracle and S files
  factconsolidation: tuple[str, ...] = ()  # Conflict_Resolution.json
  streams: tuple[str, ...] = ()  # JSONL of the common record, see data/record.py
  generated: GeneratedConfig = GeneratedConfig()
  setting: str = "in-domain"  # one of SETTINGS
  held_out: str = ""  # the source that "cross-source" tests on
  capacities: Capacities = Capacities()
  num_visible: int = 16
  cache_dir: str = ".cache/embeddings"  # "" for no cache


@dataclasses.dataclass(frozen=True)
class EncoderConfig:
  """The text encoder; `weights` is a folder for minilm, "" to look for them."""

  name: str = "hashed"
  weights: str = ""


@dataclasses.dataclass(frozen=True)
class OptConfig:
  """AdamW with a linear warm-up and a cosine decay to zero."""

  lr: float = 2e-3
  weight_decay: float = 1e-2
  clip: float = 1.0
  warmup: int = 100
  batch_size: int = 256
  steps: int = 1000


@dataclasses.dataclass(frozen=True)
class Config:
  """One run: a policy a seed, trained on the same split of the same data."""

  data: DataConfig = DataConfig()
  encoder: EncoderConfig = EncoderConfig()
  model: ModelConfig = ModelConfig()
  loss: LossConfig = LossConfig()
  opt: OptConfig = OptConfig()
  seeds: tuple[int, ...] = (0,)
  eval_every: int = 100
  probe_steps: int = 300  # training steps of the candidate-only probe


_AT_LEAST = {
  "data.generated.seed": 0,
  "data.generated.train_streams": 0,
  "data.generated.val_streams": 0,
  "data.generated.test_streams": 0,
  "data.generated.claims": 1,
  "data.capacities.accepted": 1,
  "data.capacities.pending": 1,
  "data.capacities.history": 1,
  "data.num_visible": 1,
  "model.hidden": 1,
  "model.embed": 1,
  "model.trust": 1,
  "loss.action": 0,
  "loss.target": 0,
  "loss.reliability": 0,
  "loss.scope": 0,
  "loss.relation": 0,
  "loss.counterfactual": 0,
  "opt.weight_decay": 0,
  "opt.warmup": 0,
  "opt.batch_size": 1,
  "opt.steps": 1,
  "eval_every": 1,
  "probe_steps": 1,
}
_POSITIVE = ("loss.tau", "opt.lr", "opt.clip")
_MAX_SEED = 2**31 - 1


def make_config(values: Mapping[str, Any]) -> Config:
  """The resolved, checked settings.

  Raises:
    InputError: naming the setting, for an unknown name, a wrong type or a bad value.
  """
  config = _build(Config, values, "config")
  data = config.data
  paths = [getattr(data, name) for name in (*RELEASE_FIELDS, "streams")]
  has_source = any(paths) or data.generated.train_streams
  numbers = {name: functools.reduce(getattr, name.split("."), config) for name in _AT_LEAST}
  positive = {name: functools.reduce(getattr, name.split("."), config) for name in _POSITIVE}
  checks = (
    (has_source, "data", "names no source; set data.halumem, data.locomo or data.generated"),
    (data.setting in SETTINGS, "data.setting", "must be one of " + ", ".join(SETTINGS)),
    (
      bool(data.held_out) == (data.setting == "cross-source"),
      "data.held_out",
      "names the source to test on in the setting cross-source, and is empty in the others",
    ),
    *((numbers[name] >= low, name, f"must be at least {low}") for name, low in _AT_LEAST.items()),
    *((number > 0, name, "must be positive") for name, number in positive.items()),
    (0 <= config.model.dropout < 1, "model.dropout", "must be at least 0 and under 1"),
    (min(config.loss.ledger_weights) >= 0, "loss.ledger_weights", "must not be negative"),
    (bool(config.seeds), "seeds", "must name at least one seed"),
    (len(set(config.seeds)) == len(config.seeds), "seeds", "names a seed twice"),
    (
      all(0 <= seed <= _MAX_SEED for seed in config.seeds),
      "seeds",
      f"must be from 0 to {_MAX_SEED}",
    ),
    (
      config.loss.counterfactual_form in COUNTERFACTUAL_FORMS,
      "loss.counterfactual_form",
      "must be one of " + ", ".join(COUNTERFACTUAL_FORMS),
    ),
  )
  for holds, name, sentence in checks:
    if not holds:
      raise InputError(f"config.{name} {sentence}.")
  return config


def _build(kind: Any, values: Mapping[str, Any], where: str) -> Any:
  """A dataclass or NamedTuple from a mapping, field by field, nothing unknown."""
  hints = typing.get_type_hints(kind)
  unknown = sorted(set(values) - set(hints))
  if unknown:
    raise InputError(f"{where}.{unknown[0]} is no setting; known are: {', '.join(hints)}.")
  return kind(
    **{name: _convert(hints[name], value, f"{where}.{name}") for name, value in values.items()}
  )


def _convert(kind: Any, value: Any, where: str) -> Any:
  if dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"):
    if not isinstance(value, Mapping):
      raise InputError(f"{where} must be a group of settings, found {value!r}.")
    return _build(kind, value, where)
  if isinstance(kind, types.GenericAlias):
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
      raise InputError(f"{where} must be a tuple, found {value!r}.")
    return tuple(_convert(kind.__args__[0], item, where) for item in items)
  if kind is float and isinstance(value, int) and not isinstance(value, bool):
    value = float(value)
  if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
    raise InputError(f"{where} must be {kind.__name__}, found {value!r}.")
  if kind is float and not math.isfinite(value):
    raise InputError(f"{where} must be a finite number, found {value}.")
  return value


def to_dict(config: Any) -> dict[str, Any]:
  """Plain nested dict of a config, for JSON and for config files; tuples stay tuples."""
  if hasattr(config, "_asdict"):
    return {name: to_dict(value) for name, value in config._asdict().items()}
  if dataclasses.is_dataclass(config):
    fields = dataclasses.fields(config)
    return {field.name: to_dict(getattr(config, field.name)) for field in fields}
  return config


def fingerprint(config: Config, *digests: str) -> str:
  """Digest of everything that a checkpoint depends on: settings, data, encoder.

  Paths are left out, so that a moved file or workdir changes nothing; `digests` are of what
  the paths hold.
  """
  settings = to_dict(config)
  for name in (*RELEASE_FIELDS, "streams", "cache_dir"):
    del settings["data"][name]
  del settings["encoder"]["weights"]
  content = json.dumps([settings, *digests], sort_keys=True)
  return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()
