"""Rows of whole arrays, and the batches of a prediction.

Knows no data; the batches of training come from `data/pipeline.py`.
"""

import jax
import numpy as np


def take(tree, rows):
  """The given rows of every leaf."""
  return jax.tree.map(lambda leaf: leaf[rows], tree)


def padded_batches(num_examples: int, batch_size: int) -> list[tuple[np.ndarray, int]]:
  """(rows, number that count) per batch in order; the last batch repeats row 0 as padding."""
  batches = []
  for start in range(0, num_examples, batch_size):
    rows = np.arange(start, start + batch_size)
    kept = int(np.sum(rows < num_examples))
    batches.append((np.where(rows < num_examples, rows, 0), kept))
  return batches
