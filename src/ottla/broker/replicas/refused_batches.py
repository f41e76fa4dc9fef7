"""Which producers have to send a batch again that found no room: what they sent behind it is refused alike.

An idempotent producer has several requests on their way. Where the disk had no room for one batch, and has some for a
smaller one behind it, that one would be out of order; of a producer that the log does not know yet it would even be taken
for the first. A producer takes OUT_OF_ORDER_SEQUENCE_NUMBER for a loss: librdkafka's then goes on in a new epoch, in which
it sends again what other partitions may have already. So who is behind a refused batch hears the same as that one did, as
in Kafka, where a full disk costs all of the log directory.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.base import ErrorCode, KafkaError
from ottla.wire import BatchHeader

__all__ = ["NoRoomError", "RefusedBatches"]

LASTS_MS: Final = 30_000
"""Who has not sent the batch again by then has given it up: what it sends is looked at as it is."""
PRODUCERS_MAX: Final = 10_000
SEQUENCE_MASK: Final = 0x7FFFFFFF


class NoRoomError(KafkaError):
    """What answers a batch that found no room on the disk.

    It is told by its class: compiled modules keep no cause of an error.
    """


class _Refused(NamedTuple):
    epoch: int
    sequence: int
    at_ms: int

    def lasts(self, epoch: int, now_ms: int) -> bool:
        """Return whether it still counts for what its producer sends."""
        return epoch == self.epoch and 0 <= now_ms - self.at_ms <= LASTS_MS

    def is_before(self, sequence: int) -> bool:
        """Return whether a batch comes behind this one; sequences begin at 0 again after the last one."""
        return 0 < (sequence - self.sequence) & SEQUENCE_MASK <= SEQUENCE_MASK // 2


class RefusedBatches:
    """The first batch of each producer that found no room in one log, until it comes again."""

    __slots__ = ("_first",)

    def __init__(self) -> None:
        self._first: dict[int, _Refused] = {}

    def __len__(self) -> int:
        return len(self._first)

    def any_left(self, now_ms: int) -> bool:
        """Return whether anybody has a batch to send again; who has given it up is forgotten."""
        while self._first:
            producer_id, oldest = next(iter(self._first.items()))
            if oldest.lasts(oldest.epoch, now_ms):
                return True
            del self._first[producer_id]
        return False

    def note(self, header: BatchHeader, now_ms: int) -> None:
        """Note that a batch found no room."""
        if header.producer_id < 0:
            return
        known = self._first.pop(header.producer_id, None)
        sequence, epoch = header.base_sequence, header.producer_epoch
        if known is not None and known.lasts(epoch, now_ms) and known.is_before(sequence):
            sequence = known.sequence
        self._first[header.producer_id] = _Refused(epoch, sequence, now_ms)
        if len(self._first) > PRODUCERS_MAX:
            del self._first[next(iter(self._first))]

    def check(self, header: BatchHeader, now_ms: int, name: str) -> None:
        """Raise KAFKA_STORAGE_ERROR for a batch behind one that found no room; `name` is the partition's."""
        known = self._first.get(header.producer_id)
        if known is None:
            return
        if not known.lasts(header.producer_epoch, now_ms):
            del self._first[header.producer_id]
        elif known.is_before(header.base_sequence):
            text = f"Partition {name}: a batch that the producer has sent before this one found no room on the disk"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text)

    def appended(self, header: BatchHeader) -> None:
        """Forget a producer of which a batch was appended: it had come to its turn."""
        self._first.pop(header.producer_id, None)

    def clear(self) -> None:
        """Forget everybody."""
        self._first.clear()
