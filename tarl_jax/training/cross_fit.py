"""Cross-fitting: the scores that a policy is trained on come from models that saw no such pair.

Owns which model scores what. A model that has seen a pair is surer of it than of a new one;
a policy trained on such scores would trust them too much. So the training groups are divided
into K folds and K models are fine-tuned, each without one fold: a training text is scored by
the model that has not seen its group, and everything else by the mean of the K models'
probabilities, which costs no further training and keeps what each has learned.

    folder/fold_0.weights ... fold_<K-1>.weights     see `training/pairs.py`
"""

import hashlib
import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np

from tarl_jax.data.pairs import Pairs, Texts, choose
from tarl_jax.errors import InputError
from tarl_jax.models.bert import Params
from tarl_jax.models.cross_encoder import CrossEncoder
from tarl_jax.models.pair_cache import score_cached
from tarl_jax.models.tree_file import load_tree
from tarl_jax.training.pairs import CrossConfig, fine_tune


class CrossFit(NamedTuple):
  """K fine-tuned models; `models[f]` has seen no pair of fold f."""

  encoder: CrossEncoder
  models: tuple[Params, ...]
  cache_dir: str | None

  def score(self, pairs: Sequence[Texts]) -> np.ndarray:
    """Log of the mean probability of all models, float32 [M, R]: for what none has seen."""
    found = np.stack([self._score(fold, pairs) for fold in range(len(self.models))])
    mean = np.logaddexp.reduce(found, axis=0) - np.log(len(found))
    return np.asarray(mean, np.float32)

  def score_held_out(self, pairs: Sequence[Texts], fold_of: Mapping[str, int]) -> np.ndarray:
    """Log-probabilities float32 [M, R] of pairs of the training split.

    Args:
      pairs: (candidate, entry).
      fold_of: the fold of each candidate text (`data.pairs.assign_folds`); one that it lacks
        is in no pair that was trained on, and is scored as by `score`.
    """
    out = np.zeros((len(pairs), self.encoder.num_relations), np.float32)
    folds = np.array([fold_of.get(candidate, -1) for candidate, _ in pairs], np.int64)
    for fold in range(-1, len(self.models)):
      rows = np.flatnonzero(folds == fold)
      some = [pairs[int(row)] for row in rows]
      if some:
        out[rows] = self.score(some) if fold < 0 else self._score(fold, some)
    return out

  def _score(self, fold: int, pairs: Sequence[Texts]) -> np.ndarray:
    params = self.models[fold]
    return score_cached(
      lambda some: self.encoder.score(params, some),
      pairs,
      f"{self.encoder.fingerprint}-{_digest(params)}",
      self.cache_dir,
      self.encoder.num_relations,
    )


def _digest(params: Params) -> str:
  digest = hashlib.blake2b(digest_size=12)
  for leaf in jax.tree.leaves(params):
    digest.update(np.ascontiguousarray(leaf).tobytes())
  return digest.hexdigest()


def fit_folds(
  encoder: CrossEncoder,
  pairs: Pairs,
  fold_of: Mapping[str, int],
  config: CrossConfig,
  *,
  folder: pathlib.Path,
  about: str,
  cache_dir: str | None,
) -> CrossFit:
  """Fine-tunes one model a fold, each on `config.num_pairs` pairs of the other folds.

  What is finished in `folder` is read, what is not goes on.

  Args:
    encoder: tokenizer and published weights.
    pairs: of the training split.
    fold_of: the fold of each of their candidate texts.
    config: settings.
    folder: made where missing.
    about: digest of settings and data; another run's files stop this one.
    cache_dir: of scores; None for no cache.

  Raises:
    InputError: as `fine_tune`.
  """
  try:
    folder.mkdir(parents=True, exist_ok=True)
  except OSError as error:
    raise InputError(f"{folder}: cannot be made ({error.strerror}); choose another.") from None
  folds = np.array([fold_of[candidate] for candidate, _ in pairs.texts], np.int64)
  models = []
  for fold in range(config.folds):
    others = np.flatnonzero(folds != fold)
    kept = others[choose(pairs.take(others), config.num_pairs, config.seed)]
    models.append(
      fine_tune(
        encoder,
        pairs.take(kept),
        config,
        path=folder / _name(fold),
        about=_about(encoder, config, about, fold),
        name=f"cross-encoder {fold + 1} of {config.folds}",
      )
    )
  return CrossFit(encoder, tuple(jax.device_put(models)), cache_dir)


def load_folds(
  encoder: CrossEncoder,
  config: CrossConfig,
  *,
  folder: pathlib.Path,
  about: str,
  cache_dir: str | None,
) -> CrossFit:
  """The models that `fit_folds` left in `folder`.

  Raises:
    InputError: in one sentence, if one is missing, damaged or of another run.
  """
  like = jax.eval_shape(encoder.init, jax.random.key(0))
  models = [
    load_tree(folder / _name(fold), like, _about(encoder, config, about, fold))
    for fold in range(config.folds)
  ]
  return CrossFit(encoder, tuple(jax.device_put(models)), cache_dir)


def _name(fold: int) -> str:
  return f"fold_{fold}.weights"


def _about(encoder: CrossEncoder, config: CrossConfig, about: str, fold: int) -> str:
  return f"{about} {encoder.fingerprint} {config} fold {fold}"
