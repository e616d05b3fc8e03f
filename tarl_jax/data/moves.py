"""The old and the new value in texts that state a change ('from "a" to "b"').

Owns the sentence forms that name both values, and cuts the old one out (DATA.md, sharper
rule 5: the value is b). Knows no words beyond those forms.
"""

import re
from typing import NamedTuple

_VERB = r"""(?:mov|switch|chang|updat|upgrad|downgrad|migrat|transfer|relocat|renam|promot|demot|
  reschedul|postpon|went|go(?:es|ing)?|rais|lower|increas|decreas|reduc|gr[eo]w|fell|fall|rose|ris|
  turn|shift|convert|revis|adjust|correct|bump|cut|drop|push|bring|brought|extend|shorten|swap|edit|
  modif|set|transition|progress|improv|evolv|deteriorat)\w*"""
_QUOTE = r"\"[^\"]{1,400}\" | '.{1,400}?'(?!\w) | “[^”]{1,400}”"
_VALUE = rf"({_QUOTE} | (?:[^.;,!?\n\"“”]|[.,](?=\d)){{1,80}}?)"
_END = r"""(?=\s*(?:[.,;:!?\n](?!\d)|$)|\s+(?:because|due|after|before|when|while|since|as|in|on|at|
  for|and|with|so|last|this|next|by|starting|effective|but|to)\b)"""


def _form(pattern: str) -> re.Pattern[str]:
  return re.compile(pattern, re.VERBOSE | re.IGNORECASE)


# Each form: what the text must hold, the pattern, which groups are cut, old and new value.
_FORMS = (
  (
    "from ",
    _form(rf"\b{_VERB}\b[^.;!?\n]{{0,60}}?\b(from\s+{_VALUE}\s+)(?:in)?to\s+{_VALUE}{_END}"),
    (1, 2, 3),
  ),
  (
    " from ",
    _form(rf"\b{_VERB}\s+(?:[\w-]+\s+){{0,2}}to\s+{_VALUE}(\s+from\s+{_VALUE}){_END}"),
    (2, 3, 1),
  ),
  (
    "",
    _form(rf"\b(?:replac|swapp|trad|exchang)(?:ed|ing|es|e|s)\s+({_VALUE}\s+)(?:with|by|for)\s+"
          rf"{_VALUE}{_END}"),
    (1, 2, 3),
  ),
  (
    "not ",
    _form(rf"\b(not\s+(?!only|just|merely){_VALUE}\s*,?\s+)but\s+{_VALUE}{_END}"),
    (1, 2, 3),
  ),
  ("instead of ", _form(rf"\b(instead\s+of\s+{_VALUE}){_END}"), (1, 2, 0)),
  ("rather than ", _form(rf"\b(rather\s+than\s+{_VALUE}){_END}"), (1, 2, 0)),
  ("in place of ", _form(rf"\b(in\s+place\s+of\s+{_VALUE}){_END}"), (1, 2, 0)),
)  # fmt: skip
_SWAPS = ("replac", "swapp", "trad", "exchang")


class Move(NamedTuple):
  """`text` without the old value; `old` and `new` are "" where the text names none."""

  text: str
  old: str
  new: str


def split_move(text: str) -> Move:
  """Cuts the old value out of a text that names the old and the new one."""
  lower = text.lower()
  for needed, pattern, (cut, old, new) in _FORMS:
    if needed not in lower if needed else not any(stem in lower for stem in _SWAPS):
      continue
    match = pattern.search(text)
    if match:
      value = text[: match.start(cut)] + " " + text[match.end(cut) :]
      return Move(value, match[old], match[new] if new else "")
  return Move(text, "", "")
