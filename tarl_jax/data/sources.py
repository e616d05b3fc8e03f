"""Free names of sources -> a role, an owner and a default reliability (SPEC 2).

Owns the table of keywords; knows no claim. A claim that gives its own reliability keeps it,
the default here is for claims that give none.
"""

import functools
import re
from typing import NamedTuple

ROLES = (
  "user",
  "assistant",
  "agent",
  "tool",
  "system",
  "document",
  "person",
  "web",
  "echo",
  "unknown",
)

UNKNOWN_RELIABILITY = 0.5


class SourceInfo(NamedTuple):
  """What a source name says."""

  role: int  # index into ROLES
  owner: str  # casefolded, "" where the name gives none
  reliability: float  # 0 to 1, for a claim that gives none


# The first row with a keyword in the name decides, so narrow words stand before wide ones:
# "web_user_comment" is a comment, "recall_of_user" an echo. The reason is behind each row.
_TABLE: tuple[tuple[str, float, str], ...] = (
  # A repetition of what memory holds confirms nothing.
  ("echo", 0.3, "echo echoed recall recalled replay replayed recollection memory retrieved"),
  # Said to be unknown: less than a name that merely says nothing.
  ("unknown", 0.4, "unknown unverified unattributed stranger unnamed thirdparty"),
  # Anybody may have written it, an attacker as well.
  (
    "web",
    0.3,
    """comment comments forum anonymous anon post posts blog social tweet reddit chatroom rumour
    rumor gossip spam advert advertisement ad flyer untrusted""",
  ),
  # The user put it down on purpose.
  ("user", 0.95, "explicit stated pinned"),
  # A model's conclusion, not an observation.
  (
    "agent",
    0.45,
    "inference inferred guess guessed hypothesis speculation derived deduced reasoning prediction",
  ),
  # Picked out by a model without anybody asking: often right, sometimes invented.
  (
    "assistant",
    0.5,
    "extraction extracted extractor auto automatic background summary summarizer summariser",
  ),
  # A measurement or the output of a program.
  (
    "tool",
    0.9,
    """tool tools ci cd sensor sensors log logs api monitor monitoring feed live metrics probe
    healthcheck health pipeline database db sql command shell terminal telemetry meter scanner
    camera gps device test tests runner compiler scheduler server backend crawler thermostat
    scale tracker""",
  ),
  # Written to be binding.
  ("system", 0.9, "system spec specification schema config configuration settings policy admin"),
  # A record that somebody answers for.
  (
    "document",
    0.85,
    """manual handbook docs document documentation office official officially manufacturer record
    records registry register certificate contract invoice receipt file calendar report
    datasheet authority ministry court bank hospital clinic laboratory lab library timetable
    statement passport ledger board council agency""",
  ),
  # Published, not checked by us.
  (
    "web",
    0.4,
    """web webpage website page site search internet online shop reseller seller news newspaper
    wiki wikipedia listing marketplace article vlog video youtube podcast review reviews
    rss email mail newsletter""",
  ),
  ("assistant", 0.55, "assistant bot chatbot ai model llm gpt copilot"),
  ("agent", 0.65, "agent subagent planner worker executor orchestrator critic note notes"),
  # People about themselves know best.
  ("user", 0.9, "user operator customer owner human me self principal patient client account"),
  # People about others: meant well, at second hand.
  (
    "person",
    0.7,
    """person people colleague coworker friend family manager maintainer team speaker teacher
    tutor coach doctor nurse sister brother mother father parent wife husband partner neighbour
    neighbor boss supervisor employee member guest visitor student vendor supplier contact
    developer reviewer engineer organizer organiser transcript meeting caller interview""",
  ),
)
_KEYWORDS: dict[str, int] = {}
for _row, (_role, _reliability, _words) in enumerate(_TABLE):
  for _word in _words.split():
    _KEYWORDS.setdefault(_word, _row)

_PART = re.compile(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+(?![^\W\d_A-Z])")


def _parts(name: str) -> list[str]:
  """Lower-case words of a name: "PRComment", "pr_comment" and "pr comment" alike."""
  return [part.casefold() for part in _PART.findall(name)]


def _looks_like_person(name: str) -> bool:
  words = name.split()
  return 1 <= len(words) <= 4 and all(
    word[0].isupper() and word[1:].islower() and word.replace("-", "").isalpha() for word in words
  )


@functools.lru_cache(maxsize=1 << 14)
def source_info(name: str) -> SourceInfo:
  """Role, owner and default reliability of a free source name; never raises on a str.

  "role:owner" gives the owner, as in "user:ana". A name without a known word is a person,
  named by it, where it is written like a personal name ("Ana Reis"), else unknown.
  """
  head, colon, tail = name.partition(":")
  owner = " ".join(tail.casefold().split()) if colon else ""
  rows = [_KEYWORDS[part] for part in _parts(head) if part in _KEYWORDS]
  if rows:
    role, reliability, _ = _TABLE[min(rows)]
    return SourceInfo(ROLES.index(role), owner, reliability)
  if _looks_like_person(head.strip()):
    own_name = " ".join(head.casefold().split())
    return SourceInfo(ROLES.index("person"), owner or own_name, 0.7)
  return SourceInfo(ROLES.index("unknown"), owner, UNKNOWN_RELIABILITY)
