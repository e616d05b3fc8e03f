"""FactConsolidation converter: templates, labels, dirt, streams by subject, the real file."""

import collections
import copy
import json
import random

import hypothesis
import pytest
from hypothesis import strategies as st

from tarl_jax.data.factconsolidation import Question, load_factconsolidation, load_questions
from tarl_jax.data.factconsolidation_gold import (
  EPOCH,
  Fact,
  by_subject,
  parse_fact,
  with_scenes,
)
from tarl_jax.data.record import check_executable, read_streams, write_streams
from tarl_jax.errors import InputError
from tarl_jax.types import Action

FUZZ = 600  # mutated files of the fuzz test


def row(facts, size="2k", hops="sh", questions=(), answers=(), heading="Some facts follow:"):
  """A row in the release shape; `facts` are lines with their serial numbers or sentences."""
  lines = [f if f[:1].isdigit() or f == "" else f"{i}. {f}" for i, f in enumerate(facts)]
  source = f"factconsolidation_{hops}_{size}"
  return {
    "context": "\n".join([heading, *lines, ""]),
    "questions": list(questions),
    "answers": list(answers),
    "metadata": {
      "demo": None,
      "qa_pair_ids": [f"{source}_no{i}" for i in range(len(questions))],
      "source": source,
    },
  }


def load(folder, *rows, loader=load_factconsolidation):
  path = folder / "facts.json"
  path.write_text(json.dumps(list(rows)), encoding="utf-8")
  return loader([path])


MILL = "Orrin Vask was born in the city of Dunmere."
MOVED = "Orrin Vask was born in the city of Port Lull."
GUILD = "The chairperson of Lantern Guild is Ysolde Marr."


@pytest.mark.parametrize(
  ("text", "subject", "relation", "value"),
  [
    (MILL, "Orrin Vask", "was born in the city of", "Dunmere"),
    ("Pell Ltd. was founded by Ivo Pell.", "Pell Ltd.", "was founded by", "Ivo Pell"),
    ("Glimt was performed by Sael Co..", "Glimt", "was performed by", "Sael Co."),
    ("The Owls is famous for Night Tea.", "The Owls", "is famous for", "Night Tea"),
    ("Ivo Pell's child is Una Pell.", "Ivo Pell", "child", "Una Pell"),
    ("The univeristy where Una was educated is Sole Hall.", "Una", "univeristy", "Sole Hall"),
    ("The university where Una was educated is Sole Hall.", "Una", "university", "Sole Hall"),
    ("The company that produced Glimt 7 is Sael Co..", "Glimt 7", "company", "Sael Co."),
    ("The type of music that Una plays is reedfolk.", "Una", "type of music", "reedfolk"),
    ("The name of the current head of the Vell government is Una.", "Vell", "current head", "Una"),
    (
      "The name of the current head of state in Vell is Una.",
      "Vell",
      "current head of state",
      "Una",
    ),
    (
      "The headquarters of Pell Ltd. is located in the city of Dunmere.",
      "Pell Ltd.",
      "headquarters",
      "Dunmere",
    ),
    ("The origianl carrier of Glimt is Radio Vell.", "Glimt", "origianl carrier", "Radio Vell"),
    ("The author of What Rain is For is Una.", "What Rain is For", "author", "Una"),
    ("The Warden of the Isle of Vell is Una.", "the Isle of Vell", "Warden", "Una"),
    ("The lamplighter is Una.", "lamplighter", "is", "Una"),
  ],
)
def test_sentences_by_hand(text, subject, relation, value):
  assert parse_fact(text) == Fact(subject, relation, value)


@pytest.mark.parametrize(
  "text", ["Una sings.", "", "The author of  is .", "Una is married to ..", "is married to Una."]
)
def test_other_sentences_fit_no_template(text):
  assert parse_fact(text) is None


