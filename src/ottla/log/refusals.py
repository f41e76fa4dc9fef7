"""What a log refuses, in Kafka's words."""

from __future__ import annotations

from ottla.base import ErrorCode, KafkaError

__all__ = ["not_next", "out_of_range", "start_beyond_end", "too_large"]


def not_next(name: str, offset: int, end: int) -> KafkaError:
    """Return the error for a replicated batch that does not follow the last one."""
    return KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"Batch at offset {offset} in {name}, where {end} is next")


def too_large(name: str, size: int, segment_bytes: int) -> KafkaError:
    """Return the error for an append that no segment can hold."""
    return KafkaError(
        ErrorCode.RECORD_LIST_TOO_LARGE,
        f"Message batch size is {size} bytes in append to partition {name}, which exceeds the maximum "
        f"configured segment size of {segment_bytes}.",
    )


def out_of_range(name: str, offset: int, start: int, end: int) -> KafkaError:
    """Return the error for a read outside of the log."""
    return KafkaError(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"Received request for offset {offset} for partition {name}, but we only have log segments from offset "
        f"{start} to {end}.",
    )


def start_beyond_end(name: str, offset: int, end: int) -> KafkaError:
    """Return the error for a deletion of records that are not there yet."""
    return KafkaError(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"Cannot increment the log start offset to {offset} of partition {name} since it is larger than the "
        f"log end offset {end}",
    )
