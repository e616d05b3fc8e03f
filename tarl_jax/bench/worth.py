"""Experiments 1 to 4 of the worth study: one compiled program each, beside a NumPy loop.

The loop does the same simulation the plain way, an episode at a time and a seed at a time,
with draws of its own. It is far too slow for all of it, so it runs a few hundred episodes of
one seed, and its seconds are scaled by seeds and episodes, which the record says. Both are
timed in turn, so that a busy machine slows them alike.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from tarl_jax.experiments.config import (
  KnownConfig,
  MixedConfig,
  PairConfig,
  SteeredConfig,
  WorthConfig,
)
from tarl_jax.experiments.known_utility import WEIGHTINGS
from tarl_jax.experiments.program import make_programs
from tarl_jax.experiments.simulate import make_keys
from tarl_jax.experiments.steering import FEW, FEW_UTILITY, OTHER_UTILITY, POLICIES, REGIMES

REPETITIONS = 5
LOOP_EPISODES = 400  # of one seed
SUCCESS, FAILURE = 0, 1
_QUALITIES: dict[str, Callable[[np.ndarray], float]] = {
  "mean": lambda utility: float(utility.mean()),
  "best": lambda utility: float(utility.max()),
  "any": lambda utility: 1.0 - float(np.prod(1.0 - utility)),
}


def _succeeds(rng: np.random.Generator, utility: np.ndarray, base: float, settings: Any) -> bool:
  chance = base + settings.effect * (_QUALITIES[settings.quality](utility) - 0.5)
  return rng.random() < chance


def loop_known(rng: np.random.Generator, settings: KnownConfig, episodes: int) -> np.ndarray:
  """Experiment 1; counters [N, 2, 3]."""
  utility = rng.random(settings.memories)
  counts = np.zeros((settings.memories, 2, len(WEIGHTINGS)), np.float32)
  for _ in range(episodes):
    slots = rng.choice(settings.memories, settings.retrieved, replace=False)
    used = utility[slots]
    score = rng.uniform(settings.lowest_score, 1.0, settings.retrieved)
    outcome = SUCCESS if _succeeds(rng, used, 0.5, settings) else FAILURE
    counts[slots, outcome, 0] += 1.0
    counts[slots, outcome, 1] += score / score.mean()
    counts[slots, outcome, 2] += used / used.mean()
  return counts


def loop_mixed(rng: np.random.Generator, settings: MixedConfig, episodes: int) -> np.ndarray:
  """Experiment 2; counters [N, 2, 2], easy and hard."""
  specialists = np.full(settings.specialists, settings.specialist_utility)
  utility = np.concatenate([rng.random(settings.generalists), specialists])
  counts = np.zeros((len(utility), 2, 2), np.float32)
  for _ in range(episodes):
    hard = rng.random() >= settings.easy_share
    pool, base = settings.generalists, settings.easy_success
    if hard:
      pool, base = len(utility), settings.hard_success
    slots = rng.choice(pool, settings.retrieved, replace=False)
    outcome = SUCCESS if _succeeds(rng, utility[slots], base, settings) else FAILURE
    counts[slots, outcome, int(hard)] += 1.0
  return counts


def loop_steered(rng: np.random.Generator, settings: SteeredConfig, episodes: int) -> np.ndarray:
  """Experiment 3; counters [3, 3, N, 2] by regime and policy."""
  even = rng.random(settings.memories)
  few = np.where(even < FEW, FEW_UTILITY, OTHER_UTILITY)
  counts = np.zeros((len(REGIMES), len(POLICIES), settings.memories, 2), np.float32)
  for regime, utility in enumerate((even, few, np.full_like(even, 0.5))):
    for policy, exploration in enumerate((settings.exploration, 1.0, 0.0)):
      own = counts[regime, policy]
      for _ in range(episodes):
        candidates = rng.choice(settings.memories, settings.candidates, replace=False)
        if rng.random() < exploration:
          slots = rng.choice(candidates, settings.retrieved, replace=False)
        else:
          success, total = own[candidates, SUCCESS], own[candidates].sum(1)
          worth = np.where(total > 0, success / np.maximum(total, 1.0), 0.5)
          slots = candidates[np.argsort(-worth, kind="stable")[: settings.retrieved]]
        outcome = SUCCESS if _succeeds(rng, utility[slots], 0.5, settings) else FAILURE
        own[slots, outcome] += 1.0
  return counts


def loop_pair(rng: np.random.Generator, settings: PairConfig, episodes: int) -> np.ndarray:
  """Experiment 4; counters [F, 2, 2] by share of independent episodes."""
  utility = np.array([settings.anchor, settings.hitchhiker])
  counts = np.zeros((len(settings.independent), 2, 2), np.float32)
  for place, share in enumerate(settings.independent):
    for _ in range(episodes):
      slots = np.array([0, 1])
      if rng.random() < share:
        slots = rng.integers(0, 2, 1)
      outcome = SUCCESS if rng.random() < utility[slots].mean() else FAILURE
      counts[place, slots, outcome] += 1.0
  return counts


LOOPS: dict[str, Callable[[np.random.Generator, Any, int], np.ndarray]] = {
  "known": loop_known,
  "mixed": loop_mixed,
  "steered": loop_steered,
  "pair": loop_pair,
}


def _seconds(task: Callable[[], Any]) -> float:
  start = time.perf_counter()
  task()
  return time.perf_counter() - start


def measure(config: WorthConfig, repetitions: int, loop_episodes: int) -> Iterator[dict[str, Any]]:
  """A record an experiment, and one for all four.

  Args:
    config: sizes and seeds.
    repetitions: of every timing; the median counts.
    loop_episodes: how many episodes of one seed the loop runs, at most those of the config.
  """
  keys = make_keys(config.seeds)
  totals = {"compile_s": 0.0, "seconds": 0.0, "loop_seconds": 0.0}
  for name, program in make_programs(config).items():
    settings = getattr(config, name)
    episodes = settings.episodes if name == "pair" else config.episodes
    timed = min(loop_episodes, episodes)
    start = time.perf_counter()
    compiled = program.lower(keys).compile()  # type: ignore[attr-defined]
    compile_s = time.perf_counter() - start
    fast, slow = [], []
    for repetition in range(repetitions):
      rng = np.random.default_rng(repetition)
      fast.append(_seconds(lambda: jax.block_until_ready(compiled(keys))))  # noqa: B023
      slow.append(_seconds(lambda: LOOPS[name](rng, settings, timed)))  # noqa: B023
    seconds = statistics.median(fast)
    loop_seconds = statistics.median(slow) * len(config.seeds) * episodes / timed
    for total, value in zip(totals, (compile_s, seconds, loop_seconds), strict=True):
      totals[total] += value
    yield _record(name, len(config.seeds), episodes, timed, compile_s, seconds, loop_seconds)
  yield _record("all", len(config.seeds), config.episodes, loop_episodes, *totals.values())


def _record(
  experiment: str,
  seeds: int,
  episodes: int,
  timed: int,
  compile_s: float,
  seconds: float,
  loop_seconds: float,
) -> dict[str, Any]:
  return {
    "bench": "worth",
    "experiment": experiment,
    "seeds": seeds,
    "episodes": episodes,
    "seconds": round(seconds, 4),
    "numpy_loop_seconds": round(loop_seconds, 2),
    "numpy_loop": f"{timed} episodes of 1 seed, scaled to all",
    "ratio": round(loop_seconds / seconds, 1),
    "compile_s": round(compile_s, 2),
    "dtype": "float32",
    "device": jax.devices()[0].device_kind,
  }


def run() -> Iterator[dict[str, object]]:
  """The default study."""
  yield from measure(WorthConfig(), REPETITIONS, LOOP_EPISODES)
