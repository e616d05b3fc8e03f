"""New points that a live entry resembles too closely to be called new (DATA.md, rule 3).

Owns the rule by meaning; the rule by words is in the converters, which know no encoder. Such
a step stays in its stream, since later claims may be about it, and is no example.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from tarl_jax.data.moments import Moment
from tarl_jax.types import Action

# The converters of these take a source's word that a point is new; the others know it.
_SOURCES = ("halumem", "halumem_stages", "locomo", "longmemeval")
_TOO_CLOSE = 0.82  # cosine of MiniLM sentence vectors
_ENCODER = "minilm"  # the measure is of its vectors; those of hashed words say no more than words


def ambiguous_new(
  moments: Sequence[Moment],
  sources: Sequence[str],
  vectors: Mapping[str, np.ndarray],
  encoder_name: str,
) -> np.ndarray:
  """bool [E]: a source's own new point with a live Accepted entry at cosine over 0.82.

  All false for another encoder than MiniLM. A point that settles a Pending claim is never one.

  Args:
    moments: decisions, entries nearest first.
    sources: of the streams that `Moment.stream` counts.
    vectors: text -> float32 [D], unit norm.
    encoder_name: of the vectors.
  """
  found = np.zeros(len(moments), bool)
  if encoder_name != _ENCODER:
    return found
  for e, moment in enumerate(moments):
    gold = moment.gold
    if gold is None or gold.action != Action.APPEND or gold.provenance == "constructed":
      continue
    if gold.resolves is None and moment.num_accepted and sources[moment.stream] in _SOURCES:
      nearest = vectors[moment.entries[0].text]
      found[e] = float(vectors[moment.candidate.text] @ nearest) > _TOO_CLOSE
  return found
