"""A stream as flat columns of numbers and bytes, and back: the layout of the stored sets.

Owns the layout and the empty values; knows no file format. The columns are those of the
dataclasses in `record.py`, read from their fields, so a new field there is a new column here:

  stream_id, source, person   one text each
  steps                       int32 [S], which claims are examples
  claims/<field>              one value a claim, [N]
  claims/has_gold             bool [N]; where false the columns of `gold` hold empty values
  claims/gold/<field>         one value a claim, [N]
  <field>, num_<field>        for a field of many texts: all of them in a row, and how many
                              belong to each claim, int32 [N]

A text is UTF-8 with lone surrogates passed through. Empty values, where a field is None:
NO_TEXT, UNKNOWN_NUMBER (of a time), UNKNOWN_SHARE and NO_LABEL.
"""

import dataclasses
import enum
import functools
import math
import types
import typing
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from tarl_jax.data.record import Claim, Stream
from tarl_jax.errors import InputError
from tarl_jax.types import TIME_UNKNOWN

NO_TEXT = "\0"  # a text of its own, since "" says something
UNKNOWN_NUMBER = int(TIME_UNKNOWN)  # under every minute that a calendar has
UNKNOWN_SHARE = math.nan
NO_LABEL = -1

Columns = dict[str, Any]  # arrays by name, nested like the record


class Layout(NamedTuple):
  """Dtype of a column [N] (object for texts, which are bytes) and what it says."""

  dtype: np.dtype
  doc: str


_TEXT = np.dtype(object)
_COUNT = Layout(np.dtype(np.int32), "How many of the texts belong to each claim.")
_HAS = Layout(np.dtype(np.bool_), "Whether the claim has one; the columns are empty where not.")
STEPS = Layout(np.dtype(np.int32), "Positions of the claims that are examples, ascending.")


class _Kind(NamedTuple):
  """How values of one Python type are stored; `empty` stands for None."""

  dtype: np.dtype
  empty: Any
  doc: str


_KINDS = {
  str: _Kind(_TEXT, NO_TEXT, "UTF-8; NO_TEXT, one NUL character, where there is none."),
  int: _Kind(
    np.dtype(np.int64),
    UNKNOWN_NUMBER,
    f"Minutes since 1970-01-01 UTC; UNKNOWN_NUMBER, {UNKNOWN_NUMBER}, where unknown.",
  ),
  float: _Kind(np.dtype(np.float64), UNKNOWN_SHARE, "0 to 1; UNKNOWN_SHARE, NaN, where unknown."),
  bool: _Kind(np.dtype(np.bool_), False, "False also where there is no gold."),
}


@functools.cache
def _fields(record: type) -> tuple[tuple[str, Any], ...]:
  """Names and types of a dataclass's fields; an optional type without its None."""
  found = []
  hints = typing.get_type_hints(record)
  for field in dataclasses.fields(record):
    hint = hints[field.name]
    if isinstance(hint, types.UnionType):
      (hint,) = (part for part in typing.get_args(hint) if part is not types.NoneType)
    found.append((field.name, hint))
  return tuple(found)


def _is_many(hint: Any) -> bool:
  return hint == tuple[str, ...]


def _kind(hint: Any) -> _Kind:
  if isinstance(hint, type) and issubclass(hint, enum.IntEnum):
    names = ", ".join(f"{member.value} {member.name.lower()}" for member in hint)
    return _Kind(np.dtype(np.int32), NO_LABEL, f"{names}; NO_LABEL, {NO_LABEL}, where none.")
  return _KINDS[hint]


def layout(record: type = Claim) -> dict[str, Any]:
  """The columns of a record by name: a `Layout`, or a dict of them for a nested record."""
  found: dict[str, Any] = {}
  for name, hint in _fields(record):
    if dataclasses.is_dataclass(hint):
      found |= {f"has_{name}": _HAS, name: layout(typing.cast(type, hint))}
    elif _is_many(hint):
      doc = "Texts of all claims in a row; see the count beside it."
      found |= {name: Layout(_TEXT, doc), f"num_{name}": _COUNT}
    else:
      kind = _kind(hint)
      found[name] = Layout(kind.dtype, kind.doc)
  return found


