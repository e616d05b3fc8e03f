"""`python -m tarl_jax.data --data_dir=DIR --out=DIR`: builds, audits and describes the data.

Owns the command line and the order of the build. Exit code 0, 1 when an audit fails, 2 when
the command line or a file is unusable (one sentence on stderr).
"""

import argparse
import hashlib
import pathlib
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NoReturn

from tarl_jax.config import Config
from tarl_jax.data import audits, settings
from tarl_jax.data.datasheet import Build, write_datasheet
from tarl_jax.data.duplicates import Duplicates
from tarl_jax.data.generated import generate
from tarl_jax.data.licences import SOURCES
from tarl_jax.data.record import Stream
from tarl_jax.data.release_files import WHOLE, ReleaseFiles, find_release_files, load_release
from tarl_jax.entry import quiet_libraries
from tarl_jax.errors import InputError
from tarl_jax.evaluation.leakage import Scores, probe_scores
from tarl_jax.models.encoder import make_encoder

GENERATED = (("train", 40), ("val", 5), ("test", 10))  # streams of 60 claims
_CLAIMS = 60


class _Parser(argparse.ArgumentParser):
  """Says what is wrong with the command line in one sentence."""

  def error(self, message: str) -> NoReturn:
    raise InputError(f"the command line cannot be used ({message}); see --help.")


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
  parser = _Parser(prog="python -m tarl_jax.data", description="Builds and audits the data.")
  parser.add_argument("--data_dir", required=True, help="folder with the release files")
  parser.add_argument("--out", required=True, help="folder for datasheet.md and plots")
  parser.add_argument("--encoder", default="hashed", choices=("hashed", "minilm"))
  parser.add_argument("--encoder_weights", default="", help="folder with the weights of minilm")
  return parser.parse_args(arguments)


def make_settings(
  real: Sequence[Stream],
  whole: Sequence[Stream],
  generated: Sequence[Stream],
  duplicates: Duplicates,
) -> dict[str, settings.Parts]:
  """Every setting of the streams, by name.

  Args:
    real: streams of the release files, FactConsolidation by subject.
    whole: FactConsolidation in whole streams.
    generated: in training, validation and test of the in-domain and sequential settings.
    duplicates: of the texts of `real` and `generated`.
  """
  streams = [*real, *generated]
  found = {
    "in-domain": settings.in_domain(streams, duplicates),
    "counterfactual": settings.counterfactual(real, duplicates),
    "temporal": settings.temporal(real, duplicates),
  }
  sources = sorted({stream.source for stream in real})
  if len(sources) > 1:
    for name in sources:
      found[f"without {name}"] = settings.cross_source(real, name, duplicates)
  others = [stream for stream in real if stream.source != settings.SEQUENTIAL_ONLY]
  return found | {"sequential": settings.sequential([*others, *whole, *generated])}


def run_audits(
  real: Sequence[Stream],
  built: Mapping[str, settings.Parts],
  probes: Scores,
  duplicates: Duplicates,
) -> list[audits.Audit]:
  """All audits of a build; those of people, duplicates and classes for each setting."""
  found = [audits.audit_size(real), audits.audit_provenance(real), audits.audit_labels(real)]
  found[-1] = found[-1]._replace(name="rule oracle, real sources")
  for name, parts in built.items():
    if name != "temporal":  # there the cut is in time: everybody is on both sides
      found.append(audits.audit_people(name, parts))
    if name != "sequential":  # whole streams: nothing is left out for its text
      found.append(audits.audit_duplicates(name, parts, duplicates))
  found += [audits.audit_classes(name, built[name]) for name in ("in-domain", "counterfactual")]
  return found + [audits.audit_probe(name, f1["counterfactual"]) for name, f1 in probes.items()]


def digest_of(built: Mapping[str, settings.Parts]) -> str:
  """Digest of every example of every setting, with its whole stream and its split."""
  state = hashlib.blake2b(digest_size=16)
  streams: dict[int, bytes] = {}
  for setting, parts in built.items():
    for split, found in parts.items():
      for part in found:
        key = id(part.stream)
        if key not in streams:
          text = repr(part.stream).encode("utf-8", "surrogatepass")
          streams[key] = hashlib.blake2b(text, digest_size=16).digest()
        state.update(streams[key] + repr((setting, split, part.steps)).encode())
  return state.hexdigest()


def build(files: ReleaseFiles, encoder: str, weights: str) -> Build:
  """Loads, splits, trains the probes and audits.

  Raises:
    InputError: for an unreadable file, or too few people to hold anybody out.
  """
  loaded, skips = load_release(files)
  whole = loaded.pop(WHOLE, [])
  real = [stream for streams in loaded.values() for stream in streams]
  generated = [s for split, number in GENERATED for s in generate(0, number, _CLAIMS, split)]
  duplicates = settings.find_duplicates([*real, *generated])
  built = make_settings(real, whole, generated, duplicates)
  domain = settings.in_domain(real, duplicates)
  tests = {"in-domain": domain["test"], "counterfactual": built["counterfactual"]["test"]}
  start = time.monotonic()
  probes = probe_scores(domain["train"], tests, make_encoder(encoder, weights or None), Config())
  probe_seconds = time.monotonic() - start
  found = run_audits(real, built, probes, duplicates)
  oracle = audits.audit_labels(generated)._replace(name="rule oracle, generated")
  return Build(
    streams={**loaded, "generated": generated},
    skips=skips,
    settings=built,
    probes=probes,
    audits=[*found, oracle],
    digest=digest_of(built),
    probe_seconds=probe_seconds,
  )


def _report(made: Build, files: ReleaseFiles, seconds: float) -> None:
  for name in SOURCES:
    if not made.streams.get(name):
      print(f"{name}: missing, no file of it was found; the audits cover the others alone")
  for path in files.unknown:
    print(f"{path}: has no known shape and is not used")
  for audit in made.audits:
    print(f"{'passed' if audit.passed else 'FAILED'}  {audit.name}: {audit.why}")
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
  print(f"digest of the examples {made.digest}")
  print(
    f"{seconds:.0f} seconds, {made.probe_seconds:.0f} of them training the probes; at most "
    f"{peak:.2f} GB of memory"
  )


def main(arguments: Sequence[str]) -> int:
  """The exit code."""
  start = time.monotonic()
  quiet_libraries()
  try:
    options = _parse(arguments)
    out = pathlib.Path(options.out)
    files = find_release_files(options.data_dir)
    try:
      out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
      raise InputError(
        f"{out}: the folder cannot be made ({error.strerror}); choose another."
      ) from None
    made = build(files, options.encoder, options.encoder_weights)
    write_datasheet(out, made)
  except InputError as error:
    print(f"tarl_jax.data: {error}", file=sys.stderr)
    return 2
  _report(made, files, time.monotonic() - start)
  return 0 if all(audit.passed for audit in made.audits) else 1


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
