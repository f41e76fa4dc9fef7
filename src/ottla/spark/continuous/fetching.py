"""One Fetch per leader for everything that a lane's works read; what comes goes to each partition's queue.

An idle partition is a position in a long poll. Fetches have a client of their own: a broker answers the requests of a
connection one after another, and a produce would wait behind a poll.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from ottla.background import end, supervise
from ottla.base import ZERO_UUID, ErrorCode, KafkaError, NodeId, Offset, TopicPartition
from ottla.client import Client, Fetched, FetchPosition, Isolation
from ottla.spark.continuous.arrivals import Queue
from ottla.wire import ColumnDecoder, Columns

__all__ = ["Fetching"]

log = logging.getLogger(__name__)
WAIT_MS = 250
"""How long a Fetch waits for news; a partition that is new to it waits as long to be asked for."""
BUSY_WAIT_MS = 10
"""How long it waits beside partitions that are not asked for now, but soon."""
BETWEEN_SECONDS = 0.003
"""The least time between two Fetches of a leader: records that come one by one are processed some together."""
BUFFERED_BYTES_MAX = 4 << 20
"""Bytes of a partition that may wait for its work."""
ANSWER_BYTES_MAX = 16 << 20
TOLD_AGAIN_SECONDS = 60.0
"""Between two lines of the log that say the same of a partition: a cluster may be away for days."""
BACKOFF_SECONDS = 0.5


class _Stream:
    """A partition that is fetched, once for all works that read it."""

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.queues: list[Queue] = []
        self.asked: list[Queue] = []
        """The queues that the Fetch under way is for."""
        self.not_before = 0.0
        self.told, self.told_at = "", 0.0
        """What the log was told last of a failure, and when."""

    def wanting(self) -> list[Queue]:
        """Return the queues that have room."""
        return [each for each in self.queues if each.size_bytes < BUFFERED_BYTES_MAX]


class Fetching:
    """Fetches for queues; `failed` is told of a queue that cannot be read, `arrived` that some got something."""

    def __init__(
        self,
        client: Client,
        *,
        isolation: Isolation,
        fetch_bytes: int,
        arrived: Callable[[], None],
        failed: Callable[[Queue, KafkaError], None],
    ) -> None:
        self._client, self._isolation, self._fetch_bytes = client, isolation, fetch_bytes
        self._arrived, self._failed = arrived, failed
        self._streams: dict[TopicPartition, _Stream] = {}
        self._asked: dict[NodeId | None, float] = {}
        """Leaders that are being asked, and since when."""
        self._rests: dict[NodeId | None, float] = {}
        """When a leader may be asked again."""
        self._wake = asyncio.Event()
        self._decoder = ColumnDecoder(with_headers=True)
        self._running: set[asyncio.Task[None]] = set()
        self._worker: asyncio.Task[None] | None = None
        self._error: BaseException | None = None
        self.fetches = self.bytes = self.records = 0

    def start(self) -> None:
        """Begin."""
        self._worker = supervise(self._run(), name="fetching", serves="a lane", failed=self._broke)

    async def close(self) -> None:
        """Stop."""
        await end(self._worker, *self._running)

    @property
    def error(self) -> BaseException | None:
        """Why nothing is fetched any more: a mistake of ours; None while all is well."""
        return self._error

    def _broke(self, error: BaseException) -> None:
        self._error = self._error or error
        self._arrived()

    def add(self, queues: Iterable[Queue]) -> None:
        """Read these, too."""
        for queue in queues:
            self._streams.setdefault(queue.partition, _Stream(queue.partition)).queues.append(queue)
        self._wake.set()

    def remove(self, queues: Iterable[Queue]) -> None:
        """Read these no more; what is under way for them is dropped."""
        for queue in queues:
            stream = self._streams.get(queue.partition)
            if stream is not None:
                stream.queues = [each for each in stream.queues if each is not queue]
                stream.asked = [each for each in stream.asked if each is not queue]
                if not stream.queues:
                    del self._streams[queue.partition]

    def taken(self) -> None:
        """Say that queues have room again."""
        self._wake.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            now = loop.time()
            for leader, streams, wait_ms in self._to_ask(now):
                self._asked[leader] = now
                task = supervise(self._ask(leader, streams, wait_ms), name="fetch", serves="a lane", failed=self._broke)
                self._running.add(task)
                task.add_done_callback(self._running.discard)
            rests = [until - now for until in self._rests.values() if until > now]
            timer = loop.call_later(min(rests, default=BACKOFF_SECONDS), self._wake.set)
            await self._wake.wait()
            timer.cancel()

    def _to_ask(self, now: float) -> list[tuple[NodeId | None, list[_Stream], int]]:
        """Return the leaders that can be asked now, for which partitions, and how long they may wait."""
        groups: dict[NodeId | None, list[_Stream]] = {}
        waits: dict[NodeId | None, int] = {}
        for each in self._streams.values():
            leader = self._client.cluster.leader_of(each.partition)
            if leader in self._asked or self._rests.get(leader, 0.0) > now:
                continue
            wanting = each.wanting() if not each.asked and each.not_before <= now else []
            if not wanting:
                wait_ms = BUSY_WAIT_MS
            else:
                each.asked = wanting
                groups.setdefault(leader, []).append(each)
                is_known = all(queue.is_known for queue in wanting)
                wait_ms = WAIT_MS if is_known else 0  # others of its task wait to hear where it ends
            waits[leader] = min(waits.get(leader, wait_ms), wait_ms)
        return [(leader, found, waits[leader]) for leader, found in groups.items()]

    async def _ask(self, leader: NodeId | None, streams: list[_Stream], wait_ms: int) -> None:
        try:
            await self._fetch(streams, wait_ms)
        except KafkaError as error:
            if len(streams) > 1:
                await self._one_by_one(streams)
            else:
                self._back_off(streams[0], error)
        finally:
            for each in streams:
                each.asked = []
            began = self._asked.pop(leader, 0.0)
            self._rests[leader] = began + BETWEEN_SECONDS
            self._wake.set()

    async def _one_by_one(self, streams: list[_Stream]) -> None:
        """Find out which partition an answer failed of: the others go on."""
        for each in streams:
            try:
                await self._fetch([each], 0)
            except KafkaError as error:
                self._back_off(each, error)

    def _back_off(self, stream: _Stream, error: KafkaError) -> None:
        now = asyncio.get_running_loop().time()
        stream.not_before = now + BACKOFF_SECONDS
        if str(error) != stream.told or now >= stream.told_at + TOLD_AGAIN_SECONDS:
            stream.told, stream.told_at = str(error), now
            log.warning("%s cannot be read now: %s", stream.partition, error)

    async def _fetch(self, streams: list[_Stream], wait_ms: int) -> None:
        asked = {each.partition: each for each in streams if each.asked}
        positions = [
            FetchPosition(place, Offset(min(queue.fetched for queue in each.asked)), self._fetch_bytes)
            for place, each in asked.items()
        ]
        if not positions:
            return
        found = await self._client.fetch(
            positions, max_wait_ms=wait_ms, max_bytes=ANSWER_BYTES_MAX, isolation=self._isolation
        )
        self.fetches += 1
        moved = [self._take(asked[each.partition], each) for each in found]
        if any(moved):
            self._arrived()

    def _take(self, stream: _Stream, fetched: Fetched) -> bool:
        """Put what has come into the queues that asked for it; returns whether one of them has moved."""
        if others := _of_another_topic(stream, fetched):
            words = f"{fetched.partition}: the topic was made again, and offset {fetched.offset} is of the one before"
            self._fail(others, KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, words))
            return False  # the others are asked for again, from where they are
        if fetched.error:
            error = KafkaError(fetched.error, f"{fetched.partition} at offset {fetched.offset}: {fetched.error.name}")
            if error.retriable or fetched.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._back_off(stream, error)
            elif fetched.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                self._fail(_foremost(stream, fetched), error)
            else:
                self._fail(stream.asked, error)
            return False
        is_committed = self._isolation is Isolation.READ_COMMITTED
        end = fetched.last_stable_offset if is_committed else fetched.high_watermark
        for queue in stream.queues:
            queue.end = max(end, queue.end)
        if not len(fetched.records):
            return False
        try:
            decoded = self._decoder.decode(fetched.records, start=fetched.offset, aborted=fetched.aborted)
        except KafkaError as error:  # damaged: the same bytes come again
            self._fail(_foremost(stream, fetched), error)
            return False
        self.bytes += len(fetched.records)
        self.records += sum(map(len, decoded.columns))
        size = len(fetched.records)
        moved = False
        for queue in stream.asked:
            if fetched.offset <= queue.fetched < decoded.next_offset:
                own = decoded.columns if queue.fetched == fetched.offset else _from(decoded.columns, queue.fetched)
                queue.add(own, decoded.next_offset, size)
                moved = True
        return moved

    def _fail(self, wanted: Iterable[Queue], error: KafkaError) -> None:
        queues = list(wanted)
        self.remove(queues)
        for queue in queues:
            self._failed(queue, error)


def _of_another_topic(stream: _Stream, fetched: Fetched) -> list[Queue]:
    """Return the queues whose offsets are of another topic than that of which an answer is."""
    if fetched.topic_id == ZERO_UUID:
        return []
    found = fetched.topic_id.hex()
    return [each for each in stream.asked if each.topic_id not in ("", found)]


def _foremost(stream: _Stream, fetched: Fetched) -> list[Queue]:
    """Return the queues that are where was read: what cannot be read there need not keep others from going on."""
    return [each for each in stream.asked if each.fetched <= fetched.offset]


def _from(columns: Iterable[Columns], offset: int) -> list[Columns]:
    """Return the rows from an offset on."""
    return [each.rows(int(each.offsets.searchsorted(offset)), len(each)) for each in columns]
