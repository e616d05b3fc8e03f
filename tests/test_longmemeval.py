"""LongMemEval converter: both shapes, all the dirt, the label rules, and the real slices."""

import collections
import copy
import json
import random

import pytest

from tarl_jax.data.linking import Change
from tarl_jax.data.longmemeval import load_longmemeval
from tarl_jax.data.longmemeval_evidence import Record, change_of
from tarl_jax.data.longmemeval_talk import (
  in_third_person,
  says_nothing,
  split_sentences,
  states_fact,
)
from tarl_jax.data.record import check_executable
from tarl_jax.errors import InputError
from tarl_jax.types import Action

MUTATIONS = 400  # of the fuzz test


def user(text, **more):
  return {"role": "user", "content": text, **more}


def reply(text="Here are some ideas.", **more):
  return {"role": "assistant", "content": text, **more}


def record(sessions, name="hive01", kind="knowledge-update", **more):
  """A record in the release shape; `sessions` are (id, date, turns)."""
  names, dates, talks = (list(part) for part in zip(*sessions))
  return {
    "question_id": name,
    "question_type": kind,
    "question": "How many beehives do I keep on the barn roof?",
    "answer": 9,
    "question_date": "2031/06/01 (Sun) 10:00",
    "haystack_session_ids": names,
    "haystack_dates": dates,
    "haystack_sessions": talks,
    "answer_session_ids": [name for name in names if name.startswith("answer_")],
    **more,
  }


FIRST = "I keep 6 beehives on the barn roof."
LATER = "By the way, I now keep nine beehives on the barn roof."
ASK = "Do you know any good honey extractors?"
SWIM = "I've been swimming in the harbour pool since January."
OLD = ("answer_hive_1", "2031/03/02 (Sun) 18:20", [user(f"{FIRST} {ASK}"), reply()])
NEW = (
  "answer_hive_2",
  "2031/05/04 (Sun) 09:05",
  [user(f"{LATER} Can you suggest a smoker?"), reply("That is a lot of beehives!")],
)
SPARE = ("77ab_1", "2031/04/01 (Tue) 07:00", [user(f"{SWIM} Thanks for your help!"), reply()])
LOG = ("sharegpt_x_0", "2031/04/02 (Wed) 07:00", [user("I own two tall ships in Bremen harbour.")])
ORACLE = record([OLD, NEW])
HAYSTACK = record([NEW, LOG, SPARE, OLD])  # out of order


def marked(value, texts=(FIRST, LATER)):
  """The record with `has_answer` on the turns of its answer sessions."""
  value = copy.deepcopy(value)
  for name, talk in zip(value["haystack_session_ids"], value["haystack_sessions"]):
    for turn in talk if name.startswith("answer_") else ():
      turn["has_answer"] = any(text in turn["content"] for text in texts)
  return value


def load(tmp_path, *records, name="oracle"):
  path = tmp_path / f"{name}.json"
  path.write_text(json.dumps(list(records)), encoding="utf-8")
  return load_longmemeval([path])


def real(streams):
  """The source's own claims by text."""
  return {
    claim.text: claim
    for stream in streams
    for claim in stream.claims
    if claim.gold.provenance != "constructed"
  }


@pytest.mark.parametrize("shape", [ORACLE, HAYSTACK])
@pytest.mark.parametrize("mark", [False, True])
def test_a_later_value_revises_the_earlier_one(tmp_path, shape, mark):
  streams, skips = load(tmp_path, marked(shape) if mark else shape)
  claims = real(streams)
  first, later = claims[FIRST], claims[LATER]
  provenance = "annotated" if mark else "derived"
  assert (first.gold.action, first.gold.provenance) == (Action.APPEND, provenance)
  assert (later.gold.action, later.gold.provenance) == (Action.REVISE, provenance)
  assert later.gold.target == first.id and later.gold.temporal and later.gold.kind == "update"
  assert later.observed_at - first.observed_at == 62 * 24 * 60 + 14 * 60 + 45
  assert claims[ASK].gold.action == Action.NOOP and claims[ASK].gold.scope == "none"
  assert first.source == "user" and first.gold.reliability == 0.95
  assert all("lot of beehives" not in text for text in claims)  # the assistant claims nothing
  if shape is HAYSTACK:
    assert claims[SWIM].gold.action == Action.APPEND
    assert claims[SWIM].gold.provenance == "derived"
    assert claims["Thanks for your help!"].gold.action == Action.NOOP
    assert skips == {"sentence of a public chat log": 1}
  else:
    assert not skips


