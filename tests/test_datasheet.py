"""The build's command: datasheet, plots, exit codes, and that no source text gets out."""

import collections
import dataclasses
import hashlib

import pytest

from tarl_jax.data import __main__ as command
from tarl_jax.data import audits, settings
from tarl_jax.data.datasheet import Build, describe, ledger_sizes, write_datasheet
from tarl_jax.data.generated import generate
from tarl_jax.data.record import Claim, Gold, Stream
from tarl_jax.data.release_files import WHOLE, ReleaseFiles
from tarl_jax.data.settings import SPLITS
from tarl_jax.types import Action

PLOTS = ("classes.png", "stream_lengths.png", "ledger_sizes.png")


def small_streams(source):
  """Eight people who tell of two mills each: a fact, a change of it, something deferred,
  something rejected and the change again. What is told of the second is constructed."""
  found = []
  for person in range(8):
    name = f"Zed{source}{person}"
    claims: list[Claim] = []
    for mill, provenance in (("quixotic", "derived"), ("derelict", "constructed")):
      first, second = f"{len(claims)}", f"{len(claims) + 1}"
      texts = [f"{name} {word} the {mill} mill" for word in ("owns", "sold", "wants", "burnt")]
      golds = (
        Gold(Action.APPEND, None, kind="new", reliability=0.9),
        Gold(Action.REVISE, first, kind="change", reliability=0.9),
        Gold(Action.DEFER_VERIFY, None, kind="untrusted_new", reliability=0.3),
        Gold(Action.REJECT_CONFLICT, second, kind="outdated", reliability=0.9),
        Gold(Action.NOOP, second, kind="repeat", reliability=0.9),
      )
      for text, gold, time in zip([*texts, texts[1]], golds, (0, 100, 101, 50, 102)):
        gold = dataclasses.replace(gold, provenance=provenance, group=f"{name} {mill}")
        claims.append(Claim(f"{len(claims)}", text, "user", observed_at=time, gold=gold))
    found.append(Stream(f"{source}:{person}", source, tuple(claims), name))
  return found


@pytest.fixture(scope="module")
def build():
  loaded = {name: small_streams(name) for name in ("locomo", "halumem")}
  real = [s for found in loaded.values() for s in found]
  generated = [s for name in SPLITS for s in generate(1, 2, 12, name)]
  duplicates = settings.find_duplicates([*real, *generated])
  built = command.make_settings(real, [], generated, duplicates)
  probes = {name: {"in-domain": 0.5, "counterfactual": 0.1} for name in audits.MAX_PROBE_F1}
  return Build(
    streams={**loaded, "generated": generated},
    skips={"locomo: odd record": 7},
    settings=built,
    probes=probes,
    audits=command.run_audits(real, built, probes, duplicates),
    digest=command.digest_of(built),
  )


def test_the_datasheet_counts_and_quotes_nothing(build):
  text = describe(build)
  for expected in (
    "| halumem | HaluMem (MemTensor/HaluMem), dialogues | CC BY-NC-ND 4.0 | 8 | 8 | 80 |",
    "| longmemeval | LongMemEval (xiaowu0162/LongMemEval) | MIT | missing: no file given | 0 | 0 |",
    "| locomo: odd record | 7 |",
    "| locomo | 10 / 10 / 10 | 2 / 2 / 2 | 2 / 2 / 2 | 4 / 4 / 4 |",
    "| source-only | 0.500 | 0.100 |",
    "| size of the real sources | FAILED | 160 one-step examples from 16 streams;",
    "| locomo | test | derived | 2 | 2 | 2 | 2 | 2 | 10 |",
    "| temporal | train | 16 | 16 | 96 | 64 |",
    "| locomo | test | constructed | 2 | 2 | 2 | 2 | 2 | 10 |",
    f"Digest of the examples: {build.digest}",
  ):
    assert expected in text, expected
  assert "quixotic" not in text and "Zed" not in text
  for streams in build.streams.values():
    for stream in streams:
      assert stream.person not in text and stream.stream_id not in text
      assert not [claim for claim in stream.claims if claim.text in text]


def test_the_datasheet_counts_examples_alone_and_streams_of_any_length(build):
  parts = build.settings["in-domain"]
  left_out = {**parts, "test": [part._replace(steps=(0,)) for part in parts["test"]]}
  short = [
    dataclasses.replace(stream, claims=stream.claims[:size])
    for stream, size in zip(build.streams["locomo"], (4, 10, 1))
  ]
  text = describe(build._replace(streams={"locomo": short}, settings={"in-domain": left_out}))
  assert "| locomo | 1 / 4 / 10 | 1 / 1 / 2 | 0 / 1 / 2 | 0 / 2 / 4 |" in text
  assert "| locomo | test | derived | 2 | 0 | 0 | 0 | 0 | 2 |" in text
  assert "| locomo | test | constructed |" not in text


def test_the_files_are_equal_to_the_byte_when_written_again(build, tmp_path):
  digests = []
  for name in ("one", "two"):
    (tmp_path / name).mkdir()
    write_datasheet(tmp_path / name, build)
    found = sorted((tmp_path / name).iterdir())
    assert {path.name for path in found} == {"datasheet.md", *PLOTS}
    digests.append([hashlib.sha256(path.read_bytes()).hexdigest() for path in found])
  assert digests[0] == digests[1]


def test_ledger_sizes_follow_gold():
  assert ledger_sizes(small_streams("x")[0]) == (2, 2, 4)


