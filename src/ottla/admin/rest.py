"""Asks a Connect worker, or a schema registry, over REST, and says in one line what is wrong where it refuses."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ottla.base import OttlaError

if TYPE_CHECKING:
    import ssl
    from http.client import HTTPResponse

__all__ = ["RestError", "Worker"]

ANSWER_SECONDS_MAX = 120.0


class RestError(OttlaError):
    """A worker that refuses, or does not answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


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
        return json.loads(text) if text else None

    def text(self, path: str, method: str = "GET", body: Any = None, *, take: Collection[int] = ()) -> str:
        """Return the text of an answer; see `ask`."""
        import urllib.error
        import urllib.request

        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url.rstrip("/") + path, data, self._headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=self._answer_s, context=self._context) as answer:
                return str(answer.read(), "utf-8", "replace")
        except urllib.error.HTTPError as error:
            if error.code in take:
                return str(error.read(), "utf-8", "replace")
            raise RestError(_message(error.read()) or f"HTTP {error.code}", error.code) from error
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise RestError(
                f"no {self._what} answers at {self.url}: {reason}; start one, or name another with --url"
            ) from error

    @contextmanager
    def opened(self, method: str, path: str, body: Any = None, *, accept: str) -> Iterator[HTTPResponse]:
        """Yield an answer to be read as it comes, for as long as it takes; raises RestError with the server's message."""
        import urllib.error
        import urllib.request

        data = None if body is None else json.dumps(body).encode()
        headers = {**self._headers, "Accept": accept}
        request = urllib.request.Request(self.url.rstrip("/") + path, data, headers, method=method)
        try:
            answer = urllib.request.urlopen(request, context=self._context)
        except urllib.error.HTTPError as error:
            raise RestError(_message(error.read()) or f"HTTP {error.code}", error.code) from error
        except (OSError, ValueError) as error:
            raise RestError(f"no {self._what} answers at {self.url}: {getattr(error, 'reason', error)}") from error
        with answer:
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


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace")[:500]
