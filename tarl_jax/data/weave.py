"""Streams of one person: what the source annotates, with scenes woven in or alone.

Owns which pairs may be told in one stream (none may resemble another text of it), the order
of arrival and the final ids. Knows neither file formats nor labels.
"""

import collections
import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tarl_jax.data.construct import Draft, Pair, People, Scene, Tally, seeded
from tarl_jax.data.linking import SAME_THING, Overlap
from tarl_jax.data.record import Stream, check_executable

MAX_CLAIMS = 700  # a stream
MAX_SCENES = 110  # a stream without background
MIN_SCENES = 12  # fewer are no further stream
STEPS = (4, 7)  # claims a scene, the end exclusive
_SPACING = 5 * 24 * 60  # minutes between the starts of scenes that stand alone, in the mean


class Anchor(NamedTuple):
  """A pair whose text `which` is told by the background claim `key`."""

  pair: Pair
  key: str
  which: int


class Person(NamedTuple):
  """All that is known of one person or conversation before weaving."""

  person: str
  source: str  # the dataset
  background: list[Draft]
  anchors: list[Anchor]
  pairs: list[Pair]
  overlap: Overlap
  people_of: Callable[[str], People]  # by subject
  rounds: int = 1  # how often each pair is told in a stream of scenes


def weave(person: Person, skips: collections.Counter[str]) -> list[Stream]:
  """The person's streams: one with the source's own claims, the others of scenes alone.

  Counts under "pair resembles another text" what no stream could take.
  """
  streams = [_with_background(person)]
  for turn in range(person.rounds):
    order = _shuffled(person, f"pairs {turn}", len(person.pairs))
    waiting = [person.pairs[i] for i in order]
    left = len(waiting)
    while waiting:
      told, waiting = _take_unrelated(waiting, person.overlap)
      if len(told) < MIN_SCENES and len(told) + len(waiting) < left:
        skips["pair resembles another text"] += len(told) + len(waiting)
        break
      streams.append(_scenes_alone(person, told, len(streams)))
  return streams


def _shuffled(person: Person, what: str, size: int) -> list[int]:
  return [int(i) for i in seeded(what, person.source, person.person).permutation(size)]


def _with_background(person: Person) -> Stream:
  drafts = list(person.background)
  by_key = {draft.claim.id: draft.claim for draft in drafts}
  texts = [draft.claim.text for draft in drafts]
  tally = Tally.of(drafts)
  for i in _shuffled(person, "anchors", len(person.anchors)):
    anchor = person.anchors[i]
    if len(drafts) + STEPS[1] > MAX_CLAIMS:
      break
    own = {by_key[anchor.key].text, *anchor.pair.restated[anchor.which]}
    if _related(anchor.pair, [text for text in texts if text not in own], person.overlap):
      continue
    key = f"{person.source}/{person.person}/anchored/{i}"
    scene = Scene(anchor.pair, person.people_of(anchor.pair.subject), tally, key=key)
    scene.adopt(by_key[anchor.key], anchor.which)
    drafts += scene.play(int(seeded("steps", key).integers(*STEPS)))
    texts += anchor.pair.texts
  return finish_stream(f"{person.source}:{person.person}:0", person, drafts)


def _scenes_alone(person: Person, pairs: list[Pair], number: int) -> Stream:
  drafts: list[Draft] = []
  tally = Tally.of()
  # The scenes run side by side, after all that their texts tell of: far apart, the first claim of
  # a scene would be known by its time alone.
  latest = max(pair.time for pair in pairs)
  for pair in pairs:
    key = f"{person.source}/{person.person}/scene/{number}/{pair.group}"
    start = latest + int(seeded("start", key).integers(_SPACING * len(pairs)))
    scene = Scene(pair._replace(time=start), person.people_of(pair.subject), tally, key=key)
    drafts += scene.play(int(seeded("steps", key).integers(*STEPS)))
  return finish_stream(f"{person.source}:{person.person}:{number}", person, drafts)


def _related(pair: Pair, texts: Sequence[str], overlap: Overlap) -> bool:
  return bool(texts) and any((overlap.with_all(t, texts) >= SAME_THING).any() for t in pair.texts)


def _take_unrelated(pairs: list[Pair], overlap: Overlap) -> tuple[list[Pair], list[Pair]]:
  """Pairs that can stand in one stream, and the rest."""
  told: list[Pair] = []
  rest: list[Pair] = []
  texts: list[str] = []
  for pair in pairs:
    if len(told) == MAX_SCENES or _related(pair, texts, overlap):
      rest.append(pair)
    else:
      told.append(pair)
      texts += pair.texts
  return told, rest


def finish_stream(stream_id: str, person: Person, drafts: Sequence[Draft]) -> Stream:
  """The drafts in order of arrival (ties keep their order), with ids that tell nothing.

  Raises:
    InputError: where a gold transaction could not be executed.
  """
  ordered = sorted(drafts, key=lambda draft: draft.arrival)
  names = {draft.claim.id: f"{stream_id}:{i}" for i, draft in enumerate(ordered)}
  claims = []
  for draft in ordered:
    gold = draft.claim.gold
    assert gold is not None
    gold = dataclasses.replace(
      gold,
      target=None if gold.target is None else names[gold.target],
      alt_targets=tuple(names[target] for target in gold.alt_targets),
      resolves=None if gold.resolves is None else names[gold.resolves],
    )
    claims.append(dataclasses.replace(draft.claim, id=names[draft.claim.id], gold=gold))
  stream = Stream(
    stream_id=stream_id, source=person.source, claims=tuple(claims), person=person.person
  )
  check_executable(stream)
  return stream
