"""Reading one table or query: statements by mode, rows in pieces, and the offset that belongs to each row.

A statement is open until its rows have been read; the next one is opened after `poll.interval.ms`. Where an open cursor
would keep writers out (SQLite), rows come in pages instead, or all at once where pages cannot tell where they ended.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ottla.connect import ConnectError, DataError, SourceRecord
from ottla.connectors.jdbc.column_types import Column, NullFoundError, RowReader, TypeMapping
from ottla.connectors.jdbc.dialects import Dialect
from ottla.connectors.jdbc.positions import Position, position_of
from ottla.connectors.jdbc.source_keys import BOTH, BULK, INCREMENTING, TIMESTAMP
from ottla.connectors.jdbc.tables import TableName, TableShape, reflected

__all__ = ["Origin", "Plan", "QueryOrigin", "Reading", "TableOrigin", "beginning", "column_trouble"]

log = logging.getLogger(__name__)

PAGE_ROWS = 5_000
LOOKS_MAX = 5
"""How often a statement is begun again because the table was altered since it was looked at."""

_AT, _NUMBER, _EXACT = "ottla_at", "ottla_number", "ottla_exact"


@dataclass(frozen=True, slots=True)
class Plan:
    """How everything of a task is read."""

    mode: str
    number: str = ""
    times: tuple[str, ...] = ()
    delay_ms: int = 0
    suffix: str = ""
    rows_max: int = 100
    validate_non_null: bool = True

    @property
    def by_number(self) -> bool:
        """True where the incrementing column counts."""
        return self.mode in (INCREMENTING, BOTH)

    @property
    def by_time(self) -> bool:
        """True where the timestamp columns count."""
        return self.mode in (TIMESTAMP, BOTH)


class Origin(Protocol):
    """What is read: a table or a query."""

    partition: Mapping[str, str]
    topic: str
    schema_name: str | None

    def shape(self, connection: Connection) -> TableShape:
        """Return what its rows are made of."""
        ...

    def from_clause(self, dialect: Dialect) -> str:
        """Return what stands behind FROM, under the name `o`."""
        ...


class TableOrigin:
    """A table."""

    def __init__(self, name: TableName, mapping: TypeMapping, *, topic: str, partition: Mapping[str, str]) -> None:
        self.name, self.mapping = name, mapping
        self.topic, self.partition = topic, partition
        self.schema_name: str | None = name.table

    def shape(self, connection: Connection) -> TableShape:
        """See `Origin`."""
        return reflected(connection, self.name, self.mapping)

    def from_clause(self, dialect: Dialect) -> str:
        """See `Origin`."""
        return f"{_escaped(dialect.named(self.name.schema, self.name.table))} o"

    def __str__(self) -> str:
        return f"table {self.name}"


class QueryOrigin:
    """A query, whose columns' types the database tells, or else their first values."""

    schema_name: str | None = None

    def __init__(self, query: str, mapping: TypeMapping, *, topic: str, partition: Mapping[str, str]) -> None:
        self.query = query.strip().rstrip(";")
        self.mapping, self.topic, self.partition = mapping, topic, partition

    def shape(self, connection: Connection) -> TableShape:
        """See `Origin`."""
        found = self.mapping.dialect.query_types(connection, self.query)
        unknown = [name for name, type_ in found if type_ is None]
        shown = self._first_values(connection, unknown) if unknown else {}
        columns = [
            self.mapping.of_value(name, shown.get(name))
            if type_ is None
            else self.mapping.column(name, type_, optional=True)
            for name, type_ in found
        ]
        types = {name: type_ or sa.types.NullType() for name, type_ in found}
        return TableShape(tuple(columns), types, frozenset(), None)

    def _first_values(self, connection: Connection, names: Sequence[str]) -> dict[str, Any]:
        """Return the first value of each column that is not null, among the first rows."""
        result = connection.execute(sa.text(f"SELECT * FROM ({_escaped(self.query)}) o"))
        rows = result.mappings().fetchmany(PAGE_ROWS)
        result.close()
        return {name: next((row[name] for row in rows if row[name] is not None), None) for name in names}

    def from_clause(self, dialect: Dialect) -> str:
        """See `Origin`."""
        return f"({_escaped(self.query)}) o"

    def __str__(self) -> str:
        return "the query"


