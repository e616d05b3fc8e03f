"""How much each choice that the paper leaves open moves the results, one at a time.

Owns which values are tried. The seeds and all other settings are those of the study, so that
a difference is the choice's. Values that do not fit them (more memories retrieved than there
are) are left out.
"""

import collections
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tarl_jax.experiments import hitchhiker, known_utility, mixed_tasks, retrieval, steering
from tarl_jax.experiments.config import WorthConfig, checks
from tarl_jax.experiments.figures import Figure, text_figures
from tarl_jax.experiments.known_utility import WEIGHTINGS
from tarl_jax.experiments.retrieval_settings import SENSITIVITY
from tarl_jax.experiments.simulate import make_keys, over_seeds

NAME = "sensitivity"
Variation = Mapping[str, Any]
Measured = collections.OrderedDict[str, jax.Array]  # a plain dict would be sorted by JAX
Simulate = Callable[..., Measured]  # one key and settings to numbers by quantity
Results = dict[str, np.ndarray]  # [S] by quantity

_TIMES = "episodes times"  # the one variation that is no setting of its group

KNOWN: tuple[Variation, ...] = (
  {},
  {"memories": 50},
  {"memories": 200},
  {"retrieved": 3},
  {"retrieved": 5},
  {"retrieved": 12},
  {"effect": 0.5},
  {"effect": 0.75},
  {"lowest_score": 0.0},
  {"quality": "best"},
  {"quality": "any"},
  {_TIMES: 10},
)
MIXED: tuple[Variation, ...] = (
  {},
  {"retrieved": 3},
  {"retrieved": 15},
  {"effect": 0.05},
  {"effect": 0.2},
  {"effect": 0.5},
  {"easy_share": 0.3},
  {"easy_share": 0.7},
  {"quality": "best"},
  {"quality": "any"},
  {_TIMES: 10},
)
STEERED: tuple[Variation, ...] = (
  {},
  {"exploration": 0.0},
  {"exploration": 0.02},
  {"exploration": 0.3},
  {"candidates": 12},
  {"candidates": 100},
  {"candidates": 100, "exploration": 0.0},  # nothing but worth decides: this does collapse
  {"retrieved": 4},
  {"effect": 0.5},
)
PAIR: tuple[Variation, ...] = (
  {},
  {"episodes": 100},
  {"episodes": 200},
  {"episodes": 800},
  {"episodes": 1600},
)


def run(config: WorthConfig, similarity: np.ndarray) -> Iterator[Figure]:
  """Every variation of experiments 1 to 5.

  Args:
    config: the study's settings.
    similarity: float32 [Q, M], of the texts of experiment 5.
  """
  common = {"episodes": config.episodes}
  yield from _vary(config, "1", "known", KNOWN, _known, common | {"checkpoints": 1})
  yield from _vary(config, "2", "mixed", MIXED, _mixed, common | {"checkpoints": 1})
  yield from _vary(config, "3", "steered", STEERED, _steered, common | {"checkpoints": 10})
  yield from _vary(config, "4", "pair", PAIR, _pair, {})
  for name, settings in SENSITIVITY.items():
    for figure in text_figures(retrieval.run(settings, config.seeds, similarity)):
      yield Figure(NAME, f"5, {name}: {figure.quantity}", figure.values)


def _known(key: jax.Array, **settings: Any) -> Measured:
  rho = known_utility.simulate(key, **settings).rho[-1]
  return Measured((f"rho, {name} weights", rho[c]) for c, name in enumerate(WEIGHTINGS))


def _mixed(key: jax.Array, **settings: Any) -> Measured:
  result = mixed_tasks.simulate(key, **settings)
  return Measured(
    {"rho, all tasks": result.rho_all[-1], "rho, hard tasks only": result.rho_hard[-1]}
  )


def _steered(key: jax.Array, **settings: Any) -> Measured:
  result = steering.simulate(key, **settings)
  at = (steering.REGIMES.index("even utilities"), steering.POLICIES.index("steered"))
  return Measured(
    {
      "success in the end": result.success[at],
      "memories in use in the end": result.in_use[at],
      "rho": result.rho[at],
    }
  )


def _pair(key: jax.Array, *, settings: Any) -> Measured:
  apart = hitchhiker.simulate(key, settings=settings).apart.astype(jnp.float32)
  shares = enumerate(settings.independent)
  return Measured((f"seeds apart, {share:.0%} independent", apart[f]) for f, share in shares)


def _vary(
  config: WorthConfig,
  number: str,
  group: str,
  variations: Sequence[Variation],
  simulate: Simulate,
  common: Mapping[str, int],
) -> Iterator[Figure]:
  """The variations of one group, in order; numbers that fix no shape share one program."""
  settings = getattr(config, group)
  allowed = [variation for variation in variations if _is_allowed(config, group, variation)]
  traced = [v for v in allowed if all(isinstance(value, float) for value in v.values())]
  traced = traced if any(traced) else []  # what is set (nothing varied) joins them
  keys = make_keys(config.seeds)
  results = _vary_numbers(keys, settings, traced, simulate, common)
  for variation in allowed:
    name = _label(variation)
    if variation not in traced:
      results[name] = _vary_shapes(keys, settings, variation, simulate, common)
    for quantity, values in results[name].items():
      yield Figure(NAME, f"{number}, {name}: {quantity}", values)


def _vary_numbers(
  keys: jax.Array,
  settings: Any,
  variations: Sequence[Variation],
  simulate: Simulate,
  common: Mapping[str, int],
) -> dict[str, Results]:
  if not variations:
    return {}
  names = sorted({name for variation in variations for name in variation})
  columns = {
    name: jnp.asarray([v.get(name, getattr(settings, name)) for v in variations], jnp.float32)
    for name in names
  }

  def one(key: jax.Array, values: dict[str, jax.Array]) -> Measured:
    return simulate(key, settings=dataclasses.replace(settings, **values), **common)

  by_value = jax.vmap(one, in_axes=(None, 0))
  results = jax.device_get(jax.jit(jax.vmap(by_value, in_axes=(0, None)))(keys, columns))
  return {
    _label(variation): {quantity: values[:, place] for quantity, values in results.items()}
    for place, variation in enumerate(variations)
  }


def _vary_shapes(
  keys: jax.Array,
  settings: Any,
  variation: Variation,
  simulate: Simulate,
  common: Mapping[str, int],
) -> Results:
  values = dict(variation)
  times = values.pop(_TIMES, 1)
  common = {name: value * times if name == "episodes" else value for name, value in common.items()}
  program = over_seeds(simulate, settings=dataclasses.replace(settings, **values), **common)
  return jax.device_get(program(keys))


def _label(variation: Variation) -> str:
  words = (f"{name.replace('_', ' ')} {value}" for name, value in variation.items())
  return ", ".join(words) or "as set"


def _is_allowed(config: WorthConfig, group: str, variation: Variation) -> bool:
  values = dict(variation)
  episodes = config.episodes * values.pop(_TIMES, 1)
  changed = {group: dataclasses.replace(getattr(config, group), **values), "episodes": episodes}
  return all(holds for holds, *_ in checks(dataclasses.replace(config, **changed)))
