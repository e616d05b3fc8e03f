"""Scenes against the label table written out again, and what they are made from."""

import collections
import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarl_jax.data.construct import (
  RELIABILITY,
  Draft,
  Pair,
  People,
  Scene,
  Tally,
  make_claim,
  order_of,
  seeded,
)
from tarl_jax.data.label_table import Order
from tarl_jax.data.lexical import fit_idf, idf_overlap, parse
from tarl_jax.data.linking import (
  Change,
  Overlap,
  change_between,
  compare_values,
  differ_in_one_place,
  field_of,
  fields_agree,
  in_first_person,
  strip_prefix,
  values_differ,
)
from tarl_jax.data.record import Gold, check_executable
from tarl_jax.data.sources import source_info
from tarl_jax.data.swap import collect_values, find_values, flip_polarity, swap_value
from tarl_jax.data.weave import MAX_CLAIMS, Anchor, Person, finish_stream, weave
from tarl_jax.types import Action

A, B, A_TOO = "Ines works in Porto.", "Ines works in Lisbon.", "I work in Porto."
PAIR = Pair("g", (A, B), "Ines", 30_000_000, "counterpart", ((A_TOO,), ()))
OLDER, NEWER, UNORDERED = Order.OLDER, Order.NEWER, Order.UNORDERED


def test_a_seed_is_made_of_any_text():
  """Also of half a surrogate pair, which JSON can hold and UTF-8 cannot."""
  texts = ("a", "\ud800", "\udfff", "\\ud800", "\ud800\x1f")
  assert len({int(seeded("key", text).integers(2**62)) for text in texts}) == len(texts)
  assert seeded("key", "\ud800").random() == seeded("key", "\ud800").random()


def play(number, steps=8, tally=None, anchor=None):
  tally = Tally.of() if tally is None else tally
  scene = Scene(PAIR, People("Ines", "Rui"), tally, key=f"k{number}")
  if anchor:
    scene.adopt(anchor, 0)
  return scene.play(steps)


def replay(drafts, live=None):
  """The label and target of each claim by the table of DATA.md, in plain Python.

  Yields (row, label, target, (resolves, outcome)); a row names relation, trust and order.
  """
  pending = {}
  for draft in drafts:
    claim = draft.claim
    value = "B" if claim.text == B else "A"
    trusted = claim.gold.reliability > 0.65
    twin = pending.get(value)
    if live is None:
      row = ("none", trusted)
      label, target = ("append", None) if trusted else ("defer_verify", None)
      if twin and not trusted:
        row, label, target = ("waiting",), "noop", twin.id
    else:
      entry, entry_value = live
      gap = round(entry.gold.reliability - claim.gold.reliability, 6)
      assert gap <= 0.2 or gap > 0.25, "the band between has no label"
      times = claim.observed_at, entry.observed_at
      known = None not in times and times[0] != times[1]
      order = "unordered" if not known else "newer" if times[0] > times[1] else "older"
      if value == entry_value:
        row, label, target = ("same", trusted, order), "noop", entry.id
      else:
        row, target = ("other", trusted, order, gap > 0.25), entry.id
        if twin and not trusted:
          assert order == "newer"
          row, label, target = ("waiting",), "noop", twin.id
        elif order == "older":
          label = "reject_conflict"
        elif trusted:
          label = "revise" if order == "newer" else "defer_verify"
        else:
          assert order == "newer" or gap <= 0.2, "no label: equal time, clearly less reliable"
          label = "reject_conflict" if gap > 0.25 else "defer_verify"
    settled = (None, None)
    if label in ("append", "revise"):
      live = claim, value
      rival = pending.get("A" if value == "B" else "B")
      times = claim.observed_at, rival.observed_at if rival else None
      if twin:
        settled = (pending.pop(value).id, "confirmed")
      elif None not in times and times[0] > times[1]:
        settled = (rival.id, "contradicted")
        del pending["A" if value == "B" else "B"]
    yield row, label, target, settled
    if label == "defer_verify":
      pending[value] = claim


