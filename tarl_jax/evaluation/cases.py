"""`eval.py --workdir=DIR --cases=FILE`: decides each case of a person's own file."""

import collections
import json
import pathlib
from typing import Any

import jax

from tarl_jax.data.dataset import encode_texts, read_vocabulary
from tarl_jax.data.examples import featurize
from tarl_jax.data.moments import Moment, case_moments
from tarl_jax.data.record import Case, read_cases
from tarl_jax.evaluation.policies import best_seed, load_same_encoder, predict
from tarl_jax.files import replace_file
from tarl_jax.models.interaction import interaction_signals
from tarl_jax.models.policy import Decision
from tarl_jax.training.workdir import read_stamp
from tarl_jax.types import OUTCOMES, Action

_NEEDS_TARGET = (Action.REVISE, Action.REJECT_CONFLICT)


def decide_cases(workdir: pathlib.Path, path: pathlib.Path) -> list[dict[str, Any]]:
  """Decides every case, prints them and the totals, and writes `cases.json`.

  The policy is that of the seed which did best on validation. An unknown source is read by
  the words of its name, an unknown reliability is that of its role, an unknown time has no
  order to any other.

  Returns:
    One dict a case: id, kind, expected_action, action, expected_target, target (indices
    into `accepted`, None for none), resolves (text of the pending entry that the claim
    settles, None for none), outcome ("confirmed" or "contradicted", None for none), correct
    (None where nothing is expected; of action and target), probability of the action, margin
    (trust in the candidate less trust in what it is about), debatable.

  Raises:
    InputError: for an unusable case file (naming line and field) or workdir, or where
      `cases.json` cannot be written.
  """
  cases = read_cases(path)
  stamp = read_stamp(workdir)
  encoder = load_same_encoder(stamp)
  idf = read_vocabulary(workdir / "vocabulary.json")
  data = stamp.config.data
  every = (claim for case in cases for claim in (case.candidate, *case.accepted, *case.pending))
  texts = encode_texts((claim.text for claim in every), encoder, "", idf)
  moments = case_moments(cases, texts.vectors(), data.num_visible)
  inputs, _ = featurize(moments, texts, data.num_visible, interaction_signals)
  _, decisions = predict(workdir, stamp, best_seed(workdir, stamp), inputs)
  answers = [
    _answer(case, moment, jax.tree.map(lambda leaf, i=i: leaf[i], decisions))
    for i, (case, moment) in enumerate(zip(cases, moments, strict=True))
  ]
  replace_file(workdir / "cases.json", json.dumps(answers, indent=2) + "\n")
  # A lone surrogate, which JSON can hold, is no character that a terminal could print.
  print(format_answers(answers, cases).encode("utf-8", "backslashreplace").decode())
  return answers


def _answer(case: Case, moment: Moment, decision: Decision) -> dict[str, Any]:
  action, position = Action(int(decision.action)), int(decision.position)
  target = moment.slots[position] if position < moment.num_accepted else None
  settles = int(decision.resolves) < len(moment.entries)
  outcomes = [name for name, status in OUTCOMES.items() if status == int(decision.outcome)]
  expected = case.expected_action
  return {
    "id": case.id,
    "kind": case.kind,
    "expected_action": None if expected is None else expected.label,
    "action": action.label,
    "expected_target": case.expected_target,
    "target": target,
    "resolves": moment.entries[int(decision.resolves)].text if settles else None,
    "outcome": outcomes[0] if settles else None,
    "correct": None if expected is None else is_correct(case, action, target),
    "probability": round(float(decision.probabilities[action]), 4),
    "margin": round(float(decision.margin), 4),
    "debatable": case.debatable,
  }


def is_correct(case: Case, action: Action, target: int | None) -> bool:
  """The action is a right one and, where it needs a target, so is the target."""
  if action != case.expected_action and action not in case.alt_actions:
    return False
  targets = {case.expected_target, *case.alt_targets} - {None}
  return action not in _NEEDS_TARGET or not targets or target in targets


def format_answers(answers: list[dict[str, Any]], cases: list[Case]) -> str:
  """One line a case, then totals by kind and over all that is not debatable."""
  lines = []
  for answer, case in zip(answers, cases, strict=True):
    mark = {None: " ", True: "+", False: "-"}[answer["correct"]]
    text = "" if answer["target"] is None else f' -> "{case.accepted[answer["target"]].text}"'
    lines.append(
      f"{mark} {answer['id']}  expected {answer['expected_action'] or '?'}, "
      f"predicted {answer['action']} (p {answer['probability']:.2f}, margin "
      f"{answer['margin']:+.2f}){text}"
    )
  judged = [answer for answer in answers if answer["correct"] is not None]
  if not judged:
    return "\n".join(lines)
  totals: dict[str, list[bool]] = collections.defaultdict(list)
  for answer in judged:
    totals[answer["kind"] or "(no kind)"].append(answer["correct"])
  lines.append("\nright by kind")
  lines += [f"  {kind}: {sum(hits)} of {len(hits)}" for kind, hits in sorted(totals.items())]
  firm = [answer["correct"] for answer in judged if not answer["debatable"]]
  lines.append(f"\nundebated: {sum(firm)} of {len(firm)} right")
  lines.append(f"all: {sum(a['correct'] for a in judged)} of {len(judged)} right")
  return "\n".join(lines)
