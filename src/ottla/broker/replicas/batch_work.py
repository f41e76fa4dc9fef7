"""Whose batch the worker process takes next: there is one, and a steady stream of large batches would keep it from others.

Clients share its time by who they are (principal and host), and the connections of one client share what that has: next is
whoever has used the least of it since the worker was idle. Who comes late begins where the others are, so that nobody has
saved anything up. The process gets one batch at a time; who hangs up while his waits gives up his place, and one that is
worked on keeps the worker until it is done, whether anybody waits for it or not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from concurrent.futures import BrokenExecutor
from typing import Generic, TypeVar

from ottla.background import awaited
from ottla.base import ErrorCode, KafkaError, Offload
from ottla.broker.requests.connected import Connected

__all__ = ["BatchWork"]

log = logging.getLogger(__name__)

T = TypeVar("T")
K = TypeVar("K")
Client = tuple[str, str]


class BatchWork:
    """The queue before the worker process."""

    def __init__(self) -> None:
        self._waiting: list[_Job] = []
        self._is_working = False
        self._clients: _Shares[Client] = _Shares()
        self._connections: dict[Client, _Shares[int]] = {}

    async def run(self, who: Connected, offload: Offload, call: Callable[..., T], /, *args: object) -> T:
        """Run a call in the worker process when it is this connection's turn; raises what the call does.

        Raises REQUEST_TIMED_OUT, which clients answer by sending the batch again, where the worker has ended under it, and
        the next one, too: killed by hand, or by the system for want of memory.
        """
        loop = asyncio.get_running_loop()
        job = _Job((who.principal, who.client_host), who.client_port, loop.create_future())
        self._waiting.append(job)
        self._clients.join(job.client)
        self._connections.setdefault(job.client, _Shares()).join(job.connection)
        self._next()
        try:
            await job.turn
        except asyncio.CancelledError:
            if not job.turn.cancelled():  # it had its turn
                self._ended(job, 0.0)
            raise
        began_s = loop.time()
        work = awaited(offload.process(call, *args))
        work.add_done_callback(lambda done: self._worked(done, job, loop.time() - began_s))
        try:
            return await asyncio.shield(work)
        except BrokenExecutor as error:
            log.error("The worker process has ended twice under a batch of %s at %s", who.principal, who.client_host)
            text = "the process that looked into the batch was killed, twice; nothing was appended"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from error

    def _worked(self, done: asyncio.Future[T], job: _Job, spent_s: float) -> None:
        if not done.cancelled():
            done.exception()  # whoever waits for it has it
        self._ended(job, spent_s)

    def _ended(self, job: _Job, spent_s: float) -> None:
        self._is_working = False
        self._clients.spend(job.client, spent_s)
        self._connections[job.client].spend(job.connection, spent_s)
        self._next()

    def _next(self) -> None:
        """Let the next one work, where nobody does."""
        if self._is_working:
            return
        self._waiting = [each for each in self._waiting if not each.turn.done()]
        if not self._waiting:
            self._clients = _Shares()
            self._connections.clear()
            return
        client = self._clients.choose({each.client for each in self._waiting})
        waiting = [each for each in self._waiting if each.client == client]
        connection = self._connections[client].choose({each.connection for each in waiting})
        job = next(each for each in waiting if each.connection == connection)
        self._waiting.remove(job)
        self._connections = {each: found for each, found in self._connections.items() if self._clients.knows(each)}
        self._is_working = True
        job.turn.set_result(None)


class _Job:
    """One call that waits for its turn."""

    __slots__ = ("client", "connection", "turn")

    def __init__(self, client: Client, connection: int, turn: asyncio.Future[None]) -> None:
        self.client, self.connection, self.turn = client, connection, turn


class _Shares(Generic[K]):
    """Seconds that each of several has used."""

    __slots__ = ("_floor", "_used")

    def __init__(self) -> None:
        self._used: dict[K, float] = {}
        self._floor = 0.0
        """What the last one that was chosen had used: nobody who comes has used less."""

    def join(self, key: K) -> None:
        self._used[key] = max(self._used.get(key, 0.0), self._floor)

    def knows(self, key: K) -> bool:
        return key in self._used

    def spend(self, key: K, seconds: float) -> None:
        self._used[key] = max(self._used.get(key, 0.0), self._floor) + seconds

    def choose(self, waiting: Collection[K]) -> K:
        """Return who has used the least; forget those of whom nothing is to be remembered."""
        self._floor = min(self._used[each] for each in waiting)
        chosen = next(each for each, used in self._used.items() if used == self._floor and each in waiting)
        self._used = {
            each: used for each, used in self._used.items() if used > self._floor or each in waiting or each == chosen
        }
        return chosen