def to_columns(stream: Stream, steps: Iterable[int]) -> Columns:
  """One stored example.

  Args:
    stream: any stream; gold need not be executable.
    steps: positions of the claims that are examples.

  Raises:
    InputError: for a value that an empty value or the dtype cannot hold, naming the field.
  """
  where = f"stream {stream.stream_id}"
  return {
    **{name: _bytes(getattr(stream, name)) for name in ("stream_id", "source", "person")},
    "steps": np.array(list(steps), STEPS.dtype),
    "claims": _pack(Claim, stream.claims, where),
  }


def _pack(record: type, values: Iterable[Any], where: str) -> Columns:
  """Columns of many records of one type; None for one that is absent."""
  values = list(values)
  columns: Columns = {}
  for name, hint in _fields(record):
    column = [None if value is None else getattr(value, name) for value in values]
    if dataclasses.is_dataclass(hint):
      columns[f"has_{name}"] = np.array([value is not None for value in column], _HAS.dtype)
      columns[name] = _pack(typing.cast(type, hint), column, where)
    elif _is_many(hint):
      texts = [text for many in column for text in many or ()]
      columns[name] = _store(str, texts, f"{where}, field '{name}'")
      columns[f"num_{name}"] = np.array([len(many or ()) for many in column], _COUNT.dtype)
    else:
      columns[name] = _store(hint, column, f"{where}, field '{name}'")
  return columns


def _store(hint: Any, column: list[Any], where: str) -> np.ndarray:
  kind = _kind(hint)
  for value in column:
    if value is not None and hint is not bool and _is_empty(kind, value):
      raise InputError(f"{where}: {value!r} cannot be stored, it stands for none; change it.")
  filled = [kind.empty if value is None else value for value in column]
  if hint is str:
    array = np.empty(len(filled), _TEXT)
    array[:] = [_bytes(text) for text in filled]
    return array
  try:
    return np.array(filled, kind.dtype)
  except OverflowError:
    raise InputError(f"{where}: holds a number beyond 64 bits; change it.") from None


def _is_empty(kind: _Kind, value: Any) -> bool:
  return value == kind.empty or value != value  # NaN alone differs from itself


def _bytes(text: str) -> bytes:
  return text.encode("utf-8", "surrogatepass")


def _text(stored: bytes) -> str:
  return stored.decode("utf-8", "surrogatepass")


def from_columns(columns: Columns) -> tuple[Stream, tuple[int, ...]]:
  """The stream and the steps that `to_columns` was given."""
  head = {name: _text(columns[name]) for name in ("stream_id", "source", "person")}
  claims = _unpack(Claim, columns["claims"])
  return Stream(claims=tuple(claims), **head), tuple(columns["steps"].tolist())


def _unpack(record: type, columns: Columns, present: list[bool] | None = None) -> list[Any]:
  """The records that `_pack` was given; None where one is not `present`."""
  fields: dict[str, list[Any]] = {}
  for name, hint in _fields(record):
    if dataclasses.is_dataclass(hint):
      has = columns[f"has_{name}"].tolist()
      fields[name] = _unpack(typing.cast(type, hint), columns[name], has)
    elif _is_many(hint):
      ends = np.cumsum(columns[f"num_{name}"]).tolist()
      texts = [_text(stored) for stored in columns[name]]
      fields[name] = [tuple(texts[start:end]) for start, end in zip([0, *ends], ends)]
    else:
      fields[name] = _load(hint, columns[name])
  rows = [dict(zip(fields, values)) for values in zip(*fields.values())]
  if present is None:
    return [record(**row) for row in rows]
  return [record(**row) if has else None for row, has in zip(rows, present)]


def _load(hint: Any, column: np.ndarray) -> list[Any]:
  kind = _kind(hint)
  values = [_text(stored) for stored in column] if hint is str else column.tolist()
  if hint is bool:
    return values
  make = hint if issubclass(hint, enum.IntEnum) else lambda value: value
  return [None if _is_empty(kind, value) else make(value) for value in values]
