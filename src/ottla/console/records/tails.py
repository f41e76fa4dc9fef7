"""What comes into a topic from now on, fetched once for all who look: each has the records that it has room for.

Who begins to look subscribes before asking where the topic ends, so that nothing from there on is missed. Who is slow loses
the oldest of what waits for it, and is told how many those were; nobody waits for anybody.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from ottla.background import count_failure, end, supervise
from ottla.base import ErrorCode, KafkaError, Offset, OttlaError, TopicPartition
from ottla.client import LATEST, Client, FetchPosition, Isolation
from ottla.console.records.reads import Read
from ottla.wire import AbortedTransactions, Record, iter_batch_records, iter_batches

if TYPE_CHECKING:
    from ottla.console.records.file_decoders import Values

__all__ = ["Feed", "Found", "Tail", "Tails"]

log = logging.getLogger(__name__)

FETCH_BYTES: Final = 8 << 20
PARTITION_BYTES: Final = 1 << 20
WAIT_MS: Final = 250
WAITING_BYTES_MAX: Final = 1 << 20
"""Of keys and values that wait for one that looks; a batch that is larger waits alone."""

Found = tuple[int, Sequence[Record | Read]]
"""A partition, and what has come into it."""


class Feed:
    """What one that looks has still to see."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Found, int]] = deque()
        self._size = 0
        self._there = asyncio.Event()
        self._error: OttlaError | None = None
        self.dropped = 0
        """Records that it was too slow for, all in all."""

    def put(self, found: Found, size: int) -> None:
        """Give it records of so many bytes; the oldest that wait make room."""
        self._waiting.append((found, size))
        self._size += size
        while self._size > WAITING_BYTES_MAX and len(self._waiting) > 1:
            (_, records), gone = self._waiting.popleft()
            self._size -= gone
            self.dropped += len(records)
        self._there.set()

    def fail(self, error: OttlaError) -> None:
        """Have it end with an error."""
        self._error = error
        self._there.set()

    async def next(self, timeout_s: float) -> list[Found]:
        """Return what has come, nothing after a while without any; raises OttlaError where the topic cannot be read."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._there.wait()
        except TimeoutError:
            return []
        found = [each for each, _ in self._waiting]
        self._waiting.clear()
        self._size = 0
        if not found and self._error is not None:
            raise self._error
        if self._error is None:
            self._there.clear()
        return found


class Tail:
    """One topic as it grows; it owns its client."""

    def __init__(self, client: Client, topic: str, isolation: Isolation, values: Values | None) -> None:
        self._client, self._topic, self._isolation, self._values = client, topic, isolation, values
        self.feeds: set[Feed] = set()
        self.is_over = False
        """True where it has failed: who comes now begins another."""
        self._positions: dict[int, int] = {}
        loop = asyncio.get_running_loop()
        self._began: asyncio.Future[None] = loop.create_future()
        self._task = supervise(self._run(), name="tail", serves=f"who looks at {topic}")

    async def began(self) -> None:
        """Wait until it knows where the topic ends; raises OttlaError where that cannot be."""
        await asyncio.shield(self._began)

    async def stop(self) -> None:
        """Read no more."""
        await end(self._task)
        await self._client.close()

    async def _ends(self) -> dict[int, int]:
        await self._client.metadata([self._topic])
        places = self._client.cluster.partitions_of(self._topic)
        if not places:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {self._topic}")
        ends = await self._client.list_offsets(dict.fromkeys(places, LATEST), isolation=self._isolation)
        return {each.partition: int(found.offset) for each, found in ends.items()}

    async def _run(self) -> None:
        try:
            self._positions = await self._ends()
            self._began.set_result(None)
            while True:
                await self._fetch()
        except OttlaError as error:
            self._fail(error)
        except Exception:  # a mistake of ours costs those who look, and is said
            log.exception("a topic could not be followed")
            count_failure("the console's live views")
            self._fail(OttlaError("The console has failed to read on; its log says why."))

    def _fail(self, error: OttlaError) -> None:
        self.is_over = True
        if not self._began.done():
            self._began.set_exception(error)
            self._began.exception()  # nobody may have come to see it
        for feed in self.feeds:
            feed.fail(error)

    async def _fetch(self) -> None:
        asked = [
            FetchPosition(TopicPartition(self._topic, index), Offset(at), PARTITION_BYTES)
            for index, at in self._positions.items()
        ]
        answers = await self._client.fetch(asked, max_wait_ms=WAIT_MS, max_bytes=FETCH_BYTES, isolation=self._isolation)
        for answer in answers:
            index = answer.partition.partition
            if answer.error is ErrorCode.OFFSET_OUT_OF_RANGE:  # retention went by, or it was made anew
                start = int(answer.log_start_offset)
                self._positions[index] = start if start > self._positions[index] else (await self._ends()).get(index, 0)
                continue
            records, aborted = answer.check().records, AbortedTransactions(answer.aborted)
            is_committed = self._isolation is Isolation.READ_COMMITTED
            for header, at in iter_batches(records):
                hidden = aborted.hides(header) if is_committed else header.is_control
                start = self._positions[index]
                if not hidden and header.next_offset > start:
                    found = [each for each in iter_batch_records(records, at, header) if each.offset >= start]
                    read = found if self._values is None else await self._values.read(found)
                    size = sum(len(each.key or b"") + len(each.value or b"") for each in found)
                    for feed in self.feeds:
                        feed.put((index, read), size)
                    await asyncio.sleep(0)
                self._positions[index] = max(start, int(header.next_offset))


class Tails:
    """The tails that somebody follows; those of the same key are one."""

    def __init__(self) -> None:
        self._tails: dict[Hashable, Tail] = {}

    @asynccontextmanager
    async def followed(self, key: Hashable, make: Callable[[], Tail]) -> AsyncIterator[Feed]:
        """Follow the tail of a key, begun where nobody follows it yet; raises OttlaError where that cannot be."""
        tail = self._tails.get(key)
        if tail is None or tail.is_over:
            tail = self._tails[key] = make()
        feed = Feed()
        tail.feeds.add(feed)
        try:
            await tail.began()
            yield feed
        finally:
            tail.feeds.discard(feed)
            if not tail.feeds:
                if self._tails.get(key) is tail:
                    del self._tails[key]
                await tail.stop()
