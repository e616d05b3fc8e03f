"""Typed reading of JSON and JSON Lines: every fault names the file, the line and the field."""

import datetime
import json
import pathlib
from collections.abc import Iterator
from typing import Any

from tarl_jax.errors import InputError

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def minutes(when: datetime.datetime) -> int:
  """Whole minutes since 1970 UTC; a naive datetime is read as UTC."""
  if when.tzinfo is None:
    when = when.replace(tzinfo=datetime.UTC)
  return int((when - _EPOCH).total_seconds() // 60)


def to_iso(time: int | None) -> str | None:
  """The inverse of `minutes` as ISO 8601, e.g. 2026-03-01T09:00:00Z; None stays None."""
  if time is None:
    return None
  when = _EPOCH + datetime.timedelta(minutes=time)
  return when.replace(tzinfo=None).isoformat() + "Z"  # strftime does not pad a year before 1000


def one_line(text: str) -> str:
  """A text of a file as a part of a sentence, without what breaks lines."""
  return " ".join(text.split())


class Fields:
  """Typed access to one JSON object; a wrong field stops with `where`, its place in the file."""

  def __init__(self, value: Any, where: str):
    if not isinstance(value, dict):
      raise InputError(f"{where}: expected a JSON object, found {type(value).__name__}.")
    self._value, self.where = value, where

  def names(self) -> tuple[str, ...]:
    """The fields that are there, in the order of the file."""
    return tuple(self._value)

  def raw(self, name: str) -> Any:
    """The value of a field unchecked, None where it is absent."""
    return self._value.get(name)

  def fail(self, name: str, expected: str) -> InputError:
    found = "nothing" if name not in self._value else repr(self._value[name])[:60]
    place = f"{self.where}, field '{one_line(name)}'"
    return InputError(f"{place}: expected {expected}, found {found}.")

  def text(self, name: str, default: str | None = None) -> str:
    value = self._value.get(name, default)
    if not isinstance(value, str):
      raise self.fail(name, "a text")
    return value

  def optional_text(self, name: str) -> str | None:
    return None if self._value.get(name) is None else self.text(name)

  def flag(self, name: str) -> bool:
    value = self._value.get(name, False)
    if not isinstance(value, bool):
      raise self.fail(name, "true or false")
    return value

  def share(self, name: str) -> float | None:
    """A number from 0 to 1, or None where absent or null."""
    value = self._value.get(name)
    if value is None:
      return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
      raise self.fail(name, "a number from 0 to 1, or null")
    return float(value)

  def time(self, *names: str) -> int | None:
    """Minutes from the first of `names` that is there: an ISO 8601 text, or None."""
    for name in names:
      value = self._value.get(name)
      if value is None:
        continue
      if not isinstance(value, str):
        raise self.fail(name, "an ISO 8601 date such as 2026-03-01T09:00:00Z, or null")
      try:
        return minutes(datetime.datetime.fromisoformat(value))
      except ValueError:
        raise self.fail(name, "an ISO 8601 date such as 2026-03-01T09:00:00Z") from None
    return None

  def one_of(self, name: str, choices: tuple[str, ...], default: str | None = None) -> str:
    value = self._value.get(name, default)
    if value not in choices:
      raise self.fail(name, "one of " + ", ".join(choices))
    return value

  def items(self, name: str, optional: bool = False) -> list[Any]:
    value = self._value.get(name, [] if optional else None)
    if value is None and optional:
      return []
    if not isinstance(value, list):
      raise self.fail(name, "a list")
    return value

  def index(self, name: str, size: int) -> int | None:
    value = self._value.get(name)
    if value is None:
      return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < size:
      raise self.fail(name, f"an index from 0 to {size - 1}, or null")
    return value

  def child(self, name: str) -> "Fields":
    if name not in self._value:
      raise self.fail(name, "a JSON object")
    return Fields(self._value[name], f"{self.where}, field '{one_line(name)}'")

  def has(self, name: str) -> bool:
    return self._value.get(name) is not None


def read_jsonl(path: str | pathlib.Path) -> Iterator[tuple[Fields, str]]:
  """Yields (fields, place) per non-empty line; stops with file and line where unreadable."""
  path = pathlib.Path(path)
  try:
    lines = path.read_text(encoding="utf-8-sig").split("\n")
  except OSError as error:
    raise InputError(f"{path}: cannot be read ({error.strerror}); check the path.") from None
  except UnicodeDecodeError as error:
    raise InputError(f"{path}: is not UTF-8 text (byte {error.start}); convert it.") from None
  for number, line in enumerate(lines, 1):
    if not line.strip():
      continue
    where = f"{path}, line {number}"
    try:
      value = json.loads(line)
    except (ValueError, RecursionError) as error:
      raise InputError(f"{where}: is not JSON ({error}); the file may be cut off.") from None
    yield Fields(value, where), where


def read_json_list(path: str | pathlib.Path, what: str) -> list[Any]:
  """The values of a JSON file that is one list of `what`, at least one.

  Raises:
    InputError: naming the file, where it cannot be read or is no such list.
  """
  try:
    text = pathlib.Path(path).read_text(encoding="utf-8-sig")
  except OSError as error:
    raise InputError(f"{path}: cannot be read ({error.strerror}); check the path.") from None
  except UnicodeDecodeError as error:
    raise InputError(f"{path}: is not UTF-8 text (byte {error.start}); convert it.") from None
  try:
    values = json.loads(text)
  except (ValueError, RecursionError) as error:
    raise InputError(f"{path}: is not JSON ({error}); the file may be cut off.") from None
  if not isinstance(values, list) or not values:
    found = "an empty list" if values == [] else type(values).__name__
    raise InputError(f"{path}: expected a list of {what}, found {found}.")
  return values
