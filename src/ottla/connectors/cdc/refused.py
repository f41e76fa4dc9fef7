"""Tables that are not told any more: a change is not known as it was sent, or no record can hold it. The others go on."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, Final

from ottla.connectors.cdc.catalog import TableId

__all__ = ["REFUSED", "Refused"]

log = logging.getLogger(__name__)
REFUSED: Final = "refused_tables"
"""The part of an offset that says which tables are not told any more, and why."""
REASON_LENGTH_MAX: Final = 400
LISTED_LENGTH_MAX: Final = 256 << 10
"""So long may they all be in an offset, which has to be stored; where they are more, their reasons are shorter."""
WHAT_TO_DO: Final = "Reset the connector's offsets to read the tables anew"


class Refused:
    """All of them with why, which is a part of offsets, so that a restart knows of it."""

    def __init__(self) -> None:
        self._all: dict[TableId, str] = {}
        self._reason_length = REASON_LENGTH_MAX
        self._kept: dict[str, Any] | None = {}
        """None where it has to be made anew."""

    def __contains__(self, table: TableId) -> bool:
        return bool(self._all) and table in self._all

    def restore(self, offset: Mapping[str, Any]) -> None:
        """Take those of an offset, and say which they are."""
        listed = offset.get(REFUSED)
        if listed == self.kept().get(REFUSED):
            return
        try:
            told = json.loads(listed or "{}").items()
            self._all = {table: str(why) for text, why in told for table in _tables_of(text)}
        except (ValueError, AttributeError, TypeError, RecursionError):
            log.warning("What the offset says of refused tables cannot be understood, and is forgotten: %s", listed)
            self._all = {}
        self._note()
        for table, why in self._all.items():
            self._say(table, why)

    def add(self, table: TableId, why: str) -> None:
        """Tell nothing of a table from now on."""
        if table in self:
            return
        self._all[table] = why[: self._reason_length]
        self._note()
        self._say(table, why)

    def _say(self, table: TableId, why: str) -> None:
        log.error(
            "Table %s is refused, and none of its changes is told from there on, while other tables go on: %s. %s",
            *(table, why, WHAT_TO_DO),
        )

    def dropped(self, table: TableId) -> None:
        """Forget one that is gone: what is made under its name is another."""
        if self._all.pop(table, None) is not None:
            self._note()

    def dropped_schema(self, schema: str) -> None:
        """Forget all of a schema, or a database, that is gone."""
        for each in [each for each in self._all if each.schema == schema]:
            del self._all[each]
            self._note()

    def renamed(self, table: TableId, new: TableId) -> None:
        """Follow one to its other name."""
        if (why := self._all.pop(table, None)) is not None:
            self._all[new] = why
            self._note()

    def told(self) -> list[str]:
        """Return each with why, and what to do."""
        return [
            f"table {table} is refused, and none of its changes is told: {why or 'the log has said why'}. {WHAT_TO_DO}"
            for table, why in self._all.items()
        ]

    def kept(self) -> dict[str, Any]:
        """Return them as a part of a source offset; nothing where there are none."""
        if self._kept is None:
            listed = self._listed()
            while len(listed) > LISTED_LENGTH_MAX and self._reason_length:
                self._reason_length //= 2
                self._all = {table: why[: self._reason_length] for table, why in self._all.items()}
                listed = self._listed()
            self._kept = {REFUSED: listed} if self._all else {}
        return self._kept

    def _listed(self) -> str:
        return json.dumps({_text_of(table): why for table, why in self._all.items()})

    def _note(self) -> None:
        self._kept = None


def _text_of(table: TableId) -> str:
    """Return a table as offsets have it: `schema.table`, and a list where a point in a name would make it another's."""
    is_plain = "." not in table.schema + table.table and not table.schema.startswith("[")
    return str(table) if is_plain else json.dumps([table.schema, table.table])


def _tables_of(text: str) -> list[TableId]:
    """Return the table of a text of an offset; all that it may be where an earlier version wrote a name with points."""
    if text.startswith("["):
        try:
            [schema, table] = json.loads(text)
        except (ValueError, TypeError, RecursionError):
            pass  # a schema may be called so
        else:
            return [TableId(str(schema), str(table))]
    points = [at for at, sign in enumerate(text) if sign == "."]
    return [TableId(text[:at], text[at + 1 :]) for at in points]
