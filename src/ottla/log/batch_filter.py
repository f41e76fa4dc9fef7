"""What compaction leaves of a batch: all of it, some of its records, its header, or nothing.

Offsets never change: a batch keeps its base offset, its last offset delta, and its producer's fields, and its records
keep their bytes. Only where a tombstone or an idle marker is met for the first time the batch learns from when on these
may go (the delete horizon, KIP-534), which takes the place of its base timestamp, so that its records' timestamp deltas
are written anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Final, NamedTuple

from ottla.log.cleaned_transactions import CleanedTransactions
from ottla.log.cleaning_plan import LastOfProducer
from ottla.log.offset_map import OffsetMap
from ottla.log.types import AbortedTransaction
from ottla.wire import (
    BATCH_OVERHEAD,
    NO_TIMESTAMP,
    Attributes,
    BatchHeader,
    Buffer,
    RecordSpan,
    compress,
    encode_batch,
    read_varlong,
    record_spans,
    records_payload,
    varint,
)

__all__ = ["BatchFilter", "Filtered"]

_CRC: Final = Struct(">I")


class Filtered(NamedTuple):
    """What is written of a batch, with its header as it is now."""

    header: BatchHeader
    data: Buffer


class BatchFilter:
    """Decides over the batches of one cleaning, in the order of their offsets."""

    def __init__(
        self,
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        producers: Mapping[int, LastOfProducer],
        *,
        end_offset: int,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        """Keep what `offsets` calls the latest; the batch that ends at `end_offset` stays, if need be without records."""
        self._offsets = offsets
        self._transactions = transactions
        self._producers = producers
        self._end_offset = end_offset
        self._now_ms = now_ms
        self._horizon_ms = now_ms + delete_retention_ms
        self.records_read = 0
        self.records_kept = 0
        self.records_without_key = 0
        self.tombstones_kept = 0

    def apply(self, header: BatchHeader, batch: Buffer) -> Filtered | None:
        """Return what stays of a whole batch whose checksum is right; None where nothing does."""
        self.records_read += header.record_count
        if header.is_control:
            kept = self._marker(header, batch)
        elif self._transactions.is_aborted(header):
            kept = None
        else:
            kept = self._records(header, batch)
        if kept is None and self._must_stay(header):
            return _emptied(header)
        if kept is not None:
            self.records_kept += kept.header.record_count
        return kept

    def take_transactions(self) -> list[AbortedTransaction]:
        """Return the `.txnindex` entries of the batches since the last call."""
        taken, self._transactions.index = self._transactions.index, []
        return taken

    def _must_stay(self, header: BatchHeader) -> bool:
        """True where a batch stays without records: for a producer's sequence number or epoch, or for the log's end."""
        if header.next_offset == self._end_offset:
            return True
        last = self._producers.get(header.producer_id) if header.producer_id >= 0 else None
        if last is None:
            return False
        if last.last_offset >= 0:
            return header.last_offset == last.last_offset
        return header.is_control and header.producer_epoch == last.epoch

    def _marker(self, header: BatchHeader, batch: Buffer) -> Filtered | None:
        done = self._transactions.is_marker_done(header, batch)
        if not header.record_count:
            return None
        horizon = header.delete_horizon
        if not done or (horizon is not None and horizon > self._now_ms):
            return Filtered(header, batch)
        if horizon is not None:
            return None
        payload = records_payload(batch, 0, header)
        return self._rewritten(header, payload, record_spans(payload, header.record_count), set_horizon=True)

    def _records(self, header: BatchHeader, batch: Buffer) -> Filtered | None:
        payload = records_payload(batch, 0, header)
        spans = record_spans(payload, header.record_count)
        horizon = header.delete_horizon
        drops_tombstones = horizon is not None and horizon <= self._now_ms
        base, latest, get = header.base_offset, self._offsets.latest_offset, self._offsets.get
        kept: list[RecordSpan] = []
        tombstones = 0
        for span in spans:
            offset, key_end, has_value = base + span[3], span[5], span[6]
            if offset <= latest:
                if key_end < 0:
                    self.records_without_key += 1
                    continue
                if (drops_tombstones and not has_value) or offset < get(payload[span[4] : key_end]):
                    continue
            kept.append(span)
            tombstones += not has_value
        if not kept:
            return None
        self.tombstones_kept += tombstones
        sets_horizon = tombstones > 0 and horizon is None
        if len(kept) == len(spans) and not sets_horizon:
            return Filtered(header, batch)
        return self._rewritten(header, payload, kept, set_horizon=sets_horizon)

    def _rewritten(
        self, header: BatchHeader, payload: bytes, spans: list[RecordSpan], *, set_horizon: bool
    ) -> Filtered:
        """Return the batch with these records alone, in the codec that it had."""
        base_timestamp, attributes = header.base_timestamp, header.attributes
        max_timestamp = header.max_timestamp
        if not header.is_log_append_time:
            largest = max([read_varlong(payload, span[2])[0] for span in spans])
            max_timestamp = base_timestamp + largest  # type: ignore[assignment]
        if set_horizon:
            attributes |= Attributes.DELETE_HORIZON
            shift = base_timestamp - self._horizon_ms
            base_timestamp = self._horizon_ms  # type: ignore[assignment]
            data = b"".join([_shifted(payload, span, shift) for span in spans])
        else:
            data = b"".join([payload[span[0] : span[1]] for span in spans])
        if header.is_compressed:
            data = compress(header.codec, data)
        return _built(
            header._replace(
                attributes=attributes,
                base_timestamp=base_timestamp,
                max_timestamp=max_timestamp,
                record_count=len(spans),
            ),
            data,
        )


def _emptied(header: BatchHeader) -> Filtered:
    """Return the header alone, as Kafka keeps it: no codec, no base timestamp, no horizon."""
    attributes = header.attributes & ~(Attributes.CODEC | Attributes.DELETE_HORIZON)
    return _built(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0), b"")


def _built(header: BatchHeader, payload: bytes) -> Filtered:
    data = encode_batch(header, payload)
    (crc,) = _CRC.unpack_from(data, 17)
    return Filtered(header._replace(batch_length=BATCH_OVERHEAD - 12 + len(payload), crc=crc), data)


def _shifted(payload: bytes, span: RecordSpan, shift: int) -> bytes:
    """Return a record with `shift` added to its timestamp delta."""
    at, end = span[2], span[1]
    timestamp, after = read_varlong(payload, at)
    body = payload[at - 1 : at] + varint(timestamp + shift) + payload[after:end]
    return varint(len(body)) + body
