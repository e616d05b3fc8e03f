"""The common record: streams of claims and one-step cases, read from and written to JSONL.

Owns the shape of the public files and the checks on them (DATA.md, "The common record").
Gold *states* are never stored: they are rolled out by the executor from `Gold`.
"""

import dataclasses
import json
import pathlib
from collections.abc import Iterable
from typing import Any

from tarl_jax.data.jsonl import Fields, read_jsonl, to_iso
from tarl_jax.errors import InputError
from tarl_jax.types import ACTION_LABELS, OUTCOMES, Action

PROVENANCES = ("annotated", "derived", "constructed")
SCOPES = ("present", "past", "bounded", "none")


@dataclasses.dataclass(frozen=True)
class Gold:
  """What the right transaction is, and how we know.

  `target` is the claim the action is about: the entry a revise replaces or a
  reject_conflict protects, the duplicate a noop repeats, the entry a defer_verify is
  about. `alt_targets` are further right answers. `resolves` is the claim in Pending that
  this append or revise settles in the same step, and `outcome` one of OUTCOMES:
  "confirmed" where it says the same, "contradicted" where a trusted claim that is not older
  says otherwise. `reliability` is the true reliability of
  the claim's source, which the policy never sees. `scope` is one of SCOPES ("none" for a
  text that states nothing). `kind` names the pattern for tables.
  """

  action: Action
  target: str | None = None
  provenance: str = "constructed"
  temporal: bool = False
  group: str = ""
  alt_targets: tuple[str, ...] = ()
  reliability: float | None = None
  scope: str | None = None
  kind: str = ""
  resolves: str | None = None
  outcome: str | None = None


@dataclasses.dataclass(frozen=True)
class Claim:
  """One claim. Times are int minutes since 1970 UTC or None (unknown).

  `source` says who speaks: a role ("user", "assistant", "tool", ...) with an optional
  owner after a colon ("user:ana"); any other name is allowed and treated as unknown.
  """

  id: str
  text: str
  source: str = "unknown"
  source_reliability: float | None = None
  observed_at: int | None = None
  valid_from: int | None = None
  valid_until: int | None = None
  subject: str | None = None
  gold: Gold | None = None


@dataclasses.dataclass(frozen=True)
class Stream:
  """Claims of one person or conversation in the order of arrival.

  `source` names the dataset; `person` keeps streams of one person on one side of a split
  (the stream id where a file does not say).
  """

  stream_id: str
  source: str
  claims: tuple[Claim, ...]
  person: str


@dataclasses.dataclass(frozen=True)
class Case:
  """One decision on a small memory, with the expected answer (see `read_cases`).

  `expected_target` and `alt_targets` index `accepted`.
  """

  id: str
  kind: str
  accepted: tuple[Claim, ...]
  pending: tuple[Claim, ...]
  candidate: Claim
  expected_action: Action | None
  expected_target: int | None
  alt_actions: tuple[Action, ...] = ()
  alt_targets: tuple[int, ...] = ()
  debatable: bool = False


def _action(fields: Fields, name: str) -> Action:
  return Action(ACTION_LABELS.index(fields.one_of(name, ACTION_LABELS)))


def _parse_gold(fields: Fields) -> Gold:
  scope = fields.one_of("scope", SCOPES) if fields.has("scope") else None
  alt_targets = fields.items("alt_targets", optional=True)
  if not all(isinstance(target, str) for target in alt_targets):
    raise fields.fail("alt_targets", "a list of claim ids")
  return Gold(
    action=_action(fields, "action"),
    target=fields.optional_text("target"),
    provenance=fields.one_of("provenance", PROVENANCES, "annotated"),
    temporal=fields.flag("temporal"),
    group=fields.text("group", ""),
    alt_targets=tuple(alt_targets),
    reliability=fields.share("reliability"),
    scope=scope,
    kind=fields.text("kind", ""),
    resolves=fields.optional_text("resolves"),
    outcome=fields.one_of("outcome", tuple(OUTCOMES)) if fields.has("outcome") else None,
  )


def _parse_claim(fields: Fields, claim_id: str) -> Claim:
  text = fields.text("text")
  if not text.strip():
    raise fields.fail("text", "a text that is not empty")
  return Claim(
    id=claim_id,
    text=text,
    source=fields.text("source", "unknown"),
    source_reliability=fields.share("source_reliability"),
    observed_at=fields.time("observed_at", "time"),
    valid_from=fields.time("valid_from"),
    valid_until=fields.time("valid_until"),
    subject=fields.optional_text("subject"),
    gold=_parse_gold(fields.child("gold")) if fields.has("gold") else None,
  )


def _parse_stream(fields: Fields, where: str) -> Stream:
  stream_id = fields.text("stream_id")
  values = fields.items("claims")
  if not values:
    raise fields.fail("claims", "a list with at least one claim")
  claims = []
  for position, value in enumerate(values):
    claim = Fields(value, f"{where}, claim {position}")
    claims.append(_parse_claim(claim, claim.text("id")))
  stream = Stream(
    stream_id=stream_id,
    source=fields.text("source"),
    claims=tuple(claims),
    person=fields.text("person", stream_id),
  )
  check_executable(stream, where)
  return stream


def read_streams(path: str | pathlib.Path) -> list[Stream]:
  """Streams of a JSONL file, one a line.

  A claim without `gold` can be decided on and not trained or scored on.

  Raises:
    InputError: naming file, line and field, also for a gold that cannot be executed.
  """
  streams = [_parse_stream(fields, where) for fields, where in read_jsonl(path)]
  if not streams:
    raise InputError(f"{path}: holds no stream; expected one JSON object a line.")
  return streams


