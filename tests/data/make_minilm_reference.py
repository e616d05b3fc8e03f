"""Makes minilm_reference.npz from the weights at hand: python tests/data/make_minilm_reference.py

Run it again only when minilm is meant to give other values (its _CODE_VERSION is raised).
"""

import pathlib

import numpy as np

from tarl_jax.models import minilm

TEXTS = (
  "",
  "Ines keeps her bicycle in the blue shed.",
  "Since March, Ines stores the bike at the station instead.",
  "The kettle is set to 85 degrees for green tea!",
  "Ørjan's café serves 漢字 noodles 🙂 on Fridays",
  "[CLS] is only written here, and so is [SEP].",
  "one line\nanother line\tand a tab",
  "The lighthouse keeper wrote another page about the weather. " * 40,
)
NUM_STATES = 4  # token states kept, a text


def main() -> None:
  encoding = minilm.load_encoder().encode(TEXTS)
  np.savez_compressed(
    pathlib.Path(__file__).with_name("minilm_reference.npz"),
    texts=np.array(TEXTS),
    sentence=encoding.sentence,
    tokens=encoding.tokens[:, :NUM_STATES],
    lengths=encoding.token_mask.sum(1),
  )


if __name__ == "__main__":
  main()
