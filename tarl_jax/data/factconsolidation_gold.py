"""What FactConsolidation's facts mean for the memory: slots, labels and shorter streams.

Owns the sentence templates that give a fact its slot and value, the labels, and the division
of one long stream into shorter ones by subject. A later serial number wins: that is the
benchmark's rule, so every label is derived from it. Knows nothing of the file.
"""

import collections
import datetime
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tarl_jax.data.construct import Pair, People, seeded
from tarl_jax.data.jsonl import minutes
from tarl_jax.data.linking import Overlap
from tarl_jax.data.record import Claim, Gold, Stream
from tarl_jax.data.sources import source_info
from tarl_jax.data.weave import Person, weave
from tarl_jax.errors import InputError
from tarl_jax.types import Action

# The file gives no dates. A fact is dated its serial number in minutes after a day that lies
# behind what the facts speak of.
EPOCH = minutes(datetime.datetime(2025, 1, 1))
# The file gives no source either, yet says that a newer fact replaces an older one. In the
# label table only a trusted source can do that: a record that somebody answers for.
SOURCE = "document"
RELIABILITY = source_info(SOURCE).reliability

_VERBS = "|".join(
  (
    r"(?:was born|died|worked|was founded) in the city of",
    r"was (?:founded|developed|created|performed) by",
    r"was created in the country of",
    r"was written in the language of",
    r"is located in the continent of",
    r"is associated with the sport of",
    r"is affiliated with the religion of",
    r"is a citizen of",
    r"is married to",
    r"is employed by",
    r"is famous for",
    r"plays the position of",
    r"speaks the language of",
    r"works in the field of",
  )
)
_SUBJECT, _VALUE = "(?P<subject>.+)", "(?P<value>.+)"
# The first that fits decides, so narrow ones stand before wide ones. A subject before " is "
# reaches as far as it can, as titles hold that word more often than values do.
_TEMPLATES = tuple(
  re.compile(template)
  for template in (
    rf"(?P<subject>.+?) (?P<relation>{_VERBS}) {_VALUE}",
    rf"{_SUBJECT}'s (?P<relation>child) is {_VALUE}",
    # The release spells the next one wrongly, other copies may not.
    rf"The (?P<relation>univer\w+) where {_SUBJECT} was educated is {_VALUE}",
    rf"The (?P<relation>company) that produced {_SUBJECT} is {_VALUE}",
    rf"The (?P<relation>type of music) that {_SUBJECT} plays is {_VALUE}",
    rf"The name of the (?P<relation>current head) of the {_SUBJECT} government is {_VALUE}",
    rf"The name of the (?P<relation>current head of state) in {_SUBJECT} is {_VALUE}",
    rf"The (?P<relation>headquarters) of {_SUBJECT} is located in the city of {_VALUE}",
    rf"The (?P<relation>.+?) of {_SUBJECT} is {_VALUE}",
    rf"The {_SUBJECT} (?P<relation>is) {_VALUE}",  # an office without a place
  )
)


Slot = tuple[str, str]  # subject and relation, in lower case


class Fact(NamedTuple):
  """What a sentence says, in its own spelling without the full stop."""

  subject: str
  relation: str
  value: str

  @property
  def slot(self) -> Slot:
    """Subject and relation, the same for every spelling in upper and lower case."""
    return _key(self.subject), _key(self.relation)

  @property
  def value_key(self) -> str:
    """The value for telling whether two are the same."""
    return _key(self.value)


def _key(text: str) -> str:
  return " ".join(text.casefold().split()).rstrip(". ")


def parse_fact(text: str) -> Fact | None:
  """Subject, relation and value of a sentence, None where no template fits it."""
  for template in _TEMPLATES:
    match = template.fullmatch(text)
    if match:
      fact = Fact(match["subject"], match["relation"], match["value"].removesuffix("."))
      return fact if all(fact.slot) and fact.value_key else None
  return None


def read_gold(stream_id: str, facts: Mapping[int, tuple[str, Fact]]) -> Stream:
  """A stream of sentences and what they say, given by serial number, in that order."""
  live: dict[Slot, tuple[str, str]] = {}  # slot -> claim id, value
  claims = []
  for serial, (text, fact) in sorted(facts.items()):
    name = f"{stream_id}:{serial}"
    target, value = live.get(fact.slot, (None, ""))
    if target is None:
      action, kind = Action.APPEND, "new"
    elif value == fact.value_key:
      action, kind = Action.NOOP, "repeat"
    else:
      action, kind = Action.REVISE, "change"
    if action != Action.NOOP:
      live[fact.slot] = name, fact.value_key
    gold = Gold(
      action=action,
      target=target,
      provenance="derived",
      temporal=action == Action.REVISE,
      group=f"factconsolidation/{_digest(*fact.slot):016x}",
      reliability=RELIABILITY,
      scope="present",
      kind=kind,
    )
    claims.append(
      Claim(name, text, SOURCE, observed_at=EPOCH + serial, subject=fact.subject, gold=gold)
    )
  return Stream(stream_id, "factconsolidation", tuple(claims), "factconsolidation")


