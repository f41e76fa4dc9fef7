"""`/ws/query`: a query whose rows are messages of a WebSocket, as ksqlDB's console asks it.

`?request={"ksql": …, "streamsProperties": {…}}` says the query. The first message is the columns, each further one a row, or
what went wrong; PRINT's are lines. Nothing is read while the client takes nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from ottla.background import awaited
from ottla.base import OttlaError
from ottla.http import HttpError, Request, Socket
from ottla.sql.answers import RowWriter
from ottla.sql.commands.entities import schema_info
from ottla.sql.tree import statements as s
from ottla.sql_server.errors import BAD_REQUEST, StatementError
from ottla.sql_server.rest.bodies import statement_body
from ottla.sql_server.rest.queries import Queries, failure_of
from ottla.sql_server.server import SqlServer

__all__ = ["SocketQueries"]

REQUEST_BYTES_MAX = 64 << 10
"""Of the request in the address."""


class SocketQueries:
    """Answers queries over sockets."""

    def __init__(self, server: SqlServer, queries: Queries) -> None:
        self._server, self._queries = server, queries

    def admit(self, _request: Request) -> None:
        """Raise HttpError while the server takes nothing."""
        if not self._server.is_ready:
            raise HttpError(503, "The server is shutting down, or is not ready yet")

    async def handle(self, request: Request, socket: Socket) -> None:
        """Answer a query until it ends, or the client is gone."""
        gone = awaited(_closed(socket))
        try:
            messages = self._messages(request.query.get("request", ""))
            try:
                while (text := await _unless(gone, messages)) is not None:
                    if not await socket.send(text):
                        return
            finally:
                await messages.aclose()
        except OttlaError as error:
            await socket.send(_compact(failure_of(error).body()))
        finally:
            gone.cancel()
            await socket.close()

    async def _messages(self, asked: str) -> AsyncGenerator[str, None]:
        if not asked or len(asked) > REQUEST_BYTES_MAX:
            raise StatementError(BAD_REQUEST, 'The address has no query, or too long a one: ?request={"ksql": "…;"}')
        body = statement_body(asked.encode(errors="replace"), "ksql", "streamsProperties")
        statement, text = await self._queries.parsed(body)
        if isinstance(statement, s.PrintTopic):
            lines = await self._queries.printed(statement, text)
            try:
                async for line in lines:
                    yield line
            finally:
                await lines.aclose()
            return
        begun = await self._queries.begun(statement, text, body)
        writer = RowWriter(begun.header.types)
        try:
            pairs = zip(begun.header.names, begun.header.types, strict=True)
            yield _compact([{"name": name, "schema": schema_info(type_)} for name, type_ in pairs])
            for row in begun.first or []:
                yield _row(writer, row)
            async for batch in begun.rows:
                for row in batch:
                    yield _row(writer, row)
        finally:
            await begun.rows.aclose()


async def _closed(socket: Socket) -> None:
    """Return when the client has closed the socket; what it says meanwhile means nothing."""
    while await socket.receive() is not None:
        pass


async def _unless(gone: asyncio.Future[None], messages: AsyncGenerator[str, None]) -> str | None:
    """The next message, None behind the last, or when nobody waits for it."""
    task: asyncio.Future[str | None] = awaited(anext(messages, None))
    waiting: set[asyncio.Future[Any]] = {task, gone}
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return None
    return task.result()


def _row(writer: RowWriter, row: tuple[object, ...]) -> str:
    return f'{{"row":{{"columns":{writer.text(row)}}}}}'


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
