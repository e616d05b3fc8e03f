"""From moments to arrays: the features that the policy reads, and the labels.

Owns which signals there are and in which order. Text features come from the encoder (given
as arrays), exact signals from `lexical.py`, roles of sources from `sources.py`.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tarl_jax.data import lexical
from tarl_jax.data.moments import Moment
from tarl_jax.data.record import SCOPES, Claim
from tarl_jax.data.sources import ROLES, source_info
from tarl_jax.inputs import Labels, PolicyInputs
from tarl_jax.models.encoder import TextEncoding
from tarl_jax.types import OUTCOMES, Action, Status

TIME_SIGNALS = (
  "both_known",
  "newer",
  "older",
  "equal",
  "newer_by",  # log days, 0 where not newer
  "older_by",
  "candidate_unknown",
  "entry_unknown",
  "entry_is_over",  # its valid_until lies before the candidate
  "candidate_is_over",  # its valid_until lies before it was observed
  "candidate_ends_before_entry",
)
SOURCE_SIGNALS = ("reliability", "reliability_known", *(f"role_{role}" for role in ROLES))
PAIR_SOURCE_SIGNALS = (
  "margin",
  "same_name",
  "same_role",
  "same_owner",
  "other_owner",
  "same_subject",
  "other_subject",
)
BINDING = (Action.REVISE, Action.REJECT_CONFLICT)  # their target must be Accepted
_MINUTES_A_DAY = 1440.0
_LOG_DAYS_SCALE = 8.0  # log1p of about eight years in days is 8

PairSignals = Callable[[TextEncoding, np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Texts:
  """The texts of a set of moments: rows by text, their encoding, and the idf table."""

  row: Mapping[str, int]
  encoding: TextEncoding
  idf: Mapping[str, float]

  def vectors(self) -> dict[str, np.ndarray]:
    """text -> float32 [D]."""
    return {text: self.encoding.sentence[i] for text, i in self.row.items()}


def _time(claim: Claim) -> int | None:
  """When the claim speaks of, as far as we know: the start of its validity, or its arrival."""
  return claim.observed_at if claim.valid_from is None else claim.valid_from


def _log_days(minutes: int) -> float:
  return float(np.log1p(minutes / _MINUTES_A_DAY) / _LOG_DAYS_SCALE)


def time_signals(candidate: Claim, entry: Claim) -> list[float]:
  """Signals of TIME_SIGNALS for one pair; exact, in code."""
  now, then = _time(candidate), _time(entry)
  gap = None if now is None or then is None else now - then
  entry_is_over = entry.valid_until is not None and now is not None and entry.valid_until <= now
  observed, until = candidate.observed_at, candidate.valid_until
  candidate_is_over = until is not None and observed is not None and until <= observed
  ends_before = until is not None and then is not None and until <= then
  return [
    float(gap is not None),
    float(gap is not None and gap > 0),
    float(gap is not None and gap < 0),
    float(gap == 0),
    _log_days(gap) if gap is not None and gap > 0 else 0.0,
    _log_days(-gap) if gap is not None and gap < 0 else 0.0,
    float(now is None),
    float(then is None),
    float(entry_is_over),
    float(candidate_is_over),
    float(ends_before),
  ]


def source_signals(claim: Claim) -> list[float]:
  """Signals of SOURCE_SIGNALS; an unknown reliability is that of the source's role."""
  info = source_info(claim.source)
  known = claim.source_reliability is not None
  reliability = (
    claim.source_reliability if claim.source_reliability is not None else info.reliability
  )
  roles = [0.0] * len(ROLES)
  roles[info.role] = 1.0
  return [reliability, float(known), *roles]


def pair_source_signals(candidate: Claim, entry: Claim) -> list[float]:
  """Signals of PAIR_SOURCE_SIGNALS for one pair."""
  new, old = source_info(candidate.source), source_info(entry.source)
  subjects = candidate.subject is not None and entry.subject is not None
  owners = bool(new.owner) and bool(old.owner)
  return [
    source_signals(candidate)[0] - source_signals(entry)[0],
    float(candidate.source == entry.source),
    float(new.role == old.role),
    float(owners and new.owner == old.owner),
    float(owners and new.owner != old.owner),
    float(subjects and candidate.subject == entry.subject),
    float(subjects and candidate.subject != entry.subject),
  ]


def featurize(
  moments: Sequence[Moment], texts: Texts, num_visible: int, interaction: PairSignals
) -> tuple[PolicyInputs, Labels]:
  """Arrays of the moments, leading axis [E] in their order.

  Args:
    moments: decisions with at most `num_visible` entries.
    texts: holds every text of the moments.
    num_visible: V.
    interaction: (encoding, int [M, 2] pairs) -> float32 [M, ...], e.g.
      `models.interaction.interaction_signals`.
  """
  return _inputs(moments, texts, num_visible, interaction), _labels(moments, num_visible)


