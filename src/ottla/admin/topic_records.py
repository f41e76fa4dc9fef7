"""Records of topics that administration reads whole, such as what a coordinator or we ourselves have kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ottla.base import Offset, TopicPartition

if TYPE_CHECKING:
    from ottla.client import BlockingClient
    from ottla.wire import Record

__all__ = ["committed_records", "offsets_at"]

FETCH_BYTES = 16 << 20
FETCHES_MAX = 2000


def offsets_at(client: BlockingClient, partitions: Iterable[TopicPartition], at: Any) -> dict[TopicPartition, Any]:
    """Return partitions' offsets at a time, or at EARLIEST or LATEST, of what is committed; raises KafkaError."""
    from ottla.client import Isolation

    return dict(client.list_offsets(dict.fromkeys(partitions, at), isolation=Isolation.READ_COMMITTED))


def committed_records(
    client: BlockingClient, topic: str, positions: dict[int, int], ends: Mapping[int, int]
) -> Iterable[tuple[TopicPartition, Record]]:
    """Yield committed records between positions and ends."""
    from ottla.client import FetchPosition, Isolation
    from ottla.wire import AbortedTransactions, iter_batch_records, iter_batches

    for _ in range(FETCHES_MAX):
        asked = [
            FetchPosition(TopicPartition(topic, index), Offset(at), FETCH_BYTES)
            for index, at in positions.items()
            if at < ends[index]
        ]
        if not asked:
            return
        for answer in client.fetch(asked, max_wait_ms=100, isolation=Isolation.READ_COMMITTED):
            index = answer.partition.partition
            records, aborted = answer.check().records, AbortedTransactions(answer.aborted)
            for header, start in iter_batches(records):
                if not aborted.hides(header):
                    for record in iter_batch_records(records, start, header):
                        if positions[index] <= record.offset < ends[index]:
                            yield answer.partition, record
                positions[index] = max(positions[index], int(header.next_offset))
