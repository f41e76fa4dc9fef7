"""Kafka's `ssl.*` as one value: which stores, which versions and ciphers, who must show a certificate.

Everything that cannot be honoured is a ConfigError; nothing is taken and left without effect.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.base import ConfigError

__all__ = ["STORE_KEYS", "ClientAuth", "StoreSettings", "TlsSettings", "openssl_cipher"]

PREFIX = "ssl."
STORE_KEYS = frozenset(
    {
        *("ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.password", "ssl.key.password"),
        *("ssl.keystore.key", "ssl.keystore.certificate.chain"),
        *("ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.certificates"),
    }
)
"""What may be changed while a listener is open."""
VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
ClientAuth = ssl.VerifyMode
TLS_13_CIPHERS = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Where a store is and how it is opened: a file, or PEM in the configuration itself."""

    name: str
    """The key by which errors call it."""
    kind: str
    location: str | None = None
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    inline: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """What a listener's, or a client's, `ssl.*` say."""

    key_store: StoreSettings | None
    trust_store: StoreSettings | None
    versions: frozenset[ssl.TLSVersion]
    ciphers: tuple[str, ...]
    client_auth: ClientAuth
    checks_host: bool
    allows_other_name: bool
    """`ssl.allow.dn.changes`: a new key store may be about another name."""
    allows_fewer_hosts: bool
    """`ssl.allow.san.changes`: a new key store may be good for fewer names of hosts."""

    @classmethod
    def of(cls, properties: Mapping[str, str | None]) -> TlsSettings:
        """Read them, without any prefix; raises ConfigError."""
        given = {key: value for key, value in properties.items() if value is not None}
        for key, why in _JAVA_ONLY.items():
            _refuse(bool(given.get(key)), key, given.get(key), why)
        return cls(
            _key_store(given),
            _trust_store(given),
            _versions(given),
            _ciphers(given),
            _client_auth(given),
            _checks_host(given),
            _is_true(given, "ssl.allow.dn.changes"),
            _is_true(given, "ssl.allow.san.changes"),
        )


_JAVA_ONLY = {"ssl.engine.factory.class": "TLS engines of Java classes cannot be used; leave it unset"}


def _key_store(given: Mapping[str, str]) -> StoreSettings | None:
    kind = given.get("ssl.keystore.type", "JKS").upper()
    location, password = given.get("ssl.keystore.location"), given.get("ssl.keystore.password")
    key, chain = given.get("ssl.keystore.key"), given.get("ssl.keystore.certificate.chain")
    key_password = given.get("ssl.key.password")
    if key is not None or chain is not None:
        _refuse(kind != "PEM", "ssl.keystore.type", kind, "SSL private key can be specified only for PEM")
        _refuse(
            chain is None,
            "ssl.keystore.certificate.chain",
            "",
            "SSL private key is specified, but certificate chain is not",
        )
        _refuse(
            key is None, "ssl.keystore.key", "", "SSL certificate chain is specified, but private key is not specified"
        )
        _refuse(
            location is not None,
            "ssl.keystore.location",
            location,
            "Both SSL key store location and separate private key",
        )
        _refuse(password is not None, "ssl.keystore.password", "[hidden]", _ONLY_KEY_PASSWORD)
        return StoreSettings("ssl.keystore.key", kind, key_password=key_password, inline=f"{key}\n{chain}")
    if location is None:
        _refuse(
            password is not None, "ssl.keystore.location", "", "SSL key store is not specified, but its password is"
        )
        return None
    _refuse(kind == "PEM" and password is not None, "ssl.keystore.password", "[hidden]", _ONLY_KEY_PASSWORD)
    _refuse(
        kind != "PEM" and password is None,
        "ssl.keystore.password",
        "",
        "SSL key store is specified, but its password is not",
    )
    return StoreSettings("ssl.keystore.location", kind, location, password, key_password)


