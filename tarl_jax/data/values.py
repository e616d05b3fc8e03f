"""Finds numbers with units, dates and times of day in a list of words.

Owns the reading; `units.py` has the tables, `quantities.py` says what is equal.

"08/05/2023" keeps both readings, "7:30" without am or pm keeps both halves of the day. A
four-digit number is a year where it stands alone after a word such as "in" or "since".
"""

import re

from tarl_jax.data.quantities import Date, Quantity, parse_number
from tarl_jax.data.units import (
  CJK_NUMBERS,
  CJK_WEEKDAYS,
  CURRENCY_FIRST,
  FAR_UNITS,
  MONTHS,
  MULTIPLIERS,
  NEED_CAPITAL,
  NO_NUMBER_AFTER,
  NO_NUMBER_BEFORE,
  NUMBER_WORDS,
  TWO_WORD_UNITS,
  UNITS,
  WEEKDAYS,
  YEAR_AFTER,
)

_ISO = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})$")
_DAY_FIRST = re.compile(r"(\d{1,2})[-/.](\d{1,2})[-/.](\d{4}|\d{2})$")
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::\d{2})?$")


_LEADS = (
  frozenset(MONTHS)
  | frozenset(WEEKDAYS)
  | frozenset(CJK_NUMBERS)
  | CURRENCY_FIRST
  | frozenset("dozen half quarter couple hour noon midnight 周 期".split())
)


def _parse_hour(word: str) -> int:
  """Hour 1 to 12 in digits or as a word, else 0."""
  value = NUMBER_WORDS.get(word, float(word) if word.isdecimal() else 0.0)
  return int(value) if 1 <= value <= 12 else 0


def _round(value: float) -> float:
  return float(f"{value:.6g}")


def find_values(
  words: list[str], capitals: list[bool], starts: set[int]
) -> tuple[list[Quantity], list[Date]]:
  """Quantities and dates in order of place; `words` are casefolded."""
  finder = _Finder(words, capitals, starts)
  place = 0
  while place < len(words):
    word = words[place]
    if word[0] in "-0123456789" or word in NUMBER_WORDS or word in _LEADS:
      place = max(finder.read(place), place + 1)
    else:
      place += 1
  return finder.quantities, finder.dates


