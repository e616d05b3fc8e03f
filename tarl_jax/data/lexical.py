"""Exact signals of one claim and of a (candidate, entry) pair, as small float vectors.

Owns the lists of signals and their order, and the idf-weighted overlap that also links an
update to its original (DATA.md, sharper rules 1, 4 and 5). Frozen embeddings blur numbers,
names, negation and who a fact is about; here code says them exactly. Knows no memory, no
source and no time: a signal depends on the texts alone.
"""

import math
from collections.abc import Mapping

import numpy as np

from tarl_jax.data.contrasts import (
  FORM_SIGNALS,
  SENSE_SIGNALS,
  VALUES_SIGNALS,
  WHO_SIGNALS,
  form_signals,
  sense_signals,
  value_signals,
  who_signals,
)
from tarl_jax.data.cues import CUE_BIT
from tarl_jax.data.overlap import OVERLAP_SIGNALS, fit_idf, idf_overlap, overlap_signals
from tarl_jax.data.parsing import Parsed, parse
from tarl_jax.data.subject import OWNER_NAMED, OWNER_RELATION, OWNER_SELF

__all__ = [
  "CLAIM_SIGNALS",
  "PAIR_SIGNALS",
  "Parsed",
  "claim_signals",
  "fit_idf",
  "idf_overlap",
  "pair_signals",
  "parse",
]

_CUES_AS_SIGNALS = tuple(name for name in CUE_BIT if name not in ("question", "no_negation"))
_OWN_SIGNALS = (
  "question",
  "has_number",
  "has_date",
  "has_quote",
  "has_name",
  "first_person",
  "about_relation",
  "about_named",
  "names_old_value",
  "names_new_value",
  "imperative_or_implied",
  "cjk",
  "log_words",
  "sentences",
)
CLAIM_SIGNALS = _CUES_AS_SIGNALS + _OWN_SIGNALS

_FIRST_PERSON = frozenset("i me my mine myself we us our ours 我".split())


def claim_signals(parsed: Parsed) -> np.ndarray:
  """How a claim is meant, from its text alone: float32 [len(CLAIM_SIGNALS)] in [0, 1].

  One 0/1 value for each cue of `cues.CUES`, then the signals named above; `log_words` is
  log(1 + words / 40) and `sentences` a quarter of their count, both at most 1.
  """
  cues = [float(parsed.cues & CUE_BIT[name] != 0) for name in _CUES_AS_SIGNALS]
  own = (
    parsed.question,
    bool(parsed.quantities),
    bool(parsed.dates),
    bool(parsed.quoted),
    bool(parsed.who.names or parsed.who.maybe_names),
    not _FIRST_PERSON.isdisjoint(parsed.words),
    parsed.who.owner_kind == OWNER_RELATION,
    parsed.who.owner_kind == OWNER_NAMED,
    bool(parsed.left),
    bool(parsed.arrived),
    parsed.who.owner_kind == OWNER_SELF and not parsed.who.subject and bool(parsed.who.verb),
    parsed.cjk,
    min(1.0, math.log1p(len(parsed.words) / 40)),
    min(1.0, parsed.sentences / 4),
  )
  return np.array([*cues, *own], dtype=np.float32)


PAIR_SIGNALS = OVERLAP_SIGNALS + VALUES_SIGNALS + WHO_SIGNALS + SENSE_SIGNALS + FORM_SIGNALS


def pair_signals(
  candidate: Parsed, entry: Parsed, idf: Mapping[str, float], default_idf: float
) -> np.ndarray:
  """How a candidate's text stands to an entry's: float32 [len(PAIR_SIGNALS)] in [0, 1].

  Not symmetric: "candidate" and "entry" in a name say whose side it is. `idf` comes from
  `fit_idf`, `default_idf` (1.0 with it) is the weight of a stem that it lacks.
  """
  signals = (
    *overlap_signals(candidate, entry, idf, default_idf),
    *value_signals(candidate, entry),
    *who_signals(candidate, entry),
    *sense_signals(candidate, entry),
    *form_signals(candidate, entry),
  )
  return np.array(signals, dtype=np.float32)
