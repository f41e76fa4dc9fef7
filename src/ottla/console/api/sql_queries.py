"""A query at a SQL server, its rows as frames for a tab: as fast as the tab takes them, and ended with it."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import urllib.error
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from ottla.admin import RestError, Worker
from ottla.background import supervise_thread
from ottla.console.exact import exact
from ottla.console.records.scans import Frame
from ottla.http import HttpError

__all__ = ["query_frames"]

ROWS_MAX, WAIT_SECONDS = 200, 0.1
"""Rows of a frame at most, and how long the first of them waits for others."""
OF_ONE_MAX, RUNNING_MAX = 8, 64
"""Queries under way at a time, of one user and in all."""
WAITING_MAX, UNIT_BYTES = 2000, 2048
"""Rows that wait for the tab, each larger one counted by its size: then the server waits."""
LINE_BYTES_MAX = 16 << 20
TEXT_CHARACTERS_MAX = 32 * 1024
"""Of a text in a row; what is cut says so."""
DELIMITED = "application/vnd.ksqlapi.delimited.v1"


class _Reading:
    """Reads a query's lines in a thread, and hands them to a loop."""

    def __init__(self, server: Worker, statement: str, properties: Mapping[str, str]) -> None:
        self._server, self._body = server, {"sql": statement, "properties": dict(properties)}
        self._loop = asyncio.get_running_loop()
        self.lines: asyncio.Queue[Any] = asyncio.Queue()
        self._room = threading.Semaphore(WAITING_MAX)
        self._answer: http.client.HTTPResponse | None = None
        self._is_over = False
        supervise_thread(self._run, name="console-sql", serves="a tab", failed=self._fail)

    def _fail(self, error: BaseException) -> None:
        self._tell((0, RestError(f"The console has failed: {type(error).__name__}; its log says why")))

    def _tell(self, item: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.lines.put_nowait, item)

    def _run(self) -> None:
        try:
            with self._server.opened("POST", "/query-stream", self._body, accept=DELIMITED) as answer:
                self._answer = answer
                while line := answer.readline(LINE_BYTES_MAX + 1):
                    if len(line) > LINE_BYTES_MAX:
                        raise RestError(f"a row has more than {LINE_BYTES_MAX >> 20} MiB: select less of it")
                    units = min(WAITING_MAX, 1 + len(line) // UNIT_BYTES)
                    for _ in range(units):
                        self._room.acquire()
                    if self._is_over:
                        return
                    if line.strip():
                        self._tell((units, _cut(json.loads(line, parse_float=str))))  # decimals keep their scale
                    else:
                        self.taken(units)
            self._tell((0, None))
        except (
            RestError,
            OSError,
            ValueError,
            RecursionError,
            http.client.HTTPException,
            urllib.error.URLError,
        ) as error:
            if not self._is_over:
                self._tell((0, error))

    def taken(self, units: int) -> None:
        """Say that a line of so many units was taken."""
        if units:
            self._room.release(units)

    def end(self) -> None:
        """End the query: the server sees that nobody listens any more."""
        self._is_over = True
        self._room.release(WAITING_MAX)
        answer = self._answer
        if answer is not None:
            self._server.hang_up(answer)


def _cut(value: Any) -> Any:
    """Return a row, or a part of one, with its texts cut where they are long."""
    if isinstance(value, str):
        rest = len(value) - TEXT_CHARACTERS_MAX
        return (
            value if rest <= 0 else f"{value[:TEXT_CHARACTERS_MAX]}… [cut after {TEXT_CHARACTERS_MAX} of {len(value)}]"
        )
    if isinstance(value, int):
        return exact(value)
    if isinstance(value, list):
        return [_cut(each) for each in value]
    return {name: _cut(each) for name, each in value.items()} if isinstance(value, dict) else value


_running: Counter[str] = Counter()
"""Queries under way, by who asked: each has a thread here, and work at the server."""


async def query_frames(
    server: Worker, statement: str, properties: Mapping[str, str], who: str
) -> AsyncGenerator[Frame, None]:
    """Yield `columns`, then `rows`, and `done` where the query ends by itself.

    Raises RestError in the server's words, HttpError where too many run.
    """
    if _running[who] >= OF_ONE_MAX or _running.total() >= RUNNING_MAX:
        raise HttpError(429, f"{OF_ONE_MAX} queries of one user run at a time, and {RUNNING_MAX} in all: end one first")
    _running[who] += 1
    reading = _Reading(server, statement, properties)
    try:
        rows: list[Any] = []
        held = 0
        while True:
            try:
                async with asyncio.timeout(WAIT_SECONDS if rows else None):
                    units, item = await reading.lines.get()
            except TimeoutError:
                yield {"type": "rows", "rows": rows}
                rows, held = [], 0
                continue
            reading.taken(units)
            if isinstance(item, list):
                rows.append(item)
                held += units
                if len(rows) < ROWS_MAX and held < WAITING_MAX:
                    continue
            if rows:
                yield {"type": "rows", "rows": rows}
                rows, held = [], 0
            if item is None:
                yield {"type": "done", "reason": "end"}
                return
            if isinstance(item, RestError):
                raise item
            if isinstance(item, Exception):
                raise RestError(f"the SQL server's answer broke off: {item}")
            if isinstance(item, dict) and "columnNames" in item:
                names, types = item["columnNames"], item.get("columnTypes") or []
                yield {"type": "columns", "names": names, "types": types, "id": item.get("queryId")}
            elif isinstance(item, dict) and item.get("message"):
                raise RestError(str(item["message"]))
    finally:
        reading.end()
        _running[who] -= 1
        if not _running[who]:
            del _running[who]
