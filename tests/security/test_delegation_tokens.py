"""Delegation tokens: their times, who may change them, and logging in with one."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace

import pytest

from ottla.base import ErrorCode, KafkaError
from ottla.security.delegation_tokens import (
    DelegationTokens,
    TokenInfo,
    TokenLimits,
    new_token,
    renewed_token,
    shortened_token,
)
from ottla.security.sasl import AuthenticationError, LoggedIn, ScramClient, ScramServer
from ottla.security.scram_credentials import ScramMechanism
from ottla.wire.messages.delegation_token_record import DelegationTokenRecord

LIMITS = TokenLimits(lifetime_ms=1000, expiry_ms=100)
NOW = 5000
TOKEN = TokenInfo("id", "User:ann", "User:requester", ("User:bob",), NOW, NOW + 1000, NOW + 100)


def token(lifetime_ms: int = -1, renewers: tuple[str, ...] = ()) -> TokenInfo:
    return new_token(
        "id",
        owner="User:ann",
        requester="User:ann",
        renewers=renewers,
        lifetime_ms=lifetime_ms,
        limits=LIMITS,
        now_ms=NOW,
    )


@pytest.mark.parametrize(
    ("lifetime_ms", "max_ms", "expiry_ms"),
    [(-1, 1000, 100), (0, 1000, 100), (50, 50, 50), (500, 500, 100), (5000, 1000, 100), (1 << 62, 1000, 100)],
)
def test_a_token_lives_as_long_as_was_asked_and_is_allowed(lifetime_ms: int, max_ms: int, expiry_ms: int) -> None:
    made = token(lifetime_ms)
    assert (made.max_timestamp, made.expiration_timestamp) == (NOW + max_ms, NOW + expiry_ms)


def test_only_users_renew() -> None:
    assert token(renewers=("User:bob",)).renewers == ("User:bob",)
    with pytest.raises(KafkaError) as refused:
        token(renewers=("User:bob", "Group:x"))
    assert refused.value.code is ErrorCode.INVALID_PRINCIPAL_TYPE


@pytest.mark.parametrize(("period_ms", "end_ms"), [(-1, 150), (0, 150), (20, 70), (1 << 62, 150)])
@pytest.mark.parametrize("by", ["User:ann", "User:bob", "User:requester"])
def test_who_has_to_do_with_a_token_renews_it(by: str, period_ms: int, end_ms: int) -> None:
    renewed = renewed_token(TOKEN, by=by, period_ms=period_ms, limits=LIMITS, now_ms=NOW + 50)
    assert renewed.expiration_timestamp == NOW + end_ms


def test_a_token_is_never_renewed_beyond_its_life() -> None:
    late = replace(TOKEN, expiration_timestamp=NOW + 990)
    assert (
        renewed_token(late, by="User:ann", period_ms=0, limits=LIMITS, now_ms=NOW + 980).expiration_timestamp
        == NOW + 1000
    )
    shortened = shortened_token(late, by="User:ann", period_ms=1 << 62, now_ms=NOW)
    assert shortened is not None and shortened.expiration_timestamp == NOW + 1000


@pytest.mark.parametrize(
    ("found", "by", "now_ms", "renewing", "expiring"),
    [
        (None, "User:ann", NOW, ErrorCode.DELEGATION_TOKEN_NOT_FOUND, ErrorCode.DELEGATION_TOKEN_NOT_FOUND),
        (TOKEN, "User:eve", NOW, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        (TOKEN, "User:ann", NOW + 101, ErrorCode.DELEGATION_TOKEN_EXPIRED, ErrorCode.DELEGATION_TOKEN_EXPIRED),
        (TOKEN, "User:eve", NOW + 101, ErrorCode.DELEGATION_TOKEN_EXPIRED, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
    ],
)
def test_what_may_not_be_changed_is_refused_as_in_kafka(
    found: TokenInfo | None, by: str, now_ms: int, renewing: ErrorCode, expiring: ErrorCode
) -> None:
    with pytest.raises(KafkaError) as refused:
        renewed_token(found, by=by, period_ms=0, limits=LIMITS, now_ms=now_ms)
    assert refused.value.code is renewing
    with pytest.raises(KafkaError) as refused:
        shortened_token(found, by=by, period_ms=0, now_ms=now_ms)
    assert refused.value.code is expiring


def test_a_token_goes_at_once_for_a_period_below_nothing_even_when_it_has_expired() -> None:
    assert shortened_token(TOKEN, by="User:bob", period_ms=-1, now_ms=NOW + 5000) is None
    with pytest.raises(KafkaError):
        shortened_token(TOKEN, by="User:eve", period_ms=-1, now_ms=NOW)


def test_a_record_becomes_a_token() -> None:
    record = DelegationTokenRecord(
        owner="User:ann",
        requester="User:requester",
        renewers=["User:bob"],
        issue_timestamp=NOW,
        max_timestamp=NOW + 1000,
        expiration_timestamp=NOW + 100,
        token_id="id",
    )
    assert TokenInfo.of(record.token_id, record, tuple(record.renewers)) == TOKEN


def test_tokens_are_found_by_their_hmac_until_they_go() -> None:
    tokens = DelegationTokens("secret")
    tokens.load({"id": TOKEN, "other": replace(TOKEN, token_id="other", expiration_timestamp=NOW + 500)})
    assert tokens.by_hmac(tokens.hmac_of("id")) == TOKEN and tokens.by_hmac(b"x") is None
    assert [each.token_id for each in tokens.expired(NOW + 200)] == ["id"]
    tokens.put(replace(TOKEN, expiration_timestamp=NOW + 300))
    assert not tokens.expired(NOW + 200) and len(tokens) == 2
    tokens.remove("id")
    tokens.remove("id")
    assert tokens.by_hmac(tokens.hmac_of("id")) is None and len(tokens) == 1
    assert DelegationTokens("other secret").hmac_of("id") != tokens.hmac_of("id")


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
def test_whoever_has_the_hmac_logs_in_as_the_owner_until_the_token_expires(mechanism: ScramMechanism) -> None:
    tokens = DelegationTokens("secret")
    tokens.put(TOKEN)
    password = b64encode(tokens.hmac_of("id")).decode()

    def log_in(now_ms: int, password: str = password) -> LoggedIn | None:
        server = ScramServer(
            mechanism,
            lambda user, by_token: tokens.login(mechanism, user, now_ms) if by_token else None,
            nonce="server",
            decoy_key=b"k",
        )
        client = ScramClient(mechanism, user="id", password=password, nonce="client", by_token=True)
        final = client.respond(server.respond(client.start()))
        assert final is not None
        client.respond(server.respond(final))
        return server.logged_in

    assert log_in(NOW) == log_in(NOW) == LoggedIn("ann", NOW + 100, token_authenticated=True)
    for now_ms, given in ((NOW + 101, password), (NOW, "wrong")):
        with pytest.raises(AuthenticationError):
            log_in(now_ms, given)
    tokens.remove("id")
    with pytest.raises(AuthenticationError):
        log_in(NOW)
