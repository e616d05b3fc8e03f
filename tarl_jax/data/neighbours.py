"""The neighbour table of a stream: what a policy's rollout may have to see, made on the host.

Owns, for each claim, its M most similar earlier claims and the signals of these pairs, which
need the texts; `policy_rollout.py` picks from them what is in memory at each step. With M of
the stream's length less one that is the retrieval of `moments.py`, to the bit.

Signals are computed once for each distinct pair of texts. A table takes T x M x 22 numbers and
P for each distinct pair; `chunks` lays out the pair signals of a few steps at a time.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import jax
import numpy as np

from tarl_jax.data import lexical
from tarl_jax.data.examples import (
  PAIR_SOURCE_SIGNALS,
  TIME_SIGNALS,
  PairSignals,
  Texts,
  pair_source_signals,
  pair_table,
  source_signals,
  time_signals,
)
from tarl_jax.data.record import Claim, Stream
from tarl_jax.policy_rollout import ClaimFeatures, Look
from tarl_jax.types import NO_CLAIM

WIDTH = 64  # M; four times what is in sight, so that entries that have left seldom matter
_BLOCK = 4096  # claims whose similarities to all others are held at once


@dataclasses.dataclass(frozen=True)
class NeighbourTable:
  """One stream of T claims; all arrays of `near` lead with [T]."""

  claims: ClaimFeatures  # leaves [T, ...]
  near: Look  # but for its pair signals, which are int32 [T, M] rows of `pairs`
  pairs: np.ndarray  # float32 [Q + 1, P], distinct pairs; the last row is zeros

  @property
  def length(self) -> int:
    """Number of claims T."""
    return len(self.near.claim_id)


def nearest_earlier(embedding: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """The claims before each claim that are most similar to it, nearest first.

  Ties go to the earlier claim. Similarity is the product of the vectors, as in `moments.py`.

  Args:
    embedding: float32 [T, D], unit norm.
    width: M.

  Returns:
    (neighbours int32 [T, M], similarity float32 [T, M], beyond float32 [T]): claim ids with
    NO_CLAIM and -inf where there are fewer, and the similarity of the next, -inf if none.
  """
  number = len(embedding)
  neighbours = np.full((number, width), NO_CLAIM, np.int32)
  similarity = np.full((number, width), -np.inf, np.float32)
  beyond = np.full(number, -np.inf, np.float32)
  for start in range(0, number, _BLOCK):
    block = embedding[start : start + _BLOCK] @ embedding.T
    for step, row in enumerate(block, start):
      order = _nearest(row[:step], width + 1)
      kept = order[:width]
      neighbours[step, : len(kept)] = kept
      similarity[step, : len(kept)] = row[kept]
      if len(order) > width:
        beyond[step] = row[order[width]]
  return neighbours, similarity, beyond


def _nearest(similarity: np.ndarray, number: int) -> np.ndarray:
  """The stable argsort of `-similarity`, cut to `number`; only what comes in is sorted."""
  distance = -similarity
  if len(distance) > number:
    within = np.flatnonzero(distance <= np.partition(distance, number - 1)[number - 1])
  else:
    within = np.arange(len(distance))
  return within[np.argsort(distance[within], kind="stable")][:number]


def build_table(
  stream: Stream, texts: Texts, interaction: PairSignals, width: int = WIDTH
) -> NeighbourTable:
  """Neighbours and features of a stream; nothing here depends on gold.

  Args:
    stream: T claims.
    texts: holds every text of the stream.
    interaction: as for `examples.featurize`.
    width: M, at least the number of visible entries.
  """
  claims = stream.claims
  parsed = {text: lexical.parse(text) for text in {claim.text for claim in claims}}
  embedding = texts.encoding.sentence[[texts.row[claim.text] for claim in claims]]
  neighbours, similarity, beyond = nearest_earlier(embedding, width)
  rows, names = _distinct_pairs(claims, neighbours)
  signals = pair_table(names, parsed, texts, interaction)
  return NeighbourTable(
    claims=ClaimFeatures(
      embedding=embedding,
      signals=np.stack([lexical.claim_signals(parsed[claim.text]) for claim in claims]),
      source=np.array([source_signals(claim) for claim in claims], np.float32),
    ),
    near=Look(
      claim_id=np.arange(len(claims), dtype=np.int32),
      step=np.arange(len(claims), dtype=np.int32),
      neighbours=neighbours,
      similarity=similarity,
      beyond=beyond,
      pair_signals=rows,
      time_signals=_of_pairs(claims, neighbours, time_signals, len(TIME_SIGNALS)),
      pair_source=_of_pairs(claims, neighbours, pair_source_signals, len(PAIR_SOURCE_SIGNALS)),
    ),
    pairs=np.concatenate([signals, np.zeros((1, signals.shape[1]), np.float32)]),
  )


def _distinct_pairs(
  claims: Sequence[Claim], neighbours: np.ndarray
) -> tuple[np.ndarray, list[tuple[str, str]]]:
  """Row of each pair int32 [T, M], and the distinct (candidate, entry) texts of the rows."""
  place: dict[tuple[str, str], int] = {}
  rows = np.full(neighbours.shape, -1, np.int32)
  for i, j in np.argwhere(neighbours != NO_CLAIM):
    names = (claims[i].text, claims[neighbours[i, j]].text)
    rows[i, j] = place.setdefault(names, len(place))
  rows[rows < 0] = len(place)  # the row of zeros
  return rows, list(place)


def _of_pairs(claims: Sequence[Claim], neighbours: np.ndarray, signals, number: int) -> np.ndarray:
  """`signals(candidate, entry)` of each pair, float32 [T, M, number]; zeros where none is."""
  found = np.zeros((*neighbours.shape, number), np.float32)
  for i, j in np.argwhere(neighbours != NO_CLAIM):
    found[i, j] = signals(claims[i], claims[neighbours[i, j]])
  return found


def _nothing(table: NeighbourTable) -> Look:
  """What padding holds, by field; the signals of its pairs are the row of zeros."""
  return Look(NO_CLAIM, 0, NO_CLAIM, -np.inf, -np.inf, len(table.pairs) - 1, 0, 0)


def stack_claims(tables: Sequence[NeighbourTable], num_claims: int) -> ClaimFeatures:
  """Features of several streams' claims, leaves [B, N, ...] padded with zeros to N claims."""

  def padded(leaf: np.ndarray) -> np.ndarray:
    return np.pad(leaf, [(0, num_claims - len(leaf))] + [(0, 0)] * (leaf.ndim - 1))

  return jax.tree.map(
    lambda *leaves: np.stack([padded(leaf) for leaf in leaves]), *[table.claims for table in tables]
  )


def chunks(tables: Sequence[NeighbourTable], size: int) -> Iterator[Look]:
  """The steps of several streams side by side, `size` at a time; leaves [B, size, ...].

  Streams that end early, and the last chunk, are padded with steps without a claim.
  """
  longest = max(table.length for table in tables)
  for start in range(0, longest, size):
    parts = [_piece(table, start, size) for table in tables]
    yield jax.tree.map(lambda *leaves: np.stack(leaves), *parts)


def _piece(table: NeighbourTable, start: int, size: int) -> Look:
  """Steps `start` to `start + size` of one stream, padded; leaves [size, ...]."""

  def padded(leaf: np.ndarray, nothing: float) -> np.ndarray:
    part = leaf[start : start + size]
    missing = [(0, size - len(part))] + [(0, 0)] * (part.ndim - 1)
    return np.pad(part, missing, constant_values=nothing)

  look = jax.tree.map(padded, table.near, _nothing(table))
  return look._replace(
    step=np.arange(start, start + size, dtype=np.int32),
    pair_signals=table.pairs[look.pair_signals],
  )
