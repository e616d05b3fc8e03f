"""Hand-made streams for tests of moments, examples and judging; the content is invented."""

import dataclasses
import random

import numpy as np

from tarl_jax.data.examples import Texts
from tarl_jax.data.record import Claim, Gold, Stream
from tarl_jax.models.encoder import TextEncoding
from tarl_jax.types import OUTCOMES, Action


def claim(name: str, action: Action | None = None, target: str | None = None, **fields) -> Claim:
  """A claim whose text is its name; gold fields are given as `gold_...`."""
  gold_fields = {k.removeprefix("gold_"): v for k, v in fields.items() if k.startswith("gold_")}
  own = {k: v for k, v in fields.items() if not k.startswith("gold_")}
  gold = None if action is None else Gold(action=action, target=target, **gold_fields)
  return Claim(id=name, text=own.pop("text", name), gold=gold, **own)


def stream(*claims: Claim, name: str = "s", source: str = "own") -> Stream:
  return Stream(stream_id=name, source=source, claims=claims, person=name)


def with_gold(whole: Stream, position: int, gold: Gold | None) -> Stream:
  """The stream with another gold for one claim."""
  claims = list(whole.claims)
  claims[position] = dataclasses.replace(claims[position], gold=gold)
  return dataclasses.replace(whole, claims=tuple(claims))


def random_stream(seed: int, length: int, name: str = "s") -> Stream:
  """Executable gold of every kind, also about entries in Pending, with further targets and
  Pending claims that are settled."""
  rng = random.Random(seed)
  accepted: list[str] = []
  pending: list[str] = []
  claims: list[Claim] = []
  for number in range(length):
    label = f"{name}{number}"
    action = rng.choice(list(Action)) if accepted else Action.APPEND
    target = None
    if action in (Action.REVISE, Action.REJECT_CONFLICT):
      target = rng.choice(accepted)
    elif action != Action.APPEND and rng.random() < 0.6:
      target = rng.choice(claims).id
    others: tuple[str, ...] = ()
    if target is not None:
      others = tuple(c.id for c in rng.sample(claims, min(2, len(claims))) if c.id != target)
    settled: dict = {}
    enters = action in (Action.APPEND, Action.REVISE)
    if enters and pending and rng.random() < 0.5:
      resolves = pending.pop(rng.randrange(len(pending)))
      settled = {"gold_resolves": resolves, "gold_outcome": rng.choice(list(OUTCOMES))}
    claims.append(claim(label, action, target, gold_alt_targets=others, **settled))
    if action == Action.REVISE:
      accepted.remove(target)
    if enters:
      accepted.append(label)
    if action == Action.DEFER_VERIFY:
      pending.append(label)
  return stream(*claims, name=name)


def vectors_of(*streams: Stream, seed: int = 0) -> dict[str, np.ndarray]:
  """Unit vectors float32 [4] for every text, a text's own whatever the others are."""
  found = {}
  for whole in streams:
    for one in whole.claims:
      vector = np.random.default_rng([seed, *one.text.encode()]).normal(size=4)
      found[one.text] = (vector / np.linalg.norm(vector)).astype(np.float32)
  return found


def texts_of(*streams: Stream) -> Texts:
  """Every text with its vector of `vectors_of`, two random token states and no idf table."""
  vectors = vectors_of(*streams)
  rng = np.random.default_rng(1)
  encoding = TextEncoding(
    sentence=np.stack(list(vectors.values())),
    tokens=rng.normal(size=(len(vectors), 2, 3)).astype(np.float16),
    token_mask=np.ones((len(vectors), 2), bool),
  )
  return Texts(row={text: i for i, text in enumerate(vectors)}, encoding=encoding, idf={})


def rows_of_pairs(encoding: TextEncoding, pairs: np.ndarray) -> np.ndarray:
  """Stands in for late interaction: says which two texts were paired, counted from 1."""
  del encoding
  return pairs.astype(np.float32) + 1