def test_the_digest_sees_a_claim_a_split_and_a_step(build):
  first = build.settings["in-domain"]
  parts = first["train"]
  stream = parts[0].stream
  claim = dataclasses.replace(stream.claims[0], text="other")
  edited = dataclasses.replace(stream, claims=(claim, *stream.claims[1:]))
  variants = (
    {**first, "train": [parts[0]._replace(stream=edited), *parts[1:]]},
    {**first, "train": [parts[0]._replace(steps=(0,)), *parts[1:]]},
    {**first, "train": parts[:-1], "val": [parts[-1], *first["val"]]},
  )
  digests = {command.digest_of({"in-domain": variant}) for variant in (first, *variants)}
  assert len(digests) == 4
  assert command.digest_of({"in-domain": dict(first)}) in digests


@pytest.fixture
def stand_ins(monkeypatch, build):
  """No files, no training: the command's own order of things alone."""
  files = ReleaseFiles(unknown=())
  monkeypatch.setattr(command, "find_release_files", lambda folder: files)
  loaded = {name: list(build.streams[name]) for name in ("locomo", "halumem")}
  monkeypatch.setattr(
    command, "load_release", lambda files: (dict(loaded), collections.Counter({"locomo: odd": 1}))
  )
  monkeypatch.setattr(command, "GENERATED", tuple((name, 2) for name in SPLITS))
  monkeypatch.setattr(command, "probe_scores", lambda *_: dict(build.probes))
  return monkeypatch


def run(folder):
  return command.main([f"--data_dir={folder}", f"--out={folder / 'out'}"])


def test_a_build_with_a_failed_audit_exits_1_and_says_which(stand_ins, tmp_path, capsys):
  assert run(tmp_path) == 1
  out = capsys.readouterr().out
  assert "FAILED  size of the real sources" in out and "passed  in-domain: no dup" in out
  assert "longmemeval: missing" in out and "digest of the examples" in out
  assert "training the probes; at most" in out and "quixotic" not in out
  first = (tmp_path / "out" / "datasheet.md").read_bytes()
  assert run(tmp_path) == 1
  assert (tmp_path / "out" / "datasheet.md").read_bytes() == first


def test_a_build_whose_audits_pass_exits_0(stand_ins, tmp_path):
  stand_ins.setattr(audits, "MIN_EXAMPLES", 160)
  stand_ins.setattr(audits, "MIN_STREAMS", 16)
  assert run(tmp_path) == 0
  stand_ins.setattr(
    command, "probe_scores", lambda *_: {"source-only": {"in-domain": 0, "counterfactual": 0.4}}
  )
  assert run(tmp_path) == 1


def test_every_setting_has_its_audits(build):
  apart = ("in-domain", "counterfactual", "without halumem", "without locomo")
  assert {audit.name for audit in build.audits} == {
    "size of the real sources",
    "annotated and derived share",
    "rule oracle, real sources",
    *(f"{name}: people and groups apart" for name in (*apart, "sequential")),
    *(f"{name}: no duplicates across splits" for name in (*apart, "temporal")),
    *(f"{name}: class shares" for name in ("in-domain", "counterfactual")),
    *(f"{name} probe" for name in audits.MAX_PROBE_F1),
  }


def test_a_build_tells_generated_and_whole_streams_apart(stand_ins, build):
  facts = small_streams("factconsolidation")
  whole = [dataclasses.replace(stream, stream_id="whole") for stream in facts]
  loaded = {"locomo": build.streams["locomo"], "factconsolidation": facts, WHOLE: whole}
  stand_ins.setattr(command, "load_release", lambda files: (dict(loaded), collections.Counter()))
  seen = {}

  def probe_scores(train, tests, *_):
    seen.update(tests, train=train)
    return dict(build.probes)

  stand_ins.setattr(command, "probe_scores", probe_scores)
  made = command.build(ReleaseFiles(), "hashed", "")
  assert set(made.streams) == {"locomo", "factconsolidation", "generated"}
  sources = {}
  for setting, parts in made.settings.items():
    streams = [part.stream for found in parts.values() for part in found]
    sources[setting] = {stream.source for stream in streams}
    ids = {s.stream_id for s in streams if s.source == "factconsolidation"}
    assert ids and ids.isdisjoint({"whole"}) == (setting != "sequential")
    assert setting != "sequential" or ids == {"whole"}
  real = {"locomo", "factconsolidation"}
  assert {setting for setting, found in sources.items() if found > real} == {
    "in-domain",
    "sequential",
  }
  assert seen["counterfactual"] == made.settings["counterfactual"]["test"]
  assert all(part.stream.source in real for parts in seen.values() for part in parts)
  assert made.audits[-1].name == "rule oracle, generated"


@pytest.mark.parametrize(
  "arguments",
  [[], ["--data_dir=x"], ["--out=y"], ["--data_dir=x", "--out=y", "--encoder=llama"], ["z"]],
)
def test_a_bad_command_line_exits_2_with_one_sentence(arguments, capsys):
  assert command.main(arguments) == 2
  error = capsys.readouterr().err
  assert error.startswith("tarl_jax.data: the command line") and error.count("\n") == 1


def test_bad_folders_exit_2_with_one_sentence(stand_ins, tmp_path, capsys):
  (tmp_path / "file").write_text("x")
  assert command.main([f"--data_dir={tmp_path}", f"--out={tmp_path / 'file'}"]) == 2
  assert "cannot be made" in capsys.readouterr().err
  stand_ins.undo()
  assert run(tmp_path) == 2
  error = capsys.readouterr().err
  assert "holds no release file" in error and error.count("\n") == 1
  (tmp_path / "cut.jsonl").write_text('{"uuid": "u", "sessions": []}\n{"uuid": ')
  assert run(tmp_path) == 2
  assert "cut.jsonl, line 2" in capsys.readouterr().err
