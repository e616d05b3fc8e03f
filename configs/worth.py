"""The worth experiments: experiments 1 to 5 of the Memory Worth paper, and studies beside them.

python eval.py --config=configs/worth.py --workdir=runs/worth

Two CPU cores, 5 to 10 minutes, most of it compiling; --config.sensitivity=False is quicker.
Every choice that the paper leaves open is a setting, described in
tarl_jax/experiments/config.py. Experiment 5 uses MiniLM where its weights are found.

Expect, over 20 seeds: rho 0.89 with known utility; -0.33 over all tasks and 0.15 on hard ones;
no collapse of steered retrieval; the pair apart in every seed from 30 % independent episodes.
"""

from ml_collections import ConfigDict

from tarl_jax.config import to_dict
from tarl_jax.experiments.config import WorthConfig


def get_config() -> ConfigDict:
  return ConfigDict({"study": "worth", **to_dict(WorthConfig())})
