"""HaluMem construction stages: shapes, true differences, preference slots, dirt, real files."""

import collections
import copy
import json

import numpy as np
import pytest
from mutations import mutate

from tarl_jax.data.halumem_stages import load_halumem_stages
from tarl_jax.data.jsonl import to_iso
from tarl_jax.data.record import check_executable, read_streams, write_streams
from tarl_jax.errors import InputError
from tarl_jax.types import Action

NAME = "Tove Lind"
CAREER = {
  "employment_status": "employed",
  "industry": "forestry",
  "company_name": "Lumo Nurseries",
  "job_title": "gardener",
  "monthly_income": 2100,
  "savings_amount": 900,
  "career_description": "I look after the young trees of the nursery and enjoy the quiet.",
}
HEALTH = {
  "physical_health": "Normal",
  "physical_chronic_conditions": "",
  "mental_health": "Calm",
  "mental_chronic_conditions": "",
  "situation_reason": "I walk to work and sleep well.",
}
SOCIAL = "social_relationships"
TIES = {"OlaBerg": {"relationship_type": "Neighbour", "description": "Ola lends me his ladder."}}


def taste(item, likes=True, reason="I said so."):
  kind = "like" if likes else "dislike"
  return {
    "type": kind,
    "type_description": f"Drinks I {kind}",
    "specific_item": item,
    "reason": reason,
  }


def person(uuid="p1", name=NAME):
  return {
    "uuid": uuid,
    "profile": {
      "fixed": {
        "basic_info": {
          "name": name,
          "gender": "Female",
          "birth_date": "1990-02-03",
          "location": "Vik",
        },
        "age": {"current_age": 40, "latest_date": "2030-01-01"},
        "education": {"highest_degree": "Diploma", "major": "Botany"},
        "personality": {"mbti": "ISTJ", "tags": ["Patient"]},
        "family_life": {"parent_status": "both_alive", "partner": None, "child_members": []},
        "life_goal": {"statement": "Plant a wood that outlives the village and its quarrels"},
      },
      "dynamic": {"career_status": CAREER, "health_status": HEALTH, "social_relationships": TIES},
      "preferences": {
        "Beverage Preference": {
          "memory_points": [taste("Birch sap"), taste("Cocoa", likes=False), taste("Mint tea")]
        }
      },
    },
  }


def update(before, after, section="career_status", changed=()):
  return {
    "type_to_update": section,
    "before_dynamic": before,
    "after_dynamic": after,
    "changed_keys": list(changed),
  }


def arc(*dated, **who):
  """The narrative arc stage, its profile in the later shape; `dated` are (date, update)s."""
  value = copy.deepcopy(person(**who))
  for part in ("dynamic", "preferences"):
    value["profile"][part] = {
      name: {"init": inner, "evolution_path": []} for name, inner in value["profile"][part].items()
    }
  stages = [{"time_point": date, "dynamic_updates": [change]} for date, change in dated]
  return value | {"narrative_arc": {"career_events": [{"stages": stages}]}}


def events(*changes, **who):
  """The preference stage; `changes` are (before, after or None where deleted)."""
  made = []
  for i, (before, after) in enumerate(changes):
    made.append(
      {
        "event_id": i,
        "preference_type": "Beverage Preference",
        "update_direction": "Modify" if after else "Delete",
        "before_preference": {"memory_points": [before]},
        "after_preference": {"memory_points": [after or before | {"deleted": True}]},
        "update_reason": "A long evening changed that.",
        "event_description": "It came up at the mill.",
      }
    )
  return person(**who) | {"event_list": made}


def load(tmp_path, *lines):
  path = tmp_path / "stage.jsonl"
  path.write_text("\n\n".join(json.dumps(line) for line in lines) + "\n", encoding="utf-8")
  return load_halumem_stages([path])


def own(streams):
  return [c for s in streams for c in s.claims if c.gold.provenance != "constructed"]


def changes(streams):
  """Own claims after the profile: (claim, text of its target)."""
  claims = own(streams)
  text = {claim.id: claim.text for claim in claims}
  return [(c, text.get(c.gold.target)) for c in claims if c.observed_at > claims[0].observed_at]


def with_career(**fields):
  return CAREER | fields


