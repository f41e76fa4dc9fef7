"""Columns of a stream or a table, and where in a record each of them is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ottla.sql.errors import SqlError
from ottla.sql.types import BIGINT, INTEGER, SqlType, backticked

Place = Literal["key", "value", "headers"]
WindowKind = Literal["TUMBLING", "HOPPING", "SESSION"]

PSEUDO_COLUMNS: tuple[tuple[str, SqlType], ...] = (
    ("ROWTIME", BIGINT),
    ("ROWPARTITION", INTEGER),
    ("ROWOFFSET", BIGINT),
)
"""What every record has beside its columns."""

WINDOW_BOUNDS: tuple[tuple[str, SqlType], ...] = (("WINDOWSTART", BIGINT), ("WINDOWEND", BIGINT))
"""What every windowed key has, in milliseconds; the end is excluded."""

SYSTEM_NAMES = frozenset(name for name, _ in (*PSEUDO_COLUMNS, *WINDOW_BOUNDS))
"""Names that no column may be given."""


@dataclass(frozen=True, slots=True)
class WindowInfo:
    """The windows that keys of a stream or a table are within; a session has no size, in milliseconds."""

    kind: WindowKind
    size_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SqlColumn:
    """A column. One of headers holds them all, or with `header_key` the last header of that key."""

    name: str
    type: SqlType
    place: Place = "value"
    header_key: str | None = None

    def __str__(self) -> str:
        return f"{backticked(self.name)} {self.type}{self._role}"

    @property
    def _role(self) -> str:
        if self.place == "headers":
            return " HEADERS" if self.header_key is None else f" HEADER('{self.header_key}')"
        return " KEY" if self.place == "key" else ""


@dataclass(frozen=True, slots=True)
class LogicalSchema:
    """Columns in the order in which they were declared; its text is ksqlDB's: `` `ID` STRING KEY, `V` INTEGER``."""

    columns: tuple[SqlColumn, ...] = ()

    def __post_init__(self) -> None:
        """Refuse two columns of one name in one place, in ksqlDB's words."""
        seen: set[tuple[str, str]] = set()
        for column in self.columns:
            place = "value" if column.place == "value" else "key" if column.place == "key" else "header"
            if (place, column.name) in seen:
                raise SqlError(f"Duplicate {place}s found in schema: {column}")
            seen.add((place, column.name))

    @classmethod
    def of(cls, *, key: Iterable[tuple[str, SqlType]] = (), value: Iterable[tuple[str, SqlType]] = ()) -> LogicalSchema:
        """Make the schema of these columns, (name, type), the key's before the value's."""
        keys = tuple(SqlColumn(name, type_, "key") for name, type_ in key)
        return cls((*keys, *(SqlColumn(name, type_) for name, type_ in value)))

    def __str__(self) -> str:
        return ", ".join(map(str, self.columns))

    @property
    def key(self) -> tuple[SqlColumn, ...]:
        """The key's columns."""
        return self._in("key")

    @property
    def value(self) -> tuple[SqlColumn, ...]:
        """The value's columns."""
        return self._in("value")

    @property
    def headers(self) -> tuple[SqlColumn, ...]:
        """The columns that are read from a record's headers."""
        return self._in("headers")

    def find(self, name: str) -> SqlColumn | None:
        """The column of a name, None where there is none."""
        return next((column for column in self.columns if column.name == name), None)

    def _in(self, place: Place) -> tuple[SqlColumn, ...]:
        return tuple(column for column in self.columns if column.place == place)
