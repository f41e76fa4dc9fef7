"""Entries of include lists that match nothing on the server: without a word of it a capture runs, and tells nothing."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ottla.connectors.cdc.catalog import TableId
from ottla.connectors.cdc.settings import parts
from ottla.java import JavaPattern, compile_java

__all__ = ["Unmatched"]

log = logging.getLogger(__name__)

TOLD_MAX = 20
"""So many entries are told one by one."""


class Unmatched:
    """Which entries of `table.include.list`, and of that of schemas or databases, have matched no table so far."""

    def __init__(self, settings: Mapping[str, Any], schemas: str = "schema") -> None:
        """Take the settings; `schemas` is what they call that in which tables are."""
        self._schemas = schemas
        self._left: dict[tuple[str, str], JavaPattern] = {
            (key, entry): compile_java(f"(?i){entry}")
            for key in ("table.include.list", f"{schemas}.include.list")
            for entry in parts(settings.get(key))
        }
        self._near: dict[tuple[str, str], TableId] = {}
        """A table that an entry would match by its name without the schema."""
        self._count = 0
        """Of the tables whose records were made."""

    def look(self, names: Iterable[TableId]) -> None:
        """Take tables that the server has, and log what none of them matches."""
        for name in names:
            if not self._left:
                return
            self.seen(name)
        for told in self.told():
            log.warning("%s", told)

    def told_of(self, names: Collection[TableId]) -> None:
        """Take all tables whose records were made so far: one that was made since has changed, and its entry matches now."""
        if self._left and len(names) != self._count:
            self._count = len(names)
            for name in names:
                self.seen(name)

    def seen(self, name: TableId) -> None:
        """Take one more table."""
        for place, pattern in list(self._left.items()):
            is_table = place[0].startswith("table.")
            if pattern.fullmatch(str(name) if is_table else name.schema):
                del self._left[place]
            elif is_table and pattern.fullmatch(name.table):
                self._near.setdefault(place, name)

    def told(self) -> list[str]:
        """Return a sentence for each entry that has matched nothing; where they are many the last counts the others."""
        found = [self._told(*place) for place in self._left]
        more = len(found) - TOLD_MAX
        return found if more <= 0 else [*found[:TOLD_MAX], f"{more} more entries of include lists match nothing"]

    def _told(self, key: str, entry: str) -> str:
        near = self._near.get((key, entry))
        if near is not None:
            return f"{key}: no table matches {entry!r}, which has to match the whole name: is {near} meant?"
        what = "table" if key.startswith("table.") else f"{self._schemas} with tables"
        return (
            f"{key}: no {what} matches {entry!r}, so nothing of it is captured: mend the name, or create it and restart the "
            "connector's tasks"
        )
