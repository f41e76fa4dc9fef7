"""`/inserts-stream`: lines of JSON in, an acknowledgement for each out, while more of them come."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any

from ottla.base import OttlaError
from ottla.http import Request, StreamedReply, line_of
from ottla.sql import SqlError
from ottla.sql.answers import inserted_fields
from ottla.sql_server.errors import BAD_REQUEST, BAD_STATEMENT, SERVER_ERROR, StatementError
from ottla.sql_server.rest.bodies import json_object
from ottla.sql_server.server import SqlServer

__all__ = ["Inserts"]

DELIMITED = "application/vnd.ksqlapi.delimited.v1"
LINE_BYTES_MAX = 1 << 20


class Inserts:
    """Takes rows."""

    def __init__(self, server: SqlServer) -> None:
        self._server = server

    async def stream(self, request: Request) -> StreamedReply:
        """`POST /inserts-stream`: the first line names the target."""
        head = json_object(await _line(request))
        target = head.get("target")
        if not isinstance(target, str):
            raise StatementError(BAD_REQUEST, 'The first line names the stream: {"target": "…"}')
        name = target[1:-1] if len(target) > 1 and target[0] == target[-1] == "`" else target.upper()
        if name not in self._server.state.catalogue.sources:
            raise StatementError(BAD_STATEMENT, f"Cannot insert values into an unknown stream/table: {name}", target)
        is_array = "application/json" in request.headers.get("Accept", "")
        return StreamedReply(
            self._acknowledged(request, name, is_array=is_array), "application/json" if is_array else DELIMITED
        )

    async def _acknowledged(self, request: Request, name: str, *, is_array: bool) -> AsyncGenerator[bytes, None]:
        sequence = 0
        if is_array:
            yield b"["
        while True:
            try:
                line = await _line(request)
                if not line:
                    break
                if not line.strip():
                    continue
                make = partial(inserted_fields, name, json_object(line), self._server.state.catalogue)
                await self._server.inserting.write(make)
                told: dict[str, Any] = {"status": "ok", "seq": sequence}
            except StatementError as error:
                told = _failure(sequence, error.code, error.message)
            except SqlError as error:
                told = _failure(sequence, BAD_STATEMENT, str(error))
            except OttlaError as error:
                told = _failure(sequence, SERVER_ERROR, str(error))
            text = json.dumps(told, separators=(",", ":"))
            yield f"{',' if is_array and sequence else ''}{text}\n".encode()
            if told["status"] != "ok":
                break
            sequence += 1
        if is_array:
            yield b"]"


def _failure(sequence: int, code: int, message: str) -> dict[str, Any]:
    return {"status": "error", "seq": sequence, "error_code": code, "message": message}


async def _line(request: Request) -> bytes:
    """The next line of the body, nothing at its end; raises StatementError for one that is too long."""
    try:
        line = await line_of(request)
    except ValueError:
        raise StatementError(BAD_REQUEST, "A line of the request is too long") from None
    if len(line) > LINE_BYTES_MAX:
        raise StatementError(BAD_REQUEST, f"A line of the request is longer than {LINE_BYTES_MAX} bytes")
    return line
