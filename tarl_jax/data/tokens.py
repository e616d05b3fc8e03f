"""Text -> words, with their capitals and the places where sentences and clauses begin.

Owns scripts, contractions and punctuation; knows no meaning.
"""

import dataclasses
import re
import unicodedata

# Scripts written without spaces, or whose words carry endings: one character is one word.
_CJK = (
  "\u0e00-\u0e7f\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf"
  "\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
)
_PUNCTUATION = frozenset(".!?;:,()\n。、")
_WORD = rf"""[^\W\d_{_CJK}]+/[hs]\b | [^\W\d_{_CJK}][^\W_{_CJK}]*(?:'[^\W\d_{_CJK}]+)*
  | (?:(?<![^\s(])-)?\d+(?:[.,:/'-]\d+)* | [{_CJK}] | [.:](?![\w/\\]) | [$€£¥₹%°→!?;,()\n。、]"""
_TOKEN = re.compile(_WORD, re.VERBOSE)
IS_CJK = re.compile(f"[{_CJK}]")
OTHER_SCRIPT = re.compile("[\u0370-\u1dff\u1f00-\u1fff\u2c80-\u2dff\u2e80-\U0003134f]")
_GROUP_SPACE = re.compile("(?<=\\d)[\u202f\u2009\u00a0'](?=\\d{3}(?!\\d))")
_SPELLED = {
  "can't": ("can", "not"), "cannot": ("can", "not"), "cant": ("can", "not"),
  "won't": ("will", "not"), "wont": ("will", "not"), "shan't": ("shall", "not"),
  "dont": ("do", "not"), "doesnt": ("does", "not"), "didnt": ("did", "not"),
  "isnt": ("is", "not"), "arent": ("are", "not"), "wasnt": ("was", "not"),
  "couldnt": ("could", "not"), "wouldnt": ("would", "not"), "shouldnt": ("should", "not"),
  "let's": ("let", "us"), "o'clock": ("o'clock",),
}  # fmt: skip
_ENDINGS = {"'m": "am", "'re": "are", "'ve": "have", "'ll": "will"}


def normalise(text: str) -> str:
  """One spelling for widths, apostrophes, thin spaces in numbers, "a.m." and "p.m."."""
  if not text.isascii():
    text = _GROUP_SPACE.sub("", text)
    text = unicodedata.normalize("NFKC", text).replace("’", "'").replace("‘", "'")
  if ".m." in text:
    text = text.replace("a.m.", "am").replace("p.m.", "pm")
  return text


@dataclasses.dataclass(slots=True)
class Text:
  """Words of a text and where its sentences and clauses begin."""

  words: list[str]
  capitals: list[bool]
  starts: set[int]
  breaks: set[int]  # indices of words that follow punctuation
  questions: int
  colon: int  # index of the word after the first colon, or -1

  @property
  def sentences(self) -> int:
    """Number of sentences, at least 1."""
    return max(1, sum(start < len(self.words) for start in self.starts))


def tokenise(text: str) -> Text:
  words: list[str] = []
  capitals: list[bool] = []
  starts = {0}
  breaks: set[int] = set()
  questions, colon = 0, -1
  for token in _TOKEN.findall(text):
    if token in _PUNCTUATION:
      breaks.add(len(words))
      if token in ".!?;\n。":
        starts.add(len(words))
        questions += token == "?"
      elif token == ":":
        starts.add(len(words))
        colon = len(words) if colon < 0 else colon
      continue
    folded = token.casefold()
    parts = _split_word(folded) if "'" in folded or folded in _SPELLED else (folded,)
    capital = token[0] != folded[0] and token[0].isupper()
    for part in parts:
      words.append(part)
      capitals.append(capital)
      capital = False
  return Text(words, capitals, starts, breaks, questions, colon)


def _split_word(word: str) -> tuple[str, ...]:
  """Contractions spelled out; a possessive or short "is" becomes the word 's."""
  if word in _SPELLED:
    return _SPELLED[word]
  if word.endswith("n't") and len(word) > 3:
    return word[:-3], "not"
  head, mark, tail = word.rpartition("'")
  if head and mark + tail in _ENDINGS:
    return head, _ENDINGS[mark + tail]
  if head and tail in ("s", "d"):
    return head, "'" + tail
  return (word.replace("'", ""),) if word.strip("'") else (word,)
