"""From verdicts to the table of SPEC 6: sums over any part of a split, divided once."""

import numpy as np

from tarl_jax import metrics
from tarl_jax.data.dataset import Split
from tarl_jax.evaluation.judging import Predictions
from tarl_jax.metrics import Verdict
from tarl_jax.types import ACTION_LABELS

# Order of the columns in tables.
METRICS = (
  "macro_f1",
  "temporal_macro_f1",
  "target_accuracy",
  "next_state",
  "next_state_setwise",
  "pollution",
  "conflict_preservation",
  "ece",
  "brier",
  "nll",
)
LOWER_IS_BETTER = ("pollution", "ece", "brier", "nll")


def _share(hits: np.ndarray, among: np.ndarray) -> float:
  """Share of `hits` among the examples of `among`; NaN where there is none."""
  return float(np.sum(hits & among) / among.sum()) if among.any() else float("nan")


def score(
  split: Split, predictions: Predictions, verdict: Verdict, part: np.ndarray
) -> dict[str, float]:
  """Every metric over the examples where `part` (bool [E]) is true; NaN where undefined."""
  gold = split.labels.action
  temporal = np.array([bool(m.gold and m.gold.temporal) for m in split.moments])
  has_target = np.array([bool(m.gold and m.gold.target is not None) for m in split.moments])
  on_target = split.labels.targets[np.arange(len(gold)), predictions.grounded]
  visible = split.labels.weight > 0
  counts = _confusion(gold, predictions.action, part)
  values = {
    "macro_f1": metrics.macro_f1(counts),
    "temporal_macro_f1": metrics.macro_f1(_confusion(gold, predictions.action, part & temporal)),
    "target_accuracy": _share(on_target & visible, has_target & part),
    "next_state": _share(verdict.strict, part),
    "next_state_setwise": _share(verdict.setwise, part),
    "pollution": _share(verdict.polluted, verdict.outside & part),
    "conflict_preservation": _share(verdict.preserved, verdict.conflict & part),
  }
  values |= _calibration(predictions, gold, part)
  f1 = metrics.per_class_f1(counts)
  values |= {f"f1_{label}": float(f1[i]) for i, label in enumerate(ACTION_LABELS)}
  values["refused"] = float(np.sum(verdict.refused & part))
  values["out_of_sight"] = float(np.sum(~visible & part))
  values["examples"] = float(part.sum())
  return values


def _confusion(gold: np.ndarray, predicted: np.ndarray, part: np.ndarray) -> np.ndarray:
  return np.asarray(metrics.confusion(gold, predicted, part.astype(np.float32)))


def _calibration(predictions: Predictions, gold: np.ndarray, part: np.ndarray) -> dict[str, float]:
  """ECE, Brier and NLL; NaN for a method without probabilities."""
  if predictions.probabilities is None or not part.any():
    return {"ece": float("nan"), "brier": float("nan"), "nll": float("nan")}
  probabilities, gold = predictions.probabilities[part], gold[part]
  return {
    "ece": metrics.ece(reliability_bins(predictions, gold, part)),
    "brier": float(np.mean(metrics.brier(probabilities, gold))),
    "nll": float(np.mean(metrics.nll(probabilities, gold))),
  }


def reliability_bins(predictions: Predictions, gold: np.ndarray, part: np.ndarray) -> np.ndarray:
  """Summed calibration bins over `part`; `gold` holds the actions of that part."""
  assert predictions.probabilities is not None
  chosen = predictions.action[part]
  probability = predictions.probabilities[part][np.arange(len(chosen)), chosen]
  weight = np.ones(len(chosen), np.float32)
  return np.asarray(metrics.calibration_bins(probability, chosen == gold, weight))


def parts(split: Split) -> dict[str, np.ndarray]:
  """The rows that results are split by: all, each source, each provenance; bool [E].

  Only steps that are examples of the split are in any of them.
  """
  sources = np.array([split.streams[m.stream].source for m in split.moments])
  provenance = np.array([m.gold.provenance if m.gold else "" for m in split.moments])
  everything = {"all": np.ones(len(sources), bool)}
  everything["annotated+derived"] = np.isin(provenance, ("annotated", "derived"))
  everything |= {f"source: {name}": sources == name for name in sorted(set(sources))}
  everything |= {f"provenance: {name}": provenance == name for name in sorted(set(provenance))}
  counted = {name: part & split.counts for name, part in everything.items()}
  return {name: part for name, part in counted.items() if part.any()}


def summarize(runs: list[dict[str, float]]) -> dict[str, dict[str, float]]:
  """Mean and sample standard deviation over runs: {metric: {mean, sd, n}}; sd 0 for one run."""
  summary = {}
  for name in runs[0]:
    values = np.array([run[name] for run in runs], np.float64)
    sd = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    summary[name] = {"mean": float(values.mean()), "sd": sd, "n": len(values)}
  return summary
