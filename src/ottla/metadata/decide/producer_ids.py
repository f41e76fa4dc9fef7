"""Blocks of producer ids: each broker draws one at a time and hands out its ids (KIP-730)."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.base import ErrorCode, KafkaError, ProducerId
from ottla.metadata.decide.decision import Decision
from ottla.metadata.image import Image
from ottla.wire.messages.producer_ids_record import ProducerIdsRecord

__all__ = ["PRODUCER_ID_BLOCK_SIZE", "ProducerIdBlock", "allocate_producer_ids"]

PRODUCER_ID_BLOCK_SIZE = 1000
"""Ids in a block, as in Kafka: one metadata record for a thousand producers."""

PRODUCER_ID_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """Consecutive ids that only one broker hands out, once."""

    first: ProducerId
    size: int = PRODUCER_ID_BLOCK_SIZE


def allocate_producer_ids(image: Image, *, broker_id: int, broker_epoch: int) -> Decision[ProducerIdBlock]:
    """Choose the record that gives this broker the next block; STALE_BROKER_EPOCH from a past incarnation."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
    if broker.epoch != broker_epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH, f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}"
        )
    first = image.next_producer_id
    if first > PRODUCER_ID_MAX - PRODUCER_ID_BLOCK_SIZE:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "Exhausted all producer ids")
    record = ProducerIdsRecord(
        broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=first + PRODUCER_ID_BLOCK_SIZE
    )
    return Decision((record,), ProducerIdBlock(first))
