"""A compacted topic that is read to its end, followed from then on, and written to: what a fold is kept by."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from ottla.background import end, supervise
from ottla.base import ZERO_UUID, ErrorCode, KafkaError, Millis, Offset, OttlaError, TopicPartition, Uuid
from ottla.client.batches import Fetched, FetchPosition, Isolation
from ottla.client.client import Client
from ottla.client.offsets import EARLIEST, LATEST
from ottla.wire import AbortedTransactions, Record, build_batch, iter_batch_records, iter_batches

__all__ = ["TopicLog", "batch_of"]

log = logging.getLogger(__name__)
Entry = tuple[bytes | None, bytes | None]
Apply = Callable[[bytes | None, bytes | None, int], Awaitable[None] | None]
"""Takes a record's key, value and offset; what it gives back is awaited before the next record."""
FETCH_WAIT_MS = 500
"""How long a broker may wait for records; with several leaders the slowest answer holds up the others'."""
FETCH_BYTES_MAX = 8 << 20
BACKOFF_S, BACKOFF_S_MAX = 0.1, 5.0


class TopicLog:
    """Follows all partitions of a topic and gives their records to `apply`, in order within a partition.

    `client` is this log's own: a fetch that waits holds up what else its connection is asked.
    """

    def __init__(
        self,
        client: Client,
        topic: str,
        apply: Apply,
        *,
        isolation: Isolation,
        replaced: Callable[[str], None] | None = None,
        failed: Callable[[BaseException], object] | None = None,
    ) -> None:
        """`replaced` is told, once and why, where the topic is not the one any more of which the fold is; then nothing more
        of it is read. Without it the new topic is followed as if it were the old one.

        `failed` is told where a mistake of ours has ended the reading: the fold is old from then on.
        """
        self.topic = topic
        self._failed, self._failure = failed, ""
        self._replaced, self._is_replaced, self._topic_id = replaced, False, ZERO_UUID
        self._client, self._apply, self._isolation = client, apply, isolation
        self._positions: dict[TopicPartition, Offset] = {}
        self._moved = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to read; returns when everything written before has been read, open transactions too. Raises KafkaError."""
        await self._client.metadata([self.topic])
        partitions = self._client.cluster.partitions_of(self.topic)
        self._topic_id = self._id_in(self._client)
        found = await self._client.list_offsets(dict.fromkeys(partitions, EARLIEST))
        self._positions = {each: listed.offset for each, listed in found.items()}
        ends = await self._ends(self._client)
        while any(self._positions[each] < end for each, end in ends.items()):
            await self._read_once(FETCH_WAIT_MS)
        name = f"follow {self.topic}"
        self._task = supervise(self._follow_or_end(), name=name, serves=f"topic {self.topic}", failed=self._failed)

    @property
    def is_followed(self) -> bool:
        """Whether the topic is being read; False before the start, and where that has ended by a mistake of ours."""
        return self._task is not None and not self._task.done()

    async def close(self) -> None:
        """Stop reading."""
        await end(self._task)
        await self._client.close()

    async def read_to_end(self, client: Client) -> None:
        """Return when all that was written before this call has been applied; `client` asks where the end is.

        Raises KafkaError where that cannot be, also where the topic is not read any more (UNKNOWN_SERVER_ERROR).
        """
        ends = await self._ends(client)
        self.check(client)
        await self._reached(ends)

    def check(self, client: Client) -> None:
        """Raise KafkaError UNKNOWN_TOPIC_ID where a client knows the topic as another one than that which is read here."""
        if self._replaced is not None and (reason := self._why_other(client)):
            self._end(reason)
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"topic {self.topic}: {reason}")

    async def read_up_to(self, partition: TopicPartition, offset: Offset) -> None:
        """Return when all of a partition before an offset has been applied; raises as `read_to_end`."""
        await self._reached({partition: offset})

    async def _reached(self, ends: Mapping[TopicPartition, Offset]) -> None:
        def is_there() -> bool:
            return all(self._positions[each] >= offset for each, offset in ends.items())

        async with self._moved:
            await self._moved.wait_for(lambda: bool(self._failure) or is_there())
        if not is_there():
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"topic {self.topic} is not read any more: {self._failure}"
            )

    async def _ends(self, client: Client) -> dict[TopicPartition, Offset]:
        # The end of what is written, not of what is committed: a commit is acknowledged before its marker is written.
        found = await client.list_offsets(dict.fromkeys(self._positions, LATEST))
        return {each: listed.offset for each, listed in found.items()}

    async def _follow_or_end(self) -> None:
        """Follow; who waits for what will not come is told so."""
        try:
            await self._follow()
            self._failure = "it was made anew, or has lost records"
        except Exception as error:  # whatever it is: who waits has to hear of it, as the owner does
            self._failure = repr(error)
            raise
        finally:
            if self._failure:
                async with self._moved:
                    self._moved.notify_all()

    async def _follow(self) -> None:
        backoff_s = BACKOFF_S
        while not self._is_replaced:
            try:
                await self._read_once(FETCH_WAIT_MS)
                backoff_s = BACKOFF_S
            except OttlaError as error:
                log.warning("Reading topic %s failed, and is tried again: %s", self.topic, error)
                await asyncio.sleep(backoff_s)
                backoff_s = min(2 * backoff_s, BACKOFF_S_MAX)

    async def _read_once(self, wait_ms: int) -> None:
        asked = [FetchPosition(each, offset) for each, offset in self._positions.items()]
        answers = await self._client.fetch(
            asked, max_wait_ms=wait_ms, max_bytes=FETCH_BYTES_MAX, isolation=self._isolation
        )
        if self._replaced is not None and (reason := self._why_other(self._client) or self._why_cut(answers)):
            self._end(reason)
            return
        for fetched in answers:
            if fetched.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                self._positions[fetched.partition] = fetched.log_start_offset
                found = await self._client.list_offsets({fetched.partition: EARLIEST})
                self._positions[fetched.partition] = found[fetched.partition].offset
                continue
            await self._take(fetched.check())
        async with self._moved:
            self._moved.notify_all()

    def _end(self, reason: str) -> None:
        if not self._is_replaced and self._replaced is not None:
            self._is_replaced = True
            self._replaced(reason)

    def _id_in(self, client: Client) -> Uuid:
        topic = client.cluster.topics.get(self.topic)
        return ZERO_UUID if topic is None else topic.topic_id

    def _why_other(self, client: Client) -> str:
        ids = (self._topic_id, self._id_in(client))
        return "" if ZERO_UUID in ids or ids[0] == ids[1] else "it was deleted and made again"

    def _why_cut(self, answers: Sequence[Fetched]) -> str:
        for fetched in answers:
            position = self._positions[fetched.partition]
            if fetched.error is ErrorCode.OFFSET_OUT_OF_RANGE and 0 <= fetched.log_start_offset <= position:
                return f"partition {fetched.partition.partition} ends before offset {position}, up to which it was read"
        return ""

    async def _take(self, fetched: Fetched) -> None:
        aborted = AbortedTransactions(fetched.aborted)
        for header, at in iter_batches(fetched.records):
            if header.next_offset <= self._positions[fetched.partition]:
                continue
            if not aborted.hides(header):
                for record in iter_batch_records(fetched.records, at, header):
                    if record.offset < self._positions[fetched.partition]:
                        continue
                    if (waiting := self._apply(record.key, record.value, record.offset)) is not None:
                        await waiting
            self._positions[fetched.partition] = header.next_offset


def batch_of(
    records: Sequence[Entry], *, producer_id: int = -1, producer_epoch: int = -1, sequence: int = -1
) -> bytearray:
    """Return a batch of records written now, a transactional one where it has a producer."""
    now_ms = Millis(time.time_ns() // 1_000_000)
    found = [Record(timestamp=now_ms, key=key, value=value) for key, value in records]
    return build_batch(
        found,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        transactional=producer_id >= 0,
    )
