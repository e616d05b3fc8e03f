"""What one sentence of a user's turn is: nothing to keep, a fact about the user, or neither.

Owns the splitting of a turn into sentences, both tests (each is strict, so that most
sentences are neither) and the rendering of a sentence in the third person. Knows no record.
"""

import re
from collections.abc import Iterator

from tarl_jax.data.cues import CUE_BIT
from tarl_jax.data.lexical import parse
from tarl_jax.data.locomo_gold import says_nothing as greets_or_asks

MIN_WORDS, MAX_WORDS = 4, 45  # of a fact
MIN_CONTENT = 4  # content words of a fact

_END = re.compile(
  r"(?<!\bMr\.)(?<!\bMs\.)(?<!\bMrs\.)(?<!\bDr\.)(?<!\bSt\.)(?<!\bvs\.)(?<!\be\.g\.)(?<!\bi\.e\.)"
  r"(?<=[.!?])[\"'”’)]*\s+(?=[\"'“‘(]*[A-Z0-9@])|\n+"
)
# What follows a statement behind a comma: a request, a wish, a mood.
_TAIL = re.compile(
  r",? - (?=(?:it|that)['’]s\b)"
  r"|,?\s+(?:and|but|so)\s+(?=I(?:['’](?:d|ll|m)|\s+(?:was|want|think|need|hope|would|am|feel))\b)"
  r"|,\s+(?:(?:and|but|so)\s+)?(?=(?:can|could|would|will|do) you\b[^.!]*\?$)",
  re.I,
)
_COMMAND = re.compile(
  r"^(?:please |now,? |ok(?:ay)?,? )*(?:write|rewrite|rephrase|explain|give|list|summari[sz]e"
  r"|translate|create|describe|generate|continue|suggest|recommend|provide|compare|pretend|act as"
  r"|imagine|elaborate|tell me|show me|help me|go on)\b",
  re.I,
)
_SELF = re.compile(r"\b(I|I['’]\w+|my|we|our|us|mine|myself)\b|\d|[\"“]", re.I)
LEAD = re.compile(
  r"^(?:(?:and |but |so )?(?:by the way|also|actually|in fact|speaking of (?:which|that)|anyway|oh"
  r"|well|btw|and|but|so|plus|yes|yeah|hi|hey)\b,? )+",
  re.I,
)
_OFTEN = (
  r"(?:(?:also|just|actually|recently|already|always|usually|currently|really|still|finally|even"
  r"|only|now|never|often|typically|mostly) )*"
)
_PRESENT = frozenset(
  """have own live work play use lead manage keep collect study speak teach drive wear drink eat
  run attend visit practice volunteer commute prefer enjoy love like hate walk swim grow cook bake
  rent earn spend pay weigh sleep wake suffer share go do take read watch listen sing paint
  write make train ride travel cycle belong""".split()
)
_PAST = frozenset(
  """was had did went bought sold kept left met made ran began spoke chose ate drank wrote drove
  rode taught told took gave got came became grew held paid sent spent built lost won found slept
  flew wore broke fell caught sang swam brought read cut put hit set led saw heard stood drew
  did didn't wasn't haven't hadn't never""".split()
)
_FACT = re.compile(
  rf"^(?:I {_OFTEN}(?:{'|'.join(sorted((_PRESENT | _PAST) - {'heard', 'like', 'love', 'never'}))}"
  r"|\w{2,}ed)\b"
  rf"|I(?:['’]ve| have) {_OFTEN}(?:been |had |got |\w+ed )"
  rf"|I(?:['’]m| am) {_OFTEN}(?:an? |from |based |allergic |married |vegan|vegetarian|in my |\d)"
  r"|I (?:really )?(?:like|love) (?!the |that |this |those |these |your |how |it )"
  r"|My [\w'’-]+(?: [\w'’-]+){0,4}?(?:['’]s [\w-]+)? (?:is|are|was|were|has|have|had|lives?"
  r"|works?|got|gave|bought|moved|started)\b)",
)
# Talk about the conversation itself, plans, wishes and moods: unclear, whatever else is said.
_UNCLEAR = re.compile(
  r"\b(you|your|yours|would|could|should|I['’]ll|I['’]d|wondering|wonder|thinking|considering"
  r"|curious|meaning to|looking (?:at|for|to|into|forward)|trying to|interested in|planning|plan to"
  r"|hop(?:e|ing)|wanted to|need(?:ed)? to|want|wish|decided to|excited|glad|confus\w+|idea of"
  r"|these|those|them|that['’]s|will|going to|heard|read (?:that|about)|like the|love the"
  r"|mentioned|said|question|tips|advice|suggest\w*|recommend\w*|struggl\w+|let['’]s|feeling"
  r"|know|realized|agree)\b"
  r"|^I(?:['’]ve)? (?:[a-z]+ly |also |just )*[a-z]+ (?:one|it|this|that|some)\b",
  re.I,
)
_PLANNED = re.compile(
  r"\b(looking forward to|planning|plan to|going to|want to|I['’]ll|will|thinking (?:of|about)"
  r"|considering|hop(?:e|ing) to|might|would|need to|about to)\b",
  re.I,
)
_BARRED = CUE_BIT["question"] | CUE_BIT["hypothetical"] | CUE_BIT["hedge"] | CUE_BIT["future"]


