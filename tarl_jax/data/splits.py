"""Train, validation and test: people, never claims, are divided.

Owns which person goes where; knows nothing of texts or labels.
"""

import collections
import hashlib
from collections.abc import Sequence

from tarl_jax.data.record import Stream
from tarl_jax.errors import InputError

TEST_SHARE = 0.25  # of the people of a source with at least MANY
VAL_SHARE = 0.15
MANY = 6
FEW = 3


def split_streams(streams: Sequence[Stream]) -> dict[str, list[Stream]]:
  """Streams as "train", "val" and "test", disjoint in `Stream.person`, in their given order.

  Decided for each source alone, from digests of the people's names and never from content:
    6 people and more: a quarter to test (rounded), 15 % to validation (rounded down, at
      least one), the rest to train;
    3 to 5: one to test and one to validation; the person with most claims stays in train;
    fewer: all to train, as nobody could be held out.
  A person who occurs in several sources is in one split for all of them: test goes before
  validation and validation before train.

  Raises:
    InputError: if no source has enough people for a test split.
  """
  sizes: dict[str, collections.Counter[str]] = {}
  for stream in streams:
    sizes.setdefault(stream.source, collections.Counter())[stream.person] += len(stream.claims)
  held: dict[str, str] = {}
  for part in ("val", "test"):
    for source in sizes:
      held.update(dict.fromkeys(_held_out(source, sizes[source])[part], part))
  if "test" not in held.values():
    raise InputError(
      f"split: no source has {FEW} people or more (found "
      + (", ".join(f"{name}: {len(people)}" for name, people in sizes.items()) or "no stream")
      + "), so the test split would be empty; give more people."
    )
  split: dict[str, list[Stream]] = {"train": [], "val": [], "test": []}
  for stream in streams:
    split[held.get(stream.person, "train")].append(stream)
  return split


def _held_out(source: str, claims: collections.Counter[str]) -> dict[str, list[str]]:
  """The people of a source who go to test and to validation."""

  def digest(person: str) -> bytes:
    return hashlib.blake2b(f"{source}/{person}".encode(), digest_size=8).digest()

  people = sorted(claims, key=digest)
  if len(people) >= MANY:
    tests = int(TEST_SHARE * len(people) + 0.5)
    vals = max(1, int(VAL_SHARE * len(people)))
    return {"test": people[:tests], "val": people[tests : tests + vals]}
  if len(people) >= FEW:
    people.remove(max(people, key=lambda person: claims[person]))
    return {"test": people[:1], "val": people[1:2]}
  return {"test": [], "val": []}
