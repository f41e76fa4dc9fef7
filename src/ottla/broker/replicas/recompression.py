"""What the worker process does with a client's batch: recompress it for its topic, or walk its many records."""

from __future__ import annotations

from dataclasses import replace

from ottla.wire import BatchRules, Codec, admit_batch, recompress_batch

__all__ = ["recompressed", "walked"]

UNBOUNDED = BatchRules().records_max


def recompressed(records: bytes, codec: Codec, level: int | None, rules: BatchRules, now_ms: int) -> bytearray:
    """Return the batch in another codec; raises KafkaError where it, or any record in it, is not what the topic takes.

    What a batch may become is bounded, and that it is looked into record by record costs nobody else any time here.
    """
    return recompress_batch(walked(records, rules, now_ms), codec, level, limit=rules.decompressed_bytes_max)


def walked(records: bytes, rules: BatchRules, now_ms: int) -> bytearray:
    """Return the batch as the topic's rules leave it; raises KafkaError where they refuse it."""
    batch = bytearray(records)
    admit_batch(batch, replace(rules, records_max=UNBOUNDED), now_ms)
    return batch
