"""Records of topics that administration reads whole, such as what a coordinator or we ourselves have kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ottla.base import TopicPartition

if TYPE_CHECKING:
    from ottla.client import BlockingClient
    from ottla.wire import Record

__all__ = ["committed_records", "newest_records", "offsets_at", "record_bytes"]

FIRST_WINDOW, WIDER = 1, 4
RECORD_OVERHEAD_BYTES = 256
"""What a record takes beside its own bytes."""


def offsets_at(client: BlockingClient, partitions: Iterable[TopicPartition], at: Any) -> dict[TopicPartition, Any]:
    """Return partitions' offsets at a time, or at EARLIEST or LATEST, of what is committed; raises KafkaError."""
    from ottla.client import Isolation

    return dict(client.list_offsets(dict.fromkeys(partitions, at), isolation=Isolation.READ_COMMITTED))


def committed_records(
    client: BlockingClient, topic: str, positions: dict[int, int], ends: Mapping[int, int]
) -> Iterable[tuple[TopicPartition, Record]]:
    """Yield committed records between positions and ends; raises KafkaError, where nothing comes for long too."""
    from ottla.client import Isolation, TopicScan

    ranges = {TopicPartition(topic, index): (at, ends[index]) for index, at in positions.items()}
    scan = TopicScan(client.client, ranges, isolation=Isolation.READ_COMMITTED)
    while not scan.is_at_end:
        yield from client.run(scan.read())


def record_bytes(record: Record) -> int:
    """Return how much memory a record takes, about."""
    own = len(record.key or b"") + len(record.value or b"") + RECORD_OVERHEAD_BYTES
    return own + sum(len(name) + len(value or b"") for name, value in record.headers)


def newest_records(
    client: BlockingClient, place: TopicPartition, start: int, end: int, *, bytes_max: int
) -> tuple[list[Record], bool]:
    """Return a partition's newest committed records between two offsets, of so many bytes, and whether these are all.

    It looks backwards in windows, each wider than the one before: a window that does not fit is left out whole, so that
    nothing is missing in between. The very newest record is there however large it is. No more than `bytes_max` and one
    answer are held.
    """
    windows: list[list[Record]] = []
    until, width, size = end, FIRST_WINDOW, 0
    while until > start:
        low = max(start, until - width)
        records: list[Record] = []
        for _, record in committed_records(client, place.topic, {place.partition: low}, {place.partition: until}):
            size += record_bytes(record)
            if size > bytes_max and (windows or records):
                return _in_order(windows), False
            records.append(record)
        windows += [records] if records else []
        until, width = low, width * WIDER
    return _in_order(windows), True


def _in_order(windows: list[list[Record]]) -> list[Record]:
    return [each for window in reversed(windows) for each in window]
