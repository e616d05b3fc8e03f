"""HippoRAG: an index of phrases that is searched by personalised PageRank.

Source: "HippoRAG: Neurobiologically Inspired Long-Term Memory for Large Language Models"
(Jiménez Gutiérrez, Shu, Gu, Yasunaga, Su; NeurIPS 2024, arXiv 2405.14831). Passages are taken
apart into phrases that become nodes of a graph; a query's phrases are the seeds of a random
walk, weighted by how few passages hold them; a passage scores what its phrases gather.
"""

from collections.abc import Sequence

import numpy as np

from tarl_jax.baselines.signals import (
  Thresholds,
  closeness,
  owners_differ,
  restates,
  rule_predictions,
  similarity,
)
from tarl_jax.baselines.views import Seen, highest, show, visible
from tarl_jax.data.lexical import parse
from tarl_jax.data.moments import Moment
from tarl_jax.evaluation.judging import Predictions
from tarl_jax.inputs import PolicyInputs
from tarl_jax.types import Action

_TOP = 5  # passages read; the paper counts recall at this depth
_DAMPING = 0.5  # the paper's: half of the walk returns to the seeds at each step
_STEPS = 30  # what is left out is below 2^-30


def decide(inputs: PolicyInputs, kept: np.ndarray, thresholds: Thresholds) -> Predictions:
  """Noop where one Accepted entry holds every phrase of the claim, append otherwise.

  Indexing merges equal phrases into one node, so that a passage without a new phrase leaves
  the graph as it is; nothing is ever taken out of it. Left out: triples of a language model
  (content words stand in for phrases) and synonymy edges, which link and never remove.
  """
  del kept, thresholds
  accepted = (similarity(inputs) >= 0) & ~owners_differ(inputs)
  known = accepted & restates(np.asarray(inputs.pair_signals))
  action = np.where(known.any(1), Action.NOOP, Action.APPEND)
  return rule_predictions(inputs, action, known.argmax(1), about=known.any(1))


def view(inputs: PolicyInputs, moments: Sequence[Moment], *, top: int = _TOP) -> Seen:
  """The `top` entries by PageRank from the candidate's phrases, best first.

  The graph is that of the visible entries. Entries that the walk does not reach follow by
  similarity. Entries keep the mark of their ledger.
  """
  phrases = _phrases(moments)
  score = closeness(inputs) * 1e-6  # below any share of the walk, above its absence
  for e, moment in enumerate(moments):
    held = [phrases[entry.text] for entry in moment.entries]
    score[e, : len(held)] += passage_scores(phrases[moment.candidate.text], held)
  return show(inputs, highest(score, visible(inputs), top), -score)


def _phrases(moments: Sequence[Moment]) -> dict[str, frozenset[str]]:
  """Text -> its content words: names, values and stems."""
  texts = {m.candidate.text for m in moments} | {c.text for m in moments for c in m.entries}
  return {text: parse(text).content for text in texts}


def passage_scores(query: frozenset[str], passages: Sequence[frozenset[str]]) -> np.ndarray:
  """What the phrases of each passage gather in the walk; float64 [P], zeros without a seed.

  Args:
    query: phrases of the query.
    passages: phrases of each passage.
  """
  nodes = sorted(frozenset().union(*passages))
  row = {node: n for n, node in enumerate(nodes)}
  holds = np.zeros((len(nodes), len(passages)))
  for p, passage in enumerate(passages):
    holds[[row[node] for node in passage], p] = 1.0
  seeds = np.array([node in query for node in nodes], np.float64)
  if not seeds.any():
    return np.zeros(len(passages))
  specific = seeds / holds.sum(1)
  return pagerank(holds, specific / specific.sum()) @ holds


def pagerank(holds: np.ndarray, seeds: np.ndarray) -> np.ndarray:
  """Personalised PageRank over phrases that are linked once for each passage they share.

  Args:
    holds: float64 [N, P], 1 where passage p holds phrase n; each phrase is in one at least.
    seeds: float64 [N], where the walk starts and returns to; sums to 1.

  Returns:
    float64 [N], the share of the time spent at each phrase; sums to 1. A phrase without a
    neighbour sends the walk back to the seeds.
  """
  links = holds @ holds.T
  np.fill_diagonal(links, 0.0)
  degree = links.sum(0)
  lonely = degree == 0
  walk = np.where(lonely, seeds[:, None], links / np.where(lonely, 1.0, degree))
  rank = seeds
  for _ in range(_STEPS):
    rank = (1.0 - _DAMPING) * seeds + _DAMPING * (walk @ rank)
  return rank
