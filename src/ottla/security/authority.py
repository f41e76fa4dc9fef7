"""A small authority: makes its own certificate, and signs those of brokers and clients (RFC 5280).

It is for trying TLS out, and for those who have no other: it keeps no list of what it has signed, and takes nothing back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Any

from ottla.base import ConfigError
from ottla.security.keystores import need_cryptography

__all__ = ["Authority", "Issued"]

HOUR = timedelta(hours=1)
"""By how much a certificate is older than it is: other machines' clocks are behind."""
NAME_LENGTH_MAX = 64
"""X.520's bound of a common name."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A private key, and the certificates that vouch for it, the own one first."""

    key: str = field(repr=False)
    """PKCS8 in PEM, not encrypted."""
    chain: str
    """X.509 in PEM."""

    @property
    def pem(self) -> str:
        """Return both, as Kafka's PEM key stores have them."""
        return self.key + self.chain


class Authority:
    """Whoever has its key can be anybody for those who trust it."""

    def __init__(self, key: Any, certificate: Any) -> None:
        """Take over a key and a certificate of `cryptography`'s."""
        self._key, self._certificate = key, certificate

    @classmethod
    def made(cls, name: str, *, now: datetime, days: int) -> Authority:
        """Return a new one, good for so many days; raises ConfigError where the extra `[security]` is not installed."""
        need_cryptography()
        from cryptography import x509

        key = _new_key()
        builder = _builder(_name(name), _name(name), key, now, days)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        return cls(key, _signed(builder.add_extension(own, critical=False), key))

    @classmethod
    def of(cls, key: bytes, certificate: bytes) -> Authority:
        """Return the one that was written down in PEM; raises ConfigError for what is none."""
        need_cryptography()
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            found = cls(load_pem_private_key(key, None), x509.load_pem_x509_certificate(certificate))
        except (ValueError, TypeError) as error:
            text = "the authority's key or certificate cannot be read"
            raise ConfigError("authority", "", text, text) from error
        if found._key.public_key() != found._certificate.public_key():
            text = "the authority's key is not that of its certificate"
            raise ConfigError("authority", "", text, text)
        return found

    @property
    def certificate(self) -> str:
        """The own certificate, in PEM: what others trust."""
        from cryptography.hazmat.primitives.serialization import Encoding

        return str(self._certificate.public_bytes(Encoding.PEM).decode())

    @property
    def key(self) -> str:
        """The own key, as PKCS8 in PEM."""
        return _key_text(self._key)

    def issue(self, name: str, hosts: Sequence[str], *, now: datetime, days: int) -> Issued:
        """Return a new key of somebody called `name`, who may be reached at `hosts`: names, addresses, or none.

        It ends with the authority's certificate at the latest. Raises ConfigError for what cannot be a name.
        """
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import Encoding
        from cryptography.x509.oid import ExtendedKeyUsageOID

        key = _new_key()
        end = min(now + timedelta(days=days), self._certificate.not_valid_after_utc)
        builder = _builder(_name(name), self._certificate.subject, key, now, days, end)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([*map(_host, hosts)]), critical=False)
        made = _signed(builder, self._key).public_bytes(Encoding.PEM).decode()
        return Issued(_key_text(key), made)


def _new_key() -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _name(common_name: str) -> Any:
    from cryptography import x509

    if not 0 < len(common_name) <= NAME_LENGTH_MAX or not common_name.isprintable():
        raise ConfigError("name", common_name, f"1 to {NAME_LENGTH_MAX} characters that can be printed")
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])


def _host(text: str) -> Any:
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        pass
    try:
        return x509.DNSName(text)
    except ValueError:
        allowed = "an address, or a name in ASCII (IDNA for others)"
        raise ConfigError("host", text, allowed) from None


def _builder(subject: Any, issuer: Any, key: Any, now: datetime, days: int, end: datetime | None = None) -> Any:
    from cryptography import x509

    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - HOUR,
        not_valid_after=end or now + timedelta(days=days),
    )


def _usage(*, signs_certificates: bool) -> Any:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _signed(builder: Any, key: Any) -> Any:
    from cryptography.hazmat.primitives.hashes import SHA256

    return builder.sign(key, SHA256())


def _key_text(key: Any) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return str(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())
