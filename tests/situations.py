"""Inputs of one decision by hand: entries and claims by named signals; the content is invented."""

import jax
import numpy as np
from small_policy import V
from small_streams import claim

from tarl_jax.data.examples import PAIR_SOURCE_SIGNALS, SOURCE_SIGNALS, TIME_SIGNALS
from tarl_jax.data.lexical import CLAIM_SIGNALS, PAIR_SIGNALS
from tarl_jax.data.moments import Moment
from tarl_jax.data.record import Claim
from tarl_jax.inputs import PolicyInputs
from tarl_jax.models.interaction import INTERACTION_SIGNALS

NAMES = {
  "claim_signals": CLAIM_SIGNALS,
  "pair_signals": (*PAIR_SIGNALS, *INTERACTION_SIGNALS),
  "time_signals": TIME_SIGNALS,
  "source": SOURCE_SIGNALS,
  "entry_source": SOURCE_SIGNALS,
  "pair_source": PAIR_SOURCE_SIGNALS,
}


def entry(close: float, trust: float = 0.8, **signals: float) -> dict:
  """An entry by its closeness (cosine and word overlap both) and any named signals."""
  return {"sentence_cosine": close, "idf_f1": close, "reliability": trust, **signals}


def situation(
  entries: list[dict], trust: float = 0.9, num_pending: int = 0, **said
) -> PolicyInputs:
  """One example: `said` are signals of the claim; the last `num_pending` entries are Pending."""
  parts = {
    name: np.zeros((V, len(names)) if "entry" in name or "pair" in name or "time" in name
                   else len(names), np.float32)
    for name, names in NAMES.items()
  }  # fmt: skip
  parts["source"][SOURCE_SIGNALS.index("reliability")] = trust
  for name, value in said.items():
    parts["claim_signals"][CLAIM_SIGNALS.index(name)] = value
  for v, signals in enumerate(entries):
    for name, value in signals.items():
      (part,) = [p for p in NAMES if p not in ("claim_signals", "source") and name in NAMES[p]]
      parts[part][v, NAMES[part].index(name)] = value
  return PolicyInputs(
    candidate=np.zeros(2, np.float32),
    entries=np.zeros((V, 2), np.float32),
    num_accepted=np.int32(len(entries) - num_pending),
    num_visible=np.int32(len(entries)),
    **parts,
  )


def stack(examples: list[PolicyInputs]) -> PolicyInputs:
  return jax.tree.map(lambda *leaves: np.stack(leaves), *examples)


def moment(candidate: Claim, *entries: Claim, stream: int = 0) -> Moment:
  """A decision without gold; all entries are Accepted."""
  return Moment(candidate, entries, tuple(range(len(entries))), len(entries), None, (), stream)


WORDS = "Ines Kofi Nora bakes bread sails boats sells maps paints walls".split()


def random_decisions(seed: int, number: int, size: int = 6) -> tuple[PolicyInputs, list[Moment]]:
  """Inputs with every signal drawn, leading [number], beside moments of two streams whose
  claims come in any order of time, and some at an unknown one."""
  rng = np.random.default_rng(seed)

  def said(name: str) -> Claim:
    text = " ".join(rng.choice(WORDS, 4))
    time = None if rng.random() < 0.2 else int(rng.integers(0, 200_000))
    until = None if rng.random() < 0.7 else int(rng.integers(0, 200_000))
    return claim(name, text=text, observed_at=time, valid_until=until)

  moments, counts = [], []
  for e in range(number):
    num_accepted = int(rng.integers(0, size + 1))
    num_visible = int(rng.integers(num_accepted, size + 1))
    entries = tuple(said(f"c{rng.integers(1000)}-{v}") for v in range(num_visible))
    slots = tuple(range(num_visible))
    moments.append(Moment(said(f"new{e}"), entries, slots, num_accepted, None, (), e * 2 // number))
    counts.append((num_accepted, num_visible))
  held = (np.arange(size) < np.array(counts)[:, 1:])[..., None]
  vectors = rng.normal(size=(number, size, 3))
  vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
  parts = {
    name: (rng.random((number, size, len(names))) * held).astype(np.float32)
    for name, names in NAMES.items()
    if name not in ("claim_signals", "source")
  }
  inputs = PolicyInputs(
    candidate=rng.normal(size=(number, 3)).astype(np.float32),
    entries=(vectors * held).astype(np.float32),
    claim_signals=rng.random((number, len(CLAIM_SIGNALS))).astype(np.float32),
    source=rng.random((number, len(SOURCE_SIGNALS))).astype(np.float32),
    num_accepted=np.array(counts, np.int32)[:, 0],
    num_visible=np.array(counts, np.int32)[:, 1],
    **parts,
  )
  return inputs, moments
