"""A client beside a task: the task's thread waits in `poll` or `put`, while requests and their answers go on.

`Link` is what a task's parts ask of it. `ClientThread` is the one that tasks have; a model of a cluster has one that needs
no thread and no time (`modelled.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from ottla.client import Client, Limits

__all__ = ["Changes", "ClientThread", "LazyClient", "Link", "MakeLink"]

T = TypeVar("T")
CLOSE_SECONDS_MAX = 10.0


class Changes(Protocol):
    """What both sides of a link change under a lock and wait for: a `threading.Condition`, or what stands for one."""

    def __enter__(self) -> Any: ...

    def __exit__(self, *_error: Any) -> Any: ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait in the task's thread until something has changed, or for so many seconds."""
        ...

    def notify_all(self) -> None:
        """Say that something has changed."""
        ...


class Link(Protocol):
    """A client, and the loop that its requests run in; methods are for the task's thread."""

    client: Client

    def now(self) -> float:
        """Return the seconds that waits and their ends are counted in."""
        ...

    def changes(self) -> Changes:
        """Make what a part of the task waits on for its own half in the loop."""
        ...

    def soon(self, call: Callable[[], object]) -> None:
        """Have a function called in the loop."""
        ...

    def begin(self, call: Coroutine[Any, Any, T]) -> Future[T] | asyncio.Task[T]:
        """Start a coroutine in the loop."""
        ...

    def run(self, call: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run a coroutine in the loop and return what it returns; TimeoutError gives it up."""
        ...

    def close(self) -> None:
        """Close every connection and end the loop; calls under way are cancelled."""
        ...


class MakeLink(Protocol):
    """Makes a link to the bootstrap servers, under a client id."""

    def __call__(self, bootstrap: str, client_id: str, /, *, request_timeout_ms: int = 30_000) -> Link: ...


class ClientThread:
    """Runs a `Client` in a daemon thread's event loop; `close` it."""

    def __init__(self, bootstrap: str, client_id: str, *, request_timeout_ms: int = 30_000) -> None:
        self.client = Client(bootstrap, client_id=client_id, limits=Limits.of_task(request_timeout_ms))
        """For coroutines that run in the thread."""
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=f"client {client_id}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    def now(self) -> float:
        """See `Link`."""
        return time.monotonic()

    def changes(self) -> Changes:
        """See `Link`."""
        return threading.Condition()

    def soon(self, call: Callable[[], object]) -> None:
        """See `Link`."""
        self.loop.call_soon_threadsafe(call)

    def begin(self, call: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine in the thread."""
        return asyncio.run_coroutine_threadsafe(call, self.loop)

    def run(self, call: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run a coroutine in the thread and return what it returns; TimeoutError gives it up. Not for the thread itself."""
        future = self.begin(call)
        try:
            return future.result(timeout_s)
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Close every connection and end the thread; calls under way are cancelled."""
        if not self._thread.is_alive():
            return
        with contextlib.suppress(TimeoutError):  # the thread is a daemon: it keeps nobody
            self.run(self._end(), CLOSE_SECONDS_MAX)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(CLOSE_SECONDS_MAX)

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class LazyClient:
    """A link that begins when it is first asked for; `close` it."""

    def __init__(
        self,
        bootstrap: str,
        client_id: str,
        *,
        request_timeout_ms: int = 30_000,
        make_link: MakeLink = ClientThread,
    ) -> None:
        self._given = (bootstrap, client_id)
        self._request_timeout_ms, self._make_link = request_timeout_ms, make_link
        self._link: Link | None = None

    def __call__(self) -> Link:
        """Return the link."""
        if self._link is None:
            self._link = self._make_link(*self._given, request_timeout_ms=self._request_timeout_ms)
        return self._link

    def close(self) -> None:
        """Close it, if it has begun; it begins anew when it is asked for again."""
        link, self._link = self._link, None
        if link is not None:
            link.close()