def test_has_answer_false_everywhere_or_null_is_no_mark(tmp_path):
  for value in (False, None):
    shape = copy.deepcopy(ORACLE)
    for talk in shape["haystack_sessions"]:
      for turn in talk:
        turn["has_answer"] = value
    assert real(load(tmp_path, shape)[0])[LATER].gold.provenance == "derived"


def test_marks_decide_where_they_are(tmp_path):
  """A sentence that fits the question worse is the evidence if its turn is marked."""
  other = "I keep 7 hives of bees up there on the old roof."
  talk = [user(f"{other} {ASK}", has_answer=True), reply(has_answer=False)]
  value = record(
    [("answer_hive_1", OLD[1], talk), (*NEW[:2], marked(ORACLE)["haystack_sessions"][1])]
  )
  claims = real(load(tmp_path, value)[0])
  assert claims[other].gold.provenance == "annotated" and claims[other].gold.kind == "evidence"
  assert claims[LATER].gold.target == claims[other].id


@pytest.mark.parametrize(
  ("old", "new", "answer", "reason"),
  [
    (FIRST, "I keep nine beehives on the barn roof.", "the barn",
     "update whose change is not clear"),
    (FIRST, "I keep 8 beehives on the barn roof.", 9, "update whose change is not clear"),
    (FIRST, "I plan to keep 9 beehives on the barn roof.", 9, "update that is only planned"),
    ("I keep beehives on the barn roof.", LATER, 9, "update whose change is not clear"),
    ("I keep 9 beehives on the barn roof.", "I keep 6 beehives on the barn roof.", 9,
     "update whose change is not clear"),
    (FIRST, "My sister would keep nine geese.", 9, "answer session without clear evidence"),
    (FIRST, "I keep nine beehives on the barn roof, or do I?", 9,
     "answer session without clear evidence"),
  ],
)  # fmt: skip
def test_an_unclear_update_is_left_out(tmp_path, old, new, answer, reason):
  talks = [(*OLD[:2], [user(old)]), (*NEW[:2], [user(new)])]
  streams, skips = load(tmp_path, record(talks, answer=answer))
  assert skips[reason] == 1
  actions = [claim.gold.action for claim in real(streams).values()]
  assert actions == [Action.APPEND]


def test_one_date_gives_no_order(tmp_path):
  day = "2031/05/04 (Sun)"
  streams, skips = load(tmp_path, record([(OLD[0], day, OLD[2]), (NEW[0], day, NEW[2])]))
  assert skips == {"update of one date": 1} and LATER not in real(streams)


def test_the_same_value_again_is_a_noop(tmp_path):
  again = ("answer_hive_3", "2031/05/20 (Tue)", [user("I keep 9 beehives on the barn roof.")])
  claims = real(load(tmp_path, record([OLD, NEW, again]))[0])
  gold = claims["I keep 9 beehives on the barn roof."].gold
  assert gold.action == Action.NOOP and gold.target == claims[LATER].id


def test_a_question_about_the_earlier_value(tmp_path):
  asked = "How many beehives did I initially keep on the barn roof?"
  claims = real(load(tmp_path, record([OLD, NEW], question=asked, answer="6"))[0])
  assert claims[LATER].gold.action == Action.REVISE


def test_change_in_words_by_hand():
  value = Record("k", "Where do I keep my skis?", "in the red shed", True, False, [])
  attic, shed = "I keep my skis in the attic.", "I moved my skis to the red shed."
  assert change_of(value, attic, shed) == Change.VALUE
  assert change_of(value, shed, attic) is None  # the answer would be the older value
  assert change_of(value, shed, "My skis stand in the red shed.") == Change.NONE
  assert change_of(value._replace(answer=""), attic, shed) is None
  lengths = value._replace(answer="40 minutes")
  assert change_of(lengths, "The walk takes me 30 minutes.", "It takes 40 min.") == Change.VALUE
  assert change_of(lengths, "I walk 30 miles.", "It takes 40 minutes.") is None


def test_other_kinds_of_question_append(tmp_path):
  for kind in ("temporal-reasoning", "multi-session", "single-session-user", "made-up-kind"):
    claims = real(load(tmp_path, marked(record([OLD, NEW], kind=kind)))[0])
    golds = [claims[text].gold for text in (FIRST, LATER) if text in claims]
    assert {gold.action for gold in golds} == {Action.APPEND}
    assert {gold.provenance for gold in golds} == {"annotated"}


