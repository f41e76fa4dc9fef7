"""The account of who holds a group's partitions."""

from __future__ import annotations

import pytest

from tests.sim.consumers import Holdings
from tests.sim.ledger import Violation

TOPIC_ID = b"a topic"


def took(holdings: Holdings, name: str, *indexes: int, now_s: float, until_s: float) -> None:
    holdings.took(name, {TOPIC_ID: set(indexes)}, losses=0, now_s=now_s, until_s=until_s)


def test_two_members_that_hold_one_partition_are_found() -> None:
    holdings = Holdings("g")
    took(holdings, "a", 0, 1, now_s=1.0, until_s=3.0)
    with pytest.raises(Violation, match="b was given 1, which a holds"):
        took(holdings, "b", 1, now_s=2.9, until_s=4.0)


def test_a_member_whose_session_may_have_ended_holds_nothing() -> None:
    holdings = Holdings("g")
    took(holdings, "a", 0, now_s=1.0, until_s=3.0)
    took(holdings, "b", 0, now_s=3.0, until_s=5.0)


def test_an_answer_that_comes_after_its_session_gives_nothing_and_takes_nothing() -> None:
    """The assignment waited for its commit; meanwhile the session ended, and another member was given the partition."""
    holdings = Holdings("g")
    took(holdings, "a", 0, now_s=5.4, until_s=7.4)
    took(holdings, "b", 0, now_s=5.5, until_s=5.0)
    with pytest.raises(Violation, match="c was given 0, which a holds"):
        took(holdings, "c", 0, now_s=5.6, until_s=7.6)
