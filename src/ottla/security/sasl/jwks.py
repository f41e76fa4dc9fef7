"""The keys by which tokens are checked, as their issuer publishes them (JWKS, RFC 7517), and when to fetch them again.

It fetches nothing itself: whoever runs it looks at `due_ms`, fetches, and hands over what came, or that nothing came. Until
keys have come, and for keys that are not there, every token is refused.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from ottla.base import ConfigError, OttlaError, bring_extra

if TYPE_CHECKING:
    from joserfc.jwk import ECKey, OKPKey, RSAKey

    SigningKey = RSAKey | ECKey | OKPKey

__all__ = ["Jwks", "JwksError", "algorithms_of"]

KEYS_MAX = 256
KID_CHARACTERS_MAX = 1000
"""Kafka looks for no key with a longer name."""
MISSING_MAX = 16
MISSING_MS = 60_000
"""How many names of keys that were not there are remembered, and how long: none of them is fetched for again."""
RSA_BITS_MIN = 2048
_OF_CURVE = {
    "P-256": ("ES256",),
    "P-384": ("ES384",),
    "P-521": ("ES512",),
    "Ed25519": ("Ed25519", "EdDSA"),  # RFC 9864 and the name before it
    "Ed448": ("Ed448", "EdDSA"),
}
_OF_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")


class JwksError(OttlaError):
    """What was fetched is no set of keys."""


class Jwks:
    """The one owner of an issuer's keys; times are milliseconds of any clock."""

    def __init__(self, *, refresh_ms: int = 3_600_000, retry_ms: int = 100, retry_max_ms: int = 10_000) -> None:
        self._refresh_ms = refresh_ms
        self._retry_ms = retry_ms
        self._retry_max_ms = retry_max_ms
        self._failures = 0
        self._keys: dict[str, SigningKey] = {}
        self._missing: OrderedDict[str, int] = OrderedDict()
        self._due_ms: int | None = None
        self._not_before_ms = 0

    def __len__(self) -> int:
        return len(self._keys)

    def due_ms(self, now_ms: int) -> int:
        """Return when the keys are to be fetched (again): now, where none have been."""
        return now_ms if self._due_ms is None else max(self._due_ms, self._not_before_ms)

    def fetched(self, data: bytes, now_ms: int) -> None:
        """Take over a set of keys in place of those before; raises JwksError, counted as a failure, and keeps those."""
        try:
            self._keys = _keys(data)
        except JwksError:
            self.failed(now_ms)
            raise
        self._failures = 0
        self._due_ms = now_ms + self._refresh_ms
        self._not_before_ms = now_ms + self._retry_ms

    def failed(self, now_ms: int) -> None:
        """Wait twice as long as after the failure before it, up to a bound."""
        wait_ms = min(self._retry_ms << min(self._failures, 30), self._retry_max_ms)
        self._failures += 1
        self._due_ms = self._not_before_ms = now_ms + wait_ms

    def key(self, kid: str | None, now_ms: int) -> SigningKey | None:
        """Return a key by name; without a name the only one. One that is not there makes a fetch due, once a while."""
        if kid is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        found = self._keys.get(kid)
        if found is None and len(kid) <= KID_CHARACTERS_MAX:
            self._miss(kid, now_ms)
        return found

    def _miss(self, kid: str, now_ms: int) -> None:
        asked_ms = self._missing.get(kid)
        if asked_ms is not None and now_ms - asked_ms < MISSING_MS:
            return
        self._missing[kid] = now_ms
        self._missing.move_to_end(kid)
        if len(self._missing) > MISSING_MAX:
            self._missing.popitem(last=False)
        if self._due_ms is not None:
            self._due_ms = min(self._due_ms, now_ms)


def algorithms_of(key: SigningKey) -> tuple[str, ...]:
    """Return by which algorithms a key signs: never a symmetric one, whatever a token says."""
    said = key.get("alg")
    possible = _OF_RSA if key.key_type == "RSA" else _OF_CURVE.get(str(key.get("crv")), ())
    return possible if said is None else tuple(each for each in possible if each == said)


def _keys(data: bytes) -> dict[str, SigningKey]:
    try:
        listed = json.loads(data)["keys"]
        entries = [dict(each) for each in listed]
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise JwksError("what was fetched is no JWKS: it has no list `keys`") from error
    if len(entries) > KEYS_MAX:
        raise JwksError(f"the JWKS has {len(entries)} keys, more than {KEYS_MAX}")
    found = {}
    for at, entry in enumerate(entries):
        key = _key(entry)
        if key is not None:
            found[str(entry.get("kid", f"\0{at}"))] = key
    if not found:
        raise JwksError("the JWKS has no key that could check a signature")
    return found


def _key(entry: dict[str, object]) -> SigningKey | None:
    """Return a key that checks signatures, or None for any other."""
    jwk = _joserfc_jwk()
    from cryptography.exceptions import UnsupportedAlgorithm
    from joserfc.errors import JoseError

    if entry.get("kty") not in ("RSA", "EC", "OKP") or entry.get("use", "sig") != "sig":
        return None
    try:
        key: SigningKey = jwk.import_key(entry)
        usable = not _is_weak(key) and algorithms_of(key)
    except (JoseError, ValueError, TypeError, LookupError, UnsupportedAlgorithm):
        return None
    return key if usable else None


def _is_weak(key: SigningKey) -> bool:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    return isinstance(key.public_key, RSAPublicKey) and key.public_key.key_size < RSA_BITS_MIN


def _joserfc_jwk() -> Any:
    try:
        from joserfc import jwk
    except ImportError as error:
        raise ConfigError(
            "sasl.enabled.mechanisms", "OAUTHBEARER", f"needs joserfc: {bring_extra('security')}"
        ) from error
    return jwk
