"""One small worth study, so that the tests that need it compile the same programs."""

from tarl_jax.experiments.config import (
  KnownConfig,
  MixedConfig,
  PairConfig,
  SteeredConfig,
  WorthConfig,
)
from tarl_jax.experiments.retrieval_settings import RetrievalSettings

SMALL = WorthConfig(
  seeds=(3, 0, 8),
  episodes=240,
  checkpoints=10,
  known=KnownConfig(memories=9, retrieved=3, lowest_score=0.2),
  mixed=MixedConfig(generalists=6, specialists=3, easy_share=0.3, retrieved=3, effect=0.4),
  steered=SteeredConfig(memories=12, candidates=5, retrieved=2, exploration=0.2),
  pair=PairConfig(episodes=120, independent=(0.0, 0.3, 1.0)),
  retrieval=RetrievalSettings(episodes=60, change_at=20),
  sensitivity=False,
)
