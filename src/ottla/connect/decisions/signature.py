"""Signed requests between workers (KIP-507): an HMAC of the body under the session key of the configuration topic."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from ottla.connect.errors import BadRequestError, ConnectError
from ottla.connect.storage import SessionKey

__all__ = ["ALGORITHMS", "ForbiddenError", "Signature", "UnavailableError", "check_signature", "sign", "signature_of"]

ALGORITHMS = {f"HmacSHA{bits}": f"sha{bits}" for bits in (1, 224, 256, 384, 512)}
"""Java's names of MAC algorithms, and Python's of their digests."""


class ForbiddenError(ConnectError):
    """What is asked is not allowed here: HTTP 403."""


class UnavailableError(ConnectError):
    """The worker has not started far enough: HTTP 503."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What a request's headers say."""

    algorithm: str
    mac: bytes


def sign(body: bytes, session: SessionKey) -> Signature:
    """Return the signature of a body."""
    return Signature(session.algorithm, hmac.digest(session.key, body, ALGORITHMS[session.algorithm]))


def signature_of(authorization: str | None, algorithm: str | None) -> Signature | None:
    """Return what the headers `X-Connect-Authorization` and `X-Connect-Request-Signature-Algorithm` say."""
    if authorization is None or algorithm is None:
        return None
    if algorithm not in ALGORITHMS:
        raise BadRequestError(f"Algorithm {algorithm} not available")
    try:
        return Signature(algorithm, base64.b64decode(authorization, validate=True))
    except binascii.Error as error:
        raise BadRequestError("The signature of the request is not Base64") from error


def check_signature(
    found: Signature | None, body: bytes, session: SessionKey | None, *, accepted: Sequence[str] = ("HmacSHA256",)
) -> None:
    """Raise where a request does not come from a worker that knows the session key."""
    if found is None:
        raise BadRequestError("Internal request missing required signature")
    if found.algorithm not in accepted:
        raise BadRequestError(
            f"This worker does not support the '{found.algorithm}' key signing algorithm used by other workers. This worker "
            f"is currently configured to use: [{', '.join(accepted)}]. Check that all workers' configuration files permit "
            "the same set of signature algorithms, and correct any misconfigured worker and restart it."
        )
    if session is None:
        raise UnavailableError(
            "This worker is still starting up and has not been able to read a session key from the config topic yet"
        )
    wanted = hmac.digest(session.key, body, ALGORITHMS[found.algorithm])
    if not hmac.compare_digest(wanted, found.mac):
        raise ForbiddenError("Internal request contained invalid signature.")
