"""Mem0: each extracted fact is added, updates, deletes, or changes nothing.

Source: "Mem0: Building Production-Ready AI Agents with Scalable Long-Term Memory" (Chhikara,
Khant, Aryan, Singh, Yadav; arXiv 2504.19413). A language model extracts facts from what was
said, is shown the most similar memories, and chooses one of ADD, UPDATE, DELETE and NOOP.
"""

import numpy as np

from tarl_jax.baselines.signals import (
  PAIR_NAMES,
  Thresholds,
  any_of,
  nearest,
  nothing_to_keep,
  rule_predictions,
)
from tarl_jax.evaluation.judging import Predictions
from tarl_jax.inputs import PolicyInputs
from tarl_jax.types import Action


def decide(inputs: PolicyInputs, kept: np.ndarray, thresholds: Thresholds) -> Predictions:
  """ADD is append, NOOP is noop, UPDATE and DELETE are revise.

  ADD: no memory is about the matter. NOOP: a memory says the same, or says it in more words;
  also where extraction finds no fact. UPDATE: the claim says more than the memory, or something
  else. DELETE: the claim contradicts the memory; revise is the one action that takes an entry
  out of Accepted, and unlike DELETE it lets the claim in. Source and time are not looked at.
  Left out: the extraction itself, the running summary, and the variant with a graph.
  """
  del kept
  entry = nearest(inputs, thresholds)
  empty = nothing_to_keep(inputs)
  says_more = any_of(entry.pair, PAIR_NAMES, ("entry_in_candidate",))
  says_less = any_of(entry.pair, PAIR_NAMES, ("candidate_in_entry",))
  known = (entry.same & ~says_more) | says_less
  action = np.where(known, Action.NOOP, Action.REVISE)
  action = np.where(entry.related, action, Action.APPEND)
  action = np.where(empty, Action.NOOP, action)
  return rule_predictions(inputs, action, entry.position, entry.related & ~empty)
