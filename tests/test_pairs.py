"""Pairs for the cross-encoder: relations, choice, groups, fine-tuning and cross-fitting."""

import dataclasses
import itertools
import math

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_bert import write_tiny
from small_streams import claim, random_stream, rows_of_pairs, stream, texts_of

from tarl_jax.data import pairs as data_pairs
from tarl_jax.data.examples import featurize
from tarl_jax.data.moments import Capacities, stream_moments
from tarl_jax.data.pairs import (
  Pairs,
  allowed_relations,
  assign_folds,
  choose,
  find_slots,
  groups_of_texts,
  make_pairs,
  nearest_entries,
  with_cross_signals,
)
from tarl_jax.errors import InputError
from tarl_jax.losses import relation_loss
from tarl_jax.models.cross_encoder import load_cross_encoder
from tarl_jax.models.policy import PolicyOutput
from tarl_jax.training import pairs as training
from tarl_jax.training.cross_fit import CrossFit, fit_folds, load_folds
from tarl_jax.training.pairs import CrossConfig, fine_tune, plan_batches, set_loss
from tarl_jax.types import Action

U, S, O = np.eye(3, dtype=bool)  # unrelated, same, other value
NUM_VISIBLE = 6
relation_term = jax.jit(relation_loss)


def prepare(*streams):
  texts = texts_of(*streams)
  moments = stream_moments(streams, texts.vectors(), Capacities(24, 24, 24), NUM_VISIBLE)
  inputs, labels = featurize(moments, texts, NUM_VISIBLE, rows_of_pairs)
  return moments, inputs, labels


# Relations.


def relations(whole, step):
  """By the id of each visible entry."""
  moments, _, _ = prepare(whole)
  found = allowed_relations(moments[step], find_slots(whole))
  return {entry.id: row.tolist() for entry, row in zip(moments[step].entries, found)}


def test_relations_of_named_entries_by_hand():
  whole = stream(
    claim("tea", Action.APPEND),
    claim("boat", Action.APPEND),
    claim("tea again", Action.NOOP, "tea"),
    claim("coffee?", Action.DEFER_VERIFY, "tea"),
    claim("coffee", Action.REVISE, "tea", gold_resolves="coffee?", gold_outcome="confirmed"),
    claim("hello", Action.NOOP),
  )
  assert relations(whole, 2) == {"tea": S.tolist(), "boat": U.tolist()}
  assert relations(whole, 3) == {"tea": O.tolist(), "boat": U.tolist()}
  assert relations(whole, 4) == {"tea": O.tolist(), "boat": U.tolist(), "coffee?": S.tolist()}
  assert relations(whole, 5) == {"coffee": U.tolist(), "boat": U.tolist()}


def test_what_gold_cannot_tell_is_a_set():
  whole = stream(
    claim("tea", Action.APPEND),
    claim("green tea", Action.REVISE, "tea", gold_kind="enrichment"),
    claim("coffee?", Action.DEFER_VERIFY, "green tea"),
    claim("milk", Action.APPEND, gold_group="breakfast"),
    claim("oats?", Action.DEFER_VERIFY, gold_group="breakfast"),
    claim("rye?", Action.DEFER_VERIFY, gold_group="breakfast"),
    claim("water", Action.REJECT_CONFLICT, "green tea"),
    claim("Bo's tea", Action.DEFER_VERIFY, "green tea", gold_kind="same_name"),
  )
  assert relations(whole, 1) == {"tea": (S | O).tolist()}
  assert relations(whole, 5)["oats?"] == [True] * 3  # waits in the same group: anything
  assert relations(whole, 5)["milk"] == U.tolist()
  assert relations(whole, 6)["coffee?"] == (S | O).tolist()  # on the slot, and not named
  assert relations(whole, 7)["green tea"] == (S | O).tolist()
  assert find_slots(whole)["coffee?"] == find_slots(whole)["water"] == "tea"
  assert find_slots(whole)["Bo's tea"] == "Bo's tea"


