"""Every audit passes on sound data and fails on the fault planted for it."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tarl_jax.baselines.probe import probe
from tarl_jax.config import Config, OptConfig
from tarl_jax.data import audits
from tarl_jax.data.examples import PAIR_SOURCE_SIGNALS
from tarl_jax.data.generated import generate
from tarl_jax.data.label_audit import KINDS, label_faults, replay
from tarl_jax.data.record import Claim, Gold, Stream
from tarl_jax.data.settings import Part
from tarl_jax.evaluation import leakage
from tarl_jax.models.encoder import make_encoder
from tarl_jax.types import Action

APPEND, NOOP, REVISE, REJECT, DEFER = Action


def claim(name, text, action, kind, target=None, trust=0.9, time=0, **fields):
  gold = Gold(action, target, kind=kind, reliability=trust, group=fields.pop("group", ""))
  return Claim(name, text, observed_at=time, subject="Ana", gold=gold, **fields)


SOUND = (
  claim("a", "Ana rows at dawn.", APPEND, "new"),
  claim("b", "Ana rows at dawn!", NOOP, "repeat", "a", trust=0.3, time=5),
  claim("c", "Ana rows at dusk.", DEFER, "comparable", "a", trust=0.75 - 0.15, time=9),
  claim("d", "Ana swims.", DEFER, "untrusted_new", None, trust=0.3),
  claim("e", "Ana rows at noon.", REVISE, "change", "a", trust=0.75, time=9),
  claim("f", "Ana rows at dawn.", REJECT, "outdated", "e", time=4),
  claim("g", "Ana rows at six.", REJECT, "clearly_less_reliable", "e", trust=0.3, time=11),
  claim("h", "Ana rows at ten.", DEFER, "unorderable", "e", time=9),
  claim("i", "Ana swims.", NOOP, "pending_repeat", "d", trust=0.3, time=12),
  claim("j", "Ana swims.", APPEND, "confirmed_new", None, time=13),
  claim("k", "Hello!", NOOP, "chat", trust=0.3),
)
# The entry of c is less trusted than its own text says, so that c is comparable to it.
SOUND = (dataclasses.replace(SOUND[0], gold=dataclasses.replace(SOUND[0].gold, reliability=0.75)),
         *SOUND[1:])  # fmt: skip


def whole(claims, person="p", source="own"):
  return Stream(f"{source}:{person}", source, tuple(claims), person)


def changed(name, **fields):
  """SOUND with other fields for one claim: gold's where gold has them."""
  gold_fields = {f.name for f in dataclasses.fields(Gold)}
  claims = []
  for one in SOUND:
    if one.id == name:
      gold = dataclasses.replace(one.gold, **{k: v for k, v in fields.items() if k in gold_fields})
      own = {k: v for k, v in fields.items() if k not in gold_fields}
      one = dataclasses.replace(one, gold=gold, **own)
    claims.append(one)
  return whole(claims)


def test_the_rule_oracle_passes_a_sound_stream():
  audit = audits.audit_labels([whole(SOUND)])
  assert audit.passed and "1.0000 of 11" in audit.why


@pytest.mark.parametrize(
  ("name", "fields", "fault"),
  [
    ("e", {"action": REJECT}, "labelled reject_conflict against the table"),
    ("e", {"observed_at": -5}, "labelled revise against the table"),
    ("e", {"observed_at": None}, "labelled revise against the table"),
    ("e", {"reliability": 0.3}, "labelled revise against the table"),
    ("g", {"reliability": 0.62}, "labelled reject_conflict against the table"),
    ("c", {"reliability": 0.2}, "labelled defer_verify against the table"),
    ("a", {"action": DEFER}, "labelled defer_verify against the table"),
    ("k", {"action": APPEND}, "labelled append against the table"),
    ("f", {"target": "a"}, "conflicts with nothing live"),
    ("b", {"target": None}, "repeats nothing live"),
    ("i", {"target": "e"}, "repeats what is not in Pending"),
    ("j", {"target": "e"}, "has a target though nothing conflicts"),
    ("b", {"kind": "riddle"}, "kind 'riddle' is in no table"),
    ("b", {"kind": ""}, "kind '' is in no table"),
    ("d", {"reliability": None}, "without a true reliability"),
    ("h", {"text": "Ana rows at noon"}, "the opposite before"),
    ("f", {"text": "ANA rows at noon."}, "the opposite before"),
  ],
)
def test_the_rule_oracle_finds_a_label_that_breaks_the_table(name, fields, fault):
  faults, checked = label_faults([changed(name, **fields)])
  assert checked == len(SOUND)
  assert any(fault in found for found in faults), faults
  assert not audits.audit_labels([changed(name, **fields)]).passed


