"""Graphiti: facts with two timelines, and a contradicted fact ends where the newer begins.

Source: "Zep: A Temporal Knowledge Graph Architecture for Agent Memory" (Rasmussen, Paliychuk,
Beauvais, Ryan, Chalef; arXiv 2501.13956), whose open engine is Graphiti. Every fact has the
time when it holds and the time when it was stored. A language model names the stored facts
that a new one contradicts; comparing their intervals then decides which of them ends.
"""

import numpy as np

from tarl_jax.baselines.signals import (
  Thresholds,
  any_of,
  nearest,
  nothing_to_keep,
  pick,
  rule_predictions,
)
from tarl_jax.data.examples import TIME_SIGNALS
from tarl_jax.evaluation.judging import Predictions
from tarl_jax.inputs import PolicyInputs
from tarl_jax.types import Action


def decide(inputs: PolicyInputs, kept: np.ndarray, thresholds: Thresholds) -> Predictions:
  """Append, noop, revise or reject_conflict by time alone; nothing is ever deferred.

  A duplicate is merged with what is stored (noop). Of two facts that contradict each other the
  later one ends the earlier one: revise where the claim is the later, reject_conflict where it
  is the earlier, since it is then stored as one that has already ended. Where their intervals
  do not meet, or their order is unknown or equal, both stand (append). Source and trust are not
  looked at. Left out: the extraction of entities and facts, communities, and that one claim may
  end several facts.
  """
  del kept
  entry = nearest(inputs, thresholds)
  empty = nothing_to_keep(inputs)
  apart = any_of(entry.time, TIME_SIGNALS, ("entry_is_over", "candidate_ends_before_entry"))
  later = pick(entry.time, TIME_SIGNALS, "newer") > 0.5
  earlier = pick(entry.time, TIME_SIGNALS, "older") > 0.5
  action = np.where(earlier, Action.REJECT_CONFLICT, Action.APPEND)
  action = np.where(later, Action.REVISE, action)
  action = np.where(apart | ~entry.related, Action.APPEND, action)
  action = np.where(entry.same | empty, Action.NOOP, action)
  return rule_predictions(inputs, action, entry.position, entry.related & ~empty)
