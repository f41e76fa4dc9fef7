"""Access tokens of an issuer as logins of one listener (OAUTHBEARER): which are good, and where the issuer's keys are.

Fails closed: without keys every token is refused, and a listener that would take tokens unsigned, of anybody or for anybody
has to say so by name. Kafka 4.3.0 checks no signature where no keys are named.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib.util import find_spec

from ottla.base import Clock, ConfigError, Offload, bring_extra
from ottla.client import IssuerKeys
from ottla.config import Value
from ottla.security import JaasEntry, Tls, TlsSettings
from ottla.security.sasl import BearerToken, Jwks, JwtRules, JwtValidator, UnsecuredValidator

__all__ = ["BearerTokens"]

log = logging.getLogger(__name__)

_PREFIX = "sasl.oauthbearer."
JWKS_URL = f"{_PREFIX}jwks.endpoint.url"
AUDIENCE, ISSUER = f"{_PREFIX}expected.audience", f"{_PREFIX}expected.issuer"
CALLBACKS = "sasl.server.callback.handler.class"
VALIDATOR_CLASS = f"{_PREFIX}jwt.validator.class"
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
_KAFKAS = "org.apache.kafka.common.security.oauthbearer."
SIGNED = tuple(f"{_KAFKAS}{each}OAuthBearerValidatorCallbackHandler" for each in ("", "secured."))
UNSIGNED = f"{_KAFKAS}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
VALIDATORS = (None, "", f"{_KAFKAS}DefaultJwtValidator", f"{_KAFKAS}BrokerJwtValidator")
ANY = "*"
"""As expected audience or issuer: any is taken."""
READ_TIMEOUT_S = 10.0
UNSECURED_OPTIONS = {
    "unsecuredValidatorPrincipalClaimName": "user_claim",
    "unsecuredValidatorScopeClaimName": "scope_claim",
}
REQUIRED_SCOPE, SKEW_MS = "unsecuredValidatorRequiredScope", "unsecuredValidatorAllowableClockSkewMs"


class BearerTokens:
    """What one listener takes for a token."""

    def __init__(
        self,
        value: Callable[[str], Value],
        entry: JaasEntry | None,
        *,
        listener: str,
        system_properties: Mapping[str, str],
        clock: Clock,
        offload: Offload,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`value` reads a key of the listener's mechanism; raises ConfigError where something cannot be honoured."""
        self._offload = offload
        self._options = {} if entry is None else entry.options
        self._issuer: IssuerKeys | None = None
        handler = value(CALLBACKS)
        if handler == UNSIGNED:
            self._validate: Callable[[str], BearerToken] = _unsecured(self._options, clock)
            log.warning("listener %s takes access tokens that nobody has signed: everybody is whom he says", listener)
            return
        if handler not in (None, "", *SIGNED):
            raise ConfigError(CALLBACKS, handler, f"must be {SIGNED[0]}, or {UNSIGNED} to take tokens unsigned")
        validator = value(VALIDATOR_CLASS)
        if validator not in VALIDATORS:
            raise ConfigError(VALIDATOR_CLASS, validator, "classes of one's own are not supported here; leave it unset")
        if find_spec("joserfc") is None:
            raise ConfigError("sasl.enabled.mechanisms", "OAUTHBEARER", f"needs joserfc: {bring_extra('security')}")
        url, read = self._reader(value, system_properties)
        whose = f"listener {listener}"
        self._issuer = issuer = IssuerKeys(_keys(value), read, url=url, key=JWKS_URL, whose=whose, loop=loop)
        self._validate = JwtValidator(_rules(value), issuer.keys, lambda: int(clock.now_ms()), issuer.time_ms)

    def validate(self, token: str) -> BearerToken:
        """Return what a token says of its bearer; raises TokenRefusedError. One of a new key has keys fetched again."""
        try:
            return self._validate(token)
        finally:
            if self._issuer is not None:
                self._issuer.plan()

    async def start(self) -> None:
        """Fetch the keys; raises ConfigError where a file has none, while an issuer may be reached later."""
        if self._issuer is not None:
            await self._issuer.start()

    def close(self) -> None:
        """Fetch no more."""
        if self._issuer is not None:
            self._issuer.close()

    # -- inside

    def _reader(
        self, value: Callable[[str], Value], system_properties: Mapping[str, str]
    ) -> tuple[str, Callable[[], Awaitable[bytes]]]:
        """Return where the configuration says the keys are, and what reads them there."""
        from ottla.security.sasl.key_reader import check_url, read_keys  # it imports Python's client of HTTP

        url = value(JWKS_URL)
        if not isinstance(url, str) or not url:
            text = f"{JWKS_URL} is not set: it names the issuer's keys, without which no token can be checked"
            raise ConfigError(JWKS_URL, "", text, text)
        allowed = tuple(each.strip() for each in system_properties.get(ALLOWED_URLS, "").split(",") if each.strip())
        check_url(url, allowed)
        context = self._context() if url.startswith("https:") else None
        reading = partial(read_keys, url, allowed, timeout_seconds=READ_TIMEOUT_S, context=context)
        return url, lambda: self._offload.thread(reading)

    def _context(self) -> ssl.SSLContext:
        """Return who has to have signed an issuer's certificate: a trust store of the JAAS options, else the system's."""
        own = {key: text for key, text in self._options.items() if key.startswith("ssl.")}
        return Tls(TlsSettings.of(own), server=False).context if own else ssl.create_default_context()


def _keys(value: Callable[[str], Value]) -> Jwks:
    refresh_ms, retry_ms, retry_max_ms = (
        _number(value(f"{_PREFIX}jwks.endpoint.{each}"))
        for each in ("refresh.ms", "retry.backoff.ms", "retry.backoff.max.ms")
    )
    return Jwks(refresh_ms=refresh_ms, retry_ms=retry_ms, retry_max_ms=retry_max_ms)


def _rules(value: Callable[[str], Value]) -> JwtRules:
    audience, issuer = value(AUDIENCE), value(ISSUER)
    assert isinstance(audience, tuple) and not isinstance(issuer, bool | int | float | tuple)
    return JwtRules(
        audience=frozenset(audience) - {ANY},
        issuer=None if issuer in (ANY, "", None) else str(issuer),
        any_audience=ANY in audience,
        any_issuer=issuer == ANY,
        skew_ms=1000 * _number(value(f"{_PREFIX}clock.skew.seconds")),
        user_claim=str(value(f"{_PREFIX}sub.claim.name")),
        scope_claim=str(value(f"{_PREFIX}scope.claim.name")),
    )


def _unsecured(options: Mapping[str, str], clock: Clock) -> UnsecuredValidator:
    """Return Kafka's validator of unsigned tokens, with its options."""
    skew = options.get(SKEW_MS, "0")
    if not skew.isascii() or not skew.isdigit():
        raise ConfigError(SKEW_MS, skew, "must be a whole number of milliseconds")
    named = {field: options[key] for key, field in UNSECURED_OPTIONS.items() if options.get(key)}
    scope = frozenset(options.get(REQUIRED_SCOPE, "").split())
    return UnsecuredValidator(lambda: int(clock.now_ms()), required_scope=scope, skew_ms=int(skew), **named)


def _number(value: Value) -> int:
    assert isinstance(value, int)
    return value
