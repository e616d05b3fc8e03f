"""The five evaluation settings: which decisions of which streams train, validate and test.

Owns the settings of DATA.md, "Splits and audits"; one function gives each. Which person is
held out is decided in `splits.py`, what repeats a text in `duplicates.py`; whoever makes
several settings of the same streams passes one `find_duplicates(streams)` to all.
"""

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tarl_jax.data.duplicates import Duplicates
from tarl_jax.data.linking import plain
from tarl_jax.data.moments import Moment
from tarl_jax.data.record import Claim, Stream
from tarl_jax.data.splits import split_streams
from tarl_jax.errors import InputError

SPLITS = ("train", "val", "test")
TRAIN_UNTIL = 0.6  # temporal: share of a stream's steps that train
TEST_FROM = 0.7  # temporal: what lies between validates
SEQUENTIAL_ONLY = "factconsolidation"  # its whole streams are tested on and never trained on
_GENERATED = "generated"


class Part(NamedTuple):
  """A stream and which of its steps are examples; None for every step.

  The state is always rolled out over the whole stream by gold, whatever `steps` says.
  """

  stream: Stream
  steps: tuple[int, ...] | None = None

  @property
  def kept(self) -> Sequence[int]:
    """The steps that are examples, ascending."""
    return range(len(self.stream.claims)) if self.steps is None else self.steps

  @property
  def examples(self) -> list[Claim]:
    """The claims at those steps."""
    return [self.stream.claims[step] for step in self.kept]


Parts = dict[str, list[Part]]


def select(moments: Iterable[Moment], parts: Sequence[Part]) -> list[Moment]:
  """The moments at the steps that are examples.

  Args:
    moments: of `stream_moments([part.stream for part in parts], ...)`.
    parts: of one split.
  """
  kept = [frozenset(part.kept) for part in parts]
  return [moment for moment in moments if moment.step in kept[moment.stream]]


def find_duplicates(streams: Iterable[Stream]) -> Duplicates:
  """Which texts of the streams repeat each other."""
  return Duplicates(claim.text for stream in streams for claim in stream.claims)


def which_count(parts: Sequence[Part]) -> np.ndarray:
  """bool [E]: of all steps of all streams in order, those that are examples."""
  masks = [np.zeros(len(part.stream.claims), bool) for part in parts]
  for mask, part in zip(masks, parts):
    mask[list(part.kept)] = True
  return np.concatenate(masks)


def in_domain(streams: Sequence[Stream], duplicates: Duplicates | None = None) -> Parts:
  """Splits by person; people who share a `gold.group` stay together.

  Generated streams go where they were made for, which their ids say. A training step whose
  text repeats one of validation or test is no example, and no validation step whose text
  repeats one of test (`duplicates.Duplicates`).

  Raises:
    InputError: if no source has enough people for a test split.
  """
  return without_duplicates(_by_person(streams), duplicates or find_duplicates(streams))


def _by_person(streams: Sequence[Stream]) -> Parts:
  parts: Parts = {name: [] for name in SPLITS}
  given = [stream for stream in streams if _made_for(stream) is None]
  if given:
    together = _people_together(given)
    renamed = [
      dataclasses.replace(stream, person=together[stream.person], stream_id=str(i))
      for i, stream in enumerate(given)
    ]
    for name, found in split_streams(renamed).items():
      parts[name] += [Part(given[int(stream.stream_id)]) for stream in found]
  for stream in streams:
    split = _made_for(stream)
    if split is not None:
      parts[split].append(Part(stream))
  return parts


def _made_for(stream: Stream) -> str | None:
  """The split that a generated stream was made for ("generated-test-0-7")."""
  made_by, _, rest = stream.stream_id.partition("-")
  split = rest.partition("-")[0]
  return split if made_by == _GENERATED and split in SPLITS else None


def _people_together(streams: Sequence[Stream]) -> dict[str, str]:
  """One name for all people who share a group, by person."""
  root = {stream.person: stream.person for stream in streams}

  def find(person: str) -> str:
    while root[person] != person:
      person = root[person]
    return person

  first: dict[str, str] = {}
  for stream in streams:
    for group in groups_of(stream.claims):
      one, other = find(first.setdefault(group, stream.person)), find(stream.person)
      root[max(one, other)] = min(one, other)
  return {person: find(person) for person in root}


def groups_of(claims: Iterable[Claim]) -> set[str]:
  """The groups of minimal pairs that occur in the claims."""
  return {claim.gold.group for claim in claims if claim.gold is not None and claim.gold.group}


def without_duplicates(parts: Mapping[str, list[Part]], duplicates: Duplicates) -> Parts:
  """The same without the steps whose text repeats one of a later split, in order of SPLITS."""
  clean: Parts = {"test": list(parts["test"])}
  later = texts_of(parts["test"])
  for name in ("val", "train"):
    repeats = duplicates.among(texts_of(parts[name]), later)
    clean[name] = _keep(parts[name], lambda claim, repeats=repeats: claim.text not in repeats)
    later |= texts_of(clean[name])
  return {name: clean[name] for name in SPLITS}


