"""The door through which an issuer's keys come: a file, or https, and only from where whoever runs the process allowed it.

It waits for the network, so whoever runs a loop asks it from a thread. Redirects are not followed: they would lead past the
list of what is allowed (CVE-2025-27817).
"""

from __future__ import annotations

import ssl
from collections.abc import Collection
from http.client import HTTPException
from typing import IO, Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

from ottla.base import ConfigError, OttlaError
from ottla.security.key_file import read_file

__all__ = ["KeysUnreachableError", "check_url", "read_keys"]

JWKS_URL = "sasl.oauthbearer.jwks.endpoint.url"
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
BYTES_MAX = 1 << 20


class KeysUnreachableError(OttlaError):
    """Keys did not come: whoever asked tries again later."""


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str) -> None:
        """Refuse."""


def check_url(url: str, allowed: Collection[str]) -> None:
    """Raise ConfigError unless keys may be read from there: `file:` or `https:`, and exactly a URL of the list."""
    parts = urlsplit(url)
    if parts.scheme not in ("file", "https") or (parts.scheme == "file" and parts.netloc not in ("", "localhost")):
        raise ConfigError(JWKS_URL, url, "must be a https: or a file: URL")
    if parts.username or parts.password:
        raise ConfigError(JWKS_URL, "[hidden]", "must not hold a password")
    if url not in allowed:
        raise ConfigError(JWKS_URL, url, f"is not in {ALLOWED_URLS}, which names the URLs that may be read")


def read_keys(
    url: str, allowed: Collection[str], *, timeout_seconds: float = 10.0, context: ssl.SSLContext | None = None
) -> bytes:
    """Return what stands there; raises ConfigError where that may not be read, KeysUnreachableError where it cannot be."""
    check_url(url, allowed)
    parts = urlsplit(url)
    if parts.scheme == "file":
        try:
            data = read_file(parts.path)
        except OSError as error:
            raise KeysUnreachableError(f"{url}: {error.strerror or error}") from error
    else:
        opener = build_opener(ProxyHandler({}), HTTPSHandler(context=context), _NoRedirects())
        try:
            with opener.open(Request(url, headers={"Accept": "application/json"}), timeout=timeout_seconds) as answer:
                data = answer.read(BYTES_MAX + 1)
        except (URLError, HTTPException, OSError, ValueError) as error:
            raise KeysUnreachableError(f"{url}: {error}") from error
    if len(data) > BYTES_MAX:
        raise KeysUnreachableError(f"{url}: more than {BYTES_MAX} bytes")
    return bytes(data)
