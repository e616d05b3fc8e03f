"""Rule 3 by meaning: new points that a live entry resembles are no examples."""

import dataclasses

import numpy as np
import pytest

from tarl_jax.config import Config, DataConfig
from tarl_jax.data import dataset
from tarl_jax.data.ambiguous import ambiguous_new
from tarl_jax.data.moments import Moment
from tarl_jax.data.record import Claim, Gold, Stream
from tarl_jax.data.settings import Part
from tarl_jax.types import Action

NEW = Gold(action=Action.APPEND, provenance="annotated", kind="new")


def unit(cosine: float) -> np.ndarray:
  return np.array([cosine, np.sqrt(1 - cosine**2)], np.float32)


VECTORS = {
  "candidate": unit(1.0),
  "near": unit(0.821),
  "border": unit(0.819),
  "far": unit(0.2),
}


def moment(entries: tuple[str, ...], gold: Gold | None = NEW, num_accepted: int | None = None):
  claims = tuple(Claim(id=text, text=text, source="user") for text in entries)
  return Moment(
    candidate=Claim(id="c", text="candidate", source="user", gold=gold),
    entries=claims,
    slots=tuple(range(len(entries))),
    num_accepted=len(entries) if num_accepted is None else num_accepted,
    gold=gold,
    targets=(),
    stream=0,
  )


@pytest.mark.parametrize(
  ("look", "source", "encoder", "expected"),
  [
    (moment(("near", "far")), "locomo", "minilm", True),
    (moment(("near", "far")), "halumem_stages", "minilm", True),
    (moment(("near",)), "factconsolidation", "minilm", False),
    (moment(("near",)), "diary", "minilm", False),
    (moment(("near",)), "locomo", "hashed", False),
    (moment(("border", "far")), "locomo", "minilm", False),
    (moment(()), "locomo", "minilm", False),
    (moment(("near",), num_accepted=0), "locomo", "minilm", False),
    (moment(("near",), None), "locomo", "minilm", False),
    (
      moment(("near",), dataclasses.replace(NEW, provenance="constructed")),
      "locomo",
      "minilm",
      False,
    ),
    (moment(("near",), dataclasses.replace(NEW, resolves="p")), "locomo", "minilm", False),
    (
      moment(("near",), Gold(action=Action.NOOP, target="near", provenance="annotated")),
      "locomo",
      "minilm",
      False,
    ),
  ],
  ids=[
    "near",
    "another source",
    "exact keys",
    "a user's own",
    "hashed words",
    "under the limit",
    "empty memory",
    "near in Pending only",
    "no gold",
    "constructed",
    "settles",
    "no append",
  ],
)
def test_who_is_ambiguous(look, source, encoder, expected):
  assert ambiguous_new([look], [source], VECTORS, encoder).tolist() == [expected]


class _Encoder:
  """Hashed vectors under the name of MiniLM, so that the rule applies without weights."""

  name = "minilm"

  def __init__(self):
    self._hashed = dataset.load_encoder(Config().encoder)

  def __getattr__(self, field):
    return getattr(self._hashed, field)


def test_an_ambiguous_step_is_no_example_and_stays_in_the_stream():
  texts = ("Ines keeps two grey cats.", "Ines keeps two grey cats!", "Rui rows on Sundays.")
  claims = tuple(
    Claim(id=str(i), text=text, source="user", observed_at=i, gold=NEW)
    for i, text in enumerate(texts)
  )
  stream = Stream(stream_id="s", source="locomo", claims=claims, person="p")
  config = Config(data=DataConfig(cache_dir=""))
  split = dataset.build_split([Part(stream)], config, _Encoder(), {})
  assert split.counts.tolist() == [True, False, True] and split.num_ambiguous == 1
  assert [len(moment.entries) for moment in split.moments] == [0, 1, 2]
  untold = dataset.build_split([Part(stream, (0, 2))], config, _Encoder(), {})
  assert untold.counts.tolist() == [True, False, True] and untold.num_ambiguous == 0
