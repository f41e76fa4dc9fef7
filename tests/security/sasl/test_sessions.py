"""How long a login holds and when it may be renewed (KIP-368)."""

from __future__ import annotations

import pytest

from ottla.base import ErrorCode, KafkaError
from ottla.security.sasl import AuthenticationError, LoggedIn, Session, reauthentication_ms

ANN = LoggedIn("ann")


def session(expires_ms: int | None = None, max_reauth_ms: int = 0) -> Session:
    return Session.begin("PLAIN", LoggedIn("ann", expires_ms), now_ms=1000, max_reauth_ms=max_reauth_ms)


@pytest.mark.parametrize(
    ("expires_ms", "max_reauth_ms", "lifetime_ms"),
    [(None, 0, 0), (None, 500, 500), (1700, 0, 700), (1700, 500, 500), (1200, 500, 200)],
)
def test_a_login_lasts_as_long_as_the_shorter_of_both_bounds(
    expires_ms: int | None, max_reauth_ms: int, lifetime_ms: int
) -> None:
    found = session(expires_ms, max_reauth_ms)
    assert found.lifetime_ms == lifetime_ms
    assert not found.has_expired(1000)
    assert found.has_expired(1000 + lifetime_ms) is (lifetime_ms > 0)


@pytest.mark.parametrize("max_reauth_ms", [0, 500])
def test_a_credential_that_has_ended_logs_nobody_in(max_reauth_ms: int) -> None:
    with pytest.raises(AuthenticationError):
        session(1000, max_reauth_ms)


def test_a_login_is_renewed_by_the_same_principal_and_mechanism_only() -> None:
    first = session(None, 5000)
    with pytest.raises(AuthenticationError, match=r"Cannot change principals .* from User\.ann: User\.bob"):
        Session.begin("PLAIN", LoggedIn("bob"), now_ms=3000, max_reauth_ms=5000, before=first)
    with pytest.raises(
        AuthenticationError, match="SASL mechanism 'X' requested by client is not supported for re-auth"
    ):
        first.check_again("X", 3000)
    first.check_again("PLAIN", 3000)
    assert Session.begin("PLAIN", ANN, now_ms=3000, max_reauth_ms=5000, before=first).has_expired(8000)


@pytest.mark.parametrize(("found", "now_ms"), [(session(), 9000), (session(None, 5000), 1999)])
def test_a_login_that_does_not_end_or_has_just_begun_is_not_renewed(found: Session, now_ms: int) -> None:
    with pytest.raises(KafkaError) as refused:
        found.check_again("PLAIN", now_ms)
    assert refused.value.code is ErrorCode.ILLEGAL_SASL_STATE


def test_a_client_renews_between_85_and_95_percent_of_its_lifetime() -> None:
    assert [reauthentication_ms(1000, share) for share in (0.0, 0.5, 1.0)] == [850, 900, 950]
    assert reauthentication_ms(0, 0.5) is None
