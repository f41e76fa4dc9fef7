"""The tests' own client of a broker: calls that wait, from any thread, within a test's event loop too."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from ottla.background import supervise_thread
from ottla.client import BlockingClient, Client, Limits

__all__ = ["CLIENT_ID", "OwnClient"]

CLIENT_ID = "ottla-testing"
"""The client id of the tests' own requests: faults do not meet them."""


class OwnClient:
    """A client on an event loop of its own, in a thread; `close` it at the end."""

    def __init__(self, bootstrap_servers: str, limits: Limits) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = supervise_thread(self._loop.run_forever, name="the tests' client", serves=bootstrap_servers)
        client = Client(bootstrap_servers, client_id=CLIENT_ID, limits=limits)
        self.calls = BlockingClient.over(client, self._loop)
        """The calls, which wait for their answers."""

    def close(self) -> None:
        """Close the connections and end the thread."""
        if not self._loop.is_closed():
            self.calls.run(self.calls.client.close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
