"""How batches are cut from rows: whole arrays in, rows of them out.

Knows no data and no Grain; training is fed by `data/pipeline.py`.
"""

import jax
import numpy as np

from tarl_jax.data.order import epoch_order


def batch_indices(seed: int, step: int, num_examples: int, batch_size: int) -> np.ndarray:
  """Rows of step `step` (from 0) for one process, int32 [batch_size].

  Element `step` of `pipeline.training_rows`, written out: for the small runs inside an
  evaluation. Each epoch is a fresh permutation; batches run on over its end, so that every
  example is seen equally often whatever the batch size.
  """
  first = step * batch_size
  positions = np.arange(first, first + batch_size)
  epochs = positions // num_examples
  rows = np.empty(batch_size, np.int32)
  for epoch in np.unique(epochs):
    inside = epochs == epoch
    rows[inside] = epoch_order(seed, int(epoch), num_examples)[positions[inside] % num_examples]
  return rows


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
