"""The WITH clause of CREATE and of AS SELECT: what may stand in it, and what it means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from ottla.sql.errors import SqlError
from ottla.sql.formats import FORMATS, UNWRAPS, WRAPS
from ottla.sql.formats.registry import WITH_SCHEMAS, Nullables
from ottla.sql.functions.java_patterns import parts_of
from ottla.sql.tree import expressions as e
from ottla.sql.tree.statements import Properties
from ottla.sql.words import TIME_UNITS, unit_name

_BOTH = (
    *("KAFKA_TOPIC", "PARTITIONS", "REPLICAS", "RETENTION_MS", "CLEANUP_POLICY", "FORMAT", "KEY_FORMAT"),
    *("VALUE_FORMAT", "WRAP_SINGLE_VALUE", "KEY_DELIMITER", "VALUE_DELIMITER", "TIMESTAMP", "TIMESTAMP_FORMAT"),
    *("KEY_SCHEMA_ID", "VALUE_SCHEMA_ID", "KEY_SCHEMA_FULL_NAME", "VALUE_SCHEMA_FULL_NAME"),
    *("VALUE_AVRO_SCHEMA_FULL_NAME", "KEY_PROTOBUF_NULLABLE_REPRESENTATION"),
    *("VALUE_PROTOBUF_NULLABLE_REPRESENTATION",),
)
OF_CREATE = frozenset((*_BOTH, "WINDOW_TYPE", "WINDOW_SIZE", "SOURCED_BY_CONNECTOR"))
OF_AS_SELECT = frozenset(_BOTH)
OF_INSERT = frozenset(("QUERY_ID",))
_DELIMITERS = {"TAB": "\t", "SPACE": " "}
_NULLABLES = ("OPTIONAL", "WRAPPER")
_WINDOWS = ("SESSION", "HOPPING", "TUMBLING")
_PROTOBUFS = ("PROTOBUF", "PROTOBUF_NOSR")
_INT_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class WithClause:
    """A WITH clause, read; None for what it does not say."""

    topic: str | None = None
    partitions: int | None = None
    key_format: str | None = None
    value_format: str | None = None
    wrap: bool | None = None
    key_delimiter: str | None = None
    value_delimiter: str | None = None
    timestamp: str | None = None
    timestamp_format: str | None = None
    key_schema_id: int | None = None
    value_schema_id: int | None = None
    key_schema_name: str | None = None
    value_schema_name: str | None = None
    key_nullables: Nullables | None = None
    value_nullables: Nullables | None = None
    window_type: str | None = None
    """TUMBLING, HOPPING or SESSION, of a topic whose keys are windowed."""
    window_size_ms: int | None = None
    query_id: str | None = None


def with_clause(properties: Properties, known: Iterable[str]) -> WithClause:
    """Read a clause in which the `known` names may stand; raises SqlError in ksqlDB's words."""
    given = {name.upper().strip("'"): value for name, value in properties}
    unknown = sorted(given.keys() - set(known))
    if unknown:
        raise SqlError(
            f"Failed to prepare statement: Invalid config variable(s) in the WITH clause: {','.join(unknown)}"
        )
    key_format, value_format = _formats(given)
    names = _schema_names(given)
    window_type, window_size_ms = _window(given)
    return WithClause(
        topic=_not_empty(given, "KAFKA_TOPIC"),
        partitions=_positive(given, "PARTITIONS"),
        key_format=key_format,
        value_format=value_format,
        wrap=_boolean(given, "WRAP_SINGLE_VALUE"),
        key_delimiter=_delimiter(given, "KEY_DELIMITER"),
        value_delimiter=_delimiter(given, "VALUE_DELIMITER"),
        timestamp=_column(_text(given, "TIMESTAMP")),
        timestamp_format=_date_format(given),
        key_schema_id=_whole(given, "KEY_SCHEMA_ID"),
        value_schema_id=_whole(given, "VALUE_SCHEMA_ID"),
        key_schema_name=names[0],
        value_schema_name=names[1],
        key_nullables=_nullables(given, "KEY_PROTOBUF_NULLABLE_REPRESENTATION"),
        value_nullables=_nullables(given, "VALUE_PROTOBUF_NULLABLE_REPRESENTATION"),
        window_type=window_type,
        window_size_ms=window_size_ms,
        query_id=_text(given, "QUERY_ID"),
    )


