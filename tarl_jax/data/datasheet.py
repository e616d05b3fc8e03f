"""The datasheet of a build: sources, counts, sizes, audits and label rules, without any text.

Owns the layout of `datasheet.md` and of the histograms beside it. The same build gives the
same bytes: no time, no path and no machine is written.
"""

import collections
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from tarl_jax.data.audits import Audit
from tarl_jax.data.label_audit import KINDS, replay
from tarl_jax.data.licences import SOURCES
from tarl_jax.data.record import PROVENANCES, Stream
from tarl_jax.data.settings import SPLITS, Part
from tarl_jax.files import replace_file
from tarl_jax.types import ACTION_LABELS

_RULES = (
  ("says nothing to keep", "noop", "noop"),
  ("same fact, same value", "noop", "noop"),
  ("new fact, subject, condition or further value", "append", "defer_verify"),
  (
    "other value, newer",
    "revise",
    "reject_conflict if clearly less reliable, defer_verify if comparable",
  ),
  ("other value, older or already over", "reject_conflict", "reject_conflict"),
  ("other value, no order in time", "defer_verify", "defer_verify"),
  ("about the past as such", "append", "defer_verify"),
  ("one of two of the same name", "defer_verify", "defer_verify"),
  ("confirms a Pending claim", "append or revise", "noop"),
)
_INK = "#2b5c8a"


class Build(NamedTuple):
  """All that the datasheet reports on."""

  streams: Mapping[str, Sequence[Stream]]  # by source; a missing source has none
  skips: Mapping[str, int]  # by "source: reason"
  settings: Mapping[str, Mapping[str, Sequence[Part]]]  # by name; "in-domain" is one
  probes: Mapping[str, Mapping[str, float]]  # Macro F1 by probe and test
  audits: Sequence[Audit]
  digest: str  # of the examples
  probe_seconds: float = 0.0  # of training; told at the end, not in the datasheet


def describe(build: Build) -> str:
  """The datasheet in Markdown."""
  sections = (
    _sources(build),
    _audits(build),
    _settings(build),
    _counts(build),
    _sizes(build),
    _probes(build),
    _skips(build),
    _rules(),
  )
  return "# Datasheet\n\n" + "\n\n".join(sections) + f"\n\nDigest of the examples: {build.digest}\n"


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
  lines = [header, ["---"] * len(header), *rows]
  return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def _sources(build: Build) -> str:
  rows = []
  for source, (name, licence) in SOURCES.items():
    streams = build.streams.get(source, ())
    size = (
      (len({s.person for s in streams}), len(streams), sum(len(s.claims) for s in streams))
      if streams
      else ("missing: no file given", 0, 0)
    )
    rows.append((source, name, licence, *size))
  header = ("source", "what", "licence", "people", "streams", "claims")
  return "## Sources\n\n" + _table(header, rows)


def _audits(build: Build) -> str:
  rows = [(audit.name, "passed" if audit.passed else "FAILED", audit.why) for audit in build.audits]
  return "## Audits\n\n" + _table(("audit", "result", "figures"), rows)


def _settings(build: Build) -> str:
  rows = []
  for setting, parts in build.settings.items():
    for name in SPLITS:
      kept = sum(len(part.kept) for part in parts[name])
      told = sum(len(part.stream.claims) for part in parts[name])
      people = len({part.stream.person for part in parts[name]})
      rows.append((setting, name, people, len(parts[name]), kept, told - kept))
  header = ("setting", "split", "people", "streams", "examples", "steps that are no example")
  return "## Settings\n\n" + _table(header, rows)


def _counts(build: Build) -> str:
  counts: collections.Counter[tuple[str, str, str, str]] = collections.Counter()
  for name in SPLITS:
    for part in build.settings["in-domain"][name]:
      for claim in part.examples:
        assert claim.gold is not None
        key = (part.stream.source, name, claim.gold.provenance, claim.gold.action.label)
        counts[key] += 1
  rows = []
  for source in sorted({key[0] for key in counts}):
    for name in SPLITS:
      for provenance in PROVENANCES:
        found = [counts[source, name, provenance, label] for label in ACTION_LABELS]
        if any(found):
          rows.append((source, name, provenance, *found, sum(found)))
  header = ("source", "split", "provenance", *ACTION_LABELS, "all")
  return "## Examples of the in-domain setting\n\n" + _table(header, rows)


def _spread(values: Sequence[int]) -> str:
  low, middle, high = (int(np.percentile(values, q, method="lower")) for q in (0, 50, 100))
  return f"{low} / {middle} / {high}"


