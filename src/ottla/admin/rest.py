"""Asks a Connect worker, or a schema registry, over REST, and says in one line what is wrong where it refuses."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ottla.base import OttlaError, why_unreached

if TYPE_CHECKING:
    import ssl
    from http.client import HTTPResponse
    from urllib.error import HTTPError
    from urllib.request import Request

__all__ = ["RestError", "Worker"]

ANSWER_SECONDS_MAX = 120.0
ERROR_BYTES_MAX = 1 << 20
WORDS_MAX = 10_000


class RestError(OttlaError):
    """A worker that refuses, or does not answer."""

    def __init__(self, message: str, status: int = 0, *, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason or message
        """What is wrong, without what to do about it."""


class Worker:
    """A worker at an address such as `http://localhost:8083`; https with the `ssl.…` of a client's properties.

    `http://name:password@host` logs in. `what` is what answers there, as a rule a worker.
    """

    def __init__(
        self,
        url: str,
        properties: Mapping[str, str] | None = None,
        *,
        what: str = "Connect worker",
        answer_s: float = ANSWER_SECONDS_MAX,
    ) -> None:
        """Raises ConfigError for stores that cannot be opened."""
        import base64
        import urllib.parse

        self._answer_s = answer_s
        self._what, self._headers = what, {"Content-Type": "application/json", "Accept": "application/json"}
        scheme, _, rest = (url if "://" in url else f"http://{url}").partition("://")
        login, at, place = rest.rpartition("@")
        if at:
            self._headers["Authorization"] = f"Basic {base64.b64encode(urllib.parse.unquote(login).encode()).decode()}"
        self.url = f"{scheme}://{place}"
        self._context: ssl.SSLContext | None = None
        if properties and self.url.lower().startswith("https://"):
            from ottla.security import Tls, TlsSettings

            self._context = Tls(TlsSettings.of(dict(properties)), server=False).context

    def ask(self, method: str, path: str, body: Any = None, *, take: Collection[int] = ()) -> Any:
        """Return the body of an answer, None where it is empty; raises RestError with the worker's message.

        `take` are statuses beyond 400 whose body is an answer, too.
        """
        text = self.text(path, method, body, take=take)
        try:
            return json.loads(text) if text else None
        except (ValueError, RecursionError) as error:
            raise RestError(f"the {self._what} at {self.url} does not answer in JSON: {text[:100]!r}") from error

    def text(self, path: str, method: str = "GET", body: Any = None, *, take: Collection[int] = ()) -> str:
        """Return the text of an answer; see `ask`."""
        import urllib.error

        from ottla.client import bounded, web_answer

        data = None if body is None else json.dumps(body).encode()
        request = self._request(path, data, self._headers, method)
        limit = self._answer_s
        try:
            with web_answer(request, answer_s=limit, total_s=limit, context=self._context) as answer:
                return str(bounded(answer), "utf-8", "replace")
        except urllib.error.HTTPError as error:
            if error.code in take:
                return str(bounded(error), "utf-8", "replace")
            raise _refused(error) from error
        except (OSError, ValueError) as error:
            reason = why_unreached(error)
            raise RestError(
                f"no {self._what} answers at {self.url}: {reason}; start one, or name another with --url",
                reason=reason,
            ) from error

    def _request(self, path: str, data: bytes | None, headers: Mapping[str, str], method: str) -> Request:
        """Return a request; raises RestError where the address is none."""
        import urllib.request

        try:
            return urllib.request.Request(self.url.rstrip("/") + path, data, dict(headers), method=method)
        except ValueError as error:
            raise RestError(f"{self.url} is no address of a {self._what}: {error}; write http://HOST:PORT") from error

    @contextmanager
    def opened(self, method: str, path: str, body: Any = None, *, accept: str) -> Iterator[HTTPResponse]:
        """Yield an answer to be read as it comes, for as long as it takes; raises RestError with the server's message."""
        import urllib.error

        from ottla.client import web_answer

        data = None if body is None else json.dumps(body).encode()
        headers = {**self._headers, "Accept": accept}
        request = self._request(path, data, headers, method)
        with ExitStack() as open_answers:
            try:
                answer = open_answers.enter_context(web_answer(request, answer_s=None, context=self._context))
            except urllib.error.HTTPError as error:
                raise _refused(error) from error
            except (OSError, ValueError) as error:
                raise RestError(f"no {self._what} answers at {self.url}: {why_unreached(error)}") from error
            yield answer

    @staticmethod
    def hang_up(answer: HTTPResponse) -> None:
        """End an answer that another thread reads; it fails there."""
        import socket

        raw = getattr(answer.fp, "raw", None)
        connection = getattr(raw, "_sock", None)
        if connection is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def connector(self, method: str, name: str, rest: str = "", body: Any = None) -> Any:
        """Ask about one connector; see `ask`."""
        import urllib.parse

        return self.ask(method, f"/connectors/{urllib.parse.quote(name, safe='')}{rest}", body)


def _refused(error: HTTPError) -> RestError:
    """Return what a server's refusal says; a redirect is one, too."""
    from ottla.client import bounded

    if 300 <= error.code < 400:
        place = error.headers.get("Location", "")
        return RestError(f"HTTP {error.code}: it sends to {place[:200]}, and logins go to no other address", error.code)
    try:
        body = bounded(error, ERROR_BYTES_MAX)
    except (OSError, ValueError) as broken:
        return RestError(f"HTTP {error.code}, and its words cannot be read: {broken}", error.code)
    return RestError(_message(body) or f"HTTP {error.code}", error.code)


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])[:WORDS_MAX]
    except (ValueError, KeyError, TypeError, RecursionError):
        return body.decode(errors="replace")[:500]