def texts_of(parts: Iterable[Part]) -> set[str]:
  """The distinct texts of the examples."""
  return {claim.text for part in parts for claim in part.examples}


def _keep(parts: Iterable[Part], wanted) -> list[Part]:
  """The parts with the steps whose claim is `wanted`; those without any are left out."""
  kept = []
  for part in parts:
    steps = tuple(step for step in part.kept if wanted(part.stream.claims[step]))
    if len(steps) == len(part.kept):
      kept.append(part)
    elif steps:
      kept.append(Part(part.stream, steps))
  return kept


def cross_source(
  streams: Sequence[Stream], held_out: str, duplicates: Duplicates | None = None
) -> Parts:
  """Trains and validates on the other sources, tests on the held-out one.

  The test people are those of `in_domain`, or all of the held-out source where it has none
  there; nobody of them is trained on in another source.

  Raises:
    InputError: if `held_out` is no source of the streams, or there is no other.
  """
  names = sorted({stream.source for stream in streams})
  if held_out not in names or len(names) < 2:
    raise InputError(
      f"cross-source: '{held_out}' cannot be held out of {', '.join(names) or 'no source'}; "
      "give at least two sources and name one of them."
    )
  parts = _by_person(streams)
  test = [part for part in parts["test"] if part.stream.source == held_out]
  if not test:
    test = [Part(stream) for stream in streams if stream.source == held_out]
  people = {part.stream.person for part in test}
  groups = groups_of(claim for part in test for claim in part.examples)

  def others(name: str) -> list[Part]:
    rest = [part for part in parts[name] if part.stream.source != held_out]
    rest = [part for part in rest if part.stream.person not in people]
    return [part for part in rest if not groups & groups_of(part.stream.claims)]

  split = {"train": others("train"), "val": others("val"), "test": test}
  return without_duplicates(split, duplicates or find_duplicates(streams))


def temporal(streams: Sequence[Stream], duplicates: Duplicates | None = None) -> Parts:
  """The first steps of every stream train, the next validate, the last test.

  A step after a cut whose group one of the same person's streams tells before that cut is
  left out: a pair of texts is on one side. Texts repeat across splits as in `in_domain`.
  """
  told: dict[str, dict[str, set[str]]] = {name: {} for name in SPLITS}  # groups by person
  slices: Parts = {name: [] for name in SPLITS}
  for stream in streams:
    size = len(stream.claims)
    cuts = (0, int(TRAIN_UNTIL * size), int(TEST_FROM * size), size)
    for name, start, end in zip(SPLITS, cuts, cuts[1:]):
      if start < end:
        part = Part(stream, tuple(range(start, end)))
        slices[name].append(part)
        told[name].setdefault(stream.person, set()).update(groups_of(part.examples))
  parts: Parts = {"train": slices["train"]}
  for name, earlier in (("val", ("train",)), ("test", ("train", "val"))):
    parts[name] = [
      kept
      for part in slices[name]
      for kept in _keep([part], _outside(told, earlier, part.stream.person))
    ]
  return without_duplicates(parts, duplicates or find_duplicates(streams))


def _outside(told: Mapping[str, Mapping[str, set[str]]], earlier: Iterable[str], person: str):
  """Whether a claim's group is in none of the earlier slices of the person."""
  groups = set().union(*(told[name].get(person, set()) for name in earlier))
  return lambda claim: claim.gold is None or claim.gold.group not in groups


def counterfactual(streams: Sequence[Stream], duplicates: Duplicates | None = None) -> Parts:
  """`in_domain`, tested on minimal pairs alone.

  Those are the constructed examples of groups of which one stream tells one text with at
  least two gold actions: the same words to the same memory at another moment, by another
  source or of another time. The claim of the source's own that opens such a group is none.
  """
  parts = in_domain(streams, duplicates)
  test = [kept for part in parts["test"] for kept in _keep([part], _in_pairs(part))]
  return {**parts, "test": test}


def _in_pairs(part: Part):
  """Whether a claim is constructed and its group has one text with several gold actions."""
  actions: dict[tuple[str, str], set[int]] = collections.defaultdict(set)
  for claim in part.examples:
    if claim.gold is not None and claim.gold.group:
      actions[claim.gold.group, plain(claim.text)].add(claim.gold.action)
  pairs = {group for (group, _), found in actions.items() if len(found) > 1}

  def in_pair(claim: Claim) -> bool:
    gold = claim.gold
    return gold is not None and gold.provenance == "constructed" and gold.group in pairs

  return in_pair


def sequential(streams: Sequence[Stream]) -> Parts:
  """Whole streams, every step an example, split by person as in `in_domain`.

  Streams of SEQUENTIAL_ONLY are given whole (not by subject) and all go to test. Nothing is
  left out for its text: a memory is judged over all that it was told.
  """
  others = [stream for stream in streams if stream.source != SEQUENTIAL_ONLY]
  whole = [Part(stream) for stream in streams if stream.source == SEQUENTIAL_ONLY]
  parts = _by_person(others)
  return {**parts, "test": parts["test"] + whole}
