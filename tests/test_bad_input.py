"""Bad input to train.py and eval.py: exit code 2, one sentence, and nothing overwritten."""

import json
import pathlib
import shutil
from collections.abc import Iterator

import pytest
from smoke_runs import ROOT, SMOKE, Finished, Scripts, listing, run_script, smoke_flags, smoke_run

from tarl_jax.training.checkpoints import workdir_lock


@pytest.fixture(scope="module")
def scripts(tmp_path_factory) -> Iterator[Scripts]:
  smoke_run()  # fills the compilation cache
  running = Scripts(tmp_path_factory.mktemp("scripts"))
  yield running
  running.close()


@pytest.fixture()
def workdir(tmp_path) -> pathlib.Path:
  """A copy of the trained workdir, which a bad run must leave as it is."""
  return shutil.copytree(smoke_run().workdir, tmp_path / "run")


def assert_refused(done: Finished, script: str, *words: str) -> None:
  assert done.code == 2, done
  assert "Traceback" not in done.err
  (sentence,) = done.sentences
  assert sentence.startswith(f"{script}: ") and sentence.endswith("."), sentence
  for word in words:
    assert word in sentence


def refuse_training(scripts: Scripts, workdir: pathlib.Path, flags: list[str], *words: str):
  before = listing(workdir)
  assert_refused(scripts.run("train.py", f"--workdir={workdir}", *flags), "train.py", *words)
  assert listing(workdir) == before


def change_stream(number: int, **values) -> bytes:
  """The file of streams with fields changed in claim 2 of stream `number`."""
  lines = [json.loads(line) for line in smoke_run().streams.read_text().splitlines()]
  claim = lines[number]["claims"][2]
  gold = values.pop("gold", {})
  claim |= values
  claim["gold"] |= gold
  return "".join(json.dumps(line) + "\n" for line in lines).encode()


def lines_of_streams(*numbers: int) -> bytes:
  lines = smoke_run().streams.read_bytes().splitlines(keepends=True)
  return b"".join(lines[number] for number in numbers)


BAD_STREAMS = {
  "truncated": (lambda: lines_of_streams(0, 1, 2)[:-40], "line 3: is not JSON", "cut off"),
  "wrong type": (lambda: change_stream(1, text=5), "line 2, claim 2, field 'text'"),
  "bad date": (lambda: change_stream(0, observed_at="31.12.2020"), "line 1", "'observed_at'"),
  "reliability": (lambda: change_stream(0, source_reliability=7), "'source_reliability'"),
  "action": (lambda: change_stream(2, gold={"action": "keep"}), "line 3", "'action'", "append"),
  "no target": (lambda: change_stream(0, gold={"action": "revise", "target": "nobody"}), "target"),
  "not text": (lambda: b"\xff\xfe\x00{", "not UTF-8"),
  "empty": (lambda: b"", "holds no stream"),
  "a list": (lambda: b"[1]\n", "line 1: expected a JSON object"),
  "no claims": (lambda: b'{"stream_id": "a", "source": "b", "claims": []}\n', "'claims'"),
  "too few people": (lambda: lines_of_streams(0, 1), "no source has 3 people"),
  "other data": (lambda: change_stream(0, text="The roof leaks."), "another config (other data)"),
}


@pytest.mark.parametrize("name", BAD_STREAMS)
def test_bad_streams(scripts, workdir, tmp_path, name):
  content, *words = BAD_STREAMS[name]
  path = tmp_path / "bad.jsonl"
  path.write_bytes(content())
  flags = [*smoke_flags(path), "--config.seeds=(0,1)"]
  refuse_training(scripts, workdir, flags, *words)


SESSION = {"start_time": "Jan 15, 2029, 16:15:20", "end_time": "Jan 15, 2029, 17:15:20"}
BAD_SOURCES = {
  "halumem type": ("halumem", {"uuid": 3}, "line 1, field 'uuid'"),
  "halumem date": (
    "halumem",
    {"uuid": "a", "sessions": [SESSION | {"end_time": "2029-01-15"}]},
    "session 0, field 'end_time'",
  ),
  "locomo": ("locomo", {"sample_id": "a"}, "expected"),
  "locomo sample": ("locomo", [{"sample_id": 4}], "sample 0"),
}


@pytest.mark.parametrize("name", BAD_SOURCES)
def test_bad_releases(scripts, workdir, tmp_path, name):
  setting, content, *words = BAD_SOURCES[name]
  path = tmp_path / "release"
  path.write_text(json.dumps(content))
  flags = [f"--config={SMOKE}", f"--config.data.{setting}=({str(path)!r},)"]
  refuse_training(scripts, workdir, flags, str(path), *words)


