"""Taking in stores that other configurations name: read by a thread within a time, since their files may lie anywhere.

A file system that does not answer stopped every request of the broker. Where the configuration has changed again while
stores were being read, the later one counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ottla.background import apart, supervise
from ottla.base import ErrorCode, KafkaError
from ottla.config import BrokerConfig

__all__ = ["StoreRenewals", "read_in_time"]

T = TypeVar("T")

READ_SECONDS_MAX = 10.0
"""How long files may take that a change of the configuration names."""


async def read_in_time(call: Callable[[], T], *, what: str) -> T:
    """Return what a call returns that reads files; raises INVALID_REQUEST where they do not come, and what it raises."""
    try:
        return await apart(call, seconds=READ_SECONDS_MAX, name=f"read {what}", serves="a change of the configuration")
    except TimeoutError as error:
        text = f"files of the {what} cannot be read: {error}; nothing was changed"
        raise KafkaError(ErrorCode.INVALID_REQUEST, text) from error


class StoreRenewals:
    """Brings somebody's stores to the latest configuration, one after the other."""

    def __init__(self, renew: Callable[[BrokerConfig, Callable[[], bool]], Awaitable[None]], *, serves: str) -> None:
        """`renew` is told the configuration, and how to find out that it is the latest one still; it logs what it meets."""
        self._renew = renew
        self._serves = serves
        self._wanted: BrokerConfig | None = None
        self._running: asyncio.Task[None] | None = None

    def want(self, config: BrokerConfig) -> None:
        """Begin, or go on with this one."""
        self._wanted = config
        if self._running is None or self._running.done():
            self._running = supervise(self._run(), name="renew stores", serves=self._serves)

    async def settled(self) -> None:
        """Return when nothing is being read any more."""
        if self._running is not None:
            await asyncio.wait((self._running,))

    async def _run(self) -> None:
        while (config := self._wanted) is not None:
            await self._renew(config, lambda config=config: self._wanted is config)  # type: ignore[misc]
            if self._wanted is config:
                self._wanted = None
