"""The common record: what is written is read back, and every fault names its place."""

import datetime
import json

import hypothesis
import hypothesis.strategies as st
import pytest

from tarl_jax.data.jsonl import minutes, read_jsonl, to_iso
from tarl_jax.data.record import (
  PROVENANCES,
  SCOPES,
  Case,
  Claim,
  Gold,
  Stream,
  check_executable,
  read_cases,
  read_streams,
  write_streams,
)
from tarl_jax.errors import InputError
from tarl_jax.types import OUTCOMES, Action

FIRST, LAST = (minutes(datetime.datetime(year, 1, 1)) for year in (1, 9999))
TEXT = st.text(min_size=1, max_size=8).filter(str.strip)
NAME = st.text(max_size=3)
SHARE = st.none() | st.floats(0, 1) | st.sampled_from([0.0, 1.0])
TIME = st.none() | st.integers(FIRST, LAST)


@st.composite
def executable_streams(draw) -> Stream:
  """A stream whose gold can be executed, with any text, time and source."""
  claims: list[Claim] = []
  accepted: list[str] = []
  pending: list[str] = []
  for number in range(draw(st.integers(1, 6))):
    name = f"c{number}" + draw(NAME)
    earlier = [claim.id for claim in claims]
    action = draw(st.sampled_from(list(Action) if accepted else [Action.APPEND, Action.NOOP]))
    needs_target = action in (Action.REVISE, Action.REJECT_CONFLICT)
    about = st.sampled_from(earlier) if earlier else st.none()
    target = draw(st.sampled_from(accepted) if needs_target else st.none() | about)
    others = tuple(draw(st.lists(about, max_size=2))) if earlier else ()
    enters = action in (Action.APPEND, Action.REVISE)
    settles = bool(pending) and enters and draw(st.booleans())
    resolves = draw(st.sampled_from(pending)) if settles else None
    gold = Gold(
      action=action,
      target=target,
      provenance=draw(st.sampled_from(PROVENANCES)),
      temporal=draw(st.booleans()),
      group=draw(NAME),
      alt_targets=others,
      reliability=draw(SHARE),
      scope=draw(st.none() | st.sampled_from(SCOPES)),
      kind=draw(NAME),
      resolves=resolves,
      outcome=draw(st.sampled_from(list(OUTCOMES))) if settles else None,
    )
    claim = Claim(
      id=name,
      text=draw(TEXT),
      source=draw(NAME),
      source_reliability=draw(SHARE),
      observed_at=draw(TIME),
      valid_from=draw(TIME),
      valid_until=draw(TIME),
      subject=draw(st.none() | NAME),
      gold=gold if needs_target or settles or draw(st.integers(0, 5)) else None,
    )
    if claim.gold is not None and action == Action.REVISE:
      accepted.remove(target)
    if claim.gold is not None and enters:
      accepted.append(name)
    if claim.gold is not None and action == Action.DEFER_VERIFY:
      pending.append(name)
    if resolves is not None:
      pending.remove(resolves)
    claims.append(claim)
  return Stream(stream_id=draw(NAME), source=draw(NAME), claims=tuple(claims), person=draw(NAME))