def _escaped(sql: str) -> str:
    """Return SQL in which colons are colons, not parameters."""
    return sql.replace(":", "\\:")


def column_trouble(shape: TableShape, plan: Plan, origin: object) -> list[tuple[str, str]]:
    """Return what keeps a table from being read in this mode, as (key, text)."""
    found: list[tuple[str, str]] = []
    number = plan.number or shape.counted
    if plan.by_number:
        if number is None:
            text = f"{origin} has no column that the database counts up by itself: name one"
            found.append(("incrementing.column.name", text))
        else:
            found += [("incrementing.column.name", each) for each in _column(shape, number, origin, plan, _is_number)]
    if plan.by_time:
        texts = [text for each in plan.times for text in _column(shape, each, origin, plan, _is_time)]
        all_nullable = all(each in shape.nullable for each in plan.times)
        if not all_nullable:  # of several, one that is never null is enough
            texts = [each for each in texts if _MAY_BE_NULL not in each]
        found += [("timestamp.column.name", each) for each in texts]
    return found


_MAY_BE_NULL = "may be null, and such rows would never be read"


def _column(shape: TableShape, name: str, origin: object, plan: Plan, fits: Callable[[Any], str | None]) -> list[str]:
    type_ = shape.types.get(name)
    if type_ is None:
        return [f"{origin} has no column {name}; it has {', '.join(shape.types)}"]
    wrong = fits(type_)
    if wrong is not None and not isinstance(type_, sa.types.NullType):
        return [f"Column {name} of {origin} is of type {type_}, and {wrong}"]
    if plan.validate_non_null and name in shape.nullable:
        return [f"Column {name} of {origin} {_MAY_BE_NULL}: make it NOT NULL, or set validate.non.null=false"]
    return []


def _is_number(type_: Any) -> str | None:
    numeric = isinstance(type_, sa.Numeric) and not isinstance(type_, sa.Float) and not type_.scale
    return None if isinstance(type_, sa.Integer) or numeric else "must be a whole number"


def _is_time(type_: Any) -> str | None:
    return None if isinstance(type_, sa.DateTime | sa.Date) else "must be a timestamp"