def test_evidence_of_the_assistant_is_counted(tmp_path):
  talk = [user(f"{SWIM} {ASK}"), reply("Keep 6 beehives.", has_answer=True)]
  value = record([("answer_hive", OLD[1], talk)], kind="single-session-assistant")
  streams, skips = load(tmp_path, value)
  assert skips == {"evidence spoken by the assistant": 1}
  assert {claim.gold.provenance for claim in real(streams).values()} == {"derived"}


@pytest.mark.parametrize(
  ("name", "kind"), [("hive01_abs", "knowledge-update"), ("hive02", "abstention")]
)
def test_questions_without_answer(tmp_path, name, kind):
  value = record([OLD, NEW], name=name, kind=kind, answer=None)
  claims = real(load(tmp_path, value)[0])
  assert claims[FIRST].gold.action == Action.APPEND
  assert claims[FIRST].gold.provenance == "derived"
  assert LATER not in claims or claims[LATER].gold.action == Action.APPEND
  streams, skips = load(tmp_path, marked(value))
  assert real(streams)[FIRST].gold.provenance == "annotated"
  assert skips == {"later evidence of a question without answer": 1}


def test_people(tmp_path):
  """Variants, unanswerable twins and questions with one evidence stay together."""
  twin = record([("answer_wax_1", *OLD[1:])], name="hive01_abs")
  sharing = record([("answer_hive_abs_7", *NEW[1:])], name="aaa", kind="multi-session")
  apart = record([("answer_goat_1", OLD[1], [user(SWIM)])], name="goat")
  streams, _ = load(tmp_path, ORACLE, twin, sharing, apart)
  people = {stream.stream_id.split(":")[2]: stream.person for stream in streams}
  assert people == {"hive01": "aaa", "hive01_abs": "aaa", "aaa": "aaa", "goat": "goat"}
  for name in ("oracle", "s"):
    (tmp_path / f"{name}.json").write_text(json.dumps([ORACLE]))
  streams, skips = load_longmemeval([tmp_path / "oracle.json", tmp_path / "s.json"])
  assert {stream.person for stream in streams} == {"hive01"} and not skips
  ids = [stream.stream_id for stream in streams]
  assert len(set(ids)) == len(ids) and {i.split(":")[1] for i in ids} == {"oracle", "s"}


def test_a_session_in_two_haystacks_is_told_to_one_person(tmp_path):
  other = record([("answer_goat_1", OLD[1], [user("I sold my red tractor in April.")]), SPARE, OLD],
                 name="goat", answer_session_ids=["answer_goat_1"])  # fmt: skip
  streams, skips = load(tmp_path, HAYSTACK, other)
  assert skips["session told under another question"] == 2  # one of each
  told = collections.Counter(c.text for s in streams for c in s.claims if c.source == "user")
  assert told[FIRST] >= 1 and SWIM in told
  for text, person in ((FIRST, "hive01"), (SWIM, "goat")):
    assert {s.person for s in streams if text in [c.text for c in s.claims]} == {person}


def test_dirt(tmp_path):
  day = ("answer_hive_1", "2031/03/02", OLD[2])
  value = record([NEW, day, day, ("77ab_1", "2031/3/9 00:00", [user(" "), reply()])])
  value["answer_session_ids"].append("answer_hive_9")
  del value["question_date"]  # not read
  for answer in (9, "9", 9.0, "nine"):
    streams, skips = load(tmp_path, value | {"answer": answer})
    claims = real(streams)
    assert claims[LATER].gold.target == claims[FIRST].id
    assert skips == {
      "session given twice": 1,
      "turn without text": 1,
      "answer session not in the haystack": 1,
    }
  empty = record([("77ab_2", OLD[1], [])], name="hive02")
  streams, skips = load(tmp_path, ORACLE, ORACLE, empty)
  assert skips == {"question given twice": 1, "question without claims": 1}


def test_sessions_of_one_minute_do_not_interleave(tmp_path):
  texts = [f"I painted the {word} door of my studio in {word} tones." for word in
           ("amber", "violet", "copper", "ivory")]  # fmt: skip
  talks = [[user(texts[0]), reply(), user(texts[1])], [user(texts[2]), reply(), user(texts[3])]]
  value = record([(f"answer_{i}", "2031/03/02", talk) for i, talk in enumerate(talks)], kind="x")
  claims = real(load(tmp_path, value)[0])
  times = [claims[text].observed_at for text in texts if text in claims]
  assert len(times) >= 2 and times == sorted(times) and len(set(times)) == len(times)