def test_labels_of_a_small_context(tmp_path):
  facts = [MILL, GUILD, MILL.upper().replace("WAS BORN IN THE CITY OF", "was born in the city of")]
  facts += [MOVED, MILL + ".", GUILD.replace("Ysolde Marr", "Bo Ler")]
  (stream,), skips = load(tmp_path, row(facts))
  assert not skips
  assert (stream.stream_id, stream.source) == ("factconsolidation_2k", "factconsolidation")
  told = [(c.gold.action, c.gold.target, c.gold.temporal, c.gold.kind) for c in stream.claims]
  name = "factconsolidation_2k:{}".format
  assert told == [
    (Action.APPEND, None, False, "new"),
    (Action.APPEND, None, False, "new"),
    (Action.NOOP, name(0), False, "repeat"),
    (Action.REVISE, name(0), True, "change"),
    (Action.REVISE, name(3), True, "change"),  # the first value again is a change, too
    (Action.REVISE, name(1), True, "change"),
  ]
  assert [claim.text for claim in stream.claims] == facts  # whole, with every dot
  assert [claim.observed_at - EPOCH for claim in stream.claims] == list(range(6))
  assert {claim.source for claim in stream.claims} == {"document"}
  assert {claim.gold.provenance for claim in stream.claims} == {"derived"}
  assert [claim.subject for claim in stream.claims][:2] == ["Orrin Vask", "Lantern Guild"]
  groups = [claim.gold.group for claim in stream.claims]
  assert groups[0] == groups[2] == groups[3] == groups[4] != groups[1] == groups[5]


def test_the_label_needs_a_trusted_source(tmp_path):
  (stream,), _ = load(tmp_path, row([MILL, MOVED]))
  assert all(claim.gold.reliability > 0.65 for claim in stream.claims)


def test_dirty_lines(tmp_path):
  lines = [
    f"7. {MOVED}",
    f"3. {MILL}\r",  # out of order
    "  12.   Una is married to Ivo.  ",
    "",
    GUILD,  # no serial
    f"x. {GUILD}",
    "8. Una hums a tune.",
    "3. Una is married to Bo.",
    "9.",
    "99999999. Una is married to Bo.",
    "٣. Una is married to Bo.",
  ]
  value = row([])
  value["context"] = "\n".join(["Heading:", *lines])
  (stream,), skips = load(tmp_path, value)
  assert skips == {
    "line without a serial number": 5,
    "serial number given twice": 1,
    "fact fits no template": 1,
  }
  assert [c.text for c in stream.claims] == [MILL, MOVED, "Una is married to Ivo."]
  assert [c.observed_at - EPOCH for c in stream.claims] == [3, 7, 12]
  assert [c.gold.action for c in stream.claims] == [Action.APPEND, Action.REVISE, Action.APPEND]


def test_rows_of_one_context_give_one_stream_and_all_questions(tmp_path):
  many = row([MILL, MOVED], hops="mh", questions=["Where?", "Who?"], answers=[["Lull"], "Una"])
  one = row([MILL, MOVED], questions=["When?"], answers=[[["9 pm", ["nine"]], 9, None]])
  other = row([GUILD], size="9k", questions=["Guild?"], answers=[["Marr"]])
  alien = row([GUILD]) | {"metadata": {"source": "bookquiz_2k"}}
  empty = row(["Una hums."], size="1k")
  streams, skips = load(tmp_path, many, one, other, alien, one, empty)
  assert [stream.stream_id for stream in streams] == [
    "factconsolidation_2k",
    "factconsolidation_9k",
  ]
  assert skips == {
    "context given twice": 1,
    "row of another dataset": 1,
    "row given twice": 1,
    "fact fits no template": 1,
    "context without facts": 1,
  }
  assert len({stream.person for stream in streams}) == 1  # contexts repeat each other
  assert load(tmp_path, many, one, other, alien, one, loader=load_questions) == {
    "factconsolidation_2k": [
      Question("Where?", ("Lull",), "multi"),
      Question("Who?", ("Una",), "multi"),
      Question("When?", ("9 pm", "nine", "9"), "single"),
    ],
    "factconsolidation_9k": [Question("Guild?", ("Marr",), "single")],
  }


def test_rows_one_a_line(tmp_path):
  rows = [row([MILL, MOVED]), row([GUILD], size="9k")]
  path = tmp_path / "facts.jsonl"
  path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
  assert load_factconsolidation([path]) == load(tmp_path, *rows)


VERBS = ("was born in the city of", "is famous for", "is married to")
TOLD = st.lists(
  st.tuples(
    st.sampled_from(["Una", "UNA", "Ivo", "Bo", "Pell Ltd."]),
    st.sampled_from(VERBS),
    st.sampled_from(["Dunmere", "dunmere", "Lull", "Sael Co.", "Marr"]),
    st.sampled_from([".", "..", ""]),
  ),
  min_size=1,
  max_size=40,
)


