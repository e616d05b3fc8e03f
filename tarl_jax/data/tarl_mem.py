"""`tarl_mem`, the stored set: a TFDS builder over ArrayRecord, and reading it back.

Owns the configs (one a source, and `all`), the licence each states, and the files' place.
What a stream looks like inside is in `columns.py`, who trains and who tests in `settings.py`.
Runs without TensorFlow. Release files come from the user's own `manual_dir`; of the sources
no text is here.

  builder = build(data_dir, "locomo", manual_dir=folder_with_locomo10)
  streams = read_streams_of(builder, "locomo", "train")
"""

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from tarl_jax.config import DataConfig, GeneratedConfig
from tarl_jax.data.columns import STEPS, Layout, from_columns, layout, to_columns
from tarl_jax.data.dataset import load_sources
from tarl_jax.data.licences import SOURCES
from tarl_jax.data.record import Stream
from tarl_jax.data.release_files import find_release_files, load_release
from tarl_jax.data.settings import SPLITS, Part, Parts, in_domain
from tarl_jax.errors import InputError

_NAME = "tarl_mem"
_OURS = "generated"
RELEASED = tuple(name for name in SOURCES if name != _OURS)
GENERATED = GeneratedConfig(train_streams=240, val_streams=15, test_streams=30)


@dataclasses.dataclass(eq=False, kw_only=True)
class TarlMemConfig(tfds.core.BuilderConfig):
  """Which sources: release files by source, and how much is generated (0 streams: nothing)."""

  released: tuple[str, ...] = ()
  generated: GeneratedConfig = GeneratedConfig()

  @property
  def sources(self) -> tuple[str, ...]:
    """Keys of SOURCES."""
    return self.released + ((_OURS,) if self.generated.train_streams else ())


class TarlMem(tfds.core.GeneratorBasedBuilder):
  """Streams of claims with gold, split by person (`settings.in_domain`); use `build`."""

  name = _NAME
  VERSION = tfds.core.Version("1.0.0")
  RELEASE_NOTES = {"1.0.0": "First layout."}  # noqa: RUF012 - TFDS reads a dict
  BUILDER_CONFIGS = [  # noqa: RUF012 - TFDS reads a list
    *(TarlMemConfig(name=name, released=(name,)) for name in RELEASED),
    TarlMemConfig(name=_OURS, generated=GENERATED),
    TarlMemConfig(name="all", released=RELEASED, generated=GENERATED),
  ]
  MANUAL_DOWNLOAD_INSTRUCTIONS = (
    "Put the official release files of the config's sources, as downloaded, anywhere below "
    "manual_dir; they are told apart by their keys, not by their names."
  )

  def _info(self) -> tfds.core.DatasetInfo:
    licences = [f"{name}: {SOURCES[name].licence}" for name in self.builder_config.sources]
    published = [f"{name}: {SOURCES[name].title}" for name in self.builder_config.sources]
    return tfds.core.DatasetInfo(
      builder=self,
      description=(
        "Streams of claims in order of arrival, each claim with the memory transaction that is "
        "right for it. One example is one stream; `steps` names the claims that count as "
        f"examples of the split. Licences: {'; '.join(licences)}. A set built from release "
        "files falls under their licence: keep it to yourself where that forbids sharing."
      ),
      citation="; ".join(published),
      license="; ".join(licences),
      features=tfds.features.FeaturesDict(
        {
          **{name: tfds.features.Text() for name in ("stream_id", "source", "person")},
          "steps": _feature(STEPS),
          "claims": _features(layout()),
        }
      ),
      disable_shuffling=True,
    )

  def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
    parts = divided(self.builder_config, dl_manager)
    return {name: self._generate_examples(parts[name]) for name in SPLITS if parts[name]}

  def _generate_examples(self, parts: list[Part]) -> Iterator[tuple[int, dict[str, Any]]]:
    for position, part in enumerate(parts):
      yield position, to_columns(part.stream, part.kept)


def divided(config: TarlMemConfig, downloads: tfds.download.DownloadManager) -> Parts:
  """The config's streams in the in-domain setting, the generated ones in splits of their own."""
  parts: Parts = {name: [] for name in SPLITS}
  if config.released:
    parts = in_domain(_released(pathlib.Path(downloads.manual_dir), config))
  if config.generated.train_streams:
    made = load_sources(DataConfig(generated=config.generated)).splits
    parts = {name: [*parts[name], *made[name]] for name in SPLITS}
  return parts


def _released(folder: pathlib.Path, config: TarlMemConfig) -> list[Stream]:
  """Streams of the config's sources; `all` takes what is there, the others need theirs."""
  files = find_release_files(folder)
  wanted = {name: getattr(files, name) for name in config.released}
  if not any(wanted.values()):
    raise InputError(
      f"{folder}: holds no file of {' or '.join(wanted)}; download it there or choose another "
      "config."
    )
  none = dict.fromkeys(files._fields, ())
  loaded, _ = load_release(files._replace(**{**none, **wanted}))
  return [stream for name in config.released for stream in loaded.get(name, [])]


