"""Plots of the worth experiments: rank correlation, worth of real texts, the pair apart.

Bands are one standard deviation over the seeds.
"""

import pathlib

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from tarl_jax.experiments.config import WorthConfig
from tarl_jax.experiments.hitchhiker import ANCHOR, HITCHHIKER
from tarl_jax.experiments.known_utility import WEIGHTINGS
from tarl_jax.experiments.program import Raw
from tarl_jax.experiments.retrieval import THRESHOLD, TRACKED


def draw_all(workdir: pathlib.Path, config: WorthConfig, raw: Raw) -> None:
  """Writes the three plots into `workdir`."""
  _save(_rho(config, raw), workdir / "worth_rho.png")
  _save(_texts(config, raw), workdir / "worth_texts.png")
  _save(_pair(config, raw), workdir / "worth_pair.png")


def _save(figure: Figure, path: pathlib.Path) -> None:
  figure.tight_layout()
  figure.savefig(path, dpi=120)
  plt.close(figure)


def _band(axes: Axes, x: np.ndarray, curves: ArrayLike, label: str) -> None:
  """Mean of curves [S, X] over the seeds, and the spread about it."""
  curves = np.asarray(curves)
  mean, sd = curves.mean(0), curves.std(0)
  (line,) = axes.plot(x, mean, label=label)
  axes.fill_between(x, mean - sd, mean + sd, alpha=0.2, color=line.get_color())


def _rho(config: WorthConfig, raw: Raw) -> Figure:
  """Experiments 1 and 2 by episodes."""
  figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), sharex=True)
  episodes = np.linspace(0, config.episodes, config.checkpoints + 1)[1:]
  for column, name in enumerate(WEIGHTINGS):
    _band(left, episodes, raw.known.rho[:, :, column], f"{name} weights")
  left.plot(episodes[[0, -1]], [raw.known.frozen.mean()] * 2, "k:", label="never updated")
  left.set_title("1: rank correlation with known utility")
  _band(right, episodes, raw.mixed.rho_all, "all tasks")
  _band(right, episodes, raw.mixed.rho_hard, "hard tasks only")
  right.axhline(0, color="grey", linewidth=1)
  right.set_title("2: the same under confounding by difficulty")
  for axes in (left, right):
    axes.set_xlabel("episodes")
    axes.set_ylabel("Spearman's rho")
    axes.legend()
  return figure


def _texts(config: WorthConfig, raw: Raw) -> Figure:
  """Experiment 5 by episodes."""
  figure, axes = plt.subplots(figsize=(6.5, 4))
  episodes = np.arange(1, config.retrieval.episodes + 1)
  for column, name in enumerate(TRACKED):
    _band(axes, episodes, raw.texts.curves[:, :, column], name)
  axes.axhline(THRESHOLD, color="grey", linestyle="--", label=f"{THRESHOLD:.2f}")
  axes.axvline(config.retrieval.change_at, color="grey", linewidth=1, label="the facts change")
  axes.set_xlabel("episodes")
  axes.set_ylabel("worth")
  axes.set_ylim(0, 1.05)
  axes.set_title("5: worth of real texts")
  axes.legend(loc="center right")
  return figure


def _pair(config: WorthConfig, raw: Raw) -> Figure:
  """Experiment 4 by share of independent episodes."""
  figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), sharex=True)
  order = np.argsort(config.pair.independent)
  shares = 100 * np.asarray(config.pair.independent)[order]
  for place, name in ((ANCHOR, "anchor"), (HITCHHIKER, "hitchhiker")):
    _band(left, shares, raw.pair.worth[:, order, place], name)
  left.set_ylabel("worth")
  left.set_title("4: worth of the pair")
  left.legend()
  right.plot(shares, raw.pair.apart[:, order].mean(0), marker="o")
  right.set_ylabel("share of seeds in which the pair is apart")
  right.set_title(f"intervals of {config.pair.level:.0%} apart")
  for axes in (left, right):
    axes.set_xlabel("independent episodes, %")
  return figure