def split_sentences(text: str) -> Iterator[str]:
  """The sentences of a turn; what `_TAIL` names stands apart from what it follows.

  Rows of a table, quoted blocks and list items are left out.
  """
  for part in _END.split(text):
    part = " ".join(part.split())
    if not part or re.match(r"[|>#*`\-•]|\d+[.)]", part):
      continue
    match = _TAIL.search(part)
    cut = match is not None and len(part[: match.start()].split()) >= MIN_WORDS
    yield from (part[: match.start()], part[match.end() :]) if match and cut else (part,)


def says_nothing(sentence: str) -> bool:
  """Whether a sentence only asks, greets or commands and tells nothing of its speaker."""
  if _SELF.search(sentence):
    return False
  commands = _COMMAND.match(sentence) is not None and len(sentence.split()) <= 25
  if not commands and not greets_or_asks(sentence):
    return False
  return not parse(sentence).cues & CUE_BIT["lasting"]


def states_fact(sentence: str) -> bool:
  """Whether a sentence clearly tells something lasting about its speaker."""
  bare = LEAD.sub("", sentence)
  bare = bare[:1].upper() + bare[1:]
  if "?" in bare or not MIN_WORDS <= len(bare.split()) <= MAX_WORDS:
    return False
  if not _FACT.match(bare) or _UNCLEAR.search(bare):
    return False
  parsed = parse(bare)
  return not parsed.cues & _BARRED and len(parsed.content) >= MIN_CONTENT


def is_planned(sentence: str) -> bool:
  """Whether a sentence speaks of what is intended rather than of what is."""
  return bool(_PLANNED.search(sentence))


_WE = re.compile(r"\b(we|our|ours|us|mine|myself|ourselves|you|your|I['’](?:d|ll))\b", re.I)
_HELPERS = {
  "am": "is", "have": "has", "do": "does", "don't": "does not", "haven't": "has not",
  "was": "was", "had": "had", "did": "did", "didn't": "did not", "wasn't": "was not",
  "can": "can", "can't": "cannot", "could": "could", "never": "never",
}  # fmt: skip
_SAME_FORM = frozenset("read cut put hit set".split())  # present and past alike
# A second verb without its own "I" would keep its first-person form.
_AND = re.compile(rf"\b(?:and|or|but) {_OFTEN}(?:am|{'|'.join(sorted(_PRESENT - _SAME_FORM))})\b")
_I = re.compile(rf"\bI(?P<short>['’](?:m|ve))?\b(?P<often> {_OFTEN})?(?P<verb>[\w'’]+)?")


def in_third_person(sentence: str) -> str | None:
  """The sentence as a note about "the user"; None where that takes more than small edits."""
  bare = LEAD.sub("", sentence)
  if _WE.search(bare) or "?" in bare or _AND.search(bare):
    return None
  parts = []
  place = 0
  for match in _I.finditer(bare):
    said = _rendered(match)
    if said is None:
      return None
    parts += [bare[place : match.start()], said]
    place = match.end()
  text = "".join([*parts, bare[place:]])
  text = re.sub(r"\b[Mm]y\b", "the user's", text)
  text = re.sub(r"\bme\b", "the user", text)
  return text[:1].upper() + text[1:] if text != bare else None


def _rendered(match: re.Match[str]) -> str | None:
  """One "I" with its verb, in the third person."""
  short, often = match.group("short") or "", match.group("often") or " "
  verb = (match.group("verb") or "").replace("’", "'")
  if short:
    return f"the user {'is' if short.endswith('m') else 'has'}{often}{verb}"
  if verb in _HELPERS:
    return f"the user{often}{_HELPERS[verb]}"
  if verb in _PRESENT - _SAME_FORM:
    return f"the user{often}{_with_s(verb)}"
  if verb in _PAST or verb.endswith("ed"):
    return f"the user{often}{verb}"
  return None


def _with_s(verb: str) -> str:
  if verb in ("go", "do", "teach", "watch"):
    return f"{verb}es"
  return verb[:-1] + "ies" if verb == "study" else f"{verb}s"