BAD_FLAGS = {
  "missing file": (["--config.data.halumem=('absent.jsonl',)"], "'absent.jsonl' matches no file"),
  "missing stream": (["--config.data.streams=('absent.jsonl',)"], "matches no file"),
  "encoder": (["--config.encoder.name=nope"], "encoder 'nope' is unknown", "hashed"),
  "weights": (["--config.encoder.weights=here"], "has no weights"),
  "typo": (["--config.opt.lrr=1"], 'Did you mean "lr"'),
  "typo in a group": (["--config.optt.lr=1"], "optt"),
  "negative": (["--config.opt.steps=-3"], "config.opt.steps must be at least 1"),
  "no number": (["--config.opt.steps=abc"], "config.opt.steps=abc"),
  "nan": (["--config.opt.lr=nan"], "config.opt.lr must be a finite number"),
  "fraction": (["--config.seeds=(0.5,)"], "config.seeds"),
  "other config": (["--config.opt.lr=0.5"], "another config (other settings)"),
  "other seed": (["--config.seeds=(5,)"], "another config (other settings)"),
  "argument": (["extra"], "unexpected argument 'extra'"),
  "unknown flag": (["--wokdir=x"], "Did you mean: workdir"),
}


@pytest.mark.parametrize("name", BAD_FLAGS)
def test_bad_settings(scripts, workdir, name):
  flags, *words = BAD_FLAGS[name]
  usual = [*smoke_flags(smoke_run().streams), "--config.seeds=(0,1)"]
  refuse_training(scripts, workdir, [*usual, *flags], *words)


BAD_CONFIGS = {
  "unknown key": ("config.opt = {'lrr': 1}", "config.opt.lrr is no setting; known are: lr"),
  "wrong type": ("config.opt.lr = 'fast'", "field 'lr'"),
  "no group": ("del config.model; config.model = 3", "config.model must be a group"),
  "error": ("raise RuntimeError('no luck')", "no luck"),
  "value error": ("int('x')", "invalid literal"),
  "syntax": ("config.opt.lr = = 1", "invalid syntax"),
}


@pytest.mark.parametrize("name", BAD_CONFIGS)
def test_bad_config_files(scripts, workdir, tmp_path, name):
  line, *words = BAD_CONFIGS[name]
  path = tmp_path / "bad.py"
  path.write_text(
    "from ml_collections import ConfigDict\nfrom configs import smoke\n\n"
    "def get_config():\n  config = ConfigDict(smoke.get_config().to_dict())\n"
    f"  {line}\n  return config\n"
  )
  refuse_training(scripts, workdir, [f"--config={path}"], *words)


def test_what_is_seen_on_the_way_leaves_no_checkpoint(scripts, tmp_path):
  """Faults that only a rollout shows, in a new workdir."""
  streams = tmp_path / "no_gold.jsonl"
  streams.write_bytes(lines_of_streams(0, 1, 2).replace(b'"gold"', b'"silver"'))
  small = [*smoke_flags(smoke_run().streams), "--config.data.capacities.accepted=2"]
  for flags, word in ((smoke_flags(streams), "field 'gold'"), (small, "config.data.capacities")):
    done = scripts.run("train.py", f"--workdir={tmp_path / 'run'}", *flags)
    assert_refused(done, "train.py", word)
    assert not (tmp_path / "run" / "seed_0").exists()
    shutil.rmtree(tmp_path / "run")


def test_missing_config_files_and_flags(scripts, workdir, tmp_path):
  refuse_training(scripts, workdir, ["--config=absent.py"], "absent.py", "check --config")
  refuse_training(scripts, workdir, [], "--config")
  path = tmp_path / "empty.py"
  path.write_text("def get_config():\n  return {}\n")
  refuse_training(scripts, workdir, [f"--config={path}"], "check --config")
  assert_refused(scripts.run("train.py", f"--config={SMOKE}"), "train.py", "workdir")
  assert_refused(scripts.run("eval.py"), "eval.py", "workdir")


def test_in_a_fresh_interpreter(workdir):
  """The same without the fork: nothing is said while modules are imported."""
  before = listing(workdir)
  done = run_script(["train.py", f"--workdir={workdir}", f"--config={SMOKE}", "--config.opt.lrr=1"])
  assert_refused(done, "train.py", 'Did you mean "lr"')
  assert_refused(
    run_script(["eval.py", f"--workdir={ROOT / 'absent'}"]), "eval.py", "no trained run"
  )
  assert listing(workdir) == before and not (ROOT / "absent").exists()


def test_a_workdir_that_is_a_file_or_in_use(scripts, workdir, tmp_path):
  flags = smoke_flags(smoke_run().streams)
  path = tmp_path / "file"
  path.write_text("mine")
  assert_refused(scripts.run("train.py", f"--workdir={path}", *flags), "train.py", "workdir")
  assert path.read_text() == "mine"
  with workdir_lock(workdir):
    refuse_training(scripts, workdir, flags, "another process (pid", "wait for it")


