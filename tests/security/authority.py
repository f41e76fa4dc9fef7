"""A small authority: certificates for tests, in memory and as stores that Java's own keytool wrote."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

__all__ = ["PASSWORD", "Identity", "Key", "authority", "keytool", "signed"]

Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
PASSWORD = "pass-word"


@dataclass(frozen=True)
class Identity:
    """A key and its chain, leaf first."""

    key: Key
    chain: tuple[x509.Certificate, ...]

    @property
    def leaf(self) -> bytes:
        """The leaf in DER."""
        return self.chain[0].public_bytes(Encoding.DER)

    def key_pem(self, password: str | None = None) -> str:
        """Return the key as PKCS8, encrypted where a password is given."""
        how = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how).decode()

    def chain_pem(self) -> str:
        """Return the certificates."""
        return "".join(each.public_bytes(Encoding.PEM).decode() for each in self.chain)

    def p12(self, password: str = PASSWORD, name: str = "kafka") -> bytes:
        """Return a PKCS12 store."""
        how = BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(name.encode(), self.key, self.chain[0], self.chain[1:], how)


def _name(common_name: str) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Acme"), x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    )


def _certificate(
    subject: str, key: Key, issuer: Identity | None, *, hosts: tuple[str, ...] = (), ca: bool = False, days: int = 30
) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(subject) if issuer is None else issuer.chain[0].subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=60))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    if hosts:
        names: list[x509.GeneralName] = []
        for each in hosts:
            is_address = each.replace(".", "").isdigit() or ":" in each
            names.append(x509.IPAddress(ip_address(each)) if is_address else x509.DNSName(each))
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(key if issuer is None else issuer.key, hashes.SHA256())


def authority(name: str = "Test Authority", *, above: Identity | None = None) -> Identity:
    """Return an authority, or one below another."""
    key = ec.generate_private_key(ec.SECP256R1())
    return Identity(key, (_certificate(name, key, above, ca=True), *(() if above is None else above.chain)))


def signed(
    by: Identity,
    name: str,
    *,
    hosts: tuple[str, ...] = ("localhost", "127.0.0.1"),
    days: int = 30,
    kind: str = "ec",
) -> Identity:
    """Return somebody whom an authority vouches for."""
    key: Key = ec.generate_private_key(ec.SECP256R1()) if kind == "ec" else rsa.generate_private_key(65537, 2048)
    return Identity(key, (_certificate(name, key, by, hosts=hosts, days=days), *by.chain))


def keytool(*words: str | Path) -> None:
    """Run Java's keytool; raises CalledProcessError with what it said."""
    command = ["keytool", "-J-XX:TieredStopAtLevel=1", *map(str, words)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
