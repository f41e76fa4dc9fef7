"""MySQL and MariaDB as incremental snapshots ask them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, Final

from ottla.connectors.cdc.chunks import Keys
from ottla.connectors.cdc.events import Row
from ottla.connectors.cdc.mysql.binlog_events import BinlogMoment
from ottla.connectors.cdc.mysql.kinds import WHOLE
from ottla.connectors.cdc.mysql.server import Server, quoted
from ottla.connectors.cdc.mysql.tables import BYTES, SqlTable, SqlType
from ottla.connectors.cdc.mysql.texts import row_reader, selected

__all__ = ["BinlogChunks"]

_AS_NUMBER: Final = ("ENUM", "SET", "BIT", "YEAR")
"""Types that are ordered by numbers, and compared otherwise with what is printed of them."""
_NUMBERS: Final = (*_AS_NUMBER, "DECIMAL", "FLOAT", "DOUBLE", *WHOLE)
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", re.I)
_BYTES: Final = re.compile(r"x'[0-9a-f]*'")


class BinlogChunks:
    """See `ottla.connectors.cdc.chunks.ChunkServer`; its tables are `SqlTable`s."""

    def __init__(
        self, server: Server, defined: Callable[[str], SqlTable | None], moment: Callable[[], BinlogMoment]
    ) -> None:
        """`defined` looks at a table as it is now."""
        self._server, self._defined, self.moment = server, defined, moment

    def table(self, name: str) -> SqlTable | None:
        """See the protocol."""
        return self._defined(name)

    def rows(self, query: str) -> list[Sequence[Any]]:
        """See the protocol."""
        return self._server.rows(query)

    def first_rows(self, query: str, bytes_max: int) -> tuple[list[Sequence[Any]], bool]:
        """See the protocol; what is left behind them is taken and thrown away, row by row."""
        found, size = list[Sequence[Any]](), 0
        with closing(self._server.stream(query, 1)) as rows:
            for [row] in rows:
                if size >= bytes_max:
                    return found, True
                found.append(row)
                size += sum(len(each) for each in row if isinstance(each, str | bytes))
        return found, False

    def run(self, statement: str) -> None:
        """See the protocol."""
        self._server.run(statement)

    def quoted(self, name: str) -> str:
        """See the protocol."""
        return quoted(name)

    def literal(self, text: str) -> str:
        """See the protocol."""
        return self._server.literal(text)

    def columns(self, table: Any) -> Sequence[str]:
        """See the protocol."""
        return selected(table)

    def key(self, table: Any, column: str) -> str:
        """See the protocol."""
        type_ = _type(table, column)
        if type_.name in _AS_NUMBER:
            return f"({quoted(column)} + 0)"
        return f"({quoted(column)} + 0.0e0)" if type_.name in ("FLOAT", "DOUBLE") else quoted(column)

    def compared(self, table: Any, key: Sequence[str], sign: str, values: Keys) -> str:
        """See the protocol: the server would not look for a comparison of rows in an index."""
        names = [self.key(table, each) for each in key]
        texts = [self._value(_type(table, column), text) for column, text in zip(key, values, strict=True)]
        found = f"{names[-1]} {sign} {texts[-1]}"
        for name, text in reversed([*zip(names[:-1], texts[:-1], strict=True)]):
            found = f"({name} {sign[0]} {text} or ({name} = {text} and {found}))"
        return found if len(names) == 1 else f"({names[0]} {sign[0]}= {texts[0]} and {found})"

    def _value(self, type_: SqlType, text: str) -> str:
        if (type_.name in _NUMBERS and _NUMBER.fullmatch(text)) or (type_.name in BYTES and _BYTES.fullmatch(text)):
            return text
        return self._server.literal(text)

    def text(self, value: Any) -> str:
        """See the protocol."""
        return "" if value is None else f"x'{value.hex()}'" if isinstance(value, bytes) else str(value)

    def row(self, table: Any, values: Sequence[Any]) -> Row:
        """See the protocol."""
        return row_reader(table)(values)


def _type(table: SqlTable, column: str) -> SqlType:
    return next(each.type for each in table.columns if each.name.lower() == column.lower())