def test_the_rule_oracle_finds_texts_called_the_same_after_they_were_two_values():
  claims = (
    claim("a", "Ana rows at dawn.", APPEND, "new"),
    claim("b", "Ana rows at dusk.", REJECT, "clearly_less_reliable", "a", trust=0.3, time=5),
    claim("c", "Ana rows at dusk.", NOOP, "repeat", "a", time=9),
  )
  assert not audits.audit_labels([whole(claims)]).passed
  other = dataclasses.replace(claims[2], subject="Bo")
  assert audits.audit_labels([whole((*claims[:2], other))]).passed
  assert not audits.audit_labels([]).passed, "nothing checked is not passed"


def test_the_rule_oracle_joins_texts_that_were_called_the_same():
  claims = (
    claim("a", "Ana rows at dawn.", APPEND, "new"),
    claim("b", "Ana rows at dusk.", REVISE, "change", "a", time=5),
    claim("c", "Ana rows at sunrise.", APPEND, "new", time=6),
    claim("d", "Ana rows at dawn.", NOOP, "repeat", "c", time=7),
  )
  assert audits.audit_labels([whole(claims)]).passed
  joined = claim("e", "Ana rows at sunrise.", NOOP, "repeat", "b", time=8)
  assert not audits.audit_labels([whole((*claims, joined))]).passed


def test_a_stream_has_relations_of_its_own():
  """What is the same for one person may be two values for another of the same name."""
  base = claim("a", "Ana rows at dawn.", APPEND, "new")
  same = claim("b", "Ana rows early.", NOOP, "repeat", "a", time=5)
  other = claim("b", "Ana rows early.", REVISE, "change", "a", time=5)
  assert audits.audit_labels([whole((base, same)), whole((base, other), "q")]).passed


@pytest.mark.parametrize(
  ("added", "sound"),
  [
    (claim("l", "Ana swims!", NOOP, "repeat", "c", time=14), True),  # c is in Pending
    (claim("l", "Ana rows at dawn.", NOOP, "repeat", "a", time=14), False),  # a is in History
    (claim("l", "Ana rowed once.", APPEND, "past", None, time=14), True),
    (claim("l", "Ana rowed once.", APPEND, "past", "e", time=14), False),
    (claim("l", "Hi!", NOOP, "greeting", "e", time=14), False),
    # Hedged or not, which a label does not say: the trusted source may have hedged.
    (claim("l", "Ana swims.", NOOP, "pending_repeat", "d", time=14), True),
    (claim("l", "Ana swims.", NOOP, "confirmed_new", "d", time=14), False),
    # Its validity is over when the entry comes, or its time is not known.
    (claim("l", "Ana naps.", REJECT, "expired_conflict", "e", time=14, valid_until=9), True),
    (claim("l", "Ana naps.", REJECT, "expired_conflict", "e", time=14, valid_until=10), False),
    (claim("l", "Ana naps.", DEFER, "unorderable", "e", time=None, valid_until=1), True),
    (claim("l", "Ana naps.", REJECT, "unorderable", "e", time=None, valid_until=1), False),
  ],
)
def test_the_rule_oracle_of_one_more_claim(added, sound):
  assert audits.audit_labels([whole((*SOUND, added))]).passed == sound


def test_a_text_may_be_repeated_after_it_was_enriched():
  claims = (
    claim("a", "Ana rows.", APPEND, "new"),
    claim("b", "Ana rows with four friends.", REVISE, "enrichment", "a", time=5),
    claim("c", "Ana rows.", NOOP, "repeat", "b", time=9),
  )
  assert audits.audit_labels([whole(claims)]).passed
  gold = dataclasses.replace(claims[1].gold, kind="update")
  replaced = (claims[0], dataclasses.replace(claims[1], gold=gold), claims[2])
  assert not audits.audit_labels([whole(replaced)]).passed


def test_an_expired_claim_loses_though_it_is_newer():
  old = claim("a", "Ana rents a flat.", APPEND, "new", time=100)
  late = claim("b", "Ana rents a boat.", REJECT, "expired_conflict", "a", time=200, valid_until=90)
  assert audits.audit_labels([whole((old, late))]).passed
  valid = dataclasses.replace(late, valid_until=150)
  assert not audits.audit_labels([whole((old, valid))]).passed


def test_the_generated_source_follows_the_table_and_a_swapped_label_does_not():
  streams = generate(5, 6, 60, "train")
  assert audits.audit_labels(streams).passed
  assert {c.gold.kind for s in streams for c in s.claims} <= set(KINDS)
  number, victim = next((i, c) for i, c in enumerate(streams[0].claims) if c.gold.action == REVISE)
  claims = list(streams[0].claims)
  claims[number] = dataclasses.replace(victim, gold=dataclasses.replace(victim.gold, action=REJECT))
  assert not audits.audit_labels([dataclasses.replace(streams[0], claims=tuple(claims))]).passed


