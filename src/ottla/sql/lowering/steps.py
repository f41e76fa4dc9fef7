"""What is done with one record after another: a stream's rows read, let through, exploded and made anew in one processor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from ottla.sql import functions
from ottla.sql.errors import EvaluationError
from ottla.sql.expressions import Row, compile_condition, compile_expression, type_of
from ottla.sql.functions.dates import parse_timestamp
from ottla.sql.lowering.rows import Line, RowReader, row_maker, told
from ottla.sql.plan import Field, ReadSource, TableCall, scope_of
from ottla.sql.planning.references import columns_of
from ottla.sql.schema import LogicalSchema
from ottla.sql.tree import expressions as e
from ottla.streams import Processor, ProcessRecord, ValueTransformer

KEEP = None
"""The key as it is."""


@dataclass(frozen=True, slots=True)
class RowTime:
    """The column that says a row's time: where it is, and the pattern of a text."""

    in_key: bool
    place: int
    format: str | None = None
    strict: bool = False
    """Whether a row without a time ends the query (`ksql.timestamp.throw.on.invalid`); else the row is left out."""

    def of(self, key: Any, value: Any) -> int:
        """The time in milliseconds, -1 where there is none; raises EvaluationError for that where it is `strict`."""
        row = key if self.in_key else value
        found = None if row is None else row[self.place]
        time = found if isinstance(found, int) and not isinstance(found, bool) else -1
        if self.format is not None and isinstance(found, str):
            try:
                time = parse_timestamp(found, self.format)
            except EvaluationError:
                time = -1
        if time < 0 and self.strict:
            raise EvaluationError(_no_time(found, self.format))
        return time

    def extract(self, record: Any, partition_time: int) -> int:
        """A source record's time; one that has no value keeps its own."""
        if record.value is None:
            return int(record.timestamp)
        try:
            return self.of(getattr(record.key, "key", record.key), record.value)
        except EvaluationError as error:
            raise EvaluationError(f"Fatal user code error in TimestampExtractor callback for record: {error}") from None


def _no_time(found: object, format_: str | None) -> str:
    if format_ is not None and found is not None:
        return f"Unable to parse string timestamp. timestamp={found} timestamp_format={format_}"
    return f"Timestamps have to be non-negative, but the column has {found}"


def row_time(schema: LogicalSchema, name: str | None, format_: str | None, *, strict: bool = False) -> RowTime | None:
    """Where in keys and values the time is, None where no column says it."""
    for in_key, columns in ((True, schema.key), (False, schema.value)):
        for at, column in enumerate(columns):
            if column.name == name:
                return RowTime(in_key, at, format_, strict)
    return None


@dataclass(frozen=True, slots=True)
class RowProgram:
    """What is done with each row of `fields`, in this order: read, condition, calls, key and value, time.

    `key` None leaves the key as it is; with `drops_null_key` a row whose key has a null is left out. A record without a
    value passes where `passes_nulls`, and nothing looks at its columns.
    """

    fields: tuple[Field, ...]
    reads: ReadSource | None = None
    condition: e.Expression | None = None
    calls: tuple[TableCall, ...] = ()
    key: tuple[e.Expression, ...] | None = KEEP
    value: tuple[e.Expression, ...] | None = None
    time: RowTime | None = None
    passes_nulls: bool = True
    drops_null_key: bool = False

    @property
    def wide(self) -> tuple[Field, ...]:
        """The columns of a row behind its calls."""
        return (*self.fields, *(Field(None, call.column, call.type) for call in self.calls))

    @property
    def is_open(self) -> bool:
        """True where more steps can be added: nothing has been made of the row yet."""
        return self.key is KEEP and self.value is None and self.time is None

    def with_steps(self, **steps: Any) -> RowProgram:
        """The program with more steps."""
        return replace(self, **steps)


@dataclass(frozen=True, slots=True)
class RowSteps:
    """Makes a program's processor where it runs."""

    program: RowProgram
    log: Line | None = None

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        """Return a processor."""
        return RowProcessor(self.program, self.log)


