"""Which entry an original restates, what differs between two texts, and what a change is."""

import pytest

from tarl_jax.data.linking import (
  HELD,
  LINK,
  LINK_FREE,
  Change,
  Overlap,
  change_between,
  compare_values,
  field_of,
  find_link,
  strip_prefix,
  values_agree,
  values_differ,
)

NAME = "Tove Lind"
NAMES = frozenset(("tove", "lind"))
# Unrelated facts, so that common words weigh little, as in a real file.
FILLER = (
  "The lighthouse tour was booked for a cousin",
  "A violin teacher comes on some evenings",
  "Breakfast is porridge with dried figs",
  "Old maps hang in the hallway",
  "A choir rehearsal was moved indoors",
  "A ferry ticket lies in the drawer",
)


def link(original, *live, absent=()):
  overlap = Overlap([original, *live, *absent, *FILLER], NAMES)
  entries = {f"e{i}": text for i, text in enumerate((*live, *FILLER))}
  found = find_link(original, entries, absent, overlap, NAME)
  return found if isinstance(found, str) else entries[found[0]]


@pytest.mark.parametrize(
  "stamp",
  ["", "[Mar 01, 2031, 08:00:00] ", "[Mar 01, 2031, 08:00:00][Note]", "Mar 01, 2031, 08:00:00 - "],
)
def test_stamps_are_stripped(stamp):
  assert strip_prefix(stamp + "Tove bakes rye bread") == "Tove bakes rye bread"


@pytest.mark.parametrize(
  ("text", "words"),
  [
    ("Tove Lind's job title is gardener", "job title"),
    ("Tove's job title is gardener", "job title"),
    ('Tove Lind\'s career_status updated job_title from "a" to "b"', "job title"),
    ("Tove Lind's physical health condition: good", "physical health"),
    ("Tove Lind's physical health status changed from good to poor", "physical health"),
    ("Tove Lind Drinks they dislike: Cocoa", "drinks they dislike"),
    ("Tove Lind Drinks they dislike Cocoa reason: Too sweet.", "drinks they dislike reason"),
    ("Ghost stories are too gloomy for me", ""),
    ("Tove Lind met a fox", ""),
    ("Tovenia's job title is queen", ""),
  ],
)
def test_field_of_a_template_text(text, words):
  assert field_of(text, NAME) == frozenset(words.split())


def test_one_field_links_at_less_overlap_than_free_text():
  assert link("Tove Lind's monthly income is 900 crowns", "Tove Lind's monthly income is 900 USD")
  shared = "Tove Lind thanked the choir for its patience at long rehearsals in spring"
  brief = "Tove Lind thanked the choir for its patience"
  overlap = Overlap([shared, brief, *FILLER], NAMES)
  assert LINK < overlap.of(shared, brief) < LINK_FREE and overlap.covered(brief, shared) > HELD
  assert link(brief, shared) == "not in the memory"
  rest = "Tove Lind thanked the choir for its patience at long rehearsals with almond cake"
  overlap = Overlap([shared, rest, *FILLER], NAMES)
  assert LINK_FREE < overlap.of(shared, rest) and overlap.covered(shared, rest) < HELD
  assert link(shared, rest) == "not in the memory"
  longer = shared + ", and the janitor too"
  assert link(shared, longer) == longer


def test_numbers_the_liked_thing_and_the_new_value_must_agree():
  raised = 'Tove Lind\'s career_status updated monthly_income from "900" to "$1,200"'
  assert values_agree("Tove Lind's monthly income is 1200 crowns", raised)
  assert not values_agree("Tove Lind's monthly income is 900 crowns", raised)
  assert link(raised.replace("900", "800"), raised) == raised
  cut = 'Tove Lind\'s career_status updated monthly_income from "$1,200" to "0"'
  assert link(cut, raised) == "not in the memory"
  assert not values_agree("Tove's job title is baker", "Tove Lind's job title: florist")
  assert values_agree("Tove's job title is baker", "Tove's job title is Baker, once a florist")
  assert not values_agree("Tove Lind Drinks they like: Mint tea", "Tove Lind Drinks they like: Tea")
  assert values_agree("Drinks they like: Mint tea", "Tove Lind Drinks they like: mint tea.")


def test_a_text_that_left_the_memory_and_fits_better_wins():
  told = "Tove Lind gathers moss for the wreaths of the harvest fair"
  near = "Tove Lind gathers moss for the wreaths of the harvest fair in the valley"
  assert link(told, near) == near
  assert link(told, near, absent=(told,)) == "already replaced or left out"
  assert link(told, told, absent=(near,)) == told


@pytest.mark.parametrize(
  ("a", "b", "first", "second"),
  [
    ("The harp was tuned by Ines", "The harp was tuned by Ola", True, True),
    ("The harp was tuned by Ines", "The harp was tuned", True, False),
    ("Ines's harp is old", "Ola's harp is old", True, True),
    ("Ines plays the harp", "Ola plays the harp", True, True),  # told by the subject alone
    ("Tove Lind plays the harp", "Tove plays the harp", False, False),
    ("She went to Bergen", "She went to bergen", False, False),
    ("The Smiths came by", "The Smith came by", True, True),  # words and no stems
    ('He said "blue" at last', 'He said "green" at last', True, True),
    ("It costs 30 crowns", "It costs 40 crowns", True, True),
    ("She owns two boats", "She owns boats", True, False),
  ],
)
def test_differences_of_names_quotes_and_numbers(a, b, first, second):
  found = compare_values(a, b, NAMES)
  assert (found.first, found.second) == (first, second)
  back = compare_values(b, a, NAMES)
  assert (back.first, back.second, back.polarity) == (second, first, found.polarity)
  assert values_differ(a, b, NAMES) == (first or second)


def test_the_persons_own_surname_is_no_change():
  old, new = "Tove Lind teaches pottery on Monday evenings", "Tove teaches pottery Monday evenings"
  overlap = Overlap([old, new, *FILLER], NAMES)
  assert change_between(old, new, overlap) == Change.NONE
  strict = Overlap([old, new, *FILLER], frozenset())
  assert change_between(old, new, strict) == Change.MORE


def test_overlap_is_the_weighted_f1_by_hand():
  # "sap" stands in one text of three, "birch" in two: weights 1/2 and 0.2075 of log 4.
  overlap = Overlap(["birch sap", "birch", "moss"], frozenset())
  heavy, light = 0.5, 0.20751875
  assert overlap.of("birch sap", "birch") == pytest.approx(
    2 * light / (heavy + 2 * light), rel=1e-5
  )
  assert overlap.covered("birch", "birch sap") == pytest.approx(1.0, rel=1e-5)
  assert overlap.covered("birch sap", "birch") == pytest.approx(light / (heavy + light), rel=1e-5)
  assert overlap.of("moss", "birch") == 0
