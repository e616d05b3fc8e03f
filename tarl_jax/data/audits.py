"""The audits of a build: each looks at one thing that would make results worthless.

Owns the limits. An audit is a pure function of parts, streams or scores; it says in one
sentence what it measured and never quotes a text. The label audit's rules are in
`label_audit.py`; the probes are trained in `evaluation/leakage.py`.
"""

import collections
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tarl_jax.data.duplicates import Duplicates
from tarl_jax.data.label_audit import label_faults
from tarl_jax.data.record import Stream
from tarl_jax.data.settings import SPLITS, Part, groups_of, texts_of
from tarl_jax.types import Action

MIN_CLASS_SHARE = 0.08  # of every class, in train and in test
MIN_SOURCED_SHARE = 0.35  # of annotated and derived labels
MIN_EXAMPLES = 12_000  # one-step examples of the real sources
MIN_STREAMS = 60  # of the real sources
MAX_PROBE_F1 = {"candidate-only": 0.20, "source-only": 0.35, "metadata-only": 0.45}

Parts = Mapping[str, Sequence[Part]]


class Audit(NamedTuple):
  """What was looked at, whether it holds, and the figures in one sentence."""

  name: str
  passed: bool
  why: str


def audit_people(setting: str, parts: Parts) -> Audit:
  """Nobody, and no group of minimal pairs, is in two splits."""
  people = {name: {part.stream.person for part in parts[name]} for name in SPLITS}
  groups = {
    name: groups_of(claim for part in parts[name] for claim in part.stream.claims)
    for name in SPLITS
  }
  shared = [
    sum(len(found[one] & found[two]) for one, two in itertools.combinations(SPLITS, 2))
    for found in (people, groups)
  ]
  why = f"{shared[0]} people and {shared[1]} groups are in two splits."
  return Audit(f"{setting}: people and groups apart", not any(shared), why)


def audit_duplicates(setting: str, parts: Parts, duplicates: Duplicates | None = None) -> Audit:
  """No example's text repeats one of another split, exactly or nearly.

  Args:
    setting: for the name.
    parts: of the setting.
    duplicates: of all its texts, if they were found before.
  """
  texts = {name: texts_of(parts[name]) for name in SPLITS}
  duplicates = duplicates or Duplicates(set().union(*texts.values()))
  counts = {
    f"{one}/{two}": len(duplicates.among(texts[one], texts[two]))
    for one, two in itertools.combinations(SPLITS, 2)
  }
  why = "texts that recur: " + ", ".join(f"{n} in {name}" for name, n in counts.items()) + "."
  return Audit(f"{setting}: no duplicates across splits", not any(counts.values()), why)


def audit_classes(setting: str, parts: Parts) -> Audit:
  """Every action has its share of the training and of the test examples."""
  lowest = {}
  for name in ("train", "test"):
    counts = collections.Counter(
      claim.gold.action for part in parts[name] for claim in part.examples if claim.gold
    )
    total = max(counts.total(), 1)
    action = min(Action, key=lambda action: counts[action])
    lowest[name] = action.label, counts[action] / total
  passed = all(share >= MIN_CLASS_SHARE for _, share in lowest.values())
  found = ", ".join(f"{label} {share:.3f} of {name}" for name, (label, share) in lowest.items())
  why = f"rarest classes: {found}; at least {MIN_CLASS_SHARE} wanted."
  return Audit(f"{setting}: class shares", passed, why)


def audit_provenance(streams: Iterable[Stream]) -> Audit:
  """Enough labels rest on what the sources annotate."""
  counts = collections.Counter(
    claim.gold.provenance for stream in streams for claim in stream.claims if claim.gold
  )
  share = (counts["annotated"] + counts["derived"]) / max(counts.total(), 1)
  why = (
    f"{counts['annotated']} annotated and {counts['derived']} derived labels are {share:.3f} of "
    f"{counts.total()}; at least {MIN_SOURCED_SHARE} wanted."
  )
  return Audit("annotated and derived share", share >= MIN_SOURCED_SHARE, why)


def audit_size(streams: Sequence[Stream]) -> Audit:
  """Enough examples and streams of the real sources."""
  examples = sum(len(stream.claims) for stream in streams)
  passed = examples >= MIN_EXAMPLES and len(streams) >= MIN_STREAMS
  why = (
    f"{examples} one-step examples from {len(streams)} streams; at least {MIN_EXAMPLES} from "
    f"{MIN_STREAMS} wanted."
  )
  return Audit("size of the real sources", passed, why)


def audit_labels(streams: Sequence[Stream]) -> Audit:
  """The rule oracle: the table gives every label again (see `label_audit.label_faults`)."""
  faults, checked = label_faults(streams)
  share = 1 - faults.total() / max(checked, 1)
  named = "; ".join(f"{number} × {fault}" for fault, number in sorted(faults.items()))
  why = f"{share:.4f} of {checked} labels follow from the table" + (f"; {named}." if named else ".")
  return Audit("rule oracle", not faults and checked > 0, why)


def audit_probe(name: str, macro_f1: float) -> Audit:
  """A probe that sees no memory stays near guessing on the counterfactual test.

  Args:
    name: of MAX_PROBE_F1.
    macro_f1: of the trained probe on that test; NaN (no example) fails.
  """
  limit = MAX_PROBE_F1[name]
  why = f"Macro F1 {macro_f1:.3f} on the counterfactual test; at most {limit:.2f} wanted."
  return Audit(f"{name} probe", macro_f1 <= limit, why)