@settings(derandomize=True, deadline=None, max_examples=15)
@given(st.integers(0, 10**6))
def test_relations_are_those_of_the_relation_loss(seed):
  moments, inputs, labels = prepare(random_stream(seed, 24))
  slots = find_slots(random_stream(seed, 24))
  for e, moment in enumerate(moments):
    allowed = allowed_relations(moment, slots)
    if not labels.weight[e] or not moment.entries:
      continue
    named = {*moment.targets, moment.resolves}
    binding = moment.gold.action in (Action.REVISE, Action.REJECT_CONFLICT)
    if binding and max(moment.targets) >= moment.num_accepted:
      continue  # the loss of the policy overlooks a further target in Pending
    single = [v for v in range(len(moment.entries)) if v in named or allowed[v].sum() == 1]
    logits = np.zeros((NUM_VISIBLE, 3), np.float32)
    logits[single] = np.where(allowed[single], 9.0, -9.0)
    output = PolicyOutput(None, None, None, None, logits)
    example = jax.tree.map(lambda leaf, e=e: leaf[e], (inputs, labels))
    term = relation_term(output, *example)
    unsure = len(moment.entries) - len(single)
    assert float(term.sum) == pytest.approx(unsure * math.log(3) / len(moment.entries), abs=1e-3)


# Choice.


@settings(derandomize=True, deadline=None, max_examples=15)
@given(st.integers(0, 10**6), st.integers(1, 7))
def test_nearest_entries_by_sorting(seed, number):
  moments, inputs, _ = prepare(random_stream(seed, 20))
  found = nearest_entries(inputs, number)
  vectors = texts_of(random_stream(seed, 20)).vectors()
  for moment, row in zip(moments, found):
    near = [float(vectors[e.text] @ vectors[moment.candidate.text]) for e in moment.entries]
    order = sorted(range(len(near)), key=lambda v: (-round(near[v], 5), v))
    assert set(np.flatnonzero(row)) == set(order[:number])


def test_pairs_of_a_decision_are_the_named_then_the_nearest():
  whole = random_stream(11, 30)
  moments, inputs, labels = prepare(whole)
  found = make_pairs(moments, inputs, [whole], 3)
  table = dict(zip(found.texts, found.allowed))
  nearest, slots = nearest_entries(inputs, 3), find_slots(whole)
  seen = 0
  for e, moment in enumerate(moments):
    mine = [entry.text for c, entry in itertools.product([moment.candidate], moment.entries)
            if (c.text, entry.text) in table]  # fmt: skip
    if not labels.weight[e] and moment.gold.target and not moment.targets:
      assert not mine
      continue
    assert len(mine) <= 3
    allowed = allowed_relations(moment, slots)
    for v, entry in enumerate(moment.entries):
      texts = (moment.candidate.text, entry.text)
      if texts in table:
        assert (table[texts] == allowed[v]).all() and not table[texts].all()
        assert not table[texts][0] or nearest[e, v]
        seen += 1
      elif v in moment.targets:
        assert len(mine) == 3
  assert seen == len(table) > 40


def test_a_pair_told_twice_keeps_what_both_allow_or_is_dropped():
  def told(name, *last):
    return stream(claim("a", Action.APPEND, text="tea"), *last, name=name)

  again = {"text": "green tea"}
  enriched = told("1", claim("b", Action.REVISE, "a", gold_kind="enrichment", **again))
  same = told("2", claim("b", Action.NOOP, "a", **again))
  new = told("3", claim("b", Action.APPEND, **again))
  for streams, wanted, dropped in (
    ([enriched], [S | O], 0),
    ([enriched, same], [S], 0),
    ([enriched, same, new], [], 1),
  ):
    moments, inputs, _ = prepare(*streams)
    found = make_pairs(moments, inputs, streams, 4)
    assert found.allowed.tolist() == [row.tolist() for row in wanted]
    assert found.num_contradictory == dropped and len(found.texts) == len(wanted)