def test_replay_puts_every_claim_in_its_place():
  *_, (last, _, memory) = replay(whole(SOUND))
  assert last.id == "k"
  assert set(memory.accepted) == {"e", "j"}
  assert set(memory.pending) == {"c", "d", "h"}
  assert set(memory.history) == {"a", "f", "g"}


def split(**texts):
  """One person a split who says the given texts, every action in turn, in one group."""
  parts = {}
  for name, said in texts.items():
    claims = [
      Claim(f"{i}", text, gold=Gold(list(Action)[i % 5], group=f"of {name}"))
      for i, text in enumerate(said)
    ]
    parts[name] = [Part(whole(claims, person=name))]
  return parts


TRAIN = ["Ana rows at dawn.", "Bo sings.", "Cy has 3 mules near Bari.", "Di naps.", "Ed cooks."]
TEST = ["Flo rows at noon.", "Gus draws.", "Hal has 4 goats near Lecce.", "Ida digs.", "Jo knits."]


def test_duplicates_across_splits_fail():
  clean = split(train=TRAIN, val=["Kim prays."], test=TEST)
  assert audits.audit_duplicates("x", clean).passed
  for name in ("train", "val"):
    for text in ("hal HAS 4 goats near Lecce", "Hal now has 4 goats near Lecce."):
      leaking = {**clean, name: split(train=[text])["train"]}
      audit = audits.audit_duplicates("x", leaking)
      assert not audit.passed and f"1 in {name}/test" in audit.why
      skipped = {**clean, name: [part._replace(steps=()) for part in leaking[name]]}
      assert audits.audit_duplicates("x", skipped).passed, "a step left out is no example"
  other = split(train=["Hal has 5 goats near Lecce."])["train"]
  assert audits.audit_duplicates("x", {**clean, "train": other}).passed, "another value"


def test_shared_people_and_groups_fail():
  clean = split(train=TRAIN, val=["Kim prays."], test=TEST)
  assert audits.audit_people("x", clean).passed
  for one, two in (("train", "val"), ("train", "test"), ("val", "test")):
    person = [Part(dataclasses.replace(clean[one][0].stream, person=two))]
    audit = audits.audit_people("x", {**clean, one: person})
    assert not audit.passed and audit.why.startswith("1 people and 0 groups")
    group = [Part(whole(clean[two][0].stream.claims, person="somebody"))]
    audit = audits.audit_people("x", {**clean, one: group})
    assert not audit.passed and audit.why.startswith("0 people and 1 groups")


def test_a_rare_class_fails_in_train_and_in_test():
  clean = split(train=TRAIN, val=[], test=TEST)
  assert audits.audit_classes("x", clean).passed
  for name in ("train", "test"):
    crowded = [*clean[name], *[Part(whole(c for c in clean[name][0].stream.claims[:4]))] * 3]
    audit = audits.audit_classes("x", {**clean, name: crowded})
    assert not audit.passed and f"defer_verify 0.059 of {name}" in audit.why
    left_out = [clean[name][0]._replace(steps=(0, 1, 2, 3))]
    audit = audits.audit_classes("x", {**clean, name: left_out})
    assert not audit.passed and f"defer_verify 0.000 of {name}" in audit.why
  actions = [*[APPEND] * 7, *[NOOP] * 6, *[REVISE] * 5, *[REJECT] * 5, DEFER, DEFER]  # 2 of 25
  exact = [Part(whole(Claim(f"{i}", "x", gold=Gold(action)) for i, action in enumerate(actions)))]
  assert audits.audit_classes("x", {**clean, "train": exact}).passed


def test_provenance_and_size_have_a_least():
  def streams(annotated, derived, constructed):
    counts = {"annotated": annotated, "derived": derived, "constructed": constructed}
    golds = [Gold(APPEND, provenance=name) for name, n in counts.items() for _ in range(n)]
    return [whole(Claim(f"{i}", "x", gold=gold) for i, gold in enumerate(golds))]

  assert audits.audit_provenance(streams(20, 15, 65)).passed
  assert not audits.audit_provenance(streams(20, 14, 66)).passed
  assert not audits.audit_provenance([]).passed
  many = streams(200, 0, 0) * 60
  assert audits.audit_size(many).passed
  assert not audits.audit_size(many[:58] + streams(400, 0, 0)).passed, "59 streams"
  assert not audits.audit_size(many[:59] + streams(199, 0, 0)).passed


@pytest.mark.parametrize(("name", "limit"), [("candidate-only", 0.2), ("source-only", 0.35),
                                             ("metadata-only", 0.45)])  # fmt: skip
