"""The door through which an issuer's keys and tokens come: a file, or https, and only from where the process allows it.

It waits for the network, so whoever runs a loop asks it from a thread. Redirects are not followed: they would lead past the
list of what is allowed (CVE-2025-27817).
"""

from __future__ import annotations

import ssl
import time
from base64 import b64encode
from collections.abc import Collection, Mapping
from http.client import HTTPException
from typing import IO, Any
from urllib.error import URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

from ottla.base import ConfigError, OttlaError, why_unreached
from ottla.security.key_file import read_file

__all__ = ["KeysUnreachableError", "ask_token", "check_url", "read_allowed_file", "read_keys"]

JWKS_URL = "sasl.oauthbearer.jwks.endpoint.url"
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
BYTES_MAX = 1 << 20
TIMEOUT_SECONDS = 10.0


class KeysUnreachableError(OttlaError):
    """Keys did not come: whoever asked tries again later."""


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str) -> None:
        """Refuse."""


def check_url(url: str, allowed: Collection[str], *, key: str = JWKS_URL) -> None:
    """Raise ConfigError unless keys may be read from there: `file:` or `https:`, and exactly a URL of the list."""
    parts = urlsplit(url)
    if parts.scheme not in ("file", "https") or (parts.scheme == "file" and parts.netloc not in ("", "localhost")):
        raise ConfigError(key, url, "must be a https: or a file: URL")
    if parts.username or parts.password:
        raise ConfigError(key, "[hidden]", "must not hold a password")
    if url not in allowed:
        raise ConfigError(key, url, f"is not in {ALLOWED_URLS}, which names the URLs that may be read")


def read_keys(
    url: str,
    allowed: Collection[str],
    *,
    timeout_seconds: float = TIMEOUT_SECONDS,
    context: ssl.SSLContext | None = None,
    key: str = JWKS_URL,
) -> bytes:
    """Return what stands there; raises ConfigError where that may not be read, KeysUnreachableError where it cannot be."""
    check_url(url, allowed, key=key)
    parts = urlsplit(url)
    if parts.scheme == "file":
        try:
            data = read_file(parts.path)
        except OSError as error:
            raise KeysUnreachableError(f"{url}: {error.strerror or error}") from error
    else:
        data = _asked(Request(url, headers={"Accept": "application/json"}), timeout_seconds, context)
    if len(data) > BYTES_MAX:
        raise KeysUnreachableError(f"{url}: more than {BYTES_MAX} bytes")
    return bytes(data)


def read_allowed_file(path: str, allowed: Collection[str], *, key: str, setting: str) -> bytes:
    """Return what a file holds; raises ConfigError unless it is exactly one of the list, and can be read."""
    if path not in allowed:
        raise ConfigError(key, path, f"is not in {setting}, which names the files that may be read")
    try:
        data = read_file(path)
    except OSError as error:
        raise ConfigError(key, path, error.strerror or str(error)) from error
    if len(data) > BYTES_MAX:
        raise ConfigError(key, path, f"has more than {BYTES_MAX} bytes")
    return bytes(data)


def ask_token(
    url: str,
    allowed: Collection[str],
    *,
    form: Mapping[str, str],
    credentials: tuple[str, str] | None,
    timeout_seconds: float = TIMEOUT_SECONDS,
    context: ssl.SSLContext | None = None,
) -> bytes:
    """Return what an issuer answers to a client; raises as `read_keys`.

    With `credentials` it shows its secret in the header (RFC 6749, 2.3.1), without them the form says who it is.
    """
    check_url(url, allowed, key="sasl.oauthbearer.token.endpoint.url")
    headers = {"Accept": "application/json"}
    if credentials is not None:
        headers["Authorization"] = f"Basic {b64encode(':'.join(credentials).encode()).decode()}"
    request = Request(url, urlencode(form).encode(), headers, method="POST")
    data = _asked(request, timeout_seconds, context)
    if len(data) > BYTES_MAX:
        raise KeysUnreachableError(f"{url}: more than {BYTES_MAX} bytes")
    return data


def _asked(request: Request, timeout_seconds: float, context: ssl.SSLContext | None) -> bytes:
    opener = build_opener(ProxyHandler({}), HTTPSHandler(context=context), _NoRedirects())
    try:
        with opener.open(request, timeout=timeout_seconds) as answer:
            return _read(answer, time.monotonic() + timeout_seconds)
    except (URLError, HTTPException, OSError, ValueError) as error:
        raise KeysUnreachableError(f"{request.full_url}: {why_unreached(error)}") from error


def _read(answer: Any, until: float) -> bytes:
    """Return an answer up to one byte more than it may have; raises TimeoutError for one that drips."""
    found = bytearray()
    while len(found) <= BYTES_MAX and (part := answer.read1(BYTES_MAX + 1 - len(found))):
        found += part
        if time.monotonic() > until:
            raise TimeoutError("it takes too long")
    return bytes(found)