def test_scenes_follow_the_table_and_meet_every_row():
  rows = collections.Counter()
  labels = collections.defaultdict(set)
  tally = Tally.of()
  outcomes = collections.Counter()
  for number in range(400):
    drafts = play(number, tally=tally)
    for draft, (row, label, target, settled) in zip(drafts, replay(drafts), strict=True):
      gold = draft.claim.gold
      assert (gold.action.label, gold.target) == (label, target), row
      assert (gold.resolves, gold.outcome) == settled, row
      assert gold.kind.endswith("contradicts_pending") == (gold.outcome == "contradicted")
      assert gold.kind.startswith("confirmed_") == (gold.outcome == "confirmed")
      outcomes[gold.outcome] += 1
      by_time = row[0] == "other" and row[1]
      assert gold.temporal == by_time and gold.provenance == "constructed" and gold.group == "g"
      rows[row] += 1
      labels[draft.claim.text].add(label)
  trusted_rows = [("other", True, order, False) for order in ("newer", "older", "unordered")]
  weak_rows = [
    ("other", False, "newer", True),
    ("other", False, "newer", False),
    ("other", False, "older", True),
    ("none", True),
    ("none", False),
    ("waiting",),
  ]
  same = [("same", trusted, "newer") for trusted in (True, False)]
  assert all(rows[row] >= 10 for row in trusted_rows + weak_rows + same), rows
  assert all(len(labels[text]) == 5 for text in (A, B))  # one text, every label
  assert len(labels[A_TOO]) >= 4
  assert outcomes["confirmed"] > 200 and outcomes["contradicted"] > 20
  assert (
    min(tally.by_action.values()) >= 0.12 * tally.by_action.total()
    and tally.by_action.total() == rows.total()
  )


def test_an_anchored_scene_starts_from_the_live_claim():
  gold = Gold(action=Action.APPEND, provenance="derived")
  anchor = make_claim("anchor", A, "user", gold, observed_at=PAIR.time, people=People("Ines"))
  for number in range(20):
    drafts = play(number, anchor=anchor)
    found = [(d.claim.gold.action.label, d.claim.gold.target) for d in drafts]
    assert found == [row[1:3] for row in replay(drafts, (anchor, "A"))]
    assert min(d.arrival for d in drafts) > PAIR.time


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 9))
def test_scenes_arrive_in_order_and_can_be_executed(number, steps):
  drafts = play(number, steps)
  arrivals = [draft.arrival for draft in drafts]
  assert arrivals == sorted(arrivals) and len(drafts) <= steps
  assert all(d.claim.observed_at is None or d.claim.observed_at <= d.arrival for d in drafts)
  stream = finish_stream("s", _person([], [], []), drafts)
  check_executable(stream)
  assert [claim.id for claim in stream.claims] == [f"s:{i}" for i in range(len(drafts))]
  place = {draft.claim.id: f"s:{i}" for i, draft in enumerate(drafts)}
  settled = [place.get(draft.claim.gold.resolves) for draft in drafts]
  assert [claim.gold.resolves for claim in stream.claims] == settled
  assert play(number, steps) == drafts


def test_only_the_owner_says_i():
  for number in range(200):
    for draft in play(number):
      if draft.claim.text == A_TOO:
        assert draft.claim.source == "user:Ines"


def test_a_year_in_the_text_is_never_in_the_future():
  texts = ("Ines moved in 2029.", "Ines moved in 2030.")
  time = 30_000_000 + 2 * 525_600  # in 2029
  for number in range(100):
    pair = PAIR._replace(texts=texts, time=time, restated=((), ()))
    for draft in Scene(pair, People(), Tally.of(), key=str(number)).play(6):
      when = draft.claim.observed_at
      assert when is None or 1970 + when / 525_960 >= int(draft.claim.text[-5:-1])


def test_reliabilities_leave_the_unlabelled_band_empty_and_names_tell_trust():
  trusted = {role for role, value in RELIABILITY.items() if value > 0.65}
  for new, old in itertools.product(RELIABILITY, trusted):
    gap = RELIABILITY[old] - RELIABILITY[new]
    assert gap <= 0.2 or gap > 0.25, (new, old)
  for role, value in RELIABILITY.items():
    for people in (People(), People("Ines", "Rui")):
      told = source_info(people.source(role)).reliability
      assert (told > 0.65) == (value > 0.65), role


def test_readings_are_noisy_sometimes_absent_and_depend_on_the_key():
  gold = Gold(action=Action.APPEND)
  claims = [make_claim(f"c{i}", A, "friend", gold) for i in range(2000)]
  readings = np.array([c.source_reliability for c in claims if c.source_reliability is not None])
  assert abs(readings.mean() - 0.75) < 0.01 and abs(readings.std() - 0.06) < 0.005
  assert 0.05 < 1 - len(readings) / 2000 < 0.11
  assert {c.gold.reliability for c in claims} == {0.75}
  assert claims[3] == make_claim("c3", A, "friend", gold)
  scopes = {
    "Ines used to row.": "past",
    "Ines rows until June.": "bounded",
    "Ines rows.": "present",
  }
  for text, scope in scopes.items():
    assert make_claim("c", text, "user", gold).gold.scope == scope


