"""Which access tokens are good: signed ones (JWT, RFC 7519, 9068) by an issuer's keys, unsecured ones for trying things.

Everything fails closed: an algorithm that is not asymmetric, a key that is not there, a claim that is missing or of another
kind. Tokens stand in no message.
"""

from __future__ import annotations

import json
import math
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.base import ConfigError
from ottla.security.sasl.jwks import Jwks, algorithms_of
from ottla.security.sasl.oauthbearer import BearerToken, TokenRefusedError

__all__ = ["JwtRules", "JwtValidator", "UnsecuredValidator", "unsecured_token"]

USER_CHARACTERS_MAX = 1024
_PREFIX = "sasl.oauthbearer."


@dataclass(frozen=True, slots=True)
class JwtRules:
    """What a token must say, under the names of `sasl.oauthbearer.*`.

    A token that the same issuer made for somebody else's service is good only where that was asked for: without an expected
    audience or issuer it raises ConfigError, unless any is explicitly taken. Kafka takes any silently.
    """

    audience: frozenset[str] = frozenset()
    issuer: str | None = None
    any_audience: bool = False
    any_issuer: bool = False
    skew_ms: int = 30_000
    user_claim: str = "sub"
    scope_claim: str = "scope"

    def __post_init__(self) -> None:
        if not self.audience and not self.any_audience:
            raise ConfigError(f"{_PREFIX}expected.audience", "", "name whom tokens must be made for")
        if self.issuer is None and not self.any_issuer:
            raise ConfigError(f"{_PREFIX}expected.issuer", "", "name who must have made tokens")
        if self.skew_ms < 0:
            raise ConfigError(f"{_PREFIX}clock.skew.seconds", self.skew_ms // 1000, "must be 0 or more")


class JwtValidator:
    """Checks signed tokens; `now_ms` gives milliseconds since 1970."""

    def __init__(
        self, rules: JwtRules, keys: Jwks, now_ms: Callable[[], int], keys_ms: Callable[[], int] | None = None
    ) -> None:
        """`keys_ms`, where it is another, is the clock that the keys are kept by."""
        self._keys_ms = now_ms if keys_ms is None else keys_ms
        self._rules = rules
        self._keys = keys
        self._now_ms = now_ms

    def __call__(self, token: str) -> BearerToken:
        """Return what a token says of its bearer; raises TokenRefusedError."""
        now_ms = self._now_ms()
        header = _json(_parts(token)[0], "header")
        kid = header.get("kid")
        if kid is not None and not isinstance(kid, str):
            raise TokenRefusedError("the token's kid is no text")
        if "crit" in header or "b64" in header:
            raise TokenRefusedError("the token's header has extensions that are not known here")
        key = self._keys.key(kid, self._keys_ms())
        if key is None:
            raise TokenRefusedError("the token names no key of the JWKS")
        if header.get("alg") not in algorithms_of(key):
            raise TokenRefusedError("the token is not signed in a way that its key allows")
        return _bearer(_payload(token, key), self._rules, now_ms)


def _payload(token: str, key: Any) -> dict[str, Any]:
    from joserfc import jws
    from joserfc.errors import JoseError

    try:
        signed = jws.deserialize_compact(token, key, algorithms=list(algorithms_of(key)))
    except (JoseError, ValueError, TypeError) as error:
        raise TokenRefusedError(f"the token's signature is not good: {type(error).__name__}") from error
    return _object(signed.payload, "payload")


def _bearer(claims: Mapping[str, Any], rules: JwtRules, now_ms: int) -> BearerToken:
    expires_ms = _time_ms(claims, "exp")
    issued_ms = _time_ms(claims, "iat")
    if now_ms >= expires_ms + rules.skew_ms:
        raise TokenRefusedError("the token has expired")
    if "nbf" in claims and now_ms + rules.skew_ms < _time_ms(claims, "nbf"):
        raise TokenRefusedError("the token is not valid yet")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise TokenRefusedError("the token is another issuer's")
    if rules.audience and not rules.audience & set(_texts(claims.get("aud", []), "aud")):
        raise TokenRefusedError("the token is for another audience")
    scope = claims.get(rules.scope_claim, [])
    scopes = scope.split() if isinstance(scope, str) else _texts(scope, rules.scope_claim)
    return BearerToken(_user(claims, rules.user_claim), expires_ms, frozenset(scopes), issued_ms)


def _user(claims: Mapping[str, Any], claim: str) -> str:
    user = claims.get(claim)
    if not isinstance(user, str) or not user.strip() or len(user) > USER_CHARACTERS_MAX or not user.isprintable():
        raise TokenRefusedError(f"the token's {claim} is no name")
    return user


def _time_ms(claims: Mapping[str, Any], claim: str) -> int:
    value = claims.get(claim)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TokenRefusedError(f"the token's {claim} is no time")
    if not 0 <= value < 1 << 53:
        raise TokenRefusedError(f"the token's {claim} is out of all bounds")
    return int(value * 1000)


def _texts(value: object, claim: str) -> list[str]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise TokenRefusedError(f"the token's {claim} is neither a text nor a list of them")
    return listed


@dataclass(frozen=True, slots=True)
class UnsecuredValidator:
    """Checks tokens that nobody signed: whoever can connect is whoever he says. Only by Kafka's handler for it, by name."""

    now_ms: Callable[[], int]
    user_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: frozenset[str] = frozenset()
    skew_ms: int = 0

    def __call__(self, token: str) -> BearerToken:
        """Return what a token says of its bearer; raises TokenRefusedError."""
        header, payload, signature = _parts(token)
        if _json(header, "header").get("alg") != "none" or signature:
            raise TokenRefusedError("the token is not an unsecured one")
        claims = {"iat": 0, **_json(payload, "payload")}
        rules = JwtRules(
            any_audience=True,
            any_issuer=True,
            skew_ms=self.skew_ms,
            user_claim=self.user_claim,
            scope_claim=self.scope_claim,
        )
        found = _bearer(claims, rules, self.now_ms())
        if not self.required_scope <= found.scope:
            raise TokenRefusedError("the token lacks a scope", "insufficient_scope")
        return found


def unsecured_token(user: str, *, issued_ms: int, lifetime_ms: int = 3_600_000, scope: Iterable[str] = ()) -> str:
    """Return a token that nobody signs, as Kafka's OAuthBearerUnsecuredLoginCallbackHandler makes them."""
    claims = {"sub": user, "iat": issued_ms / 1000, "exp": (issued_ms + lifetime_ms) / 1000, "scope": list(scope)}
    parts = (json.dumps(each, separators=(",", ":")).encode() for each in ({"alg": "none"}, claims))
    return ".".join(urlsafe_b64encode(each).rstrip(b"=").decode() for each in parts) + "."


def _parts(token: str) -> tuple[str, str, str]:
    parts = token.split(".")
    if len(parts) != 3:
        raise TokenRefusedError("the token has not three parts")
    return parts[0], parts[1], parts[2]


def _json(part: str, what: str) -> dict[str, Any]:
    try:
        data = urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except (Base64Error, ValueError) as error:
        raise TokenRefusedError(f"the token's {what} is not base64") from error
    return _object(data, what)


def _object(data: bytes, what: str) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise TokenRefusedError(f"the token's {what} is not JSON") from error
    if not isinstance(value, dict):
        raise TokenRefusedError(f"the token's {what} is no object")
    return value
