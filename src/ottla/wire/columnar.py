"""Whole Fetch answers into columns: where each record's key, value and headers lie, as numpy arrays for Arrow.

No object is made per record. Batches are read one by one, their records all together: a decoder gathers what one answer
holds (decompressed where it is compressed) into `Columns`, whose `data` the bounds point into. Two designs give the same
arrays: the walk of `columnar_walk` where mypyc has compiled it, else `columnar_numpy`, which leaps over records of equal
size. numpy is imported when a decoder is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from struct import Struct
from typing import TYPE_CHECKING, Protocol

from ottla.base import ErrorCode, KafkaError, Offset, ProducerId
from ottla.wire.aborted import AbortedTransactions
from ottla.wire.batch import (
    ATTRIBUTES_AT,
    BATCH_OVERHEAD,
    HEADER,
    LENGTH_END,
    MAGIC,
    Attributes,
    Buffer,
    read_batch_header,
)
from ottla.wire.checksum import crc32c
from ottla.wire.columns import Block, Columns, HeaderColumns, Parts, Span
from ottla.wire.compression import DECOMPRESSED_BYTES_MAX, Codec, decompress

if TYPE_CHECKING:
    pass

__all__ = ["ColumnDecoder", "Columns", "Decoded", "HeaderColumns", "next_offset", "walk_is_compiled"]

BLOCK_BYTES_MAX = 8 << 20
"""Decompressed bytes after which columns are handed out and new ones begun: about what the processor's cache holds, and a
single batch, which may be larger, stays far below the 2 GiB that bounds can address."""
_read_fields = HEADER.unpack_from
_PLACE = Struct(">qi11xi")
"""Of a batch's header: base offset, batch length, last offset delta."""


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """What an answer held: its records in offset order, and the offset to fetch next.

    `next_offset` lies behind every whole batch, also behind those without records to show (control batches, aborted
    transactions, compacted ones); it is the start that was asked for where not one whole batch was there.
    """

    columns: list[Columns]
    next_offset: Offset


class Finder(Protocol):
    """A design: finds the parts of a block's records; raises IndexError or ValueError where they are malformed."""

    def find(self, block: Block) -> Parts:
        """Return the parts of every record, in order."""
        ...


def walk_is_compiled() -> bool:
    """True where the compiled walk is what decodes."""
    try:
        from ottla.wire import columnar_walk
    except ImportError:  # librt comes with the compiler; without it nothing here was compiled either
        return False
    return not columnar_walk.__file__.endswith(".py")


def next_offset(records: Buffer, start: Offset) -> Offset:
    """Return the offset behind the last whole batch, read from headers alone; `start` where there is none.

    With it the next Fetch can leave before this answer is decoded.
    """
    pos, found, end = 0, start, len(records)
    while end - pos >= BATCH_OVERHEAD:
        base_offset, length, last_delta = _PLACE.unpack_from(records, pos)
        pos += length + LENGTH_END
        if length < BATCH_OVERHEAD - LENGTH_END or pos > end:
            break
        found = max(found, Offset(base_offset + last_delta + 1))
    return found