def test_profile_values_are_appended_once_whatever_the_stage(tmp_path):
  streams, skips = load(tmp_path, person(), arc(), events())
  claims = own(streams)
  assert {c.gold.action for c in claims} == {Action.APPEND} and not skips
  assert len(claims) == 7 + 1 + 7 + 3 + 1 + 3  # fixed, goal, career, health, tie, preferences
  text = "\n".join(c.text for c in claims)
  for value in ("Female", "both alive", "2100", "Ola Berg", "Birch sap", "Cocoa", "Lumo Nurseries"):
    assert value in text, value
  assert text.count("Botany") == 1
  assert {to_iso(c.observed_at) for c in claims} == {"2030-01-01T00:00:00Z"}
  assert {(s.source, s.person) for s in streams} == {("halumem_stages", "p1")}
  assert {c.subject for c in claims} == {NAME} and {c.source for c in claims} == {"user"}


def test_the_true_difference_counts_and_not_changed_keys(tmp_path):
  after = with_career(job_title="head gardener", monthly_income=2600)
  streams, skips = load(
    tmp_path, arc(("2031-05-20", update(CAREER, after, changed=["industry", "company_name"])))
  )
  found = changes(streams)
  assert [c.gold.action for c, _ in found] == [Action.REVISE] * 2 and not skips
  assert ["head gardener" in c.text for c, _ in found] == [True, False]
  assert "gardener" in found[0][1] and "2100" in found[1][1] and "2600" in found[1][0].text
  for claim, _ in found:
    gold = claim.gold
    assert (gold.provenance, gold.kind, gold.temporal) == ("annotated", "update", True)
    assert to_iso(claim.observed_at) == "2031-05-20T00:00:00Z"
    assert gold.group


def test_a_chain_of_updates_revises_the_newest(tmp_path):
  first, second = with_career(job_title="head gardener"), with_career(job_title="nursery owner")
  streams, _ = load(
    tmp_path,
    arc(("2031-05-20", update(CAREER, first)), ("2031-05-20", update(first, second))),
  )
  (one, _), (two, target) = changes(streams)
  assert target == one.text and "nursery owner" in two.text and two.observed_at > one.observed_at


def test_before_that_is_not_what_is_live_makes_the_label_derived(tmp_path):
  stale = with_career(job_title="florist")
  after = with_career(job_title="nursery owner")
  streams, _ = load(tmp_path, arc(("2031-05-20", update(stale, after))))
  ((claim, target),) = changes(streams)
  assert (claim.gold.action, claim.gold.provenance) == (Action.REVISE, "derived")
  assert "gardener" in target and "florist" not in claim.text
  streams, _ = load(tmp_path, arc(("2031-05-20", update(stale, CAREER))))
  ((claim, target),) = changes(streams)
  assert (claim.gold.action, claim.gold.kind) == (Action.NOOP, "repeat") and "gardener" in target


def test_empty_values_come_and_go(tmp_path):
  ill = HEALTH | {"physical_chronic_conditions": "hay fever", "mental_health": "calm"}
  well = ill | {"physical_chronic_conditions": "None"}
  again = ill | {"physical_chronic_conditions": "gout"}
  streams, skips = load(
    tmp_path,
    arc(
      ("2031-01-01", update(HEALTH, ill, "health_status")),
      ("2032-01-01", update(ill, well, "health_status")),
      ("2033-01-01", update(well, again, "health_status")),
      ("2034-01-01", update(again, again, "health_status")),
    ),
  )
  found = changes(streams)
  assert [(c.gold.action, c.gold.kind) for c, _ in found] == [
    (Action.APPEND, "new"),
    (Action.REVISE, "retraction"),
    (Action.REVISE, "update"),
  ]
  assert "no longer" in found[1][0].text and found[1][1] == found[0][0].text
  assert found[2][1] == found[1][0].text and "gout" in found[2][0].text
  assert skips == {"update without a change": 1}


