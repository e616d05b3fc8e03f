"""The generated source: streams of claims with known gold, told from the fact quads.

Owns the arguments of a generated stream: split, facts, kinds, size and share of conflicts.
How a stream is told is in `generated_stream`, the plan and the kinds held out in
`generated_plan`, the domains held out in `quads`.
"""

import hashlib
import random
from collections.abc import Iterator

from tarl_jax.data.generated_plan import check_rate, withheld_kinds
from tarl_jax.data.generated_stream import StreamBuilder
from tarl_jax.data.label_table import Step
from tarl_jax.data.quads import SPLITS, load_quads
from tarl_jax.data.record import Stream
from tarl_jax.errors import InputError

ALL_FACTS = "all"


def generate(
  seed: int, num_streams: int, claims_per_stream: int, split: str, facts: str | None = None, *,
  all_kinds: bool = False, conflict_rate: float | None = None,
) -> list[Stream]:  # fmt: skip
  """Streams with gold by the label table (DATA.md, "What a label means").

  The same arguments give the same streams on every machine; stream i does not depend on
  `num_streams`, nor its first claims on `claims_per_stream`. Whole domains of quads, people
  and frames are disjoint between the three splits; source names of our own and one-off texts
  between train and test. Whole kinds are held out as well (`generated_plan.reserved_kinds`).

  Args:
    seed: any int.
    num_streams: how many streams, each about one person's memory over some months.
    claims_per_stream: how many claims each. A stream that runs longer than its facts last
      (about 2,000 claims for the one domain of "val") tells ever fewer new facts.
    split: "train", "val" or "test".
    facts: split whose quads are told, or "all"; by default `split` itself. With "train", a
      test stream has new people, sources and forms, and facts that were seen in training.
    all_kinds: whether no kind is held out. For a policy that is to be used; what it scores
      on the reserved kinds measures nothing.
    conflict_rate: share of claims that state another value for a live slot, from 0 to 0.6.
      None leaves it to the plan (0.4 to 0.6, more in a longer stream).

  Raises:
    InputError: for an unknown split, a size below 1 or a rate out of range.
  """
  made = generate_with_steps(
    seed, num_streams, claims_per_stream, split, facts,
    all_kinds=all_kinds, conflict_rate=conflict_rate,
  )  # fmt: skip
  return [stream for stream, _ in made]


def generate_with_steps(
  seed: int, num_streams: int, claims_per_stream: int, split: str, facts: str | None = None, *,
  all_kinds: bool = False, conflict_rate: float | None = None,
) -> Iterator[tuple[Stream, tuple[Step, ...]]]:  # fmt: skip
  """As `generate`, with the reason of every label beside the claims."""
  facts = facts or split
  for name, known in ((split, SPLITS), (facts, (*SPLITS, ALL_FACTS))):
    if name not in known:
      raise InputError(f"split: expected one of {', '.join(known)}, found {name!r}.")
  if num_streams < 1 or claims_per_stream < 1:
    raise InputError("generated source: num_streams and claims_per_stream must be at least 1.")
  check_rate(conflict_rate)
  quads = tuple(quad for quad in load_quads() if facts in (ALL_FACTS, quad.split))
  withheld = frozenset() if all_kinds else withheld_kinds(split)
  variant = split if facts == split else f"{split}-{facts}-facts"
  variant += "-all-kinds" if all_kinds else ""
  variant += "" if conflict_rate is None else f"-conflicts-{conflict_rate}"
  for index in range(num_streams):
    digest = hashlib.blake2b(f"{seed}/{variant}/{index}".encode(), digest_size=8).digest()
    rng = random.Random(int.from_bytes(digest))
    builder = StreamBuilder(rng, split, quads, withheld, conflict_rate)
    while len(builder.claims) < claims_per_stream:
      builder.advance()
    person = f"{builder.cast.owner}-{seed}-{index}"
    stream_id = f"generated-{variant}-{seed}-{index}"
    yield Stream(stream_id, "generated", tuple(builder.claims), person), tuple(builder.steps)