class _Finder:
  """One pass over the words; `read` returns the place after what it found."""

  def __init__(self, words: list[str], capitals: list[bool], starts: set[int]):
    self.words, self.capitals, self.starts = words, capitals, starts
    self.quantities: list[Quantity] = []
    self.dates: list[Date] = []

  def at(self, place: int) -> str:
    return self.words[place] if 0 <= place < len(self.words) else ""

  def read(self, place: int) -> int:
    word = self.words[place]
    if word in MONTHS or word in WEEKDAYS:
      return self.read_named_date(place)
    if word in CURRENCY_FIRST:
      end, value = self.read_plain(place + 1)
      if value is None:
        return place + 1
      _, currency, factor = UNITS[word]
      return self.add("money", value * factor, value, currency, place, end)
    if word in ("noon", "midnight"):
      return self.add("clock", 720.0 if word == "noon" else 0.0, 0.0, "", place, place + 1)
    if word in ("周", "期"):
      weekday = CJK_WEEKDAYS.get(self.at(place + 1), 0)
      if weekday:
        self.dates.append(Date(((0, 0, 0, weekday),), place, place + 2))
      return place + 2 if weekday else place + 1
    if word == "hour":
      return self.read_hour(place)
    if word[0].isdigit() or word in ("half", "quarter"):
      for reader in (self.read_clock, self.read_numeric_date, self.read_day):
        end = reader(place)
        if end:
          return end
    return self.read_quantity(place)

  def add(
    self, dimension: str, amount: float, raw: float, system: str, start: int, end: int
  ) -> int:
    self.quantities.append(Quantity(dimension, (_round(amount),), _round(raw), system, start, end))
    return end

  def is_month(self, place: int) -> bool:
    word = self.at(place)
    return word in MONTHS and (word not in NEED_CAPITAL or self.capitals[place])

  def read_year(self, place: int) -> tuple[int, int]:
    word = self.at(place)
    if len(word) == 4 and word.isdecimal() and word[0] in "12":
      return int(word), place + 1
    return 0, place

  def read_named_date(self, place: int) -> int:
    word = self.words[place]
    if word in NEED_CAPITAL and not self.capitals[place]:
      return place + 1
    if word in WEEKDAYS:
      self.dates.append(Date(((0, 0, 0, WEEKDAYS[word]),), place, place + 1))
      return place + 1
    day, end = self.ordinal(place + 1)
    year, end = self.read_year(end)
    if not day and not year and word == "may" and place in self.starts:
      return place + 1
    self.dates.append(Date(((year, MONTHS[word], day, 0),), place, end))
    return end

  def ordinal(self, place: int) -> tuple[int, int]:
    """Day of the month at `place` and the place after it; 0 where there is none."""
    word = self.at(place)
    if word == "the":
      word, place = self.at(place + 1), place + 1
    if not (word.isdecimal() and len(word) <= 2 and 1 <= int(word) <= 31):
      return 0, place
    return int(word), place + (2 if self.at(place + 1) in ("st", "nd", "rd", "th") else 1)

  def read_day(self, place: int) -> int:
    """Such as "8 May 2023", "5月8日", and a bare year after a word such as "in"."""
    day, end = self.ordinal(place)
    if day and self.at(end) == "of":
      end += 1
    if day and self.is_month(end):
      year, after = self.read_year(end + 1)
      self.dates.append(Date(((year, MONTHS[self.words[end]], day, 0),), place, after))
      return after
    year, end = self.read_year(place)
    if year and self.at(end) == "年":
      place_month = end + 1
    elif day and self.at(place + 1) == "月":
      place_month = place
    else:
      bare_year = 1900 <= year <= 2099 and self.at(place - 1) in YEAR_AFTER
      if not bare_year or self.at(end) in UNITS:
        return 0
      self.dates.append(Date(((year, 0, 0, 0),), place, end))
      return end
    return self.read_month_and_day(place, year, place_month)

  def read_month_and_day(self, place: int, year: int, end: int) -> int:
    month, day = 0, 0
    if self.at(end).isdecimal() and self.at(end + 1) == "月":
      month, end = int(self.words[end]), end + 2
      if self.at(end).isdecimal() and self.at(end + 1) in ("日", "号"):
        day, end = int(self.words[end]), end + 2
    self.dates.append(Date(((year, month, day, 0),), place, end))
    return end

  def read_numeric_date(self, place: int) -> int:
    word = self.words[place]
    if len(word) < 6:
      return 0
    match = _ISO.match(word)
    if match:
      year, month, day = map(int, match.groups())
      readings = [(year, month, day, 0)]
    else:
      match = _DAY_FIRST.match(word)
      if not match:
        return 0
      first, second, year = map(int, match.groups())
      year += 2000 if year < 100 else 0
      readings = list({(year, second, first, 0): 0, (year, first, second, 0): 0})
    readings = [r for r in readings if 1 <= r[1] <= 12 and 1 <= r[2] <= 31]
    if not readings:
      return 0
    self.dates.append(Date(tuple(readings), place, place + 1))
    return place + 1

  def read_clock(self, place: int) -> int:
    """Such as "7:30", "7:30 pm", "7 pm", "7 o'clock", "half past seven"."""
    if self.at(place + 1) in ("past", "to"):
      return self.read_spoken_clock(place)
    match = _CLOCK.match(self.words[place]) if ":" in self.words[place] else None
    if match:
      hour, minute = int(match[1]), int(match[2])
    elif self.words[place].isdecimal() and len(self.words[place]) <= 2:
      hour, minute = int(self.words[place]), 0
    else:
      return 0
    half = self.at(place + 1)
    if hour > 24 or minute > 59 or (half not in ("am", "pm", "o'clock") and not match):
      return 0
    time = float(hour * 60 + minute)
    if half in ("am", "pm") and hour <= 12:
      readings: tuple[float, ...] = (time % 720 + (720 if half == "pm" else 0),)
    elif (1 <= hour <= 12 and len(self.words[place].split(":")[0]) == 1) or half == "o'clock":
      readings = (time % 720, time % 720 + 720)
    else:
      readings = (time,)
    end = place + 2 if half in ("am", "pm", "o'clock") else place + 1
    self.quantities.append(Quantity("clock", readings, time, "", place, end))
    return end

  def read_spoken_clock(self, place: int) -> int:
    """Such as "half past seven", "10 past 7", "quarter to eight pm"."""
    word, sign = self.words[place], 1 if self.words[place + 1] == "past" else -1
    minute = {"half": 30, "quarter": 15}.get(word) or (int(word) if word.isdecimal() else 0)
    hour = _parse_hour(self.at(place + 2))
    # "10 to 7" is a range or a score as often as a time.
    if not hour or not 0 < minute < 60 or (word.isdecimal() and sign < 0):
      return 0
    time = float((hour * 60 + sign * minute) % 720)
    half = self.at(place + 3)
    readings = {"am": (time,), "pm": (time + 720,)}.get(half, (time, time + 720))
    end = place + 3 + (half in ("am", "pm"))
    self.quantities.append(Quantity("clock", readings, time, "", place, end))
    return end

  def read_plain(self, place: int) -> tuple[int, float | None]:
    """A number without its unit: digits, number words, multipliers."""
    word = self.at(place)
    if word in ("half", "dozen", "couple"):
      return self.read_loose(place, word)
    if word in CJK_NUMBERS:
      unit, _ = self.read_unit(place + 1)
      return place + 1, CJK_NUMBERS[word] if unit[0] else None
    value = NUMBER_WORDS.get(word)
    end = place + 1
    if value is None:
      value = parse_number(word) if word and word[0] in "-0123456789" else None
      if value is None:
        return end, None
      if self.at(end) in ("st", "nd", "rd", "th"):
        end += 1
    elif value >= 20 and 0 < NUMBER_WORDS.get(self.at(end), 0) < 10:
      value += NUMBER_WORDS[self.words[end]]
      end += 1
    if word == "one" and (
      self.at(end) in NO_NUMBER_AFTER or self.at(place - 1) in NO_NUMBER_BEFORE
    ):
      return end, None
    while self.at(end) in MULTIPLIERS:
      value *= MULTIPLIERS[self.words[end]]
      end += 1
    if self.at(end) == "and" and self.at(end + 1) == "a" and self.at(end + 2) == "half":
      value, end = value + 0.5, end + 3
    return end, value

  def read_hour(self, place: int) -> int:
    """Such as "an hour" and "an hour and a half"; a bare "hour" is no quantity."""
    if self.at(place - 1) != "an":
      return place + 1
    if self.words[place + 1 : place + 4] == ["and", "a", "half"]:
      return self.add("duration", 90.0, 1.5, "", place, place + 4)
    return self.add("duration", 60.0, 1.0, "", place, place + 1)

  def read_loose(self, place: int, word: str) -> tuple[int, float | None]:
    after = self.at(place + 1)
    if word == "half":
      if after in ("a", "an") and self.at(place + 2) == "dozen":
        return place + 3, 6.0
      if after in ("a", "an") and self.at(place + 2) in UNITS:
        return place + 2, 0.5
      return place + 1, None
    if word == "couple":
      return (place + 2, 2.0) if after == "of" else (place + 1, None)
    return place + 1, 12.0

  def read_quantity(self, place: int) -> int:
    word = self.words[place]
    span = re.fullmatch(r"(\d+(?:[.,]\d+)?)[-/](\d+(?:[.,]\d+)?)", word)
    if span:
      unit, end = self.read_unit(place + 1)
      for part in span.groups():
        value = parse_number(part)
        if value is not None:
          self.add_with_unit(value, unit, place, end)
      return end
    end, value = self.read_plain(place)
    if value is None:
      return end
    unit, end = self.read_unit(end)
    return self.add_with_unit(value, unit, place, end)

  def read_unit(self, place: int) -> tuple[tuple[str, str, float], int]:
    """Unit at `place` and the place after it; the unit of a bare number is ("", "", 1)."""
    word, after = self.at(place), self.at(place + 1)
    pair = TWO_WORD_UNITS.get((word, after))
    if pair:
      return UNITS[pair], place + 2
    if word in ("c", "f") and self.capitals[place]:
      return UNITS["°" + word], place + 1
    if word in UNITS:
      return UNITS[word], place + 1
    if after in FAR_UNITS and place + 1 not in self.starts and word.isalpha():
      return UNITS[after], place + 2
    return ("", "", 1.0), place

  def add_with_unit(self, value: float, unit: tuple[str, str, float], place: int, end: int) -> int:
    dimension, system, factor = unit
    if self.joins(dimension, system, factor, place):
      last = self.quantities.pop()
      amount = _round(last.amounts[0] + value * factor)
      self.quantities.append(last._replace(amounts=(amount,), end=end))
      return end
    amount = (value - 32) * 5 / 9 if dimension == "temperature" and system else value * factor
    return self.add(dimension, amount, value, system, place, end)

  def joins(self, dimension: str, system: str, factor: float, place: int) -> bool:
    """True for the second half of "1 hour 30 minutes" or "5 ft 11 inches"."""
    if dimension not in ("duration", "length", "mass") or not self.quantities:
      return False
    last = self.quantities[-1]
    gap = self.words[last.end : place]
    larger = last.amounts[0] >= factor * (1 + 1e-9) and last.raw * factor < last.amounts[0]
    return last.dimension == dimension and last.system == system and larger and gap in ([], ["and"])
