"""Experiments 1 to 5 as programs: one for all seeds of an experiment.

Owns which program belongs to which experiment; figures, tables and timings are made elsewhere.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from tarl_jax.experiments import hitchhiker, known_utility, mixed_tasks, retrieval, steering
from tarl_jax.experiments.config import WorthConfig
from tarl_jax.experiments.simulate import make_keys, over_seeds


class Raw(NamedTuple):
  """Results of experiments 1 to 5; NumPy arrays with a leading S."""

  known: known_utility.KnownResult
  mixed: mixed_tasks.MixedResult
  steered: steering.SteeredResult
  pair: hitchhiker.PairResult
  texts: retrieval.RetrievalResults


def make_programs(config: WorthConfig) -> dict[str, Callable[[jax.Array], Any]]:
  """Experiments 1 to 4 by their group of settings: compiled functions of keys [S]."""
  common = {"episodes": config.episodes, "checkpoints": config.checkpoints}
  return {
    "known": over_seeds(known_utility.simulate, settings=config.known, **common),
    "mixed": over_seeds(mixed_tasks.simulate, settings=config.mixed, **common),
    "steered": over_seeds(steering.simulate, settings=config.steered, **common),
    "pair": over_seeds(hitchhiker.simulate, settings=config.pair),
  }


def run_experiments(config: WorthConfig, similarity: np.ndarray) -> Raw:
  """All five.

  Args:
    config: the settings.
    similarity: float32 [Q, M], of the texts of experiment 5.
  """
  keys = make_keys(config.seeds)
  raw = {name: jax.device_get(program(keys)) for name, program in make_programs(config).items()}
  return Raw(**raw, texts=retrieval.run(config.retrieval, config.seeds, similarity))
