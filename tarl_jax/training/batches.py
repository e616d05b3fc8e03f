"""Which examples each training step sees: a pure function of seed and step.

A resumed run needs no iterator state: the step is the data position.
"""

import functools

import jax
import numpy as np


@functools.lru_cache(maxsize=4)
def _permutation(seed: int, epoch: int, num_examples: int) -> np.ndarray:
  rng = np.random.Generator(np.random.Philox(key=[seed, epoch]))
  return rng.permutation(num_examples).astype(np.int32)


def batch_indices(seed: int, step: int, num_examples: int, batch_size: int) -> np.ndarray:
  """Rows of step `step` (from 0), int32 [batch_size].

  Each epoch is a fresh permutation; batches run on over its end, so that every example is
  seen equally often whatever the batch size.
  """
  first = step * batch_size
  positions = np.arange(first, first + batch_size)
  epochs = positions // num_examples
  rows = np.empty(batch_size, np.int32)
  for epoch in np.unique(epochs):
    inside = epochs == epoch
    rows[inside] = _permutation(seed, int(epoch), num_examples)[positions[inside] % num_examples]
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