def _feature(column: Layout) -> tfds.features.Tensor:
  """A column of any length; float64 would be cut to float32 without the bytes encoding."""
  text = column.dtype == np.dtype(object)
  encoding = "bytes" if column.dtype == np.float64 else "none"
  dtype = np.str_ if text else column.dtype.type
  return tfds.features.Tensor(shape=(None,), dtype=dtype, encoding=encoding, doc=column.doc)


def _features(columns: dict[str, Any]) -> tfds.features.FeaturesDict:
  return tfds.features.FeaturesDict(
    {
      name: _feature(column) if isinstance(column, Layout) else _features(column)
      for name, column in columns.items()
    }
  )


def build(
  data_dir: str | os.PathLike[str],
  config: str | TarlMemConfig,
  manual_dir: str | os.PathLike[str] | None = None,
) -> TarlMem:
  """Builds the set below `data_dir`, or finds it built; on several processes call it on one.

  A split to which nobody falls is left out. A built set is found by the name of its config
  alone: delete its folder where the release files or the settings have changed.

  Args:
    data_dir: where stored sets live.
    config: a source, "all", or a config of one's own.
    manual_dir: folder with the release files; "generated" needs none.

  Raises:
    InputError: for an unknown config, release files that are missing or unreadable, or a
      damaged set. A build that fails leaves no part of a set behind.
  """
  known = [one.name for one in TarlMem.BUILDER_CONFIGS]
  if isinstance(config, str) and config not in known:
    raise InputError(f"{_NAME}: '{config}' is no config; known are: {', '.join(known)}.")
  name = config if isinstance(config, str) else config.name
  with _undamaged(_folder(data_dir, name)):
    builder = TarlMem(data_dir=os.fspath(data_dir), config=config, file_format="array_record")
  if builder.is_prepared():
    return builder
  folder = None
  if builder.builder_config.released:
    if manual_dir is None or not pathlib.Path(manual_dir).is_dir():
      raise InputError(
        f"{_NAME}: config '{name}' needs manual_dir, the folder with the release files; found "
        f"{manual_dir}."
      )
    folder = os.fspath(manual_dir)
  downloads = tfds.download.DownloadConfig(manual_dir=folder)
  builder.download_and_prepare(download_config=downloads, file_format="array_record")
  return builder


def read_parts_of(
  data: tfds.core.DatasetBuilder | str | os.PathLike[str], config: str, split: str
) -> list[Part]:
  """Streams of one split with the steps that are examples, in the order of `in_domain`.

  Args:
    data: what `build` returned, or its `data_dir`.
    config: name of the config.
    split: "train", "val" or "test".

  Raises:
    InputError: where no such set or split is stored, or its files are damaged.
  """
  builder = _open(data, config)
  if split not in builder.info.splits:
    raise InputError(
      f"{builder.data_path}: has no split '{split}', only {', '.join(builder.info.splits)}."
    )
  with _undamaged(pathlib.Path(builder.data_path)):
    stored = [from_columns(example) for example in builder.as_data_source(split)]
  return [
    Part(stream, None if len(steps) == len(stream.claims) else steps) for stream, steps in stored
  ]


def _open(
  data: tfds.core.DatasetBuilder | str | os.PathLike[str], config: str
) -> tfds.core.DatasetBuilder:
  if isinstance(data, tfds.core.DatasetBuilder):
    if data.builder_config.name != config:
      raise InputError(f"{data.data_path}: is config '{data.builder_config.name}', not '{config}'.")
    return data
  folder = _folder(data, config)
  if not folder.is_dir():
    raise InputError(f"{folder}: no stored set is here; build it with tarl_mem.build first.")
  with _undamaged(folder):
    return tfds.builder_from_directory(folder)


def _folder(data_dir: str | os.PathLike[str], config: str) -> pathlib.Path:
  """Where TFDS keeps a built config."""
  return pathlib.Path(data_dir) / _NAME / config / str(TarlMem.VERSION)


@contextlib.contextmanager
def _undamaged(folder: pathlib.Path) -> Iterator[None]:
  """Turns whatever fails while a stored set is read into one sentence."""
  try:
    yield
  except MemoryError:
    raise
  except Exception as error:  # the readers below TFDS raise many types
    raise InputError(
      f"{folder}: is damaged (reading it fails with {type(error).__name__}); delete this folder "
      "and build it again."
    ) from error


def read_streams_of(
  data: tfds.core.DatasetBuilder | str | os.PathLike[str], config: str, split: str
) -> list[Stream]:
  """The streams of `read_parts_of`, equal to those that were stored."""
  return [part.stream for part in read_parts_of(data, config, split)]
