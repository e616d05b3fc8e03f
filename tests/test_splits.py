"""The split by person: shares, disjointness, independence of content and order."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarl_jax.data.record import Claim, Stream
from tarl_jax.data.splits import split_streams
from tarl_jax.errors import InputError


def streams_of(source, sizes, variants=1):
  """One stream a person and variant; `sizes` are numbers of claims."""
  return [
    Stream(
      stream_id=f"{source}:{person}:{variant}",
      source=source,
      person=f"{source}-{person}",
      claims=tuple(Claim(id=str(i), text=f"fact {i}") for i in range(size)),
    )
    for person, size in enumerate(sizes)
    for variant in range(variants)
  ]


def people(split):
  return {name: {stream.person for stream in streams} for name, streams in split.items()}


@pytest.mark.parametrize(
  ("number", "test", "val"), [(3, 1, 1), (4, 1, 1), (5, 1, 1), (6, 2, 1), (10, 3, 1), (40, 10, 6)]
)
def test_shares(number, test, val):
  found = people(split_streams(streams_of("s", [5] * number, variants=2)))
  assert [len(found[name]) for name in ("test", "val", "train")] == [test, val, number - test - val]


def test_the_largest_of_few_people_stays_in_train():
  for largest in range(4):
    sizes = [9 if person == largest else 3 for person in range(4)]
    found = people(split_streams(streams_of("s", sizes)))
    assert f"s-{largest}" in found["train"]


def test_small_sources_go_to_train_and_an_empty_test_stops():
  split = split_streams(streams_of("few", [4, 4]) + streams_of("many", [4] * 8))
  assert {stream.person for stream in split["train"]} >= {"few-0", "few-1"}
  with pytest.raises(InputError, match="few: 2"):
    split_streams(streams_of("few", [4, 4]))
  with pytest.raises(InputError, match="no stream"):
    split_streams([])


def test_each_source_is_decided_alone():
  first, second = streams_of("a", [3] * 10), streams_of("b", [3] * 4)
  together = people(split_streams(first + second))
  for own in (first, second):
    alone = people(split_streams(own))
    names = {stream.person for stream in own}
    assert all(together[name] & names == alone[name] for name in alone)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.integers(3, 25), st.integers(1, 3), st.randoms(use_true_random=False))
def test_split_is_a_partition_by_person_whatever_the_order_and_content(number, variants, random):
  streams = streams_of("s", [4] * number, variants)
  split = split_streams(streams)
  found = people(split)
  assert sorted(s.stream_id for part in split.values() for s in part) == sorted(
    s.stream_id for s in streams
  )
  assert not found["train"] & found["test"] and not found["val"] & (found["train"] | found["test"])
  other = [
    dataclasses.replace(s, claims=tuple(dataclasses.replace(c, text="x") for c in s.claims))
    for s in streams
  ]
  random.shuffle(other)
  if number >= 6:
    assert people(split_streams(other)) == found


def test_a_person_of_two_sources_is_on_one_side():
  first = streams_of("a", [3] * 10)
  second = [dataclasses.replace(s, source="b") for s in first]
  found = people(split_streams(first + second))
  assert not found["test"] & found["train"] and not found["test"] & found["val"]
