"""`python -m tarl_jax.bench NAME`: runs one benchmark and prints one JSON object a line.

Owns the command line; what is measured is in the file named like the benchmark.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence

from tarl_jax.bench import transitions, worth
from tarl_jax.errors import InputError

BENCHES: dict[str, Callable[[], Iterator[dict[str, object]]]] = {
  "transitions": transitions.run,
  "worth": worth.run,
}


def choose(arguments: Sequence[str]) -> Callable[[], Iterator[dict[str, object]]]:
  """The benchmark that the command line names.

  Raises:
    InputError: if the name is missing or unknown, or more than the name is given.
  """
  known = ", ".join(BENCHES)
  if len(arguments) != 1:
    raise InputError(
      f"give exactly one benchmark name, not {len(arguments)} arguments; choose one of: {known}."
    )
  if arguments[0] not in BENCHES:
    raise InputError(f"there is no benchmark named {arguments[0]!r}; choose one of: {known}.")
  return BENCHES[arguments[0]]


def main(arguments: Sequence[str]) -> int:
  """Exit code: 0, or 2 with one sentence on stderr when the command line is unusable."""
  try:
    bench = choose(arguments)
  except InputError as error:
    print(error, file=sys.stderr)
    return 2
  for record in bench():
    print(json.dumps(record), flush=True)
  return 0


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
