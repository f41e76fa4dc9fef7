"""How long a login holds, and when it must be, or may be, renewed on the open connection (KIP-368)."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.base import ErrorCode, KafkaError
from ottla.security.sasl.exchange import AuthenticationError, LoggedIn

__all__ = ["Session", "reauthentication_ms"]

AGAIN_MS_MIN = 1000
"""How long after a login the next may come on the same connection."""
RENEW_SHARES = (0.85, 0.95)
"""When a client renews its login, as shares of the lifetime: somewhere between, so that not all do at once."""


@dataclass(frozen=True, slots=True)
class Session:
    """A login on a connection; times are milliseconds since 1970, and steady ones of a clock that nobody sets.

    What is longer ago by either counts: set back, a clock makes no login last longer.
    """

    mechanism: str
    logged_in: LoggedIn
    began_ms: int
    lifetime_ms: int
    """What SaslAuthenticate answers: 0 where the login does not end."""
    began_steady_ms: int = 0

    @classmethod
    def begin(
        cls,
        mechanism: str,
        logged_in: LoggedIn,
        *,
        now_ms: int,
        steady_ms: int = 0,
        max_reauth_ms: int = 0,
        before: Session | None = None,
    ) -> Session:
        """Begin with the sooner of the credential's end and `connections.max.reauth.ms` (0: none).

        Raises AuthenticationError where the credential has ended, and where one who logs in again (`before`) is another.
        """
        ends = []
        if logged_in.expires_ms is not None:
            ends.append(logged_in.expires_ms - now_ms)
        if max_reauth_ms > 0:
            ends.append(max_reauth_ms)
        lifetime_ms = min(ends, default=0)
        if ends and lifetime_ms <= 0:
            raise AuthenticationError.of(mechanism, "the credential has expired", again=before is not None)
        if before is not None and before.logged_in.user != logged_in.user:
            raise AuthenticationError(
                "Cannot change principals during re-authentication from "
                f"User.{before.logged_in.user}: User.{logged_in.user}"
            )
        return cls(mechanism, logged_in, now_ms, lifetime_ms, steady_ms)

    def has_expired(self, now_ms: int, steady_ms: int = 0) -> bool:
        """True when nothing but a SaslHandshake may be asked any more."""
        return 0 < self.lifetime_ms <= self._age_ms(now_ms, steady_ms)

    def _age_ms(self, now_ms: int, steady_ms: int) -> int:
        return max(now_ms - self.began_ms, steady_ms - self.began_steady_ms)

    def check_again(self, mechanism: str, now_ms: int, steady_ms: int = 0) -> None:
        """Let a SaslHandshake on the open connection pass.

        Raises ILLEGAL_SASL_STATE where there is nothing to renew, or it comes too soon, and AuthenticationError where it
        asks for another mechanism.
        """
        if not self.lifetime_ms:
            raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, "The login does not end and cannot be renewed")
        if self._age_ms(now_ms, steady_ms) < AGAIN_MS_MIN:
            raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, f"The login is renewed within {AGAIN_MS_MIN} ms")
        if mechanism != self.mechanism:
            raise AuthenticationError(
                f"SASL mechanism '{mechanism}' requested by client is not supported for re-authentication of "
                f"mechanism '{self.mechanism}'"
            )


def reauthentication_ms(lifetime_ms: int, share: float) -> int | None:
    """Return after how long a client renews its login; `share` is random from 0 to 1. None where the login does not end."""
    if lifetime_ms <= 0:
        return None
    low, high = RENEW_SHARES
    return round(lifetime_ms * (low + (high - low) * share))
