"""A task's client of its Kafka cluster: the task's thread waits in `poll` or `put`, while requests and their answers go on.

`TaskClient` is what a task's parts ask of it. `ClientThread` is the one that tasks have: a `Client` in an event loop of its
own thread. A model of a cluster has one that needs no thread and no time (`model_client.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from types import MappingProxyType, TracebackType
from typing import Any, Protocol, Self, TypeVar

from ottla.background import supervise_thread
from ottla.client import Client, Limits, client_network

__all__ = ["ClientThread", "Condition", "LazyClient", "MakeTaskClient", "TaskClient"]

T = TypeVar("T")
CLOSE_SECONDS_MAX = 10.0
NO_SECURITY: Mapping[str, str] = MappingProxyType({})
"""Connections in clear, by nobody."""


class Condition(Protocol):
    """A lock for what the task's thread and the loop both change, and a wait for changes; see `threading.Condition`."""

    def __enter__(self) -> Any: ...

    def __exit__(self, *_error: Any) -> Any: ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait in the task's thread until something has changed, or for so many seconds."""
        ...

    def notify_all(self) -> None:
        """Say that something has changed."""
        ...


class TaskClient(Protocol):
    """A `Client`, and the event loop that its requests run in.

    Methods are for the task's thread; coroutines and callbacks given to them run in the loop.
    """

    client: Client
    """For coroutines that run in the loop."""

    def now(self) -> float:
        """Return the seconds that waits and their ends are counted in."""
        ...

    def condition(self) -> Condition:
        """Make a condition for what a part of the task shares with its own half in the loop."""
        ...

    def call_soon(self, call: Callable[[], object]) -> None:
        """Have a function called in the loop, soon; returns before that."""
        ...

    def begin(self, call: Coroutine[Any, Any, T]) -> Future[T] | asyncio.Task[T]:
        """Start a coroutine in the loop and return its future; what the coroutine raises stays in the future."""
        ...

    def run(self, call: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run a coroutine in the loop and return what it returns, or raise what it raises.

        After `timeout_s` seconds it is cancelled, and TimeoutError is raised.
        """
        ...

    def close(self) -> None:
        """Close every connection and end the loop; calls under way are cancelled."""
        ...


class MakeTaskClient(Protocol):
    """Makes a client of the cluster with these bootstrap servers, under a client id.

    `security` are `security.protocol`, `ssl.…` and `sasl.…`; raises ConfigError for what cannot be honoured.
    """

    def __call__(
        self,
        bootstrap: str,
        client_id: str,
        /,
        *,
        request_timeout_ms: int = 30_000,
        security: Mapping[str, str] = NO_SECURITY,
    ) -> TaskClient: ...


class ClientThread:
    """A `TaskClient` whose loop runs in a daemon thread; `close` it, or use it as a context manager.

    Raises ConfigError for a `security` that cannot be honoured.
    """

    def __init__(
        self,
        bootstrap: str,
        client_id: str,
        *,
        request_timeout_ms: int = 30_000,
        security: Mapping[str, str] = NO_SECURITY,
    ) -> None:
        limits = Limits.of_task(request_timeout_ms)
        self.client = Client(bootstrap, client_id=client_id, limits=limits, network=client_network(security))
        """See `TaskClient`."""
        self.loop = asyncio.new_event_loop()
        self._thread = supervise_thread(self._run, name=f"client {client_id}", serves="a task's client")

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    def now(self) -> float:
        """See `TaskClient`."""
        return time.monotonic()

    def condition(self) -> Condition:
        """See `TaskClient`."""
        return threading.Condition()

    def call_soon(self, call: Callable[[], object]) -> None:
        """See `TaskClient`."""
        self.loop.call_soon_threadsafe(call)

    def begin(self, call: Coroutine[Any, Any, T]) -> Future[T]:
        """See `TaskClient`."""
        return asyncio.run_coroutine_threadsafe(call, self.loop)

    def run(self, call: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """See `TaskClient`; not for the client's thread itself, which would wait for itself."""
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
    """A `TaskClient` that is made when it is first asked for; `close` it."""

    def __init__(
        self,
        bootstrap: str,
        client_id: str,
        *,
        request_timeout_ms: int = 30_000,
        security: Mapping[str, str] = NO_SECURITY,
        make_client: MakeTaskClient = ClientThread,
    ) -> None:
        self._given = (bootstrap, client_id)
        self._request_timeout_ms, self._security, self._make_client = request_timeout_ms, security, make_client
        self._task_client: TaskClient | None = None

    def __call__(self) -> TaskClient:
        """Return the client, made now if there is none."""
        if self._task_client is None:
            self._task_client = self._make_client(
                *self._given, request_timeout_ms=self._request_timeout_ms, security=self._security
            )
        return self._task_client

    def close(self) -> None:
        """Close the client, if there is one; another is made when it is asked for again."""
        task_client, self._task_client = self._task_client, None
        if task_client is not None:
            task_client.close()
