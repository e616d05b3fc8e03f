"""The five settings: who is where, which steps count, what is left out and why."""

import dataclasses
import string

import pytest
from hypothesis import given
from hypothesis import settings as run
from hypothesis import strategies as st

from tarl_jax.data import settings
from tarl_jax.data.duplicates import NEAR, Duplicates, jaccard
from tarl_jax.data.generated import generate
from tarl_jax.data.linking import plain, values_differ
from tarl_jax.data.moments import Moment
from tarl_jax.data.record import Claim, Gold, Stream
from tarl_jax.data.settings import SPLITS, Part
from tarl_jax.errors import InputError
from tarl_jax.types import Action

QUICK = run(derandomize=True, deadline=None, max_examples=40)


def claim(name, text, action=Action.APPEND, group=""):
  return Claim(id=name, text=text, gold=Gold(action, group=group))


def word(number):
  """A word of letters alone, the same for a number alone."""
  return "".join(string.ascii_lowercase[int(digit)] for digit in f"{number:03d}") + "ish"


def stream(person, size=6, source="own", number=0, group=None, text=None):
  """Every claim says something of its own; group and text by position."""
  claims = []
  for i in range(size):
    own = f"{source}{person}x{number}x{i} owns {word(i)} things beside {source}{person}{i}"
    claims.append(
      claim(f"{i}", text(i) if text else own, group=group(i) if group else f"{source}{person}/{i}")
    )
  return Stream(f"{source}:{person}:{number}", source, tuple(claims), f"{source}-{person}")


def people(parts):
  return {name: {part.stream.person for part in parts[name]} for name in SPLITS}


def apart(sets):
  return not any(
    sets[a] & sets[b] for a, b in (("train", "val"), ("train", "test"), ("val", "test"))
  )


def texts(parts):
  return {name: {plain(text) for text in settings.texts_of(parts[name])} for name in SPLITS}


@QUICK
@given(
  st.lists(st.tuples(st.integers(2, 9), st.integers(0, 20)), min_size=6, max_size=14),
  st.integers(1, 2),
)
def test_in_domain_is_a_partition_that_keeps_people_and_groups_apart(sizes, variants):
  streams = [
    stream(person, size, number=number, group=lambda i, shared=shared: f"g{shared}" if i else "")
    for person, (size, shared) in enumerate(sizes)
    for number in range(variants)
  ]
  if len({shared for _, shared in sizes}) < 6:
    return  # too few are independent of each other
  parts = settings.in_domain(streams)
  found = [part.stream.stream_id for name in SPLITS for part in parts[name]]
  assert sorted(found) == sorted(s.stream_id for s in streams)
  assert apart(people(parts))
  assert apart(
    {name: settings.groups_of(c for p in parts[name] for c in p.examples) for name in SPLITS}
  )
  assert parts["train"] and parts["val"] and parts["test"]


def test_a_group_of_two_people_brings_them_together():
  streams = [stream(person) for person in range(10)]
  before = people(settings.in_domain(streams))
  one, two = min(before["train"]), min(before["test"])
  joined = [
    dataclasses.replace(s, claims=(*s.claims, claim("last", f"{s.person} was here", group="both")))
    if s.person in (one, two)
    else s
    for s in streams
  ]
  after = people(settings.in_domain(joined))
  assert any({one, two} <= found for found in after.values())


def test_a_repeated_text_is_an_example_of_the_later_split_alone():
  streams = [stream(person) for person in range(10)]
  before = settings.in_domain(streams)
  victims = {name: before[name][0].stream for name in SPLITS}
  shared = "Mira keeps seven grey parrots in the old barn near Sarno"
  near = shared + " today"  # 11 of 12 words, no other value
  other = shared.replace("Sarno", "Eboli")  # 10 of 12 words, but another name
  lamp = "Ugo hides a blue lamp behind his cello"
  told = {"train": (shared, near, other, lamp), "val": (near, lamp), "test": (shared,)}

  def tell(whole):
    for name, victim in victims.items():
      if whole == victim:
        new = tuple(claim(f"n{i}", text) for i, text in enumerate(told[name]))
        return dataclasses.replace(whole, claims=whole.claims + new)
    return whole

  parts = settings.in_domain([tell(whole) for whole in streams])
  kept = {
    name: next(p for p in parts[name] if p.stream.person == victims[name].person) for name in SPLITS
  }
  assert kept["test"].steps is None
  assert kept["val"].steps == (*range(6), 7)
  assert kept["train"].steps == (*range(6), 8)
  assert len(kept["train"].stream.claims) == 10, "the stream itself stays whole"


@QUICK
@given(
  st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=7), min_size=1, max_size=8),
  st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=7), min_size=1, max_size=8),
)
def test_duplicates_are_those_of_all_pairs(left, right):
  one, two = ([" ".join(map(word, numbers)) for numbers in side] for side in (left, right))

  def same(a, b):
    close = jaccard(frozenset(a.split()), frozenset(b.split())) >= NEAR
    return a == b or (close and not values_differ(a, b))

  expected = {a for a in one if any(same(a, b) for b in two)}
  found = Duplicates([*one, *two, "something else"])
  assert found.among(one, two) == expected
  assert found.among([], two) == found.among(one, []) == set()


