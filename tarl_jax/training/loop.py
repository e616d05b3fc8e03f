"""The training loop: data, steps, validation, checkpoints, resume.

Resume is exact: the newest valid checkpoint gives parameters, optimizer, key and step, the
step gives the data position, and metric lines after it are dropped. A fingerprint of the
pipeline beside the checkpoints refuses a resume on other examples.
"""

import math
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from tarl_jax import metrics
from tarl_jax.config import Config, to_dict
from tarl_jax.data.dataset import (
  Examples,
  build_split,
  examples_of,
  fit_vocabulary,
  load_encoder,
  load_sources,
  save_vocabulary,
)
from tarl_jax.data.pipeline import check_fingerprint, fingerprint, training_rows
from tarl_jax.errors import InputError
from tarl_jax.inputs import PolicyInputs
from tarl_jax.training.batches import take
from tarl_jax.training.checkpoints import Checkpoints, workdir_lock
from tarl_jax.training.learner import Learner, TrainState, make_learner, predict_all
from tarl_jax.training.workdir import (
  BEST_OF,
  Stamp,
  check_same_run,
  make_stamp,
  open_checkpoints,
  seed_folder,
  write_stamp,
)
from tarl_jax.training.writers import MetricWriter

_LOG_EVERY = 10


def train(config: Config, workdir: pathlib.Path) -> None:
  """Trains one policy a seed into `workdir`; resumes what is there.

  Raises:
    InputError: for unusable data, a workdir of another config or in use, damaged
      checkpoints, or a loss that is not finite. No checkpoint is lost or overwritten then.
  """
  with workdir_lock(workdir):
    sources = load_sources(config.data)
    encoder = load_encoder(config.encoder)
    stamp = make_stamp(config, sources.digest, encoder.fingerprint)
    check_same_run(workdir, stamp)  # another run stops us before anything is written
    for seed in config.seeds:
      open_checkpoints(workdir, seed, stamp).close()
    idf = fit_vocabulary(c for part in sources.splits["train"] for c in part.examples)
    save_vocabulary(workdir / "vocabulary.json", idf)
    write_stamp(workdir, stamp)
    built = [build_split(sources.splits[name], config, encoder, idf) for name in ("train", "val")]
    train_split, val_split = map(examples_of, built)
    print(
      f"{len(train_split.labels.action)} training and {len(val_split.labels.action)} "
      f"validation examples; {sum(sources.skips.values())} records of the sources skipped, "
      f"{sum(split.num_ambiguous for split in built)} new points too close to a live entry "
      "left out"
    )
    for seed in config.seeds:
      _train_seed(config, seed, workdir, stamp, train_split, val_split)


def example_sizes(inputs: PolicyInputs) -> PolicyInputs:
  """Shapes of one example, from arrays with a leading [E]."""
  return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), inputs)


def _train_seed(
  config: Config,
  seed: int,
  workdir: pathlib.Path,
  stamp: Stamp,
  train_split: Examples,
  val_split: Examples,
) -> None:
  learner = make_learner(example_sizes(train_split.inputs), config)
  state = learner.init(jax.random.key(seed))
  with open_checkpoints(workdir, seed, stamp) as checkpoints:
    restored = checkpoints.restore_latest(state)
    if restored is not None:
      state = restored[1]
    number = len(_trainable_rows(train_split))
    pipeline = fingerprint(number, config.opt.batch_size, seed, stamp.data)
    check_fingerprint(seed_folder(workdir, seed), pipeline, resumes=restored is not None)
    # Fresh or restored, every leaf is committed to the device: one program serves both.
    state = jax.device_put(state, jax.local_devices()[0])
    if int(state.step) >= config.opt.steps:
      print(f"seed {seed}: all {config.opt.steps} steps are done")
      return
    with MetricWriter(seed_folder(workdir, seed), to_dict(config)) as writer:
      writer.truncate_after(int(state.step))
      _run_steps(config, seed, learner, state, (train_split, val_split), checkpoints, writer)


def _run_steps(
  config: Config,
  seed: int,
  learner: Learner,
  state: TrainState,
  splits: tuple[Examples, Examples],
  checkpoints: Checkpoints,
  writer: MetricWriter,
) -> None:
  """Steps until `opt.steps`; step n is dispatched before the metrics of n - 1 are read."""
  train_split, val_split = splits
  trainable = take((train_split.inputs, train_split.labels), _trainable_rows(train_split))
  data = jax.device_put(trainable)
  batches = training_rows(data[1].action.shape[0], config.opt.batch_size, seed)
  first, total = int(state.step), config.opt.steps
  pending: tuple[int, dict[str, jax.Array]] | None = None
  bar = tqdm(range(first, total), initial=first, total=total, desc=f"seed {seed}", mininterval=1.0)
  for step in bar:
    rows = jax.device_put(batches[step])
    with jax.transfer_guard("disallow"):
      state, step_metrics = learner.step(state, *data, rows)
    if pending is not None:
      _log(writer, bar, *pending)
    pending = (step + 1, step_metrics)
    if (step + 1) % config.eval_every == 0 or step + 1 == total:
      _log(writer, bar, *pending)
      pending = None
      state, scores = validate(learner, state, val_split)
      _check_finite(step + 1, "validation loss", scores["nll"])
      writer.write(step + 1, "val", scores)
      checkpoints.save(step + 1, state, scores)
      bar.set_postfix(val_macro_f1=f"{scores[BEST_OF]:.3f}")


def _trainable_rows(split: Examples) -> np.ndarray:
  """Rows of the examples that count: those whose gold target is in sight."""
  rows = np.flatnonzero(split.labels.weight > 0)
  if not len(rows):
    raise InputError("no training example has its target in sight; raise data.num_visible.")
  return rows


def _check_finite(step: int, name: str, value: float) -> None:
  """Stops before a state that is not finite could become a checkpoint."""
  if not math.isfinite(value):
    raise InputError(
      f"the {name} is {value} at step {step}, and the loss was finite up to step {step - 1}; the "
      "last checkpoint is kept: lower opt.lr or raise opt.warmup, and use a new workdir."
    )


def _log(writer: MetricWriter, bar: tqdm, step: int, values: dict[str, jax.Array]) -> None:
  """Writes the metrics of a step; stops where the loss or its gradient is not finite."""
  for name in ("loss", "gradient_norm"):
    _check_finite(step, name.replace("_", " "), float(values[name]))
  if step % _LOG_EVERY == 0:
    writer.write(step, "train", {name: float(value) for name, value in values.items()})


def validate(learner: Learner, state: TrainState, split: Examples) -> tuple[TrainState, dict]:
  """Scores on a split, and the state with the temperature that fits it best."""
  output, _ = predict_all(learner, state.params, state.temperature, split.inputs)
  labels = split.labels
  temperature = metrics.fit_temperature(
    jnp.asarray(output.action_logits), jnp.asarray(labels.action), jnp.asarray(labels.weight)
  )
  logits = output.action_logits / np.asarray(temperature)
  probabilities = jax.nn.softmax(logits)
  counts = metrics.confusion(labels.action, logits.argmax(-1), np.ones(len(logits), np.float32))
  scores = {
    BEST_OF: metrics.macro_f1(np.asarray(counts)),
    "nll": float(jnp.mean(metrics.nll(probabilities, jnp.asarray(labels.action)))),
    "temperature": float(temperature),
  }
  fitted = jax.device_put(np.float32(temperature), state.temperature.sharding)
  return state.replace(temperature=fitted), scores
