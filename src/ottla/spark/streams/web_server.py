"""An HTTP server on an event loop of its own, in a thread, for programs that have none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any

from ottla.background import supervise_thread
from ottla.http import Guard, Reply, Request, StreamedReply, json_reply
from ottla.service import Dialect, Endpoint, basic_admission, guard_of, routes_of, server_of
from ottla.spark.streams.web_door import HOSTS, Door

__all__ = ["DIALECT", "Handle", "ThreadedServer", "streams_guard"]

Handle = Callable[[Request], Awaitable[Reply | StreamedReply]]
DIALECT = Dialect()
START_SECONDS_MAX = 10.0


class ThreadedServer:
    """Serves endpoints until `close`."""

    def __init__(self, endpoints: Iterable[Endpoint[Handle]], door: Door) -> None:
        """Listen where the door says; raises OSError where the address is taken.

        With the door's `tls`, which gives the context of the next connection, by HTTPS; with its `logins` to these alone,
        but for health.
        """
        host, port, tls = door.host, door.port, door.tls
        self._loop = asyncio.new_event_loop()
        self._server = server_of(routes_of(endpoints, DIALECT, lambda each: each.handle), streams_guard(door), DIALECT)
        self._thread = supervise_thread(self._loop.run_forever, name="ottla-http", serves="an application's pages")
        try:
            self.port = self._run(lambda: self._server.listen(host, port, tls))
            shown = f"[{host}]" if ":" in host else host
            self.url = f"{'http' if tls is None else 'https'}://{shown}:{self.port}"
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop listening."""
        if self._loop.is_closed():
            return
        self._run(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, call: Callable[[], Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(START_SECONDS_MAX)


def streams_guard(door: Door) -> Guard:
    """Return the guard of a door."""
    return guard_of(
        basic_admission(door.logins, _refused),
        listeners=[door.host],
        hosts=door.hosts,
        is_protected=door.tls is not None or door.logins is not None,
        hosts_key=HOSTS,
    )


def _refused() -> Reply:
    refused = json_reply({"error_code": 401, "message": "A name and its password are asked for."}, status=401)
    return replace(refused, headers={"WWW-Authenticate": 'Basic realm="ottla"'})
