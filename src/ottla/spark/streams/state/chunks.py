"""Many rows as one: Arrow batches of ENTRY and OUT rows folded into single binary values, and unfolded.

Spark's stateful operator for Python takes its input apart row by row (measured: 40,000 rows/s as Row, 90,000 by pandas, on
two cores), so it sees one row per task and Arrow batch instead, whose value is the batch in Arrow's stream format. What is
folded costs a few microseconds a chunk; the rows inside go from column to Python objects in one step.

The order of a task's records is decided here, as Kafka's PartitionGroup decides it: each topic partition keeps its own
order, and between them the one whose next record has the smaller timestamp goes first. That is a stable sort by the largest
timestamp so far within the partition: a record behind a later one leaves right after that one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby, pairwise, repeat
from typing import TYPE_CHECKING, Any, cast

from ottla.spark.streams.state.groups import group_of
from ottla.streams import BlockRecords, ChangeColumns, Output, OutputColumns, Record, StoreChange

if TYPE_CHECKING:
    import numpy
    import pyarrow

__all__ = [
    "CHUNKS",
    "Run",
    "blocks_of",
    "chunk_of",
    "finished_apart",
    "fold_entries",
    "fold_finished",
    "fold_results",
    "headers_of",
    "runs_of",
    "unfold",
]

CHUNKS = "`group` int, chunk binary"
"""What `fold_entries` yields (Spark DDL)."""
FINISHED = b"OUT"
"""In front of a chunk of OUT rows among the chunks of a task's records, which begin with Arrow's own mark (0xFFFFFFFF)."""
SLICE_ROWS = 50_000
"""Rows that become Python objects at once, and rows of a chunk of results."""
JOINED_BYTES_MAX = 1 << 30
"""Bytes of a table whose columns Arrow may join as they are."""
CHUNK_BYTES = 64 << 20
"""Bytes of keys and values after which a further chunk of results is begun: Arrow counts the bytes of a column, and a JVM
those of a value, in 31 bits. A row alone may be more."""

Headers = tuple[tuple[str, bytes | None], ...]
Run = tuple[int, list[Record]]
"""Records that enter by the same edge, one after the other."""


# -- in: ENTRY rows → chunks → records


def fold_entries(batches: Iterable[pyarrow.RecordBatch], *, wake: int = 0) -> Iterator[pyarrow.RecordBatch]:
    """Fold batches of ENTRY rows into a row per task: for `mapInArrow`, or at the end of another step's.

    The first `wake` tasks get a row without a chunk, so that they are there even if no record ever comes for them.
    """
    if wake:
        yield _folded((group_of(task), None) for task in range(wake))
    for batch in batches:
        if batch.num_rows:
            yield _folded(_by_task(batch))


def _folded(rows: Iterable[tuple[int, bytes | None]]) -> pyarrow.RecordBatch:
    import pyarrow

    groups, chunks = zip(*rows, strict=True)
    arrays = [pyarrow.array(groups, pyarrow.int32()), pyarrow.array(chunks, pyarrow.binary())]
    return pyarrow.RecordBatch.from_arrays(arrays, names=["group", "chunk"])


def fold_finished(batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    """Fold OUT rows that only pass through (dead letters of the steps before) into a chunk of task 0's."""
    return _folded([(group_of(0), FINISHED + chunk_of(batch))])