def check_executable(stream: Stream, where: str = "") -> None:
  """Stops where a gold transaction has no live target, settles what does not wait in
  Pending, or an id occurs twice."""
  where = where or f"stream {stream.stream_id}"
  seen: set[str] = set()
  accepted: set[str] = set()
  pending: set[str] = set()
  for claim in stream.claims:
    place = f"{where}, claim '{claim.id}'"
    if claim.id in seen:
      raise InputError(f"{place}: this id occurs twice in the stream; ids must differ.")
    seen.add(claim.id)
    gold = claim.gold
    if gold is None:
      continue
    for target in filter(None, (gold.target, *gold.alt_targets)):
      if target not in seen or target == claim.id:
        raise InputError(f"{place}, field 'target': '{target}' is no earlier claim.")
    needs_target = gold.action in (Action.REVISE, Action.REJECT_CONFLICT)
    if needs_target and gold.target not in accepted:
      raise InputError(
        f"{place}, field 'target': {gold.action.label} needs an entry that is accepted at "
        f"that moment, found {gold.target!r}."
      )
    if gold.action == Action.REVISE and gold.target is not None:
      accepted.remove(gold.target)
    if gold.action in (Action.APPEND, Action.REVISE):
      accepted.add(claim.id)
    _check_settling(gold, pending, place)
    if gold.resolves is not None:
      pending.remove(gold.resolves)
    if gold.action == Action.DEFER_VERIFY:
      pending.add(claim.id)


def _check_settling(gold: Gold, pending: set[str], place: str) -> None:
  if (gold.resolves is None) != (gold.outcome is None):
    raise InputError(f"{place}, fields 'resolves' and 'outcome': give both or neither.")
  if gold.resolves is None:
    return
  if gold.action not in (Action.APPEND, Action.REVISE):
    raise InputError(
      f"{place}, field 'resolves': {gold.action.label} settles nothing; only append and revise do."
    )
  if gold.resolves not in pending:
    raise InputError(
      f"{place}, field 'resolves': needs a claim that waits in Pending at that moment, found "
      f"{gold.resolves!r}."
    )


def write_streams(path: str | pathlib.Path, streams: Iterable[Stream]) -> None:
  """Writes streams as JSONL that `read_streams` reads back equal."""
  # A lone surrogate is no UTF-8; its backslash form is the escape that JSON knows.
  with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
    for stream in streams:
      value = {
        "stream_id": stream.stream_id,
        "source": stream.source,
        "person": stream.person,
        "claims": [_claim_to_json(claim) for claim in stream.claims],
      }
      file.write(json.dumps(value, ensure_ascii=False) + "\n")


def _claim_to_json(claim: Claim) -> dict[str, Any]:
  value = dataclasses.asdict(claim)
  for name in ("observed_at", "valid_from", "valid_until"):
    value[name] = to_iso(value[name])
  if claim.gold is not None:
    value["gold"]["action"] = claim.gold.action.label
    value["gold"]["alt_targets"] = list(claim.gold.alt_targets)
    # Not by equality: a reliability of 0.0 equals False and says something.
    gold = value["gold"].items()
    value["gold"] = {
      k: v for k, v in gold if v is not None and v is not False and v not in ("", [])
    }
  return {k: v for k, v in value.items() if v is not None}


def _parse_case(fields: Fields, where: str) -> Case:
  def entries(name: str) -> tuple[Claim, ...]:
    return tuple(
      _parse_claim(Fields(value, f"{where}, {name} {i}"), f"{name}:{i}")
      for i, value in enumerate(fields.items(name, optional=True))
    )

  accepted = entries("accepted")
  alt_actions = fields.items("alt_actions", optional=True)
  if not all(action in ACTION_LABELS for action in alt_actions):
    raise fields.fail("alt_actions", "a list of actions, each one of " + ", ".join(ACTION_LABELS))
  alt_targets = fields.items("alt_targets", optional=True)
  if not all(type(i) is int and 0 <= i < len(accepted) for i in alt_targets):  # true is no index
    raise fields.fail("alt_targets", f"a list of indices from 0 to {len(accepted) - 1}")
  has_answer = fields.has("expected_action")
  return Case(
    id=fields.text("id"),
    kind=fields.text("kind", ""),
    accepted=accepted,
    pending=entries("pending"),
    candidate=_parse_claim(fields.child("candidate"), "candidate"),
    expected_action=_action(fields, "expected_action") if has_answer else None,
    expected_target=fields.index("expected_target", len(accepted)),
    alt_actions=tuple(Action(ACTION_LABELS.index(action)) for action in alt_actions),
    alt_targets=tuple(alt_targets),
    debatable=fields.flag("debatable"),
  )


def read_cases(path: str | pathlib.Path) -> list[Case]:
  """One-step cases of a JSONL file, one a line.

  Needed: `id`, `candidate.text`. Optional: `accepted`, `pending` (lists of entries, may be
  empty), `expected_action`, `expected_target` (index into `accepted`), `alt_actions`,
  `alt_targets`, `kind`, `debatable`; in an entry `source`, `source_reliability` (0 to 1),
  `time` (ISO 8601). What is missing is unknown. Other fields are ignored.

  Raises:
    InputError: naming file, line and field.
  """
  cases = [_parse_case(fields, where) for fields, where in read_jsonl(path)]
  if not cases:
    raise InputError(f"{path}: holds no case; expected one JSON object a line.")
  return cases
