"""README: its snippet runs, and its quickstart trains and evaluates."""

import pathlib
import re
import shlex

import pytest
from smoke_runs import ROOT, Scripts, run_script, smoke_flags, smoke_run, smoke_values

README = ROOT / "README.md"
pytestmark = pytest.mark.skipif(not README.exists(), reason="README.md is not there")


def blocks(language: str) -> list[str]:
  """Contents of the fenced blocks of a language."""
  pattern = rf"^```(?:{language})\n(.*?)^```"
  return re.findall(pattern, README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def command(script: str) -> list[str]:
  """The first command of a script in the README, from its name on."""
  text = "\n".join(blocks("bash|sh|shell|console")).replace("\\\n", " ")
  match = re.search(rf"python3? ({re.escape(script)}[^\n;&|#]*)", text)
  assert match, f"README shows no call of {script}"
  return shlex.split(match.group(1))


def test_the_snippet_runs(tmp_path):
  snippet, *_ = blocks("python")
  path = tmp_path / "snippet.py"
  path.write_text(snippet)
  done = run_script([str(path)])
  assert done.code == 0, done.err
  assert done.out.strip(), "a snippet that prints nothing shows nothing"


def small_flags() -> list[str]:
  """What turns the quickstart into the smoke config, so that it is compiled already."""

  def flatten(values: dict, prefix: str):
    for name, value in values.items():
      if isinstance(value, dict):
        yield from flatten(value, f"{prefix}.{name}")
      else:
        yield f"--{prefix}.{name}={value}"

  streams = smoke_run().streams
  flags = smoke_flags(streams)
  return [flag for flag in flatten(smoke_values(streams), "config") if flag not in flags] + flags[
    1:
  ]


def test_the_quickstart_trains_and_evaluates(tmp_path):
  train, evaluate = command("train.py"), command("eval.py")
  assert "--config=configs/quickstart.py" in train
  assert [a for a in train if "workdir" in a] == [a for a in evaluate if "workdir" in a]
  workdir = f"--workdir={tmp_path / 'run'}"
  scripts = Scripts(tmp_path)
  try:
    trained = scripts.run(*train, *small_flags(), workdir)
    assert trained.code == 0, trained.err
    evaluated = scripts.run(*evaluate, workdir)
  finally:
    scripts.close()
  assert evaluated.code == 0, evaluated.err
  assert "| tarl |" in evaluated.out
  assert (pathlib.Path(tmp_path) / "run" / "results.json").exists()