def finished_apart(chunks: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Return chunks of records, and chunks of OUT rows that pass through."""
    finished = [chunk[len(FINISHED) :] for chunk in chunks if chunk.startswith(FINISHED)]
    return ([chunk for chunk in chunks if not chunk.startswith(FINISHED)] if finished else list(chunks)), finished


def _by_task(batch: pyarrow.RecordBatch) -> Iterator[tuple[int, bytes]]:
    import numpy
    import pyarrow

    tasks = batch.column("task").to_numpy()
    if (tasks[1:] != tasks[:-1]).any():
        order = numpy.argsort(tasks, kind="stable")
        tasks = tasks[order]
        batch = batch.take(pyarrow.array(order))
    starts = [0, *(numpy.flatnonzero(tasks[1:] != tasks[:-1]) + 1).tolist(), len(tasks)]
    for start, end in pairwise(starts):
        yield group_of(int(tasks[start])), chunk_of(batch.slice(start, end - start))


def chunk_of(rows: pyarrow.RecordBatch | pyarrow.Table) -> bytes:
    """Return rows as a chunk: Arrow's stream format."""
    import pyarrow

    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def runs_of(chunks: Sequence[bytes]) -> Iterator[Run]:
    """Return a task's records in Kafka's order, as runs of records that enter by the same edge."""
    for part in _in_order(chunks):
        records = _records(part)
        for edge, first, last in _edges(part):
            yield edge, records[first:last]


def blocks_of(chunks: Sequence[bytes]) -> Iterator[tuple[int, BlockRecords]]:
    """Return the same as blocks of columns."""
    for part in _in_order(chunks):
        for edge, first, last in _edges(part):
            yield edge, _block(part.slice(first, last - first))


def _in_order(chunks: Sequence[bytes]) -> Iterator[pyarrow.Table]:
    """Yield slices of a task's rows in Kafka's order, each column of one piece."""
    import pyarrow

    if not chunks:
        return
    table = pyarrow.concat_tables(pyarrow.ipc.open_stream(chunk).read_all() for chunk in chunks)
    order = _kafka_order(table)
    if order is not None:
        table = _wide(table).take(pyarrow.array(order))
    for start in range(0, table.num_rows, SLICE_ROWS):
        yield table.slice(start, SLICE_ROWS).combine_chunks()


def _edges(part: pyarrow.Table) -> Iterator[tuple[int, int, int]]:
    """Yield an edge, the first row that enters by it, and the row behind the last, one after the other."""
    import numpy

    edges = part.column("edge").to_numpy()
    ends = [0, *(numpy.flatnonzero(edges[1:] != edges[:-1]) + 1).tolist(), len(edges)]
    for first, last in pairwise(ends):
        yield int(edges[first]), first, last


def _block(part: pyarrow.Table) -> BlockRecords:
    headers = headers_of(part.column("headers"))
    names = [part.column(each) for each in ("topic", "partition", "offset")]
    return BlockRecords(
        _binary(part.column("key")),
        _binary(part.column("value")),
        part.column("timestamp").to_numpy(),
        None if isinstance(headers, repeat) else list(headers),
        lambda row: tuple(each[row].as_py() for each in names),
        partial(_records, part),
    )


def _binary(column: pyarrow.ChunkedArray) -> Any:
    """Return a column of one piece as an array with offsets of 32 bits."""
    import pyarrow

    found = column.combine_chunks()
    if isinstance(found, pyarrow.ChunkedArray):
        found = found.chunk(0)
    return found if found.type == pyarrow.binary() else found.cast(pyarrow.binary())


def _wide(table: pyarrow.Table) -> pyarrow.Table:
    """Return a table that Arrow can gather rows of whatever bytes it has: it joins a column's chunks for that."""
    import pyarrow

    if table.nbytes < JOINED_BYTES_MAX:
        return table
    wide = pyarrow.large_list(pyarrow.struct([("key", pyarrow.large_string()), ("value", pyarrow.large_binary())]))
    kinds = {"key": pyarrow.large_binary(), "value": pyarrow.large_binary(), "headers": wide}
    fields = [each.with_type(kinds.get(each.name, each.type)) for each in table.schema]
    return table.cast(pyarrow.schema(fields))


def _kafka_order(table: pyarrow.Table) -> numpy.ndarray[Any, Any] | None:
    """Return the positions of a table's rows in Kafka's order, or None where they are in it already."""
    import numpy

    queues = _queues(table)
    offsets, steps = (table.column(name).to_numpy() for name in ("offset", "step"))
    several = bool((queues != queues[0]).any())
    if not several and bool((offsets[1:] > offsets[:-1]).all()):
        return None
    order = numpy.lexsort((steps, offsets, queues))
    if not several:
        return order
    ranked, times = queues[order], table.column("timestamp").to_numpy()[order].copy()
    starts = [0, *(numpy.flatnonzero(ranked[1:] != ranked[:-1]) + 1).tolist(), len(ranked)]
    for start, end in pairwise(starts):
        numpy.maximum.accumulate(times[start:end], out=times[start:end])
    # stable: among equal times the queues' own order, by edge, topic and partition
    return order[numpy.argsort(times, kind="stable")]


def _queues(table: pyarrow.Table) -> numpy.ndarray[Any, Any]:
    """Return a number for each row's queue: its edge, topic and partition, in that order."""
    import numpy

    codes = table.column("topic").combine_chunks().dictionary_encode()
    names = codes.dictionary.to_pylist()
    rank = {name: place for place, name in enumerate(sorted(names, key=lambda each: each or ""))}
    ranks = numpy.array([rank[name] for name in names], dtype=numpy.int64)[codes.indices.fill_null(0).to_numpy()]
    edges, partitions = (table.column(name).to_numpy().astype(numpy.int64) for name in ("edge", "partition"))
    queues: numpy.ndarray[Any, Any] = (edges << 48) + (ranks << 32) + partitions
    return queues


def _records(table: pyarrow.Table) -> list[Record]:
    columns = (
        _objects(table.column("key")),
        _objects(table.column("value")),
        table.column("timestamp").to_numpy().tolist(),
        headers_of(table.column("headers")),
        table.column("topic").to_pylist(),
        table.column("partition").to_numpy().tolist(),
        table.column("offset").to_numpy().tolist(),
    )
    # what Record._make does, without a Python frame for each record
    return list(map(partial(tuple.__new__, Record), zip(*columns, strict=False)))


def _objects(column: pyarrow.ChunkedArray) -> list[bytes | None]:
    found: list[bytes | None] = column.to_numpy().tolist()
    return found


def headers_of(column: Any) -> Iterable[tuple[tuple[str, bytes | None], ...]]:
    """Return a column of headers as an executor has them."""
    import pyarrow.compute as compute

    lengths = compute.max(compute.list_value_length(column)).as_py()
    if not lengths:
        return repeat((), len(column))
    return [tuple((each["key"], each["value"]) for each in row or ()) for row in column.to_pylist()]


# -- out: outputs and changes → chunks → OUT rows


def fold_results(
    outputs: Sequence[Output | OutputColumns],
    changes: Sequence[StoreChange | ChangeColumns],
    *,
    task: int,
    changelogs: dict[str, str],
) -> Iterator[bytes]:
    """Fold what left an executor into chunks of OUT rows; `changelogs` has each logged store's topic."""
    if not any(isinstance(each, OutputColumns | ChangeColumns) for each in (*outputs, *changes)):
        yield from _fold_each(
            cast("Sequence[Output]", outputs), cast("Sequence[StoreChange]", changes), task, changelogs
        )
        return
    for is_columns, found in groupby(outputs, lambda each: isinstance(each, OutputColumns)):
        if not is_columns:
            yield from _fold_each(cast("list[Output]", list(found)), (), task, changelogs)
            continue
        for each in cast("Iterator[OutputColumns]", found):
            yield from _fold_columns(each.topic, each.keys, each.values, each.times, each.headers, None)
    for is_columns, told in groupby(changes, lambda each: isinstance(each, ChangeColumns)):
        if not is_columns:
            yield from _fold_each((), cast("list[StoreChange]", list(told)), task, changelogs)
            continue
        for one in cast("Iterator[ChangeColumns]", told):
            yield from _fold_columns(changelogs[one.store], one.keys, one.values, one.times, None, task)


def _fold_columns(
    topic: str, keys: Any, values: Any, times: Any, headers: list[Headers] | None, partition: int | None
) -> Iterator[bytes]:
    """Fold records of one topic, as Arrow's arrays or lists of bytes, into chunks of OUT rows."""
    import pyarrow

    for start, end in _slices(keys, values):
        columns = [
            pyarrow.repeat(pyarrow.scalar(topic, pyarrow.string()), end - start),
            *(each[start:end] for each in (keys, values, times)),
            [None] * (end - start) if headers is None else _folded_headers(headers[start:end]),
            pyarrow.repeat(pyarrow.scalar(partition, pyarrow.int32()), end - start),
        ]
        yield chunk_of(_out_batch(columns))


def _fold_each(
    outputs: Sequence[Output], changes: Sequence[StoreChange], task: int, changelogs: dict[str, str]
) -> Iterator[bytes]:
    topics = [each.topic for each in outputs]
    topics += [changelogs[each.store] for each in changes]
    columns = [
        _coded(topics),
        *([getattr(each, name) for each in (*outputs, *changes)] for name in ("key", "value", "timestamp")),
        _folded_headers([*(each.headers for each in outputs), *(each.headers for each in changes)]),
        [*(each.partition for each in outputs), *repeat(task, len(changes))],
    ]
    for start, end in _slices(columns[1], columns[2]):
        yield chunk_of(_out_batch([each[start:end] for each in columns]))


def _slices(keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> Iterator[tuple[int, int]]:
    """Yield the rows of each chunk, from the first to behind the last."""
    import numpy

    if not len(keys):
        return
    behind = numpy.cumsum(_lengths(keys) + _lengths(values))
    start = before = 0
    while start < len(keys):
        fits = int(numpy.searchsorted(behind, before + CHUNK_BYTES, side="right"))
        end = min(max(start + 1, fits), start + SLICE_ROWS, len(keys))
        yield start, end
        start, before = end, int(behind[end - 1])


def _lengths(column: Any) -> numpy.ndarray[Any, Any]:
    """Return how many bytes each of a column's values has, an array's or a list's; nothing has none."""
    import numpy
    import pyarrow
    import pyarrow.compute

    if isinstance(column, pyarrow.Array):
        lengths = pyarrow.compute.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False)
        return numpy.asarray(lengths, numpy.int64)
    return numpy.fromiter((len(each) if each else 0 for each in column), numpy.int64, len(column))


def _coded(topics: list[str]) -> Any:
    """Return topics as Arrow strings, by way of codes: they are few."""
    import pyarrow

    codes = {topic: place for place, topic in enumerate(dict.fromkeys(topics))}
    places = pyarrow.array(map(codes.__getitem__, topics), pyarrow.int32(), size=len(topics))
    return pyarrow.DictionaryArray.from_arrays(places, pyarrow.array(list(codes), pyarrow.string())).cast(
        pyarrow.string()
    )


def _folded_headers(rows: list[tuple[tuple[str, bytes | None], ...]]) -> list[list[dict[str, Any]] | None]:
    if not any(rows):
        return [None] * len(rows)
    return [[{"key": key, "value": value} for key, value in row] for row in rows]


def _out_batch(columns: Sequence[Any]) -> pyarrow.RecordBatch:
    import pyarrow

    schema = _out_schema()
    arrays = [
        column if isinstance(column, pyarrow.Array) else pyarrow.array(column, field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)


def _out_schema() -> pyarrow.Schema:
    """Return `rows.OUT` as an Arrow schema."""
    import pyarrow

    header = pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])
    return pyarrow.schema(
        [
            ("topic", pyarrow.string()),
            ("key", pyarrow.binary()),
            ("value", pyarrow.binary()),
            ("timestamp", pyarrow.int64()),
            ("headers", pyarrow.list_(header)),
            ("partition", pyarrow.int32()),
        ]
    )


def unfold(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Unfold rows with a `chunk` into the rows that the chunks hold: for `mapInArrow`, or before another step's."""
    import pyarrow

    for batch in batches:
        for chunk in batch.column("chunk"):
            if chunk.is_valid:
                yield from pyarrow.ipc.open_stream(chunk.as_buffer())
