"""Where a record's file lies: folders by partition, field or time, as expressions in Spark's SQL."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ottla.base import ConfigError

__all__ = ["Columns", "PartitionBy", "quoted", "spark_pattern"]

LETTERS = {"Y": "y", "y": "y", "M": "M", "d": "d", "D": "D", "H": "H", "h": "h", "k": "k", "K": "K", "m": "m", "s": "s"}
LETTERS |= {"S": "S", "a": "a", "E": "E"}
"""Joda-Time's letters, and Spark's for the same."""


def quoted(text: str) -> str:
    """Return text as a literal of Spark's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def spark_pattern(pattern: str) -> str:
    """Return a pattern of `path.format` with the letters of Spark's `date_format`; raises ConfigError for others."""
    written, literal = "", ""
    for match in re.finditer(r"''|'((?:[^']|'')*)'|[A-Za-z]|[^A-Za-z']+|'", pattern):
        piece = match[0]
        if piece == "'":
            raise _invalid(pattern, "has a quote that is not closed")
        if not piece.isalpha():
            literal += "'" if piece == "''" else piece if match[1] is None else match[1].replace("''", "'")
            continue
        if piece not in LETTERS:
            known = ", ".join(LETTERS)
            raise _invalid(pattern, f"has the letter {piece}, which means nothing here; there are {known}, and 'text'")
        written, literal = written + _literal(literal) + LETTERS[piece], ""
    return written + _literal(literal)


def _literal(text: str) -> str:
    """Return text that is no pattern: quoted as a whole, since other signs mean something in Spark's patterns."""
    return "'" + text.replace("'", "''") + "'" if text else ""


def _invalid(pattern: str, why: str) -> ConfigError:
    return ConfigError("path.format", pattern, why, f"Invalid value {pattern} for configuration path.format: it {why}")


@dataclass(frozen=True, slots=True)
class Columns:
    """What a batch's values are, as far as folders depend on it."""

    is_text: bool
    """Whether values are JSON text, whose fields Spark looks up by path."""

    kinds: dict[str, str]
    """The types of fields that stand at the top, in Spark's words."""

    def field(self, name: str) -> str:
        """Return a field of the value as an expression; dots lead into structs."""
        if self.is_text:
            return f"get_json_object(value, {quoted('$.' + name)})"
        return "value." + ".".join(f"`{part.replace('`', '``')}`" for part in name.split("."))


@dataclass(frozen=True, slots=True)
class PartitionBy:
    """What files are divided by: `partition`, `none`, `field`, `time`."""

    kind: str
    fields: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    """Of `date_format`, one for each folder."""

    duration_ms: int = 0
    zone: str = "UTC"
    extractor: str = "Record"
    time_field: str = ""

    def folders(self, columns: Columns, now_ms: int) -> list[str]:
        """Return one expression for each folder's name."""
        if self.kind == "none":
            return []
        if self.kind == "partition":
            return ["concat('partition=', kafka_partition)"]
        if self.kind == "field":
            return [
                f"concat({quoted(name + '=')}, coalesce(cast({columns.field(name)} as string), 'null'))"
                for name in self.fields
            ]
        local = f"from_utc_timestamp({self._time(columns, now_ms)}, {quoted(self.zone)})"
        if self.duration_ms > 1:
            local = f"timestamp_millis(floor(unix_millis({local}) / {self.duration_ms}) * {self.duration_ms}L)"
        return [f"date_format({local}, {quoted(each)})" for each in self.patterns]

    def _time(self, columns: Columns, now_ms: int) -> str:
        if self.extractor == "Wallclock":
            return f"timestamp_millis({now_ms}L)"
        place = "concat(kafka_topic, '-', kafka_partition, ', offset ', kafka_offset)"
        if self.extractor == "Record":
            return f"coalesce(timestamp, raise_error(concat('a record without timestamp: ', {place})))"
        found = columns.field(self.time_field)
        kind = columns.kinds.get(self.time_field, "string")
        if kind in ("bigint", "int", "long", "integer"):
            moment = f"timestamp_millis(cast({found} as bigint))"
        elif kind in ("timestamp", "date"):
            moment = f"cast({found} as timestamp)"
        else:
            number = f"timestamp_millis(try_cast({found} as bigint))"
            moment = f"coalesce({number}, try_cast({found} as timestamp))"
        words = f"the field {self.time_field} is no time: "
        return f"coalesce({moment}, raise_error(concat({quoted(words)}, {place})))"
