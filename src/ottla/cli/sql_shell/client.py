"""A SQL server asked over HTTP: statements, and queries whose lines are read as they come."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from ottla.base import ExactDecoder, why_unreached

__all__ = ["ServerError", "SqlClient"]

SECONDS_MAX = 120.0
WORDS_MAX = 10_000
V1, DELIMITED = "application/vnd.ksql.v1+json", "application/vnd.ksqlapi.delimited.v1"


class ServerError(Exception):
    """What a server refuses, or that there is none."""

    def __init__(self, message: str, entities: list[dict[str, Any]] | None = None) -> None:
        super().__init__(message)
        self.entities = entities or []
        """Answers to the statements before the one that was refused."""


@dataclass(slots=True)
class SqlClient:
    """Asks the server at a URL, as a user where one is given; `properties` and `variables` are the session's."""

    url: str
    user: str | None = None
    password: str = field(default="", repr=False)
    token: str | None = field(default=None, repr=False)
    properties: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    """How an https address is checked; None for the authorities that the system knows."""
    answer_s: float = SECONDS_MAX
    """How long an answer may take; of a query that streams its rows each piece."""

    def info(self) -> dict[str, Any]:
        """Return what the server says of itself; raises ServerError."""
        from ottla.client import bounded

        with self._opened("GET", "/info", None) as answer:
            found: dict[str, Any] = json.loads(bounded(answer))["KsqlServerInfo"]
            return found

    def is_valid_property(self, name: str) -> bool:
        """Whether the server takes a property; raises ServerError with why not."""
        from ottla.client import bounded

        with self._opened("GET", f"/is_valid_property/{name}", None) as answer:
            return bool(json.loads(bounded(answer)))

    def execute(self, text: str) -> list[dict[str, Any]]:
        """Return the answers to statements; raises ServerError."""
        from ottla.client import bounded

        with self._opened("POST", "/ksql", self._body(text)) as answer:
            found: list[dict[str, Any]] = ExactDecoder(float).of_bytes(bounded(answer))
            return found

    def rows(self, text: str) -> list[list[Any]]:
        """Return the rows of a query that ends by itself; raises ServerError."""
        body = {"sql": text, "properties": self.properties, "sessionVariables": self.variables}
        with self._opened("POST", "/query-stream", body, accept=DELIMITED) as answer:
            found = [ExactDecoder(float).of_bytes(line) for line in answer][1:]
        failed = next((each for each in found if isinstance(each, dict)), None)
        if failed is not None:
            raise ServerError(str(failed.get("message")))
        return found

    @contextmanager
    def streamed(self, text: str) -> Iterator[Iterator[str]]:
        """Yield the lines of a query's answer (`/query`); leaving the block ends the query. Raises ServerError."""
        with self._opened("POST", "/query", self._body(text), is_endless=True) as answer:
            yield (line.decode() for line in answer)

    def _body(self, text: str) -> dict[str, Any]:
        return {"ksql": text, "streamsProperties": self.properties, "sessionVariables": self.variables}

    @contextmanager
    def _opened(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        *,
        is_endless: bool = False,
        accept: str = V1,
    ) -> Iterator[BinaryIO]:
        from ottla.client import web_answer

        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": accept, "Content-Type": V1}
        if self.user is not None:
            headers["Authorization"] = f"Basic {base64.b64encode(f'{self.user}:{self.password}'.encode()).decode()}"
        elif self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            seconds = None if is_endless else self.answer_s
            with web_answer(
                request, answer_s=seconds, total_s=seconds if accept == V1 else None, context=self.tls
            ) as answer:
                yield answer
        except urllib.error.HTTPError as error:
            raise _refusal(error) from None
        except urllib.error.URLError as error:
            words = f"The server at {self.url} does not answer: {why_unreached(error)}. `ottla sql server` starts one."
            raise ServerError(words) from None
        except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
            raise ServerError(f"The connection to {self.url} broke: {why_unreached(error)}") from None


def _refusal(error: urllib.error.HTTPError) -> ServerError:
    from ottla.client import bounded

    try:
        found = json.loads(bounded(error))
        return ServerError(str(found["message"])[:WORDS_MAX], found.get("entities"))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ServerError(f"The server answers {error.code} {error.reason}")
