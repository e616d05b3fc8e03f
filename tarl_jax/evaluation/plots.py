"""Plots beside the table: confusion matrix, reliability diagram, training curves."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from tarl_jax import metrics
from tarl_jax.data.dataset import Split
from tarl_jax.evaluation.judging import Predictions
from tarl_jax.evaluation.scores import reliability_bins
from tarl_jax.types import ACTION_LABELS, NUM_ACTIONS

Curves = Mapping[int, Sequence[Mapping[str, Any]]]  # lines of metrics.jsonl by seed


def draw_all(
  workdir: pathlib.Path, curves: Curves, runs: Sequence[Predictions], test: Split
) -> None:
  """Writes the three plots into `workdir`, over all seeds together."""
  _save(_confusion(runs, test), workdir / "confusion.png")
  _save(_reliability(runs, test), workdir / "reliability.png")
  _save(_curves(curves), workdir / "training.png")


def _save(figure: plt.Figure, path: pathlib.Path) -> None:
  figure.tight_layout()
  figure.savefig(path, dpi=120)
  plt.close(figure)


def _confusion(runs: Sequence[Predictions], test: Split) -> plt.Figure:
  """Share of each gold action by predicted action."""
  weight = np.ones(len(test.labels.action), np.float32)
  gold = test.labels.action
  counts = np.sum([metrics.confusion(gold, run.action, weight) for run in runs], axis=0)
  shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
  figure, axes = plt.subplots(figsize=(5.5, 4.8))
  axes.imshow(shares, vmin=0, vmax=1, cmap="Blues")
  for i in range(NUM_ACTIONS):
    for j in range(NUM_ACTIONS):
      color = "white" if shares[i, j] > 0.5 else "black"
      axes.text(j, i, f"{shares[i, j]:.2f}", ha="center", va="center", color=color)
  axes.set_xticks(range(NUM_ACTIONS), ACTION_LABELS, rotation=30, ha="right")
  axes.set_yticks(range(NUM_ACTIONS), ACTION_LABELS)
  axes.set_xlabel("predicted")
  axes.set_ylabel("gold")
  axes.set_title("Actions on the test split, share of each gold action")
  return figure


def _reliability(runs: Sequence[Predictions], test: Split) -> plt.Figure:
  """Accuracy against probability, and how many decisions each bin holds."""
  gold = test.labels.action
  everything = np.ones(len(gold), bool)
  bins = np.sum([reliability_bins(run, gold, everything) for run in runs], axis=0)
  weight, probability, correct = bins.T
  used = weight > 0
  figure, axes = plt.subplots(figsize=(4.8, 4.8))
  axes.plot([0, 1], [0, 1], color="grey", linewidth=1)
  axes.plot(probability[used] / weight[used], correct[used] / weight[used], marker="o")
  centers = (np.arange(len(weight)) + 0.5) / len(weight)
  axes.bar(centers, weight / weight.sum(), width=0.9 / len(weight), alpha=0.25)
  axes.set_xlabel("probability of the chosen action (bars: share of decisions)")
  axes.set_ylabel("share that was right")
  axes.set_title(f"Calibration on the test split, ECE {metrics.ece(bins):.3f}")
  return figure


def _curves(curves: Curves) -> plt.Figure:
  """Training loss and validation Macro F1 by step, one line a seed."""
  figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
  for seed, lines in curves.items():
    for axes, name in ((left, "train/loss"), (right, "val/macro_f1")):
      points = [(line["step"], line[name]) for line in lines if line.get(name) is not None]
      if points:
        axes.plot(*zip(*points), label=f"seed {seed}")
  for axes, title in ((left, "training loss"), (right, "validation Macro F1")):
    axes.set_xlabel("step")
    axes.set_title(title)
    if axes.lines:
      axes.legend()
  return figure
