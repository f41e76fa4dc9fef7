"""INSERT INTO … VALUES: a statement, or a JSON object of /inserts-stream, as the record that is written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from ottla.sql.catalogue import Catalogue, Source
from ottla.sql.errors import EvaluationError, SqlError
from ottla.sql.expressions import Scope, coerce_value
from ottla.sql.expressions.compiler import compiled
from ottla.sql.formats import FormatError
from ottla.sql.formats.json import compact_text, json_codec
from ottla.sql.schema import SqlColumn
from ottla.sql.tree import expressions as e
from ottla.sql.tree import statements as s

_NOTHING = Scope.of(())


@dataclass(frozen=True, slots=True)
class InsertedRecord:
    """A record to write; `timestamp` is None where the time of the insertion is meant."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int | None


def inserted(statement: s.InsertValues, catalogue: Catalogue) -> InsertedRecord:
    """The record of a statement; raises SqlError in ksqlDB's words."""
    source = _writable(statement.name, catalogue)
    columns = [*source.schema.key, *source.schema.value]
    names = statement.columns or tuple(column.name for column in columns)
    if len(names) != len(statement.values):
        raise SqlError("Expected a value for each column. Columns and values must match.")
    given = dict(zip(names, statement.values, strict=True))
    _check_names(given, source)
    found = {column.name: _value(given[column.name], column, source) for column in columns if column.name in given}
    time = _time(given.get("ROWTIME"), source)
    return _record(source, found, time)


def inserted_fields(name: str, fields: Mapping[str, object], catalogue: Catalogue) -> InsertedRecord:
    """The record of a JSON object, its numbers with a point as DECIMALs; raises SqlError."""
    source = _writable(name, catalogue)
    given = {
        key[1:-1] if len(key) > 1 and key[0] == key[-1] == "`" else key.upper(): each for key, each in fields.items()
    }
    _check_names(given, source)
    found: dict[str, object] = {}
    for column in (*source.schema.key, *source.schema.value):
        if column.name in given:
            found[column.name] = _parsed(column, given[column.name])
    time = given.get("ROWTIME")
    return _record(source, found, time if isinstance(time, int) else None)


def _writable(name: str, catalogue: Catalogue) -> Source:
    source = catalogue.sources.get(name)
    if source is None:
        raise SqlError(f"Cannot insert values into an unknown stream/table: {name}")
    if source.read_only:
        raise SqlError(f"Cannot insert values into read-only {source.kind.lower()}: {source.name}")
    if source.window is not None:
        raise SqlError(f"Cannot insert values into windowed stream/table: {source.name}")
    if source.schema.headers:
        raise SqlError(f"Cannot insert into {source.name} because it has header columns")
    return source


def _check_names(given: Mapping[str, object], source: Source) -> None:
    unknown = [name for name in given if name != "ROWTIME" and source.schema.find(name) is None]
    if unknown:
        raise SqlError(f"Column name {unknown[0]} does not exist.")


def _value(expression: e.Expression, column: SqlColumn, source: Source) -> object:
    value = compiled(expression, _NOTHING)
    convert = coerce_value(value.type, column.type)
    if convert is None:
        raise SqlError(f"Expected type {column.type} for field `{column.name}` but got {value.type}")
    try:
        return convert(value.evaluate(()))
    except EvaluationError as error:
        raise SqlError(f"Failed to insert values into '{source.name}'. {error}") from None


def _time(expression: e.Expression | None, source: Source) -> int | None:
    if expression is None:
        return None
    time = compiled(expression, _NOTHING).evaluate(())
    if not isinstance(time, int) or isinstance(time, bool) or time < 0:
        raise SqlError(f"Failed to insert values into '{source.name}'. ROWTIME has to be a number of milliseconds")
    return time


def _parsed(column: SqlColumn, value: object) -> object:
    """A value of JSON as a column's."""
    try:
        row = json_codec([column], wrapped=True).decode(compact_text({column.name: value}).encode())
    except FormatError as error:
        raise SqlError(
            f"Can't coerce a field of type {json.dumps(type(value).__name__)} into {column.type}: {error}"
        ) from None
    return None if row is None else row[0]


def _record(source: Source, found: Mapping[str, object], time: int | None) -> InsertedRecord:
    keys = source.schema.key
    if source.kind == "TABLE" and any(found.get(column.name) is None for column in keys):
        raise SqlError(
            f"Failed to insert values into '{source.name}'. "
            f"Value for primary key column(s) {', '.join(column.name for column in keys)} is required for tables"
        )
    key = tuple(found.get(column.name) for column in keys)
    value = tuple(found.get(column.name) for column in source.schema.value)
    layout = source.layout
    try:
        return InsertedRecord(
            source.topic,
            layout.key_codec(source.schema).encode(key if any(each is not None for each in key) else None),
            layout.value_codec(source.schema).encode(value),
            time,
        )
    except FormatError as error:
        raise SqlError(f"Failed to insert values into '{source.name}'. {error}") from None