def replay(claims, accepted=None):
  """Texts that are accepted after the gold transactions, by claim id."""
  accepted = {} if accepted is None else accepted
  for claim in claims:
    if claim.gold.action == Action.REVISE:
      del accepted[claim.gold.target]
    if claim.gold.action == Action.NOOP:
      assert claim.gold.target in accepted
    else:
      accepted[claim.id] = claim.text
  return accepted


@hypothesis.settings(derandomize=True, deadline=None, max_examples=60)
@hypothesis.given(told=TOLD, parts=st.integers(1, 5), max_claims=st.integers(1, 12))
def test_gold_leads_to_the_last_value_of_each_slot(tmp_path_factory, told, parts, max_claims):
  facts = [f"{subject} {verb} {value}{end}" for subject, verb, value, end in told]
  (stream,), skips = load(tmp_path_factory.getbasetemp(), row(facts))
  assert not skips
  last = {}
  for (subject, verb, value, _), text in zip(told, facts):
    slot, value = (subject.lower(), verb), value.lower().rstrip(".")
    if last.get(slot, ("",))[0] != value:
      last[slot] = value, text
  check_executable(stream)
  whole = replay(stream.claims)
  assert sorted(whole.values()) == sorted(text for _, text in last.values())
  # Divided by subject, the same claims lead to the same memory.
  streams = by_subject([stream], parts, max_claims=max_claims)
  assert {c for s in streams for c in s.claims} == set(stream.claims)
  assert sum(len(s.claims) for s in streams) == len(stream.claims)
  united = {}
  for part in streams:
    check_executable(part)
    replay(part.claims, united)
    assert [c.observed_at for c in part.claims] == sorted(c.observed_at for c in part.claims)
    slots = collections.Counter(c.gold.group for c in part.claims)
    assert len(part.claims) <= max(max_claims, *slots.values())
  assert united == whole
  home = {}
  for part in streams:
    for claim in part.claims:
      assert home.setdefault(claim.subject.lower(), part.person) == part.person
  assert len({s.stream_id for s in streams}) == len(streams)


def town(serial, count, renamed=()):
  """Facts about `count` towns, then other values for those in `renamed`."""
  facts = [f"The head coach of Town {i} is Coach {i + serial}." for i in range(count)]
  return facts + [f"The head coach of Town {i} is Captain {i}." for i in renamed]


def test_a_slot_of_several_contexts_is_told_once(tmp_path):
  rows = row(town(0, 5, [1]), size="1k"), row(town(0, 8, range(6)), size="2k")
  streams, _ = load(tmp_path, *rows, row(["Una is married to Bo."], size="0k"))
  skips = collections.Counter()
  parts = by_subject(streams, 3, skips=skips)
  assert skips == {"slot told in a larger context": 5}
  told = collections.Counter(claim.text for part in parts for claim in part.claims)
  assert set(told.values()) == {1} and len(told) == 15
  assert {claim.id.split(":")[0] for part in parts for claim in part.claims} == {
    "factconsolidation_2k",
    "factconsolidation_0k",
  }
  assert by_subject([streams[1], streams[2], streams[0]], 3) == parts  # whatever the order
  alone = by_subject([streams[0]], 3)  # a subject is in the same bucket in every context
  homes = [{c.subject: p.person for p in s for c in p.claims} for s in (parts, alone)]
  assert len(homes[1]) == 5 and homes[1].items() <= homes[0].items()


def test_long_parts_are_divided_evenly(tmp_path):
  streams, _ = load(tmp_path, row(town(0, 60, range(0, 60, 2))))
  parts = by_subject(streams, 1, max_claims=40)
  assert [len(part.claims) for part in parts] == [30, 30, 30]
  with pytest.raises(InputError, match="parts is 0"):
    by_subject(streams, 0)
  with pytest.raises(InputError, match="max_claims 0"):
    by_subject(streams, max_claims=0)


def test_by_subject_takes_only_streams_of_this_source(tmp_path):
  (stream,), _ = load(tmp_path, row([MILL]))
  claim = stream.claims[0]
  alien = type(stream)("talk", "else", (type(claim)("c1", "Una hums."),), "una")
  with pytest.raises(InputError, match=r"'c1', field 'text': fits no template"):
    by_subject([alien])


PLACES = "Dunmere Lull Vell Sole Marr Pell Glimt Sael Ostrand Quay Tarn Wick Yarrow Zell".split()
BIG = [
  text
  for i, place in enumerate(PLACES)
  for text in (
    f"{place} Rovers plays the position of {PLACES[i - 1]} keeper.",
    f"{place} Rovers plays the position of {PLACES[i - 2]} sweeper.",
    f"The capital of New {place} is {PLACES[i - 3]}ton.",
    f"The capital of New {place} is {PLACES[i - 4]}burg.",
    f"{place} Opera is employed by nobody called {place}.",
  )
]


