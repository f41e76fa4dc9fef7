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
        self._all: dict[str, str] = {}
        self._reason_length = REASON_LENGTH_MAX
        self._kept: dict[str, Any] | None = {}
        """None where it has to be made anew."""

    def __contains__(self, table: TableId) -> bool:
        return bool(self._all) and str(table) in self._all

    def restore(self, offset: Mapping[str, Any]) -> None:
        """Take those of an offset, and say which they are."""
        listed = offset.get(REFUSED)
        if listed == self.kept().get(REFUSED):
            return
        try:
            self._all = {str(table): str(why) for table, why in json.loads(listed or "{}").items()}
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
        self._all[str(table)] = why[: self._reason_length]
        self._note()
        self._say(str(table), why)

    def _say(self, table: str, why: str) -> None:
        log.error(
            "Table %s is refused, and none of its changes is told from there on, while other tables go on: %s. %s",
            *(table, why, WHAT_TO_DO),
        )

    def dropped(self, table: TableId) -> None:
        """Forget one that is gone: what is made under its name is another."""
        if self._all.pop(str(table), None) is not None:
            self._note()

    def dropped_schema(self, schema: str) -> None:
        """Forget all of a schema, or a database, that is gone."""
        for each in [each for each in self._all if each.startswith(f"{schema}.")]:
            del self._all[each]
            self._note()

    def renamed(self, table: TableId, new: TableId) -> None:
        """Follow one to its other name."""
        if (why := self._all.pop(str(table), None)) is not None:
            self._all[str(new)] = why
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
            listed = json.dumps(self._all)
            while len(listed) > LISTED_LENGTH_MAX and self._reason_length:
                self._reason_length //= 2
                self._all = {table: why[: self._reason_length] for table, why in self._all.items()}
                listed = json.dumps(self._all)
            self._kept = {REFUSED: listed} if self._all else {}
        return self._kept

    def _note(self) -> None:
        self._kept = None