def test_free_words_are_told_apart_by_what_changes(tmp_path):
  said = HEALTH["situation_reason"]
  more = HEALTH | {
    "situation_reason": said[:-1] + " because the new bed and the old lane are good."
  }
  same = more | {"situation_reason": more["situation_reason"].replace("walk", "am walking")}
  less = same | {"situation_reason": "I no longer walk to work, since my knee is swollen."}
  streams, _ = load(
    tmp_path,
    arc(
      ("2031-01-01", update(HEALTH, more, "health_status")),
      ("2032-01-01", update(more, same, "health_status")),
      ("2033-01-01", update(same, less, "health_status")),
    ),
  )
  found = changes(streams)
  assert [c.gold.kind for c, _ in found] == ["enrichment", "paraphrase", "update"]
  assert [c.gold.action for c, _ in found] == [Action.REVISE, Action.NOOP, Action.REVISE]
  assert found[2][1] == found[0][0].text == more["situation_reason"]


def test_new_and_changed_relations(tmp_path):
  ana = {"relationship_type": "Colleague", "description": "Ana knows every moss by name."}
  friend = TIES["OlaBerg"] | {"relationship_type": "Friend"}
  bare = TIES["OlaBerg"] | {"relationship_type": ""}
  _, skips = load(tmp_path, arc(("2031-01-01", update(TIES, {"OlaBerg": bare}, SOCIAL))))
  assert not skips
  streams, skips = load(
    tmp_path,
    arc(
      ("2031-01-01", update(TIES, TIES | {"AnaReis": ana}, SOCIAL)),
      ("2032-01-01", update(TIES, {"OlaBerg": friend}, SOCIAL)),
      ("2033-01-01", update({"OlaBerg": friend}, {}, SOCIAL)),
    ),
  )
  (new, _), (changed, target) = changes(streams)
  assert new.gold.action == Action.APPEND and "Ana Reis" in new.text and "colleague" in new.text
  assert changed.gold.action == Action.REVISE and "friend" in changed.text and "Ola Berg" in target
  assert changed.gold.kind == "update"
  assert skips == {"value that is gone without a word": 1}


def test_updates_out_of_order_are_counted(tmp_path):
  first, second = with_career(job_title="head gardener"), with_career(job_title="nursery owner")
  streams, skips = load(
    tmp_path,
    arc(("2031-05-20", update(CAREER, first)), ("2021-06-01", update(first, second))),
  )
  assert len(changes(streams)) == 1
  assert skips == {"update dated before the one it follows": 1}


def test_modify_revises_the_live_preference_in_the_order_of_the_file(tmp_path):
  sap, more = taste("Birch sap"), taste("Birch sap with honey")
  other = taste("Spruce beer", reason="It warms.")
  streams, skips = load(tmp_path, events((sap, more), (more, other)))
  (one, first), (two, second) = changes(streams)
  assert "Birch sap" in first and second == one.text and not skips
  assert [c.gold.kind for c in (one, two)] == ["enrichment", "update"]
  assert {c.gold.provenance for c in (one, two)} == {"annotated"}
  assert {c.gold.action for c in (one, two)} == {Action.REVISE}
  assert two.observed_at - one.observed_at == one.observed_at - own(streams)[0].observed_at


def test_a_flipped_preference_and_another_reason(tmp_path):
  flipped = taste("Cocoa", likes=True)
  reason = taste("Mint tea", reason="It grows by the door.")
  streams, _ = load(
    tmp_path, events((taste("Cocoa", likes=False), flipped), (taste("Mint tea"), reason))
  )
  (flip, target), (told, _) = changes(streams)
  assert flip.gold.kind == "update" and "islike" in target + "islike" and "Cocoa" in flip.text
  assert told.gold.kind == "enrichment" and told.text.endswith("It grows by the door.")


def test_delete_says_that_it_holds_no_longer(tmp_path):
  sap, cocoa = taste("Birch sap"), taste("Cocoa", likes=False)
  streams, skips = load(tmp_path, events((sap, None), (cocoa, None), (sap, None)))
  (one, first), (two, second), (three, third) = changes(streams)
  for claim, target, item in ((one, first, "Birch sap"), (two, second, "Cocoa")):
    assert (claim.gold.action, claim.gold.kind) == (Action.REVISE, "retraction")
    assert item in claim.text and item in target
    assert any(word in claim.text for word in ("no longer", "any more", "stopped"))
    assert claim.gold.scope == "present"
  assert (three.gold.action, third) == (Action.NOOP, one.text) and not skips


