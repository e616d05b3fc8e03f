"""Damage to the values of a JSON file, one place at a time; shared by the fuzzed converters."""

import copy

_JUNK = (
  None,
  True,
  -1,
  3.5,
  "",
  " ",
  "x",
  "\ud800",
  [],
  {},
  [None],
  {"a": 1},
  "2031-02-30",
  10**40,
)


def mutate(value, rng):
  """One place of the value dropped, doubled or replaced by junk."""
  places = []

  def walk(node):
    for key in list(node) if isinstance(node, dict) else range(len(node)):
      places.append((node, key))
      if isinstance(node[key], dict | list):
        walk(node[key])

  walk(value)
  node, key = places[int(rng.integers(len(places)))]
  draw = rng.random()
  if draw < 0.25 and isinstance(node, dict):
    del node[key]
  elif draw < 0.4 and isinstance(node, list):
    node.append(copy.deepcopy(node[key]))
  else:
    node[key] = copy.deepcopy(_JUNK[int(rng.integers(len(_JUNK)))])
