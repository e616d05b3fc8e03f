"""What LoCoMo's observations and turns mean for the memory: labels and pairs of texts.

Owns the conversation as it was read, which turns restate an observation or say nothing to
keep, and the counterparts of observations. LoCoMo annotates no update, so all labels here
are derived from its observations. Knows nothing of the file.
"""

import collections
import dataclasses
import re
from collections.abc import Iterator
from typing import NamedTuple

from tarl_jax.data.construct import Draft, Pair, People, in_group, make_claim, seeded
from tarl_jax.data.linking import SAME_THING, Overlap, plain
from tarl_jax.data.record import Gold
from tarl_jax.data.swap import collect_values, flip_polarity, swap_value
from tarl_jax.data.weave import Anchor, Person
from tarl_jax.types import Action

RESTATES = 0.35  # token F1 from which a turn restates its observation (rule 10)
MAX_CHAT = 18  # turns a conversation that say nothing to keep
TURN_FIRST = 0.25  # share of restating turns that come before their observation
FLIPS = 0.4  # share of observations without an exchangeable value that are denied instead

_GREETING = re.compile(
  r"^(hi|hey|hello|thanks|thank you|wow|bye|good (?:morning|night|luck)|take care|no problem"
  r"|sounds (?:good|great)|cool|congrats\w*|awesome|great|nice)\b",
  re.I,
)


class Turn(NamedTuple):
  """What one speaker says at one place of a session."""

  place: int
  speaker: str
  text: str


class Observation(NamedTuple):
  """A fact noted about a speaker, and the ids of the turns that it rests on."""

  speaker: str
  text: str
  evidence: tuple[str, ...]


class Session(NamedTuple):
  """Turns by id and observations of one meeting; `time` in minutes."""

  time: int
  turns: dict[str, Turn]
  observations: list[Observation]


class Conversation(NamedTuple):
  """A conversation of two speakers, its sessions in order of time."""

  person: str
  speakers: tuple[str, str]
  sessions: list[Session]


class _Fact(NamedTuple):
  key: str
  time: int
  subject: str
  text: str
  restating: tuple[str, ...]  # turns
  counterpart: str | None


def read_gold(conversation: Conversation, skips: collections.Counter[str]) -> Person:
  """Background claims, anchors and pairs of a conversation."""
  facts = _with_counterparts(list(_facts(conversation, skips)), conversation)
  texts = [text for fact in facts for text in (fact.text, *fact.restating, fact.counterpart)]
  names = frozenset(word.casefold() for name in conversation.speakers for word in name.split())
  chat = _chat(conversation)
  texts += [draft.claim.text for draft in chat]
  overlap = Overlap(filter(None, texts), names)
  background, live = _background(facts, conversation, overlap, skips)
  anchors = [
    Anchor(_pair(fact, conversation), fact.key, 0)
    for fact in facts
    if fact.counterpart and fact.key in live
  ]
  groups = {anchor.key: anchor.pair.group for anchor in anchors}
  return Person(
    person=conversation.person,
    source="locomo",
    background=[in_group(draft, groups) for draft in background + chat],
    anchors=anchors,
    pairs=[anchor.pair for anchor in anchors],
    overlap=overlap,
    people_of=lambda subject: _people(conversation, subject),
  )


def _people(conversation: Conversation, subject: str) -> People:
  others = [name for name in conversation.speakers if name != subject]
  return People(subject, others[0] if others else "")


def _facts(conversation: Conversation, skips: collections.Counter[str]) -> Iterator[_Fact]:
  """Observations in the order of the turns they rest on."""
  for number, session in enumerate(conversation.sessions):
    placed = []
    for observation in session.observations:
      turns = [session.turns[name] for name in observation.evidence if name in session.turns]
      skips["evidence turn not in the session"] += len(observation.evidence) - len(turns)
      restating = tuple(turn.text for turn in turns if restates(turn, observation))
      first = min((turn.place for turn in turns), default=len(session.turns))
      placed.append((first, observation, restating))
    for i, (place, observation, restating) in enumerate(sorted(placed, key=lambda item: item[0])):
      key = f"{conversation.person}/{number}/{i}"
      time = session.time + place
      yield _Fact(key, time, observation.speaker, observation.text, restating, None)


def restates(turn: Turn, observation: Observation) -> bool:
  """Whether a turn says what the observation notes: enough overlap, no question (rule 10)."""
  if "?" in turn.text or turn.speaker != observation.speaker:
    return False
  return token_f1(turn.text, observation.text) >= RESTATES