def some_pairs(number, source="own"):
  texts = tuple((f"c{i}", f"e{i}") for i in range(number))
  return Pairs(texts, np.eye(3, dtype=bool)[np.arange(number) % 3], (source,) * number)


def test_choice_takes_turns_among_sources_and_relations():
  texts = tuple((f"c{i}", "e") for i in range(100))
  allowed = np.stack([U] * 80 + [S] * 10 + [O] * 5 + [O] * 5)
  mixed = Pairs(texts, allowed, ("big",) * 95 + ("small",) * 5)
  rows = choose(mixed, 24, seed=0)
  assert (np.diff(rows) > 0).all() and len(rows) == 24
  kept = mixed.take(rows)
  assert kept.sources.count("small") == 5
  assert kept.allowed[np.array(kept.sources) == "big"].sum(0).tolist() == [7, 7, 5]
  assert choose(mixed, 1000, seed=0).tolist() == list(range(100))
  assert choose(mixed, 24, seed=0).tolist() == rows.tolist() != choose(mixed, 24, 1).tolist()


# Groups and folds.


def test_groups_follow_facts_that_several_people_tell():
  told = [
    ("ana", claim("1", Action.APPEND, text="ana rows", gold_group="only ana's")),
    ("ana", claim("2", Action.APPEND, text="the pier opens", gold_group="pier")),
    ("bo", claim("3", Action.APPEND, text="the pier shuts", gold_group="pier")),
    ("bo", claim("4", Action.NOOP, text="bo sings")),
    ("ana", claim("5", Action.NOOP, text="hello")),
    ("bo", claim("6", Action.NOOP, text="hello")),
  ]
  assert groups_of_texts(told) == {
    "ana rows": "person ana",
    "the pier opens": "group pier",
    "the pier shuts": "group pier",
    "bo sings": "person bo",
    "hello": "text hello",
  }


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 7), min_size=1, max_size=60), st.integers(1, 4))
def test_a_group_is_in_one_fold_and_folds_are_balanced(groups, num_folds):
  found = dataclasses.replace(some_pairs(len(groups)), sources=("x",) * len(groups))
  group_of = {f"c{i}": f"g{g}" for i, g in enumerate(groups)}
  folds = assign_folds(found, group_of, num_folds)
  by_group = {(group_of[text], fold) for text, fold in folds.items()}
  assert len(by_group) == len(set(groups)) and set(folds) == set(group_of)
  loads = [sum(fold == f for fold in folds.values()) for f in range(num_folds)]
  assert max(loads) - min(loads) <= max(groups.count(g) for g in groups)


# Signals.


def test_scored_entries_have_their_columns_and_others_say_so():
  whole = random_stream(5, 16)
  moments, inputs, _ = prepare(whole)
  asked = []

  def score(texts):
    asked.extend(texts)
    return np.array([[-len(a), -20.0, -len(b)] for a, b in texts], np.float32)

  found = with_cross_signals(inputs, moments, 2, score)
  assert len(set(asked)) == len(asked)
  width = inputs.pair_signals.shape[-1]
  np.testing.assert_array_equal(found.pair_signals[..., :width], inputs.pair_signals)
  columns, nearest = found.pair_signals[..., width:], nearest_entries(inputs, 2)
  assert columns.shape[-1] == len(data_pairs.CROSS_SIGNALS) and columns.dtype == np.float32
  for e, moment in enumerate(moments):
    for v in range(NUM_VISIBLE):
      wanted = [0.0, 0.0, 0.0, 0.0]
      if nearest[e, v]:
        wanted = [-len(moment.candidate.text), -10.0, -len(moment.entries[v].text), 1.0]
      assert columns[e, v].tolist() == wanted
  others = found._replace(pair_signals=inputs.pair_signals)
  jax.tree.map(np.testing.assert_array_equal, others, inputs)


# Fine-tuning.


