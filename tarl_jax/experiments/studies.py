"""The studies beyond the paper: their settings in one place, and their results as lines.

Owns which figures of each study are told. Regimes and measures are in the `study_*` files.
Every figure keeps its seeds; who prints it takes the mean and the spread.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tarl_jax.estimators import Verdict
from tarl_jax.experiments import study_attack, study_cold_start, study_confounding, study_feedback


@dataclasses.dataclass(frozen=True, kw_only=True)
class StudiesSettings:
  """The settings of all studies."""

  confounding: study_confounding.ConfoundingSettings = study_confounding.ConfoundingSettings()
  feedback: study_feedback.FeedbackSettings = study_feedback.FeedbackSettings()
  attack: study_attack.AttackSettings = study_attack.AttackSettings()
  cold_start: study_cold_start.ColdStartSettings = study_cold_start.ColdStartSettings()


class Line(NamedTuple):
  """One figure: `study`, under `condition`, `measure` by seed."""

  study: str
  condition: str
  measure: str
  values: np.ndarray  # float64 [S]; NaN where a seed has none


def run(settings: StudiesSettings, seeds: Sequence[int]) -> list[Line]:
  """Runs all studies, each with its seeds in one program, and tells their figures."""
  return [
    *confounding_lines(settings.confounding, study_confounding.run(settings.confounding, seeds)),
    *feedback_lines(settings.feedback, study_feedback.run(settings.feedback, seeds)),
    *attack_lines(study_attack.run(settings.attack, seeds)),
    *cold_start_lines(settings.cold_start, study_cold_start.run(settings.cold_start, seeds)),
  ]


def _line(study: str, condition: str, measure: str, values: np.ndarray) -> Line:
  return Line(study, condition, measure, np.asarray(values, np.float64))


def confounding_lines(
  settings: study_confounding.ConfoundingSettings, results: study_confounding.ConfoundingResults
) -> Iterator[Line]:
  """Rank correlation and precision of every estimator, at the first and the last checkpoint."""
  for place in sorted({0, settings.checkpoints - 1}):
    episodes = (place + 1) * settings.episodes // settings.checkpoints
    for number, regime in enumerate(study_confounding.REGIMES):
      condition = f"{regime}, {episodes} episodes"
      for column, name in enumerate(study_confounding.ESTIMATORS):
        rho = results.rho[number, :, place, column]
        precision = results.precision[number, :, place, column]
        yield _line("confounding", condition, f"rho, {name}", rho)
        yield _line(
          "confounding", condition, f"precision at {study_confounding.LOWEST}, {name}", precision
        )


def feedback_lines(
  settings: study_feedback.FeedbackSettings, results: study_feedback.FeedbackResults
) -> Iterator[Line]:
  """Each measure just before half time, just after it, and at the end."""
  half = settings.windows // 2
  windows = {"before half time": half - 1, "after half time": half, "end": settings.windows - 1}
  for number, (change, half_life, exploration) in enumerate(results.conditions):
    condition = f"{change}, half-life {half_life:g}, exploration {exploration:g}"
    for measure in ("attained", "breadth", "rho"):
      values = getattr(results, measure)[:, number]
      for when, window in windows.items():
        yield _line("feedback", condition, f"{measure}, {when}", values[:, window])


def attack_lines(results: study_attack.AttackResults) -> Iterator[Line]:
  """The victim's estimate and rank by every view, and whether it would be deprecated."""
  for number, (share, attackers) in enumerate(results.conditions):
    condition = f"{share:.0%} attacks by {attackers} of the readers"
    for column, name in enumerate(study_attack.VIEWS):
      yield _line("attack", condition, f"victim, {name}", results.victim[:, number, column])
      yield _line("attack", condition, f"share below it, {name}", results.below[:, number, column])
    for column, name in enumerate(study_attack.DEMOTIONS):
      values = results.demoted[:, number, column]
      yield _line("attack", condition, f"deprecated, {name}", values)


def cold_start_lines(
  settings: study_cold_start.ColdStartSettings, results: study_cold_start.ColdStartResults
) -> Iterator[Line]:
  """Whether the newcomer is ranked rightly, and what is said of it, at every look."""
  for number, utility in enumerate(settings.utilities):
    whole = f"utility {utility:g}"
    settled = results.settled[:, number]
    yield _line("cold start", whole, "retrievals until right for good", settled)
    yield _line(
      "cold start", whole, "episodes until right for good", settled * settings.episodes_a_retrieval
    )
    for look, retrievals in enumerate(settings.looks):
      condition = f"{whole}, {retrievals} retrievals"
      at = (slice(None), number, look)
      yield _line("cold start", condition, "ranked rightly, worth", results.right[at])
      yield _line("cold start", condition, "ranked rightly, posterior", results.right_posterior[at])
      yield _line("cold start", condition, "interval width", results.width[at])
      for verdict in (Verdict.NOT_ENOUGH, Verdict.OPEN, Verdict.ABOVE, Verdict.BELOW):
        name = verdict.name.lower().replace("_", " ")
        yield _line("cold start", condition, f"verdict {name}", results.verdict[at] == verdict)
