"""What a sink task is given of an answer: columns of a whole block where that goes, else some records one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

CREATE_TIME, LOG_APPEND_TIME = "CREATE_TIME", "LOG_APPEND_TIME"


class Portion:
    """Records to be put in one call, and the offset behind them; `raws` are those of records one by one."""

    __slots__ = ("columns", "next_offset", "partition", "raws", "records", "rows")

    def __init__(self, partition: TopicPartition, rows: int, next_offset: int) -> None:
        self.partition, self.rows, self.next_offset = partition, rows, next_offset
        self.columns: SinkColumns | None = None
        self.records: list[SinkRecord] = []
        self.raws: list[RawRecord] = []

    def __len__(self) -> int:
        return len(self.records) if self.columns is None else len(self.columns)


class RowReader:
    """Makes portions of answers for one task."""

    def __init__(self, task: Any, equipment: TaskPlugins, pipeline: SinkPipeline, *, poll_records: int) -> None:
        self._key: Any = equipment.key
        self._value: Any = equipment.value
        self._pipeline, self._poll_records = pipeline, poll_records
        self._takes_columns = (
            isinstance(task, ColumnsSinkTask) and not equipment.stages and converts_columns(equipment.value)
        )
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
                made = Portion(answer.partition, len(block), int(block.offsets[-1]) + 1)
                made.columns = columns
                return made
        last = min(answer.row + self._poll_records, len(block))
        rows = block.rows(answer.row, last)
        made = Portion(answer.partition, len(rows), int(rows.offsets[-1]) + 1)
        made.raws = raw_records(answer.partition, rows)
        for raw in made.raws:
            record = self._pipeline.record(raw)
            if record is not None:
                made.records.append(record)
        return made

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