def _inputs(
  moments: Sequence[Moment], texts: Texts, num_visible: int, interaction: PairSignals
) -> PolicyInputs:
  size = (len(moments), num_visible)
  rows = [texts.row[moment.candidate.text] for moment in moments]
  entries = np.zeros((*size, texts.encoding.sentence.shape[1]), np.float32)
  time = np.zeros((*size, len(TIME_SIGNALS)), np.float32)
  source = np.zeros((len(moments), len(SOURCE_SIGNALS)), np.float32)
  entry_source = np.zeros((*size, len(SOURCE_SIGNALS)), np.float32)
  pair_source = np.zeros((*size, len(PAIR_SOURCE_SIGNALS)), np.float32)
  for e, moment in enumerate(moments):
    source[e] = source_signals(moment.candidate)
    for v, entry in enumerate(moment.entries):
      entries[e, v] = texts.encoding.sentence[texts.row[entry.text]]
      time[e, v] = time_signals(moment.candidate, entry)
      entry_source[e, v] = source_signals(entry)
      pair_source[e, v] = pair_source_signals(moment.candidate, entry)
  claim_signals, pair_signals = _text_signals(moments, texts, num_visible, interaction)
  return PolicyInputs(
    candidate=texts.encoding.sentence[rows],
    entries=entries,
    claim_signals=claim_signals,
    pair_signals=pair_signals,
    time_signals=time,
    source=source,
    entry_source=entry_source,
    pair_source=pair_source,
    num_accepted=np.array([moment.num_accepted for moment in moments], np.int32),
    num_visible=np.array([len(moment.entries) for moment in moments], np.int32),
  )


def _text_signals(
  moments: Sequence[Moment], texts: Texts, num_visible: int, interaction: PairSignals
) -> tuple[np.ndarray, np.ndarray]:
  """Signals of candidates [E, C] and pairs [E, V, P]; each distinct pair is computed once."""
  parsed = {text: lexical.parse(text) for text in texts.row}
  place: dict[tuple[int, int], int] = {}
  where: list[tuple[int, int, int]] = []
  names: list[tuple[str, str]] = []
  for e, moment in enumerate(moments):
    for v, entry in enumerate(moment.entries):
      key = (texts.row[moment.candidate.text], texts.row[entry.text])
      if key not in place:
        place[key] = len(place)
        names.append((moment.candidate.text, entry.text))
      where.append((e, v, place[key]))
  claims = np.stack([lexical.claim_signals(parsed[moment.candidate.text]) for moment in moments])
  table = pair_table(names, parsed, texts, interaction)
  pairs = np.zeros((len(moments), num_visible, table.shape[1]), np.float32)
  if where:
    e, v, row = np.array(where).T
    pairs[e, v] = table[row]
  return claims, pairs


def pair_table(
  pairs: Sequence[tuple[str, str]],
  parsed: Mapping[str, lexical.Parsed],
  texts: Texts,
  interaction: PairSignals,
) -> np.ndarray:
  """Exact and late-interaction signals of pairs of texts; float32 [Q, P] in their order.

  Args:
    pairs: (candidate, entry), each distinct pair once; may be empty.
    parsed: of every text of the pairs.
    texts: holds every text of the pairs.
    interaction: as for `featurize`.
  """
  if not pairs:
    width = len(lexical.PAIR_SIGNALS) + interaction(texts.encoding, np.zeros((1, 2), int)).shape[1]
    return np.zeros((0, width), np.float32)
  default_idf = max(texts.idf.values(), default=1.0)
  exact = np.stack(
    [lexical.pair_signals(parsed[a], parsed[b], texts.idf, default_idf) for a, b in pairs]
  )
  rows = np.array([(texts.row[a], texts.row[b]) for a, b in pairs], np.int64)
  return np.concatenate([exact, interaction(texts.encoding, rows)], axis=1)


def _labels(moments: Sequence[Moment], num_visible: int) -> Labels:
  number = len(moments)
  labels = Labels(
    action=np.zeros(number, np.int32),
    target=np.full(number, num_visible, np.int32),
    targets=np.zeros((number, num_visible + 1), bool),
    scope=np.full(number, -1, np.int32),
    reliability=np.full(number, np.nan, np.float32),
    entry_reliability=np.full((number, num_visible), np.nan, np.float32),
    weight=np.zeros(number, np.float32),
    resolves=np.full(number, num_visible, np.int32),
    outcome=np.full(number, Status.EMPTY, np.int32),
  )
  for e, moment in enumerate(moments):
    gold = moment.gold
    for v, entry in enumerate(moment.entries):
      if entry.gold is not None and entry.gold.reliability is not None:
        labels.entry_reliability[e, v] = entry.gold.reliability
    if gold is None:
      continue
    labels.action[e] = gold.action
    usable = [v for v in moment.targets if v < moment.num_accepted or gold.action not in BINDING]
    out_of_sight = gold.target is not None and not usable
    labels.weight[e] = float(not out_of_sight)
    if usable:
      labels.target[e] = usable[0]
      labels.targets[e, usable] = True
    else:
      labels.targets[e, num_visible] = True
    if gold.scope is not None:
      labels.scope[e] = SCOPES.index(gold.scope)
    if gold.reliability is not None:
      labels.reliability[e] = gold.reliability
    if moment.resolves is not None and gold.outcome is not None:
      labels.resolves[e] = moment.resolves
      labels.outcome[e] = OUTCOMES[gold.outcome]
  return labels
