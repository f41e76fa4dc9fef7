"""Texts of the stream as the database has them, where the server cannot convert all of them: a character without Unicode.

The server converts what it sends, and ends the whole stream at the first text that it cannot convert. So it is then asked
to convert nothing, and each text is converted by itself: one that cannot be refuses its table alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ottla.connectors.cdc.catalog import Catalog
from ottla.connectors.cdc.pgoutput import Change, RelationColumn, RelationMessage, Row

__all__ = ["ForeignTexts", "readable"]


class ForeignTexts:
    """Converts texts of the stream by the server's own tables; a text of ASCII alone is asked for by nobody."""

    def __init__(self, catalog: Callable[[], Catalog]) -> None:
        """`catalog` gives the connection to ask, which may be another one each time."""
        self._catalog = catalog

    def converted(self, raw: bytes) -> bytes:
        """Return a text in UTF-8; raises DataError for one that has no such form."""
        return raw if raw.isascii() else self._catalog().converted(raw)

    def row(self, row: Row | None) -> Row | None:
        """Return a row in UTF-8; raises DataError."""
        if row is None:
            return None
        return [self.converted(each) if isinstance(each, bytes) else each for each in row]

    def change(self, change: Change) -> Change:
        """Return a change in UTF-8; raises DataError."""
        return replace(change, old=self.row(change.old), new=self.row(change.new))

    def relation(self, found: RelationMessage) -> RelationMessage:
        """Return a table with its names in UTF-8; raises DataError."""
        columns = tuple(
            RelationColumn(self.name(each.name), each.type_oid, each.type_modifier, each.is_key)
            for each in found.columns
        )
        return replace(found, schema=self.name(found.schema), table=self.name(found.table), columns=columns)

    def name(self, name: str) -> str:
        """Return a name that was read with its bytes kept (`surrogateescape`); raises DataError."""
        return self.converted(name.encode(errors="surrogateescape")).decode()


def readable(name: str) -> str:
    """Return a name that cannot be converted, for people."""
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")
