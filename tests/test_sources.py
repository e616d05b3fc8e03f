"""Free source names: role, owner and default reliability."""

import hypothesis
import hypothesis.strategies as st
import pytest

from tarl_jax.data.sources import ROLES, UNKNOWN_RELIABILITY, source_info


def role(name):
  return ROLES[source_info(name).role]


@pytest.mark.parametrize(
  ("name", "expected"),
  [
    ("user", "user"),
    ("customer", "user"),
    ("Operator", "user"),
    ("user_stated", "user"),
    ("assistant", "assistant"),
    ("helpdesk_bot", "assistant"),
    ("profile_extraction", "assistant"),
    ("agent", "agent"),
    ("plannerAgent", "agent"),
    ("agent_hypothesis", "agent"),
    ("tool", "tool"),
    ("CI", "tool"),
    ("door_sensor", "tool"),
    ("nightly log", "tool"),
    ("weather-api", "tool"),
    ("system", "system"),
    ("config_file", "system"),
    ("user_manual", "document"),
    ("town_office", "document"),
    ("Official notice", "document"),
    ("web", "web"),
    ("forum_user", "web"),
    ("anonymous", "web"),
    ("IssueComment", "web"),
    ("recall", "echo"),
    ("echo_of_user", "echo"),
    ("colleague", "person"),
    ("Ines", "person"),
    ("Ines Calvo", "person"),
    ("unknown", "unknown"),
    ("", "unknown"),
    ("zzq", "unknown"),
    ("数据", "unknown"),
  ],
)
def test_role_of_a_name(name, expected):
  assert role(name) == expected


def test_owner_comes_after_the_colon_or_is_the_person():
  assert source_info("user:Ines").owner == "ines"
  assert source_info("user:  Ines   Calvo ").owner == "ines calvo"
  assert source_info("tool:door:3").owner == "door:3"
  assert source_info("Ines Calvo").owner == "ines calvo"
  assert source_info("Ines:omar").owner == "omar"
  assert source_info("user").owner == ""
  assert role("user:ines") == "user"


def test_an_owner_does_not_change_role_or_reliability():
  plain, owned = source_info("tool"), source_info("tool:forum")
  assert (plain.role, plain.reliability) == (owned.role, owned.reliability)


def test_words_inside_words_do_not_count():
  assert role("citizen") == "unknown"  # not "ci"
  assert role("rapid") == "unknown"  # not "api"
  assert role("catalogue") == "unknown"  # not "log"


def test_reliabilities_are_ordered_as_people_would():
  def of(name):
    return source_info(name).reliability

  assert of("nothing_known") == UNKNOWN_RELIABILITY == 0.5
  assert of("user_explicit") > of("user") > of("colleague") > of("assistant")
  assert of("sensor") > of("agent") > of("agent_inference")
  assert of("manufacturer") > of("shop_page") > of("shop_comment")
  assert of("assistant") > of("echo")
  # Trusted is above 0.65 (DATA.md, sharper rule 7).
  assert min(of("user"), of("tool"), of("system"), of("document")) > 0.65
  assert max(of("web"), of("echo"), of("assistant"), of("unknown")) <= 0.65


@hypothesis.settings(derandomize=True, deadline=None)
@hypothesis.given(st.text(max_size=40))
def test_any_text_is_a_source_name(name):
  info = source_info(name)
  assert 0 <= info.role < len(ROLES)
  assert 0.0 <= info.reliability <= 1.0
  assert source_info(name) == info
