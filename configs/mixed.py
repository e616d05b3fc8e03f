"""All real sources mixed with the generated one, MiniLM text features.

For deciding claims of one's own: the generated source teaches the kinds that the real files
lack, the real files teach real wording. --config.data.generated.hold_out=False adds the domains and
kinds that are kept from training for measuring.

python train.py --config=configs/mixed.py --workdir=runs/mixed
python eval.py --workdir=runs/mixed --cases=FILE.jsonl
"""

from ml_collections import ConfigDict

from configs import real


def get_config() -> ConfigDict:
  config = real.get_config()
  config.data.generated.train_streams = 240
  config.data.generated.val_streams = 15
  config.data.generated.test_streams = 30
  config.opt.steps = 1500
  return config