def flip(path: pathlib.Path) -> None:
  """One bit in the middle; a byte of text is then no longer ASCII."""
  content = bytearray(path.read_bytes())
  content[len(content) // 2] ^= 0x80
  path.write_bytes(content)


DAMAGED = {
  "run.json": "is damaged",
  "vocabulary.json": "damaged",
  "seed_1/metrics.jsonl": "metrics.jsonl, line",
  "seed_0/checkpoints/*/state/d/*": "is damaged",
  "seed_1/checkpoints/*/_CHECKPOINT_METADATA": "is damaged",
}


@pytest.mark.parametrize("pattern", DAMAGED)
def test_eval_of_a_damaged_workdir(scripts, workdir, pattern):
  paths = sorted(workdir.glob(pattern))
  assert paths
  for path in paths:
    flip(path)
  before = listing(workdir)
  assert_refused(scripts.run("eval.py", f"--workdir={workdir}"), "eval.py", DAMAGED[pattern])
  assert listing(workdir) == before


@pytest.mark.parametrize("name", ["run.json", "vocabulary.json", "seed_0/checkpoints"])
def test_eval_of_an_incomplete_workdir(scripts, workdir, name):
  path = workdir / name
  path.unlink() if path.is_file() else shutil.rmtree(path)
  before = listing(workdir)
  assert_refused(scripts.run("eval.py", f"--workdir={workdir}"), "eval.py", path.name)
  assert listing(workdir) == before


def test_eval_without_a_run(scripts, tmp_path):
  for name in ("", "absent"):
    done = scripts.run("eval.py", f"--workdir={tmp_path / name}")
    assert_refused(done, "eval.py", "no trained run is here")
  assert list(tmp_path.iterdir()) == []
  assert_refused(scripts.run("eval.py", f"--workdir={tmp_path}", "x"), "eval.py", "argument 'x'")
  assert_refused(scripts.run("eval.py", f"--workdir={tmp_path}", "--case=x"), "eval.py", "cases")


def test_eval_after_the_data_changed_or_went(scripts, workdir, tmp_path):
  """The path in run.json stays, the file behind it does not."""
  streams = smoke_run().streams
  content = streams.read_bytes()
  before = listing(workdir)
  try:
    streams.write_bytes(change_stream(1, text="The roof leaks."))
    changed = scripts.run("eval.py", f"--workdir={workdir}")
    streams.unlink()
    gone = scripts.run("eval.py", f"--workdir={workdir}")
  finally:
    streams.write_bytes(content)
  assert_refused(changed, "eval.py", "was trained on other data")
  assert_refused(gone, "eval.py", "matches no file")
  assert listing(workdir) == before


def test_training_with_a_damaged_line_of_metrics(scripts, workdir):
  for seed in (0, 1):
    newest = max((workdir / f"seed_{seed}" / "checkpoints").iterdir(), key=lambda p: int(p.name))
    shutil.rmtree(newest)  # so that there is something left to train
  flip(workdir / "seed_0" / "metrics.jsonl")
  flags = [*smoke_flags(smoke_run().streams), "--config.seeds=(0,1)"]
  refuse_training(scripts, workdir, flags, "metrics.jsonl, line")


GOOD_CASE = {
  "id": "a",
  "accepted": [{"text": "Tea is served at four."}],
  "candidate": {"text": "Tea is served at five."},
}
BAD_CASES = {
  "bad JSON": ('{"id": ', "line 2: is not JSON"),
  "not an object": ("3", "line 2: expected a JSON object"),
  "no candidate": (json.dumps({"id": "b"}), "line 2, field 'candidate'"),
  "wrong field": (json.dumps(GOOD_CASE | {"accepted": [{"text": 4}]}), "line 2, accepted 0"),
  "empty text": (json.dumps(GOOD_CASE | {"candidate": {"text": " "}}), "field 'text'"),
  "bad action": (json.dumps(GOOD_CASE | {"expected_action": "keep"}), "'expected_action'", "noop"),
  "far target": (json.dumps(GOOD_CASE | {"expected_target": 1}), "'expected_target'"),
  "low target": (json.dumps(GOOD_CASE | {"expected_target": -1}), "'expected_target'"),
  "alt target": (json.dumps(GOOD_CASE | {"alt_targets": [2]}), "'alt_targets'"),
  "bad date": (json.dumps(GOOD_CASE | {"candidate": {"text": "a", "time": "now"}}), "'time'"),
}


@pytest.mark.parametrize("name", BAD_CASES)
def test_bad_cases(scripts, workdir, tmp_path, name):
  line, *words = BAD_CASES[name]
  path = tmp_path / "cases.jsonl"
  path.write_text(json.dumps(GOOD_CASE) + "\n" + line + "\n")
  before = listing(workdir)
  done = scripts.run("eval.py", f"--workdir={workdir}", f"--cases={path}")
  assert_refused(done, "eval.py", *words)
  assert listing(workdir) == before


@pytest.mark.parametrize(
  "cases, word", [("absent.jsonl", "cannot be read"), ("", "cannot be read")]
)
def test_cases_that_are_not_there(scripts, workdir, cases, word):
  assert_refused(
    scripts.run("eval.py", f"--workdir={workdir}", f"--cases={cases}"), "eval.py", word
  )


def test_cases_without_a_run(scripts, tmp_path):
  (tmp_path / "cases.jsonl").write_text(json.dumps(GOOD_CASE))
  argv = [f"--workdir={tmp_path / 'absent'}", f"--cases={tmp_path / 'cases.jsonl'}"]
  assert_refused(scripts.run("eval.py", *argv), "eval.py", "no trained run is here")
