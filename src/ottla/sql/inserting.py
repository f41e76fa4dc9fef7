"""INSERT INTO … VALUES: a statement as the record that is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.sql.catalogue import Catalogue, Source
from ottla.sql.errors import SqlError
from ottla.sql.expressions.strict import strict_value
from ottla.sql.registration import with_schemas_to_insert
from ottla.sql.schema import PSEUDO_COLUMNS
from ottla.sql.tree import statements as s
from ottla.sql.tree.expression_text import expression_text
from ottla.sql.types import BIGINT, backticked

PSEUDO_NAMES = frozenset(name for name, _ in PSEUDO_COLUMNS)


@dataclass(frozen=True, slots=True)
class InsertedRecord:
    """A record to write; `timestamp` is None where the time of the insertion is meant."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int | None


def inserted(statement: s.InsertValues, catalogue: Catalogue) -> InsertedRecord:
    """The record of a statement; raises SqlError in ksqlDB's words."""
    source = writable_source(statement.name, catalogue, statement.columns)
    try:
        found = _values(statement, source)
        time = check_time(found.pop("ROWTIME", None))
        if source.kind == "TABLE":
            check_primary_key(found, source)
        return record_of(source, found, time)
    except SqlError as error:
        raise SqlError(f"Failed to insert values into '{source.name}'. {error}") from None


def _values(statement: s.InsertValues, source: Source) -> dict[str, object]:
    """What each column is given, ROWTIME among them."""
    types = {column.name: column.type for column in (*source.schema.key, *source.schema.value)}
    names = statement.columns or tuple(types)
    if len(names) != len(statement.values):
        listed = ", ".join(map(backticked, statement.columns))
        values = ", ".join(map(expression_text, statement.values))
        raise SqlError(f"Expected a value for each column. Expected Columns: [{listed}]. Got [{values}]")
    for name in names:
        if name not in types and name not in PSEUDO_NAMES:
            raise SqlError(f"Column name {backticked(name)} does not exist.")
        if name in PSEUDO_NAMES and name != "ROWTIME":
            raise SqlError(f"Inserting into column {backticked(name)} is not allowed.")
    types["ROWTIME"] = BIGINT
    return {name: strict_value(each, name, types[name]) for name, each in zip(names, statement.values, strict=True)}


def check_time(given: object) -> int | None:
    """What ROWTIME is given, in milliseconds, None for the time of the insertion; raises SqlError for one below 0."""
    if not isinstance(given, int):
        return None
    if given < 0:
        raise SqlError(f"Invalid timestamp: {given}. Timestamp should always be non-negative or null.")
    return given


def check_primary_key(found: Mapping[str, object], source: Source) -> None:
    """Raise SqlError where a column of a table's key is given no value."""
    missing = [column.name for column in source.schema.key if column.name not in found]
    if missing:
        raise SqlError(f"Value for primary key column(s) {', '.join(missing)} is required for tables")


def writable_source(name: str, catalogue: Catalogue, columns: tuple[str, ...] = ()) -> Source:
    """The source that rows are inserted into, its schemas registered; raises SqlError where none can be."""
    source = catalogue.sources.get(name)
    if source is None:
        raise SqlError(f"Cannot insert values into an unknown stream/table: {backticked(name)}")
    if source.window is not None:
        raise SqlError("Cannot insert values into windowed stream/table!")
    if source.read_only:
        raise SqlError(f"Cannot insert values into read-only {source.kind.lower()}: {source.name}")
    headers = [each.name for each in source.schema.headers if not columns or each.name in columns]
    if headers:
        raise SqlError(f"Cannot insert into HEADER columns: {', '.join(headers)}")
    return with_schemas_to_insert(source, source.layout.registry or catalogue.registry)


def record_of(source: Source, found: Mapping[str, object], time: int | None) -> InsertedRecord:
    """The record of a row; raises SqlError where its formats cannot hold it."""
    key = tuple(found.get(column.name) for column in source.schema.key)
    value = tuple(found.get(column.name) for column in source.schema.value)
    layout = source.layout
    return InsertedRecord(
        source.topic,
        layout.key_codec(source.schema).encode(key if any(each is not None for each in key) else None),
        layout.value_codec(source.schema).encode(value),
        time,
    )
