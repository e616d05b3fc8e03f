"""LoCoMo converter: all the dirt, what is derived from observations, and the real file."""

import collections
import copy
import json
import random

import numpy as np
import pytest

from tarl_jax.data.locomo import load_locomo
from tarl_jax.data.locomo_gold import says_nothing, token_f1
from tarl_jax.data.record import check_executable
from tarl_jax.errors import InputError
from tarl_jax.types import Action


def turn(name, speaker, text, **more):
  return {"speaker": speaker, "dia_id": name, "text": text, **more}


def sample(turns, notes, name="talk-1", **conversation):
  """A conversation with one session, in the release shape."""
  return {
    "sample_id": name,
    "conversation": {
      "speaker_a": "Orla",
      "speaker_b": "Bram",
      "session_1_date_time": "1:56 pm on 8 May, 2031",
      "session_1": turns,
      **conversation,
    },
    "observation": {"session_1_observation": notes},
    "session_summary": {},
    "event_summary": {"events_session_1": {"Orla": [], "Bram": [], "date": "8 May, 2031"}},
    # Nothing of this is read: ids, lists and answers may be as broken as they like.
    "qa": [{"question": "Q?", "answer": 3, "evidence": ["D8:6; D9:17"], "category": 5}, "?"],
  }


TURNS = [
  turn("D1:1", "Orla", "Hey there! How are you?"),
  turn("D1:2", "Bram", "I adopted a grey donkey from the Millbrook farm on Tuesday.\n"),
  turn("D1:3", "Orla", "Did you adopt a grey donkey from the Millbrook farm?"),
  turn("D1:4", "Orla", "My aunt taught me weaving on a wide loom.", blip_caption="a loom"),
]
DONKEY = "Bram adopted a grey donkey from the Millbrook farm on Tuesday."
LOOM = "Orla learned weaving from her aunt."


def load(tmp_path, *samples):
  path = tmp_path / "talks.json"
  path.write_text(json.dumps(list(samples)), encoding="utf-8")
  return load_locomo(path)


def real(streams):
  return {
    claim.text: claim
    for stream in streams
    for claim in stream.claims
    if claim.gold.provenance != "constructed"
  }


def test_observations_and_turns_become_claims(tmp_path):
  notes = {"Orla": [[LOOM, "D1:4"]], "Bram": [[DONKEY, "D1:2"]]}
  streams, skips = load(tmp_path, sample(TURNS, notes))
  claims = real(streams)
  assert not skips
  donkey = claims[DONKEY]
  spoken = claims["I adopted a grey donkey from the Millbrook farm on Tuesday."]
  assert {donkey.source, spoken.source, donkey.subject} == {"user:Bram", "Bram"}
  assert donkey.observed_at == claims[LOOM].observed_at - 2  # two turns earlier
  # One of the two comes first and is new; the other restates it.
  first, second = sorted((donkey, spoken), key=lambda claim: claim.gold.action)
  assert (first.gold.action, second.gold.action) == (Action.APPEND, Action.NOOP)
  assert second.gold.target == first.id and second.gold.provenance == "derived"
  assert claims["Hey there! How are you?"].gold.action == Action.NOOP
  assert claims["Hey there! How are you?"].gold.scope == "none"
  asked = claims[TURNS[2]["text"]].gold  # overlaps most and is a question: no restatement
  assert (asked.action, asked.target, asked.kind) == (Action.NOOP, None, "chat")
  assert claims[LOOM].gold.action == Action.APPEND and claims[LOOM].source == "user:Orla"


def test_a_question_or_another_speaker_restates_nothing(tmp_path):
  spoken = "I adopted a grey donkey from the Millbrook farm on Tuesday"
  for text, speaker, expected in (
    (f"{spoken}.", "Bram", True),
    (f"{spoken}, did you know?", "Bram", False),
    (f"{spoken}.", "Orla", False),
    ("I have a new companion.", "Bram", False),
  ):
    value = sample([turn("D1:1", speaker, text)], {"Bram": [[DONKEY, "D1:1"]]})
    assert (text in real(load(tmp_path, value)[0])) == expected, (text, speaker)


