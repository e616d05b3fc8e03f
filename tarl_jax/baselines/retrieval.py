"""LongMemEval-style retrieval: store facts, search by similarity and time, read in order.

Source: "LongMemEval: Benchmarking Chat Assistants on Long-Term Interactive Memory" (Wu, Wang,
Yu, Zhang, Chang, Yu; ICLR 2025, arXiv 2410.10813), whose reference design has three stages:
indexing (sessions are split, keys are expanded with extracted facts), retrieval (similarity,
with a time range taken from the query), and reading.
"""

from collections.abc import Sequence

import numpy as np

from tarl_jax.baselines.signals import Thresholds, closeness, nothing_to_keep, rule_predictions
from tarl_jax.baselines.views import Seen, arrival_times, highest, show, visible
from tarl_jax.data.moments import Moment
from tarl_jax.evaluation.judging import Predictions
from tarl_jax.inputs import PolicyInputs
from tarl_jax.types import Action

_TOP = 5  # entries read; the paper counts recall at this depth


def decide(inputs: PolicyInputs, kept: np.ndarray, thresholds: Thresholds) -> Predictions:
  """Appends what holds a fact; noop where fact extraction would find none.

  The index only grows: a new value is stored beside the old one, and which of them holds is
  left to the reader. Left out: that reader, and keys other than the claim itself.
  """
  del kept, thresholds
  nowhere = np.zeros(len(inputs.num_accepted), np.int64)
  action = np.where(nothing_to_keep(inputs), Action.NOOP, Action.APPEND)
  return rule_predictions(inputs, action, nowhere, about=np.zeros(len(nowhere), bool))


def view(inputs: PolicyInputs, moments: Sequence[Moment], *, top: int = _TOP) -> Seen:
  """The `top` entries most similar to the candidate, in order of arrival.

  A candidate that gives the end of its validity asks for a range of time, like a question
  about a period: entries observed outside the range are not searched. Entries keep the mark
  of their ledger, so that the view differs from TARL's by what is in sight alone.
  """
  times = arrival_times(moments, inputs.entries.shape[1])
  searched = visible(inputs) & _in_range(moments, times)
  return show(inputs, highest(closeness(inputs), searched, top), times)


def _in_range(moments: Sequence[Moment], times: np.ndarray) -> np.ndarray:
  """bool [E, V]: observed within what the candidate speaks of, or at an unknown time."""
  ranges = np.full((len(moments), 2), (-np.inf, np.inf))
  for e, moment in enumerate(moments):
    if moment.candidate.valid_until is not None:
      since = moment.candidate.valid_from
      ranges[e] = (-np.inf if since is None else since, moment.candidate.valid_until)
  inside = (times >= ranges[:, :1]) & (times <= ranges[:, 1:])
  return inside | np.isneginf(times)
