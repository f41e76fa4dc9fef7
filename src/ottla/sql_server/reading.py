"""Topics read by the server itself: for push queries, tables that are followed, and PRINT."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping

from ottla.base import ErrorCode, Millis, Offset, OttlaError, TopicPartition
from ottla.client import EARLIEST, LATEST, Client, Fetched, FetchPosition, Isolation
from ottla.sql import SqlError
from ottla.streams import Record
from ottla.wire import AbortedTransactions, iter_batch_records, iter_batches

__all__ = ["Learn", "TopicReader"]

Learn = Callable[[list[Record]], Awaitable[None]]
FETCH_BYTES_MAX = 4 << 20
"""One answer's share of memory."""


class TopicReader:
    """Reads topics from a place on; `client` is its own, since a fetch that waits holds up what else it is asked."""

    def __init__(self, client: Client, topics: Iterable[str], learn: Learn | None = None) -> None:
        """`learn` asks the schema registry for what records need, before they are given; OttlaErrors are let through."""
        self._client, self._topics, self._learn = client, sorted(set(topics)), learn
        self.positions: dict[TopicPartition, int] = {}
        """The next offset of each partition."""

    async def begin(self, where: str) -> None:
        """Begin at the `earliest` or the `latest` records; raises KafkaError, SqlError for a topic that is not there."""
        await self._client.metadata(self._topics)
        partitions: list[TopicPartition] = []
        for topic in self._topics:
            found = self._client.cluster.partitions_of(topic)
            if not found:
                raise SqlError(f"Topic {topic} does not exist.")
            partitions += found
        self.positions = await self._offsets(partitions, EARLIEST if where == "earliest" else LATEST)

    async def ends(self, *, committed: bool = True) -> dict[TopicPartition, int]:
        """Return where the partitions end: what is committed, or what is only written, too."""
        isolation = Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED
        return await self._offsets(self.positions, LATEST, isolation)

    async def _offsets(
        self, partitions: Iterable[TopicPartition], where: Millis, isolation: Isolation = Isolation.READ_COMMITTED
    ) -> dict[TopicPartition, int]:
        found = await self._client.list_offsets(dict.fromkeys(partitions, where), isolation=isolation)
        return {each: int(listed.check().offset) for each, listed in found.items()}

    async def read(self, wait_ms: int) -> list[Record]:
        """Return records that are committed, of each partition in their order; none where none came in time.

        Raises KafkaError, and SqlError where the schema registry is away: the same records come again then.
        """
        before = dict(self.positions)
        asked = [FetchPosition(each, Offset(offset)) for each, offset in self.positions.items()]
        found: list[Record] = []
        for fetched in await self._client.fetch(
            asked, max_wait_ms=wait_ms, max_bytes=FETCH_BYTES_MAX, isolation=Isolation.READ_COMMITTED
        ):
            if fetched.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                self.positions |= await self._offsets([fetched.partition], EARLIEST)
                continue
            self._take(fetched.check(), found)
        if self._learn is not None and found:
            try:
                await self._learn(found)
            except OttlaError:
                self.positions = before
                raise
        return found

    def _take(self, fetched: Fetched, found: list[Record]) -> None:
        aborted = AbortedTransactions(fetched.aborted)
        place = fetched.partition
        for header, at in iter_batches(fetched.records):
            if header.next_offset <= self.positions[place]:
                continue
            if not aborted.hides(header):
                for record in iter_batch_records(fetched.records, at, header):
                    if record.offset >= self.positions[place]:
                        headers = tuple((name, value) for name, value in record.headers)
                        found.append(
                            Record(
                                record.key,
                                record.value,
                                record.timestamp,
                                headers,
                                place.topic,
                                place.partition,
                                record.offset,
                            )
                        )
            self.positions[place] = header.next_offset

    def is_past(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether all before some offsets has been read."""
        return all(self.positions.get(each, 0) >= end for each, end in ends.items())

    async def close(self) -> None:
        """Close the client."""
        await self._client.close()
