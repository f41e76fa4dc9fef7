"""An HTTP server on an event loop of its own, in a thread, for programs that have none."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any

from ottla.http import BasicLogins, HttpServer, Reply, Request, Route, StreamedReply, json_reply

__all__ = ["HEALTH", "ThreadedServer"]

Handle = Callable[[Request], Awaitable[Reply | StreamedReply]]
HEALTH = "/health"
"""The path that is answered without a login."""
START_SECONDS_MAX = 10.0


class ThreadedServer:
    """Serves routes until `close`."""

    def __init__(
        self,
        routes: Iterable[Route],
        host: str,
        port: int,
        *,
        tls: Callable[[], ssl.SSLContext] | None = None,
        logins: BasicLogins | None = None,
    ) -> None:
        """Listen; raises OSError where the address is taken.

        With `tls`, which gives the context of the next connection, by HTTPS; with `logins` to these alone, but for health.
        """
        self._logins = logins
        self._loop = asyncio.new_event_loop()
        guarded = (
            each if each.path == HEALTH else replace(each, handle=self._behind_logins(each.handle)) for each in routes
        )
        self._server = HttpServer(guarded, admits="everybody who reaches it" if logins is None else "by a login")
        self._thread = threading.Thread(target=self._loop.run_forever, name="ottla-http", daemon=True)
        self._thread.start()
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

    def _behind_logins(self, handle: Handle) -> Handle:
        async def answer(request: Request) -> Reply | StreamedReply:
            if self._logins is not None and not self._logins.admit(request.headers.get("Authorization")):
                refused = json_reply(
                    {"error_code": 401, "message": "A name and its password are asked for."}, status=401
                )
                return replace(refused, headers={"WWW-Authenticate": 'Basic realm="ottla"'})
            return await handle(request)

        return answer