def test_order_of_times():
  assert order_of(5, 3) == NEWER and order_of(3, 5) == OLDER
  assert {order_of(3, 3), order_of(None, 3), order_of(3, None), order_of(None, None)} == {UNORDERED}


# Weaving.

TOWNS = "Faro Braga Evora Tomar Lagos Sines Moura Beja Olhao Viseu Elvas Ovar".split()
THINGS = "kayak loom barn violin garden bakery ferry museum orchard tower bridge cellar".split()


def _person(background, anchors, pairs, **more):
  texts = [d.claim.text for d in background] + [t for pair in pairs for t in pair.texts]
  overlap = Overlap(texts, frozenset({"ines"})) if texts else None
  people = lambda subject: People(subject, "Rui")  # noqa: E731
  return Person("p", "made", background, anchors, pairs, overlap, people, **more)


def _pairs(count):
  for i in range(count):
    town, thing = TOWNS[i % len(TOWNS)], THINGS[i // len(TOWNS) % len(THINGS)]
    texts = f"The {thing}{i} stands in {town}", f"The {thing}{i} stands outside {town}"
    yield Pair(f"g{i}", texts, "Ines", 30_000_000 + 20_000 * i, "counterpart")


def test_weaving_keeps_limits_and_separates_texts_that_resemble_each_other():
  pairs = list(_pairs(40))
  twin = pairs[0]._replace(group="twin")
  skips = collections.Counter()
  streams = weave(_person([], [], [*pairs, twin]), skips)
  assert skips["pair resembles another text"] == 1  # too little for a stream of its own
  for stream in streams:
    groups = {claim.gold.group for claim in stream.claims}
    assert not {"g0", "twin"} <= groups and len(stream.claims) <= MAX_CLAIMS
    check_executable(stream)
  assert {stream.person for stream in streams} == {"p"}
  twice = weave(_person([], [], pairs, rounds=2), collections.Counter())
  assert len(twice) == len(weave(_person([], [], pairs), collections.Counter())) + 1


def test_scenes_are_woven_between_the_claims_of_the_source():
  pairs = list(_pairs(30))
  gold = Gold(action=Action.APPEND, provenance="derived")
  background = [
    Draft(pair.time, make_claim(f"b{i}", pair.texts[0], "user", gold, observed_at=pair.time))
    for i, pair in enumerate(pairs)
  ]
  anchors = [Anchor(pair, f"b{i}", 0) for i, pair in enumerate(pairs)]
  stream = weave(_person(background, anchors, pairs), collections.Counter())[0]
  own = [claim for claim in stream.claims if claim.gold.provenance == "derived"]
  assert [claim.text for claim in own] == [pair.texts[0] for pair in pairs]
  assert len(stream.claims) > 4 * len(own)
  assert stream.claims.index(own[-1]) > len(own)  # some constructed claims come before
  many = [
    Draft(i, make_claim(f"m{i}", f"word{i}", "user", gold, observed_at=i)) for i in range(690)
  ]
  person = _person(background[:5] + many, anchors[:5], pairs[:5])
  assert MAX_CLAIMS - 8 <= len(weave(person, collections.Counter())[0].claims) <= MAX_CLAIMS


# Linking.


def test_overlap_is_the_shared_definition_without_the_name():
  texts = [
    "Ines paints old boats",
    "Ines paints old boats blue",
    "Ines sells ferry tickets",
    "Rain",
  ]
  overlap = Overlap(texts, frozenset({"ines"}))
  idf = fit_idf([parse(text) for text in texts])
  for a, b in itertools.product(texts[:3], repeat=2):
    expected = idf_overlap(parse(a), parse(b), idf, 1.0)
    assert overlap.of(a, b) == pytest.approx(expected, abs=1e-5)
    assert overlap.with_all(a, texts)[texts.index(b)] == np.float32(overlap.of(a, b))
  assert overlap.covered(texts[0], texts[1]) == pytest.approx(1.0)
  assert overlap.covered(texts[1], texts[0]) < 1.0


def test_fields_of_template_texts():
  name = "Ines Vaz"
  fields = {
    "Ines Vaz's job title is baker": {"job", "title"},
    'Ines Vaz\'s career_status updated job_title from "a" to "b"': {"job", "title"},
    "[Jan 02, 2030, 10:00:00] Ines Vaz Sports they dislike: Curling": {"sports", "they", "dislike"},
    "Ines Vaz bakes bread with rye.": set(),
  }
  for text, words in fields.items():
    assert field_of(text, name) == words
  why = field_of("Ines Vaz Sports they dislike Curling reason: Cold.", name)
  assert "reason" in why
  assert fields_agree(frozenset({"title"}), frozenset({"job", "title"}))
  assert fields_agree(frozenset(), why) and not fields_agree(frozenset({"a"}), frozenset({"b"}))
  assert strip_prefix("[x][y] told") == "told" and strip_prefix("a [b]") == "a [b]"


def test_same_value_means_no_exact_difference():
  for a, b in (
    ("Ines has two boats", "Ines has 2 boats"),
    ('Income rose from "5" to "9"', "Income rose to 9"),
    ("Ines likes tea", "Ines really likes tea"),
  ):
    assert not values_differ(a, b)
  for a, b in (
    ("Ines has two boats", "Ines has three boats"),
    ("Ines met Rui", "Ines met Ana"),
    ("Ines likes tea", "Ines does not like tea"),
    ("Ines likes tea", "Ines dislikes tea"),
    ('The sign says "open"', 'The sign says "shut"'),
  ):
    assert values_differ(a, b), (a, b)
  more, less = "Ines has two boats", "Ines has boats"
  assert compare_values(more, less)[:2] == compare_values(less, more)[1::-1] == (True, False)
  assert differ_in_one_place("Ines met Rui at noon", "Ines met Ana at noon")
  assert not differ_in_one_place("Ines met Rui", "Ines met Rui")
  assert not differ_in_one_place("one two three", "two three four five")
  assert in_first_person("As said, I row.") and not in_first_person("Ivy rows.")


def test_kinds_of_change():
  old = "Ines bakes rye bread for the village school on weekdays"
  news = {
    "Ines is baking rye bread for the village school on weekdays.": Change.NONE,
    old + " and also delivers it by bicycle along the coast road": Change.MORE,
    "Ines no longer bakes rye bread for the village school": Change.VALUE,
    "Ines does not bake rye bread for the village school on weekdays": Change.VALUE,
  }
  overlap = Overlap([old, *news, "filler text", "another one"], frozenset({"ines"}))
  for new, change in news.items():
    assert change_between(old, new, overlap) == change, new


# Counterparts.


def test_values_are_found_by_kind_without_the_owners():
  text = 'In May Ines flew to Lyon with Ana, read "Blue Tides" twice and saw 14 dogs on Monday.'
  found = {span.value: span.kind for span in find_values(text, frozenset({"ines"}))}
  assert found == {
    "May": "month",
    "Lyon": "place",
    "Ana": "person",
    "Blue Tides": "title",
    "14": "number2",
    "dogs": "pets",
    "Monday": "weekday",
  }
  assert not find_values("Ines may march on.", frozenset({"ines"}))


def test_a_counterpart_differs_in_one_value_of_the_same_conversation():
  owners = frozenset({"ines"})
  texts = [
    "Ines flew to Lyon on Monday.",
    "Ines drove to Turin on Friday.",
    "Ines ate a pizza.",
    "Ines saw an owl.",
    "Ines likes piano music.",
  ]
  values = collect_values(texts, owners)
  seen = set()
  for seed in range(20):
    swapped = swap_value(texts[0], values, owners, np.random.default_rng(seed))
    seen.add(swapped)
  assert seen == {
    ("Ines flew to Turin on Monday.", "place"),
    ("Ines flew to Lyon on Friday.", "weekday"),
  }
  rng = np.random.default_rng(0)
  assert swap_value(texts[2], values, owners, rng) is None  # no second dish anywhere
  assert swap_value(texts[4], values | {"instrument": ("violin",)}, owners, rng) is None  # plural
  made = swap_value("Ines has a cat.", {"pet": ("owl", "cat")}, owners, rng)
  assert made == ("Ines has an owl.", "pet")


def test_flipped_polarity():
  flips = {
    "Ines is a baker.": "Ines is not a baker.",
    "Ines enjoys rowing.": "Ines does not enjoy rowing.",
    "Ines can't swim.": "Ines can swim.",
    "Ines has started a course.": "Ines has not started a course.",
    "Ines never rows.": None,
    "Ines rows.": None,
    "After a long day at the ferry pier Ines is tired.": None,
    "Is Ines here?": None,
  }
  for text, expected in flips.items():
    assert flip_polarity(text) == expected
    if expected:
      assert parse(text).negative != parse(expected).negative


def test_equal_in_another_process():
  code = (
    "from tarl_jax.data.construct import Pair, People, Scene, Tally\n"
    f"pair = Pair('g', {PAIR.texts!r}, 'Ines', {PAIR.time}, 'counterpart', {PAIR.restated!r})\n"
    "scene = Scene(pair, People('Ines', 'Rui'), Tally.of(), key='k5')\n"
    "print(scene.play(8))\n"
  )
  env = os.environ | {"PYTHONHASHSEED": "99"}
  done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
  assert done.stdout.strip() == str(play(5)), done.stderr
