"""Reads a sink's partitions as whole Fetch answers, some ahead of the task; each is put record by record, or whole.

A broker answers one request of a connection at a time, so a Fetch that waits for partitions without news would hold up those
that have some. There is one for each leader at a time, and it waits only where nothing else could be asked there.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from ottla.background import supervise
from ottla.base import ZERO_UUID, ErrorCode, KafkaError, NodeId, Offset, TopicPartition, Uuid
from ottla.client import EARLIEST, LATEST, Fetched, FetchPosition, Isolation
from ottla.connect import ConnectError
from ottla.connect.tasks.metrics import Average, SampleWindow, Total
from ottla.connect.tasks.settings import ConsumerSettings, Reset
from ottla.connect.tasks.task_client import TaskClient
from ottla.wire import ColumnDecoder, Columns, next_offset

__all__ = ["FetchedRecords", "Fetcher"]

log = logging.getLogger(__name__)
AHEAD = 2
"""Answers of a partition that may wait for the task."""
BUSY_WAIT_MS = 10
"""How long a Fetch waits beside partitions that are not asked for now, but soon."""
WAIT_MS_MAX = 500
BACKOFF_SECONDS = 0.5
BATCH_TIME, BATCH_TIME_AT = struct.Struct(">q"), 27
"""Where a record batch of format 2 says the time of its first record, in milliseconds."""
BATCH_TIME_END = BATCH_TIME_AT + BATCH_TIME.size


class FetchedRecords:
    """The records of one answer; the task goes through its blocks of columns row by row, or block by block."""

    def __init__(self, fetched: Fetched) -> None:
        self.partition, self.fetched = fetched.partition, fetched
        self.blocks: list[Columns] | None = None
        self.block = self.row = 0
        """Where the task has come to."""
        self.next_offset = fetched.offset

    def current(self, decoder: ColumnDecoder) -> Columns | None:
        """Return the block that the task is in, None behind the last; raises KafkaError for broken records."""
        if self.blocks is None:
            fetched = self.fetched
            decoded = decoder.decode(fetched.records, start=fetched.offset, aborted=fetched.aborted)
            self.blocks, self.next_offset = decoded.columns, decoded.next_offset
        return self.blocks[self.block] if self.block < len(self.blocks) else None

    def oldest_ms(self) -> int | None:
        """Return the time of the first record that the task has not come to, or of its batch; None where there is none."""
        if self.blocks is None:
            records = self.fetched.records
            found = BATCH_TIME.unpack_from(records, BATCH_TIME_AT)[0] if len(records) >= BATCH_TIME_END else -1
        else:
            found = int(self.blocks[self.block].timestamps_ms[self.row]) if self.block < len(self.blocks) else -1
        return found if found >= 0 else None

    def advance(self, rows: int) -> None:
        """Go past rows of the current block."""
        assert self.blocks is not None
        self.row += rows
        if self.row >= len(self.blocks[self.block]):
            self.block, self.row = self.block + 1, 0


class _Stream:
    def __init__(self, partition: TopicPartition, offset: int) -> None:
        self.partition, self.position = partition, Offset(offset)
        self.ready: deque[FetchedRecords] = deque()
        self.is_asked = False
        self.is_over = False
        """Whether its topic was deleted and made again."""
        self.not_before = 0.0


class Fetcher:
    """The partitions that a sink task reads. Its methods are for the task's thread; the work is done in the client's."""

    def __init__(self, task_client: TaskClient, settings: ConsumerSettings, window: SampleWindow | None = None) -> None:
        self._task_client, self._client, self._settings = task_client, task_client.client, settings
        self._changed = task_client.condition()
        self._streams: dict[TopicPartition, _Stream] = {}
        self._paused: set[TopicPartition] = set()
        self._asked: set[NodeId | None] = set()
        self._ids: dict[str, Uuid] = {}
        self._renewed: set[TopicPartition] = set()
        self._buffered_bytes = 0
        self._failed: BaseException | None = None
        self._wake = asyncio.Event()
        self._worker: Any = None
        self._turn = 0
        self._ends: dict[TopicPartition, int] = {}
        self._troubles: dict[TopicPartition, str] = {}
        """Why partitions cannot be read now."""
        self._fetches, self._bytes = Total(window), Total(window)
        self._latency_ms, self._sizes = Average(window), Average(window)

    # -- the task's thread

    def start(self) -> None:
        """Begin to read what is assigned."""
        self._worker = self._task_client.begin(self._run())

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read further partitions, or the same ones from elsewhere."""
        with self._changed:
            for partition, offset in offsets.items():
                self._forget(partition)
                self._streams[partition] = _Stream(partition, offset)
        self._awake()

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Read some partitions no more."""
        with self._changed:
            for each in partitions:
                self._forget(each)
                self._paused.discard(each)

    def _forget(self, partition: TopicPartition) -> None:
        found = self._streams.pop(partition, None)
        if found is not None:
            self._buffered_bytes -= sum(len(each.fetched.records) for each in found.ready)
        self._ends.pop(partition, None)
        self._troubles.pop(partition, None)

    def recognise(self, partitions: Iterable[TopicPartition]) -> None:
        """Learn which topics these are, before their committed offsets are asked for; raises KafkaError.

        A topic that is deleted and made again behind this call is noticed; what was read of an earlier one, by whomever, is
        of no account.
        """
        topics = {each.topic for each in partitions}
        if not topics:
            return
        self._task_client.run(self._client.metadata(sorted(topics)))
        self._look_for_renewed(topics)

    def look(self) -> None:
        """Ask whether a topic was deleted and made again: while nothing is read, no answer says so. Raises KafkaError."""
        with self._changed:
            topics = {each.topic for each in self._streams}
        self.recognise(TopicPartition(each, 0) for each in topics)

    def are_over(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Return those of the partitions whose topic is gone, or another under the same name and not assigned since."""
        topics = self._client.cluster.topics
        with self._changed:
            gone = {each for each in self._ids if each not in topics}
            over = {each.partition for each in self._streams.values() if each.is_over}
            return {each for each in partitions if each in over or each.topic in gone}

    def renewed(self) -> list[TopicPartition]:
        """Take and return the partitions whose topic is another under the same name; they bring nothing till `assign`."""
        with self._changed:
            found = [each for each in self._renewed if each in self._streams]
            self._renewed.difference_update(found)
            return found

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Bring nothing of some partitions."""
        with self._changed:
            self._paused.update(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Bring some partitions again."""
        with self._changed:
            self._paused.difference_update(partitions)
            self._changed.notify_all()
        self._awake()

    def first(self, wait_s: float) -> FetchedRecords | None:
        """Return an answer of a partition that is not paused, and the same again until it is `done`; None where none comes.

        Raises ConnectError where a partition cannot be read.
        """
        until = self._task_client.now() + wait_s
        with self._changed:
            while True:
                if self._failed is not None:
                    raise ConnectError(f"The topics cannot be read: {self._failed}") from self._failed
                streams = list(self._streams.values())
                for index in range(len(streams)):
                    each = streams[(self._turn + index) % len(streams)]
                    if each.ready and each.partition not in self._paused:
                        return each.ready[0]
                left = until - self._task_client.now()
                if left <= 0:
                    return None
                self._changed.wait(left)

    def done(self, answer: FetchedRecords) -> None:
        """Forget an answer that is behind the task; the next may be of another partition."""
        with self._changed:
            self._turn += 1
            stream = self._streams.get(answer.partition)
            if stream is not None and stream.ready and stream.ready[0] is answer:
                stream.ready.popleft()
                self._buffered_bytes -= len(answer.fetched.records)
        self._awake()

    def start_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where reading begins without a committed offset; raises KafkaError, and ConnectError where it may not."""
        wanted = list(partitions)
        if not wanted:
            return {}
        if self._settings.reset is Reset.NONE:
            raise ConnectError(f"There is no committed offset for {wanted[0]}, and auto.offset.reset is none")
        found = self._task_client.run(self._client.list_offsets(dict.fromkeys(wanted, self._reset)))
        return {each: int(found[each].offset) for each in wanted}

    @property
    def _reset(self) -> Any:
        return EARLIEST if self._settings.reset is Reset.EARLIEST else LATEST

    def read_one(self, partition: TopicPartition, offset: int) -> Columns | None:
        """Return a block that begins with one record, None where that is gone; raises KafkaError."""
        position = FetchPosition(partition, Offset(offset))
        [fetched] = self._task_client.run(self._client.fetch([position], max_wait_ms=0))
        if fetched.error:
            return None
        decoded = ColumnDecoder(with_headers=True).decode(fetched.records, start=Offset(offset))
        found = decoded.columns[0] if decoded.columns else None
        return found if found is not None and int(found.offsets[0]) == offset else None

    def oldest_ms(self) -> int | None:
        """Return the time of the oldest record that has come and waits for the task; None where none has come."""
        with self._changed:
            times = [each.ready[0].oldest_ms() for each in self._streams.values() if each.ready]
        return min((each for each in times if each is not None), default=None)

    def trouble(self) -> str | None:
        """Return why partitions cannot be read now, one of them for all; None where they can."""
        with self._changed:
            return next(iter(self._troubles.values()), None)

    def ends(self) -> dict[TopicPartition, int]:
        """Return the offsets behind the last records that may be read, as the latest answers had them."""
        with self._changed:
            return dict(self._ends)

    def metrics(self) -> dict[str, float]:
        """Return what consumer-fetch-manager-metrics say of requests and bytes."""
        with self._changed:
            return {
                "fetch-total": self._fetches.value,
                "fetch-rate": self._fetches.rate,
                "fetch-latency-avg": self._latency_ms.mean,
                "fetch-latency-max": self._latency_ms.max,
                "fetch-size-avg": self._sizes.mean,
                "fetch-size-max": self._sizes.max,
                "bytes-consumed-total": self._bytes.value,
                "bytes-consumed-rate": self._bytes.rate,
            }

    def _count(self, found: Iterable[Fetched], took_ms: float) -> None:
        """Note what an answer was, and where its partitions end."""
        committed = self._settings.isolation is Isolation.READ_COMMITTED
        size = 0
        with self._changed:
            for each in found:
                size += len(each.records)
                if not each.error:
                    self._ends[each.partition] = each.last_stable_offset if committed else each.high_watermark
            self._fetches.add()
            self._latency_ms.add(took_ms)
            if size:
                self._bytes.add(size)
                self._sizes.add(size)

    def close(self) -> None:
        """Stop reading."""
        if self._worker is not None:
            self._worker.cancel()

    def _awake(self) -> None:
        self._task_client.call_soon(self._wake.set)

    # -- the client's thread

    async def _run(self) -> None:
        running: set[asyncio.Task[None]] = set()
        try:
            while True:
                self._wake.clear()
                for leader, streams, wait_ms in self._to_ask():
                    task = supervise(
                        self._ask(leader, streams, wait_ms), name="fetch", serves="a task", failed=self._fail
                    )
                    running.add(task)
                    task.add_done_callback(running.discard)
                try:
                    await asyncio.wait_for(self._wake.wait(), BACKOFF_SECONDS)
                except TimeoutError:
                    continue
        except Exception as error:  # the task's own thread raises it where it asks for records
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._failed = self._failed or error
            self._changed.notify_all()

    def _to_ask(self) -> list[tuple[NodeId | None, list[_Stream], int]]:
        """Return the leaders that can be asked now, for which partitions, and how long they may wait."""
        now = self._task_client.now()
        groups: dict[NodeId | None, list[_Stream]] = {}
        busy: set[NodeId | None] = set()
        with self._changed:
            if self._buffered_bytes >= self._settings.fetch_bytes_max:
                return []
            for each in self._streams.values():
                leader = self._client.cluster.leader_of(each.partition)
                if leader in self._asked or each.partition in self._paused:
                    continue
                if each.is_asked or each.is_over or len(each.ready) >= AHEAD or each.not_before > now:
                    busy.add(leader)
                else:
                    groups.setdefault(leader, []).append(each)
            for leader, streams in groups.items():
                self._asked.add(leader)
                for each in streams:
                    each.is_asked = True
        wait_ms = min(self._settings.fetch_wait_ms, WAIT_MS_MAX)
        return [(leader, streams, BUSY_WAIT_MS if leader in busy else wait_ms) for leader, streams in groups.items()]

    async def _ask(self, leader: NodeId | None, streams: list[_Stream], wait_ms: int) -> None:
        by_partition = {each.partition: each for each in streams}
        positions = [FetchPosition(each.partition, each.position, self._settings.fetch_bytes) for each in streams]
        began = self._task_client.now()
        try:
            found = await self._client.fetch(
                positions,
                max_wait_ms=wait_ms,
                min_bytes=self._settings.fetch_bytes_min,
                max_bytes=self._settings.fetch_bytes_max,
                isolation=self._settings.isolation,
            )
            self._count(found, 1000 * (self._task_client.now() - began))
            self._look_for_renewed({each.partition.topic for each in streams})
            for fetched in found:
                await self._take(by_partition[fetched.partition], fetched)
        except KafkaError as error:
            log.warning("Partitions of %s cannot be read now: %s", positions[0].partition.topic, error)
            for each in streams:
                self._wait_with(each, str(error))
        except ConnectError as error:
            self._fail(error)
        finally:
            self._asked.discard(leader)
            for each in streams:
                each.is_asked = False
            self._wake.set()

    def _look_for_renewed(self, topics: set[str]) -> None:
        """Notice topics that were deleted and made again: offsets of the old one mean nothing in the new one.

        Topics are asked for by id, so what a new one holds is not read before this.
        """
        with self._changed:
            for topic in topics:
                now = self._client.cluster.topic_id(topic)
                if now == ZERO_UUID or self._ids.setdefault(topic, now) == now:
                    continue
                self._ids[topic] = now
                self._renew([each for each in self._streams.values() if each.partition.topic == topic])

    def _renew(self, streams: list[_Stream]) -> None:
        for each in streams:
            log.warning("The topic of %s was deleted and made again; it is read as a new one", each.partition)
            each.is_over = True
            self._buffered_bytes -= sum(len(answer.fetched.records) for answer in each.ready)
            each.ready.clear()
            self._renewed.add(each.partition)
        self._changed.notify_all()

    async def _take(self, stream: _Stream, fetched: Fetched) -> None:
        if stream.is_over:
            return
        if fetched.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._move(stream)
            return
        if fetched.error:
            if KafkaError(fetched.error).retriable or fetched.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._wait_with(stream, f"{fetched.partition} cannot be read: {fetched.error.name}")
                return
            raise ConnectError(f"{fetched.partition} cannot be read: {fetched.error.name}")
        with self._changed:
            self._troubles.pop(stream.partition, None)
        following = next_offset(fetched.records, stream.position)
        if following == stream.position:
            return
        answer = FetchedRecords(fetched)
        with self._changed:
            if self._streams.get(stream.partition) is not stream:
                return
            stream.position = following
            stream.ready.append(answer)
            self._buffered_bytes += len(fetched.records)
            self._changed.notify_all()

    def _wait_with(self, stream: _Stream, why: str) -> None:
        stream.not_before = self._task_client.now() + BACKOFF_SECONDS
        with self._changed:
            if self._streams.get(stream.partition) is stream:
                self._troubles[stream.partition] = why

    async def _move(self, stream: _Stream) -> None:
        """Go on where the records begin, or end, that are there."""
        if self._settings.reset is Reset.NONE:
            raise ConnectError(f"Offset {stream.position} of {stream.partition} is gone, and auto.offset.reset is none")
        found = (await self._client.list_offsets({stream.partition: self._reset}))[stream.partition].offset
        log.warning("Offset %s of %s is gone; reading goes on at %s", stream.position, stream.partition, found)
        stream.position = found
