"""Java's own key stores (JKS), which older Kafka clusters have: keys with their chains, and trusted certificates.

The format is Sun's and old: SHA-1 of the password and the file stands behind it, and keys are hidden under a stream of
SHA-1. It is read only, never written.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass, field

from ottla.security.der import OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE, DerError, elements, identifier, inside

__all__ = ["JKS_MAGIC", "JksEntry", "JksError", "private_key", "read_jks"]

JKS_MAGIC = b"\xfe\xed\xfe\xed"
ENTRIES_MAX = 100_000
_WHITENER = b"Mighty Aphrodite"
_PROTECTED_BY_SUN = "1.3.6.1.4.1.42.2.17.1.1"
_DIGEST_BYTES = 20
_KEY, _CERTIFICATE = 1, 2


class JksError(ValueError):
    """A file that is no key store, or not under this password."""


@dataclass(frozen=True, slots=True)
class JksEntry:
    """A trusted certificate, or a hidden key and its chain, leaf first; all in DER."""

    alias: str
    certificates: tuple[bytes, ...]
    hidden_key: bytes | None = field(default=None, repr=False)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        if size > len(self._data) - self._at:
            raise JksError("the key store ends too early")
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def text(self) -> str:
        return self.take(self.number(2)).decode(errors="replace")

    @property
    def rest(self) -> int:
        return len(self._data) - self._at


def read_jks(data: bytes, password: str | None) -> list[JksEntry]:
    """Return a store's entries; without a password nobody knows whether somebody changed them. Raises JksError."""
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password is not None:
        expected = hashlib.sha1(_utf_16(password) + _WHITENER + body).digest()
        if not hmac.compare_digest(digest, expected):
            raise JksError("the password is wrong, or the key store is damaged")
    reader = _Reader(body)
    if reader.take(4) != JKS_MAGIC:
        raise JksError("it is no JKS key store")
    version = reader.number(4)
    if version not in (1, 2):
        raise JksError(f"version {version} of key stores is not known")
    count = reader.number(4)
    if count > ENTRIES_MAX:
        raise JksError(f"the key store says that it has {count} entries")
    found = list(_entries(reader, count, typed=version == 2))
    if reader.rest:
        raise JksError("something stands behind the last entry of the key store")
    return found


def _entries(reader: _Reader, count: int, *, typed: bool) -> Iterator[JksEntry]:
    for _ in range(count):
        tag = reader.number(4)
        alias = reader.text()
        reader.take(8)  # when it was made
        if tag == _CERTIFICATE:
            yield JksEntry(alias, (_certificate(reader, typed=typed),))
        elif tag == _KEY:
            hidden = reader.take(reader.number(4))
            chain = reader.number(4)
            if chain > reader.rest:
                raise JksError("the key store ends too early")
            yield JksEntry(alias, tuple(_certificate(reader, typed=typed) for _ in range(chain)), hidden)
        else:
            raise JksError(f"the key store has an entry of unknown kind {tag}")


def _certificate(reader: _Reader, *, typed: bool) -> bytes:
    kind = reader.text() if typed else "X.509"
    if kind != "X.509":
        raise JksError(f"the key store has a certificate of kind {kind}")
    return reader.take(reader.number(4))


def private_key(entry: JksEntry, password: str) -> bytes:
    """Return an entry's key in DER (PKCS 8); raises JksError."""
    assert entry.hidden_key is not None
    try:
        parts = [each[:2] for each in elements(inside(entry.hidden_key, SEQUENCE))]
        (algorithm_tag, algorithm), (tag, protected) = parts
        name = identifier(inside(algorithm, OBJECT_IDENTIFIER))
    except (DerError, ValueError) as error:
        raise JksError(f"the key of {entry.alias} is damaged") from error
    if algorithm_tag != SEQUENCE or tag != OCTET_STRING or name != _PROTECTED_BY_SUN:
        raise JksError(f"the key of {entry.alias} is not hidden as in JKS")
    if len(protected) < 2 * _DIGEST_BYTES:
        raise JksError(f"the key of {entry.alias} is damaged")
    secret = _utf_16(password)
    salt, hidden, check = protected[:_DIGEST_BYTES], protected[_DIGEST_BYTES:-_DIGEST_BYTES], protected[-_DIGEST_BYTES:]
    stream, last = bytearray(), salt
    while len(stream) < len(hidden):
        last = hashlib.sha1(secret + last).digest()
        stream += last
    key = bytes(a ^ b for a, b in zip(hidden, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), check):
        raise JksError(f"the password of the key of {entry.alias} is wrong")
    return key


def _utf_16(password: str) -> bytes:
    return password.encode("utf-16-be", errors="surrogatepass")
