"""Late interaction of token states: how each word of one text is met by the other.

Parameter-free, on the device, in chunks of a fixed size so that it compiles once. Knows
token states only. The idea of matching every token with its best counterpart is ColBERT's
(Khattab and Zaharia 2020); here the matches of both directions are summed up by a few
statistics that a small policy can read, the worst-met word first among them.
"""

import jax
import jax.numpy as jnp
import numpy as np

from tarl_jax.models.encoder import TextEncoding

_DIRECTION_SIGNALS = ("mean", "worst", "second_worst", "weakly_met", "unmet")
INTERACTION_SIGNALS = (
  "sentence_cosine",
  *(f"candidate_{name}" for name in _DIRECTION_SIGNALS),
  *(f"entry_{name}" for name in _DIRECTION_SIGNALS),
)
_CHUNK = 256
_WEAKLY_MET, _UNMET = 0.7, 0.45  # cosines under which a word counts as weakly met, as unmet


def _direction(similarity: jax.Array, mask: jax.Array, other_mask: jax.Array) -> jax.Array:
  """Statistics of how the tokens of one text are met; float32 [5]. Zeros for no token."""
  met = jnp.max(jnp.where(other_mask[None, :], similarity, -1.0), axis=1)
  met = jnp.where(jnp.any(other_mask), met, 0.0)
  number = jnp.sum(mask)
  total = jnp.maximum(number, 1).astype(jnp.float32)
  lowest = jnp.sort(jnp.where(mask, met, jnp.inf))[:2]
  lowest = jnp.where(jnp.isfinite(lowest), lowest, jnp.max(jnp.where(mask, met, 0.0)))
  weakly = jnp.sum(mask & (met < _WEAKLY_MET)) / total
  unmet = jnp.sum(mask & (met < _UNMET)) / total
  mean = jnp.sum(jnp.where(mask, met, 0.0)) / total
  return jnp.where(number > 0, jnp.stack([mean, lowest[0], lowest[1], weakly, unmet]), 0.0)


def interaction(
  candidate: tuple[jax.Array, jax.Array], entry: tuple[jax.Array, jax.Array]
) -> jax.Array:
  """Signals of one pair without the sentence cosine; float32 [10]. Unbatched.

  Args:
    candidate: token states [L, D_t] and mask bool [L].
    entry: the same of the entry.
  """
  (tokens, mask), (entry_tokens, entry_mask) = candidate, entry
  similarity = tokens.astype(jnp.float32) @ entry_tokens.astype(jnp.float32).T
  forward = _direction(similarity, mask, entry_mask)
  return jnp.concatenate([forward, _direction(similarity.T, entry_mask, mask)])


@jax.jit
def _interactions(candidate: tuple, entry: tuple) -> jax.Array:
  return jax.vmap(interaction)(candidate, entry)


def interaction_signals(encoding: TextEncoding, pairs: np.ndarray) -> np.ndarray:
  """Signals of many pairs of texts.

  Args:
    encoding: of N texts.
    pairs: int [M, 2], rows of (candidate, entry).

  Returns:
    float32 [M, len(INTERACTION_SIGNALS)].
  """
  left, right = pairs[:, 0], pairs[:, 1]
  out = np.zeros((len(pairs), len(INTERACTION_SIGNALS)), np.float32)
  for start in range(0, len(pairs), _CHUNK):
    rows = np.arange(start, start + _CHUNK) % len(pairs)
    sides = [
      (encoding.tokens[side], encoding.token_mask[side]) for side in (left[rows], right[rows])
    ]
    kept = min(_CHUNK, len(pairs) - start)
    out[start : start + kept, 1:] = np.asarray(_interactions(*sides))[:kept]
  out[:, 0] = np.sum(encoding.sentence[left] * encoding.sentence[right], axis=1)
  return out
