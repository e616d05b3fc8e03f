"""In what two texts differ: values, people, polarity, condition, form of the sentence.

Owns these signals of a pair; knows no overlap and no word weights. Each group is a tuple of
names and the function that gives the values in that order, all in [0, 1].
"""

from tarl_jax.data.parsing import Parsed
from tarl_jax.data.quantities import same_date, same_quantity
from tarl_jax.data.subject import OWNER_NAMED, OWNER_NONE, OWNER_RELATION, OWNER_SELF

VALUES_SIGNALS = (
  "numbers_both",
  "numbers_equal",
  "numbers_differ",
  "numbers_differ_in_context",
  "number_candidate_only",
  "number_entry_only",
  "dates_both",
  "dates_equal",
  "dates_differ",
  "date_candidate_only",
  "date_entry_only",
  "quotes_equal",
  "quotes_differ",
)


def value_signals(c: Parsed, e: Parsed) -> tuple[float, ...]:
  both_quote = bool(c.quoted and e.quoted)
  same_quote = both_quote and not c.quoted.isdisjoint(e.quoted)
  return (*_numbers(c, e), *_dates(c, e), same_quote, both_quote and not same_quote)


def _numbers(c: Parsed, e: Parsed) -> tuple[float, ...]:
  if not c.quantities or not e.quantities:
    return (0.0, 0.0, 0.0, 0.0, float(bool(c.quantities)), float(bool(e.quantities)))
  # What the candidate says is left behind ("nothing on 12") is no value of it.
  ours = [i for i, value in enumerate(c.quantities) if value.key not in c.left]
  rest = list(range(len(e.quantities)))
  lonely = []
  for i in ours:
    twin = next((j for j in rest if same_quantity(c.quantities[i], e.quantities[j])), None)
    if twin is None:
      lonely.append(i)
    else:
      rest.remove(twin)
  clashes = [
    not c.near[i].isdisjoint(e.near[j])
    for i in lonely
    for j in rest
    if c.quantities[i].dimension == e.quantities[j].dimension
  ]
  return (1.0, not lonely and not rest, bool(clashes), any(clashes), bool(lonely), bool(rest))


def _dates(c: Parsed, e: Parsed) -> tuple[float, ...]:
  if not c.dates or not e.dates:
    return (0.0, 0.0, 0.0, float(bool(c.dates)), float(bool(e.dates)))
  verdicts = [[same_date(a, b) for b in e.dates] for a in c.dates]
  lonely = [True not in row for row in verdicts]
  rest = [True not in column for column in zip(*verdicts)]
  clash = any(
    verdicts[i][j] is False for i in range(len(c.dates)) for j in range(len(e.dates))
    if lonely[i] and rest[j]
  )  # fmt: skip
  return (1.0, not any(lonely) and not any(rest), clash, any(lonely), any(rest))


WHO_SIGNALS = (
  "names_shared",
  "name_candidate_only",
  "name_entry_only",
  "surname_differs",
  "name_respelled",
  "owner_same",
  "owner_differs",
  "subject_overlap",
  "subject_differs",
  "verb_same",
)


def who_signals(c: Parsed, e: Parsed) -> tuple[float, ...]:
  first = c.who.names | (c.who.maybe_names & (e.who.names | e.who.maybe_names))
  second = e.who.names | (e.who.maybe_names & (c.who.names | c.who.maybe_names))
  shared, union = len(first & second), len(first | second)
  subject = len(c.who.subject & e.who.subject)
  return (
    shared / union if union else 0.0,
    bool(first - second),
    bool(second - first),
    bool(c.who.full_names and e.who.full_names) and _surname_differs(c, e),
    _respelled(c, e),
    *_owners(c, e),
    subject / (len(c.who.subject) + len(e.who.subject) - subject) if subject else 0.0,
    bool(c.who.subject and e.who.subject) and not subject,
    bool(c.who.verb) and c.who.verb == e.who.verb,
  )


def _surname_differs(c: Parsed, e: Parsed) -> bool:
  """True where a full name shares one part with a name of the other text and not all."""
  if not c.who.full_names_all.isdisjoint(e.who.full_names_all):
    return any(a & b and a - b and b - a for a in c.who.full_names for b in e.who.full_names)
  return False


def _respelled(c: Parsed, e: Parsed) -> bool:
  """True where a name that only one text has is one letter from a name of the other."""
  ours, theirs = c.who.names | c.who.maybe_names, e.who.names | e.who.maybe_names
  return any(
    _one_letter_off(a, b) for a in ours - theirs for b in theirs - ours if min(len(a), len(b)) > 3
  )


