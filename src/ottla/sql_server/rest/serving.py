"""Every request's way: who asks, whether this server may answer, and errors as ksqlDB's clients read them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from ottla.base import KafkaError, OttlaError
from ottla.http import Reply, Request, StreamedReply, json_reply
from ottla.registry import Logins
from ottla.sql import SqlError
from ottla.sql.answers import compact_text
from ottla.sql_server.errors import BAD_STATEMENT, SERVER_ERROR, SHUTTING_DOWN, UNAUTHORIZED, StatementError
from ottla.sql_server.server import SqlServer
from ottla.sql_server.turns import TOO_LARGE

__all__ = ["V1", "Handle", "Serving", "answer", "utf8"]

log = logging.getLogger(__name__)
V1, PLAIN = "application/vnd.ksql.v1+json", "application/json"
Handle = Callable[[Request], Awaitable[Reply | StreamedReply]]


def answer(request: Request, value: Any, status: int = 200) -> Reply:
    """Return JSON in the type of content that the client takes."""
    accepted = request.headers.get("Accept", "")
    kind = PLAIN if PLAIN in accepted and V1 not in accepted else V1
    return Reply(utf8(compact_text(value)), kind, status)


def utf8(text: str) -> bytes:
    """A text as it is sent; half a character, which JSON can escape and nobody can send, is a question mark as in Java."""
    return text.encode(errors="replace")


class Serving:
    """Makes handlers of endpoints."""

    def __init__(self, server: SqlServer, logins: Logins) -> None:
        self._server, self._logins = server, logins
        self.requests = 0
        self.errors = 0

    def open(self, handle: Handle) -> Handle:
        """Return what answers everybody."""
        return self._answering(handle)

    def guarded(self, handle: Handle) -> Handle:
        """Return what answers only to who may ask, once this server is ready."""

        async def admitted(request: Request) -> Reply | StreamedReply:
            if self._logins.principal(request) is None:
                refused = answer(request, StatementError(UNAUTHORIZED, "You are not authenticated.").body(), 401)
                return Reply(refused.body, refused.content_type, 401, {"WWW-Authenticate": self._logins.challenge})
            if not self._server.is_ready:
                raise StatementError(SHUTTING_DOWN, "The server is shutting down, or is not ready yet")
            return await handle(request)

        return self._answering(admitted)

    def _answering(self, handle: Handle) -> Handle:
        async def answered(request: Request) -> Reply | StreamedReply:
            self.requests += 1
            try:
                return await handle(request)
            except StatementError as error:
                found = error
            except SqlError as error:
                found = StatementError(BAD_STATEMENT, str(error), "")
            except KafkaError as error:
                log.warning("%s %s failed: %s", request.method, request.path, error)
                found = StatementError(SERVER_ERROR, str(error))
            except RecursionError:
                found = StatementError(BAD_STATEMENT, TOO_LARGE, "")
            except OttlaError as error:
                log.error("%s %s failed: %s", request.method, request.path, error)
                found = StatementError(SERVER_ERROR, str(error))
            self.errors += 1
            return answer(request, found.body(), found.status)

        return answered


async def missing(request: Request) -> Reply:
    """Answer for an address that is none."""
    return json_reply(StatementError(40400, f"Not found: {request.path}").body(), status=404)
