"""Every request's way: who asks, whether this server may answer, and errors as ksqlDB's clients read them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from ottla.base import KafkaError, OttlaError
from ottla.http import FORM, HttpError, Reply, Request, StreamedReply
from ottla.registry import Logins
from ottla.service import Dialect, Endpoint, Limits
from ottla.sql import SqlError
from ottla.sql.answers import compact_text
from ottla.sql_server.errors import BAD_STATEMENT, SERVER_ERROR, SHUTTING_DOWN, UNAUTHORIZED, StatementError
from ottla.sql_server.server import SqlServer
from ottla.sql_server.turns import TOO_LARGE

__all__ = ["EARLY", "V1", "Handle", "Serving", "admission", "answer", "sql_dialect", "utf8"]

log = logging.getLogger(__name__)
V1, PLAIN = "application/vnd.ksql.v1+json", "application/json"
TYPES = (V1, "application/vnd.ksqlapi.delimited.v1", PLAIN, FORM)
"""Types of bodies; a form's, since ksqlDB's own documentation asks with `curl -d`. No browser may send that."""
EARLY = frozenset({"early"})
"""The tag of what is answered before the server is ready."""
Handle = Callable[[Request], Awaitable[Reply | StreamedReply]]


def sql_dialect(limits: Limits) -> Dialect:
    """Return what every address of a server has, as ksqlDB's."""
    return Dialect(TYPES, error_body, limits)


def answer(request: Request, value: Any, status: int = 200) -> Reply:
    """Return JSON in the type of content that the client takes."""
    accepted = request.headers.get("Accept", "")
    kind = PLAIN if PLAIN in accepted and V1 not in accepted else V1
    return Reply(utf8(compact_text(value)), kind, status)


def utf8(text: str) -> bytes:
    """A text as it is sent; half a character, which JSON can escape and nobody can send, is a question mark as in Java."""
    return text.encode(errors="replace")


def admission(logins: Logins) -> Callable[[Request], Reply | None]:
    """Return what a guard asks of each request."""

    def admit(request: Request) -> Reply | None:
        if logins.principal(request) is not None:
            return None
        refused = answer(request, StatementError(UNAUTHORIZED, "You are not authenticated.").body(), 401)
        return Reply(refused.body, refused.content_type, 401, {"WWW-Authenticate": logins.challenge})

    return admit


def error_body(error: HttpError) -> Reply:
    """Return a refusal of the server's, before an address is asked, as ksqlDB's clients read it."""
    told = StatementError(error.error_code if error.error_code > 999 else error.error_code * 100, error.message)
    return Reply(utf8(compact_text(told.body())), V1, error.status)


class Serving:
    """Makes handlers of endpoints."""

    def __init__(self, server: SqlServer) -> None:
        self._server = server
        self.requests = 0
        self.errors = 0

    def bind(self, endpoint: Endpoint[Handle]) -> Handle:
        """Return what answers an endpoint's requests, once this server is ready unless the endpoint is there before."""
        handle = endpoint.handle

        async def when_ready(request: Request) -> Reply | StreamedReply:
            if not self._server.is_ready:
                raise StatementError(SHUTTING_DOWN, "The server is shutting down, or is not ready yet")
            return await handle(request)

        return self._answering(handle if endpoint.tags & EARLY else when_ready)

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
