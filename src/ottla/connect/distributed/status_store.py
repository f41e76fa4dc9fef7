"""The status topic as a worker keeps it: what every connector and task does, and the topics that each connector uses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from ottla.background import end, keep_running
from ottla.client import Client, Isolation, TopicLog
from ottla.connect.distributed.settings import StorageTopic
from ottla.connect.distributed.topic_writer import Entry, TopicWriter
from ottla.connect.distributed.topics import prepare_topic
from ottla.connect.errors import ConnectError
from ottla.connect.storage import (
    State,
    Status,
    StatusState,
    TaskId,
    TopicUse,
    apply_status,
    encode_status,
    encode_topic_use,
    status_of,
)

__all__ = ["StatusStore"]

log = logging.getLogger(__name__)
RETRY_S, RETRY_S_MAX = 0.5, 10.0
_GONE = (State.UNASSIGNED, State.DESTROYED)
"""States of what this worker has no more."""
PENDING_MAX = 100_000
"""Records that wait for brokers; the oldest go, because for each key only the newest counts."""


class StatusStore:
    """Follows the topic; what is put is written behind the caller's back, in order, and tried again until it is there."""

    def __init__(
        self, topic: StorageTopic, make_client: Callable[[str], Client], failed: Callable[[BaseException], object]
    ) -> None:
        """`failed` is told where a mistake of ours has ended the reading of the topic."""
        self.state = StatusState()
        self._topic, self._client = topic, make_client("statuses")
        self._log = TopicLog(
            make_client("statuses-reader"),
            topic.name,
            self.apply,
            isolation=Isolation.READ_UNCOMMITTED,
            failed=failed,
        )
        self._pending: dict[bytes, bytes | None] = {}
        self._own: dict[str | TaskId, Status] = {}
        """What this worker has said last of the connectors and tasks that it has."""
        self._own_tasks: dict[str, dict[TaskId, None]] = {}
        """Those tasks by connector, in the order in which they came."""
        self.gone: Callable[[], object] = lambda: None
        """Called where the last task of a connector has ended that this worker has given up: its state may go, too."""
        self.left: set[str | TaskId] = set()
        """What it has given up, and was configured still when it said so."""
        self._more, self._written = asyncio.Event(), asyncio.Event()
        self._written.set()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Make or check the topic and read it; raises ConfigError, ConnectError or KafkaError."""
        partitions = await prepare_topic(self._client, self._topic)
        await self._log.start()
        writer = TopicWriter(self._client, self._topic.name, partitions)
        self._task = keep_running(partial(self._write, writer), name="write statuses", serves="the worker")

    async def close(self) -> None:
        """Stop following and writing; `flush` comes before."""
        await end(self._task)
        await self._log.close()
        await self._client.close()

    def apply(self, key: bytes | None, value: bytes | None, offset: int) -> None:
        """Take in a record of the topic."""
        name = (key or b"").decode(errors="replace")
        self.state, ignored = apply_status(self.state, name, value)
        if ignored is not None:
            log.error("%s", ignored)
        for each in self._outdone(name, value):
            self._put(*encode_status(each))
        of = status_of(name)
        if isinstance(of, TaskId) and of.connector in self.left and not self.has_tasks(of.connector):
            self.gone()

    def _outdone(self, key: str, value: bytes | None) -> list[Status]:
        """Return what is to be said again, since a worker that had it before has just said that nobody has it.

        It does so late where it was frozen or cut off: it has read nothing since, and does not know whose it is now. In a
        new generation it may say so where it had to give up what two workers had.
        """
        if not self._own:
            return []
        if value is None:
            of = status_of(key)
            if of is None or of not in self._own:
                return []
            tasks = self._own_tasks.get(of, ()) if isinstance(of, str) else ()
            return [self._own[each] for each in (of, *tasks)]
        said = apply_status(StatusState(), key, value)[0].statuses.values()
        return [
            own
            for each in said
            if (own := self._own.get(each.of)) is not None
            and each.worker_id != own.worker_id
            and (each.generation < own.generation or each.state is State.UNASSIGNED)
        ]

    def left_alone(self) -> list[str | TaskId]:
        """Return what this worker has given up, but for connectors with tasks that still end: their states go with it."""
        return [of for of in self.left if not self.has_tasks(of)]

    def has_tasks(self, of: str | TaskId) -> bool:
        """Whether this is a connector of which a task has not ended: the tasks' states go with the connector's."""
        return isinstance(of, str) and any(each.state not in _GONE for each in self.state.tasks(of))

    def put(self, status: Status, *, safe: bool = False) -> None:
        """Write a status; a `safe` one only where no other worker has said anything newer."""
        found = self.state.statuses.get(status.of)
        if safe and found is not None and found.worker_id != status.worker_id and found.generation > status.generation:
            log.debug("Another worker has said what %s does since", status.of)
            self._has_no_more(status.of)
            return
        (self.left.add if status.state is State.UNASSIGNED else self.left.discard)(status.of)
        if status.state in _GONE:
            self._has_no_more(status.of)
        else:
            self._own[status.of] = status
            if isinstance(status.of, TaskId):
                self._own_tasks.setdefault(status.of.connector, {})[status.of] = None
        self._put(*encode_status(status))

    def _has_no_more(self, of: str | TaskId) -> None:
        self._own.pop(of, None)
        if isinstance(of, TaskId) and of.connector in self._own_tasks:
            tasks = self._own_tasks[of.connector]
            tasks.pop(of, None)
            if not tasks:
                del self._own_tasks[of.connector]

    def put_use(self, use: TopicUse, *, removed: bool = False) -> None:
        """Write that a connector uses a topic, or has been told to forget it."""
        self._put(*encode_topic_use(use, removed=removed))

    def _put(self, key: str, value: bytes | None) -> None:
        name = key.encode()
        self._pending.pop(name, None)  # so that it comes last
        self._pending[name] = value
        if len(self._pending) > PENDING_MAX:
            del self._pending[next(iter(self._pending))]
        self._written.clear()
        self._more.set()

    async def flush(self, seconds_max: float) -> None:
        """Return when everything put before is written, or the time is over."""
        try:
            async with asyncio.timeout(seconds_max):
                await self._written.wait()
        except TimeoutError:
            log.warning("Not everything could be written to topic %s in time", self._topic.name)

    async def read_to_end(self) -> None:
        """Return when everything that was written before this call has been read."""
        await self._log.read_to_end(self._client)

    async def _write(self, writer: TopicWriter) -> None:
        retry_s = RETRY_S
        while True:
            await self._more.wait()
            self._more.clear()
            while self._pending:
                taken: list[Entry] = list(self._pending.items())
                self._pending.clear()
                is_written = False
                try:
                    await writer.write(taken)
                    retry_s, is_written = RETRY_S, True
                except ConnectError as error:
                    log.warning("%s; it is tried again", error)
                finally:
                    if not is_written:
                        self._put_back(taken)
                if not is_written:
                    await asyncio.sleep(retry_s)
                    retry_s = min(2 * retry_s, RETRY_S_MAX)
            self._written.set()

    def _put_back(self, taken: list[Entry]) -> None:
        """Have what was not written come first again, but for what is newer by now."""
        newer, self._pending = self._pending, {key: value for key, value in taken if key is not None}
        for key, value in newer.items():
            self._pending.pop(key, None)
            self._pending[key] = value
        self._more.set()
