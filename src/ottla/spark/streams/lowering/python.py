"""Python steps between DataFrames: records of a flow through a `Chain` in `mapInArrow`, leaving as OUT, ENTRY or a flow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ottla.client.arrow.batches import binary_parts
from ottla.spark.streams.lowering.cells import FAILED
from ottla.spark.streams.lowering.chain import Chain, ChainEnd, Rows
from ottla.spark.streams.lowering.poison import Poison
from ottla.spark.streams.state.chunks import fold_entries, fold_finished
from ottla.streams import Serde
from ottla.wire import hash_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ColumnRows", "ShuffleRows", "SinkRows", "key_hashes"]

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
OUT_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp", pa.int64()),
        ("headers", HEADERS),
        ("partition", pa.int32()),
    ]
)
ENTRY_SCHEMA = pa.schema(
    [
        ("task", pa.int32()),
        ("edge", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp", pa.int64()),
        ("headers", HEADERS),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("step", pa.int32()),
    ]
)
FLOW_SCHEMA = pa.schema(
    [
        ("_key", pa.binary()),
        ("_value", pa.binary()),
        ("timestamp", pa.int64()),
        ("headers", HEADERS),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("_step", pa.int32()),
        ("_task", pa.int32()),
        ("_out", pa.struct(list(OUT_SCHEMA))),
    ]
)
FINISHED = [field.name for field in OUT_SCHEMA]
Batches = Iterable[pa.RecordBatch]


def key_hashes(keys: pa.Array) -> NDArray[np.int64]:
    """Return Kafka's murmur2 of each key, without sign; 0 for null."""
    data, offsets = binary_parts(keys)
    hashed = hash_keys(data, offsets).astype(np.int64)
    if keys.null_count:
        hashed[~keys.is_valid().to_numpy(zero_copy_only=False)] = 0
    return hashed


def _steps(index: NDArray[np.int64], before: NDArray[np.int32] | None) -> NDArray[np.int32]:
    """Return each record's place among those of its row: 0, 1, 2 …"""
    if not len(index):
        return np.zeros(0, np.int32)
    first = np.ones(len(index), np.bool_)
    first[1:] = index[1:] != index[:-1]
    heads = np.flatnonzero(first)
    steps = np.arange(len(index)) - np.repeat(heads, np.diff(np.append(heads, len(index))))
    if before is not None:
        steps = before[index].astype(np.int64) * 100_000 + steps
    return np.minimum(steps, (1 << 31) - 1).astype(np.int32)


def _taken(column: pa.Array, index: NDArray[np.int64]) -> pa.Array:
    whole = len(index) == len(column) and bool((index == np.arange(len(index))).all())
    return column if whole else column.take(pa.array(index))


