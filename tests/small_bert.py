"""Tiny random BERTs in the published layout, so that no test needs real weights."""

import json
import pathlib
from typing import Any

import numpy as np
import pytest

TINY: dict[str, Any] = {
  "hidden_size": 12,
  "intermediate_size": 20,
  "num_hidden_layers": 2,
  "num_attention_heads": 3,
  "max_position_embeddings": 70,
  "vocab_size": 24,
  "type_vocab_size": 2,
  "layer_norm_eps": 1e-12,
  "hidden_act": "gelu",
}
WORDS = "[PAD] [UNK] [CLS] [SEP] the red boat is in harbour and blue at sea"


def tiny_tensors(config: dict[str, Any] = TINY) -> dict[str, np.ndarray]:
  """Random float32 tensors by their published names."""
  rng = np.random.default_rng(7)
  hidden, inner = config["hidden_size"], config["intermediate_size"]
  shapes: dict[str, tuple[int, ...]] = {
    "embeddings.word_embeddings.weight": (config["vocab_size"], hidden),
    "embeddings.position_embeddings.weight": (config["max_position_embeddings"], hidden),
    "embeddings.token_type_embeddings.weight": (config["type_vocab_size"], hidden),
    "embeddings.LayerNorm.weight": (hidden,),
    "embeddings.LayerNorm.bias": (hidden,),
  }
  for index in range(config["num_hidden_layers"]):
    at = f"encoder.layer.{index}."
    for name in ("query", "key", "value"):
      shapes[f"{at}attention.self.{name}.weight"] = (hidden, hidden)
      shapes[f"{at}attention.self.{name}.bias"] = (hidden,)
    shapes[at + "attention.output.dense.weight"] = (hidden, hidden)
    shapes[at + "intermediate.dense.weight"] = (inner, hidden)
    shapes[at + "intermediate.dense.bias"] = (inner,)
    shapes[at + "output.dense.weight"] = (hidden, inner)
    for name in ("attention.output.dense.bias", "output.dense.bias"):
      shapes[at + name] = (hidden,)
    for name in ("attention.output.LayerNorm", "output.LayerNorm"):
      shapes[f"{at}{name}.weight"] = shapes[f"{at}{name}.bias"] = (hidden,)
  return {key: rng.normal(0, 0.6, shape).astype(np.float32) for key, shape in shapes.items()}


def write_tiny(
  folder: pathlib.Path, words: str = WORDS, prefix: str = "", **sizes: Any
) -> pathlib.Path:
  """A folder with config, weights and tokenizer; `sizes` replace those of TINY.

  Args:
    folder: made where missing.
    words: the vocabulary in the order of the ids.
    prefix: before the names of the tensors.
    sizes: entries of config.json.
  """
  safetensors = pytest.importorskip("safetensors.numpy")
  tokenizers = pytest.importorskip("tokenizers")
  folder.mkdir(parents=True, exist_ok=True)
  config = {**TINY, **sizes}
  ids = {word: i for i, word in enumerate(words.split())}
  tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, unk_token="[UNK]"))
  tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
  tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
    single="[CLS] $A [SEP]",
    special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
  )
  tokenizer.enable_padding(length=40)  # as in the published file: must be overridden
  tokenizer.enable_truncation(20)
  tokenizer.save(str(folder / "tokenizer.json"))
  tensors = {prefix + name: value for name, value in tiny_tensors(config).items()}
  safetensors.save_file(tensors, folder / "model.safetensors")
  (folder / "config.json").write_text(json.dumps(config))
  return folder
