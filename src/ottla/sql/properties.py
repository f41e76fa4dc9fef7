"""The WITH clause of CREATE and of AS SELECT: what may stand in it, and what it means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.sql.errors import SqlError, UnsupportedError
from ottla.sql.formats import FORMATS
from ottla.sql.tree import expressions as e
from ottla.sql.tree.statements import Properties

_BOTH = (
    *("KAFKA_TOPIC", "PARTITIONS", "REPLICAS", "RETENTION_MS", "CLEANUP_POLICY", "FORMAT", "KEY_FORMAT"),
    *("VALUE_FORMAT", "WRAP_SINGLE_VALUE", "KEY_DELIMITER", "VALUE_DELIMITER", "TIMESTAMP", "TIMESTAMP_FORMAT"),
    *("KEY_SCHEMA_ID", "VALUE_SCHEMA_ID", "KEY_SCHEMA_FULL_NAME", "VALUE_SCHEMA_FULL_NAME"),
    *("VALUE_AVRO_SCHEMA_FULL_NAME", "KEY_PROTOBUF_NULLABLE_REPRESENTATION"),
    *("VALUE_PROTOBUF_NULLABLE_REPRESENTATION",),
)
OF_CREATE = frozenset((*_BOTH, "WINDOW_TYPE", "WINDOW_SIZE", "SOURCED_BY_CONNECTOR"))
OF_AS_SELECT = frozenset(_BOTH)
_OF_REGISTRY = (*(name for name in _BOTH if "SCHEMA" in name or "PROTOBUF" in name), "WINDOW_TYPE", "WINDOW_SIZE")
_DELIMITERS = {"TAB": "\t", "SPACE": " "}
_WRAPPABLE = ("JSON", "JSON_SR", "AVRO", "PROTOBUF")


@dataclass(frozen=True, slots=True)
class WithClause:
    """A WITH clause, read; None for what it does not say."""

    topic: str | None = None
    partitions: int | None = None
    key_format: str | None = None
    value_format: str | None = None
    wrap: bool | None = None
    key_delimiter: str = ","
    value_delimiter: str | None = None
    timestamp: str | None = None
    timestamp_format: str | None = None


def with_clause(properties: Properties, known: Iterable[str]) -> WithClause:
    """Read a clause in which the `known` names may stand; raises SqlError in ksqlDB's words."""
    given = {name.upper().strip("'"): value for name, value in properties}
    unknown = sorted(given.keys() - set(known))
    if unknown:
        raise SqlError(
            f"Failed to prepare statement: Invalid config variable(s) in the WITH clause: {','.join(unknown)}"
        )
    for name in _OF_REGISTRY:
        if name in given:
            raise UnsupportedError(f"{name} in a WITH clause")
    key_format, value_format = _formats(given)
    wrap = given.get("WRAP_SINGLE_VALUE")
    return WithClause(
        topic=_text(given, "KAFKA_TOPIC"),
        partitions=_positive(given, "PARTITIONS"),
        key_format=key_format,
        value_format=value_format,
        wrap=None if wrap is None else _boolean("WRAP_SINGLE_VALUE", wrap),
        key_delimiter=_delimiter(_text(given, "KEY_DELIMITER")) or ",",
        value_delimiter=_delimiter(_text(given, "VALUE_DELIMITER")),
        timestamp=_column(_text(given, "TIMESTAMP")),
        timestamp_format=_text(given, "TIMESTAMP_FORMAT"),
    )


def _formats(given: Mapping[str, e.Literal]) -> tuple[str | None, str | None]:
    both = _text(given, "FORMAT")
    for name in ("KEY_FORMAT", "VALUE_FORMAT"):
        if both is not None and name in given:
            raise SqlError(
                f"Cannot supply both '{name}' and 'FORMAT' properties, as 'FORMAT' sets both key and value formats."
            )
    found = [(_text(given, name) or both) for name in ("KEY_FORMAT", "VALUE_FORMAT")]
    upper = [None if each is None else each.upper() for each in found]
    for format_, written in zip(upper, found, strict=True):
        if format_ is not None and format_ not in FORMATS:
            raise SqlError(f"Unknown format: {written}")
    return upper[0], upper[1]


def check_wrapping(wrap: bool | None, format_: str, columns: int) -> None:
    """Raise SqlError where WRAP_SINGLE_VALUE is set for what it cannot be said of."""
    if wrap is None:
        return
    if columns != 1:
        raise SqlError("'WRAP_SINGLE_VALUE' is only valid for single-field value schemas")
    if format_ not in _WRAPPABLE or (format_ == "PROTOBUF" and not wrap):
        raise SqlError(f"Format '{format_}' does not support 'WRAP_SINGLE_VALUE' set to '{str(wrap).lower()}'.")


def _text(given: Mapping[str, e.Literal], name: str) -> str | None:
    value = given.get(name)
    if value is None or isinstance(value, e.NullLiteral):
        return None
    return value.value if isinstance(value, e.StringLiteral) else str(value.value)


def _positive(given: Mapping[str, e.Literal], name: str) -> int | None:
    text = _text(given, name)
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise SqlError(f"Invalid value {text} for configuration {name}: Value must be at least 1")
    return int(text)


def _boolean(name: str, value: e.Literal) -> bool:
    text = "" if isinstance(value, e.NullLiteral) else str(value.value).lower()
    if text not in ("true", "false"):
        raise SqlError(f"Invalid value {text} for configuration {name}: Expected value to be either true or false")
    return text == "true"


def _delimiter(text: str | None) -> str | None:
    if text is None:
        return None
    found = _DELIMITERS.get(text.upper(), text)
    if len(found) != 1:
        raise SqlError(
            f"Invalid delimiter value: '{text}'. Delimiter must be a single character or TAB,SPACE"
            if found
            else "Delimiter cannot be empty, if you meant to have a tab or space for delimiter, please use the special "
            "values 'TAB' or 'SPACE'"
        )
    return found


def _column(text: str | None) -> str | None:
    """The name of a column that stands in a text: in upper case unless it is quoted."""
    if text is None:
        return None
    if len(text) > 1 and text[0] == text[-1] and text[0] in '`"':
        return text[1:-1]
    return text.upper()
