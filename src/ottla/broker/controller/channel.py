"""Asking the active controller: in this process where the node leads the quorum, else over its controller listener.

Every attempt looks at the newest leader that the quorum knows. A controller that is none any more, a connection that is
refused or breaks, and an election under way are retried with short back-off until the time is over. A request whose
connection breaks may have been carried out, and is then sent again, as Kafka's brokers do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from ottla import __version__
from ottla.background import awaited
from ottla.base import ErrorCode, KafkaError, LeaderEpoch, NodeId
from ottla.broker.requests.error_counts import has_moved
from ottla.client import Address, Connection
from ottla.net import Network, ReceiveBuffer

if TYPE_CHECKING:
    from ottla.broker.quorum.driver import Quorum

__all__ = ["ASK_TIMEOUT_MS", "ControllerChannel"]

ASK_TIMEOUT_MS = 30_000
"""How long a question may take with all its retries: Kafka's `request.timeout.ms`."""
CONNECT_S = 2.0
"""For one connection: a controller that was replaced meanwhile must not be waited for."""
BACKOFF_S = 0.02
BACKOFF_MAX_S = 0.25
"""Between two attempts; it doubles with each. An election takes tens of milliseconds, so looking often is worth it."""

Lane = tuple[int, int]
"""An API's key, and that of the API that it forwards."""
NOTHING = -1

AnswerHere = Callable[[Any], Awaitable[Any]]
"""Answers a message as this node's own controller listener would."""

MOVED = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    }
)
"""What says that somebody else has to be asked, or the same one again a little later: nodes get new keys one by one."""


class ControllerChannel:
    """This node's way to the active controller.

    There is one connection per API, and per API that is forwarded, so that a slow answer holds up no other API: a
    reassignment that waits for a broker's session must not keep topics from being created.
    """

    def __init__(self, *, node_id: NodeId, quorum: Quorum, network: Network, loop: asyncio.AbstractEventLoop) -> None:
        self._node_id = node_id
        self._quorum = quorum
        self._network = network
        self._loop = loop
        self._answer_here: AnswerHere | None = None
        self._connections: dict[Lane, Connection] = {}
        self._opening: dict[Lane, asyncio.Task[Connection]] = {}
        self._buffer = ReceiveBuffer()
        self._closed = False
        self._moved = asyncio.Event()
        quorum.subscribe_leadership(self._leadership_changed)

    def serve(self, answer_here: AnswerHere) -> None:
        """Take what answers in this process while the node leads the quorum."""
        self._answer_here = answer_here

    @property
    def is_here(self) -> bool:
        """True while this node is the active controller."""
        return self._quorum.is_leader

    async def ask(self, message: Any, *, timeout_ms: int = ASK_TIMEOUT_MS, forwarded: int = NOTHING) -> Any:
        """Return the active controller's response; raises KafkaError, REQUEST_TIMED_OUT where there was none in time.

        `forwarded` is the key of the API whose request an envelope holds.
        Errors in the response are the caller's, except those that say that the controller has moved.
        """
        deadline = self._loop.time() + timeout_ms / 1000
        backoff_s = BACKOFF_S
        reason = "no controller is known"
        while not self._closed:
            left_s = deadline - self._loop.time()
            if left_s <= 0:
                break
            try:
                response = await self._attempt(message, left_s, (int(message.API_KEY), forwarded))
            except KafkaError as error:
                if error.code not in MOVED:
                    raise
                reason = error.message
            else:
                if not has_moved(response):
                    return response
                reason = "the node that was asked is not the controller"
            await self._pause(min(backoff_s, deadline - self._loop.time()))
            backoff_s = min(2 * backoff_s, BACKOFF_MAX_S)
        if self._closed:
            reason = "the node is shutting down"
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"The controller did not answer in time: {reason}.")

    async def close(self) -> None:
        """Hang up; questions under way fail."""
        self._closed = True
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        for each in self._connections.values():
            each.close()
        self._connections.clear()

    async def _pause(self, seconds: float) -> None:
        """Wait for a moment, or until somebody else leads the quorum."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0)):
                await self._moved.wait()

    # -- one attempt

    async def _attempt(self, message: Any, left_s: float, lane: Lane) -> Any:
        if self._quorum.is_leader and self._answer_here is not None:
            async with _within(left_s):
                return await self._answer_here(message)
        connection = await self._connect(lane, left_s)
        version = connection.version_for(message.API_KEY)
        return await connection.request(message, version, timeout_s=left_s)

    async def _connect(self, lane: Lane, left_s: float) -> Connection:
        """Return an open connection to the newest leader; raises KafkaError where there is none or it cannot be reached."""
        address = self._controller()
        task = self._opening.get(lane)
        if task is None:
            open_ = self._connections.get(lane)
            if open_ is not None and not open_.closed and open_.address == address:
                return open_
            if open_ is not None:
                open_.close()
            task = awaited(self._open(lane, address))
            self._opening[lane] = task
            task.add_done_callback(lambda _: self._opening.pop(lane, None))
        async with _within(left_s):
            return await asyncio.shield(task)  # one caller's end must not fail the others

    async def _open(self, lane: Lane, address: Address) -> Connection:
        connection = await Connection.open(
            self._network,
            address,
            client_id=f"broker-{self._node_id}",
            software_version=__version__,
            timeout_s=CONNECT_S,
            buffer=self._buffer,
        )
        self._connections[lane] = connection
        return connection

    def _controller(self) -> Address:
        leader, _ = self._quorum.leader
        if leader is None or leader == self._node_id:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "no controller is known")
        found = self._quorum.controller_endpoint(leader)
        if found is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"nobody knows where controller {leader} listens")
        return Address(found.host, found.port)

    def _leadership_changed(self, leader: NodeId | None, epoch: LeaderEpoch, is_self: bool) -> None:
        """Ask the new leader at once: whoever waits for the old one's answer may wait for long."""
        if leader is None:
            return
        found = None if is_self else self._quorum.controller_endpoint(leader)
        for each in self._connections.values():
            if found is None or each.address != Address(found.host, found.port):
                each.close()
        self._moved.set()
        self._moved = asyncio.Event()


@asynccontextmanager
async def _within(seconds: float) -> AsyncIterator[None]:
    """End what takes longer with a KafkaError."""
    try:
        async with asyncio.timeout(max(seconds, 0)):
            yield
    except TimeoutError:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The controller did not answer in time.") from None
