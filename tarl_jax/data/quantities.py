"""Numbers with units, and dates, as values that compare across spellings.

Owns what makes "2.45 kg" and "2450 g", "7:30 pm" and "19:30", "8 May 2023" and "2023-05-08"
equal, and "40 dollars" and "40 euros" different; knows no text.

Choices where writing is ambiguous: a comma before exactly three digits groups thousands
("2,450"), any other comma is a decimal comma ("1,5"); a single dot is a decimal point
("2.450" is 2.45); of two different separators the last one is the decimal ("2.450,5").
Metric against imperial values are equal within one per cent, because people round.
"""

from typing import NamedTuple


class Quantity(NamedTuple):
  """A number with its unit in base units; `amounts` are its possible readings.

  Words `start` to `end` (exclusive) hold it. `system` is "" for metric, else "imperial", or
  the currency. `raw` is the number as written, for comparison with a bare number.
  """

  dimension: str  # "" for a bare number
  amounts: tuple[float, ...]
  raw: float
  system: str
  start: int
  end: int

  @property
  def key(self) -> str:
    """One word that equal values share, whatever their spelling."""
    return f"#{self.dimension}{self.system if self.dimension == 'money' else ''}:{self.amounts[0]}"


class Date(NamedTuple):
  """A date with the parts that the text gives; a part not given is 0.

  `readings` are (year, month, day, weekday) with weekday 1 for Monday.
  """

  readings: tuple[tuple[int, int, int, int], ...]
  start: int
  end: int

  @property
  def key(self) -> str:
    return "@{}-{}-{}-{}".format(*self.readings[0])


def parse_number(text: str) -> float | None:
  """The value of digits with separators; None for a version or another mix."""
  commas, dots = text.count(","), text.count(".")
  if commas and dots:
    if text.rfind(",") > text.rfind("."):
      text = text.replace(".", "").replace(",", ".")
    else:
      text = text.replace(",", "")
  elif commas:
    head, *groups = text.split(",")
    grouped = all(len(group) == 3 for group in groups) and head.lstrip("-") not in ("0", "")
    text = text.replace(",", "") if grouped or commas > 1 else text.replace(",", ".")
  elif dots > 1:
    if not all(len(group) == 3 for group in text.split(".")[1:]):
      return None
    text = text.replace(".", "")
  try:
    return float(text)
  except ValueError:
    return None


def same_quantity(a: Quantity, b: Quantity) -> bool:
  """True for one value in two spellings; a bare number equals its like with any unit."""
  if a.dimension != b.dimension:
    return (not a.dimension or not b.dimension) and a.raw == b.raw
  if a.dimension == "money" and a.system != b.system:
    return False
  tolerance = 0.01 if a.system != b.system else 1e-5
  return any(
    x == y or abs(x - y) <= tolerance * max(abs(x), abs(y)) for x in a.amounts for y in b.amounts
  )


def same_date(a: Date, b: Date) -> bool | None:
  """Whether two dates agree in the parts that both give; None where they share no part."""
  verdict: bool | None = None
  for first in a.readings:
    for second in b.readings:
      shared = [x == y for x, y in zip(first, second) if x and y]
      if shared and all(shared):
        return True
      verdict = False if shared else verdict
  return verdict