def test_of_two_slots_the_one_that_still_holds_is_meant(tmp_path):
  value = events((taste("Birch sap"), None), (taste("Birch sap"), taste("Elder juice")))
  points = value["profile"]["preferences"]["Beverage Preference"]["memory_points"]
  points.append(taste("Birch sap", reason="Again."))
  streams, _ = load(tmp_path, value)
  _, (two, _) = changes(streams)
  claims = [c.id for c in own(streams) if "Birch sap" in c.text]
  assert two.gold.target == claims[1] and two.gold.provenance == "annotated"


def test_events_about_earlier_or_unknown_preferences(tmp_path):
  sap = taste("Birch sap")
  streams, skips = load(
    tmp_path,
    events(
      (sap, taste("Maple sap")),
      (sap, taste("Elder juice")),
      (taste("Rum"), taste("Gin")),
    ),
  )
  (one, _), (two, target) = changes(streams)
  assert two.gold.provenance == "derived" and target == one.text
  assert skips == {"preference that is not in the memory": 1}
  value = events((sap, taste("Maple sap")))
  value["event_list"][0]["after_preference"]["memory_points"] *= 2
  _, skips = load(tmp_path, value)
  assert skips == {"preference event without one preference before and after": 1}


def test_stages_given_twice_and_odd_values_are_counted(tmp_path):
  odd = person("p2")
  odd["profile"]["dynamic"]["career_status"] = with_career(industry=["forestry"], job_title=True)
  odd["profile"]["preferences"]["Beverage Preference"]["memory_points"][0]["specific_item"] = " "
  _, skips = load(
    tmp_path, events((taste("Birch sap"), None)), events((taste("Cocoa"), None)), arc(), arc(), odd
  )
  assert skips["preference events given twice"] == skips["narrative arc given twice"] == 1
  assert skips["value that is neither text nor number"] == 2
  assert skips["preference for nothing"] == 1


def _crowd():
  lines = []
  words = ("anvil", "basket", "candle", "dagger", "easel", "flagon")
  for i, word in enumerate(words):
    who = {"uuid": f"p{i}", "name": f"Owner{i} Hale"}
    job = with_career(job_title=f"{word} maker")
    one = arc(("2031-05-20", update(CAREER, job)), **who)
    two = events((taste("Birch sap"), None), **who)
    for line in (one, two):
      line["profile"]["fixed"]["basic_info"]["location"] = f"{word.title()}ton"
      line["profile"]["fixed"]["education"]["major"] = f"History of the {word}"
      lines.append(line)
  return lines


def test_every_class_is_constructed_and_one_text_has_several_labels(tmp_path):
  streams, _ = load(tmp_path, *_crowd())
  made = [c for s in streams for c in s.claims if c.gold.provenance == "constructed"]
  assert {c.gold.action for c in made} == set(Action)
  labels = collections.defaultdict(set)
  for stream in streams:
    check_executable(stream)
    for claim in stream.claims:
      labels[stream.person, claim.text].add(claim.gold.action)
  assert np.mean([len(found) > 1 for found in labels.values()]) > 0.05
  groups = {c.gold.group for c in made}
  for action in (Action.APPEND, Action.REVISE):  # counterparts of both kinds of the file's claims
    assert groups & {c.gold.group for c in own(streams) if c.gold.action == action}


def test_same_files_same_streams_in_any_order_and_round_trip(tmp_path):
  lines = _crowd()
  streams, _ = load(tmp_path, *lines)
  assert load(tmp_path, *lines)[0] == streams
  by_person = {s.stream_id: s for s in load(tmp_path, *lines[1::2], *lines[::2])[0]}
  assert by_person == {s.stream_id: s for s in streams}
  write_streams(tmp_path / "out.jsonl", streams)
  assert read_streams(tmp_path / "out.jsonl") == streams


def _broken(make, change):
  value = copy.deepcopy(make)
  change(value)
  return json.dumps(value)


ARC = arc(("2031-05-20", update(CAREER, with_career(job_title="baker"))))
EVENTS = events((taste("Birch sap"), None))


def _update_of(value):
  return value["narrative_arc"]["career_events"][0]["stages"][0]["dynamic_updates"][0]


