"""Imports point one way: no cycles, nothing in the core looks up, and the core is light."""

import ast
import functools
import pathlib
import subprocess
import sys

import pytest

import tarl_jax

PACKAGE = pathlib.Path(tarl_jax.__file__).parent

# Each module of the core may import only those before it. `errors` is for everybody,
# `files` for everybody but the core.
CORE = tuple(
  "errors files types ledgers actions settling quality by_claim worth episodes estimators "
  "companions propensity governance governance_history governance_plan governance_step "
  "retrieval rollout".split()
)
# Places that nothing else in the package may import.
TOP = ("bench",)
# What the encoders and the policy must not know.
ABOVE_MODELS = ("data", "training", "evaluation", "baselines", "bench", "config")
HEAVY = (
  "chex orbax tensorflow tensorflow_datasets tensorboardX tqdm matplotlib sklearn "
  "ml_collections tokenizers safetensors huggingface_hub torch pandas grain importlib_resources"
).split()


def module_name(path: pathlib.Path) -> str:
  parts = path.relative_to(PACKAGE).with_suffix("").parts
  return ".".join(part for part in parts if part != "__init__")


@functools.cache
def modules() -> dict[str, pathlib.Path]:
  """Name without `tarl_jax.` to file."""
  return {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports_of(source: str, known: set[str], everywhere: bool = True) -> set[str]:
  """Modules of the package that a source text imports; at its top level only, if so asked."""
  tree, found = ast.parse(source), set()
  for node in ast.walk(tree) if everywhere else tree.body:
    if isinstance(node, ast.Import):
      found |= {alias.name for alias in node.names}
    elif isinstance(node, ast.ImportFrom):
      assert node.level == 0, "relative imports hide the direction"
      base = node.module or ""
      for alias in node.names:
        full = f"{base}.{alias.name}"
        found.add(full if full.removeprefix("tarl_jax.") in known else base)
  ours = {name.removeprefix("tarl_jax.") for name in found if name.startswith("tarl_jax.")}
  return ours & known


@functools.cache
def graph(everywhere: bool = True) -> dict[str, set[str]]:
  known = set(modules())
  return {
    name: imports_of(path.read_text(encoding="utf-8"), known, everywhere) - {name}
    for name, path in modules().items()
  }


def cycle_in(edges: dict[str, set[str]]) -> list[str]:
  """The modules on or behind a cycle; empty if there is none."""
  left = dict(edges)
  while True:
    done = [name for name, needs in left.items() if not needs & set(left)]
    if not done:
      return sorted(left)
    for name in done:
      del left[name]


def test_the_checks_see_imports_and_cycles():
  known = {"a", "b", "b.c"}
  text = "import tarl_jax.a\ndef f():\n  from tarl_jax.b import c, other\nfrom tarl_jax import b"
  assert imports_of(text, known) == {"a", "b", "b.c"}
  assert imports_of(text, known, everywhere=False) == {"a", "b"}
  assert cycle_in({"a": {"b"}, "b": {"a"}, "c": set()}) == ["a", "b"]
  assert cycle_in({"a": {"b"}, "b": set()}) == []
  assert graph()["ledgers"] == {"types"}
  assert graph()["actions"] == {"types", "ledgers"}


def test_no_import_cycle():
  assert cycle_in(graph(everywhere=False)) == []


@pytest.mark.parametrize("name", CORE)
def test_the_core_imports_only_what_comes_before_it(name):
  allowed = set(CORE[: CORE.index(name)])
  assert graph()[name] <= allowed
  assert not (name == "quality" and "actions" in graph()[name]), "quality stands beside actions"
  assert "files" not in graph()[name], "the core touches no disk"


def test_models_know_nothing_of_data_and_loops():
  for name, needs in graph().items():
    if name.startswith("models"):
      assert not {need for need in needs if need.split(".")[0] in ABOVE_MODELS}, name


def test_nothing_imports_the_benchmarks():
  for name, needs in graph().items():
    above = {need for need in needs if need.split(".")[0] in TOP}
    assert name.split(".")[0] in TOP or not above, name


def test_the_core_needs_only_jax_flax_optax_and_numpy():
  program = f"""
import importlib, sys
class Blocker:
  def find_spec(self, name, path=None, target=None):
    if any(name == heavy or name.startswith(heavy + ".") for heavy in {HEAVY!r}):
      raise ImportError("blocked: " + name)
sys.meta_path.insert(0, Blocker())
for name in {CORE!r}:
  importlib.import_module("tarl_jax." + name)
"""
  done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
  assert done.returncode == 0, done.stderr
