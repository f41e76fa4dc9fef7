"""`IssuerKeys`: the keys of an issuer of access tokens, fetched at the start, when they are old, and when one is missing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ottla.background import supervise
from ottla.base import ConfigError, OttlaError
from ottla.security.sasl import Jwks

__all__ = ["IssuerKeys"]

log = logging.getLogger(__name__)


class IssuerKeys:
    """The one owner of an issuer's keys; whoever checks a token by them calls `plan` afterwards."""

    def __init__(
        self,
        keys: Jwks,
        read: Callable[[], Awaitable[bytes]],
        *,
        url: str,
        key: str,
        whose: str,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`read` raises OttlaError; `key` is the setting that has the URL, and `whose` begins what the log says."""
        self.keys = keys
        self._read, self._url, self._key, self._whose, self._loop = read, url, key, whose, loop
        self._timer: asyncio.TimerHandle | None = None
        self._reading: asyncio.Task[None] | None = None
        self._is_closed = False

    def time_ms(self) -> int:
        """Return the time that keys are kept by: no setting of clocks makes those of an issuer last longer."""
        return int(self._loop.time() * 1000)

    async def start(self) -> None:
        """Fetch the keys; raises ConfigError where a file has none, while an issuer may be reached later."""
        try:
            self.keys.fetched(await self._fetched(), self.time_ms())
        except ConfigError:
            raise
        except OttlaError as error:
            if self._url.startswith("file:"):
                raise ConfigError(self._key, self._url, str(error)) from error
            self._failed(error)
        self.plan()

    def close(self) -> None:
        """Fetch no more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._reading is not None:
            self._reading.cancel()

    def plan(self) -> None:
        """Look at the keys again when they are due."""
        if self._is_closed or self._reading is not None:
            return
        now_ms = self.time_ms()
        if self._timer is not None:
            self._timer.cancel()
        wait_s = max(0, self.keys.due_ms(now_ms) - now_ms) / 1000
        self._timer = self._loop.call_later(wait_s, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._reading = supervise(
            self._read_again(), name="read an issuer's keys", serves="logins by tokens", loop=self._loop
        )

    async def _read_again(self) -> None:
        try:
            data = await self._fetched()
            self.keys.fetched(data, self.time_ms())
        except OttlaError as error:
            self._failed(error)
        finally:
            self._reading = None
            self.plan()

    async def _fetched(self) -> bytes:
        """Return what stands where the keys are; raises OttlaError, counted as a failure."""
        try:
            return await self._read()
        except OttlaError:
            self.keys.failed(self.time_ms())
            raise

    def _failed(self, error: OttlaError) -> None:
        log.warning("%s has no new keys of its issuer: %s", self._whose, error)
