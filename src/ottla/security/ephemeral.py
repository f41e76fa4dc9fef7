"""A key for the life of one process: what it tells those whom it has started itself is encrypted with it.

Nobody signs its certificate. Whoever is to connect is handed it beforehand and trusts this one alone, so that no name has to
be checked (RFC 8446; the certificate is RFC 5280's least).
"""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec

from ottla.security.key_file import file_of

__all__ = ["EphemeralKey", "may_encrypt", "trusting_only"]

NAME = "ottla"
BEGINS = datetime(2000, 1, 1, tzinfo=UTC)
"""Before every clock; the certificate ends with the process, and its dates must not end it sooner."""
LASTS = timedelta(days=365 * 1000)


def may_encrypt() -> bool:
    """Return whether what makes a certificate is installed: the extra `[security]`."""
    return find_spec("cryptography") is not None


class EphemeralKey:
    """A key of this process, which is written nowhere."""

    def __init__(self) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
        made = x509.CertificateBuilder(
            issuer_name=name,
            subject_name=name,
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=BEGINS,
            not_valid_after=BEGINS + LASTS,
        ).sign(key, hashes.SHA256())
        self.certificate = made.public_bytes(serialization.Encoding.PEM).decode()
        """The certificate, in PEM, for those who are to connect."""
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        """The server's side."""
        self.context.minimum_version = ssl.TLSVersion.TLSv1_3
        form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        private = key.private_bytes(serialization.Encoding.PEM, *form)
        with file_of(private + self.certificate.encode()) as path:
            self.context.load_cert_chain(path)


def trusting_only(certificate: str) -> ssl.SSLContext:
    """Return a client's context that takes a server with this certificate, in PEM, and no other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=certificate)
    return context
