"""Settings: every fault names the setting, every file resolves, the fingerprint sees it all."""

import dataclasses
import json
import re
import types
import typing

import pytest
from smoke_runs import ROOT, load_config

from tarl_jax.config import RELEASE_FIELDS, Config, fingerprint, make_config, to_dict
from tarl_jax.errors import InputError

STUDIES = ("worth",)  # settings of eval.py, not of a run; test_worth_table reads them
CONFIGS = sorted(path for path in (ROOT / "configs").glob("*.py") if path.stem not in STUDIES)
# What a moved file or folder changes; none of it makes another run.
PATHS = {f"data.{name}" for name in (*RELEASE_FIELDS, "streams", "cache_dir")} | {"encoder.weights"}
OF_CROSS_SOURCE = "data.held_out"  # only with the setting cross-source


def defaults() -> dict:
  """The default settings, with a source so that they resolve."""
  values = to_dict(Config())
  values["data"]["generated"]["train_streams"] = 1
  return values


def leaves(kind=Config, prefix: str = "") -> dict[str, typing.Any]:
  """Dotted name -> annotated type of every setting that is no group."""
  found = {}
  for name, hint in typing.get_type_hints(kind).items():
    if dataclasses.is_dataclass(hint) or hasattr(hint, "_fields"):
      found |= leaves(hint, f"{prefix}{name}.")
    else:
      found[prefix + name] = hint
  return found


def groups() -> list[str]:
  """Dotted names of the groups, "" for the whole."""
  parents = {name.rpartition(".")[0] for name in leaves()}
  return sorted(parents | {parent.rpartition(".")[0] for parent in parents})


def changed(name: str, value) -> dict:
  """The defaults with one setting changed."""
  values = defaults()
  *parents, last = name.split(".")
  group = values
  for parent in parents:
    group = group[parent]
  group[last] = value
  return values


def setting(config: Config, name: str):
  for part in name.split("."):
    config = getattr(config, part)
  return config


def wrong_values(hint) -> list:
  """Values of a type that the setting does not take."""
  if isinstance(hint, types.GenericAlias):
    item = hint.__args__[0]
    return [3, None, {}, *((value,) for value in wrong_values(item))]
  wrong = {str: [3, True], int: [1.5, "1", True], float: ["1", True], bool: [1, "true"]}
  return [*wrong[hint], None, {}, ()]


def other_value(hint, value):
  """A valid value that differs."""
  if isinstance(hint, types.GenericAlias):
    return (*value, 7 if hint.__args__[0] is int else "x")
  if hint is str:
    return {"action_slot": "gold_slot", "in-domain": "temporal"}.get(value, value + "x")
  return not value if hint is bool else value + 1 if hint is int else value / 2 + 0.137


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_config_file_resolves_and_comes_back(path):
  config = make_config(load_config(path))
  assert make_config(to_dict(config)) == config
  assert make_config(json.loads(json.dumps(to_dict(config)))) == config


def test_there_are_settings_to_test():
  assert {path.stem for path in CONFIGS} >= {"quickstart", "real", "smoke"}
  assert {"opt.lr", "data.generated.seed", "loss.ledger_weights.history"} < set(leaves())
  assert "" in groups() and "data.capacities" in groups()
  assert PATHS < set(leaves())


@pytest.mark.parametrize("group", groups())
def test_unknown_settings_are_named(group):
  name = f"{group}.nonsense".removeprefix(".")
  with pytest.raises(InputError, match=rf"config\.{name} is no setting; known are: \w+"):
    make_config(changed(name, 1))


@pytest.mark.parametrize("name", leaves())
def test_wrong_types_are_named(name):
  for value in wrong_values(leaves()[name]):
    with pytest.raises(InputError, match=rf"config\.{name} must be "):
      make_config(changed(name, value))


@pytest.mark.parametrize("group", [group for group in groups() if group])
def test_a_group_is_a_mapping(group):
  for value in (3, "x", None, [1]):
    with pytest.raises(InputError, match=rf"config\.{group} must be a group"):
      make_config(changed(group, value))


def test_whole_numbers_are_taken_for_fractions_and_lists_for_tuples():
  values = defaults()
  values["opt"]["lr"] = 1
  values["seeds"] = [3, 1]
  values["data"]["locomo"] = "one.json"
  config = make_config(values)
  assert config.opt.lr == 1.0 and type(config.opt.lr) is float
  assert config.seeds == (3, 1)
  assert config.data.locomo == ("one.json",)


def test_what_is_not_named_keeps_its_default():
  config = make_config({"data": {"locomo": ("a.json",)}})
  assert config == dataclasses.replace(
    Config(), data=dataclasses.replace(Config().data, locomo=("a.json",))
  )


LOSS_WEIGHTS = [n for n in leaves() if re.fullmatch(r"loss\.\w+", n) and leaves()[n] is float]
BAD = [
  *((name, -1) for name in leaves() if leaves()[name] is int),
  *((name, 0) for name in ("opt.steps", "opt.batch_size", "eval_every", "model.hidden")),
  *((name, 0) for name in ("data.num_visible", "data.capacities.history", "data.generated.claims")),
  ("model.dropout", 1.0),
  ("model.dropout", -0.1),
  *((name, 0.0) for name in ("opt.lr", "opt.clip", "loss.tau")),
  *((name, float(bad)) for name in ("opt.lr", *LOSS_WEIGHTS) for bad in ("nan", "inf", "-1")),
  ("seeds", ()),
  ("seeds", (2, 2)),
  ("seeds", (-1,)),
  ("seeds", (2**31,)),
  ("loss.counterfactual_form", "magic"),
  ("data.setting", "magic"),
]


@pytest.mark.parametrize("name, value", BAD, ids=str)
def test_bad_values_are_named(name, value):
  with pytest.raises(InputError, match=rf"^config\.{name} (must|names) .*\.$"):
    make_config(changed(name, value))


def test_negative_ledger_weights_and_no_source():
  with pytest.raises(InputError, match=r"config\.loss\.ledger_weights must not be negative"):
    make_config(changed("loss.ledger_weights.pending", -1))
  with pytest.raises(InputError, match=r"config\.data names no source; set data\.halumem"):
    make_config({})


@pytest.mark.parametrize("name", sorted(set(leaves()) - {OF_CROSS_SOURCE}))
def test_the_fingerprint_changes_with_all_but_paths(name):
  config = make_config(defaults())
  value = other_value(leaves()[name], setting(config, name))
  other = make_config(changed(name, value))
  assert setting(other, name) == value
  assert (fingerprint(other, "d") == fingerprint(config, "d")) == (name in PATHS)


def test_a_held_out_source_belongs_to_cross_source():
  values = changed("data.setting", "cross-source")
  with pytest.raises(InputError, match=r"config\.data\.held_out names the source"):
    make_config(values)
  with pytest.raises(InputError, match=r"config\.data\.held_out names the source"):
    make_config(changed(OF_CROSS_SOURCE, "locomo"))
  prints = set()
  for source in ("locomo", "halumem"):
    values["data"]["held_out"] = source
    prints.add(fingerprint(make_config(values)))
  assert len(prints) == 2


def test_the_fingerprint_changes_with_every_digest_and_their_order():
  config = make_config(defaults())
  prints = {fingerprint(config, *digests) for digests in ((), ("a",), ("a", "b"), ("b", "a"))}
  assert len(prints) == 4
