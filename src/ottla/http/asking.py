"""HTTP as services ask it on their event loop, of servers that may lie: the one place that opens client sessions.

No redirect is followed, as it would carry the login to another host; nothing is decompressed; and there are bounds of time
and of what is read. In threads `ottla.client.web_answer` does the same.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from yarl import URL

from ottla.base import OttlaError, why_unreached

__all__ = ["AskError", "Asker", "WebAnswer"]

ANSWER_BYTES_MAX = 64 << 20
JSON_BYTES_MAX = 8 << 20
"""Of JSON that is parsed on the loop."""
CONNECT_SECONDS_MAX = 10.0
_PLAIN = re.compile(r"[!-~]*")


class AskError(OttlaError):
    """A server did not answer, or not as one may."""

    def __init__(self, message: str, *, is_unreached: bool = False) -> None:
        super().__init__(message)
        self.is_unreached = is_unreached
        """Whether nothing was sent."""


@dataclass(frozen=True)
class WebAnswer:
    """An answer of whatever status."""

    status: int
    body: bytes
    content_type: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    def json(self) -> Any:
        """Return the body's JSON, None where there is none; raises AskError."""
        if len(self.body) > JSON_BYTES_MAX:
            raise AskError(f"the answer has more than {JSON_BYTES_MAX} bytes of JSON")
        try:
            return json.loads(self.body) if self.body.strip() else None
        except (ValueError, RecursionError) as error:
            raise AskError(f"the answer is not JSON ({type(error).__name__})") from error


class Asker:
    """Asks servers within `seconds_max`; `close` ends its connections."""

    def __init__(self, seconds_max: float, *, bytes_max: int = ANSWER_BYTES_MAX) -> None:
        self._seconds_max, self._bytes_max = seconds_max, bytes_max
        self._connect_seconds_max = min(CONNECT_SECONDS_MAX, seconds_max)
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close its connections."""
        if self._session is not None:
            await self._session.close()

    async def ask(
        self,
        method: str,
        address: str,
        *,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | bool = True,
    ) -> WebAnswer:
        """Return an answer of whatever status, a redirect too; raises AskError."""
        given: dict[str, Any] = {"data": data, "headers": {"Accept-Encoding": "identity", **(headers or {})}}
        try:
            url = URL(address, encoded=_PLAIN.fullmatch(address) is not None)
            if url.scheme not in ("http", "https"):
                raise AskError("only http:// and https:// are asked")
            if url.user is not None or url.password is not None:  # a login in the address
                given["auth"] = aiohttp.BasicAuth(url.user or "", url.password or "")
                url = url.with_user(None)
            async with (
                asyncio.timeout(self._seconds_max),
                self._opened().request(method, url, allow_redirects=False, ssl=tls, **given) as answer,
            ):
                body = await self._body(answer)
                return WebAnswer(answer.status, body, answer.headers.get("Content-Type", ""), answer.headers)
        except aiohttp.ConnectionTimeoutError as error:  # a TimeoutError, too
            raise AskError(f"no connection within {self._connect_seconds_max:g} s", is_unreached=True) from error
        except TimeoutError as error:
            raise AskError(f"no whole answer within {self._seconds_max:g} s") from error
        except aiohttp.ClientConnectorError as error:
            raise AskError(why_unreached(error), is_unreached=True) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise AskError(_words(error)) from error

    async def _body(self, answer: aiohttp.ClientResponse) -> bytes:
        parts, size = [], 0
        async for part in answer.content.iter_any():
            parts.append(part)
            size += len(part)
            if size > self._bytes_max:
                raise AskError(f"the answer has more than {self._bytes_max} bytes")
        return b"".join(parts)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            limit = aiohttp.ClientTimeout(total=self._seconds_max, connect=self._connect_seconds_max)
            self._session = aiohttp.ClientSession(
                timeout=limit, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._session


def _words(error: Exception) -> str:
    """Return what went wrong without the address: a webhook's path is a secret."""
    if isinstance(error, aiohttp.InvalidURL):
        return "the address is invalid"
    if isinstance(error, aiohttp.ClientResponseError):
        return f"the answer is not HTTP: {error.message}"
    return why_unreached(error)