def test_generated_streams_stay_where_they_were_made_for():
  made = {name: generate(3, 2, 8, name) for name in SPLITS}
  parts = settings.in_domain([s for found in made.values() for s in found])
  for name in SPLITS:
    assert {p.stream.stream_id for p in parts[name]} <= {s.stream_id for s in made[name]}
  known_facts = generate(3, 1, 8, "test", "train")
  assert settings._by_person(known_facts)["test"][0].stream == known_facts[0]


def two_sources(first=8, second=8):
  return [stream(p, source="a") for p in range(first)] + [
    stream(p, source="b") for p in range(second)
  ]


def test_cross_source_tests_the_people_held_out_of_the_one_source():
  streams = two_sources()
  domain, parts = settings.in_domain(streams), settings.cross_source(streams, "b")
  assert {p.stream.source for p in parts["train"] + parts["val"]} == {"a"}
  assert parts["test"] == [p for p in domain["test"] if p.stream.source == "b"]
  for name in ("train", "val"):
    assert parts[name] == [p for p in domain[name] if p.stream.source == "a"]


def test_cross_source_with_few_people_tests_all_and_trains_on_none_of_them():
  streams = two_sources(second=2)
  twins = [dataclasses.replace(stream(p, source="c"), person=f"b-{p}") for p in range(2)]
  linked = [stream(90 + p, source="d", group=lambda i: f"b0/{i}") for p in range(6)]
  parts = settings.cross_source(streams + twins + linked, "b")
  assert {p.stream.person for p in parts["test"]} == {"b-0", "b-1"}
  assert {p.stream.source for p in parts["train"]} == {"a"}
  assert apart(people(parts))


@pytest.mark.parametrize("held_out", ["c", ""])
def test_an_unknown_source_stops(held_out):
  with pytest.raises(InputError, match="a, b"):
    settings.cross_source(two_sources(), held_out)
  with pytest.raises(InputError, match="at least two"):
    settings.cross_source([stream(p) for p in range(6)], "own")


@QUICK
@given(
  st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=24), min_size=1, max_size=4),
  st.booleans(),
)
def test_temporal_cuts_each_stream_and_no_group(groups, one_person):
  streams = [
    dataclasses.replace(
      stream(number, len(own), group=lambda i, own=own: f"g{own[i]}" if own[i] else ""),
      person="p" if one_person else f"p{number}",
    )
    for number, own in enumerate(groups)
  ]
  parts = settings.temporal(streams)
  for whole in streams:
    size = len(whole.claims)
    steps = {name: [s for p in parts[name] if p.stream == whole for s in p.kept] for name in SPLITS}
    assert steps["train"] == list(range(int(0.6 * size)))
    assert all(int(0.6 * size) <= step < int(0.7 * size) for step in steps["val"])
    assert all(step >= int(0.7 * size) for step in steps["test"])
    free = [i for i in range(int(0.7 * size), size) if not groups[streams.index(whole)][i]]
    assert set(free) <= set(steps["test"]), "a claim without a group stays"
  found = {
    name: {
      (part.stream.person, c.gold.group)
      for part in parts[name]
      for c in part.examples
      if c.gold.group
    }
    for name in SPLITS
  }
  assert apart(found)


def test_counterfactual_tests_the_texts_with_two_actions():
  streams = [stream(person) for person in range(8)]
  target = settings.in_domain(streams)["test"][0].stream
  pair = (
    claim("a", "The gate is red.", Action.APPEND, "pair"),
    claim("b", "the gate is red", Action.NOOP, "pair"),
    claim("c", "The gate is blue.", Action.REVISE, "pair"),
    claim("d", "The door is oak.", Action.APPEND, "single"),
    claim("e", "The door is oak!", Action.APPEND, "single"),
    claim("f", "Nothing.", Action.NOOP),
    claim("g", "Nothing.", Action.DEFER_VERIFY),
  )
  changed = [dataclasses.replace(s, claims=s.claims + pair) if s is target else s for s in streams]
  domain, parts = settings.in_domain(changed), settings.counterfactual(changed)
  assert parts["train"] == domain["train"] and parts["val"] == domain["val"]
  assert [c.id for p in parts["test"] for c in p.examples] == ["a", "b", "c"]
  assert parts["test"][0].steps == (6, 7, 8)


def test_sequential_keeps_every_step_and_tests_on_whole_contexts():
  repeated = [stream(person, text=lambda i: f"says {i}") for person in range(8)]
  whole = stream(0, source=settings.SEQUENTIAL_ONLY)
  parts = settings.sequential([*repeated, whole])
  assert all(part.steps is None for found in parts.values() for part in found)
  assert parts["test"][-1].stream == whole
  assert sum(map(len, parts.values())) == 9 and apart(people(parts))


def test_select_takes_the_steps_of_each_part():
  parts = [Part(stream(0), (1, 4)), Part(stream(1, 3))]
  moments = [
    Moment(c, (), (), 0, c.gold, (), index, step)
    for index, part in enumerate(parts)
    for step, c in enumerate(part.stream.claims)
  ]
  chosen = settings.select(moments, parts)
  assert [(m.stream, m.step) for m in chosen] == [(0, 1), (0, 4), (1, 0), (1, 1), (1, 2)]
  assert [m.candidate for m in chosen] == [c for part in parts for c in part.examples]
