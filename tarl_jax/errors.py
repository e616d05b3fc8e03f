"""The one exception that a person is meant to read."""


class InputError(ValueError):
  """A file, a value or a flag is unusable; the message says which and what to do.

  The entry points print it as one sentence and leave with exit code 2.
  """
