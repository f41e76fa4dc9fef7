"""Stepping from batch to batch of a file by their headers, without reading a record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.base import CorruptionError, KafkaError
from ottla.log.disk import File
from ottla.wire import BATCH_OVERHEAD, BatchHeader, read_batch_header

__all__ = ["HEAD_BYTES", "headers_between"]

HEAD_BYTES: Final = 4096
"""Bytes read at once while looking for a batch: a stretch between two index entries."""


def headers_between(file: File, position: int, end: int) -> Iterator[tuple[BatchHeader, int]]:
    """Yield (header, position) of the batches between two positions; raises CorruptionError where there is no batch."""
    block, start = b"", position
    while position < end:
        if position - start + BATCH_OVERHEAD > len(block):
            start = position
            block = file.pread(position, min(HEAD_BYTES, end - position))
            if len(block) < BATCH_OVERHEAD:
                raise CorruptionError(f"{file.path}: no whole batch at position {position}", file.path)
        try:
            header = read_batch_header(block, position - start)
        except KafkaError as error:
            raise CorruptionError(f"{file.path}: no batch at position {position}: {error}", file.path) from error
        if position + header.size > end:
            raise CorruptionError(f"{file.path}: the batch at position {position} is cut off", file.path)
        yield header, position
        position += header.size
