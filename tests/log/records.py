"""Batches for the tests of the log room."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.base import Millis, ProducerEpoch, ProducerId
from ottla.log import LogSlice
from ottla.wire import Record, build_batch, end_transaction_marker, iter_records

__all__ = ["NOW", "batch", "marker", "records_of", "values"]

NOW = 1_750_000_000_000


def batch(
    values: Sequence[bytes],
    *,
    timestamp: int = NOW,
    base_offset: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
    leader_epoch: int = -1,
) -> bytearray:
    """Return a batch of records with these values; `producer` is (id, epoch, first sequence)."""
    records = [Record(base_offset + at, timestamp, None, value, ()) for at, value in enumerate(values)]  # type: ignore[arg-type]
    producer_id, producer_epoch, base_sequence = producer
    return build_batch(
        records,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )


def marker(producer_id: int, epoch: int, *, commit: bool, coordinator_epoch: int = 0) -> bytearray:
    """Return a transaction's end."""
    return bytearray(
        end_transaction_marker(
            commit=commit,
            producer_id=ProducerId(producer_id),
            producer_epoch=ProducerEpoch(epoch),
            coordinator_epoch=coordinator_epoch,
            timestamp=Millis(NOW),
        )
    )


def records_of(found: LogSlice) -> list[Record]:
    """Return the records of the whole batches in a slice."""
    return list(iter_records(found.read()))


def values(found: LogSlice) -> list[bytes | None]:
    """Return the values of the records in a slice."""
    return [record.value for record in records_of(found)]
