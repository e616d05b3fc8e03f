"""Fields of a JSON object: what is there, and where it stands."""

import json

import pytest

from tarl_jax.data.jsonl import Fields, read_jsonl
from tarl_jax.errors import InputError


def test_names_and_raw_values_are_those_of_the_object_in_its_order():
  value = {"zinc": None, "amber": [1, {"x": 2}], "": False}
  fields = Fields(value, "here")
  assert fields.names() == ("zinc", "amber", "")
  assert [fields.raw(name) for name in (*fields.names(), "absent")] == [*value.values(), None]
  assert Fields({}, "here").names() == ()


def test_a_part_knows_its_place_in_the_file(tmp_path):
  path = tmp_path / "a.jsonl"
  path.write_text("\n" + json.dumps({"outer": {"inner": {"n": 3}}}) + "\n", encoding="utf-8")
  [(fields, where)] = read_jsonl(path)
  inner = fields.child("outer").child("inner")
  assert fields.where == where == f"{path}, line 2"
  assert inner.where == f"{path}, line 2, field 'outer', field 'inner'"
  with pytest.raises(InputError) as caught:
    inner.text("n")
  assert str(caught.value) == f"{inner.where}, field 'n': expected a text, found 3."
