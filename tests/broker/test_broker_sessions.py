"""Brokers' sessions, as the active controller keeps them."""

from __future__ import annotations

from ottla.base import NodeId
from ottla.broker.controller.broker_sessions import BrokerSessions

A, B = NodeId(1), NodeId(2)


def test_a_new_controller_gives_everyone_a_whole_session() -> None:
    sessions = BrokerSessions(9.0)
    sessions.begin([(A, 10), (B, 20)], 100.0)
    assert sessions.next_end == 109.0 and not sessions.ended(108.9)
    assert sessions.unheard() == [A, B]
    sessions.heard(A, 10, 105.0, channel="a")
    assert sessions.unheard() == [B]
    assert sessions.ended(109.0) == [B]
    sessions.forget(B)
    assert sessions.next_end == 114.0 and sessions.ended(200.0) == [A]


def test_whose_connection_is_closed_is_not_lively_until_heard_again() -> None:
    sessions = BrokerSessions(9.0)
    sessions.heard(A, 10, 0.0, channel="first")
    sessions.heard(A, 10, 2.0, channel="second")
    assert sessions.disconnected("first") is None, "it has another by now"
    assert sessions.is_lively(A, 10, 3.0) and not sessions.is_lively(A, 11, 3.0)
    assert not sessions.is_lively(A, 10, 11.0), "its session is over"
    assert sessions.disconnected("second") == A
    assert not sessions.is_lively(A, 10, 3.0)
    sessions.heard(A, 10, 3.0, channel="third")
    assert sessions.is_lively(A, 10, 3.0)


def test_who_asks_for_metadata_lives_though_its_heartbeats_connection_is_closed() -> None:
    sessions = BrokerSessions(9.0)
    sessions.heard(A, 10, 0.0, channel="beats")
    sessions.fetches(A, "old")
    sessions.fetches(A, "fetches")
    assert sessions.disconnected("old") is None
    assert sessions.disconnected("beats") == A and sessions.is_fetching(A)
    assert sessions.disconnected("fetches") == A and not sessions.is_fetching(A), "each is a reason to look"


def test_a_new_epoch_begins_anew() -> None:
    sessions = BrokerSessions(9.0)
    sessions.heard(A, 10, 0.0, channel="a", metadata_offset=50).leaves_after = 60
    again = sessions.heard(A, 30, 1.0, channel="b", metadata_offset=40)
    assert again.leaves_after is None and again.metadata_offset == 40
    assert sessions.get(A, 10) is None and sessions.get(A, 30) is again
    assert sessions.heard(A, 30, 2.0, channel="b", metadata_offset=30).metadata_offset == 40