def test_two_loads_are_equal_and_files_do_not_touch_each_other(tmp_path):
  files = {"b": [HAYSTACK], "a": [marked(ORACLE), record([SPARE], name="solo")]}
  for name, values in files.items():
    (tmp_path / f"{name}.json").write_text(json.dumps(values))
  paths = [tmp_path / f"{name}.json" for name in files]
  both = load_longmemeval(paths)
  assert both == load_longmemeval(paths) == load_longmemeval([str(path) for path in paths[::-1]])
  alone = load_longmemeval(paths[1:])[0]
  hive = [stream for stream in both[0] if ":a:hive01" in stream.stream_id]
  assert hive and hive == [stream for stream in alone if ":a:hive01" in stream.stream_id]


def test_every_action_is_constructed(tmp_path):
  facts = ("I lead the harbour choir on Tuesday evenings.", "I work as a nurse in Bremen.",
           "I keep 14 canaries in the winter garden.", "My sister lives in Lisbon with two cats.",
           "I rent a red cottage near the lake.", "I ride my bike every Monday.")  # fmt: skip
  spare = ("I paid 25 crowns on Friday for blue paint.", "I studied law in Oslo before the war.")
  turns = [user(text) for text in (*facts, *spare)]
  values = [
    record([OLD, NEW, (f"answer_q{i}", "2031/04/04", turns)], name=f"q{i}") for i in range(4)
  ]
  streams, _ = load(tmp_path, *values)
  made = [c for s in streams for c in s.claims if c.gold.provenance == "constructed"]
  assert {claim.gold.action for claim in made} == set(Action)
  assert all(claim.gold.group.startswith("longmemeval/oracle:q") for claim in made)
  own = [claim for claim in made if " my " in claim.text or claim.text.startswith("I ")]
  assert own and all(claim.source == "user" for claim in own)  # only its owner says "I"
  told = {claim.text for claim in made if claim.text in (FIRST, LATER)}
  assert told  # the pair of an update is told in the user's words, too
  for stream in streams:
    check_executable(stream)


def test_close_statements(tmp_path):
  again = ("88cd_1", "2031/04/09", [user(SWIM[:-1] + "!"), user(SWIM.replace("January", "May"))])
  nearby = "I keep two ladders beside the barn roof for my painter."
  early = (*OLD[:2], [*OLD[2], user(nearby)])
  late = (*NEW[:2], [*NEW[2], user(SWIM)])
  streams, skips = load(tmp_path, record([late, early, again, SPARE]))
  (stream,) = (stream for stream in streams if stream.stream_id.endswith(":0"))
  own = [c for c in stream.claims if c.gold.provenance != "constructed"]
  swims = [c for c in own if c.text in (SWIM, SWIM[:-1] + "!")]
  assert [c.gold.action for c in swims] == [Action.APPEND, Action.NOOP, Action.NOOP]
  assert {c.gold.target for c in swims[1:]} == {swims[0].id}
  assert skips["statement close to another"] == 1
  assert skips["statement close to the evidence of an update"] == 1
  assert nearby not in [c.text for c in own]


@pytest.mark.parametrize(
  ("text", "constructed"),
  [
    ("I'm based in a cottage with a tin roof.", True),
    ("I'm based in a cottage, where rain drums on tin.", False),  # two clauses
    ("I visited a quiet museum with my old aunt.", False),  # one can visit many
    ("I sing duets with my aunt on the quay.", True),
    ("I sing duets with Gro on the quay.", False),  # names alone have no common kind
  ],
)
def test_what_has_a_counterpart(tmp_path, text, constructed):
  around = "Where would an uncle meet Ada or Tor? Would Ada like it?"
  talk = ("answer_q", "2031/04/04", [user(text), user(around)])
  streams, _ = load(tmp_path, *(record([talk], name=f"q{i}", kind="x") for i in range(8)))
  made = [c for s in streams for c in s.claims if c.gold.provenance == "constructed"]
  assert bool(made) == constructed