def _column(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    return batch.column(name) if name in batch.schema.names else None


def _written(chain: Chain, end: ChainEnd, rows: Rows, poison: Poison) -> tuple[Rows, pa.Array, pa.Array]:
    """Return records with their bytes, without those that a serde refuses to write (or to read, for another serde)."""

    def refused(serde: Serde | None, own: Serde | None) -> Any:
        reading = serde is own
        policy = chain.deserialization if reading else chain.production
        return lambda at, error: poison.met(policy, end.name, int(rows.index[at]), error)

    keys, items = rows.keys.raw(end.key, refused(end.key, rows.keys.serde))
    if items is not None:
        return _written(chain, end, _kept(rows, items), poison)
    values, items = rows.values.raw(end.value, refused(end.value, rows.values.serde))
    if items is not None:
        return _written(chain, end, _kept(rows, items), poison)
    return rows, keys, values


def _kept(rows: Rows, items: list[Any]) -> Rows:
    return rows.where(np.fromiter((each is not FAILED for each in items), np.bool_, len(items)))


def _passing(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.StructArray | None]:
    """Part a batch into records on their way and rows that have left already."""
    out = _column(batch, "_out")
    if out is None:
        return batch, None
    batch = batch.drop_columns(["_out"])
    if out.null_count == len(out):
        return batch, None
    gone = out.is_valid()
    return batch.filter(out.is_null()), out.filter(gone)


def _dead_letter_rows(poison: Poison) -> list[dict[str, Any]]:
    """Return dead letters, and a row without topic that says how many records a step has skipped."""
    rows: list[dict[str, Any]] = [
        {
            "topic": each.topic,
            "key": each.key,
            "value": each.value,
            "timestamp": each.timestamp,
            "headers": [{"key": key, "value": value} for key, value in each.headers],
            "partition": None,
        }
        for each in poison.dead_letters
    ]
    rows += [
        {"topic": None, "key": step.encode(), "value": None, "timestamp": 0, "headers": None, "partition": count}
        for step, count in poison.skipped.items()
    ]
    return rows


@dataclass(frozen=True)
class SinkRows:
    """Records to topics: yields OUT."""

    chain: Chain

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Run batches through the chain."""
        for whole in batches:
            batch, gone = _passing(whole)
            if gone is not None:
                yield pa.RecordBatch.from_arrays(gone.flatten(), schema=OUT_SCHEMA)
            poison = Poison(batch)
            for end, rows in self.chain.leave(batch, poison):
                if len(rows) and end.topic is not None:
                    yield self._out(batch, end, rows, poison)
            dead_letters = _dead_letter_rows(poison)
            if dead_letters:
                yield pa.RecordBatch.from_pylist(dead_letters, schema=OUT_SCHEMA)

    def _out(self, batch: pa.RecordBatch, end: ChainEnd, rows: Rows, poison: Poison) -> pa.RecordBatch:
        topics: pa.Array | None = None
        partitions: pa.Array | None = None
        if callable(end.topic) or end.partitioner is not None:
            rows, topics, partitions = self._placed(end, rows, poison)
        before = rows
        rows, keys, values = _written(self.chain, end, rows, poison)
        if topics is not None and len(rows) != len(before):
            rows, topics, partitions = self._placed(end, rows, poison)
        count = len(rows)
        arrays = [
            topics if topics is not None else pa.repeat(pa.scalar(end.topic, pa.string()), count),
            keys,
            values,
            _taken(batch.column("timestamp"), rows.index),
            _taken(batch.column("headers"), rows.index),
            partitions if partitions is not None else pa.nulls(count, pa.int32()),
        ]
        if partitions is None and (hashed := _column(batch, "_hash")) is not None and end.partitions:
            found = _taken(hashed, rows.index).to_numpy(zero_copy_only=False) % end.partitions
            arrays[5] = pa.array(found.astype(np.int32))
        return pa.RecordBatch.from_arrays(arrays, schema=OUT_SCHEMA)

    def _placed(self, end: ChainEnd, rows: Rows, poison: Poison) -> tuple[Rows, pa.Array, pa.Array]:
        """Ask the sink's own functions for each record's topic and partition."""

        def failed(at: int, error: Exception) -> None:
            poison.met(self.chain.processing, end.name, int(rows.index[at]), error)

        keys, values = rows.keys.items(failed)[0], rows.values.items(failed)[0]
        topics: list[Any] = []
        partitions: list[int | None] = []
        for at, (key, value) in enumerate(zip(keys, values, strict=True)):
            try:
                topic = end.topic(key, value, poison.record(int(rows.index[at]))) if callable(end.topic) else end.topic
                chosen = end.partitioner(topic, key, value, end.partitions) if end.partitioner is not None else None
            except Exception as error:  # a user's function may raise anything
                failed(at, error)
                topic, chosen = FAILED, None
            topics.append(topic)
            partitions.append(chosen)
        kept = _kept(rows, topics)
        names = [each for each in topics if each is not FAILED]
        numbers = [each for topic, each in zip(topics, partitions, strict=True) if topic is not FAILED]
        return kept, pa.array(names, pa.string()), pa.array(numbers, pa.int32())


@dataclass(frozen=True)
class ShuffleRows:
    """Records to a stateful stage: yields ENTRY, folded (`state_chunks`), and what has left already in chunks of OUT."""

    chain: Chain
    edge: int
    tasks: int
    by_key: bool
    """True where the key decides the task, else the source's partition."""
    wake: int = 0
    """So many tasks are to be there even if no record ever comes for them (`fold_entries`)."""

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Run batches through the chain."""
        yield from fold_entries([], wake=self.wake)
        for whole in batches:
            batch, gone = _passing(whole)
            if gone is not None:
                yield fold_finished(pa.RecordBatch.from_arrays(gone.flatten(), schema=OUT_SCHEMA))
            poison = Poison(batch)
            for end, rows in self.chain.leave(batch, poison):
                if len(rows):
                    yield from fold_entries([self._entry(batch, end, rows, poison)])
            dead_letters = _dead_letter_rows(poison)
            if dead_letters:
                yield fold_finished(pa.RecordBatch.from_pylist(dead_letters, schema=OUT_SCHEMA))

    def _entry(self, batch: pa.RecordBatch, end: ChainEnd, rows: Rows, poison: Poison) -> pa.RecordBatch:
        rows, keys, values = _written(self.chain, end, rows, poison)
        before = _column(batch, "_step")
        steps = _steps(rows.index, None if before is None else before.to_numpy(zero_copy_only=False))
        known = _column(batch, "_task")
        if known is not None:
            tasks = _taken(known, rows.index)
        elif self.by_key:
            tasks = pa.array((key_hashes(keys) % self.tasks).astype(np.int32))
        else:
            partitions = _taken(batch.column("partition"), rows.index).to_numpy(zero_copy_only=False)
            tasks = pa.array((partitions % self.tasks).astype(np.int32))
        kept = [
            _taken(batch.column(name), rows.index) for name in ("timestamp", "headers", "topic", "partition", "offset")
        ]
        edges = pa.array(np.full(len(rows), self.edge, np.int32))
        return pa.RecordBatch.from_arrays([tasks, edges, keys, values, *kept, pa.array(steps)], schema=ENTRY_SCHEMA)


@dataclass(frozen=True)
class ColumnRows:
    """Records to Spark's own steps: yields a flow's columns, bytes by the serdes of the chain's only end."""

    chain: Chain

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Run batches through the chain."""
        for whole in batches:
            batch, gone = _passing(whole)
            if gone is not None:
                yield _left(gone)
            poison = Poison(batch)
            for end, rows in self.chain.leave(batch, poison):
                yield self._flow(batch, *_written(self.chain, end, rows, poison))
            dead_letters = _dead_letter_rows(poison)
            if dead_letters:
                yield _left(pa.array(dead_letters, pa.struct(list(OUT_SCHEMA))))

    def _flow(self, batch: pa.RecordBatch, rows: Rows, keys: pa.Array, values: pa.Array) -> pa.RecordBatch:
        before, task = _column(batch, "_step"), _column(batch, "_task")
        steps = _steps(rows.index, None if before is None else before.to_numpy(zero_copy_only=False))
        kept = [
            _taken(batch.column(name), rows.index) for name in ("timestamp", "headers", "topic", "partition", "offset")
        ]
        tasks = pa.nulls(len(rows), pa.int32()) if task is None else _taken(task, rows.index)
        out = pa.nulls(len(rows), FLOW_SCHEMA.field("_out").type)
        return pa.RecordBatch.from_arrays([keys, values, *kept, pa.array(steps), tasks, out], schema=FLOW_SCHEMA)


def _left(out: pa.Array) -> pa.RecordBatch:
    count = len(out)
    arrays = [out if field.name == "_out" else pa.nulls(count, field.type) for field in FLOW_SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=FLOW_SCHEMA)
