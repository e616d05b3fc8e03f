"""The order in which training sees its examples: a pure function of seed and epoch."""

import functools

import numpy as np


@functools.lru_cache(maxsize=4)
def epoch_order(seed: int, epoch: int, num_rows: int) -> np.ndarray:
  """The rows in the order of one epoch, int32 [num_rows], read-only.

  Each pair of a seed and an epoch has a permutation of its own (Philox keyed by both).
  """
  rng = np.random.Generator(np.random.Philox(key=[seed, epoch]))
  order = rng.permutation(num_rows).astype(np.int32)
  order.flags.writeable = False  # the cache shares it
  return order
