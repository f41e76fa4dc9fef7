"""`TopicScan`: what partitions hold between two offsets each, read once, to the end or with an error that says why not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING

from ottla.base import ErrorCode, KafkaError, Offset, TopicPartition
from ottla.client.batches import Fetched, FetchPosition, Isolation
from ottla.client.offsets import EARLIEST
from ottla.wire import AbortedTransactions, iter_batch_records, iter_batches

if TYPE_CHECKING:
    from ottla.client.client import Client
    from ottla.wire import Record

__all__ = ["OutOfRange", "TopicScan"]

PARTITION_BYTES = 1 << 20
"""Of a partition in one answer; a record that is larger comes alone."""
ANSWER_BYTES = 8 << 20
WAIT_MS = 100
STALL_S = 30.0


class OutOfRange(Enum):
    """What becomes of a partition whose log begins later than the offset asked for: retention or DeleteRecords went by."""

    RAISE = "raise"
    SKIP = "skip"
    """Go on where the log begins now."""


class TopicScan:
    """Reads partitions from a first offset up to an end, which is not read; control batches are passed over.

    `positions` says how far it is. Where no partition comes further for `STALL_S` seconds, which an open transaction below
    the end may cause, it raises REQUEST_TIMED_OUT with the partition's name and offset.
    """

    def __init__(
        self,
        client: Client,
        ranges: Mapping[TopicPartition, tuple[int, int]],
        *,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        out_of_range: OutOfRange = OutOfRange.RAISE,
        partition_bytes: int = PARTITION_BYTES,
    ) -> None:
        self.positions = {place: first for place, (first, _) in ranges.items()}
        self._ends = {place: end for place, (_, end) in ranges.items()}
        self._client, self._isolation, self._out_of_range = client, isolation, out_of_range
        self._partition_bytes = partition_bytes
        self._moved_at: float | None = None

    async def __aiter__(self) -> AsyncIterator[tuple[TopicPartition, Record]]:
        """Yield partitions and their records, each partition's in order. Raises KafkaError."""
        while not self.is_at_end:
            for found in await self.read():
                yield found
            await asyncio.sleep(0)

    @property
    def is_at_end(self) -> bool:
        """Whether every partition was read to its end."""
        return all(position >= self._ends[place] for place, position in self.positions.items())

    async def read(self) -> Iterable[tuple[TopicPartition, Record]]:
        """Fetch once, and return what came; go on until `is_at_end`. Raises KafkaError.

        Positions move as the records are taken: who stops in the middle of them stays there.
        """
        loop = asyncio.get_running_loop()
        if self._moved_at is None:
            self._moved_at = loop.time()
        asked = [
            FetchPosition(place, Offset(at), self._partition_bytes)
            for place, at in self.positions.items()
            if at < self._ends[place]
        ]
        answers = await self._client.fetch(
            asked, max_wait_ms=WAIT_MS, max_bytes=ANSWER_BYTES, isolation=self._isolation
        )
        readable = [each for each in answers if not await self._skipped(each)]
        if len(readable) < len(answers) or any(len(each.check().records) for each in readable):
            self._moved_at = loop.time()
        elif loop.time() - self._moved_at > STALL_S:
            self._give_up(readable[0])
        return self._records(readable)

    async def _skipped(self, fetched: Fetched) -> bool:
        """Whether this partition goes on elsewhere, where that is wanted."""
        if fetched.error is not ErrorCode.OFFSET_OUT_OF_RANGE or self._out_of_range is OutOfRange.RAISE:
            return False
        place = fetched.partition
        start = int((await self._client.list_offsets({place: EARLIEST}))[place].offset)
        # a log that ends before the offset holds nothing of what was asked for
        self.positions[place] = start if start > self.positions[place] else self._ends[place]
        return True

    def _give_up(self, fetched: Fetched) -> None:
        place = fetched.partition
        held = f", since a transaction is open from offset {fetched.last_stable_offset} on"
        why = held if fetched.last_stable_offset < self._ends[place] else ""
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"{place} was read up to offset {self.positions[place]} of {self._ends[place]}, and nothing has come for "
            f"{STALL_S:g} s{why}",
        )

    def _records(self, answers: Iterable[Fetched]) -> Iterable[tuple[TopicPartition, Record]]:
        for answer in answers:
            place, aborted = answer.partition, AbortedTransactions(answer.aborted)
            end = self._ends[place]
            for header, begins in iter_batches(answer.records):
                if not header.is_control and not aborted.hides(header):
                    for record in iter_batch_records(answer.records, begins, header):
                        if self.positions[place] <= record.offset < end:
                            yield place, record
                self.positions[place] = max(self.positions[place], int(header.next_offset))
