"""Whole files or none: how everything that is replaced gets to disk.

Knows neither what a file holds nor where it belongs; files that grow are written elsewhere.
"""

import contextlib
import os
import pathlib
import uuid

from tarl_jax.errors import InputError


def replace_file(path: pathlib.Path, content: str | bytes) -> None:
  """Writes a file so that it holds the old or the new content at any time, never a part.

  The content is on disk before it takes the name. The part beside the file has a name of its
  own each time, so that of two writers the later wins; only a killed process leaves it behind.

  Args:
    path: the file, which may exist; its folder must.
    content: a text is written as UTF-8.

  Raises:
    InputError: where it cannot be written, as on a full disk. The old file is unchanged then.
  """
  data = content.encode() if isinstance(content, str) else content
  part = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
  try:
    with open(part, "wb") as file:
      file.write(data)
      file.flush()
      os.fsync(file.fileno())
    os.replace(part, path)
  except OSError as error:
    raise InputError(
      f"{path}: cannot be written ({error.strerror}); free space there or choose another folder."
    ) from None
  finally:
    with contextlib.suppress(OSError):  # moved by now, or never made
      part.unlink()