def test_dates_are_read_on_both_sides_of_noon(tmp_path):
  times = {}
  for hour in ("12:05 am", "12:05 pm", "11:59 pm"):
    value = sample(
      TURNS, {"Bram": [[DONKEY, "D1:1"]]}, session_1_date_time=f"{hour} on 8 May, 2031"
    )
    times[hour] = real(load(tmp_path, value)[0])[DONKEY].observed_at
  assert times["12:05 pm"] - times["12:05 am"] == 12 * 60
  assert times["11:59 pm"] - times["12:05 pm"] == 11 * 60 + 54


def test_evidence_in_every_shape(tmp_path):
  shapes = {
    "D1:2": {},
    "D1:2, D1:4": {},
    "D1:4; D1:2": {},
    "D": {"evidence id malformed": 1},
    "D1:99": {"evidence turn not in the session": 1},
    "": {"evidence id malformed": 1},
  }
  cases = [(["x", evidence], skips) for evidence, skips in shapes.items()]
  cases += [(["x", ["D1:4", "D1:2"]], {}), (["x", [3]], {"evidence id malformed": 1})]
  cases += [(["x", []], {}), (["x"], {"observation without evidence": 1})]
  for note, expected in cases:
    streams, skips = load(tmp_path, sample(TURNS, {"Bram": [[DONKEY, *note[1:]]]}))
    assert skips == expected, note
    assert DONKEY in real(streams)
  session = sample(TURNS, {"Bram": [[DONKEY, ["D1:4", "D1:2"]]]})
  spoken = "I adopted a grey donkey from the Millbrook farm on Tuesday."
  assert spoken in real(load(tmp_path, session)[0])


def test_sessions_that_miss_one_half(tmp_path):
  value = sample(TURNS, {"Bram": [[DONKEY, "D1:2"]]})
  value["conversation"] |= {
    "session_2_date_time": "9:00 am on 1 June, 2031",  # dated, no turns
    "session_3_date_time": "9:00 am on 2 June, 2031",
    "session_3": [
      turn("D3:1", "Orla", " "),
      turn("D3:2", "Orla", "Hm."),
      turn("D3:2", "Orla", "x"),
    ],
  }
  value["observation"]["session_9_observation"] = {"Bram": [["Bram sings.", "D9:1"]]}
  value["observation"]["session_1_observation"]["Orla"] = [["  ", "D1:4"]]
  streams, skips = load(tmp_path, value)
  assert skips == {
    "dated session without turns": 1,
    "observations without a session": 1,
    "session without observations": 1,
    "turn without text": 1,
    "turn id given twice": 1,
    "observation without text": 1,
  }
  assert "Bram sings." not in real(streams)


def test_a_session_has_the_number_that_is_written(tmp_path):
  """Other digits, leading zeros and numbers beyond all reading name no session."""
  good = sample(TURNS, {"Bram": [[DONKEY, "D1:2"]]})
  odd = copy.deepcopy(good)
  for number in ("01", "\u0663", "1" * 5000, "-1", ""):
    odd["conversation"][f"session_{number}"] = TURNS
    odd["conversation"][f"session_{number}_date_time"] = "?"
    odd["observation"][f"session_{number}_observation"] = {}
  assert load(tmp_path, odd) == load(tmp_path, good)


def test_close_observations_are_dropped_and_repeats_are_noops(tmp_path):
  notes = {
    "Bram": [
      [DONKEY, "D1:1"],
      [DONKEY.upper(), "D1:3"],
      [DONKEY.replace("Tuesday", "a rainy Tuesday"), "D1:4"],
      *([text, "D1:4"] for text in ("Bram sells jam.", "Bram fears moths.", "Bram lost a key.")),
    ]
  }
  streams, skips = load(tmp_path, sample(TURNS, notes))
  assert skips == {"observation close to a live entry": 1}
  assert real(streams)[DONKEY.upper()].gold.kind == "exact_repeat"


def test_conversations_given_twice_or_without_observations(tmp_path):
  good = sample(TURNS, {"Bram": [[DONKEY, "D1:2"]]})
  streams, skips = load(tmp_path, good, good, sample(TURNS, {}, name="talk-2"))
  assert skips == {"conversation given twice": 1, "conversation without observations": 1}
  assert {stream.person for stream in streams} == {"talk-1"}


