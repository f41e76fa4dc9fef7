"""Columns by a schema registry: `from_registry` and `to_registry`, Arrow functions beside Spark's `from_avro` and `to_avro`.

A column of records' bytes becomes one of the type that a schema of the registry has, whatever versions of it wrote the
records, and back. Schemas are asked for where the rows are, once in a process.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ottla.base import ConfigError
from ottla.schemas import SchemaType
from ottla.serdes import (
    HEADERS,
    Registry,
    SchemaText,
    SerdeError,
    SerdeSettings,
    Serializer,
    SubjectStrategy,
    serde_settings,
    subject_of,
)
from ottla.spark.requirements import check_spark
from ottla.spark.source.secured import looked_up

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

    from ottla.serdes.columns import ColumnReader, ColumnWriter

__all__ = ["from_registry", "to_registry"]

Properties = tuple[tuple[str, str], ...]
MODES = ("FAILFAST", "PERMISSIVE")
FUNCTIONS_MAX = 64
"""How many readers and writers a process keeps ready."""


def from_registry(
    data: Column | str,
    topic: str,
    options: Mapping[str, str],
    *,
    key: bool = False,
    schema: str | SchemaText | None = None,
    mode: str = "FAILFAST",
    headers: Column | str | None = None,
) -> Column:
    """Return the values of a binary column of a topic's records, as the type that `schema` has.

    `options` are Confluent's properties (`schema.registry.url`, …); values may be `${env:NAME}`, `${file:PATH:KEY}` or
    `${dir:FOLDER:NAME}`, looked up where the rows are. Without `schema` (a text is Avro's) it is the subject's latest one of
    now. With the column `headers` (of `includeHeaders`) schemas that are named there are found, too. What cannot be read
    ends the query, or is null where the mode is PERMISSIVE. Raises ConfigError, and
    SerdeError where there is no such schema.
    """
    check_spark()
    from pyspark.sql.functions import arrow_udf, col  # type: ignore[attr-defined]  # its types lack it

    if mode.upper() not in MODES:
        raise ConfigError("mode", mode, " or ".join(MODES))
    properties = _properties(options)
    settings = _settings(properties, key)
    wanted = _wanted(settings, topic, schema)
    permissive = mode.upper() == "PERMISSIVE"
    column = _reader(properties, key, wanted, permissive).type
    name = HEADERS[key]

    def values(rows: pa.Array) -> pa.Array:
        return _reader(properties, key, wanted, permissive).read(rows)

    def values_by_headers(rows: pa.Array, held: pa.Array) -> pa.Array:
        return _reader(properties, key, wanted, permissive).read(rows, _named(held, name))

    given = [col(each) if isinstance(each, str) else each for each in (data, headers) if each is not None]
    function: Any = values if headers is None else values_by_headers
    found: Column = arrow_udf(_typed(function, len(given)), _ddl(column))(*given)
    return found


def to_registry(
    data: Column | str,
    topic: str,
    options: Mapping[str, str],
    *,
    key: bool = False,
    schema: str | SchemaText | None = None,
    message: str | None = None,
) -> Column:
    """Return a column as the bytes of a topic's keys or values.

    Fields are found by their names. The schema is registered now where `auto.register.schemas` says so; without `schema` the
    subject's latest one is used. `message` names a Protobuf message that is not the first. Raises ConfigError, and
    SerdeError where the registry refuses or does not answer; a value that does not fit ends the query.
    """
    check_spark()
    from pyspark.sql.functions import arrow_udf, col  # type: ignore[attr-defined]  # its types lack it

    properties = _properties(options)
    wanted = _text(schema)
    if wanted is None:
        properties = _properties({**options, "use.latest.version": "true", "auto.register.schemas": "false"})
    settings = _settings(properties, key)
    Serializer(settings).known(topic, wanted, message)

    def written(rows: pa.Array) -> pa.Array:
        return _writer(properties, key, topic, wanted, message).write(rows)

    found: Column = arrow_udf(_typed(written, 1), "binary")(col(data) if isinstance(data, str) else data)
    return found


def _typed(function: Any, arguments: int) -> Any:
    """Say in annotations what Spark wants to know of a function of columns."""
    import pyarrow as pa

    names = ("rows", "held")[:arguments]
    function.__annotations__ = {**dict.fromkeys(names, pa.Array), "return": pa.Array}
    return function


def _ddl(column: pa.DataType) -> str:
    from ottla.serdes.columns import spark_type_of

    return spark_type_of(column)


def _properties(options: Mapping[str, str]) -> Properties:
    return tuple(sorted((key, str(value)) for key, value in options.items()))


def _settings(properties: Properties, key: bool) -> SerdeSettings:
    return serde_settings(looked_up(dict(properties)), is_key=key)


def _text(schema: str | SchemaText | None) -> SchemaText | None:
    return SchemaText(SchemaType.AVRO, schema) if isinstance(schema, str) else schema


def _wanted(settings: SerdeSettings, topic: str, schema: str | SchemaText | None) -> SchemaText:
    found = _text(schema)
    if found is not None:
        return found
    if settings.strategy is not SubjectStrategy.TOPIC:
        raise SerdeError(f"{settings.strategy} needs a schema: it is not known which record this is")
    registry = Registry(settings)
    try:
        return registry.latest(subject_of(settings.strategy, topic, None, is_key=settings.is_key)).schema
    finally:
        registry.close()


@lru_cache(FUNCTIONS_MAX)
def _reader(properties: Properties, key: bool, wanted: SchemaText, permissive: bool) -> ColumnReader:
    from ottla.serdes.columns import ColumnReader

    return ColumnReader(_settings(properties, key), wanted, permissive=permissive)


@lru_cache(FUNCTIONS_MAX)
def _writer(
    properties: Properties, key: bool, topic: str, schema: SchemaText | None, message: str | None
) -> ColumnWriter:
    from ottla.serdes.columns import ColumnWriter

    return ColumnWriter(_settings(properties, key), topic, schema, message=message)


def _named(held: pa.Array, name: str) -> list[bytes | None]:
    """Return the header that names the schema of each row, of an array of keys and values."""
    return [
        next((pair["value"] for pair in pairs or () if pair["key"] == name and pair["value"]), None)
        for pairs in held.to_pylist()
    ]