def _one_letter_off(first: str, second: str) -> bool:
  longest = max(len(first), len(second))
  if abs(len(first) - len(second)) > 1 or (first[0] != second[0] and first[-1] != second[-1]):
    return False
  head, tail = 0, 0
  size = min(len(first), len(second))
  while head < size and first[head] == second[head]:
    head += 1
  while tail < size - head and first[-1 - tail] == second[-1 - tail]:
    tail += 1
  return head + tail >= longest - 1


def _owners(c: Parsed, e: Parsed) -> tuple[float, float]:
  """(same, differs): 0.5 for what cannot be told, such as "I" against a name."""
  kinds = (c.who.owner_kind, e.who.owner_kind)
  if kinds[0] == kinds[1]:
    if kinds[0] == OWNER_SELF:
      return 1.0, 0.0
    if kinds[0] == OWNER_NONE:
      return 0.5, 0.0
    if c.who.owner <= e.who.owner or e.who.owner <= c.who.owner:
      return 1.0, 0.0
    return (0.0, 1.0) if c.who.owner.isdisjoint(e.who.owner) else (0.5, 0.5)
  if OWNER_RELATION in kinds:
    return 0.0, 0.5 if OWNER_NAMED in kinds else 1.0
  if OWNER_SELF in kinds:
    return 0.5, 0.0
  return 0.0, 0.0


SENSE_SIGNALS = (
  "polarity_differs",
  "negation_differs",
  "antonym",
  "condition_candidate_only",
  "condition_entry_only",
  "conditions_differ",
  "entry_holds_old",
  "entry_holds_new",
  "old_but_not_in_entry",
  "script_differs",
  "shared_latin",
)


def sense_signals(c: Parsed, e: Parsed) -> tuple[float, ...]:
  antonym = any(
    -pole in e.poles and pole not in e.poles and -pole not in c.poles for pole in c.poles
  )
  negation = c.negative != e.negative
  held = _held(c.left, e.bag)
  scripts = c.other_script != e.other_script or bool(c.latin) != bool(e.latin)
  return (
    negation != antonym,
    negation,
    antonym,
    bool(c.scope) and not e.scope,
    bool(e.scope) and not c.scope,
    bool(c.scope and e.scope) and c.scope.isdisjoint(e.scope),
    held,
    _held(c.arrived, e.content),
    bool(c.left) and not held,
    scripts,
    scripts and not c.latin.isdisjoint(e.latin),
  )


def _held(part: frozenset[str], whole: frozenset[str]) -> float:
  return len(part & whole) / len(part) if part else 0.0


FORM_SIGNALS = (
  "frame_same",
  "lead_same",
  "template_other_key",
  "aligned_share",
  "single_difference",
  "difference_is_number",
  "difference_is_name",
  "difference_is_word",
  "candidate_extends",
  "entry_extends",
)


def form_signals(c: Parsed, e: Parsed) -> tuple[float, ...]:
  frame = len(c.frame) > 1 and c.frame == e.frame
  size = min(len(c.stems), len(e.stems))
  head = 0
  while head < size and c.stems[head] == e.stems[head]:
    head += 1
  tail = 0
  while tail < size - head and c.stems[-1 - tail] == e.stems[-1 - tail]:
    tail += 1
  longest = max(len(c.stems), len(e.stems))
  share = (head + tail) / longest if longest else 0.0
  ours, theirs = c.words[head : len(c.words) - tail], e.words[head : len(e.words) - tail]
  single = 0.5 <= share < 1.0 and len(ours) <= 6 and len(theirs) <= 6
  lead = min(head, 3) / 3
  differ = c.content.isdisjoint(e.content) or (c.content - e.content and e.content - c.content)
  both = single and bool(ours) and bool(theirs)
  number = both and c.has_value(head, len(ours)) and e.has_value(head, len(theirs))
  name = both and not number and _is_name(ours, c) and _is_name(theirs, e)
  return (
    frame,
    lead,
    bool(differ) and (frame or lead == 1.0),
    share,
    single,
    number,
    name,
    both and not number and not name,
    single and not theirs,
    single and not ours,
  )


def _is_name(words: tuple[str, ...], parsed: Parsed) -> bool:
  return any(word in parsed.who.names or word in parsed.who.maybe_names for word in words)
