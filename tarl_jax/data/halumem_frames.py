"""Sentences around the fields and preferences of HaluMem's construction stages.

The stage files hold values, not sentences. Owns the frames that turn a value into a claim's
text; field values and reasons go in as they are. Knows no memory and no label.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# What a field is called in a sentence.
LABELS = {
  "gender": "gender",
  "birth_date": "date of birth",
  "location": "place of residence",
  "highest_degree": "highest degree",
  "major": "field of study",
  "mbti": "MBTI type",
  "parent_status": "parent status",
  "partner_status": "relationship status",
  "child_status": "child status",
  "life_goal_type": "kind of life goal",
  "statement": "life goal",
  "motivation": "motive behind the life goal",
  "target_metrics": "measure of success",
  "employment_status": "employment status",
  "industry": "industry of work",
  "company_name": "employer",
  "job_title": "job title",
  "monthly_income": "monthly income",
  "savings_amount": "savings balance",
  "physical_health": "physical health",
  "physical_chronic_conditions": "chronic physical condition",
  "mental_health": "mental health",
  "mental_chronic_conditions": "chronic mental condition",
}
# Told in the person's own words.
VERBATIM = ("career_description", "situation_reason")
# One can have several, or the words are free: another value need not exclude the old one.
OPEN_FIELDS = frozenset(
  ("statement", "motivation", "target_metrics", "physical_chronic_conditions")
  + ("mental_chronic_conditions", *VERBATIM)
)
_LONG = 6  # words from which a value stands behind a colon

_STATES = (
  "{name}'s {label} is {value}.",
  "The {label} of {name} is {value}.",
  "{name}'s {label}: {value}.",
  "As for {name}'s {label}, it is {value}.",
)
_CHANGES = (
  "{name}'s {label} is {value}.",
  "The {label} of {name} is now {value}.",
  '{name}\'s {label} changed from "{old}" to "{value}".',
  "{name}'s {label} went from {old} to {value}.",
)
_ENDS = (
  "{old} is no longer {name}'s {label}.",
  "{name} no longer has {old} as a {label}.",
)
_LIKES = ("{name} likes {item}.", "{name} is fond of {item}.", "{kind}: {name} likes {item}.")
_DISLIKES = (
  "{name} dislikes {item}.",
  "{name} does not like {item}.",
  "{kind}: {name} dislikes {item}.",
)
_LIKES_NO_MORE = (
  "{name} no longer likes {item}.",
  "{name} is not fond of {item} any more.",
  "{name} has stopped liking {item}.",
)
_DISLIKES_NO_MORE = (
  "{name} no longer dislikes {item}.",
  "{name} does not mind {item} any more.",
  "{item}: {name} has stopped disliking it.",
)
_TIES = ("{name} has a {role}, {other}. {value}", "{other} is {name}'s {role}. {value}")


class Taste(NamedTuple):
  """A like or dislike as the file has it."""

  kind: str  # "Beverage"
  likes: bool
  item: str
  reason: str
  over: bool = False  # deleted: it holds no more


def state(name: str, field: str, value: str) -> tuple[str, ...]:
  """All ways to say that the field has the value; the first are the plainest."""
  if field in VERBATIM:
    return (value,)
  frames = _STATES if len(value.split()) < _LONG else _STATES[2:3]
  return _fill(frames, name=name, label=LABELS[field], value=value)


def change(name: str, field: str, old: str, value: str) -> tuple[str, ...]:
  """Ways to say that the field has got another value."""
  if field in VERBATIM:
    return (value,)
  if max(len(value.split()), len(old.split())) >= _LONG:
    return state(name, field, value)
  return _fill(_CHANGES, name=name, label=LABELS[field], old=old, value=value)


def end(name: str, field: str, old: str) -> tuple[str, ...]:
  """Ways to say that the field has no value any more."""
  return _fill(_ENDS, name=name, label=LABELS.get(field, "description"), old=old)


def tie(name: str, other: str, role: str, value: str) -> tuple[str, ...]:
  """Ways to say who somebody is to the person."""
  return _fill(_TIES, name=name, other=other, role=role.lower(), value=value)


def taste(name: str, what: Taste) -> tuple[str, ...]:
  """Ways to say that the person likes or dislikes something, or does so no more."""
  if what.over:
    frames = _LIKES_NO_MORE if what.likes else _DISLIKES_NO_MORE
  else:
    frames = _LIKES if what.likes else _DISLIKES
  return _fill(frames, name=name, item=what.item, kind=what.kind)


def pick(texts: Sequence[str], rng: np.random.Generator) -> str:
  """One of the texts, all equally often."""
  return texts[int(rng.integers(len(texts)))]


def _fill(frames: Sequence[str], **parts: str) -> tuple[str, ...]:
  parts = {name: part.strip().rstrip(".") for name, part in parts.items() if name != "value"} | {
    "value": parts.get("value", "").strip()
  }
  return tuple(frame.format_map(parts).replace("..", ".") for frame in frames)
