"""The client for programs without an event loop: the same code on a private one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from ottla.background import awaited
from ottla.base import Millis, NodeId, Offset, TopicPartition
from ottla.client.batches import Appended, Fetched, FetchPosition, Isolation, Records
from ottla.client.client import CLIENT_ID_DEFAULT, Client, Limits
from ottla.client.cluster import Cluster
from ottla.client.coordinators import Coordinated
from ottla.client.group_offsets import CommittedOffset, ConsumerGroupMetadata, commit_offsets, committed_offsets
from ottla.client.offsets import ListedOffset
from ottla.net import Network

__all__ = ["BlockingClient", "Pending"]

T = TypeVar("T")


class Pending(Generic[T]):
    """A call under way; its answer may lie in the system's buffers until `result` collects it."""

    def __init__(self, wait: Callable[[asyncio.Task[T]], T], task: asyncio.Task[T]) -> None:
        self._wait = wait
        self._task = task

    @property
    def done(self) -> bool:
        """True once `result` will not wait."""
        return self._task.done()

    def result(self) -> T:
        """Wait for the answer and return it, or raise what the call raised."""
        return self._wait(self._task)

    def cancel(self) -> None:
        """Give the call up; what was already sent takes its effect all the same."""
        self._task.cancel()


class BlockingClient:
    """`Client` with calls that wait; not for several threads (but see `over`), and each process makes its own."""

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *,
        client_id: str = CLIENT_ID_DEFAULT,
        limits: Limits | None = None,
        network: Network | None = None,
        of_controllers: bool = False,
    ) -> None:
        self.client = Client(
            bootstrap, client_id=client_id, limits=limits, network=network, of_controllers=of_controllers
        )
        """The client underneath: make coroutines with it for `run` and `begin`."""
        self._loop = asyncio.new_event_loop()
        self._is_shared = False
        self._interrupt: BaseException | None = None
        """What a signal's handler has last raised in a call."""

    @classmethod
    def over(cls, client: Client, loop: asyncio.AbstractEventLoop) -> Self:
        """Return calls that wait, for any thread but the one that runs `loop`, of a client that lives on that loop.

        There is no `begin`, and `close` leaves the client to whoever has made it.
        """
        made = cls.__new__(cls)
        made.client, made._loop, made._is_shared = client, loop, True
        return made

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Wait for a call of `self.client`, or for any coroutine built on it."""
        if self._is_shared:
            return asyncio.run_coroutine_threadsafe(call, self._loop).result()
        return self._until_done(awaited(call, loop=self._loop))

    def begin(self, call: Coroutine[Any, Any, T]) -> Pending[T]:
        """Start a call and return at once: over an open connection its request has left when this returns.

        Nothing proceeds between two calls on this client, so do not let much time pass before `result` of something.
        """
        assert not self._is_shared, "only a client with a loop of its own begins calls"
        task = awaited(call, loop=self._loop)
        self._until_done(awaited(asyncio.sleep(0), loop=self._loop))
        return Pending(self._until_done, task)

    def request(
        self,
        message: Any,
        *,
        node: NodeId | None = None,
        leader_of: TopicPartition | None = None,
        controller: bool = False,
        coordinator_of: Coordinated | None = None,
        lowest: int = 0,
        highest: int | None = None,
    ) -> Any:
        """Send a request and return its response; see `Client.request`."""
        call = self.client.request(
            message,
            node=node,
            leader_of=leader_of,
            controller=controller,
            coordinator_of=coordinator_of,
            lowest=lowest,
            highest=highest,
        )
        return self.run(call)

    def coordinator(self, wanted: Coordinated) -> NodeId:
        """Return the node that coordinates a group or a transactional id; see `Client.coordinator`."""
        return self.run(self.client.coordinator(wanted))

    def metadata(self, topics: Iterable[str] | None = None, *, allow_auto_topic_creation: bool = False) -> Cluster:
        """Ask for the cluster and some topics, or all; see `Client.metadata`."""
        return self.run(self.client.metadata(topics, allow_auto_topic_creation=allow_auto_topic_creation))

    def list_offsets(
        self, wanted: Mapping[TopicPartition, Millis], *, isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> dict[TopicPartition, ListedOffset]:
        """Return the offset for a time, or EARLIEST or LATEST, per partition; see `Client.list_offsets`."""
        return self.run(self.client.list_offsets(wanted, isolation=isolation))

    def committed_offsets(
        self, group: str, partitions: Iterable[TopicPartition] | None = None, *, require_stable: bool = False
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return what a group has committed; see `committed_offsets`."""
        return self.run(committed_offsets(self.client, group, partitions, require_stable=require_stable))

    def commit_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, Offset],
        *,
        metadata: str | Mapping[TopicPartition, str] = "",
        member: ConsumerGroupMetadata | None = None,
    ) -> None:
        """Commit offsets for a group, as its member or from outside; see `commit_offsets`."""
        self.run(commit_offsets(self.client, group, offsets, metadata=metadata, member=member))

    def fetch(
        self,
        positions: Sequence[FetchPosition],
        *,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 50 << 20,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> list[Fetched]:
        """Fetch whole batches from several partitions; see `Client.fetch`."""
        call = self.client.fetch(
            positions, max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, isolation=isolation
        )
        return self.run(call)

    def produce(
        self,
        batches: Mapping[TopicPartition, Records],
        *,
        acks: int = -1,
        timeout_ms: int = 30_000,
        transactional_id: str | None = None,
    ) -> list[Appended]:
        """Append whole batches to several partitions; see `Client.produce`."""
        call = self.client.produce(batches, acks=acks, timeout_ms=timeout_ms, transactional_id=transactional_id)
        return self.run(call)

    def close(self) -> None:
        """Close every connection and the loop; calls under way are cancelled."""
        if self._is_shared or self._loop.is_closed():
            return
        pending = asyncio.all_tasks(self._loop)
        for task in pending:
            task.cancel()
        if pending:
            self._until_done(awaited(asyncio.wait(pending), loop=self._loop))
        self._until_done(awaited(self.client.close(), loop=self._loop))
        self._loop.close()

    def _until_done(self, task: asyncio.Task[T]) -> T:
        """Run the loop until a task is done.

        A signal's handler raises wherever the program is: also between the end of a call and the step that stops the loop
        for it. That step is then the next call's, so a loop that has stopped says nothing of the task. And one task may
        pass on to another what it was ended by, which was raised here then already.
        """
        task.add_done_callback(self._stop)
        try:
            while not task.done():
                try:
                    self._loop.run_forever()
                except (KeyboardInterrupt, SystemExit) as error:
                    if error is not self._interrupt:
                        self._interrupt = error
                        _give_up(task)
                        raise
        finally:
            task.remove_done_callback(self._stop)
        return task.result()

    def _stop(self, _: object) -> None:
        self._loop.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _give_up(task: asyncio.Task[Any]) -> None:
    """Cancel a task that nobody waits for any more."""
    if not task.cancel():
        _look_at(task)
    task.add_done_callback(_look_at)


def _look_at(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
