"""What is asked of a memory along a stream, and what gold would answer; made on the host.

Owns the topics of a stream, which claims say the same, when gold trusts a claim, which
questions are asked when and what is near to them. Knows no memory: who retrieves and how an
answer is graded is in `together.py`.

A question is about a claim that was told before, its anchor, right or wrong: its text is the
anchor's with words left out, and the right answer is what gold holds on that topic by now.
So some questions recall what is out of date or never was true, and on some topics gold
trusts nothing.

Axis legend: N claims of a stream and its steps, Q questions a step, M claims near a question.
"""

import random
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from tarl_jax.data.record import Claim, Stream
from tarl_jax.errors import InputError
from tarl_jax.models.encoder import Encoder
from tarl_jax.types import NO_CLAIM, Action, Array

NEVER = np.int32(2**31 - 1)  # a step that does not come
NOTHING = np.int32(-1)  # what gold says on a topic on which it trusts no claim


class Facts(NamedTuple):
  """What gold knows of the claims of a stream; NumPy int32 [N] each."""

  topic: np.ndarray  # smallest claim of its topic: claims that gold ties to each other
  saying: np.ndarray  # smallest claim of those that say the same on the topic
  since: np.ndarray  # step after which gold holds it in Accepted; NEVER
  until: np.ndarray  # step after which gold holds it there no more; NEVER


class Questions(NamedTuple):
  """Questions by step, asked after its transaction; NumPy int32 [N, Q] each."""

  anchor: Array  # claim that it is about; NO_CLAIM where nothing can be asked yet
  right: Array  # saying that gold holds on the topic then, NOTHING where it holds none


class Near(NamedTuple):
  """Claims of the whole stream that are near the question about each claim, nearest first."""

  claim_id: np.ndarray  # int32 [N, M], NO_CLAIM where there are fewer
  similarity: np.ndarray  # float32 [N, M], cosine; -inf there


def _places(claims: tuple[Claim, ...]) -> dict[str | None, int]:
  return {claim.id: number for number, claim in enumerate(claims)}


def _join(pairs: Iterable[tuple[int, int]], number: int) -> np.ndarray:
  """int32 [number]: the smallest member of each one's group, where pairs are of one group."""
  root = list(range(number))

  def find(one: int) -> int:
    while root[one] != one:
      root[one] = one = root[root[one]]
    return one

  for one, other in pairs:
    low, high = sorted((find(one), find(other)))
    root[high] = low
  return np.array([find(one) for one in range(number)], np.int32)


def read_facts(stream: Stream) -> Facts:
  """Topics, sayings and trust, all from gold.

  Claims are of one topic if one is the target of the other or settles it. Two claims of a
  topic say the same if their texts are equal, the later repeats the earlier (noop) or
  confirms it.

  Raises:
    InputError: if a claim has no gold.
  """
  claims, place = stream.claims, _places(stream.claims)
  number, ties, same = len(claims), [], []
  since, until = np.full(number, NEVER), np.full(number, NEVER)
  for step, claim in enumerate(claims):
    gold = claim.gold
    if gold is None:
      raise InputError(f"stream {stream.stream_id}, claim '{claim.id}' has no gold; it is needed.")
    ties += [(step, place[name]) for name in (gold.target, gold.resolves) if name is not None]
    if gold.action == Action.NOOP and gold.target is not None:
      same.append((step, place[gold.target]))
    if gold.outcome == "confirmed":
      same.append((step, place[gold.resolves]))
    if gold.action == Action.REVISE:
      until[place[gold.target]] = step
    if gold.action in (Action.APPEND, Action.REVISE):
      since[step] = step
  topic = _join(ties, number)
  first: dict[tuple[int, str], int] = {}
  for step, claim in enumerate(claims):
    same.append((step, first.setdefault((int(topic[step]), claim.text), step)))
  return Facts(topic, _join(same, number), since, until)


def draw_questions(seed: int, stream: Stream, facts: Facts, number: int) -> Questions:
  """`number` questions after each step, by `seed`.

  The anchor is any claim so far that states something (gold scope is not "none"), all alike.
  """
  rng = np.random.default_rng(seed)
  told: list[int] = []
  said: dict[int, int] = {}  # by topic what gold holds; a revise replaces it
  anchor = np.full((len(stream.claims), number), NO_CLAIM, np.int32)
  right = np.full_like(anchor, NOTHING)
  for step, claim in enumerate(stream.claims):
    if claim.gold is not None and claim.gold.scope != "none":
      told.append(step)
    if facts.since[step] == step:
      said[int(facts.topic[step])] = int(facts.saying[step])
    share = rng.random(number)
    if told:
      anchor[step] = np.array(told)[(share * len(told)).astype(int)]
      right[step] = [said.get(int(facts.topic[one]), NOTHING) for one in anchor[step]]
  return Questions(anchor, right)


def question_texts(seed: int, stream: Stream, left_out: float) -> list[str]:
  """The question about each claim: its text without a share of its words, at least one left."""
  rng, texts = random.Random(seed), []
  for claim in stream.claims:
    words = claim.text.split()
    kept = [word for word in words if rng.random() >= left_out]
    texts.append(" ".join(kept or words))
  return texts


def find_near(stream: Stream, questions: list[str], encoder: Encoder, width: int) -> Near:
  """The `width` claims nearest to each question; ties go to the earlier claim."""
  claims = encoder.encode([claim.text for claim in stream.claims]).sentence
  similarity = encoder.encode(questions).sentence @ claims.T
  order = np.argsort(-similarity, axis=1, kind="stable")[:, :width]
  missing = ((0, 0), (0, width - order.shape[1]))
  found = np.take_along_axis(similarity, order, axis=1).astype(np.float32)
  return Near(
    np.pad(order.astype(np.int32), missing, constant_values=NO_CLAIM),
    np.pad(found, missing, constant_values=-np.inf),
  )