_ONLY_KEY_PASSWORD = "SSL key store password cannot be specified with PEM format, only key password may be specified"


def _trust_store(given: Mapping[str, str]) -> StoreSettings | None:
    kind = given.get("ssl.truststore.type", "JKS").upper()
    location, password = given.get("ssl.truststore.location"), given.get("ssl.truststore.password")
    inline = given.get("ssl.truststore.certificates")
    no_password = "SSL trust store password cannot be specified for PEM format."
    if inline is not None:
        _refuse(kind != "PEM", "ssl.truststore.type", kind, "SSL trust store certs can be specified only for PEM")
        both = "Both SSL trust store location and separate trust certificates are specified."
        _refuse(location is not None, "ssl.truststore.location", location, both)
        _refuse(password is not None, "ssl.truststore.password", "[hidden]", no_password)
        return StoreSettings("ssl.truststore.certificates", kind, inline=inline)
    if location is None:
        without = "SSL trust store is not specified, but its password is"
        _refuse(password is not None, "ssl.truststore.location", "", without)
        return None
    _refuse(kind == "PEM" and password is not None, "ssl.truststore.password", "[hidden]", no_password)
    return StoreSettings("ssl.truststore.location", kind, location, password)


def _refuse(wrong: bool, key: str, value: str | None, message: str) -> None:
    if wrong:
        raise ConfigError(key, value, message, f"{key}: {message}")


def _versions(given: Mapping[str, str]) -> frozenset[ssl.TLSVersion]:
    names = _listed(given.get("ssl.enabled.protocols") or "TLSv1.2,TLSv1.3")
    only = given.get("ssl.protocol", "TLSv1.3")
    asked = [("ssl.enabled.protocols", each) for each in names]
    if only != "TLS":  # Java's name of whatever is newest
        asked.append(("ssl.protocol", only))
    for key, name in asked:
        if name not in VERSIONS:
            raise ConfigError(key, name, f"must be one of {', '.join(VERSIONS)}: nothing older is spoken")
    if only == "TLSv1.2":  # what Java's context of that name speaks at most
        names = [each for each in names if each == "TLSv1.2"]
        _refuse(not names, "ssl.protocol", only, "it is older than all of ssl.enabled.protocols")
    return frozenset(VERSIONS[each] for each in names)


def _ciphers(given: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(_listed(given.get("ssl.cipher.suites") or ""))


def _client_auth(given: Mapping[str, str]) -> ClientAuth:
    name = given.get("ssl.client.auth", "none").lower()
    if name not in CLIENT_AUTH:
        raise ConfigError("ssl.client.auth", name, f"must be one of {', '.join(CLIENT_AUTH)}")
    return CLIENT_AUTH[name]


def _checks_host(given: Mapping[str, str]) -> bool:
    name = given.get("ssl.endpoint.identification.algorithm", "https").lower()
    if name not in ("https", ""):
        raise ConfigError("ssl.endpoint.identification.algorithm", name, 'must be https, or "" for no check')
    return name == "https"


def _is_true(given: Mapping[str, str], key: str) -> bool:
    return given.get(key, "false").strip().lower() == "true"


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def openssl_cipher(name: str) -> str:
    """Return OpenSSL's name of a cipher suite of TLS 1.2 that is given by IANA's; what is none of IANA's stays."""
    if not name.startswith("TLS_") or "_WITH_" not in name:
        return name
    exchange, _, cipher = name.removeprefix("TLS_").partition("_WITH_")
    parts = cipher.split("_")
    if parts[:2] == ["CHACHA20", "POLY1305"]:
        parts = parts[:2]
    if parts[0] in ("AES", "CAMELLIA", "ARIA") and len(parts) > 1:
        parts = [parts[0] + parts[1], *(each for each in parts[2:] if each != "CBC")]
    front = [] if exchange == "RSA" else exchange.split("_")
    return "-".join([*front, *parts])
