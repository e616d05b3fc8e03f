"""The choices of experiment 5 that the paper leaves open, ours, and how each is varied.

What decides the stale note's curve: with plain counters its worth t episodes after the
change is about (s n + q t) / (n + t), with s and q its success before and after, and n the
retrievals before the change, told in episodes at the later rate. Crossing 0.40 at t = 300
and ending near 0.17 both ask for n of about 150 and q of about 0.12: an early change
(the default), or a topic that was rarely asked about before it, or counters that forget.
"""

import dataclasses
import math

from tarl_jax.errors import InputError
from tarl_jax.experiments.texts import NOTES


@dataclasses.dataclass(frozen=True, kw_only=True)
class RetrievalSettings:
  """Choices of experiment 5; the paper gives the number of episodes and the encoder only.

  An episode draws a topic, then one of its questions uniformly, retrieves, and succeeds with
  one of the four probabilities below.
  """

  episodes: int = 3000  # T
  change_at: int = 150  # the first episode in which the stale note is false
  stale_share: float = 0.25  # share of the episodes that ask about the stale topic ...
  stale_share_before: float = 0.25  # ... and the same before the change
  rare_share: float = 0.08  # of the specialist's topic; the other topics share the rest
  retrieved: int = 2  # R, the notes nearest by cosine
  exploration: float = 0.05  # share of episodes that retrieve R notes at random instead
  right_success: float = 0.97  # success if the needed note is retrieved and true ...
  rare_success: float = 0.78  # ... for the specialist's topic, where a right note helps less
  false_success: float = 0.12  # ... if the needed note is retrieved and false
  missing_success: float = 0.30  # ... if the needed note is not retrieved
  half_life: float = math.inf  # of the counters, in episodes; infinite is the paper's plain pair
  similarity_weights: bool = False  # count in proportion to the cosine

  def __post_init__(self) -> None:
    for name in (
      "stale_share stale_share_before rare_share exploration right_success rare_success "
      "false_success missing_success"
    ).split():
      if not 0 <= getattr(self, name) <= 1:
        raise InputError(f"retrieval.{name} must be from 0 to 1.")
    if not 1 <= self.change_at < self.episodes:
      raise InputError("retrieval.change_at must be from 1 to episodes - 1.")
    if not 1 <= self.retrieved <= len(NOTES):
      raise InputError(f"retrieval.retrieved must be from 1 to {len(NOTES)}, all the notes.")
    if not self.half_life > 0:
      raise InputError("retrieval.half_life must be over 0 episodes.")
    if max(self.stale_share, self.stale_share_before) + self.rare_share > 1:
      raise InputError("retrieval.rare_share and the stale topic's share exceed 1 together.")


# The default with one choice changed (the last two: a late change made up for otherwise).
SENSITIVITY: dict[str, RetrievalSettings] = {
  "default": RetrievalSettings(),
  "change at 100": RetrievalSettings(change_at=100),
  "change at 300": RetrievalSettings(change_at=300),
  "change at 1500": RetrievalSettings(change_at=1500),
  "stale share 0.10": RetrievalSettings(stale_share=0.10, stale_share_before=0.10),
  "stale share 0.50": RetrievalSettings(stale_share=0.50, stale_share_before=0.50),
  "false success 0.05": RetrievalSettings(false_success=0.05),
  "false success 0.20": RetrievalSettings(false_success=0.20),
  "missing success 0.10": RetrievalSettings(missing_success=0.10),
  "rare success 0.90": RetrievalSettings(rare_success=0.90),
  "exploration 0": RetrievalSettings(exploration=0.0),
  "exploration 0.20": RetrievalSettings(exploration=0.20),
  "1 note": RetrievalSettings(retrieved=1),
  "5 notes": RetrievalSettings(retrieved=5),
  "similarity weights": RetrievalSettings(similarity_weights=True),
  "change at 1000, rarely asked before": RetrievalSettings(
    change_at=1000, stale_share_before=0.25 * 0.15
  ),
  "change at 1500, decay": RetrievalSettings(change_at=1500, half_life=170.0, false_success=0.16),
}
