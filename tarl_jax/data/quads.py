"""Fact quads: the hand-written facts behind the generated source.

Owns the file shape under `facts/` (one JSON object a line, one file a domain), its checks
and the split of domains; knows nothing of streams, sources or times.

A quad is one slot of somebody's memory: a fact, sentences with the same value, sentences
with another value, an end of it, and compatible sentences that only look close. `{name}`
stands for the person the quad is about, `{other}` for a different person.
"""

import dataclasses
import functools
import importlib.resources
import pathlib
import re

from tarl_jax.data.jsonl import Fields, read_jsonl
from tarl_jax.errors import InputError

SPLITS = ("train", "val", "test")
SINGLE, PLURAL = "single", "plural"
# Whole domains are held out (DATA.md), so that val and test have facts of fields that the
# training split never touches. Every other domain, also one of somebody's own, is for training.
DOMAIN_SPLITS = {
  "organisations": "val",
  "health": "test",
  "research": "test",
  "travel": "test",
}

_NAME = re.compile(r"\{name\}")
_PLACEHOLDER = re.compile(r"\{(\w*)\}")
_OWN_VOICE = re.compile(r"\b(I|me|my|mine|myself|we|us|our|ours)\b", re.IGNORECASE)
_SPEAKER = re.compile(r"\b(I|me|my|mine|myself)\b", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Quad:
  """One slot in sentences.

  `scope` is "single" (a new value replaces the old) or "plural" (`changes` are further
  values that stand beside the fact). `hedged` is an unsure wording of `changes[0]`;
  `bounded` holds for a stated date or interval only, `conditional` under a stated condition
  only; both leave the slot as it is.
  """

  id: str
  domain: str
  scope: str
  subject: str
  fact: str
  rewordings: tuple[str, ...]
  changes: tuple[str, ...]
  negation: str
  additions: tuple[str, ...]
  past: str
  question: str
  hedged: str | None = None
  bounded: str | None = None
  conditional: str | None = None

  @functools.cached_property
  def items(self) -> dict[str, tuple[str, ...]]:
    """What can be stated, as item name -> wordings of it."""
    items = {"fact": (self.fact, *self.rewordings), "negation": (self.negation,)}
    items |= {f"change{i}": (text,) for i, text in enumerate(self.changes)}
    items |= {f"addition{i}": (text,) for i, text in enumerate(self.additions)}
    items["past"] = (self.past,)
    if self.bounded:
      items["bounded"] = (self.bounded,)
    if self.conditional:
      items["conditional"] = (self.conditional,)
    return items

  @functools.cached_property
  def texts(self) -> tuple[str, ...]:
    """Every sentence of the quad."""
    extra = (self.question, *filter(None, (self.hedged,)))
    return tuple(text for wordings in self.items.values() for text in wordings) + extra

  @functools.cached_property
  def has_name(self) -> bool:
    """Whether the quad is about a person who must be named."""
    return "{name}" in self.fact

  @property
  def per_person(self) -> bool:
    """Whether it may hold of several people; a role that one person has names its thing."""
    return self.subject == "{name}"

  @functools.cached_property
  def own_voice(self) -> bool:
    """Whether it is told in the first person, so that only some sources can say it."""
    stated = (text for wordings in self.items.values() for text in wordings)
    return any(_OWN_VOICE.search(text) for text in stated)

  @functools.cached_property
  def per_speaker(self) -> bool:
    """Whether every value is about whoever says "I" or "my"."""
    return all(_SPEAKER.search(text) for text in self._values)

  @property
  def _values(self) -> tuple[str, ...]:
    hedged = (self.hedged,) if self.hedged else ()
    return (self.fact, *self.rewordings, *self.changes, self.negation, self.past, *hedged)

  @property
  def unnamed_values(self) -> tuple[str, ...]:
    """Sentences that lack the name in a quad about a named person; has to be empty."""
    return tuple(t for t in self._values if self.has_name and not _NAME.search(t))

  def tells_person(self, item: str) -> bool:
    """Whether `item` says whom it is about: by name, or because the speaker is the person."""
    pattern = _NAME if self.has_name else _SPEAKER
    return all(pattern.search(text) for text in self.items[item])

  @property
  def split(self) -> str:
    """Which split owns the quad: that of its domain."""
    return DOMAIN_SPLITS.get(self.domain, "train")


def _sentences(fields: Fields, name: str, least: int) -> tuple[str, ...]:
  values = fields.items(name)
  if len(values) < least or not all(isinstance(v, str) and v.strip() for v in values):
    raise fields.fail(name, f"at least {least} sentences")
  return tuple(values)


def _parse(fields: Fields, where: str) -> Quad:
  quad = Quad(
    id=fields.text("id"),
    domain=fields.text("domain"),
    scope=fields.one_of("scope", (SINGLE, PLURAL)),
    subject=fields.text("subject"),
    fact=fields.text("fact"),
    rewordings=_sentences(fields, "rewordings", 2),
    changes=_sentences(fields, "changes", 2),
    negation=fields.text("negation"),
    additions=_sentences(fields, "additions", 3),
    past=fields.text("past"),
    question=fields.text("question"),
    hedged=fields.optional_text("hedged"),
    bounded=fields.optional_text("bounded"),
    conditional=fields.optional_text("conditional"),
  )
  for text in quad.texts:
    if unknown := set(_PLACEHOLDER.findall(text)) - {"name", "other"}:
      raise InputError(f"{where}: unknown placeholder {sorted(unknown)} in {text!r}.")
  for text in quad.unnamed_values:
    raise InputError(f"{where}: the sentence {text!r} has to say {{name}}, as the fact does.")
  if len(set(quad.texts)) < len(quad.texts):
    raise InputError(f"{where}: quad '{quad.id}' holds the same sentence twice.")
  return quad


def read_quads(folder: str | pathlib.Path) -> tuple[Quad, ...]:
  """Quads of every `*.jsonl` in `folder`, in order of their ids.

  Raises:
    InputError: naming file, line and field; also for an id that occurs twice.
  """
  quads: dict[str, Quad] = {}
  for path in sorted(pathlib.Path(folder).glob("*.jsonl")):
    for fields, where in read_jsonl(path):
      quad = _parse(fields, where)
      if quad.id in quads:
        raise InputError(f"{where}: the quad id '{quad.id}' occurs twice; ids must differ.")
      quads[quad.id] = quad
  if not quads:
    raise InputError(f"{folder}: holds no quads; expected files *.jsonl, one quad a line.")
  return tuple(quads[name] for name in sorted(quads))


@functools.cache
def load_quads() -> tuple[Quad, ...]:
  """The quads that ship with the package."""
  with importlib.resources.as_file(importlib.resources.files("tarl_jax.data")) as folder:
    return read_quads(folder / "facts")