def test_set_loss_by_hand():
  logits = np.log(np.array([0.2, 0.3, 0.5], np.float32))
  assert float(set_loss(logits, S)) == pytest.approx(-math.log(0.3), abs=1e-6)
  assert float(set_loss(logits, S | O)) == pytest.approx(-math.log(0.8), abs=1e-6)
  assert float(set_loss(logits, U | S | O)) == pytest.approx(0.0, abs=1e-6)
  gradient = jax.jit(jax.grad(set_loss))(logits, S | O)  # p - p given the set
  np.testing.assert_allclose(gradient, [0.2, 0.3 - 0.375, 0.5 - 0.625], atol=1e-6)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
  folder = write_tiny(tmp_path_factory.mktemp("tiny"), max_position_embeddings=32)
  return load_cross_encoder(folder, frozen_layers=1, num_relations=3)


# "red" beside "red" is the same, beside "blue" another value, "boat" has nothing to do with it.
TOY = Pairs(
  (("red", "red"), ("red", "blue"), ("red boat", "sea"), ("blue", "blue"), ("blue", "red"),
   ("sea", "red"), ("harbour", "blue"), ("the red", "red")),
  np.stack([S, O, U, S, O, U, U, S]),
  ("own",) * 8,
)  # fmt: skip
FAST = CrossConfig(
  epochs=80, lr=2e-2, head_rate=2.0, batch_tokens=256, num_pairs=8, save_every=3, num_scored=2
)


def test_every_epoch_has_every_row_once(tiny):
  lengths = np.random.default_rng(0).integers(3, 32, 50)
  plan = plan_batches(tiny, lengths, FAST)
  steps = len(plan) // FAST.epochs
  for epoch in range(FAST.epochs):
    rows = np.concatenate([rows for _, rows in plan[epoch * steps : (epoch + 1) * steps]])
    assert sorted(rows) == list(range(50))
  assert all(lengths[rows].max() <= width for width, rows in plan)
  again = plan_batches(tiny, lengths, FAST)
  assert all(np.array_equal(a[1], b[1]) for a, b in zip(plan, again))
  other = plan_batches(tiny, lengths, dataclasses.replace(FAST, seed=1))
  assert not all(np.array_equal(a[1], b[1]) for a, b in zip(plan, other))


def loss_of(encoder, params, pairs):
  scores = encoder.score(params, pairs.texts)
  return float(np.mean([-np.logaddexp.reduce(row[a]) for row, a in zip(scores, pairs.allowed)]))


def test_training_solves_a_toy_and_resumes_exactly(tiny, tmp_path, monkeypatch):
  start = tiny.init(jax.random.key(FAST.seed))
  straight = fine_tune(tiny, TOY, FAST, path=None, about="toy")
  assert loss_of(tiny, straight, TOY) < 0.7 * loss_of(tiny, start, TOY)
  assert set(straight) == {"layers", "head"}  # the frozen layer is no parameter
  assert straight["layers"]["query"]["kernel"].shape[0] == 1

  saved = training.save_tree
  steps = []

  def stop_after_the_first(path, tree, about):
    saved(path, tree, about)
    steps.append(int(tree.step))
    raise KeyboardInterrupt

  path = tmp_path / "weights"
  monkeypatch.setattr(training, "save_tree", stop_after_the_first)
  with pytest.raises(KeyboardInterrupt):
    fine_tune(tiny, TOY, FAST, path=path, about="toy")
  monkeypatch.undo()
  assert steps == [3] and not path.exists()
  with pytest.raises(InputError, match=r"weights.state: is of another run"):
    fine_tune(tiny, TOY, FAST, path=path, about="another")
  resumed = fine_tune(tiny, TOY, FAST, path=path, about="toy")
  jax.tree.map(np.testing.assert_array_equal, resumed, straight)
  assert [file.name for file in tmp_path.iterdir()] == ["weights"]
  read = fine_tune(tiny, TOY, FAST, path=path, about="toy")
  jax.tree.map(np.testing.assert_array_equal, read, straight)


