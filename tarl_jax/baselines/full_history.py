"""Full History: everything ever said is kept, in order, and nothing is changed.

The oldest baseline of conversational memory: the whole past is put before the reader, as in
the full-context rows of LongMemEval (Wu, Wang, Yu, Zhang, Chang, Yu; ICLR 2025, arXiv
2410.10813). It has no write rule but the append.
"""

from collections.abc import Sequence

import numpy as np

from tarl_jax.baselines.signals import Thresholds, rule_predictions
from tarl_jax.baselines.views import Seen, arrival_times, show, visible
from tarl_jax.data.moments import Moment
from tarl_jax.evaluation.judging import Predictions
from tarl_jax.inputs import PolicyInputs
from tarl_jax.types import Action


def decide(inputs: PolicyInputs, kept: np.ndarray, thresholds: Thresholds) -> Predictions:
  """Appends every claim, a repetition and a question included.

  Left out: the reading of the log by a language model, which is where the system would notice
  that two lines contradict each other.
  """
  del kept, thresholds
  nowhere = np.zeros(len(inputs.num_accepted), np.int64)
  action = np.full(len(nowhere), Action.APPEND)
  return rule_predictions(inputs, action, nowhere, about=np.zeros(len(nowhere), bool))


def view(inputs: PolicyInputs, moments: Sequence[Moment]) -> Seen:
  """All entries as one log in order of arrival: nothing marks what waits for verification.

  Left out: superseded and rejected claims, which a full log still holds; the visible row has
  no features of them.
  """
  shown = visible(inputs)
  return show(inputs, shown, arrival_times(moments, shown.shape[1]), one_ledger=True)
