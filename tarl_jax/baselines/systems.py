"""The published memory systems that the table compares, in one list.

Owns which there are, in the order of the table, and how a native rule gets its thresholds.
Each has a file of its own, which names its source and what its rule leaves out.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tarl_jax.baselines import (
  a_mem,
  full_history,
  g_memory,
  graphiti,
  hipporag,
  mem0,
  mem_agent,
  memory_bank,
  retrieval,
)
from tarl_jax.baselines.rule import best_thresholds
from tarl_jax.baselines.signals import Thresholds
from tarl_jax.baselines.views import View, visible
from tarl_jax.data.dataset import Split
from tarl_jax.data.moments import Moment
from tarl_jax.evaluation.judging import Predictions
from tarl_jax.inputs import PolicyInputs

# (inputs, kept, thresholds) -> predictions, leading [E]; `kept` (bool [E, V]) says which of the
# visible entries the system has not forgotten.
Native = Callable[[PolicyInputs, np.ndarray, Thresholds], Predictions]


def keep_all(inputs: PolicyInputs, moments: Sequence[Moment]) -> np.ndarray:
  """bool [E, V]: every visible entry, for a system that forgets nothing."""
  del moments
  return visible(inputs)


class System(NamedTuple):
  """One memory system in its two forms."""

  name: str
  native: Native  # its own write rule on the five actions
  view: View | None  # what it has at hand, for a policy trained on it; None: rule form only
  kept: Callable[[PolicyInputs, Sequence[Moment]], np.ndarray] = keep_all


SYSTEMS = (
  System("Full History", full_history.decide, full_history.view),
  System("LongMemEval-style retrieval", retrieval.decide, retrieval.view),
  System("HippoRAG", hipporag.decide, hipporag.view),
  System("G-Memory", g_memory.decide, g_memory.view),
  System("MemoryBank", memory_bank.decide, memory_bank.view, memory_bank.still_kept),
  System("A-Mem", a_mem.decide, a_mem.view),
  System("MemAgent", mem_agent.decide, mem_agent.view),
  System("Mem0", mem0.decide, None),
  System("Graphiti", graphiti.decide, None),
)


def fit_native(system: System, val: Split) -> Thresholds:
  """The thresholds with which its rule has the best Macro F1 on the examples of a split."""
  rows = np.flatnonzero(val.counts)
  kept = system.kept(val.inputs, val.moments)
  return best_thresholds(
    val.labels.action[rows], lambda pair: system.native(val.inputs, kept, pair).action[rows]
  )


def decide_natively(system: System, val: Split, test: Split) -> Predictions:
  """Its rule's predictions for every step of `test`, with thresholds fitted on `val`."""
  kept = system.kept(test.inputs, test.moments)
  return system.native(test.inputs, kept, fit_native(system, val))
