"""Certificates for tests: a small authority, and what it signs."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["Authority", "Identity"]

VALID_DAYS = 30


@dataclass(frozen=True)
class Identity:
    """A key and its certificate, in a file as PEM."""

    path: Path

    def load_into(self, context: ssl.SSLContext) -> None:
        """Have a context show it."""
        context.load_cert_chain(self.path)


class Authority:
    """Signs certificates of brokers and clients."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._certificate = self._sign(
            self._name, self._key.public_key(), x509.BasicConstraints(ca=True, path_length=None)
        )
        self.path = folder / f"{name}.pem"
        self.path.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def identity(self, name: str, *, hosts: tuple[str, ...] = ("localhost", "127.0.0.1")) -> Identity:
        """Return a new key with a certificate for a common name and hosts."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = x509.SubjectAlternativeName([_name_of(host) for host in hosts])
        certificate = self._sign(subject, key.public_key(), names)
        path = self._folder / f"{name}.pem"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        return Identity(path)

    def server_context(self, identity: Identity, *, asks_clients: bool = False) -> ssl.SSLContext:
        """Return a server's context; with `asks_clients` it takes only clients that this authority has signed."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        identity.load_into(context)
        if asks_clients:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.path)
        return context

    def client_context(self, identity: Identity | None = None) -> ssl.SSLContext:
        """Return a client's context that trusts this authority alone."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.path)
        if identity is not None:
            identity.load_into(context)
        return context

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, extension: x509.ExtensionType
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(
            self._name,
            subject,
            key,
            x509.random_serial_number(),
            now - timedelta(days=1),
            now + timedelta(days=VALID_DAYS),
        )
        return builder.add_extension(extension, critical=False).sign(self._key, hashes.SHA256())


def _name_of(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