def test_token_f1_and_chat_by_hand():
  assert token_f1("a b c", "b c d e") == pytest.approx(2 * 2 / 7)
  assert token_f1("", "") == 0.0
  for text in ("Thanks, Orla!", "What did you think of it?", "Wow! Where was that taken?"):
    assert says_nothing(text)
  for text in ("Thanks! I moved to Ghent.", "Nice, see you at 8.", "The loom broke.", ""):
    assert not says_nothing(text)


GOOD = sample(TURNS, {"Bram": [[DONKEY, "D1:2"]]})


def _broken(change):
  value = copy.deepcopy(GOOD)
  change(value)
  return json.dumps([GOOD | {"sample_id": "first"}, value])


@pytest.mark.parametrize(
  ("content", "parts"),
  [
    (None, ["cannot be read"]),
    (json.dumps([GOOD])[:300], ["not JSON", "cut off"]),
    (json.dumps(GOOD), ["expected a list of conversations", "dict"]),
    ("[]", ["an empty list"]),
    ("[3]", ["sample 0", "JSON object"]),
    (_broken(lambda s: s.pop("sample_id")), ["sample 1", "'sample_id'"]),
    (_broken(lambda s: s.pop("observation")), ["sample 1 (talk-1)", "'observation'"]),
    (_broken(lambda s: s["conversation"].update(speaker_b=7)), ["'speaker_b'"]),
    (_broken(lambda s: s["conversation"].update(session_1={})), ["'session_1'", "a list"]),
    (
      _broken(lambda s: s["conversation"].update(session_1_date_time="8 May")),
      ["'session_1_date_time'", "date"],
    ),
    (
      _broken(lambda s: s["conversation"].update(session_1_date_time="1:56 pm on 31 June, 2031")),
      ["'session_1_date_time'", "date"],
    ),
    (_broken(lambda s: s["conversation"].pop("session_1_date_time")), ["'session_1_date_time'"]),
    (
      _broken(lambda s: s["conversation"]["session_1"][1].update(text=None)),
      ["session_1, turn 1", "'text'"],
    ),
    (
      _broken(lambda s: s["observation"].update(session_1_observation={"Bram": ["flat"]})),
      ["session_1_observation", "'Bram'", "item 0"],
    ),
    (
      _broken(lambda s: s["observation"].update(session_1_observation={"Bram\n\u2028B.": 3})),
      ["session_1_observation", "'Bram B.'", "a list"],
    ),
    (
      _broken(lambda s: s["observation"].update(session_1_observation={"Bram\nB.": [3]})),
      ["session_1_observation", "'Bram B.'", "item 0"],
    ),
    (
      _broken(lambda s: s.update(sample_id="talk\x851", conversation={})),
      ["sample 1 (talk 1)", "'speaker_a'"],
    ),
    (
      _broken(lambda s: s["observation"].update(session_1_observation=["flat"])),
      ["'session_1_observation'"],
    ),
  ],
)
def test_unreadable_files_are_named_with_sample_and_field(tmp_path, content, parts):
  path = tmp_path / "talks.json"
  if content is not None:
    path.write_text(content, encoding="utf-8")
  with pytest.raises(InputError) as error:
    load_locomo(path)
  message = str(error.value)
  assert all(part in message for part in [str(path), *parts]), message
  assert len(message.splitlines()) == 1


FUZZ = 300  # mutated files of the fuzz test
_JUNK = (None, True, 0, -1.5, 10**30, "", " \n", "\ud800", [], [[]], {}, {"a": [1]}, "D1:1;D3:9")
_CHARS = " .\n\r:,0179Aisof'\x00\x85é٣\u2028\ud800"
_TALK = [
  *TURNS,
  turn("D1:5", "Bram", "My new boat has 3 masts and sails from Oban every June."),
  turn("D1:6", "Orla", "Wow, congrats!"),
]
_LATER = [turn("D2:1", "Orla", "I teach pottery in Galway now."), turn("D2:2", "Bram", "Nice!")]
_NOTES = {
  "Orla": [[LOOM, "D1:4"], ["Orla works at a mill near Cork.", ["D1:3", "D1:4"]]],
  "Bram": [[DONKEY, "D1:2"], ["Bram's boat has 3 masts and sails from Oban.", "D1:5, D1:2"]],
}


