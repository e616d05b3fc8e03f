"""Smoke run for tests: a few generated streams and a small policy, seconds on two cores.

python train.py --config=configs/smoke.py --workdir=runs/smoke
"""

from ml_collections import ConfigDict

from configs import quickstart


def get_config() -> ConfigDict:
  config = quickstart.get_config()
  config.data.generated.train_streams = 6
  config.data.generated.val_streams = 2
  config.data.generated.test_streams = 2
  config.data.generated.claims = 20
  config.data.capacities.accepted = 64
  config.data.capacities.pending = 64
  config.data.capacities.history = 64
  config.data.cache_dir = ""
  config.model.hidden = 16
  config.model.embed = 8
  config.opt.steps = 20
  config.opt.batch_size = 16
  config.eval_every = 10
  config.probe_steps = 5
  return config
