"""A connection's way to its login: what may come when, and what closes it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base import ErrorCode, KafkaError
from ottla.security.sasl import AuthenticationError, LoginGate, LoginStep, PlainServer, PlainUsers
from ottla.wire import ApiKey

USERS = PlainUsers({"ann": "x", "bob": "y"})
ANN, BOB = b"\0ann\0x", b"\0bob\0y"
HANDSHAKE, VERSIONS, AUTHENTICATE = int(ApiKey.SASL_HANDSHAKE), int(ApiKey.API_VERSIONS), int(ApiKey.SASL_AUTHENTICATE)
ALL = [int(each) for each in ApiKey]


def gate(max_reauth_ms: Mapping[str, int] | None = None) -> LoginGate:
    exchanges = {"PLAIN": lambda: PlainServer(USERS.accepts), "OTHER": lambda: PlainServer(USERS.accepts)}
    return LoginGate(exchanges, max_reauth_ms=max_reauth_ms)


def opened(max_reauth_ms: int = 0) -> LoginGate:
    found = gate({"PLAIN": max_reauth_ms})
    found.handshake("PLAIN", 1, 0)
    assert found.respond(ANN, 0) == (b"", max_reauth_ms)
    return found


def admitted(found: LoginGate, now_ms: int = 0) -> set[int]:
    return {each for each in ALL if found.admits(each, now_ms)}


def test_each_step_admits_what_belongs_to_it_and_nothing_else() -> None:
    found = gate()
    assert admitted(found) == {VERSIONS, HANDSHAKE}
    found.versions_answered()
    assert admitted(found) == {HANDSHAKE}
    found.handshake("PLAIN", 1, 0)
    assert admitted(found) == {AUTHENTICATE}
    assert found.respond(ANN, 0) == (b"", 0)
    assert admitted(found) == set(ALL) and found.session is not None and found.session.logged_in.user == "ann"


def test_a_version_of_api_versions_that_was_refused_may_be_asked_again() -> None:
    found = gate()
    assert found.admits(VERSIONS, 0) and found.admits(VERSIONS, 0)


def test_after_a_handshake_of_version_0_tokens_come_bare() -> None:
    found = gate()
    found.handshake("PLAIN", 0, 0)
    assert (found.step, admitted(found)) == (LoginStep.BARE_TOKENS, set())
    found.respond(ANN, 0)
    assert found.step is LoginStep.OPEN


def test_an_unknown_mechanism_closes_the_connection() -> None:
    found = gate()
    with pytest.raises(KafkaError, match="SASL mechanism 'X' requested by client is not supported") as refused:
        found.handshake("X", 1, 0)
    assert refused.value.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM and admitted(found) == set()


def test_a_failed_login_closes_the_connection() -> None:
    found = gate()
    found.handshake("PLAIN", 1, 0)
    with pytest.raises(AuthenticationError):
        found.respond(b"\0ann\0wrong", 0)
    assert found.step is LoginStep.CLOSED and admitted(found) == set() and found.session is None
    for again in (lambda: found.respond(ANN, 0), lambda: found.handshake("PLAIN", 1, 0)):
        with pytest.raises(KafkaError):
            again()
    assert found.session is None


def test_a_second_handshake_before_a_token_closes_the_connection() -> None:
    found = gate()
    found.handshake("PLAIN", 1, 0)
    with pytest.raises(KafkaError) as refused:
        found.handshake("PLAIN", 1, 0)
    assert refused.value.code is ErrorCode.ILLEGAL_SASL_STATE and found.step is LoginStep.CLOSED


def test_a_token_without_a_handshake_is_refused_and_changes_nothing() -> None:
    for found in (gate(), opened()):
        before = (found.step, found.session)
        with pytest.raises(KafkaError) as refused:
            found.respond(BOB, 0)
        assert refused.value.code is ErrorCode.ILLEGAL_SASL_STATE and (found.step, found.session) == before


def test_a_login_is_renewed_on_the_open_connection() -> None:
    found = opened(5000)
    found.handshake("PLAIN", 1, 4000)
    assert admitted(found, 4000) == {AUTHENTICATE}
    assert found.respond(ANN, 4000) == (b"", 5000)
    assert found.session is not None and found.session.began_ms == 4000 and admitted(found, 8999) == set(ALL)


def test_an_expired_login_admits_nothing_but_its_renewal() -> None:
    found = opened(5000)
    assert admitted(found, 5000) == {HANDSHAKE}
    found.handshake("PLAIN", 1, 6000)
    found.respond(ANN, 6000)
    assert admitted(found, 6000) == set(ALL)


@pytest.mark.parametrize(("mechanism", "token"), [("PLAIN", BOB), ("PLAIN", b"\0ann\0wrong"), ("OTHER", ANN)])
def test_who_renews_as_another_or_otherwise_is_closed(mechanism: str, token: bytes) -> None:
    found = opened(5000)
    with pytest.raises(AuthenticationError):
        found.handshake(mechanism, 1, 2000)
        found.respond(token, 2000)
    assert admitted(found, 2000) == set()


@pytest.mark.parametrize(
    ("found", "version", "now_ms"), [(opened(), 1, 9000), (opened(5000), 1, 999), (opened(5000), 0, 2000)]
)
def test_a_renewal_that_is_not_due_is_refused_and_the_connection_stays(
    found: LoginGate, version: int, now_ms: int
) -> None:
    with pytest.raises(KafkaError) as refused:
        found.handshake("PLAIN", version, now_ms)
    assert refused.value.code is ErrorCode.ILLEGAL_SASL_STATE and found.step is LoginStep.OPEN


STEPS = st.one_of(
    st.tuples(st.just("handshake"), st.sampled_from(["PLAIN", "OTHER", "X"]), st.integers(0, 2)),
    st.tuples(st.just("token"), st.sampled_from([ANN, BOB, b"", b"\0ann\0wrong"]), st.just(0)),
    st.tuples(st.just("versions"), st.just(""), st.just(0)),
)


@given(st.lists(st.tuples(STEPS, st.integers(0, 3000)), max_size=12), st.sampled_from([0, 2000]))
def test_no_order_of_steps_opens_a_connection_but_a_good_token_after_a_handshake(
    steps: list[tuple[tuple[str, str | bytes, int], int]], max_reauth_ms: int
) -> None:
    found = gate({"PLAIN": max_reauth_ms, "OTHER": max_reauth_ms})
    now_ms, users = 0, []
    for (kind, what, version), later_ms in steps:
        now_ms += later_ms
        due = found.step in (LoginStep.TOKENS, LoginStep.BARE_TOKENS)
        was_closed = found.step is LoginStep.CLOSED
        try:
            if isinstance(what, bytes):
                found.respond(what, now_ms)
                assert due and what in (ANN, BOB)
                users.append(what)
            elif kind == "handshake":
                found.handshake(what, version, now_ms)
                assert what != "X"
            else:
                found.versions_answered()
        except KafkaError:
            pass
        assert not was_closed or found.step is LoginStep.CLOSED
        assert (found.session is not None) == bool(users)
    assert len(set(users)) <= 1