class ColumnDecoder:
    """Turns the records of Fetch answers into columns; keep one per reader, since it reuses its working memory."""

    def __init__(self, *, with_headers: bool = False, compiled: bool | None = None) -> None:
        """Choose the compiled walk where there is one, unless told which."""
        self._with_headers = with_headers
        self._finder: Finder
        if compiled if compiled is not None else walk_is_compiled():
            from ottla.wire.columnar_compiled import WalkFinder

            self._finder = WalkFinder()
        else:
            from ottla.wire.columnar_numpy import NumpyFinder

            self._finder = NumpyFinder()

    def decode(
        self,
        records: Buffer,
        *,
        start: Offset,
        end: Offset | None = None,
        aborted: Sequence[tuple[ProducerId, Offset]] = (),
    ) -> Decoded:
        """Return the records from `start` up to, not including, `end`; what is cut off at the buffer's end is left.

        `aborted` are the transactions that the answer calls aborted, by producer id and first offset. Raises KafkaError:
        CORRUPT_MESSAGE for a checksum, INVALID_RECORD for records that are not what they declare.
        """
        data = bytes(records)
        columns: list[Columns] = []
        visible, following = _visible(data, start, end, aborted)
        for block in _blocks(data, visible):
            found = self._columns(block)
            first = int(found.offsets.searchsorted(start))
            last = len(found) if end is None else int(found.offsets.searchsorted(end))
            if first < last:
                columns.append(found.rows(first, last))
        return Decoded(columns, following if end is None else min(following, end))

    def _columns(self, block: Block) -> Columns:
        from ottla.wire.columnar_numpy import assemble

        try:
            return assemble(block, self._finder.find(block), with_headers=self._with_headers)
        except (IndexError, ValueError) as error:
            first = block.spans[0].base_offset
            raise KafkaError(
                ErrorCode.INVALID_RECORD, f"records from offset {first} on are not what they declare: {error}"
            ) from error


def _visible(
    data: bytes, start: Offset, end: Offset | None, aborted: Sequence[tuple[ProducerId, Offset]]
) -> tuple[list[tuple[int, Span]], Offset]:
    """Return (codec, span) of each whole batch whose records a reader sees (KIP-98), and the offset behind all of them."""
    transactions = AbortedTransactions(aborted) if aborted else None
    found: list[tuple[int, Span]] = []
    pos, size, following = 0, len(data), start
    view = memoryview(data)
    while size - pos >= BATCH_OVERHEAD:
        fields = _read_fields(data, pos)
        base_offset, length, _, magic, crc, attributes, last_delta, base_timestamp, max_timestamp = fields[:9]
        stop = pos + length + LENGTH_END
        if magic != MAGIC or length < BATCH_OVERHEAD - LENGTH_END:
            read_batch_header(data, pos)  # raises what is wrong
        if stop > size or (end is not None and base_offset >= end):
            break
        if crc32c(view[pos + ATTRIBUTES_AT : stop]) != crc:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {base_offset} has a wrong checksum")
        last, count = base_offset + last_delta, fields[12]
        if last >= following:
            following = Offset(last + 1)
        shown = transactions is None or not transactions.hides(read_batch_header(data, pos))
        if shown and count > 0 and last >= start and not attributes & Attributes.CONTROL:
            by_log = bool(attributes & Attributes.LOG_APPEND_TIME)
            span = Span(pos + BATCH_OVERHEAD, stop, count, base_offset, base_timestamp, max_timestamp, by_log)
            found.append((attributes & Attributes.CODEC, span))
        pos = stop
    return found, following


def _blocks(data: bytes, batches: list[tuple[int, Span]]) -> Iterator[Block]:
    """Gather neighbouring batches into blocks: those stored plainly over `data`, the others over what they unpack to."""
    for packed, group in groupby(batches, key=lambda batch: batch[0] != Codec.NONE):
        if packed:
            yield from _unpacked(data, group)
        else:
            yield Block(data, [span for _, span in group])


def _unpacked(data: bytes, batches: Iterable[tuple[int, Span]]) -> Iterator[Block]:
    spans: list[Span] = []
    contents: list[bytes] = []
    size = 0
    view = memoryview(data)
    for codec, span in batches:
        if codec > Codec.ZSTD:
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression type id: {codec}")
        content = decompress(Codec(codec), view[span.begin : span.end], DECOMPRESSED_BYTES_MAX)
        if spans and size + len(content) > BLOCK_BYTES_MAX:
            yield Block(b"".join(contents), spans)
            spans, contents, size = [], [], 0
        spans.append(span._replace(begin=size, end=size + len(content)))
        contents.append(content)
        size += len(content)
    yield Block(contents[0] if len(contents) == 1 else b"".join(contents), spans)
