"""Records of several partitions in one stream, read without a group: positions, resets, aborted transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.base import ErrorCode, Offset, TopicPartition

if TYPE_CHECKING:
    from ottla.client import BlockingClient, Fetched, Isolation
    from ottla.wire import BatchHeader, Record

__all__ = ["ConsumedRecord", "PartitionReader"]


@dataclass(frozen=True, slots=True)
class ConsumedRecord:
    """One record with what its batch and partition say of it."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    timestamp: int
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class PartitionReader:
    """Reads partitions from given positions on, for as long as it is asked."""

    def __init__(
        self,
        client: BlockingClient,
        positions: dict[TopicPartition, Offset],
        *,
        isolation: Isolation,
        reset: Callable[[TopicPartition], Offset],
        until: dict[TopicPartition, Offset] | None = None,
    ) -> None:
        self._client = client
        self._positions = positions
        self._isolation = isolation
        self._reset = reset
        self._until = until or {}
        """Where to stop in partitions; one that has come there is read no more."""
        self._leave_finished()

    @property
    def partitions(self) -> set[TopicPartition]:
        """The partitions that are read."""
        return set(self._positions)

    def add(self, positions: dict[TopicPartition, Offset]) -> None:
        """Read these partitions too."""
        self._positions.update(positions)

    def poll(self, max_wait_ms: int) -> Iterator[ConsumedRecord]:
        """Fetch once and yield what came; a position moves on when its records have been taken."""
        from ottla.client import FetchPosition

        asked = [FetchPosition(partition, offset) for partition, offset in self._positions.items()]
        for fetched in self._client.fetch(asked, max_wait_ms=max_wait_ms, isolation=self._isolation):
            if fetched.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                self._positions[fetched.partition] = self._reset(fetched.partition)
                continue
            yield from self._records(fetched.check())
        self._leave_finished()

    def _leave_finished(self) -> None:
        for partition, end in self._until.items():
            if self._positions.get(partition, -1) >= end:
                del self._positions[partition]

    def _records(self, fetched: Fetched) -> Iterator[ConsumedRecord]:
        from ottla.wire import AbortedTransactions, iter_batch_records, iter_batches

        aborted = AbortedTransactions(fetched.aborted)
        end = self._until.get(fetched.partition)
        for header, pos in iter_batches(fetched.records):
            if header.next_offset <= fetched.offset:
                continue
            if not aborted.hides(header):
                for record in iter_batch_records(fetched.records, pos, header):
                    if end is not None and record.offset >= end:
                        break
                    if record.offset >= self._positions[fetched.partition]:
                        yield _consumed(fetched.partition, header, record)
                        self._positions[fetched.partition] = Offset(record.offset + 1)
            self._positions[fetched.partition] = header.next_offset


def _consumed(partition: TopicPartition, header: BatchHeader, record: Record) -> ConsumedRecord:
    return ConsumedRecord(
        topic=partition.topic,
        partition=partition.partition,
        offset=record.offset,
        leader_epoch=header.partition_leader_epoch,
        timestamp=record.timestamp,
        timestamp_type="LogAppendTime" if header.is_log_append_time else "CreateTime",
        key=record.key,
        value=record.value,
        headers=record.headers,
    )