class RowProcessor(Processor[Any, Any, Any, Any]):
    """Runs a program."""

    def __init__(self, program: RowProgram, log: Line | None = None) -> None:
        self._log = log or (lambda line: None)
        self._program = program
        on_error, scope, wide = told(log), scope_of(program.fields), program.wide
        self._read = None if program.reads is None else RowReader(program.reads.source).reader()
        self._holds = None if program.condition is None else compile_condition(program.condition, scope, on_error)
        self._rows = _exploder(program.calls, program.fields, log) if program.calls else None
        self._key = None if program.key is None else row_maker(program.key, wide, log)
        self._bare_key = None if program.key is None else _bare_key_maker(program.key, program, log)
        self._value = None if program.value is None else row_maker(program.value, wide, log)
        self._filters = self._holds is not None or self._rows is not None or not program.passes_nulls

    def process(self, record: ProcessRecord[Any, Any]) -> None:
        """Take a row, and forward what is made of it."""
        key, row = record.key, record.value
        if row is None:
            if not self._filters:
                self._forward(record, self._key_of_nothing(record), None, record.timestamp)
            return
        if self._read is not None:
            row = self._row(record)
        if self._holds is not None and not self._holds(row):
            return
        for each in (row,) if self._rows is None else self._rows(row):
            made_key = key if self._key is None else self._key(each)
            if self._program.drops_null_key and None in made_key:
                continue
            value = each if self._value is None else self._value(each)
            time = self._program.time
            self._forward(
                record, made_key, value, record.timestamp if time is None else time.of(_plain(made_key), value)
            )

    def _row(self, record: ProcessRecord[Any, Any]) -> Row:
        assert self._read is not None
        found = self.context.record_metadata()
        partition, offset = (found.partition, found.offset) if found is not None else (0, -1)
        return self._read(record.key, record.value, record.timestamp, record.headers, partition, offset)

    def _key_of_nothing(self, record: ProcessRecord[Any, Any]) -> Any:
        """The key of a record without a value."""
        if self._bare_key is None:
            return record.key
        if self._read is None or record.key is None:
            return self._bare_key(None)
        return self._bare_key(self._row(record))

    def _forward(self, record: ProcessRecord[Any, Any], key: Any, value: Any, timestamp: int) -> None:
        if timestamp < 0:
            self._log(f"a result was left out: its time is {timestamp}")
            return
        self.context.forward(ProcessRecord(key, value, timestamp, record.headers))


def _bare_key_maker(
    parts: Sequence[e.Expression], program: RowProgram, log: Line | None
) -> Callable[[Row | None], tuple[object, ...]]:
    """Makes the new key of a record without a value, of its row, or of None where it has no key either.

    As in ksqlDB a part that names other columns than the record's key has is null, whatever it would make of nulls.
    """
    scope, on_error = scope_of(program.fields), told(log)
    keys = set() if program.reads is None else {column.name for column in program.reads.source.schema.key}
    made: list[tuple[Callable[[Row], object] | None, bool]] = []
    for part in parts:
        names = {column.name for column in columns_of(part)}
        of_key = compile_expression(part, scope, on_error) if names <= keys else None
        made.append((of_key, bool(names)))
    nulls: Row = (None,) * len(program.fields)

    def bare_key(row: Row | None) -> tuple[object, ...]:
        return tuple(
            [
                None if make is None or (row is None and is_of_columns) else make(nulls if row is None else row)
                for make, is_of_columns in made
            ]
        )

    return bare_key


def _plain(key: Any) -> Any:
    return getattr(key, "key", key)


def _exploder(calls: Sequence[TableCall], fields: tuple[Field, ...], log: Line | None) -> Callable[[Row], list[Row]]:
    """The function that makes a row's rows: the values of several calls side by side, the shorter ones filled with null."""
    scope, on_error, known = scope_of(fields), told(log), []
    for call in calls:
        function = functions.table(call.function)
        assert function is not None, call
        resolved = function.resolve([type_of(call.argument, scope)])
        known.append((resolved.call, compile_expression(call.argument, scope, on_error)))

    def rows(row: Row) -> list[Row]:
        values = [make(argument(row)) for make, argument in known]
        return [(*row, *each) for each in zip_longest(*values)]

    return rows


@dataclass(frozen=True, slots=True)
class TableRows:
    """Makes what adds the pseudo columns and those of headers to a table's rows, where it runs."""

    reads: ReadSource
    has_headers: bool = True
    """False where a row that is not kept would be made again with another record's headers."""

    def __call__(self) -> ValueTransformer[Any, Any, Any]:
        """Return a transformer."""
        return _TableRow(RowReader(self.reads.source).reader(), self.has_headers)


class _TableRow(ValueTransformer[Any, Any, Any]):
    """A table's value becomes a row of all its source's columns."""

    def __init__(self, read: Callable[[Any, Any, int, Any, int, int], Row], has_headers: bool) -> None:
        self._read, self._has_headers = read, has_headers

    def transform(self, key: Any, value: Any) -> Any:
        """Return the row, None for a deletion."""
        if value is None:
            return None
        found = self.context.record_metadata()
        partition, offset = (found.partition, found.offset) if found is not None else (0, -1)
        context: Any = self.context
        headers = context.headers if self._has_headers else ()
        return self._read(key, value, context.timestamp, headers, partition, offset)
