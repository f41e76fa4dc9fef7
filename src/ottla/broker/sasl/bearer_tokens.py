"""Access tokens of an issuer as logins of one listener (OAUTHBEARER): which are good, and where the issuer's keys are.

Fails closed: without keys every token is refused, and a listener that would take tokens unsigned, of anybody or for anybody
has to say so by name. Kafka 4.3.0 checks no signature where no keys are named.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec

from ottla.base import Clock, ConfigError, Offload, OttlaError
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
    """What one listener takes for a token, and the one owner of its issuer's keys."""

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
        self._listener = listener
        self._offload = offload
        self._loop = loop
        self._options = {} if entry is None else entry.options
        self._keys: Jwks | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._reading: asyncio.Task[None] | None = None
        self._is_closed = False
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
            raise ConfigError("sasl.enabled.mechanisms", "OAUTHBEARER", "needs joserfc: pip install 'ottla[security]'")
        self._keys = _keys(value)
        self._read_keys = self._reader(value, system_properties)
        self._validate = JwtValidator(_rules(value), self._keys, lambda: int(clock.now_ms()), self._time_ms)

    def _time_ms(self) -> int:
        """Return the time that keys are kept by: no setting of clocks makes those of an issuer last longer."""
        return int(self._loop.time() * 1000)

    def validate(self, token: str) -> BearerToken:
        """Return what a token says of its bearer; raises TokenRefusedError. One of a new key has keys fetched again."""
        try:
            return self._validate(token)
        finally:
            self._plan()

    async def start(self) -> None:
        """Fetch the keys; raises ConfigError where a file has none, while an issuer may be reached later."""
        if self._keys is None:
            return
        try:
            self._keys.fetched(await self._fetched(), self._time_ms())
        except ConfigError:
            raise
        except OttlaError as error:
            if self._url.startswith("file:"):
                raise ConfigError(JWKS_URL, self._url, str(error)) from error
            self._failed(error)
        self._plan()

    def close(self) -> None:
        """Fetch no more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._reading is not None:
            self._reading.cancel()

    # -- inside

    def _reader(self, value: Callable[[str], Value], system_properties: Mapping[str, str]) -> Callable[[], bytes]:
        """Return what reads the keys where the configuration says they are; it waits, so it is for a thread."""
        from ottla.security.sasl.key_reader import check_url, read_keys  # it imports Python's client of HTTP

        url = value(JWKS_URL)
        if not isinstance(url, str) or not url:
            text = f"{JWKS_URL} is not set: it names the issuer's keys, without which no token can be checked"
            raise ConfigError(JWKS_URL, "", text, text)
        self._url = url
        allowed = tuple(each.strip() for each in system_properties.get(ALLOWED_URLS, "").split(",") if each.strip())
        check_url(url, allowed)
        context = self._context() if url.startswith("https:") else None
        return partial(read_keys, url, allowed, timeout_seconds=READ_TIMEOUT_S, context=context)

    def _context(self) -> ssl.SSLContext:
        """Return who has to have signed an issuer's certificate: a trust store of the JAAS options, else the system's."""
        own = {key: text for key, text in self._options.items() if key.startswith("ssl.")}
        return Tls(TlsSettings.of(own), server=False).context if own else ssl.create_default_context()

    def _plan(self) -> None:
        """Look at the keys again when they are due."""
        if self._keys is None or self._is_closed or self._reading is not None:
            return
        now_ms = self._time_ms()
        if self._timer is not None:
            self._timer.cancel()
        wait_s = max(0, self._keys.due_ms(now_ms) - now_ms) / 1000
        self._timer = self._loop.call_later(wait_s, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._reading = self._loop.create_task(self._read_again())

    async def _read_again(self) -> None:
        assert self._keys is not None
        try:
            data = await self._fetched()
            self._keys.fetched(data, self._time_ms())
        except OttlaError as error:
            self._failed(error)
        finally:
            self._reading = None
            self._plan()

    async def _fetched(self) -> bytes:
        """Return what stands where the keys are; raises OttlaError, counted as a failure."""
        assert self._keys is not None
        try:
            return await self._offload.thread(self._read_keys)
        except OttlaError:
            self._keys.failed(self._time_ms())
            raise

    def _failed(self, error: OttlaError) -> None:
        log.warning("listener %s has no new keys of its issuer: %s", self._listener, error)


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
