"""The sources of TARL-Mem: what they are, where they are published, under which licence.

Owns this table; everything that credits a source reads it.
"""

from typing import NamedTuple


class Origin(NamedTuple):
  """A source as it is to be credited."""

  title: str
  licence: str


SOURCES = {
  "halumem": Origin("HaluMem (MemTensor/HaluMem), dialogues", "CC BY-NC-ND 4.0"),
  "halumem_stages": Origin("HaluMem (MemTensor/HaluMem), construction stages", "CC BY-NC-ND 4.0"),
  "locomo": Origin("LoCoMo (snap-research/LoCoMo)", "CC BY-NC 4.0"),
  "longmemeval": Origin("LongMemEval (xiaowu0162/LongMemEval)", "MIT"),
  "factconsolidation": Origin("FactConsolidation (HUST-AI-HYZ/MemoryAgentBench)", "MIT"),
  "generated": Origin("generated from the fact quads of this package", "Apache-2.0"),
}
