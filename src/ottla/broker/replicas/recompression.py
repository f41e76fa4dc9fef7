"""Recompressing a client's batch for a topic with a codec of its own; this runs in the worker process."""

from __future__ import annotations

from ottla.wire import BatchRules, Codec, admit_batch, recompress_batch

__all__ = ["recompressed"]

WALKED = BatchRules(walk=True)
"""Everything that does not depend on the topic: its own rules are applied when the batch is appended."""


def recompressed(records: bytes, codec: Codec, level: int | None, now_ms: int) -> bytearray:
    """Return the batch in another codec; raises KafkaError where it, or any record in it, is not sound.

    What a batch may become is bounded, and that it is looked into record by record costs nobody else any time here.
    """
    batch = bytearray(records)
    admit_batch(batch, WALKED, now_ms)
    return recompress_batch(batch, codec, level, limit=WALKED.decompressed_bytes_max)