def test_the_head_is_faster():
  params = {"layers": np.ones(3, np.float32), "head": np.ones(3, np.float32)}
  config = dataclasses.replace(FAST, head_rate=7.0, warmup=0.0, weight_decay=0.0)
  optimizer = training.make_optimizer(config, 10)
  gradient = jax.tree.map(lambda leaf: leaf * 0.1, params)
  updates, _ = jax.jit(optimizer.update)(gradient, optimizer.init(params), params)
  np.testing.assert_allclose(updates["head"], 7 * updates["layers"], rtol=1e-5)
  assert (updates["head"] < 0).all()


def test_bad_training_stops_with_a_sentence(tiny, tmp_path, monkeypatch):
  none = Pairs((), np.zeros((0, 3), bool), ())
  with pytest.raises(InputError, match="no pair to learn from"):
    fine_tune(tiny, none, FAST, path=None, about="")
  broken = jax.tree.map(lambda leaf: np.full_like(leaf, np.nan), tiny.init(jax.random.key(0)))
  monkeypatch.setattr(tiny, "init", lambda key: broken)
  with pytest.raises(InputError, match=r"loss of the cross-encoder is nan at step 1; lower"):
    fine_tune(tiny, TOY, FAST, path=tmp_path / "weights", about="")
  assert not any(tmp_path.iterdir())


# Cross-fitting.


def test_no_group_is_scored_by_a_model_that_saw_it(tiny, tmp_path, monkeypatch):
  seen = []

  def spy(encoder, pairs, config, *, path, about, name):
    seen.append(set(pairs.texts))
    return encoder.init(jax.random.key(len(seen)))

  monkeypatch.setattr("tarl_jax.training.cross_fit.fine_tune", spy)
  config = dataclasses.replace(FAST, folds=3)
  group_of = {text: f"group of {text.split()[-1]}" for text, _ in TOY.texts}
  fold_of = assign_folds(TOY, group_of, 3)
  fit = fit_folds(
    tiny, TOY, fold_of, config, folder=tmp_path / "cross", about="", cache_dir=str(tmp_path)
  )
  assert set.union(*seen) == set(TOY.texts)
  alone = [tiny.score(params, TOY.texts) for params in fit.models]
  found = fit.score_held_out(TOY.texts, fold_of)
  for row, (candidate, _) in enumerate(TOY.texts):
    (which,) = [f for f in range(3) if np.array_equal(alone[f][row], found[row])]
    trained_on = {group_of[text] for text, _ in seen[which]}
    assert group_of[candidate] not in trained_on

  mean = np.log(np.mean(np.exp(alone), axis=0))
  np.testing.assert_allclose(fit.score(TOY.texts), mean, atol=1e-6)
  unknown = fit.score_held_out(TOY.texts, {})
  np.testing.assert_array_equal(unknown, fit.score(TOY.texts))


def test_models_are_read_as_they_were_left(tiny, tmp_path):
  fold_of = {text: int("blue" in text) for text, _ in TOY.texts}
  where = {"folder": tmp_path / "cross", "about": "run", "cache_dir": None}
  fit = fit_folds(tiny, TOY, fold_of, FAST, **where)
  read = load_folds(tiny, FAST, **where)
  assert isinstance(read, CrossFit) and len(read.models) == 2
  assert read.score(TOY.texts).tobytes() == fit.score(TOY.texts).tobytes()
  with pytest.raises(InputError, match=r"fold_0.weights: is of another run"):
    load_folds(tiny, FAST, **{**where, "about": "other run"})
  path = tmp_path / "cross" / "fold_1.weights"
  data = bytearray(path.read_bytes())
  data[-9] ^= 4
  path.write_bytes(data)
  with pytest.raises(InputError, match=r"fold_1.weights: does not match its digest"):
    load_folds(tiny, FAST, **where)