def _formats(given: Mapping[str, e.Literal]) -> tuple[str | None, str | None]:
    both = _text(given, "FORMAT")
    for name in ("KEY_FORMAT", "VALUE_FORMAT"):
        if both is not None and name in given:
            raise SqlError(
                f"Cannot supply both '{name}' and 'FORMAT' properties, as 'FORMAT' sets both key and value formats. "
                "Either use just 'FORMAT', or use 'KEY_FORMAT' and 'VALUE_FORMAT'."
            )
    found = [(_text(given, name) or both) for name in ("KEY_FORMAT", "VALUE_FORMAT")]
    upper = [None if each is None else each.upper() for each in found]
    for format_, written in zip(upper, found, strict=True):
        if format_ is not None and format_ not in FORMATS:
            raise SqlError(f"Unknown format: {written}")
    return upper[0], upper[1]


def _schema_names(given: Mapping[str, e.Literal]) -> tuple[str | None, str | None]:
    if "VALUE_AVRO_SCHEMA_FULL_NAME" in given and "VALUE_SCHEMA_FULL_NAME" in given:
        raise SqlError(
            "Cannot supply both 'VALUE_AVRO_SCHEMA_FULL_NAME' and 'VALUE_SCHEMA_FULL_NAME' properties. "
            "Please only set 'VALUE_SCHEMA_FULL_NAME'."
        )
    value = _text(given, "VALUE_AVRO_SCHEMA_FULL_NAME")
    return _text(given, "KEY_SCHEMA_FULL_NAME"), _text(given, "VALUE_SCHEMA_FULL_NAME") if value is None else value


def _window(given: Mapping[str, e.Literal]) -> tuple[str | None, int | None]:
    """The windows that keys of a topic are within; raises SqlError where type and size do not go together."""
    type_, size = _text(given, "WINDOW_TYPE"), _text(given, "WINDOW_SIZE")
    if type_ is not None and type_.upper() not in _WINDOWS:
        raise SqlError(
            f"Error in WITH clause property 'WINDOW_TYPE': Unknown window type: '{type_}'\n"
            f"Valid values are: {', '.join(_WINDOWS)}"
        )
    kind = None if type_ is None else type_.upper()
    size_ms = None if size is None else _duration_ms(size)
    if kind not in (None, "SESSION") and size_ms is None:
        raise SqlError(
            f"{kind} windows require 'WINDOW_SIZE' to be provided in the WITH clause. "
            "For example: 'WINDOW_SIZE'='10 SECONDS'"
        )
    if kind in (None, "SESSION") and size_ms is not None:
        raise SqlError("'WINDOW_SIZE' should not be set for SESSION windows.")
    return kind, size_ms


def _duration_ms(text: str) -> int:
    words = text.split()
    reason = None
    if len(words) != 2:
        reason = f"Invalid duration: '{text}'. Expected [size] [unit]"
    elif not words[0].isdecimal():
        reason = f"Invalid duration: '{text}'. Size must be numeric, not '{words[0]}'"
    else:
        unit = unit_name(words[1].upper())
        if unit is not None:
            return int(words[0]) * TIME_UNITS[unit[:-1]]
        reason = f"Invalid duration: '{text}'. Unknown time unit: '{words[1].upper()}'"
    raise SqlError(f"Error in WITH clause property 'WINDOW_SIZE': {reason}\nExample valid value: '10 SECONDS'")


def check_wrapping(wrap: bool | None, format_: str, columns: int) -> None:
    """Raise SqlError where WRAP_SINGLE_VALUE is set for what it cannot be said of."""
    if wrap is None:
        return
    if columns != 1:
        raise SqlError("'WRAP_SINGLE_VALUE' is only valid for single-field value schemas")
    if format_ not in (WRAPS if wrap else UNWRAPS):
        raise SqlError(f"Format '{format_}' does not support 'WRAP_SINGLE_VALUE' set to '{str(wrap).lower()}'.")


