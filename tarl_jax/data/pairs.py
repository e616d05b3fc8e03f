"""Pairs of texts with what is known of their relation, for the cross-encoder.

Owns which pairs of a decision teach or are scored, which relations each may have, whose group
a text is in, and the columns that scores become. Knows arrays and gold, no model.

A pair is (candidate, entry). Its relation is that of `losses.relation_loss`, as a *set* where
a source cannot tell the classes apart:

  named by gold as a duplicate (noop), or Pending and confirmed     {same}
  named by gold for any other action, or Pending and contradicted   {other value}
  ... by an enrichment, or by a claim about one of two namesakes    {same, other value}
  not named, on the candidate's slot by earlier golds               {same, other value}
  not named, in its group, it or the entry that gold names Pending  anything: left out
  else                                                              {unrelated}

The last but one: gold names one entry, and what waits in Pending is seldom it.
"""

import collections
import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from tarl_jax.data.label_audit import KINDS
from tarl_jax.data.label_table import Relation
from tarl_jax.data.moments import Moment
from tarl_jax.data.record import Claim, Gold, Stream
from tarl_jax.inputs import PolicyInputs
from tarl_jax.models.policy import NUM_RELATIONS, RELATIONS
from tarl_jax.types import Action

CROSS_SIGNALS = (*(f"cross_{name}" for name in RELATIONS), "cross_scored")
UNRELATED, SAME, OTHER = range(NUM_RELATIONS)
_LEAST = -10.0  # of a log-probability as a signal

Texts = tuple[str, str]  # (candidate, entry)


@dataclasses.dataclass(frozen=True)
class Pairs:
  """M distinct pairs of texts.

  `num_contradictory` pairs were left out: told of several relations that exclude each other,
  so that their texts alone do not say which.
  """

  texts: tuple[Texts, ...]
  allowed: np.ndarray  # bool [M, R], the relations of RELATIONS that may be right
  sources: tuple[str, ...]  # of the first stream that tells the pair
  num_contradictory: int = 0

  def take(self, rows: np.ndarray) -> "Pairs":
    """The given rows."""
    kept = [int(row) for row in rows]
    return Pairs(
      texts=tuple(self.texts[row] for row in kept),
      allowed=self.allowed[kept],
      sources=tuple(self.sources[row] for row in kept),
    )


def find_slots(stream: Stream) -> dict[str, str]:
  """By claim id, the first claim of the same slot, as far as gold targets tell."""
  slot: dict[str, str] = {}
  for claim in stream.claims:
    gold = claim.gold
    if gold is None or gold.target is None or _is_ambiguous(gold):
      slot[claim.id] = claim.id
    else:
      slot[claim.id] = slot[gold.target]
  return slot


def _is_ambiguous(gold: Gold) -> bool:
  kind = KINDS.get(gold.kind)
  return kind is not None and kind.relation == Relation.AMBIGUOUS


def _is_loose(gold: Gold) -> bool:
  """Whether the entry that gold names may hold the same value or another."""
  kind = KINDS.get(gold.kind)
  return _is_ambiguous(gold) or (kind is not None and kind.adds)


def allowed_relations(moment: Moment, slot: Mapping[str, str]) -> np.ndarray:
  """Relations that each visible entry may have to the candidate, bool [v, R]; see above.

  Args:
    moment: a decision with gold.
    slot: `find_slots` of its stream.
  """
  gold, number = moment.gold, len(moment.entries)
  assert gold is not None
  allowed = np.zeros((number, NUM_RELATIONS), bool)
  names_pending = any(position >= moment.num_accepted for position in moment.targets)
  for position, entry in enumerate(moment.entries):
    waits = position >= moment.num_accepted or names_pending
    group = entry.gold.group if entry.gold is not None else ""
    if position == moment.resolves:
      which = [SAME if gold.outcome == "confirmed" else OTHER]
    elif position in moment.targets and _is_loose(gold):
      which = [SAME, OTHER]
    elif position in moment.targets:
      which = [SAME if gold.action == Action.NOOP else OTHER]
    elif slot[entry.id] == slot[moment.candidate.id]:
      which = [SAME, OTHER]
    elif waits and group and group == gold.group:
      which = [UNRELATED, SAME, OTHER]
    else:
      which = [UNRELATED]
    allowed[position, which] = True
  return allowed


def nearest_entries(inputs: PolicyInputs, number: int) -> np.ndarray:
  """Which visible entries are the `number` most similar to the candidate, bool [E, V].

  Args:
    inputs: leading axis [E]; sentence vectors and `num_visible` are read.
    number: at most so many a decision; of equals the lower position.
  """
  similarity = np.einsum("evd,ed->ev", inputs.entries, inputs.candidate)
  places = np.arange(similarity.shape[1])
  visible = places[None, :] < np.asarray(inputs.num_visible)[:, None]
  order = np.argsort(np.where(visible, -similarity, np.inf), axis=1, kind="stable")
  rank = np.argsort(order, axis=1, kind="stable")
  return visible & (rank < number)