def test_scenes_bring_the_actions_that_the_file_lacks(tmp_path):
  streams, _ = load(tmp_path, row(BIG))
  parts = by_subject(streams, 2)
  skips = collections.Counter()
  both = with_scenes(parts, max_pairs=6, skips=skips)
  scenes = both[len(parts) :]
  assert both[: len(parts)] == parts and not set(skips) - {"pair resembles another text"}
  assert {s.person for s in scenes} == {s.person for s in parts} and len(scenes) == 2
  changed = {c.gold.group for s in parts for c in s.claims if c.gold.action == Action.REVISE}
  texts = {c.gold.group: set() for s in parts for c in s.claims}
  for part in parts:
    for claim in part.claims:
      texts[claim.gold.group].add(claim.text)
  for scene in scenes:
    check_executable(scene)
    assert 4 <= len({c.gold.group for c in scene.claims}) <= 6
    for claim in scene.claims:
      assert claim.gold.provenance == "constructed" and claim.gold.group in changed
      assert claim.text in texts[claim.gold.group]
  kinds = collections.Counter(c.gold.kind for s in scenes for c in s.claims)
  assert kinds["outdated"] and kinds["repeat"] and kinds["untrusted_new"]
  assert {c.gold.action for s in scenes for c in s.claims} == set(Action)
  assert len({s.stream_id for s in both}) == len(both)
  assert with_scenes(parts, max_pairs=6) == both
  quiet = by_subject(load(tmp_path, row([MILL, GUILD]))[0])
  assert with_scenes(quiet) == quiet  # nothing changes, so there is nothing to tell


def test_a_slot_that_changes_twice_gives_one_pair(tmp_path):
  again = [f"The capital of New {place} is {place}." for place in PLACES]
  parts = by_subject(load(tmp_path, row(BIG + again))[0], 1)
  skips = collections.Counter()
  (scene,) = with_scenes(parts, skips=skips)[len(parts) :]
  texts = {c.gold.group: set() for c in scene.claims}
  for claim in scene.claims:
    texts[claim.gold.group].add(claim.text)
  assert len(texts) + skips["pair resembles another text"] == 28  # slots, each once
  assert max(map(len, texts.values())) == 2


def test_streams_survive_the_public_format(tmp_path):
  streams, _ = load(tmp_path, row(BIG))
  streams = with_scenes(by_subject(streams, 2))
  write_streams(tmp_path / "out.jsonl", streams)
  assert read_streams(tmp_path / "out.jsonl") == streams


GOOD = row([MILL, GUILD, MOVED], questions=["Where?"], answers=[["Lull"]])


def broken(change):
  value = copy.deepcopy(GOOD)
  change(value)
  return json.dumps([GOOD | {"metadata": {"source": "factconsolidation_sh_1k"}}, value])


@pytest.mark.parametrize(
  ("content", "parts"),
  [
    (None, ["cannot be read"]),
    (b"PAR1\xff\xfe", ["not UTF-8", "parquet"]),
    ("", ["is empty"]),
    (json.dumps([GOOD])[:90], ["not JSON", "cut off"]),
    (json.dumps(GOOD)[:90], ["line 1", "not JSON"]),
    ("[]", ["an empty list"]),
    ("[3]", ["row 0", "JSON object"]),
    (broken(lambda r: r.pop("context")), ["row 1", "'context'"]),
    (broken(lambda r: r.pop("metadata")), ["row 1", "'metadata'"]),
    (broken(lambda r: r["metadata"].update(source=None)), ["'metadata', field 'source'"]),
    (broken(lambda r: r.update(questions="Where?")), ["'questions'", "a list"]),
    (broken(lambda r: r.update(questions=[" "])), ["'questions'", "item 0"]),
    (broken(lambda r: r.update(answers=[])), ["'answers'", "1 items"]),
    (broken(lambda r: r.update(answers=[[[], None]])), ["'answers'", "item 0"]),
    (
      json.dumps([GOOD, row([MILL], hops="mh")]),
      ["row 1", "'context'", "row 0", "'2k'", "one release"],
    ),
  ],
)
def test_unreadable_files_are_named_with_row_and_field(tmp_path, content, parts):
  path = tmp_path / "facts.json"
  if content is not None:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
  with pytest.raises(InputError) as error:
    load_questions([path])
  message = str(error.value)
  assert all(part in message for part in [str(path), *parts]), message
  assert "\n" not in message