def _spoil_text(text, rng):
  for _ in range(rng.randrange(1, 4)):
    i = rng.randrange(len(text) + 1)
    text = text[:i] + rng.choice(_CHARS) * rng.choice((0, 1, 1, 3)) + text[i + rng.randrange(4) :]
  return text


def _mutate(value, rng):
  """One change somewhere in a JSON value: of a name, an item or a character."""
  if isinstance(value, dict | list) and value and rng.random() < 0.9:
    key = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
    draw = rng.random()
    if draw < 0.1:
      del value[key]
    elif draw < 0.2 and isinstance(value, dict):
      value[_spoil_text(key, rng)] = value.pop(key)
    elif draw < 0.3 and isinstance(value, list):
      value.insert(key, copy.deepcopy(rng.choice(value)))
    else:
      value[key] = _mutate(value[key], rng)
    return value
  if isinstance(value, str) and rng.random() < 0.7:
    return _spoil_text(value, rng)
  return copy.deepcopy(rng.choice(_JUNK))


def fuzz(path, seed):
  """Loads a mutated file: whether it was "refused" in a sentence, "read" or read with "skips"."""
  rng = random.Random(seed)
  more = {"session_2_date_time": "9:00 am on 1 June, 2031", "session_2": _LATER}
  value = sample(_TALK, _NOTES, **more)
  value["observation"]["session_2_observation"] = {
    "Orla": [["Orla teaches pottery in Galway.", "D2:1"]]
  }
  samples = [copy.deepcopy(value)]
  for _ in range(rng.randrange(1, 4)):
    # Mostly within what is read; a change of the sample itself can take that away.
    part = samples[0].get(rng.choice(("conversation", "observation")))
    _mutate(part if isinstance(part, dict) and part and rng.random() < 0.9 else samples[0], rng)
  if rng.random() < 0.1:
    samples = _mutate(samples, rng)
  data = json.dumps(samples).encode()
  if rng.random() < 0.05:
    data = data[: rng.randrange(len(data))] + bytes(rng.randrange(256) for _ in range(3))
  path.write_bytes(data)
  try:
    streams, skips = load_locomo(path)
  except InputError as error:
    assert len(str(error).splitlines()) == 1, repr(str(error))
    return "refused"
  for stream in streams:
    check_executable(stream)
  return "skips" if skips else "read"


def test_mutated_files_are_read_or_refused_in_one_sentence(tmp_path):
  outcomes = collections.Counter(fuzz(tmp_path / "fuzz.json", seed) for seed in range(FUZZ))
  assert len(outcomes) == 3 and min(outcomes.values()) > FUZZ // 20, outcomes


def test_real_file(data_dir):
  path = data_dir / "locomo" / "locomo10.json"
  if not path.exists():
    pytest.skip("locomo/locomo10.json is not there")
  streams, skips = load_locomo(path)
  claims = [claim for stream in streams for claim in stream.claims]
  actions = collections.Counter(claim.gold.action for claim in claims)
  assert len({stream.person for stream in streams}) == 10
  assert 8000 <= len(claims) <= 14000 and max(len(s.claims) for s in streams) <= 700
  # The share that the benchmark asks of every class, see test_halumem.
  assert all(actions[action] >= 0.08 * len(claims) for action in Action)
  assert max(actions.values()) <= 0.4 * len(claims)
  assert skips["dated session without turns"] == 16 and skips["evidence id malformed"] == 0
  kinds = collections.Counter(c.gold.kind for c in claims if c.gold.provenance == "derived")
  observed = kinds["new"] + kinds["new_turn"] + kinds["exact_repeat"]
  assert observed + skips["observation close to a live entry"] == 2541
  assert 500 <= kinds["restated"] <= 1500 and kinds["chat"] <= 180
  for stream in streams:
    check_executable(stream)
  # Neither the role nor the time alone decides the label.
  for role in ("user", "assistant", "friend", "hearsay"):
    labels = collections.Counter(c.gold.action for c in claims if c.source.startswith(role))
    assert len(labels) >= 3 and max(labels.values()) <= 0.62 * labels.total()
  untimed = collections.Counter(c.gold.action for c in claims if c.observed_at is None)
  assert len(untimed) >= 3 and max(untimed.values()) <= 0.6 * untimed.total()
  readings = [c.source_reliability - c.gold.reliability for c in claims if c.source_reliability]
  assert 0.05 < np.std(readings) < 0.065
