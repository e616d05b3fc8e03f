"""HaluMem's construction stages as streams with gold (DATA.md, "Shapes and the dirt").

Owns the shape of the stage files. A line is one person at one stage; the profile stands in
every stage, dated updates in the narrative arc, changes of preference in the preference
events. `uuid` names the same person as in the release. What the changes mean for a memory
is in `halumem_stages_gold.py`.
"""

import collections
import datetime
import pathlib
import re
from collections.abc import Sequence

from tarl_jax.data.halumem import read_uuid
from tarl_jax.data.halumem_frames import LABELS, VERBATIM, Taste
from tarl_jax.data.halumem_stages_gold import read_person
from tarl_jax.data.halumem_telling import Event, Profile, Section, Update
from tarl_jax.data.jsonl import Fields, minutes, read_jsonl
from tarl_jax.data.record import Stream
from tarl_jax.data.weave import weave

_FIXED = {
  "basic_info": ("gender", "birth_date", "location"),
  "education": ("highest_degree", "major"),
  "personality": ("mbti",),
  "family_life": ("parent_status", "partner_status", "child_status"),
  "life_goal": ("life_goal_type", "statement", "motivation", "target_metrics"),
}
_TIES = "social_relationships"
_SECTIONS = ("career_status", "health_status", _TIES)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NOTHING = frozenset(("", "none", "n/a", "null"))


class _Reader:
  """Gathers what the files say of each person and counts what they say badly."""

  def __init__(self) -> None:
    self.skips: collections.Counter[str] = collections.Counter()
    self.profiles: dict[str, Profile] = {}
    self.arcs: dict[str, list[Update]] = {}
    self.events: dict[str, list[Event]] = {}

  def line(self, fields: Fields, where: str) -> None:
    person = read_uuid(fields)
    if person not in self.profiles:
      self.profiles[person] = self._profile(fields.child("profile"))
    if fields.has("narrative_arc"):
      if person in self.arcs:
        self.skips["narrative arc given twice"] += 1
      else:
        self.arcs[person] = self._arc(fields.child("narrative_arc"), where)
    events = [
      Fields(value, f"{where}, event {i}")
      for i, value in enumerate(fields.items("event_list", optional=True))
    ]
    events = [event for event in events if event.has("preference_type")]
    if events and person in self.events:
      self.skips["preference events given twice"] += 1
    elif events:
      self.events[person] = [self._event(event) for event in events]

  def _profile(self, fields: Fields) -> Profile:
    fixed, dynamic = fields.child("fixed"), fields.child("dynamic")
    start = _date(fixed.child("age"), "latest_date")
    values: Section = {}
    for section, names in _FIXED.items():
      if fixed.has(section):
        values |= self._values(fixed.child(section), names)
    sections = {name: self._section(_initial(dynamic, name), name) for name in _SECTIONS}
    preferences = fields.child("preferences")
    tastes = [
      self._taste(point, kind)
      for kind in preferences.names()
      for point in _points(_initial(preferences, kind))
    ]
    name = fixed.child("basic_info").text("name").strip()
    return Profile(name, start, values, sections, [taste for taste in tastes if taste])

  def _arc(self, fields: Fields, where: str) -> list[Update]:
    updates = []
    for i, event in enumerate(fields.items("career_events")):
      place = f"{where}, career event {i}"
      for j, value in enumerate(Fields(event, place).items("stages")):
        stage = Fields(value, f"{place}, stage {j}")
        time = _date(stage, "time_point")
        for k, update in enumerate(stage.items("dynamic_updates")):
          change = Fields(update, f"{place}, stage {j}, update {k}")
          section = change.one_of("type_to_update", _SECTIONS)
          before, after = (
            self._section(change.child(name), section)
            for name in ("before_dynamic", "after_dynamic")
          )
          updates.append(Update(time, section, before, after))
    return updates

  def _event(self, fields: Fields) -> Event:
    kind = fields.text("preference_type")
    direction = fields.one_of("update_direction", ("Modify", "Delete"))
    before, after = (
      [self._taste(point, kind) for point in _points(fields.child(name))]
      for name in ("before_preference", "after_preference")
    )
    reasons = tuple(fields.optional_text(n) or "" for n in ("update_reason", "event_description"))
    if len(before) != 1 or len(after) != 1:
      return Event(None, None, reasons)
    if direction == "Delete" and before[0] is not None:
      return Event(before[0], before[0]._replace(over=True), reasons)
    return Event(before[0], after[0], reasons)

  def _taste(self, fields: Fields, kind: str) -> Taste | None:
    item, reason = fields.text("specific_item").strip(), fields.text("reason", "").strip()
    if not item:
      self.skips["preference for nothing"] += 1
      return None
    likes = fields.one_of("type", ("like", "dislike")) == "like"
    return Taste(kind.removesuffix("Preference").strip() or "Thing", likes, item, reason)

  def _section(self, fields: Fields, section: str) -> Section:
    if section != _TIES:
      names = [name for name in fields.names() if name in LABELS or name in VERBATIM]
      return self._values(fields, names)
    ties: Section = {}
    for other in fields.names():
      known = fields.child(other)
      role = known.text("relationship_type").strip() or "contact"
      ties[" ".join(_CAMEL.sub(" ", other).split())] = (role, known.text("description").strip())
    return ties

  def _values(self, fields: Fields, names: Sequence[str]) -> Section:
    """Numbers as texts, underscores as blanks, nothing as an empty text."""
    values: Section = {}
    for name in names:
      value = fields.raw(name)
      if isinstance(value, bool) or not isinstance(value, str | int | float | None):
        self.skips["value that is neither text nor number"] += 1
        continue
      text = " ".join(str("" if value is None else value).split())
      text = text if name in VERBATIM else text.replace("_", " ")
      values[name] = ("", "" if text.casefold() in _NOTHING else text)
    return values