def test_limits_of_what_is_beside_the_question(tmp_path):
  facts = [user(f"I paid {i} crowns to painter number {i * i} in Oslo.") for i in range(3, 48)]
  chat = [user(f"Which owl is best for {word}?") for word in "abcdefghijklmnopqrstuvwxy"]
  beside = ("99ef_1", "2031/04/09", [*facts, *chat])
  streams, skips = load(tmp_path, record([OLD, NEW, beside]))
  assert skips["fact beside the question over the limit"] == 5
  kinds = collections.Counter(c.gold.kind for c in streams[0].claims)
  assert kinds["chat"] == 18


def test_sentences_by_hand():
  assert list(
    split_sentences("I met Dr. Hald at 5 p.m. today. It rained, can you help me?\n- x")
  ) == [
    "I met Dr. Hald at 5 p.m. today.",
    "It rained, can you help me?",
  ]
  assert list(split_sentences("I moved to Ghent in May, can you find me a gym?")) == [
    "I moved to Ghent in May",
    "can you find me a gym?",
  ]
  for text in (ASK, "Thanks for the ideas!", "Write a poem about owls.", "Wow, what a list!"):
    assert says_nothing(text) and not states_fact(text), text
  for text in ("Do you like my 3 owls?", "Write short answers from now on.", "I keep owls.", ""):
    assert not says_nothing(text)
  for text in (FIRST, LATER, SWIM, "My sister Ines lives in Lisbon with two cats."):
    assert states_fact(text) and not says_nothing(text)
  for text in (
    "I'm looking for a good book on Baltic bees.",
    "I think I'll keep 9 beehives on the roof.",
    "I might have kept 9 beehives on the roof.",
    "If I were rich, I'd keep 9 beehives on the roof.",
    "I like the idea of a roof garden in spring.",
    "I keep 6 beehives on the barn roof, don't I?",
    "I tried it on Tuesday evening at the pottery class.",
    "I loved your tips about the barn roof beehives.",
    "Keep 6 beehives on the flat barn roof.",
    "I do.",
  ):
    assert not states_fact(text), text


def test_third_person_by_hand():
  for text, expected in {
    LATER: "The user now keeps nine beehives on the barn roof.",
    "I've sold my boat and I'm based in Bergen.":
      "The user has sold the user's boat and the user is based in Bergen.",
    "I study maps and I don't fly.": "The user studies maps and the user does not fly.",
    "My aunt taught me weaving.": "The user's aunt taught the user weaving.",
    "I just got back from Bergen.": "The user just got back from Bergen.",
    "We moved to Bergen.": None,
    "I'd love a boat.": None,
    "I keep bees and sell honey and have geese.": None,  # a second verb without "I"
    "I frobnicate daily.": None,
    "The loom broke.": None,  # about nobody
  }.items():  # fmt: skip
    assert in_third_person(text) == expected, text


def _broken(**change):
  return json.dumps([ORACLE | {"question_id": "fine"}, ORACLE | change])


@pytest.mark.parametrize(
  ("content", "parts"),
  [
    (None, ["cannot be read"]),
    (json.dumps([ORACLE])[:300], ["not JSON", "cut off"]),
    (json.dumps(ORACLE), ["expected a list of questions", "dict"]),
    ("[]", ["an empty list"]),
    ("[3]", ["record 0", "JSON object"]),
    (_broken(question_id=7), ["record 1", "'question_id'"]),
    (_broken(question_id="\ud800"), ["record 1", "'question_id'"]),
    (_broken(question=None), ["record 1 (hive01)", "'question'"]),
    (_broken(question_type=None), ["'question_type'"]),
    (_broken(answer=["9"]), ["'answer'", "a number"]),
    (_broken(answer=True), ["'answer'"]),
    (_broken(haystack_sessions={}), ["'haystack_sessions'", "a list"]),
    (_broken(haystack_sessions=[3, []]), ["haystack_sessions 0", "list of turns"]),
    (_broken(haystack_sessions=[[3], []]), ["haystack_sessions 0, turn 0", "JSON object"]),
    (_broken(haystack_sessions=[[{"role": "user"}], []]), ["turn 0", "'content'"]),
    (_broken(haystack_sessions=[[user("a", has_answer="yes")], []]), ["turn 0", "'has_answer'"]),
    (_broken(haystack_dates=["2031/03/02 (Sun)"]), ["'haystack_dates'", "2", "found 1"]),
    (_broken(haystack_dates=["2031/03/02", "soon"]), ["'haystack_dates', item 1", "'soon'"]),
    (_broken(haystack_dates=["2031/02/30", "2031/03/02"]), ["'haystack_dates', item 0"]),
    (_broken(haystack_session_ids=["a"]), ["'haystack_session_ids'"]),
    (_broken(haystack_session_ids=["a", 3]), ["'haystack_session_ids'", "a list of texts"]),
    (_broken(answer_session_ids=None), ["'answer_session_ids'"]),
  ],
)
def test_unreadable_files_are_named_with_record_and_field(tmp_path, content, parts):
  path = tmp_path / "oracle.json"
  if content is not None:
    path.write_text(content, encoding="utf-8")
  with pytest.raises(InputError) as error:
    load_longmemeval([path])
  message = str(error.value)
  assert all(part in message for part in [str(path), *parts]), message
  assert "\n" not in message


