"""The settings of the worth experiments: every choice that the paper leaves open, with ours.

Owns which settings exist and which values are allowed; `configs/worth.py` starts from these
defaults. What each choice does to the results is measured in `sensitivity.py`.

An episode's chance of success is base + effect (quality - 0.5), within [0, 1], where the
quality of a retrieval is one of `simulate.QUALITIES` over its memories' utilities.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from tarl_jax.config import _build, to_dict
from tarl_jax.errors import InputError
from tarl_jax.experiments.retrieval_settings import RetrievalSettings
from tarl_jax.experiments.simulate import QUALITIES
from tarl_jax.experiments.studies import StudiesSettings

MAX_SEED = 2**31 - 1
MAX_EPISODES = 1_000_000  # counters in float32 are exact far beyond, memory is not


@dataclasses.dataclass(frozen=True, kw_only=True)
class KnownConfig:
  """Experiment 1: memories of known utility U* ~ Uniform[0, 1], retrieved at random.

  Base 0.5. Of the choices that give the paper's 0.89 this is the one nearest to its
  experiment 2, which has 100 memories.
  """

  memories: int = 100
  retrieved: int = 8  # of them an episode
  effect: float = 1.0  # with base 0.5: success as often as the quality says
  quality: str = "mean"
  lowest_score: float = 0.5  # similarity of what is retrieved ~ Uniform[lowest, 1]


@dataclasses.dataclass(frozen=True, kw_only=True)
class MixedConfig:
  """Experiment 2: easy tasks draw generalists only, hard tasks both; numbers of the paper.

  Open in the paper: the share of easy tasks, how many are retrieved, and how much the
  memories matter beside the difficulty. The last decides, and is set so that both figures
  come near the paper's: with an effect of 0.5 they are -0.10 and 0.57.
  """

  generalists: int = 70  # U ~ Uniform[0, 1]
  specialists: int = 30
  specialist_utility: float = 0.85
  easy_success: float = 0.78  # base of an easy task
  hard_success: float = 0.28  # base of a hard task
  easy_share: float = 0.5
  retrieved: int = 8
  effect: float = 0.1
  quality: str = "mean"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SteeredConfig:
  """Experiment 3: a random set of candidates, of which those of the highest worth are used.

  In an exploring episode the choice among the candidates is random, as it is for a system
  that is not steered. Base 0.5.
  """

  memories: int = 100
  candidates: int = 16  # what a search by similarity would find
  retrieved: int = 8  # of the candidates
  exploration: float = 0.1  # share of episodes
  effect: float = 1.0
  quality: str = "mean"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairConfig:
  """Experiment 4: an anchor and a hitchhiker that are retrieved together.

  In an independent episode one of them, by a fair coin, is retrieved alone. Success follows
  the mean utility of what is retrieved. The pair is apart when the credible interval of the
  anchor's success rate lies above that of the hitchhiker's. The share that takes depends on
  the number of episodes, which is set so that it is about the paper's 30 %.
  """

  episodes: int = 400  # in which the pair is asked for
  anchor: float = 0.90
  hitchhiker: float = 0.05
  independent: tuple[float, ...] = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)  # shares of the episodes
  level: float = 0.95  # of each interval


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorthConfig:
  """The whole study: experiments 1 to 5 of the paper and what stands beside them."""

  seeds: tuple[int, ...] = tuple(range(20))
  episodes: int = 10_000  # of experiments 1 to 3
  checkpoints: int = 50  # points of the curves; the episodes are a multiple of it
  known: KnownConfig = KnownConfig()
  mixed: MixedConfig = MixedConfig()
  steered: SteeredConfig = SteeredConfig()
  pair: PairConfig = PairConfig()
  retrieval: RetrievalSettings = RetrievalSettings()  # experiment 5
  studies: StudiesSettings = StudiesSettings()  # beyond the paper
  weights: str = ""  # folder of MiniLM for experiment 5, "" to look for it
  sensitivity: bool = True  # also vary the open choices one at a time


def make_worth_config(values: Mapping[str, Any]) -> WorthConfig:
  """The resolved, checked settings.

  Raises:
    InputError: naming the setting, for an unknown name, a wrong type or a bad value.
  """
  config = _build(WorthConfig, _changes(values, to_dict(WorthConfig())), "config")
  for holds, name, sentence in checks(config):
    if not holds:
      raise InputError(f"config.{name} {sentence}.")
  return config


def _changes(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
  """What differs from the defaults, some of which are infinite: a value to keep, not to set."""
  changes = {}
  for name, value in values.items():
    default = defaults.get(name)
    if isinstance(value, Mapping) and isinstance(default, Mapping):
      changes[name] = _changes(value, default)
    elif name not in defaults or value != default or type(value) is not type(default):
      changes[name] = value
  return changes


def checks(config: WorthConfig) -> Iterator[tuple[bool, str, str]]:
  """(holds, setting, what must hold) of every rule."""
  seeds = config.seeds
  yield bool(seeds), "seeds", "must name at least one seed"
  yield len(set(seeds)) == len(seeds), "seeds", "names a seed twice"
  yield all(0 <= seed <= MAX_SEED for seed in seeds), "seeds", f"must be from 0 to {MAX_SEED}"
  yield config.checkpoints >= 1, "checkpoints", "must be at least 1"
  episodes = config.episodes
  yield 1 <= episodes <= MAX_EPISODES, "episodes", f"must be from 1 to {MAX_EPISODES}"
  sentence = f"must be a multiple of config.checkpoints ({config.checkpoints})"
  yield episodes % max(config.checkpoints, 1) == 0, "episodes", sentence
  yield from _known_checks(config)
  yield from _mixed_checks(config.mixed)
  yield from _steered_checks(config)
  yield from _pair_checks(config.pair)


def _known_checks(config: WorthConfig) -> Iterator[tuple[bool, str, str]]:
  known = config.known
  yield known.memories >= 2, "known.memories", "must be at least 2"
  yield from _retrieved(known.retrieved, "known", known.memories, "the memories")
  yield from _outcome(known, "known")
  yield _is_share(known.lowest_score), "known.lowest_score", "must be from 0 to 1"


def _mixed_checks(mixed: MixedConfig) -> Iterator[tuple[bool, str, str]]:
  yield mixed.generalists >= 1, "mixed.generalists", "must be at least 1"
  yield mixed.specialists >= 1, "mixed.specialists", "must be at least 1"
  yield from _retrieved(mixed.retrieved, "mixed", mixed.generalists, "the generalists")
  yield from _outcome(mixed, "mixed")
  for name in ("specialist_utility", "easy_success", "hard_success", "easy_share"):
    yield _is_share(getattr(mixed, name)), f"mixed.{name}", "must be from 0 to 1"


def _steered_checks(config: WorthConfig) -> Iterator[tuple[bool, str, str]]:
  steered = config.steered
  yield steered.memories >= 2, "steered.memories", "must be at least 2"
  number = steered.candidates
  sentence = f"must be from 1 to {steered.memories}, the memories"
  yield 1 <= number <= steered.memories, "steered.candidates", sentence
  yield from _retrieved(steered.retrieved, "steered", number, "the candidates")
  yield from _outcome(steered, "steered")
  yield _is_share(steered.exploration), "steered.exploration", "must be from 0 to 1"
  sentence = "must be at least 10, and a multiple of 10, to measure the last tenth"
  yield config.checkpoints % 10 == 0, "checkpoints", sentence


def _pair_checks(pair: PairConfig) -> Iterator[tuple[bool, str, str]]:
  sentence = f"must be from 1 to {MAX_EPISODES}"
  yield 1 <= pair.episodes <= MAX_EPISODES, "pair.episodes", sentence
  yield bool(pair.independent), "pair.independent", "must name at least one share"
  shares = pair.independent
  yield all(_is_share(share) for share in shares), "pair.independent", "must be from 0 to 1"
  yield len(set(shares)) == len(shares), "pair.independent", "names a share twice"
  yield _is_share(pair.anchor), "pair.anchor", "must be from 0 to 1"
  yield _is_share(pair.hitchhiker), "pair.hitchhiker", "must be from 0 to 1"
  yield 0 < pair.level < 1, "pair.level", "must be over 0 and under 1"


def _is_share(value: float) -> bool:
  return 0 <= value <= 1


def _retrieved(number: int, group: str, most: int, what: str) -> Iterator[tuple[bool, str, str]]:
  yield 1 <= number <= most, f"{group}.retrieved", f"must be from 1 to {most}, {what}"


def _outcome(settings: Any, group: str) -> Iterator[tuple[bool, str, str]]:
  yield 0 <= settings.effect <= 2, f"{group}.effect", "must be from 0 to 2"
  sentence = "must be one of " + ", ".join(QUALITIES)
  yield settings.quality in QUALITIES, f"{group}.quality", sentence
