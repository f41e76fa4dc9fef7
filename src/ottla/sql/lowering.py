"""Plans of queries as topologies of Streams.

A query without state is one step between a source and a sink, both of bytes: it reads a row, lets it through or not, and
writes another. What cannot be read costs a record, what cannot be computed a value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ottla.sql.exploding import exploder, with_calls
from ottla.sql.expressions import Row, compile_condition, compile_expression
from ottla.sql.formats import Codec, FormatError
from ottla.sql.queries import QueryPlan
from ottla.sql.schema import LogicalSchema
from ottla.streams import Processor, ProcessorContext, ProcessRecord, StreamsBuilder, Topology

Line = Callable[[str], None]
"""Takes a line for the processing log."""


def topology_of(plan: QueryPlan, log: Line | None = None) -> Topology:
    """The topology that runs a plan; `log` is told of rows and values that were lost."""
    builder = StreamsBuilder()
    rows = builder.stream(plan.source.topic, key_serde="bytes", value_serde="bytes")
    changed = rows.process(_Supplier(plan, log), key_serde="bytes", value_serde="bytes", name=f"{plan.id}-project")
    changed.to(plan.sink.topic, key_serde="bytes", value_serde="bytes")
    return builder.build()


@dataclass(frozen=True, slots=True)
class _Supplier:
    """Makes a query's step where it runs: a plan is a value and travels, closures do not."""

    plan: QueryPlan
    log: Line | None

    def __call__(self) -> Processor[bytes, bytes, bytes, bytes]:
        return Projection(self.plan, self.log)


class Projection(Processor[bytes, bytes, bytes, bytes]):
    """A query's step: a record of the source becomes one of the sink, or none."""

    def __init__(self, plan: QueryPlan, log: Line | None = None) -> None:
        self._log = log or (lambda line: None)
        self._row = RowReader(plan)
        source, sink = plan.source, plan.sink
        self._read_key, self._read_value = (
            source.layout.key_codec(source.schema),
            source.layout.value_codec(source.schema),
        )
        self._write_key, self._write_value = sink.layout.key_codec(sink.schema), sink.layout.value_codec(sink.schema)
        scope = plan.scope
        self._holds = None if plan.where is None else compile_condition(plan.where, scope, self._lost)
        self._rows = exploder(plan.calls, scope, self._lost) if plan.calls else None
        whole = with_calls(scope, plan.calls)
        self._key = [compile_expression(each, whole, self._lost) for each in plan.key]
        self._value = [compile_expression(each, whole, self._lost) for each in plan.value]
        self._time = _place(sink.schema, sink.timestamp)
        self._source_time = _place(source.schema, source.timestamp)

    def init(self, context: ProcessorContext) -> None:
        """Keep what a step may do."""
        self._context = context

    def _lost(self, error: Exception) -> None:
        self._log(f"{type(error).__name__}: {error}")

    def process(self, record: ProcessRecord[bytes, bytes]) -> None:
        """Read a row, and write another where it is let through."""
        try:
            key, value = self._read_key.decode(record.key), self._read_value.decode(record.value)
        except FormatError as error:
            self._log(f"a record was left out: {error}")
            return
        timestamp = record.timestamp
        if value is None:
            if self._holds is None and self._rows is None:
                row = self._row.of(key, None, record, timestamp, self._context)
                made = None if key is None else tuple(each(row) for each in self._key)
                self._forward(record, self._write_key, made, None, timestamp)
            return
        timestamp = _time_of(self._source_time, key, value, timestamp)
        if timestamp < 0:
            self._log(f"a record was left out: its time is {timestamp}")
            return
        row = self._row.of(key, value, record, timestamp, self._context)
        if self._holds is not None and not self._holds(row):
            return
        for made in (row,) if self._rows is None else self._rows(row):
            new_key = tuple(each(made) for each in self._key)
            new_value = tuple(each(made) for each in self._value)
            when = _time_of(self._time, new_key, new_value, timestamp)
            self._forward(record, self._write_key, new_key, new_value, when)

    def _forward(
        self,
        record: ProcessRecord[bytes, bytes],
        write_key: Codec,
        key: tuple[object, ...] | None,
        value: tuple[object, ...] | None,
        timestamp: int,
    ) -> None:
        if timestamp < 0:
            self._log(f"a result was left out: its time is {timestamp}")
            return
        made_key, made_value = write_key.encode(key), self._write_value.encode(value)
        self._context.forward(ProcessRecord(made_key, made_value, timestamp, record.headers))


Where = tuple[bool, int] | None
"""In the key or not, and the place there."""


def _place(schema: LogicalSchema, name: str | None) -> Where:
    if name is None:
        return None
    for at, column in enumerate(schema.key):
        if column.name == name:
            return True, at
    return next(((False, at) for at, column in enumerate(schema.value) if column.name == name), None)


def _time_of(where: Where, key: tuple[object, ...] | None, value: tuple[object, ...], timestamp: int) -> int:
    if where is None:
        return timestamp
    found = (key or ())[where[1] : where[1] + 1] if where[0] else value[where[1] : where[1] + 1]
    return found[0] if found and isinstance(found[0], int) else -1


class RowReader:
    """Makes the row of a plan's scope from a record's key, value, headers and place."""

    def __init__(self, plan: QueryPlan) -> None:
        self._keys = len(plan.source.schema.key)
        self._values = len(plan.source.schema.value)
        self._order: list[tuple[str, int, str | None]] = []
        counts = {"key": 0, "value": 0, "headers": 0}
        for column in plan.source.schema.columns:
            self._order.append((column.place, counts[column.place], column.header_key))
            counts[column.place] += 1

    def of(
        self,
        key: tuple[object, ...] | None,
        value: tuple[object, ...] | None,
        record: ProcessRecord[bytes, bytes],
        timestamp: int,
        context: ProcessorContext,
    ) -> Row:
        """The row: the source's columns, then ROWTIME, ROWPARTITION and ROWOFFSET."""
        keys = key if key is not None else (None,) * self._keys
        values = value if value is not None else (None,) * self._values
        columns = [
            keys[at] if place == "key" else values[at] if place == "value" else _header(record, name)
            for place, at, name in self._order
        ]
        found = context.record_metadata()
        partition, offset = (found.partition, found.offset) if found is not None else (0, -1)
        return (*columns, timestamp, partition, offset)


def _header(record: ProcessRecord[bytes, bytes], name: str | None) -> object:
    if name is None:
        return [{"KEY": key, "VALUE": value} for key, value in record.headers]
    return next((value for key, value in reversed(record.headers) if key == name), None)