def test_a_probe_above_its_limit_fails(name, limit):
  assert audits.audit_probe(name, limit).passed
  assert not audits.audit_probe(name, limit + 0.001).passed
  assert not audits.audit_probe(name, float("nan")).passed


# Probes: streams whose label hangs on one thing alone.

ROLES = ("user", "tool", "assistant", "friend", "hearsay")
WORDS = ("apple", "violin", "harbour", "winter", "ladder")
CONFIG = dataclasses.replace(Config(), opt=OptConfig(batch_size=64, warmup=10, steps=80))


def labelled(seed, by):
  """40 claims: text, role and time are drawn; `by` says which of them is the label."""
  rng = np.random.default_rng(seed)
  claims = [claim("base", "Nothing much.", APPEND, "new")]
  for i in range(40):
    label, text, role, time = rng.integers(5, size=4)
    text, role = (
      label if by == what else drawn for what, drawn in (("text", text), ("role", role))
    )
    action = Action(int(label))
    target = "base" if action == REJECT else None
    action = NOOP if action == REVISE else action
    claims.append(
      Claim(f"{i}", f"{WORDS[text]} {rng.integers(1000)}", ROLES[role],
            observed_at=int(time) * 1000, gold=Gold(action, target))
    )  # fmt: skip
  return Part(whole(claims, person=f"{seed}"))


def linear_probe(config, seed, train, action, test):
  """Stands in for the trained policy: a linear classifier on all that it is shown."""
  assert config.probe_steps == config.opt.steps  # a probe gets the budget of the policy
  del config, seed
  flat = [
    np.concatenate([np.asarray(leaf, np.float64).reshape(len(leaf), -1) for leaf in view], axis=1)
    for view in (train, test)
  ]
  model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01)).fit(flat[0], action)
  return SimpleNamespace(action=model.predict(flat[1]).astype(np.int32))


@pytest.mark.parametrize(
  ("by", "seeing"),
  [("text", {"candidate-only"}), ("role", {"source-only", "metadata-only"}), ("nothing", set())],
)
def test_a_probe_sees_what_gives_the_label_away_and_nothing_else(monkeypatch, by, seeing):
  monkeypatch.setattr(leakage, "probe", linear_probe)
  train, test = ([labelled(seed, by) for seed in seeds] for seeds in (range(12), range(50, 55)))
  scores = leakage.probe_scores(train, {"t": test, "none": []}, make_encoder("hashed"), CONFIG)
  assert {name for name, found in scores.items() if found["t"] > 0.6} == seeing, scores
  assert all(found["t"] < 0.4 for name, found in scores.items() if name not in seeing), scores
  assert all(np.isnan(found["none"]) for found in scores.values())


def test_each_probe_is_shown_its_own_inputs_at_the_examples_alone():
  told = labelled(0, "nothing").stream
  claims = tuple(dataclasses.replace(one, subject="Ana") for one in told.claims)
  part = Part(dataclasses.replace(told, claims=claims), (3, 7, 40))
  vectors = leakage.encode_sentences({one.text for one in claims}, make_encoder("hashed"))
  seen = leakage._see([part], vectors, CONFIG)
  assert seen.action.tolist() == [one.gold.action for one in part.examples]
  shown = {
    name: {field for field, leaf in view._asdict().items() if np.any(leaf)}
    for name, view in seen.views.items()
  }
  sizes = {"num_accepted", "num_visible"}
  places = {"source", "entry_source", "pair_source", "time_signals"}
  assert shown == {
    "candidate-only": {"candidate", "claim_signals", *sizes},
    "source-only": {"source", *sizes},
    "metadata-only": {*places, *sizes},
  }
  metadata = seen.views["metadata-only"]
  np.testing.assert_array_equal(seen.views["source-only"].source, metadata.source)
  assert all(len(leaf) == 3 for view in seen.views.values() for leaf in view)
  for name in ("candidate-only", "source-only"):
    assert (seen.views[name].num_visible == 1).all(), "says nothing of the memory's size"
  subject = [PAIR_SOURCE_SIGNALS.index(name) for name in ("same_subject", "other_subject")]
  assert not metadata.pair_source[..., subject].any(), "whom it is about is in the text"


def test_the_policy_learns_a_leaking_source_from_metadata_of_several_entries():
  train, test = ([labelled(seed, "role") for seed in seeds] for seeds in (range(12), range(50, 55)))
  encoder = make_encoder("hashed")
  vectors = leakage.encode_sentences({c.text for p in train + test for c in p.examples}, encoder)
  seen, look = (leakage._see(parts, vectors, CONFIG) for parts in (train, test))
  view, shown = seen.views["metadata-only"], look.views["metadata-only"]
  found = probe(CONFIG, 0, view, seen.action, shown)
  assert np.mean(found.action == look.action) > 0.8
