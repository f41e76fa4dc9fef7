"""Access tokens of an issuer as logins of the registry, by Confluent's `oauthbearer.*`: which are good, and by whose keys.

The URL of the keys is taken as it stands: unlike a connector's or a client's, this properties file is the operator's own.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec

from ottla.base import ConfigError, bring_extra
from ottla.client import IssuerKeys
from ottla.security import Tls, TlsSettings
from ottla.security.sasl import Jwks, JwtRules, JwtValidator, TokenRefusedError

__all__ = ["BearerLogins", "BearerSettings", "bearer_settings"]

PREFIX = "oauthbearer."
JWKS_URL, ISSUER, AUDIENCE = (
    f"{PREFIX}{each}" for each in ("jwks.endpoint.url", "expected.issuer", "expected.audience")
)
NAME_CLAIM, SKEW = f"{PREFIX}sub.claim.name", f"{PREFIX}clock.skew.seconds"
TLS = f"{PREFIX}ssl."
ANY = "*"
"""As expected audience or issuer: any is taken."""
READ_TIMEOUT_S = 10.0
TOKEN_CHARACTERS_MAX = 20_000
_NUMBERS: Mapping[str, int] = {
    f"{PREFIX}jwks.endpoint.refresh.ms": 3_600_000,
    f"{PREFIX}jwks.endpoint.retry.backoff.ms": 100,
    f"{PREFIX}jwks.endpoint.retry.backoff.max.ms": 10_000,
    SKEW: 30,
}
"""Whole numbers, and their defaults."""


@dataclass(frozen=True)
class BearerSettings:
    """Whose tokens are taken, and where the keys are."""

    url: str
    rules: JwtRules
    refresh_ms: int = 3_600_000
    retry_ms: int = 100
    retry_max_ms: int = 10_000
    tls: Mapping[str, str] = field(default_factory=dict, repr=False)
    """`ssl.*` by which the issuer is asked; the system's authorities where there are none."""


def bearer_settings(properties: Mapping[str, str]) -> BearerSettings:
    """Read the settings; raises ConfigError for what is missing or cannot be honoured."""
    from ottla.security.sasl.key_reader import check_url  # it imports Python's client of HTTP

    if find_spec("joserfc") is None:
        raise ConfigError("authentication.method", "BEARER", f"needs joserfc: {bring_extra('security')}")
    given = {key: value.strip() for key, value in properties.items() if key.startswith(PREFIX)}
    for key, meaning in (
        (JWKS_URL, "where the issuer's keys are: https://… or file:…"),
        (ISSUER, f"who must have made tokens, or {ANY} for anybody"),
        (AUDIENCE, f"whom tokens must be made for, or {ANY} for anybody"),
    ):
        if not given.get(key):
            raise ConfigError(key, "", meaning)
    url, issuer = given[JWKS_URL], given[ISSUER]
    check_url(url, [url], key=JWKS_URL)
    audience = frozenset(each.strip() for each in given[AUDIENCE].split(",") if each.strip())
    numbers = {key: _number(key, given.get(key, ""), default) for key, default in _NUMBERS.items()}
    rules = JwtRules(
        audience=audience - {ANY},
        issuer=None if issuer == ANY else issuer,
        any_audience=ANY in audience,
        any_issuer=issuer == ANY,
        skew_ms=1000 * numbers[SKEW],
        user_claim=given.get(NAME_CLAIM) or "sub",
    )
    tls = {key.removeprefix(PREFIX): value for key, value in given.items() if key.startswith(TLS)}
    if tls:
        Tls(TlsSettings.of(dict(tls)), server=False)
    refresh_ms, retry_ms, retry_max_ms = list(numbers.values())[:3]
    return BearerSettings(url, rules, refresh_ms, retry_ms, retry_max_ms, tls)


def _number(key: str, text: str, default: int) -> int:
    if text and not re.fullmatch(r"[0-9]{1,12}", text):
        raise ConfigError(key, text, "a whole number, 0 or more")
    return int(text) if text else default


class BearerLogins:
    """Checks tokens by the issuer's keys, which it keeps fresh; begun by `start` on the running event loop."""

    def __init__(self, settings: BearerSettings) -> None:
        self._settings = settings
        self._issuer: IssuerKeys | None = None
        self._validate: JwtValidator | None = None

    async def start(self) -> None:
        """Fetch the keys; raises ConfigError where a file has none, while an issuer may be reached later."""
        settings = self._settings
        keys = Jwks(refresh_ms=settings.refresh_ms, retry_ms=settings.retry_ms, retry_max_ms=settings.retry_max_ms)
        context = self._context() if settings.url.startswith("https:") else None

        def read() -> bytes:
            from ottla.security.sasl.key_reader import read_keys

            return read_keys(
                settings.url, [settings.url], timeout_seconds=READ_TIMEOUT_S, context=context, key=JWKS_URL
            )

        self._issuer = issuer = IssuerKeys(
            keys,
            lambda: asyncio.to_thread(read),
            url=settings.url,
            key=JWKS_URL,
            whose="the registry",
            loop=asyncio.get_running_loop(),
        )
        self._validate = JwtValidator(settings.rules, keys, lambda: time.time_ns() // 1_000_000, issuer.time_ms)
        await issuer.start()

    def _context(self) -> ssl.SSLContext:
        own = self._settings.tls
        return Tls(TlsSettings.of(dict(own)), server=False).context if own else ssl.create_default_context()

    def close(self) -> None:
        """Fetch no more."""
        if self._issuer is not None:
            self._issuer.close()

    def user(self, token: str) -> str | None:
        """Return whose token it is, None for one that is worth nothing."""
        if self._validate is None or self._issuer is None or len(token) > TOKEN_CHARACTERS_MAX:
            return None
        try:
            return self._validate(token).user
        except TokenRefusedError:
            return None
        finally:
            self._issuer.plan()