def check_format_properties(given: WithClause, *, is_key: bool, format_: str) -> None:
    """Raise SqlError where a property is set that a format has not."""
    side = "KEY" if is_key else "VALUE"
    delimiter = given.key_delimiter if is_key else given.value_delimiter
    name = given.key_schema_name if is_key else given.value_schema_name
    schema_id = given.key_schema_id if is_key else given.value_schema_id
    if schema_id is not None and format_ not in WITH_SCHEMAS:
        raise SqlError(
            f"{side}_FORMAT should support schema inference when {side}_SCHEMA_ID is provided. "
            f"Current format is {format_}."
        )
    nullables = given.key_nullables if is_key else given.value_nullables
    if nullables is not None and format_ not in _PROTOBUFS:
        raise SqlError(f"Property {side}_PROTOBUF_NULLABLE_REPRESENTATION can only be enabled with protobuf format")
    wrong = [
        *(["fullSchemaName"] if name is not None and format_ not in WITH_SCHEMAS else []),
        *(["delimiter"] if delimiter is not None and format_ != "DELIMITED" else []),
    ]
    if wrong:
        raise SqlError(f"{format_} does not support the following configs: [{', '.join(wrong)}]")
    if name is not None and not name.strip():
        raise SqlError(f"fullSchemaName cannot be empty. Format configuration: {{fullSchemaName={name.strip()}}}")


def _text(given: Mapping[str, e.Literal], name: str) -> str | None:
    value = given.get(name)
    if value is None or isinstance(value, e.NullLiteral):
        return None
    if isinstance(value, e.BooleanLiteral):
        return str(value.value).lower()
    return value.value if isinstance(value, e.StringLiteral) else str(value.value)


def _invalid(name: str, text: str, said: str) -> SqlError:
    return SqlError(f"Invalid value {text} for property {name}: {said}")


def _not_empty(given: Mapping[str, e.Literal], name: str) -> str | None:
    text = _text(given, name)
    if text == "":
        raise _invalid(name, text, "String must be non-empty")
    return text


def _whole(given: Mapping[str, e.Literal], name: str) -> int | None:
    text = _text(given, name)
    if text is None:
        return None
    try:
        found = int(text)
    except ValueError:
        raise _invalid(name, text, "Not a number of type INT") from None
    if not -_INT_MAX - 1 <= found <= _INT_MAX:
        raise _invalid(name, text, "Expected value to be a 32-bit integer, but it was a java.lang.Long")
    return found


def _positive(given: Mapping[str, e.Literal], name: str) -> int | None:
    found = _whole(given, name)
    if found is not None and found < 1:
        raise _invalid(name, str(found), "Value must be at least 1")
    return found


def _boolean(given: Mapping[str, e.Literal], name: str) -> bool | None:
    text = _text(given, name)
    if text is None:
        return None
    if text.strip().lower() not in ("true", "false"):
        raise _invalid(name, text, "Expected value to be either true or false")
    return text.strip().lower() == "true"


def _nullables(given: Mapping[str, e.Literal], name: str) -> Nullables | None:
    text = _text(given, name)
    if text is None:
        return None
    if text.upper() not in _NULLABLES:
        raise _invalid(name, text, f"String must be one of: {', '.join(_NULLABLES)}, null")
    return cast(Nullables, text.upper())


def _delimiter(given: Mapping[str, e.Literal], name: str) -> str | None:
    text = _text(given, name)
    if text is None:
        return None
    found = _DELIMITERS.get(text.upper(), text)
    if not text.strip():
        raise _no_delimiter(
            name,
            "Delimiter cannot be empty, if you meant to have a tab or space for delimiter, please use the special "
            "values 'TAB' or 'SPACE'",
        )
    if len(found) != 1:
        raise _no_delimiter(
            name, f"Invalid delimiter value: '{text}'. Delimiter must be a single character or TAB,SPACE"
        )
    return found


def _no_delimiter(name: str, said: str) -> SqlError:
    return SqlError(f"Failed to prepare statement: Configuration {name} is invalid: {said}\nExample valid value: ';'")


def _date_format(given: Mapping[str, e.Literal]) -> str | None:
    text = _text(given, "TIMESTAMP_FORMAT")
    if text is None:
        return None
    try:
        parts_of(text)
    except SqlError as error:
        raise SqlError(f"Invalid datetime format for config:TIMESTAMP_FORMAT, reason:{error}") from None
    return text


def _column(text: str | None) -> str | None:
    """The name of a column that stands in a text: in upper case unless it is quoted."""
    if text is None:
        return None
    if len(text) > 1 and text[0] == text[-1] and text[0] in '`"':
        return text[1:-1]
    return text.upper()
