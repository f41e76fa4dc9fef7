"""Assertions: tokens that a client signs itself, to be given access tokens for them (RFC 7521, 7523; KIP-1139, KIP-1258)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ottla.base import ConfigError

__all__ = ["ALGORITHMS", "signed_assertion"]

ALGORITHMS = ("RS256", "ES256")
"""How Kafka's clients sign."""


def signed_assertion(header: Mapping[str, Any], payload: Mapping[str, Any], key: bytes, passphrase: str | None) -> str:
    """Return a signed token; `key` is PKCS 8 in PEM. Raises ConfigError, which shows nothing of the key."""
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from joserfc import jwk, jws
    from joserfc.errors import JoseError

    setting = "sasl.oauthbearer.assertion.private.key.file"
    try:
        opened = load_pem_private_key(key, passphrase.encode() if passphrase else None)
    except (ValueError, TypeError) as error:
        text = f"{setting}: it holds no private key in PEM that opens with sasl.oauthbearer.assertion.private.key.passphrase"
        raise ConfigError(setting, "[hidden]", text, text) from error
    algorithm = header["alg"]
    fits = rsa.RSAPrivateKey if algorithm == "RS256" else ec.EllipticCurvePrivateKey
    if not isinstance(opened, fits):
        text = f"{setting}: its key is not one for {algorithm}"
        raise ConfigError(setting, "[hidden]", text, text)
    made = jwk.RSAKey if isinstance(opened, rsa.RSAPrivateKey) else jwk.ECKey
    body = json.dumps(payload, separators=(",", ":")).encode()
    try:
        return jws.serialize_compact(dict(header), body, made.import_key(_plain_pem(opened)), algorithms=[algorithm])
    except (JoseError, ValueError) as error:
        text = f"{setting}: nothing can be signed with its key by {algorithm}"
        raise ConfigError(setting, "[hidden]", text, text) from error


def _plain_pem(key: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
