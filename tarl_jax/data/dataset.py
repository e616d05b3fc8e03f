"""From a run's settings to arrays: load, split, encode, roll out, featurize.

Owns the order of these steps and nothing else; `settings.py` divides, the converters read.
The idf table is fitted on training texts alone; every split is then featurized with it.
"""

import collections
import dataclasses
import glob
import hashlib
import json
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np

from tarl_jax.config import RELEASE_FIELDS, Config, DataConfig, EncoderConfig, GeneratedConfig
from tarl_jax.data import lexical, settings
from tarl_jax.data.ambiguous import ambiguous_new
from tarl_jax.data.examples import Texts, featurize
from tarl_jax.data.generated import generate
from tarl_jax.data.generated_plan import withheld_kinds
from tarl_jax.data.moments import Moment, stream_moments
from tarl_jax.data.record import Claim, Stream, read_streams
from tarl_jax.data.release_files import WHOLE, ReleaseFiles, load_release
from tarl_jax.data.settings import SPLITS, Part, Parts
from tarl_jax.errors import InputError
from tarl_jax.files import replace_file
from tarl_jax.inputs import Labels, PolicyInputs
from tarl_jax.models.cache import encode_cached
from tarl_jax.models.encoder import Encoder, make_encoder
from tarl_jax.models.interaction import interaction_signals


@dataclasses.dataclass(frozen=True)
class Split:
  """Streams, their moments in order, and the arrays of the moments, leading axis [E].

  Every step of every stream is there, since the memory is rolled out over all of them;
  `counts` (bool [E]) says which are examples of the split; `num_ambiguous` would have been, were
  they not new points that a live entry resembles (`ambiguous.py`).
  """

  streams: list[Stream]
  moments: list[Moment]
  counts: np.ndarray
  inputs: PolicyInputs
  labels: Labels
  num_ambiguous: int = 0


class Examples(NamedTuple):
  """The arrays of some examples, leading axis [E]."""

  inputs: PolicyInputs
  labels: Labels


@dataclasses.dataclass(frozen=True)
class Sources:
  """Streams by split, what the converters skipped by reason, and a digest of it all."""

  splits: Mapping[str, list[Part]]
  skips: collections.Counter[str]
  digest: str


def load_sources(config: DataConfig) -> Sources:
  """Reads and generates every source that the settings name.

  Raises:
    InputError: for a path that matches no file, or an unreadable file.
  """
  files = {name: tuple(_expand(getattr(config, name), f"data.{name}")) for name in RELEASE_FIELDS}
  loaded, skips = load_release(ReleaseFiles(**files))
  given = [
    stream for path in _expand(config.streams, "data.streams") for stream in read_streams(path)
  ]
  splits: Parts = {name: [] for name in SPLITS}
  if loaded or given:
    splits = _divide(config, loaded, given)
  for name, parts in _generated(config.generated).items():
    splits[name] = splits[name] + parts
  for name in SPLITS:
    if not splits[name]:
      raise InputError(f"config.data gives no stream for the {name} split; add people or sources.")
  return Sources(splits=splits, skips=skips, digest=_digest(splits))


def _divide(config: DataConfig, loaded: Mapping[str, list[Stream]], given: list[Stream]) -> Parts:
  """The streams in the run's setting; FactConsolidation is whole in "sequential" alone."""
  left_out = "factconsolidation" if config.setting == "sequential" else WHOLE
  released = [s for name, streams in loaded.items() if name != left_out for s in streams]
  streams = [*released, *given]
  if config.setting == "cross-source":
    return settings.cross_source(streams, config.held_out)
  divide = {
    "in-domain": settings.in_domain,
    "temporal": settings.temporal,
    "counterfactual": settings.counterfactual,
    "sequential": settings.sequential,
  }
  return divide[config.setting](streams)


def _generated(config: GeneratedConfig) -> Parts:
  """Generated streams by split, in three parts of validation and test told apart by `source`:
  new people, sources and forms with the facts of training; the same with new facts; and of
  both, the claims of kinds that training never tells."""
  splits: Parts = {name: [] for name in SPLITS}
  seed, claims = config.seed, config.claims
  if config.train_streams:
    facts = "train" if config.hold_out else "all"
    streams = generate(
      seed, config.train_streams, claims, "train", facts, all_kinds=not config.hold_out
    )
    splits["train"] = [Part(stream) for stream in streams]
  for name, number in (("val", config.val_streams), ("test", config.test_streams)):
    if number:
      for source, facts in (("generated", "train"), ("generated, new facts", name)):
        for stream in generate(seed, number, claims, name, facts):
          splits[name] += _by_kind(stream, source)
  return splits


def _by_kind(stream: Stream, source: str) -> list[Part]:
  """The stream with the kinds that training tells, and again with those that it does not."""
  new = [
    claim.gold is not None and claim.gold.kind in withheld_kinds("train") for claim in stream.claims
  ]
  parts = []
  for name, wanted in ((source, False), ("generated, new kinds", True)):
    steps = tuple(step for step, is_new in enumerate(new) if is_new == wanted)
    if steps:
      named = dataclasses.replace(stream, source=name, stream_id=f"{stream.stream_id}/{wanted:d}")
      parts.append(Part(named, steps))
  return parts


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


def _digest(splits: Mapping[str, Iterable[Part]]) -> str:
  """Digest of every claim, its gold and which steps are examples, by split and in order."""
  state = hashlib.blake2b(digest_size=16)
  for name in SPLITS:
    for part in splits[name]:
      content = (name, dataclasses.astuple(part.stream), part.steps)
      state.update(repr(content).encode("utf-8", "surrogatepass"))
  return state.hexdigest()


def fit_vocabulary(claims: Iterable[Claim]) -> dict[str, float]:
  """idf of stems over the texts of training claims."""
  texts = {claim.text for claim in claims}
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
  parts: Sequence[Part], config: Config, encoder: Encoder, idf: Mapping[str, float]
) -> Split:
  """Moments and arrays of the streams; see `moments.stream_moments` for the errors."""
  streams = [part.stream for part in parts]
  texts = encode_texts(
    (claim.text for stream in streams for claim in stream.claims),
    encoder,
    config.data.cache_dir,
    idf,
  )
  data = config.data
  vectors = texts.vectors()
  moments = stream_moments(streams, vectors, data.capacities, data.num_visible)
  inputs, labels = featurize(moments, texts, data.num_visible, interaction_signals)
  counts = settings.which_count(parts)
  sources = [stream.source for stream in streams]
  ambiguous = ambiguous_new(moments, sources, vectors, encoder.name)
  return Split(
    streams=streams,
    moments=moments,
    counts=counts & ~ambiguous,
    inputs=inputs,
    labels=labels,
    num_ambiguous=int(np.sum(counts & ambiguous)),
  )


def save_vocabulary(path: pathlib.Path, idf: Mapping[str, float]) -> None:
  """Writes the idf table with its digest, which `read_vocabulary` checks.

  Raises:
    InputError: if it cannot be written; what was there is unchanged.
  """
  content = json.dumps(idf, sort_keys=True, ensure_ascii=True)
  digest = hashlib.blake2b(content.encode(), digest_size=16).hexdigest()
  replace_file(path, f"{digest}\n{content}\n")


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


def examples_of(split: Split) -> Examples:
  """The arrays of the steps that are examples, in order."""
  rows = np.flatnonzero(split.counts)
  return jax.tree.map(lambda leaf: leaf[rows], Examples(split.inputs, split.labels))