@hypothesis.settings(
  derandomize=True,
  deadline=None,
  max_examples=60,
  suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
@hypothesis.given(st.lists(executable_streams(), min_size=1, max_size=3))
def test_streams_are_read_back_as_they_were_written(tmp_path, streams):
  path = tmp_path / "streams.jsonl"
  write_streams(path, streams)
  assert read_streams(path) == streams


@pytest.mark.parametrize(
  "text", ["a\u2028b", "a\rb", "\u0085x", "\ud800", "你好 \U0001f600", '"\\']
)
def test_texts_with_odd_characters_stay_whole(tmp_path, text):
  stream = Stream("s", "own", (Claim(id="a", text=text),), person="s")
  write_streams(tmp_path / "s.jsonl", [stream])
  assert read_streams(tmp_path / "s.jsonl") == [stream]


@hypothesis.settings(derandomize=True, deadline=None)
@hypothesis.given(st.integers(FIRST, LAST))
def test_minutes_and_iso_are_inverse(time):
  assert minutes(datetime.datetime.fromisoformat(to_iso(time))) == time


def test_times_are_minutes_of_utc():
  assert minutes(datetime.datetime(1970, 1, 2, 0, 1, 59)) == 1441
  assert minutes(datetime.datetime(1969, 12, 31, 23, 59, 30)) == -1
  assert minutes(datetime.datetime.fromisoformat("1970-01-01T03:00:00+02:00")) == 60
  assert to_iso(None) is None


def stream_json(*claims: dict, **fields) -> dict:
  return {"stream_id": "s", "source": "own", "claims": list(claims), **fields}


def claim_json(name: str = "a", action: str = "append", target: str | None = None, **fields):
  return {"id": name, "text": f"text {name}", "gold": {"action": action, "target": target}} | fields


def settling_json(action, resolves, outcome: str | None = "confirmed", name: str = "z") -> dict:
  """A claim whose gold settles another."""
  return claim_json(name, gold={"action": action, "resolves": resolves, "outcome": outcome})


WAITS = claim_json("p", "defer_verify")


def save(path, *values) -> str:
  """A file with one line a value; a str goes in as it is."""
  lines = [value if isinstance(value, str) else json.dumps(value) for value in values]
  path.write_text("\n".join(lines) + "\n", encoding="utf-8")
  return str(path)


def test_a_small_file_is_read_with_its_defaults(tmp_path):
  value = {"id": "a", "text": "t", "time": "2026-03-01", "extra": 3}
  path = save(tmp_path / "s.jsonl", "\ufeff" + json.dumps(stream_json(value)), "", "  ")
  at = minutes(datetime.datetime(2026, 3, 1))
  expected = Claim(id="a", text="t", source="unknown", observed_at=at)
  assert read_streams(path) == [Stream("s", "own", (expected,), person="s")]


# What is wrong with the second line of a file of streams, and the words that must name it.
BAD_STREAMS = {
  "cut off": ('{"stream_id": "s", "claims": [', ("is not JSON", "cut off")),
  "not JSON": ("nan?", ("is not JSON",)),
  "too deep": ("[" * 200_000, ("is not JSON",)),
  "a list": ([1], ("expected a JSON object", "found list")),
  "no stream id": ({"source": "x", "claims": []}, ("'stream_id'", "found nothing")),
  "id is a number": (stream_json(claim_json(), stream_id=7), ("'stream_id'", "found 7")),
  "no source": ({"stream_id": "s", "claims": [claim_json()]}, ("'source'",)),
  "no claims": ({"stream_id": "s", "source": "x"}, ("'claims'", "found nothing")),
  "claims is a text": (stream_json() | {"claims": "x"}, ("'claims'", "a list")),
  "claims is empty": (stream_json(), ("'claims'", "at least one")),
  "claim is a text": (stream_json() | {"claims": ["x"]}, ("claim 0", "JSON object", "str")),
  "claim without id": (stream_json({"text": "x"}), ("claim 0", "'id'", "found nothing")),
  "text is missing": (stream_json({"id": "a"}), ("claim 0", "'text'")),
  "text is empty": (stream_json(claim_json(text=" \n ")), ("'text'", "not empty")),
  "text is null": (stream_json(claim_json(text=None)), ("'text'", "found None")),
  "bad date": (stream_json(claim_json(observed_at="1 May")), ("'observed_at'", "ISO 8601")),
  "date by its alias": (stream_json(claim_json(time="soon")), ("'time'", "'soon'")),
  "date is a number": (stream_json(claim_json(valid_until=5)), ("'valid_until'", "found 5")),
  "source is a list": (stream_json(claim_json(source=[])), ("'source'", "a text")),
  "reliability over 1": (stream_json(claim_json(source_reliability=1.5)), ("from 0 to 1",)),
  "reliability NaN": (stream_json(claim_json(source_reliability=float("nan"))), ("from 0 to 1",)),
  "reliability is true": (stream_json(claim_json(source_reliability=True)), ("found True",)),
  "gold is a text": (stream_json(claim_json(gold="x")), ("'gold'", "JSON object")),
  "no action": (stream_json(claim_json(gold={})), ("'gold'", "'action'", "reject_conflict")),
  "unknown action": (stream_json(claim_json(action="drop")), ("'action'", "'drop'")),
  "action is a list": (stream_json(claim_json(action=[])), ("'action'", "found []")),
  "unknown scope": (
    stream_json(claim_json(gold={"action": "append", "scope": "later"})), ("'scope'", "present"),
  ),
  "unknown provenance": (
    stream_json(claim_json(gold={"action": "append", "provenance": "?"})), ("'provenance'",),
  ),
  "temporal is a number": (
    stream_json(claim_json(gold={"action": "append", "temporal": 1})), ("'temporal'", "true"),
  ),
  "alt_targets of numbers": (
    stream_json(claim_json(gold={"action": "append", "alt_targets": [1]})), ("'alt_targets'",),
  ),
  "id twice": (stream_json(claim_json(), claim_json()), ("claim 'a'", "id occurs twice")),
  "unknown target": (
    stream_json(claim_json(), claim_json("b", "noop", "z")), ("claim 'b'", "'target'", "'z'"),
  ),
  "target is itself": (stream_json(claim_json("a", "noop", "a")), ("claim 'a'", "'target'")),
  "target comes later": (
    stream_json(claim_json("a", "noop", "b"), claim_json("b")), ("claim 'a'", "'b'"),
  ),
  "revise without target": (
    stream_json(claim_json(), claim_json("b", "revise")), ("claim 'b'", "revise needs", "None"),
  ),
  "target is in Pending": (
    stream_json(claim_json("a", "defer_verify"), claim_json("b", "reject_conflict", "a")),
    ("claim 'b'", "'target'", "accepted at that moment"),
  ),
  "target was replaced": (
    stream_json(claim_json(), claim_json("b", "revise", "a"), claim_json("c", "revise", "a")),
    ("claim 'c'", "'target'", "accepted at that moment"),
  ),
  "resolves is a number": (stream_json(settling_json("append", 5)), ("'resolves'", "a text")),
  "unknown outcome": (
    stream_json(settling_json("append", "p", "maybe")), ("'outcome'", "confirmed, contradicted"),
  ),
  "resolves without outcome": (
    stream_json(WAITS, settling_json("append", "p", None)), ("claim 'z'", "'outcome'", "both"),
  ),
  "outcome without resolves": (
    stream_json(WAITS, settling_json("append", None)), ("claim 'z'", "'resolves'", "both"),
  ),
  "noop settles": (
    stream_json(WAITS, settling_json("noop", "p")), ("claim 'z'", "noop settles nothing"),
  ),
  "settles what never was": (
    stream_json(WAITS, settling_json("append", "q")), ("claim 'z'", "'resolves'", "Pending", "'q'"),
  ),
  "settles an accepted one": (
    stream_json(claim_json("p"), settling_json("append", "p")), ("claim 'z'", "in Pending"),
  ),
  "settles one twice": (
    stream_json(WAITS, settling_json("append", "p"), settling_json("append", "p", name="y")),
    ("claim 'y'", "'resolves'", "in Pending"),
  ),
  "settles a later one": (
    stream_json(settling_json("append", "p"), WAITS), ("claim 'z'", "in Pending"),
  ),
  "alternative comes later": (
    stream_json(claim_json(gold={"action": "append", "alt_targets": ["b"]}), claim_json("b")),
    ("claim 'a'", "'b'"),
  ),
}  # fmt: skip


@pytest.mark.parametrize("fault", BAD_STREAMS)
def test_a_bad_stream_names_file_line_and_field(tmp_path, fault):
  value, words = BAD_STREAMS[fault]
  path = save(tmp_path / "s.jsonl", stream_json(claim_json()), value)
  with pytest.raises(InputError) as caught:
    read_streams(path)
  for word in (f"{path}, line 2", *words):
    assert word in str(caught.value)
  assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


@pytest.mark.parametrize("read", [read_streams, read_cases])
@pytest.mark.parametrize(
  ("content", "word"),
  [(b"", "holds no"), (b"\n \n", "holds no"), (b'{"a": "\xff"}', "not UTF-8 text (byte 7)")],
)
def test_an_unusable_file_is_named(tmp_path, read, content, word):
  path = tmp_path / "f.jsonl"
  path.write_bytes(content)
  with pytest.raises(InputError, match=r"f\.jsonl: ") as caught:
    read(path)
  assert word in str(caught.value)


@pytest.mark.parametrize("read", [read_streams, read_cases])
def test_a_missing_file_and_a_folder_are_named(tmp_path, read):
  for path in (tmp_path / "none.jsonl", tmp_path):
    with pytest.raises(InputError, match="cannot be read") as caught:
      read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("outcome", list(OUTCOMES))
def test_what_a_claim_settles_is_read_and_left_out_where_there_is_none(tmp_path, outcome):
  path = save(tmp_path / "s.jsonl", stream_json(WAITS, settling_json("append", "p", outcome)))
  (found,) = read_streams(path)
  assert (found.claims[1].gold.resolves, found.claims[1].gold.outcome) == ("p", outcome)
  write_streams(path, [found])
  first, second = json.loads((tmp_path / "s.jsonl").read_text())["claims"]
  assert (second["gold"]["resolves"], second["gold"]["outcome"]) == ("p", outcome)
  assert not {"resolves", "outcome"} & set(first["gold"])


def test_lines_are_counted_with_the_empty_ones(tmp_path):
  path = save(tmp_path / "s.jsonl", "", "", {"a": 1})
  assert [where for _, where in read_jsonl(path)] == [f"{path}, line 3"]


def test_a_stream_made_in_code_is_checked_by_its_id():
  claims = (Claim("a", "x", gold=Gold(Action.REVISE, "b")),)
  with pytest.raises(InputError, match="stream s1, claim 'a'"):
    check_executable(Stream("s1", "own", claims, person="s1"))


def case_json(**fields) -> dict:
  entry = {"text": "The shed key hangs by the door.", "source": "user", "time": "2025-01-02"}
  return {"id": "k", "candidate": {"text": "new"}, "accepted": [entry, entry]} | fields


def test_a_case_is_read(tmp_path):
  value = case_json(
    pending=[{"text": "p"}], expected_action="revise", expected_target=1, alt_targets=[0],
    alt_actions=["noop", "defer_verify"], debatable=True, kind="odd",
  )  # fmt: skip
  (case,) = read_cases(save(tmp_path / "c.jsonl", value))
  at = minutes(datetime.datetime(2025, 1, 2))
  text = "The shed key hangs by the door."
  accepted = tuple(Claim(f"accepted:{i}", text, "user", observed_at=at) for i in range(2))
  assert case == Case(
    id="k",
    kind="odd",
    accepted=accepted,
    pending=(Claim("pending:0", "p"),),
    candidate=Claim("candidate", "new"),
    expected_action=Action.REVISE,
    expected_target=1,
    alt_actions=(Action.NOOP, Action.DEFER_VERIFY),
    alt_targets=(0,),
    debatable=True,
  )


def test_a_case_needs_no_more_than_an_id_and_a_text(tmp_path):
  (case,) = read_cases(save(tmp_path / "c.jsonl", {"id": "k", "candidate": {"text": "new"}}))
  assert (case.accepted, case.pending, case.expected_action, case.expected_target) == (
    (), (), None, None,
  )  # fmt: skip


BAD_CASES = {
  "no id": ({"candidate": {"text": "x"}}, ("'id'",)),
  "no candidate": ({"id": "k"}, ("'candidate'", "found nothing")),
  "candidate is null": ({"id": "k", "candidate": None}, ("'candidate'", "JSON object")),
  "candidate without text": (case_json(candidate={}), ("'candidate'", "'text'")),
  "accepted is an object": (case_json(accepted={}), ("'accepted'", "a list")),
  "entry is a text": (case_json(accepted=["x"]), ("accepted 0", "JSON object")),
  "entry with a bad date": (case_json(pending=[{"text": "x", "time": "?"}]), ("pending 0", "time")),
  "target out of range": (case_json(expected_target=2), ("'expected_target'", "from 0 to 1")),
  "target negative": (case_json(expected_target=-1), ("'expected_target'",)),
  "target is true": (case_json(expected_target=True), ("'expected_target'", "found True")),
  "target is a text": (case_json(expected_target="0"), ("'expected_target'",)),
  "alternative out of range": (case_json(alt_targets=[0, 5]), ("'alt_targets'",)),
  "alternative is true": (case_json(alt_targets=[True]), ("'alt_targets'",)),
  "unknown alternative": (case_json(alt_actions=["keep"]), ("'alt_actions'", "append")),
  "unknown action": (case_json(expected_action="keep"), ("'expected_action'", "'keep'")),
  "debatable is a text": (case_json(debatable="no"), ("'debatable'", "true or false")),
}


@pytest.mark.parametrize("fault", BAD_CASES)
def test_a_bad_case_names_file_line_and_field(tmp_path, fault):
  value, words = BAD_CASES[fault]
  path = save(tmp_path / "c.jsonl", case_json(), value)
  with pytest.raises(InputError) as caught:
    read_cases(path)
  for word in (f"{path}, line 2", *words):
    assert word in str(caught.value)
