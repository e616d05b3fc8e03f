"""From a run's settings to arrays: load, split, encode, roll out, featurize.

Owns the order of these steps and nothing else. The idf table is fitted on training texts
alone; every split is then featurized with it.
"""

import collections
import dataclasses
import glob
import hashlib
import json
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tarl_jax.config import Config, DataConfig, EncoderConfig, GeneratedConfig
from tarl_jax.data import lexical
from tarl_jax.data.examples import Texts, featurize
from tarl_jax.data.generated import generate
from tarl_jax.data.halumem import load_halumem
from tarl_jax.data.locomo import load_locomo
from tarl_jax.data.moments import Moment, stream_moments
from tarl_jax.data.record import Stream, read_streams
from tarl_jax.data.splits import split_streams
from tarl_jax.errors import InputError
from tarl_jax.inputs import Labels, PolicyInputs
from tarl_jax.models.cache import encode_cached
from tarl_jax.models.encoder import Encoder, make_encoder
from tarl_jax.models.interaction import interaction_signals

SPLITS = ("train", "val", "test")


@dataclasses.dataclass(frozen=True)
class Split:
  """Streams, their moments in order, and the arrays of the moments, leading axis [E]."""

  streams: list[Stream]
  moments: list[Moment]
  inputs: PolicyInputs
  labels: Labels


@dataclasses.dataclass(frozen=True)
class Sources:
  """Streams by split, what the converters skipped by reason, and a digest of it all."""

  splits: Mapping[str, list[Stream]]
  skips: collections.Counter[str]
  digest: str


def load_sources(config: DataConfig) -> Sources:
  """Reads and generates every source that the settings name.

  Raises:
    InputError: for a path that matches no file, or an unreadable file.
  """
  splits: dict[str, list[Stream]] = {name: [] for name in SPLITS}
  skips: collections.Counter[str] = collections.Counter()
  given: list[Stream] = []
  if config.halumem:
    streams, skipped = load_halumem(_expand(config.halumem, "data.halumem"))
    given += streams
    skips.update({f"halumem: {reason}": number for reason, number in skipped.items()})
  for path in _expand(config.locomo, "data.locomo"):
    streams, skipped = load_locomo(path)
    given += streams
    skips.update({f"locomo: {reason}": number for reason, number in skipped.items()})
  for path in _expand(config.streams, "data.streams"):
    given += read_streams(path)
  if given:
    for name, part in split_streams(given).items():
      splits[name] += part
  for name, streams in _generated(config.generated).items():
    splits[name] += streams
  for name in SPLITS:
    if not splits[name]:
      raise InputError(f"config.data gives no stream for the {name} split; add people or sources.")
  return Sources(splits=splits, skips=skips, digest=_digest(splits))


def _generated(config: GeneratedConfig) -> dict[str, list[Stream]]:
  """Generated streams by split. Validation and test have two parts, told apart by `source`:
  new people, sources and forms with the facts of training, and the same with new facts."""
  splits: dict[str, list[Stream]] = {name: [] for name in SPLITS}
  seed, claims = config.seed, config.claims
  if config.train_streams:
    splits["train"] = generate(seed, config.train_streams, claims, "train")
  for name, number in (("val", config.val_streams), ("test", config.test_streams)):
    if number:
      for source, facts in (("generated", "train"), ("generated, new facts", name)):
        streams = generate(seed, number, claims, name, facts)
        splits[name] += [dataclasses.replace(stream, source=source) for stream in streams]
  return splits


def _expand(patterns: Sequence[str], setting: str) -> list[pathlib.Path]:
  """Files that the paths and glob patterns name, sorted; each pattern must match."""
  paths: set[str] = set()
  for pattern in patterns:
    # A name that exists is meant, even where it reads as a pattern ("run[1].jsonl").
    found = [pattern] if os.path.exists(pattern) else glob.glob(pattern)
    if not found:
      raise InputError(f"config.{setting}: '{pattern}' matches no file; check the path.")
    paths.update(found)
  return [pathlib.Path(path) for path in sorted(paths)]


def _digest(splits: Mapping[str, Iterable[Stream]]) -> str:
  """Digest of every claim and its gold, by split and in order."""
  state = hashlib.blake2b(digest_size=16)
  for name in SPLITS:
    for stream in splits[name]:
      state.update(repr((name, dataclasses.astuple(stream))).encode("utf-8", "surrogatepass"))
  return state.hexdigest()


def fit_vocabulary(streams: Iterable[Stream]) -> dict[str, float]:
  """idf of stems over the claims of training streams."""
  texts = {claim.text for stream in streams for claim in stream.claims}
  return lexical.fit_idf(lexical.parse(text) for text in sorted(texts))


def encode_texts(
  texts: Iterable[str], encoder: Encoder, cache_dir: str, idf: Mapping[str, float]
) -> Texts:
  """Encodes each distinct text once, through the cache on disk."""
  distinct = sorted(set(texts))
  encoding = encode_cached(encoder, distinct, cache_dir or None, show_progress=True)
  return Texts(row={text: i for i, text in enumerate(distinct)}, encoding=encoding, idf=idf)


def load_encoder(config: EncoderConfig) -> Encoder:
  """The encoder that the settings name."""
  return make_encoder(config.name, config.weights or None)


def build_split(
  streams: list[Stream], config: Config, encoder: Encoder, idf: Mapping[str, float]
) -> Split:
  """Moments and arrays of the streams; see `moments.stream_moments` for the errors."""
  texts = encode_texts(
    (claim.text for stream in streams for claim in stream.claims),
    encoder,
    config.data.cache_dir,
    idf,
  )
  data = config.data
  moments = stream_moments(streams, texts.vectors(), data.capacities, data.num_visible)
  inputs, labels = featurize(moments, texts, data.num_visible, interaction_signals)
  return Split(streams=streams, moments=moments, inputs=inputs, labels=labels)


def save_vocabulary(path: pathlib.Path, idf: Mapping[str, float]) -> None:
  """Writes the idf table with its digest, which `read_vocabulary` checks."""
  content = json.dumps(idf, sort_keys=True, ensure_ascii=True)
  digest = hashlib.blake2b(content.encode(), digest_size=16).hexdigest()
  part = path.with_suffix(".part")
  part.write_text(f"{digest}\n{content}\n", encoding="ascii")
  part.replace(path)


def read_vocabulary(path: pathlib.Path) -> dict[str, float]:
  """Reads what `save_vocabulary` wrote.

  Raises:
    InputError: if the file is missing or damaged.
  """
  try:
    digest, content = path.read_text(encoding="ascii").rstrip("\n").split("\n")
  except (OSError, ValueError):
    raise InputError(f"{path}: is missing or damaged; train into this workdir again.") from None
  if hashlib.blake2b(content.encode(), digest_size=16).hexdigest() != digest:
    raise InputError(f"{path}: does not match its digest; train into a new workdir.")
  return json.loads(content)


def num_examples(labels: Labels) -> int:
  """E, the number of examples."""
  return int(np.shape(labels.action)[0])