def _digest(*parts: str) -> int:
  text = "\x1f".join(parts).encode("utf-8", "surrogatepass")
  return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def by_subject(
  streams: Sequence[Stream],
  parts: int = 20,
  *,
  max_claims: int = 400,
  skips: collections.Counter[str] | None = None,
) -> list[Stream]:
  """The same claims in short streams, disjoint in subject: `person` is a bucket of subjects.

  A subject is in the bucket that its digest names, whatever the context. Each slot is told
  once, from the largest context that holds it: the smaller contexts repeat the larger ones.
  All claims of a slot stay in one stream, so that gold remains executable; order, ids and
  gold are unchanged.

  Args:
    streams: of `load_factconsolidation`.
    parts: number of buckets.
    max_claims: of a stream; only a slot with more claims than this exceeds it.
    skips: takes the number of slots that were left out.

  Raises:
    InputError: where a claim fits no template, or a number is below 1.
  """
  if min(parts, max_claims) < 1:
    raise InputError(f"by_subject: parts is {parts}, max_claims {max_claims}; give 1 or more.")
  told: set[Slot] = set()
  found: list[Stream] = []
  for stream in sorted(streams, key=lambda stream: -len(stream.claims)):
    slots: dict[Slot, list[Claim]] = {}
    for claim in stream.claims:
      slots.setdefault(_slot_of(claim), []).append(claim)
    if skips is not None:
      skips["slot told in a larger context"] += len(told & slots.keys())
    buckets: list[list[list[Claim]]] = [[] for _ in range(parts)]
    for slot, chain in slots.items():
      if slot not in told:
        buckets[_digest(slot[0]) % parts].append(chain)
    told.update(slots)
    for bucket, chains in enumerate(buckets):
      for i, claims in enumerate(_pieces(chains, max_claims)):
        name = f"{stream.stream_id}:{bucket}:{i}"
        found.append(Stream(name, stream.source, claims, f"factconsolidation/{bucket}"))
  return found


def _slot_of(claim: Claim) -> Slot:
  fact = parse_fact(claim.text)
  if fact is None:
    raise InputError(
      f"claim '{claim.id}', field 'text': fits no template; give streams of the "
      "FactConsolidation loader."
    )
  return fact.slot


def _pieces(chains: list[list[Claim]], max_claims: int) -> Iterator[tuple[Claim, ...]]:
  """Claims of whole chains, about equally many in each piece, in order of time."""
  if not chains:
    return
  # A chain goes to the piece with the fewest claims. That has at most the mean, so with room
  # for the longest chain above the mean no piece overflows.
  room = max(1, max_claims + 1 - max(map(len, chains)))
  pieces: list[list[Claim]] = [[] for _ in range(-(-sum(map(len, chains)) // room))]
  for chain in chains:
    min(pieces, key=len).extend(chain)
  for piece in filter(None, pieces):
    yield tuple(sorted(piece, key=lambda claim: claim.observed_at or 0))


def with_scenes(
  streams: Sequence[Stream],
  *,
  max_pairs: int = 60,
  skips: collections.Counter[str] | None = None,
) -> list[Stream]:
  """The streams of `by_subject`, followed by constructed ones about the same changes.

  Of each bucket up to `max_pairs` revised slots are drawn, and both texts of each are told
  by other sources at other times, so that all five actions occur. The new streams have the
  `person` of their bucket and provenance "constructed".
  """
  skips = collections.Counter() if skips is None else skips
  people: dict[str, list[Stream]] = {}
  for stream in streams:
    people.setdefault(stream.person, []).append(stream)
  scenes: list[Stream] = []
  for person, own in people.items():
    pairs = list(_changes(own))
    order = seeded("changes", person).permutation(len(pairs))[:max_pairs]
    pairs = [pairs[i] for i in sorted(map(int, order))]
    overlap = Overlap([text for pair in pairs for text in pair.texts], frozenset())
    alone = Person(person, "factconsolidation", [], [], pairs, overlap, lambda subject: People())
    scenes += weave(alone, skips)[1:]  # the first would hold the background
  return [*streams, *scenes]


def _changes(streams: Iterable[Stream]) -> Iterator[Pair]:
  """The first change of each slot."""
  told = set()
  for stream in streams:
    by_id = {claim.id: claim for claim in stream.claims}
    for claim in stream.claims:
      gold = claim.gold
      if gold is None or gold.action != Action.REVISE or gold.group in told:
        continue
      told.add(gold.group)
      assert gold.target is not None and claim.observed_at is not None
      texts = by_id[gold.target].text, claim.text
      yield Pair(gold.group, texts, claim.subject or "", claim.observed_at, "change")
