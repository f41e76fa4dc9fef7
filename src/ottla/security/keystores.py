"""Key stores and trust stores in the three forms that Kafka takes (JKS, PKCS12, PEM), as plain keys and certificates in DER.

Java opens JKS under the type PKCS12 and the reverse, so the first bytes decide between them. Whatever is wrong becomes a
`StoreError` that says what, without secrets.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from dataclasses import dataclass, field
from typing import Any

from ottla.base import ConfigError, OttlaError, bring_extra
from ottla.security.jks import JKS_MAGIC, JksError, private_key, read_jks

__all__ = ["KeyEntry", "Store", "StoreError", "need_cryptography", "open_pem", "open_store"]

STORE_TYPES = ("JKS", "PKCS12", "PEM")
_JCEKS_MAGIC = b"\xce\xce\xce\xce"
_DER_SEQUENCE = 0x30
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)


class StoreError(OttlaError):
    """A store that cannot be opened."""


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A private key (PKCS 8) and its certificates, leaf first, in DER."""

    alias: str
    key: bytes = field(repr=False)
    chain: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Store:
    """What a store holds."""

    keys: tuple[KeyEntry, ...] = ()
    trusted: tuple[bytes, ...] = ()


def open_store(data: bytes, *, kind: str, password: str | None, key_password: str | None = None) -> Store:
    """Return a store of type JKS, PKCS12 or PEM; a key's password is the store's where it has no own.

    Raises StoreError, and ConfigError where a library that is needed is not installed.
    """
    kind = kind.upper()
    if kind not in STORE_TYPES:
        raise StoreError(f"the type {kind} is not known: it must be one of {', '.join(STORE_TYPES)}")
    if kind == "PEM":
        try:
            return open_pem(data.decode(), key_password=key_password)
        except UnicodeDecodeError as error:
            raise StoreError("it is no PEM file: it is not text") from error
    if data.startswith(_JCEKS_MAGIC):
        raise StoreError("it is a JCEKS store: convert it by keytool -importkeystore -deststoretype PKCS12")
    if data.startswith(JKS_MAGIC):
        return _jks(data, password, key_password)
    if data[:1] == bytes([_DER_SEQUENCE]):
        return _pkcs12(data, password, key_password)
    if b"-----BEGIN " in data[:4096]:
        raise StoreError(f"it is a PEM file, but its type is given as {kind}")
    raise StoreError("it is neither a JKS nor a PKCS12 store")


def _jks(data: bytes, password: str | None, key_password: str | None) -> Store:
    try:
        entries = read_jks(data, password)
        with_key = [each for each in entries if each.hidden_key is not None]
        secret = key_password or password
        if with_key and secret is None:
            raise StoreError("its keys cannot be opened without a password")
        keys = tuple(KeyEntry(each.alias, private_key(each, secret or ""), each.certificates) for each in with_key)
    except JksError as error:
        raise StoreError(str(error)) from error
    return Store(keys, tuple(each.certificates[0] for each in entries if each.hidden_key is None))


def _pkcs12(data: bytes, password: str | None, key_password: str | None) -> Store:
    if key_password is not None and key_password != password:
        raise StoreError(
            "the key of a PKCS12 store has the store's password: ssl.key.password must be the same or absent"
        )
    library = _cryptography()
    try:
        found = library.pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        raise StoreError("the password is wrong, or the key store is damaged") from error
    others = [(each.friendly_name, each.certificate) for each in found.additional_certs]
    if found.key is None:
        certificates = [each for _, each in others] + ([] if found.cert is None else [found.cert.certificate])
        return Store(trusted=tuple(map(library.der_of_certificate, certificates)))
    if found.cert is None:
        raise StoreError("it has a key without a certificate")
    leaf = found.cert.certificate
    chain, rest = _chain(leaf, [each for _, each in others])
    alias = (found.cert.friendly_name or b"").decode(errors="replace")
    key = KeyEntry(alias, library.der_of_key(found.key), tuple(map(library.der_of_certificate, chain)))
    return Store((key,), tuple(map(library.der_of_certificate, rest)))


def _chain(leaf: Any, others: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return a leaf's chain upwards, in order, and the certificates that are not of it."""
    chain, rest = [leaf], list(others)
    while chain[-1].issuer != chain[-1].subject:
        above = next((each for each in rest if each.subject == chain[-1].issuer), None)
        if above is None:
            break
        rest.remove(above)
        chain.append(above)
    return chain, rest


def open_pem(text: str, *, key_password: str | None = None) -> Store:
    """Return what PEM text holds: a key with the chain behind it, or trusted certificates; raises StoreError.

    Lines may be divided by blanks instead, as they are where a properties file continues a line.
    """
    certificates: list[bytes] = []
    keys: list[tuple[str, bytes]] = []
    for label, body in _BLOCK.findall(text):
        if label == "CERTIFICATE":
            certificates.append(_base64(label, body))
        elif label.endswith("PRIVATE KEY"):
            keys.append((label, _base64(label, body)))
    if not certificates and not keys:
        raise StoreError("it holds neither a certificate nor a private key in PEM")
    if len(keys) > 1:
        raise StoreError(f"it holds {len(keys)} private keys where one is allowed")
    if not keys:
        return Store(trusted=tuple(certificates))
    return Store((KeyEntry("kafka", _pem_key(*keys[0], key_password), tuple(certificates)),))


def _base64(label: str, body: str) -> bytes:
    try:
        return b64decode("".join(body.split()), validate=True)
    except (Base64Error, ValueError) as error:
        hint = ": keys encrypted in the old way must become PKCS8" if "DEK-Info" in body else ""
        raise StoreError(f"the PEM of a {label} is damaged{hint}") from error


def _pem_key(label: str, data: bytes, password: str | None) -> bytes:
    library = _cryptography()
    encrypted = label.startswith("ENCRYPTED")
    if encrypted and password is None:
        raise StoreError("the private key is encrypted and ssl.key.password is not set")
    try:
        key = library.serialization.load_der_private_key(data, password.encode() if encrypted and password else None)
    except (ValueError, TypeError, library.UnsupportedAlgorithm) as error:
        raise StoreError("the private key cannot be read, or ssl.key.password is wrong") from error
    der: bytes = library.der_of_key(key)
    return der


class _Library:
    """What is used of `cryptography`, which is asked for only here."""

    def __init__(self) -> None:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12

        self.pkcs12 = pkcs12
        self.serialization = serialization
        self.UnsupportedAlgorithm = UnsupportedAlgorithm

    def der_of_key(self, key: Any) -> bytes:
        form = self.serialization
        data: bytes = key.private_bytes(form.Encoding.DER, form.PrivateFormat.PKCS8, form.NoEncryption())
        return data

    def der_of_certificate(self, certificate: Any) -> bytes:
        data: bytes = certificate.public_bytes(self.serialization.Encoding.DER)
        return data


def need_cryptography() -> None:
    """Raise ConfigError, which says what to install, where the library is not there."""
    _cryptography()


def _cryptography() -> _Library:
    try:
        return _Library()
    except ImportError as error:
        raise ConfigError(
            "security.protocol", "SSL", "needs cryptography", f"TLS needs cryptography: {bring_extra('security')}"
        ) from error