def make_pairs(
  moments: Sequence[Moment], inputs: PolicyInputs, streams: Sequence[Stream], number: int
) -> Pairs:
  """Pairs that teach: of each decision the entries that gold names, then the nearest others.

  Decisions without gold, or whose gold target is out of sight, teach nothing. A pair that is
  told more than once keeps the relations that all allow; where none is left it is dropped.

  Args:
    moments: examples of one split.
    inputs: theirs, leading axis [E].
    streams: that `Moment.stream` counts.
    number: pairs of a decision, at most.
  """
  slots = [find_slots(stream) for stream in streams]
  nearest = nearest_entries(inputs, number)
  found: dict[Texts, np.ndarray] = {}
  sources: dict[Texts, str] = {}
  for e, moment in enumerate(moments):
    gold = moment.gold
    if gold is None or (gold.target is not None and not moment.targets):
      continue
    allowed = allowed_relations(moment, slots[moment.stream])
    for position in _chosen(allowed, nearest[e], number):
      texts = (moment.candidate.text, moment.entries[position].text)
      found[texts] = found.get(texts, True) & allowed[position]
      sources.setdefault(texts, streams[moment.stream].source)
  kept = [texts for texts, allowed in found.items() if allowed.any()]
  table = np.array([found[texts] for texts in kept], bool).reshape(-1, NUM_RELATIONS)
  which = tuple(sources[texts] for texts in kept)
  return Pairs(tuple(kept), table, which, len(found) - len(kept))


def _chosen(allowed: np.ndarray, nearest: np.ndarray, number: int) -> list[int]:
  """At most `number` positions: those known to be related, then the nearest unrelated."""
  related = np.flatnonzero(~allowed[:, UNRELATED])
  others = np.flatnonzero(nearest[: len(allowed)] & allowed[:, UNRELATED] & ~allowed[:, SAME])
  return [int(position) for position in [*related, *others][:number]]


def choose(pairs: Pairs, number: int, seed: int) -> np.ndarray:
  """At most `number` rows to fine-tune on, int [n] ascending; a function of pairs and seed.

  Sources take turns, and of each source its relations, so that a small source and a rare
  relation are seen whole before a large one is seen often.
  """
  rng = np.random.default_rng(seed)
  queues: dict[str, dict[bytes, list[int]]] = {}
  for row in rng.permutation(len(pairs.texts)):
    by_relation = queues.setdefault(pairs.sources[row], {})
    by_relation.setdefault(pairs.allowed[row].tobytes(), []).append(int(row))
  rows: list[int] = []
  while queues and len(rows) < number:
    for source in sorted(queues):
      by_relation = queues[source]
      for relation in sorted(by_relation):
        rows.append(by_relation[relation].pop())
      queues[source] = {name: queue for name, queue in by_relation.items() if queue}
    queues = {source: queue for source, queue in queues.items() if queue}
  return np.sort(np.array(rows[:number], np.int64))


def groups_of_texts(claims: Iterable[tuple[str, Claim]]) -> dict[str, str]:
  """Whose group each text is in, for cross-fitting; equal texts are always in one.

  A claim belongs to its person, but to its `gold.group` where several people tell of that, as
  generated people share facts. A text that is told in more than one such place is a group of
  its own.

  Args:
    claims: (person, claim) of one split.
  """
  tellers: dict[str, set[str]] = collections.defaultdict(set)
  told = list(claims)
  for person, claim in told:
    if claim.gold is not None and claim.gold.group:
      tellers[claim.gold.group].add(person)
  places: dict[str, set[str]] = collections.defaultdict(set)
  for person, claim in told:
    group = claim.gold.group if claim.gold is not None else ""
    shared = len(tellers.get(group, ())) > 1
    places[claim.text].add(f"group {group}" if shared else f"person {person}")
  return {
    text: where.pop() if len(where) == 1 else f"text {text}" for text, where in places.items()
  }


def assign_folds(pairs: Pairs, group_of: Mapping[str, str], num_folds: int) -> dict[str, int]:
  """The fold of each candidate text, by groups; folds are balanced within every source."""
  sizes: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
  placed: dict[str, str] = {}  # group -> the source that counts it
  for (candidate, _), source in zip(pairs.texts, pairs.sources):
    group = group_of[candidate]
    sizes[placed.setdefault(group, source)][group] += 1
  fold_of: dict[str, int] = {}
  for source in sorted(sizes):
    loads = [0] * num_folds
    for group in sorted(sizes[source], key=lambda g: (-sizes[source][g], _digest(g))):
      fold = loads.index(min(loads))
      loads[fold] += sizes[source][group]
      fold_of[group] = fold
  return {text: fold_of[group] for text, group in group_of.items() if group in fold_of}


def _digest(group: str) -> bytes:
  return hashlib.blake2b(group.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def with_cross_signals(
  inputs: PolicyInputs,
  moments: Sequence[Moment],
  number: int,
  score: Callable[[Sequence[Texts]], np.ndarray],
) -> PolicyInputs:
  """`inputs` with CROSS_SIGNALS behind its pair signals; all else is unchanged.

  The `number` nearest entries of each decision are scored. The others say so by
  `cross_scored` 0 and log-probabilities 0; nothing here depends on gold.

  Args:
    inputs: of the moments, leading axis [E].
    moments: their texts.
    number: entries of a decision that are scored.
    score: distinct pairs -> log-probabilities, float32 [Q, R].
  """
  e, v = np.nonzero(nearest_entries(inputs, number))
  places = list(zip(e.tolist(), v.tolist()))
  texts = [(moments[i].candidate.text, moments[i].entries[j].text) for i, j in places]
  row = {pair: place for place, pair in enumerate(dict.fromkeys(texts))}
  scores = score(list(row))
  assert scores.shape == (len(row), NUM_RELATIONS), scores.shape
  columns = np.zeros((*inputs.pair_signals.shape[:2], len(CROSS_SIGNALS)), np.float32)
  if texts:
    columns[e, v, :-1] = np.maximum(scores, _LEAST)[[row[pair] for pair in texts]]
    columns[e, v, -1] = 1.0
  return inputs._replace(pair_signals=np.concatenate([inputs.pair_signals, columns], axis=-1))
