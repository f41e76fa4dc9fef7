"""The small authority vouches for brokers and clients, and only as long as it lives itself."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from ottla.base import ConfigError
from ottla.security import Authority, Issued
from ottla.security.tls import handshake

NOW = datetime.now(UTC)


def context(folder: Path, trusted: str, issued: Issued, *, server: bool) -> ssl.SSLContext:
    """Return a strict side that trusts an authority and shows what it has issued."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.verify_flags |= ssl.VERIFY_X509_STRICT
    made.check_hostname, made.verify_mode = False, ssl.CERT_REQUIRED
    made.load_verify_locations(cadata=trusted)
    path = folder / f"{server}.pem"
    path.write_text(issued.pem)
    made.load_cert_chain(path)
    return made


def test_what_it_has_issued_is_trusted_on_both_sides_by_strict_rules(tmp_path: Path) -> None:
    authority = Authority.made("Trial", now=NOW, days=10)
    broker = authority.issue("broker", ["localhost", "127.0.0.1", "::1"], now=NOW, days=5)
    admin = authority.issue("admin", (), now=NOW, days=5)
    handshake(
        context(tmp_path, authority.certificate, admin, server=False),
        context(tmp_path, authority.certificate, broker, server=True),
    )


def test_what_another_authority_of_the_same_name_has_issued_is_not_trusted(tmp_path: Path) -> None:
    authority, other = (Authority.made("Trial", now=NOW, days=10) for _ in range(2))
    with pytest.raises(ConfigError):
        handshake(
            context(tmp_path, authority.certificate, authority.issue("a", (), now=NOW, days=1), server=False),
            context(tmp_path, authority.certificate, other.issue("b", (), now=NOW, days=1), server=True),
        )


def test_a_broker_is_good_for_its_names_and_addresses() -> None:
    issued = Authority.made("Trial", now=NOW, days=10).issue("b", ["kafka.example", "10.0.0.1"], now=NOW, days=1)
    names = x509.load_pem_x509_certificate(issued.chain.encode()).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert names.value.get_values_for_type(x509.DNSName) == ["kafka.example"]
    assert [*map(str, names.value.get_values_for_type(x509.IPAddress))] == ["10.0.0.1"]


def test_nothing_outlives_the_authority() -> None:
    authority = Authority.made("Trial", now=NOW, days=10)
    found = x509.load_pem_x509_certificate(authority.issue("a", (), now=NOW, days=1000).chain.encode())
    assert found.not_valid_after_utc == (NOW + timedelta(days=10)).replace(microsecond=0)


def test_an_authority_is_the_same_when_it_is_read_again(tmp_path: Path) -> None:
    authority = Authority.made("Trial", now=NOW, days=10)
    again = Authority.of(authority.key.encode(), authority.certificate.encode())
    handshake(
        context(tmp_path, authority.certificate, authority.issue("a", (), now=NOW, days=1), server=False),
        context(tmp_path, authority.certificate, again.issue("b", (), now=NOW, days=1), server=True),
    )


def test_what_is_no_authority_and_what_is_no_name_is_refused_by_name() -> None:
    authority, other = (Authority.made("Trial", now=NOW, days=10) for _ in range(2))
    for key, certificate in (("nonsense", "nonsense"), (other.key, authority.certificate)):
        with pytest.raises(ConfigError, match="authority's"):
            Authority.of(key.encode(), certificate.encode())
    for name in ("", "x" * 65, "a\nb"):
        with pytest.raises(ConfigError, match="name"):
            authority.issue(name, (), now=NOW, days=1)
    with pytest.raises(ConfigError, match="host"):
        authority.issue("a", ["bücher.example"], now=NOW, days=1)


def test_a_key_is_not_shown_by_accident() -> None:
    issued = Authority.made("Trial", now=NOW, days=10).issue("a", (), now=NOW, days=1)
    assert "PRIVATE" not in repr(issued)
