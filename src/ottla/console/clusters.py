"""A cluster as the console reaches it: a client on the loop for figures and records, one in a thread to administer it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Concatenate, ParamSpec, TypeVar

from ottla.client import BlockingClient, Client, Limits, client_network

__all__ = ["Cluster", "ClusterSettings"]

P = ParamSpec("P")
T = TypeVar("T")

CLIENT_ID = "ottla-console"
LIMITS = Limits(connect_s=5.0, request_s=10.0, call_s=15.0, unreachable_s=3.0, unknown_topic_s=2.0)
"""A person waits: what is away is said after seconds."""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """A cluster by the name under which the console shows it: its brokers, and a client's properties."""

    name: str
    bootstrap: str
    properties: Mapping[str, str]


class Cluster:
    """The doors to one cluster; they open when first asked for."""

    def __init__(self, settings: ClusterSettings) -> None:
        self.name = settings.name
        self._settings = settings
        self._network = client_network(settings.properties)
        self.client = self._made()
        """For the running loop: figures, and whole batches of records."""
        self._thread = ThreadPoolExecutor(1, f"admin-{settings.name}")
        self._blocking: BlockingClient | None = None

    def _made(self) -> Client:
        return Client(self._settings.bootstrap, client_id=CLIENT_ID, limits=LIMITS, network=self._network)

    def reader(self) -> Client:
        """Return a client of its own for a search: closing it ends the search's reading at once."""
        return self._made()

    async def admin(
        self, function: Callable[Concatenate[BlockingClient, P], T], *arguments: P.args, **named: P.kwargs
    ) -> T:
        """Call a function of `ottla.admin`, one at a time, without holding the loop up; raises what it raises."""

        def call() -> T:
            if self._blocking is None:
                network = client_network(self._settings.properties)
                self._blocking = BlockingClient(
                    self._settings.bootstrap, client_id=CLIENT_ID, limits=LIMITS, network=network
                )
            return function(self._blocking, *arguments, **named)

        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def close(self) -> None:
        """Close both doors; what is asked for meanwhile fails."""
        await self.client.close()
        blocking = self._blocking
        if blocking is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, blocking.close)
        self._thread.shutdown(wait=False, cancel_futures=True)