_JUNK = (None, True, 0, -1, 2.5, "", " ", "?", "I", "\ud800 I keep 3 \x00 owls.", [], {}, [[]],
         "2031/13/45", "2031/01/01 (Mon) 25:00", LATER * 40, "answer_hive_1", "_abs")  # fmt: skip


def _places(value, path=()):
  yield path
  pairs = value.items() if isinstance(value, dict) else enumerate(value)
  for key, item in pairs:
    if isinstance(item, dict | list):
      yield from _places(item, (*path, key))
    else:
      yield (*path, key)


def mutate(value, rng):
  """A copy with one or two parts replaced, removed, repeated or swapped."""
  value = copy.deepcopy(value)
  for _ in range(rng.randint(1, 2)):
    places = [path for path in _places(value) if path]
    if not places:
      break
    *path, key = rng.choice(places)
    holder = value
    for step in path:
      holder = holder[step]
    change = rng.randrange(4)
    if change == 0:
      del holder[key]
    elif change == 1 and isinstance(holder, list):
      holder.insert(rng.randrange(len(holder) + 1), copy.deepcopy(holder[key]))
    elif change == 2 and isinstance(holder[key], str):
      text = holder[key]
      cut = rng.randrange(len(text) + 1)
      holder[key] = text[:cut] + rng.choice(["", "\n", "?", "'", '"', "9", "é", text])
    else:
      holder[key] = copy.deepcopy(rng.choice(_JUNK))
  return value


def check_mutations(number, folder, seed=0):
  """Loads mutated records; (loaded, refused). Every stream that comes out is executable."""
  rng = random.Random(seed)
  tallies = collections.Counter()
  bases = [ORACLE, HAYSTACK, marked(ORACLE), marked(HAYSTACK), record([OLD], name="hive_abs")]
  path = folder / "fuzz.json"
  for _ in range(number):
    path.write_text(json.dumps([mutate(rng.choice(bases), rng)]), encoding="utf-8")
    try:
      streams, skips = load_longmemeval([path])
    except InputError as error:
      assert str(path) in str(error) and "\n" not in str(error)
      tallies["refused"] += 1
      continue
    assert streams or skips
    for stream in streams:
      check_executable(stream)
    tallies["loaded"] += 1
  return tallies


def test_mutated_records_load_or_are_refused_in_a_sentence(tmp_path):
  tallies = check_mutations(MUTATIONS, tmp_path)
  assert min(tallies["loaded"], tallies["refused"]) >= MUTATIONS // 5


def test_real_slices(data_dir):
  paths = sorted((data_dir / "longmemeval").glob("*.json"))
  if not paths:
    pytest.skip("longmemeval/ holds no file")
  streams, skips = load_longmemeval(paths)
  claims = [claim for stream in streams for claim in stream.claims]
  actions = collections.Counter(claim.gold.action for claim in claims)
  assert set(actions) == set(Action) and max(actions.values()) <= 0.6 * len(claims)
  assert len({stream.stream_id for stream in streams}) == len(streams)
  own = [claim for claim in claims if claim.gold.provenance != "constructed"]
  kinds = collections.Counter(claim.gold.kind for claim in own)
  assert kinds["update"] >= 3 and kinds["evidence"] >= 5 and kinds["new"] >= 30
  assert all(claim.source == "user" and "?" not in claim.text for claim in own
             if claim.gold.action != Action.NOOP)  # fmt: skip
  assert skips["question given twice"] == 0 and skips["question without claims"] <= 2
  for stream in streams:
    check_executable(stream)