def token_f1(a: str, b: str) -> float:
  """F1 of the words of two texts, repeated words counted."""
  one, two = (collections.Counter(plain(text).split()) for text in (a, b))
  size = one.total() + two.total()
  return 2 * (one & two).total() / size if size else 0.0


def _with_counterparts(facts: list[_Fact], conversation: Conversation) -> list[_Fact]:
  owners = frozenset(name.casefold() for name in conversation.speakers)
  values = collect_values((fact.text for fact in facts), owners)
  found = []
  for fact in facts:
    rng = seeded("swap", fact.key)
    swapped = swap_value(fact.text, values, owners, rng)
    other = swapped[0] if swapped else flip_polarity(fact.text) if rng.random() < FLIPS else None
    found.append(fact._replace(counterpart=other))
  return found


def _pair(fact: _Fact, conversation: Conversation) -> Pair:
  assert fact.counterpart
  group = f"locomo/{fact.key}"
  texts = fact.text, fact.counterpart
  return Pair(group, texts, fact.subject, fact.time, "counterpart", (fact.restating, ()))


def _background(
  facts: list[_Fact],
  conversation: Conversation,
  overlap: Overlap,
  skips: collections.Counter[str],
) -> tuple[list[Draft], set[str]]:
  """The observations and turns that restate them, and the keys of untouched observations."""
  drafts: list[Draft] = []
  live: dict[str, str] = {}  # key -> text
  untouched: set[str] = set()

  def add(fact: _Fact, key: str, text: str, gold: Gold) -> None:
    drafts.append(_draft(key, text, gold, fact.subject, fact.time, conversation))

  for fact in facts:
    twin = next((key for key, text in live.items() if plain(text) == plain(fact.text)), None)
    if twin:
      add(fact, fact.key, fact.text, _derived(Action.NOOP, twin, "exact_repeat"))
      continue
    if live and float(overlap.with_all(fact.text, list(live.values())).max()) >= SAME_THING:
      skips["observation close to a live entry"] += 1
      continue
    turn_key = f"{fact.key}/turn"
    if fact.restating and seeded("turn first", fact.key).random() < TURN_FIRST:
      live[turn_key] = fact.text
      add(fact, turn_key, fact.restating[0], _derived(Action.APPEND, None, "new_turn"))
      add(fact, fact.key, fact.text, _derived(Action.NOOP, turn_key, "restated"))
      continue
    live[fact.key] = fact.text
    untouched.add(fact.key)
    add(fact, fact.key, fact.text, _derived(Action.APPEND, None, "new"))
    if fact.restating:
      add(fact, turn_key, fact.restating[0], _derived(Action.NOOP, fact.key, "restated"))
  return drafts, untouched


def _draft(
  key: str, text: str, gold: Gold, speaker: str, time: int, conversation: Conversation
) -> Draft:
  people = _people(conversation, speaker)
  claim = make_claim(key, text, "user", gold, people=people, observed_at=time, subject=speaker)
  return Draft(time, claim)


def _chat(conversation: Conversation) -> list[Draft]:
  """Turns without an observation that only ask or greet: nothing to keep."""
  found = []
  for number, session in enumerate(conversation.sessions):
    noted = {name for observation in session.observations for name in observation.evidence}
    for name, turn in session.turns.items():
      if name not in noted and says_nothing(turn.text):
        found.append((number, session.time + turn.place, turn))
  order = seeded("chat", conversation.person).permutation(len(found))[:MAX_CHAT]
  drafts = []
  for number, time, turn in (found[int(i)] for i in sorted(order)):
    key = f"{conversation.person}/{number}/chat/{turn.place}"
    gold = dataclasses.replace(_derived(Action.NOOP, None, "chat"), scope="none")
    drafts.append(_draft(key, turn.text, gold, turn.speaker, time, conversation))
  return drafts


def says_nothing(text: str) -> bool:
  """Whether a turn is a bare question or a short greeting without a value."""
  sentences = [part for part in re.split(r"(?<=[.!?])\s+", text.strip()) if part]
  if len(text.split()) > 25 or re.search(r"\d|\b(I|I'm|I've|my|we|our)\b", text):
    return False
  asks = [part.endswith("?") for part in sentences]
  greets = [bool(_GREETING.match(part)) and len(part.split()) <= 8 for part in sentences]
  return bool(sentences) and all(ask or greet for ask, greet in zip(asks, greets))


def _derived(action: Action, target: str | None, kind: str) -> Gold:
  return Gold(action=action, target=target, provenance="derived", kind=kind)