JUNK = (None, True, 0, -1.5, 10**30, "", " \n", "\ud800", "7. ", [], [[]], {}, {"a": [1]}, "٣. x")
CHARS = " .\n\r:0179Aisof'\x00\x85é\u2028\ud800"


def mutate(value, rng):
  """One random change somewhere in a JSON value."""
  if isinstance(value, dict | list) and value and rng.random() < 0.9:
    keys = list(value) if isinstance(value, dict) else range(len(value))
    key = rng.choice(list(keys))
    if rng.random() < 0.15:
      del value[key]
    elif isinstance(value, list) and rng.random() < 0.1:
      value.insert(key, copy.deepcopy(rng.choice(value)))
    else:
      value[key] = mutate(value[key], rng)
    return value
  if isinstance(value, str) and value and rng.random() < 0.8:
    for _ in range(rng.randrange(1, 6)):
      i = rng.randrange(len(value) + 1)
      value = (
        value[:i] + rng.choice(CHARS) * rng.choice((0, 1, 1, 3)) + value[i + rng.randrange(4) :]
      )
    return value
  return copy.deepcopy(rng.choice(JUNK))


def fuzz(path, seed):
  """Loads a mutated file; returns whether it was refused (one sentence) or read."""
  rng = random.Random(seed)
  rows = [
    row(BIG[:20], hops="mh", questions=["A?", "B?"], answers=[["x"], [["y"], 3]]),
    row(BIG[:20], questions=["C?"], answers=["z"]),
    row(BIG[10:40] + [MILL, MOVED], size="9k"),
  ]
  for _ in range(rng.randrange(1, 4)):
    rows = mutate(rows, rng)
  data = json.dumps(rows).encode()
  if rng.random() < 0.1:
    cut = rng.randrange(len(data))
    data = data[:cut] + bytes(rng.randrange(256) for _ in range(rng.randrange(3)))
  path.write_bytes(data)
  refused = False
  streams = []
  for loader in (load_questions, load_factconsolidation):
    try:
      found = loader([path])
      streams = found[0] if loader is load_factconsolidation else []
    except InputError as error:
      assert "\n" not in str(error)
      refused = True
  parts = by_subject(streams, 2)
  for stream in [*streams, *(with_scenes(parts) if seed % 20 == 0 else parts)]:
    check_executable(stream)
  return refused


def test_mutated_files_are_skipped_or_refused(tmp_path):
  refused = sum(fuzz(tmp_path / "fuzz.json", seed) for seed in range(FUZZ))
  assert 0.1 * FUZZ < refused < 0.9 * FUZZ  # both ends are met


def test_real_file(data_dir):
  path = data_dir / "factconsolidation" / "Conflict_Resolution.json"
  if not path.exists():
    pytest.skip("factconsolidation/Conflict_Resolution.json is not there")
  streams, skips = load_factconsolidation([path])
  assert skips == {"context given twice": 4}  # every fact fits a template
  assert [len(stream.claims) for stream in streams] == [455, 2310, 4580, 18332]
  revised = [
    {c.gold.group for c in stream.claims if c.gold.action == Action.REVISE} for stream in streams
  ]
  assert [len(slots) for slots in revised] == [161, 837, 1691, 7236]
  questions = load_questions([path])
  assert list(questions) == [stream.stream_id for stream in streams]
  for asked in questions.values():
    assert collections.Counter(q.hops for q in asked) == {"multi": 100, "single": 100}
  dropped = collections.Counter()
  parts = by_subject(streams, skips=dropped)
  # All slots of the smaller contexts are in the largest one.
  slots = [len({c.gold.group for c in stream.claims}) for stream in streams]
  assert dropped == {"slot told in a larger context": sum(slots[:3])}
  assert sum(len(part.claims) for part in parts) == 18332
  assert len({part.person for part in parts}) == 20
  assert 200 <= min(len(p.claims) for p in parts) and max(len(p.claims) for p in parts) <= 400
  both = with_scenes(parts)
  scenes = both[len(parts) :]
  assert len(scenes) == 20
  actions = collections.Counter(c.gold.action for s in scenes for c in s.claims)
  assert all(actions[action] >= 0.08 * actions.total() for action in Action)
  for stream in both:
    check_executable(stream)
