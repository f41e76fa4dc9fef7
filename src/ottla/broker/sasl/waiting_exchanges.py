"""Exchanges that may wait for a file or a name server, as GSSAPI's do: on threads, a few at a time, and not for ever."""

from __future__ import annotations

import asyncio

from ottla.background import awaited
from ottla.base import Offload
from ottla.security.sasl import AuthenticationError, ServerExchange

__all__ = ["WaitingExchanges"]

THREADS_MAX = 2
"""Of the node's threads, most of which are for its disks."""
WAIT_S_MAX = 10.0
"""For a turn and the answer; a thread that still waits then keeps its turn, so that such threads do not pile up."""


class WaitingExchanges:
    """Calls the exchanges of a node that may wait."""

    def __init__(self, offload: Offload, *, wait_s_max: float = WAIT_S_MAX) -> None:
        self.wait_s_max = wait_s_max
        self._offload = offload
        self._turns = asyncio.Semaphore(THREADS_MAX)

    async def respond(self, exchange: ServerExchange, token: bytes) -> bytes:
        """Return an exchange's answer to a token; raises AuthenticationError, also where none came in time."""
        try:
            async with asyncio.timeout(self.wait_s_max):
                await self._turns.acquire()
                work = awaited(self._offload.thread(exchange.respond, token))
                work.add_done_callback(self._ended)
                return await asyncio.shield(work)
        except TimeoutError:
            raise AuthenticationError.of(
                exchange.mechanism, f"no answer was there after {self.wait_s_max:g} s"
            ) from None

    def _ended(self, work: asyncio.Future[bytes]) -> None:
        self._turns.release()
        if not work.cancelled():
            work.exception()  # whoever asked may be gone, and has then not looked