class Reading:
    """One origin being read: `records` returns some, and none when it is at its end for now."""

    def __init__(self, origin: Origin, plan: Plan, dialect: Dialect, position: Position) -> None:
        self.origin, self.plan, self.dialect, self.position = origin, plan, dialect, position
        self.due = 0.0
        """When to read next, on the task's clock; 0 for at once."""

        self.more = False
        """True where the last statement was one page and others wait behind it."""

        self._shape: TableShape | None = None
        self._reader: RowReader | None = None
        self._told: Any = None
        """The server's own description of the columns, as of which the table was looked at."""

        self._inexact: tuple[int, ...] = ()
        """Columns of which the database sends fewer digits than it has: they come a second time, whole."""

        self._result: sa.CursorResult[Any] | None = None
        self._ahead: deque[Any] = deque()
        self._complete = position

    @property
    def open(self) -> bool:
        """True between the first row of a statement and its last."""
        return self._result is not None or bool(self._ahead)

    def reset(self) -> None:
        """Forget an open statement, whose connection is gone; reading goes on behind the last record returned."""
        self._result = None
        self._ahead.clear()
        self._complete = self.position

    def records(self, connection: Connection) -> list[SourceRecord]:
        """Return the next records; raises ConnectError for rows that cannot be read, SQLAlchemyError from the database."""
        if not self.open:
            self._execute(connection)
        rows, more = self._take(connection, self.plan.rows_max)
        made = [
            self._record(connection, row, following) for row, following in zip(rows, [*rows[1:], more], strict=False)
        ]
        if not self.open:
            self.position = self._complete
        return made

    def _take(self, connection: Connection, count: int) -> tuple[list[Any], Any]:
        """Return the next rows, and the row behind them, which stays; None at the end."""
        while self._result is not None and len(self._ahead) <= count:
            found = self._result.fetchmany(count + 1)
            self._ahead.extend(found)
            if not found:
                self._result.close()
                self._result = None
        rows = [self._ahead.popleft() for _ in range(min(count, len(self._ahead)))]
        return rows, self._ahead[0] if self._ahead else None

    def _record(self, connection: Connection, row: Any, following: Any) -> SourceRecord:
        assert self._reader is not None
        row = self._whole(row) if self._inexact else row
        try:
            struct = self._reader.struct(row)
        except NullFoundError:
            if not self.dialect.reflects_midway:
                raise
            self._reflect(connection)  # a constraint was dropped since
            struct = self._reader.struct(row)
        self.position = self._behind(row, following)
        return SourceRecord(
            topic=self.origin.topic,
            value_schema=struct.schema,
            value=struct,
            source_partition=self.origin.partition,
            source_offset=self.position.offset(),
        )

    def _whole(self, row: Any) -> Any:
        """Return a row with the whole numbers in the places of those that were cut."""
        found = list(row)
        begin = len(found) - self._extra
        for at, place in enumerate(self._inexact):
            found[place] = found[begin + at]
        return found

    def _behind(self, row: Any, following: Any) -> Position:
        """Return where reading goes on behind a row.

        By time alone a row says so only when the next one is later: else rows of the same time would be lost.
        """
        if self.plan.mode == BULK:
            return self._complete
        if self.plan.mode == TIMESTAMP:
            if following is None or following[-1] != row[-1]:
                self._complete = Position(None, *self.dialect.moment_read(row[-1], zoned=self._zoned()))
            return self._complete
        number = int(row[-1])
        at = self.dialect.moment_read(row[-2], zoned=self._zoned()) if self.plan.mode == BOTH else (None, None)
        self._complete = Position(number, *at)
        return self._complete

    # The statement

    def _execute(self, connection: Connection) -> None:
        """Begin a statement whose rows are of the types that the table was looked at with."""
        if self._reader is None:
            self._look(connection, self._described(connection))
        for _ in range(LOOKS_MAX):
            result, rows, told = self._begun(connection)
            if told == self._told:
                break
            log.info("The columns of %s have changed; looking at it again", self.origin)
            result.close()
            connection.rollback()
            self._look(connection, told)
        else:
            raise ConnectError(f"The columns of {self.origin} changed {LOOKS_MAX} times while it was looked at")
        self._check_names(result)
        self._complete = self.position
        if self.dialect.streams:
            self._result = result
        else:
            self._ahead.extend(rows)
            connection.rollback()
            self.more = self._paged and len(self._ahead) == self._page_rows

    def _begun(self, connection: Connection) -> tuple[sa.CursorResult[Any], Sequence[Any], Any]:
        """Return a statement's result, its rows where they come at once, and what the server says of its columns."""
        sql, values = self._statement(connection)
        options = {"yield_per": max(self.plan.rows_max + 1, 2)} if self.dialect.streams else {}
        result = connection.execution_options(**options).execute(sa.text(sql), values)
        count = len(result.keys()) - self._extra
        if self.dialect.streams:
            return result, (), self.dialect.told(connection, result, count)
        rows = result.all()
        return result, rows, self.dialect.told(connection, result, count)

    def _described(self, connection: Connection) -> Any:
        """Return what the server says of the columns before any row is asked for."""
        sql = f"SELECT o.* FROM {self.origin.from_clause(self.dialect)} WHERE 1 = 0"
        result = connection.execute(sa.text(sql))
        told = self.dialect.told(connection, result, len(result.keys()))
        result.close()
        return told

    def _look(self, connection: Connection, told: Any) -> None:
        self._reflect(connection)
        self._told = told

    def _check_names(self, result: sa.CursorResult[Any]) -> None:
        assert self._reader is not None
        names = tuple(result.keys())[: -self._extra or None]
        if names != self._reader.names:
            result.close()
            raise ConnectError(
                f"The columns of {self.origin} are {', '.join(names)} to a statement, and others by name"
            )

    def _reflect(self, connection: Connection) -> None:
        shape = self.origin.shape(connection)
        wrong = column_trouble(shape, self.plan, self.origin)
        if wrong:
            raise ConnectError("; ".join(text for _, text in wrong))
        self._shape = shape
        self._reader = RowReader(self.origin.schema_name, _distinct(shape.columns, self.origin))
        self._inexact = tuple(
            place for place, each in enumerate(shape.columns) if self.dialect.inexact(shape.types[each.name])
        )

    @property
    def _paged(self) -> bool:
        """True where a page ends at a place that the next can begin behind."""
        return self.plan.by_number and not self.dialect.streams and self.dialect.limits and not self.plan.suffix

    @property
    def _page_rows(self) -> int:
        return max(PAGE_ROWS, self.plan.rows_max)

    @property
    def _extra(self) -> int:
        return len(self._inexact) + int(self.plan.by_time) + int(self.plan.by_number)

    def _statement(self, connection: Connection) -> tuple[str, dict[str, Any]]:
        """Return the statement of this mode and position, with its values."""
        assert self._shape is not None
        plan, dialect, at = self.plan, self.dialect, self.position
        moment, number = self._moment(), self._number()
        conditions, values = [], dict[str, Any]()
        names = [self._shape.columns[place].name for place in self._inexact]
        chosen = ["o.*", *(f"{self._of_o(name)} + 0e0 AS {_EXACT}{at}" for at, name in enumerate(names))]
        if plan.by_time:
            zoned = self._zoned()
            end = dialect.now(connection) - timedelta(milliseconds=plan.delay_ms)
            chosen.append(f"{moment} AS {_AT}")
            conditions.append(f"{moment} < :ottla_end")
            values["ottla_end"] = dialect.moment_end(end, zoned=zoned)
            if at.at is not None:
                values["ottla_at"] = dialect.moment_value(
                    at.local if at.local is not None and not zoned else at.at, zoned=zoned
                )
        if plan.by_number:
            chosen.append(f"{number} AS {_NUMBER}")
            conditions.append(f"{number} IS NOT NULL")
            if at.number is not None:
                values["ottla_number"] = at.number
        conditions += self._later(moment, number, values)
        order = [each for each, wanted in ((moment, plan.by_time), (number, plan.by_number)) if wanted]
        sql = f"SELECT {', '.join(chosen)} FROM {self.origin.from_clause(dialect)}"
        sql += f" WHERE {' AND '.join(conditions)} ORDER BY {', '.join(order)}" if order else ""
        if self._paged:
            sql += f" LIMIT {self._page_rows}"
        return f"{sql} {_escaped(plan.suffix)}".rstrip(), values

    def _later(self, moment: str, number: str, values: Mapping[str, Any]) -> list[str]:
        """Return the condition for what has not been read yet."""
        has_at, has_number = "ottla_at" in values, "ottla_number" in values
        if has_at and has_number:
            return [f"(({moment} = :ottla_at AND {number} > :ottla_number) OR {moment} > :ottla_at)"]
        if has_at:
            return [f"{moment} > :ottla_at"]
        return [f"{number} > :ottla_number"] if has_number else []

    def _moment(self) -> str:
        return self.dialect.moment([self._of_o(each) for each in self.plan.times]) if self.plan.by_time else ""

    def _number(self) -> str:
        assert self._shape is not None
        return self._of_o(self.plan.number or self._shape.counted or "") if self.plan.by_number else ""

    def _of_o(self, name: str) -> str:
        return f"o.{_escaped(self.dialect.quote(name))}"

    def _zoned(self) -> bool:
        assert self._shape is not None
        return any(self.dialect.is_zoned(self._shape.types.get(each)) for each in self.plan.times)


def _distinct(columns: Sequence[Column], origin: object) -> Sequence[Column]:
    twice = sorted(name for name, count in Counter(each.name for each in columns).items() if count > 1)
    if twice:
        raise DataError(f"{origin} has more than one column {', '.join(twice)}: give them different names")
    return columns


def beginning(initial_ms: int | None, position: Position, plan: Plan, now: Callable[[], datetime]) -> Position:
    """Return where reading begins: at the stored position, else where `timestamp.initial` says."""
    if not plan.by_time or position.at is not None or initial_ms is None:
        return position
    if initial_ms == -1:
        return replace(position, at=now())
    return replace(position, at=position_of({"timestamp": initial_ms}).at)
