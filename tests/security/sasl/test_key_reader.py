"""An issuer's keys are read from where that is allowed, and from nowhere else."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ottla.base import ConfigError
from ottla.security.sasl.key_reader import BYTES_MAX, KeysUnreachableError, check_url, read_keys
from ottla.security.tls import Tls
from ottla.security.tls_settings import TlsSettings
from tests.security.authority import authority, signed

CA = authority()
ISSUER = signed(CA, "issuer")


class Issuer(BaseHTTPRequestHandler):
    """Serves keys, too many bytes, a redirect and failures."""

    def do_GET(self) -> None:
        body = {"/keys": b'{"keys": []}', "/large": b" " * (BYTES_MAX + 1)}.get(self.path, b"")
        status = 302 if self.path == "/moved" else 200 if body else 500
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/keys")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    keys = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": ISSUER.key_pem(),
        "ssl.keystore.certificate.chain": ISSUER.chain_pem(),
    }
    with ThreadingHTTPServer(("127.0.0.1", 0), Issuer) as server:
        server.socket = Tls(TlsSettings.of(keys), server=True).context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"https://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def context() -> ssl.SSLContext:
    trust: dict[str, str | None] = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": CA.chain_pem()}
    return Tls(TlsSettings.of(trust), server=False).context


def test_keys_come_by_https_and_from_a_file(issuer: str, tmp_path: Path) -> None:
    assert read_keys(f"{issuer}/keys", {f"{issuer}/keys"}, context=context()) == b'{"keys": []}'
    (tmp_path / "keys").write_bytes(b"here")
    url = f"file://{tmp_path / 'keys'}"
    assert read_keys(url, [url]) == b"here"


@pytest.mark.parametrize("path", ["/moved", "/large", "/absent"])
def test_redirects_and_floods_and_failures_bring_nothing(issuer: str, path: str) -> None:
    with pytest.raises(KeysUnreachableError, match=path):
        read_keys(issuer + path, [issuer + path], context=context())


def test_an_issuer_whom_nobody_vouches_for_is_not_believed(issuer: str) -> None:
    with pytest.raises(KeysUnreachableError, match="CERTIFICATE_VERIFY_FAILED"):
        read_keys(f"{issuer}/keys", [f"{issuer}/keys"], context=ssl.create_default_context())


def test_an_absent_file_brings_nothing(tmp_path: Path) -> None:
    url = f"file://{tmp_path / 'absent'}"
    with pytest.raises(KeysUnreachableError, match="No such file"):
        read_keys(url, [url])


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://issuer/keys", []),
        ("https://issuer/keys", ["https://issuer/"]),
        ("https://issuer/keys?x", ["https://issuer/keys"]),
        ("file:///etc/passwd", ["file:///etc"]),
        ("http://issuer/keys", ["http://issuer/keys"]),
        ("ftp://issuer/keys", ["ftp://issuer/keys"]),
        ("file://elsewhere/keys", ["file://elsewhere/keys"]),
        ("/etc/passwd", ["/etc/passwd"]),
        ("https://a:b@issuer/", ["https://a:b@issuer/"]),
    ],
)
def test_only_what_is_allowed_word_by_word_is_read(url: str, allowed: list[str]) -> None:
    with pytest.raises(ConfigError):
        check_url(url, allowed)
    with pytest.raises(ConfigError):
        read_keys(url, allowed)
