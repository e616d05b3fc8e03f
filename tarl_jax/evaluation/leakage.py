"""Probes of a build: how well a policy decides that sees only a part of each example.

Owns what each probe may see. Training is in `baselines/probe.py`, limits in `data/audits.py`.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np

from tarl_jax import metrics
from tarl_jax.baselines.probe import hide_memory, probe
from tarl_jax.config import Config
from tarl_jax.data import lexical
from tarl_jax.data.examples import (
  PAIR_SOURCE_SIGNALS,
  SOURCE_SIGNALS,
  TIME_SIGNALS,
  pair_source_signals,
  source_signals,
  time_signals,
)
from tarl_jax.data.moments import Moment, stream_moments
from tarl_jax.data.settings import Part, select
from tarl_jax.inputs import PolicyInputs
from tarl_jax.models.encoder import Encoder

_CHUNK = 1024  # texts encoded at once; only their sentence vectors are kept

_NO_SUBJECT = np.array([0.0 if "subject" in name else 1.0 for name in PAIR_SOURCE_SIGNALS])

Scores = dict[str, dict[str, float]]  # Macro F1 by probe and test


class _Seen(NamedTuple):
  """The same examples as each probe sees them, leading [E], and their gold actions."""

  views: dict[str, PolicyInputs]
  action: np.ndarray  # int32 [E]


def probe_scores(
  train: Sequence[Part], tests: Mapping[str, Sequence[Part]], encoder: Encoder, config: Config
) -> Scores:
  """Trains each probe once, as many steps as the policy, and scores it on every test.

  Args:
    train: examples to learn from.
    tests: examples to score, by name.
    encoder: of the texts.
    config: number of steps, model, optimizer, capacities and V; its first seed is used.

  Returns:
    Macro F1 by probe ("candidate-only", "source-only", "metadata-only") and test; NaN where a
    test has no example.
  """
  config = dataclasses.replace(config, probe_steps=config.opt.steps)
  everything = [*train, *(part for test in tests.values() for part in test)]
  vectors = encode_sentences(
    {claim.text for part in everything for claim in part.stream.claims}, encoder
  )
  seen = _see(train, vectors, config)
  looks = {name: _see(test, vectors, config) for name, test in tests.items() if test}
  scores: Scores = {name: dict.fromkeys(tests, float("nan")) for name in seen.views}
  for name, view in seen.views.items():
    shown = jax.tree.map(lambda *leaves: np.concatenate(leaves), *_views(looks.values(), name))
    found = probe(config, config.seeds[0], view, seen.action, shown).action
    for test, look in looks.items():
      own, found = found[: len(look.action)], found[len(look.action) :]
      weight = np.ones(len(own), np.float32)
      scores[name][test] = metrics.macro_f1(metrics.confusion(look.action, own, weight))
  return scores


def _views(looks: Iterable[_Seen], name: str) -> list[PolicyInputs]:
  return [look.views[name] for look in looks]


def encode_sentences(texts: set[str], encoder: Encoder) -> dict[str, np.ndarray]:
  """text -> float32 [D], unit norm."""
  ordered = sorted(texts)
  vectors: dict[str, np.ndarray] = {}
  for start in range(0, len(ordered), _CHUNK):
    chunk = ordered[start : start + _CHUNK]
    vectors.update(zip(chunk, encoder.encode(chunk).sentence))
  return vectors


def _see(parts: Sequence[Part], vectors: Mapping[str, np.ndarray], config: Config) -> _Seen:
  data = config.data
  streams = [part.stream for part in parts]
  moments = stream_moments(streams, dict(vectors), data.capacities, data.num_visible)
  moments = select(moments, parts)
  metadata = _metadata(moments, data.num_visible)
  candidate = np.stack([vectors[moment.candidate.text] for moment in moments])
  parsed = [lexical.claim_signals(lexical.parse(moment.candidate.text)) for moment in moments]
  blank = hide_memory(np.zeros((len(moments), 1), np.float32), metadata.claim_signals, metadata)
  sizes = metadata._replace(entries=candidate[:, None])
  views = {
    "candidate-only": hide_memory(candidate, np.stack(parsed), sizes),
    "source-only": blank._replace(source=metadata.source),
    "metadata-only": metadata,
  }
  actions = [moment.gold.action for moment in moments if moment.gold is not None]
  return _Seen(views, np.array(actions, np.int32))


def _metadata(moments: Sequence[Moment], num_visible: int) -> PolicyInputs:
  """Provenance and times of candidate and entries; texts are blanks of width 1.

  Whom a claim is about is what its text says, so the signals of `subject` are blank as well.
  """
  size = (len(moments), num_visible)
  inputs = PolicyInputs(
    candidate=np.zeros((len(moments), 1), np.float32),
    entries=np.zeros((*size, 1), np.float32),
    claim_signals=np.zeros((len(moments), 1), np.float32),
    pair_signals=np.zeros((*size, 1), np.float32),
    time_signals=np.zeros((*size, len(TIME_SIGNALS)), np.float32),
    source=np.zeros((len(moments), len(SOURCE_SIGNALS)), np.float32),
    entry_source=np.zeros((*size, len(SOURCE_SIGNALS)), np.float32),
    pair_source=np.zeros((*size, len(PAIR_SOURCE_SIGNALS)), np.float32),
    num_accepted=np.array([moment.num_accepted for moment in moments], np.int32),
    num_visible=np.array([len(moment.entries) for moment in moments], np.int32),
  )
  for e, moment in enumerate(moments):
    inputs.source[e] = source_signals(moment.candidate)
    for v, entry in enumerate(moment.entries):
      inputs.time_signals[e, v] = time_signals(moment.candidate, entry)
      inputs.entry_source[e, v] = source_signals(entry)
      inputs.pair_source[e, v] = pair_source_signals(moment.candidate, entry) * _NO_SUBJECT
  return inputs
