"""What a sink task is given of an answer: columns of a whole block where that goes, else some records.

Records are converted together where nothing about them is special, and one by one elsewhere, where every error has its
place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from ottla.client.arrow.gathering import Gatherer
from ottla.connect import ColumnsSinkTask, SinkColumns, SinkRecord
from ottla.connect.tasks.fetcher import FetchedRecords
from ottla.connect.tasks.pipeline import RawRecord, SinkPipeline, converts_columns
from ottla.connect.tasks.plugins import TaskPlugins
from ottla.wire import ColumnDecoder, Columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ottla.base import TopicPartition

__all__ = ["Portion", "RowReader", "raw_records"]

TOGETHER_MIN, TOGETHER_MAX = 32, 2_000
"""Fewer rows cost less one by one; and so many are converted before the first of them is put."""
CREATE_TIME, LOG_APPEND_TIME = "CREATE_TIME", "LOG_APPEND_TIME"


class Portion:
    """Records to be put in one call, and the offset behind them; `raws` are those of records one by one."""

    __slots__ = ("_block", "_raws", "columns", "next_offset", "partition", "records", "rows")

    def __init__(self, partition: TopicPartition, rows: Columns) -> None:
        self.partition, self.rows, self.next_offset = partition, len(rows), int(rows.offsets[-1]) + 1
        self.columns: SinkColumns | None = None
        self.records: Sequence[SinkRecord] = ()
        self._block = rows
        self._raws: list[RawRecord] | None = None

    def __len__(self) -> int:
        return len(self.records) if self.columns is None else len(self.columns)

    @property
    def oldest_ms(self) -> int | None:
        """The time of the first record; None where it has none."""
        time_ms = int(self._block.timestamps_ms[0])
        return time_ms if time_ms >= 0 else None

    @property
    def raws(self) -> list[RawRecord]:
        """The records' bytes; made when they are asked for, since most are never reported."""
        if self._raws is None:
            self._raws = raw_records(self.partition, self._block)
        return self._raws


class _Ahead(NamedTuple):
    """Rows of a block that were converted together, before their turn."""

    block: Columns
    first: int
    last: int
    records: list[SinkRecord] | None
    """None where each has to be converted by itself."""


class RowReader:
    """Makes portions of answers for one task."""

    def __init__(self, task: Any, equipment: TaskPlugins, pipeline: SinkPipeline, *, poll_records: int) -> None:
        self._key: Any = equipment.key
        self._value: Any = equipment.value
        self._pipeline, self._poll_records = pipeline, poll_records
        self._together = not equipment.stages and converts_columns(equipment.value)
        self._takes_columns = self._together and isinstance(task, ColumnsSinkTask)
        self._ahead: _Ahead | None = None
        self._decoder = ColumnDecoder(with_headers=True)
        self._gatherer = Gatherer()

    def portion(self, answer: FetchedRecords) -> Portion | None:
        """Return what comes next, or None behind the answer's end; raises what the pipeline raises, KafkaError."""
        block = answer.current(self._decoder)
        if block is None:
            return None
        if self._takes_columns and answer.row == 0:
            columns = self._columns(answer.partition, block)
            if columns is not None:
                made = Portion(answer.partition, block)
                made.columns = columns
                return made
        last = min(answer.row + self._poll_records, len(block))
        made = Portion(answer.partition, block.rows(answer.row, last))
        made.records = self._records(made, block, answer.row, last)
        return made

    def _records(self, portion: Portion, block: Columns, first: int, last: int) -> Sequence[SinkRecord]:
        found = self._converted_together(portion.partition, block, first, last)
        if found is not None:
            return found
        each = map(self._pipeline.record, portion.raws)
        return [record for record in each if record is not None]

    def _converted_together(
        self, partition: TopicPartition, block: Columns, first: int, last: int
    ) -> Sequence[SinkRecord] | None:
        """Return rows' records, of some that were converted at once; None where they have to be converted one by one."""
        if not self._together:
            return None
        ahead = self._ahead
        if ahead is None or ahead.block is not block or not ahead.first <= first <= last <= ahead.last:
            until = min(max(last, first + TOGETHER_MAX), len(block))
            columns = self._columns(partition, block.rows(first, until)) if until - first >= TOGETHER_MIN else None
            ahead = _Ahead(block, first, until, None if columns is None else columns.records())
            self._ahead = ahead
        if last == len(block):
            self._ahead = None  # a block need not be kept for what is done
        return None if ahead.records is None else ahead.records[first - ahead.first : last - ahead.first]

    def _columns(self, partition: TopicPartition, block: Columns) -> SinkColumns | None:
        """Return a block as columns, None where it has to be gone through record by record."""
        kinds = block.log_append_time
        if (block.headers is not None and block.headers.counts.any()) or (kinds[0] != kinds).any():
            return None
        try:
            key = self._converted(self._key, partition.topic, block, block.key_bounds, block.key_nulls)
            value = self._converted(self._value, partition.topic, block, block.value_bounds, block.value_nulls)
        except Exception:  # the same is met again one by one, and handled there
            return None
        if key is None or value is None or value[1] is None:
            return None
        return SinkColumns(
            topic=partition.topic,
            partition=partition.partition,
            values=value[1],
            schema=value[0],
            offsets=pa.array(block.offsets),
            timestamps=pa.array(block.timestamps_ms),
            timestamp_type=LOG_APPEND_TIME if kinds[0] else CREATE_TIME,
            key_schema=key[0],
            keys=key[1],
        )

    def _converted(
        self, converter: Any, topic: str, block: Columns, bounds: NDArray[Any], nulls: NDArray[Any]
    ) -> tuple[Any, pa.Array | None] | None:
        if converter is self._key and nulls.all():
            schema, value = converter.to_connect(topic, None)
            return (schema, None) if value is None else None
        if not converts_columns(converter):
            return None
        data = self._gatherer.gather(pa.py_buffer(block.data), bounds, nulls)
        found: tuple[Any, pa.Array] | None = converter.columns_to_connect(topic, data)
        return found


def raw_records(partition: TopicPartition, rows: Columns) -> list[RawRecord]:
    """Return rows one by one, as bytes."""
    headers = rows.header_pairs() or [()] * len(rows)
    kinds = [LOG_APPEND_TIME if each else CREATE_TIME for each in rows.log_append_time.tolist()]
    columns = (rows.offsets.tolist(), rows.timestamps_ms.tolist(), kinds, rows.keys(), rows.values(), headers)
    topic, number = partition
    return [RawRecord(topic, number, *row) for row in zip(*columns, strict=True)]