@pytest.mark.parametrize(
  ("content", "parts"),
  [
    (None, ["cannot be read"]),
    (json.dumps(ARC) + "\n" + json.dumps(ARC)[:300], ["line 2", "not JSON"]),
    ("[1]", ["line 1", "JSON object"]),
    (_broken(ARC, lambda p: p.pop("uuid")), ["line 1", "'uuid'"]),
    (_broken(ARC, lambda p: p.pop("profile")), ["'profile'"]),
    (_broken(ARC, lambda p: p["profile"].update(fixed=[])), ["'fixed'", "JSON object"]),
    (
      _broken(ARC, lambda p: p["profile"]["fixed"]["age"].update(latest_date="1 May")),
      ["'age'", "'latest_date'", "date"],
    ),
    (
      _broken(ARC, lambda p: p["narrative_arc"]["career_events"][0]["stages"][0].pop("time_point")),
      ["career event 0, stage 0", "'time_point'"],
    ),
    (_broken(ARC, lambda p: _update_of(p).update(type_to_update="mood")), ["update 0", "one of"]),
    (_broken(ARC, lambda p: _update_of(p).update(after_dynamic=None)), ["'after_dynamic'"]),
    (
      _broken(EVENTS, lambda p: p["event_list"][0].update(update_direction="Forget")),
      ["event 0", "'update_direction'", "Modify, Delete"],
    ),
    (
      _broken(EVENTS, lambda p: p["event_list"][0]["before_preference"].update(memory_points=7)),
      ["event 0", "'memory_points'", "a list"],
    ),
  ],
)
def test_unreadable_files_are_named_with_line_and_field(tmp_path, content, parts):
  path = tmp_path / "stage.jsonl"
  if content is not None:
    path.write_text(content, encoding="utf-8")
  with pytest.raises(InputError) as error:
    load_halumem_stages([path])
  message = str(error.value)
  assert all(part in message for part in [str(path), *parts]), message
  assert "\n" not in message


FUZZ = 150


def test_mutated_files_are_read_or_refused_in_one_sentence(tmp_path, count=FUZZ):
  rng = np.random.default_rng(5)
  path = tmp_path / "stage.jsonl"
  outcomes = collections.Counter()
  for _ in range(count):
    lines = [copy.deepcopy(ARC), copy.deepcopy(EVENTS)]
    for _ in range(int(rng.integers(1, 4))):
      mutate(lines, rng)
    path.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    try:
      streams, _ = load_halumem_stages([path])
    except InputError as error:
      assert "\n" not in str(error)
      outcomes["refused"] += 1
      continue
    outcomes["read"] += 1
    for stream in streams:
      check_executable(stream)
  assert min(outcomes["read"], outcomes["refused"]) > count // 10


REAL_PEOPLE = 6  # of 20, to be quick


def test_real_files(data_dir, tmp_path):
  paths = []
  for path in sorted((data_dir / "halumem").glob("stage*.jsonl")):
    lines = path.read_text(encoding="utf-8").splitlines()[:REAL_PEOPLE]
    people = {json.loads(line)["uuid"] for line in lines}
    paths.append(tmp_path / path.name)
    paths[-1].write_text("\n".join(lines), encoding="utf-8")
  if not paths:
    pytest.skip("halumem/stage*.jsonl are not there")
  streams, skips = load_halumem_stages(paths)
  assert {stream.person for stream in streams} == people
  claims = own(streams)
  actions = collections.Counter(c.gold.action for s in streams for c in s.claims)
  assert all(actions[action] >= 0.08 * sum(actions.values()) for action in Action)
  kinds = collections.Counter(c.gold.kind for c in claims if c.gold.action == Action.REVISE)
  assert kinds["retraction"] >= 40 and kinds["update"] >= 200
  assert sum(n for reason, n in skips.items() if "preference" in reason) <= 3
  text = {c.id: c.text for c in claims}
  stated = [c for c in claims if c.gold.action == Action.REVISE and 'changed from "' in c.text]
  assert len(stated) >= 15  # the linked entry holds the old value
  assert all(c.text.split('"')[1] in text[c.gold.target] for c in stated)
  for stream in streams:
    check_executable(stream)