def load_halumem_stages(
  paths: Sequence[str | pathlib.Path],
) -> tuple[list[Stream], collections.Counter[str]]:
  """Streams of all people in the stage files, and what was skipped, by reason.

  Give all stage files at once, in any order: a person needs the profile, which is in each;
  updates and preference events are used where their files are among the paths.
  Initial values have the profile's date, updates their own. Preference events are undated:
  the source gives their order, so they are spread evenly, in that order, over the time from
  the profile to the last update (at least a year).

  Raises:
    InputError: naming file, line and field, where a file cannot be read.
  """
  reader = _Reader()
  for path in paths:
    for fields, where in read_jsonl(path):
      reader.line(fields, where)
  values: dict[str, set[str]] = collections.defaultdict(set)
  for profile in reader.profiles.values():
    for section in (profile.fixed, *profile.dynamic.values()):
      for field, (_, value) in section.items():
        if field in LABELS and value:
          values[field].add(value)
  choices = {field: tuple(sorted(found)) for field, found in values.items()}
  streams: list[Stream] = []
  for person, profile in reader.profiles.items():
    arc, events = reader.arcs.get(person, []), reader.events.get(person, [])
    streams += weave(read_person(person, profile, arc, events, choices, reader.skips), reader.skips)
  return streams, reader.skips


def _initial(fields: Fields, name: str) -> Fields:
  """A part of the profile: as it is in the first stage, under `init` in the later ones."""
  if not fields.has(name):
    return Fields({}, "")
  part = fields.child(name)
  return part.child("init") if part.has("init") else part


def _points(fields: Fields) -> list[Fields]:
  return [
    Fields(value, f"{fields.where}, memory point {i}")
    for i, value in enumerate(fields.items("memory_points", optional=True))
  ]


def _date(fields: Fields, name: str) -> int:
  try:
    return minutes(datetime.datetime.strptime(fields.text(name).strip()[:10], "%Y-%m-%d"))
  except ValueError as error:
    if type(error) is not ValueError:
      raise
    raise fields.fail(name, "a date such as 2031-05-20") from None