def ledger_sizes(stream: Stream) -> tuple[int, int, int]:
  """Rows of Accepted, Pending and History after the whole stream, along gold."""
  *_, (_, _, memory) = replay(stream)  # its last memory is changed by the last step too
  return len(memory.accepted), len(memory.pending), len(memory.history)


def _sizes(build: Build) -> str:
  rows = []
  for source, streams in build.streams.items():
    if streams:
      ledgers = zip(*(ledger_sizes(stream) for stream in streams))
      lengths = _spread([len(stream.claims) for stream in streams])
      rows.append((source, lengths, *map(_spread, ledgers)))
  header = ("source", "claims a stream", "Accepted", "Pending", "History")
  text = "Smallest / median / largest over the streams; ledgers after the last claim.\n\n"
  return "## Stream lengths and ledger sizes\n\n" + text + _table(header, rows)


def _probes(build: Build) -> str:
  if not build.probes:
    return "## Probes\n\nNot trained."
  tests = list(next(iter(build.probes.values())))
  rows = [
    (name, *(f"{scores[test]:.3f}" for test in tests)) for name, scores in build.probes.items()
  ]
  text = "Macro F1 of the policy trained on a part of its inputs.\n\n"
  return "## Probes\n\n" + text + _table(("probe", *tests), rows)


def _skips(build: Build) -> str:
  rows = sorted(build.skips.items())
  if not rows:
    return "## Skipped\n\nNothing."
  return "## Skipped\n\n" + _table(("source and reason", "records"), rows)


def _rules() -> str:
  by_relation: dict[str, list[str]] = {}
  for kind, meaning in KINDS.items():
    by_relation.setdefault(meaning.relation.value, []).append(kind)
  rows = [(relation, ", ".join(kinds)) for relation, kinds in by_relation.items()]
  return (
    "## Label rules\n\n"
    + _table(("claim against the live memory", "trusted", "hedged or untrusted"), _RULES)
    + "\n\nTrusted: true reliability above 0.65. Clearly less reliable: a gap above 0.25; "
    "comparable: at most 0.20; between them there is no label.\n\n"
    + _table(("relation", "kinds of claim"), rows)
  )


def write_datasheet(folder: pathlib.Path, build: Build) -> None:
  """Writes `datasheet.md`, `classes.png`, `stream_lengths.png` and `ledger_sizes.png`."""
  _draw_classes(folder / "classes.png", build)
  lengths = {source: [len(s.claims) for s in found] for source, found in build.streams.items()}
  _draw_histograms(folder / "stream_lengths.png", {"claims a stream": lengths})
  sizes = {source: [ledger_sizes(s) for s in found] for source, found in build.streams.items()}
  ledgers = {
    title: {source: [size[i] for size in found] for source, found in sizes.items()}
    for i, title in enumerate(("Accepted", "Pending", "History"))
  }
  _draw_histograms(folder / "ledger_sizes.png", ledgers)
  replace_file(folder / "datasheet.md", describe(build))


def _save(figure: plt.Figure, path: pathlib.Path) -> None:
  figure.tight_layout()
  figure.savefig(path, dpi=100)
  plt.close(figure)


def _draw_classes(path: pathlib.Path, build: Build) -> None:
  """Share of each action in each split of the in-domain setting."""
  figure, axes = plt.subplots(figsize=(6, 3.4))
  places = np.arange(len(ACTION_LABELS))
  for i, name in enumerate(SPLITS):
    claims = [claim for part in build.settings["in-domain"][name] for claim in part.examples]
    actions = [claim.gold.action for claim in claims if claim.gold is not None]
    counts = np.bincount(np.array(actions, np.int64), minlength=len(ACTION_LABELS))
    axes.bar(places + 0.27 * (i - 1), counts / max(counts.sum(), 1), 0.25, label=name)
  axes.set_xticks(places, ACTION_LABELS)
  axes.set_ylabel("share of the examples")
  axes.set_title("Actions by split, in-domain")
  axes.legend()
  _save(figure, path)


def _draw_histograms(path: pathlib.Path, panels: Mapping[str, Mapping[str, Sequence[int]]]) -> None:
  """One column a panel and one row a source, with the number of streams on the left."""
  sources = sorted({name for panel in panels.values() for name, found in panel.items() if found})
  size = (3.6 * len(panels), 1.6 * len(sources) + 0.6)
  figure, grid = plt.subplots(len(sources), len(panels), figsize=size, squeeze=False)
  for column, (title, panel) in enumerate(panels.items()):
    for row, source in enumerate(sources):
      grid[row][column].hist(panel[source], bins=20, color=_INK)
      if column == 0:
        grid[row][column].set_ylabel(source, fontsize=7)
    grid[0][column].set_title(title)
  _save(figure, path)
