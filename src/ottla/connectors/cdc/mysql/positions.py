"""Where reading is in a binlog: what is kept as a source offset, in Debezium's form. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ottla.connect import ConnectError, DataError
from ottla.connectors.cdc.mysql.gtids import gtid_state
from ottla.connectors.cdc.signals import KEPT

__all__ = ["XA_PREPARED", "Position", "Start"]

REFUSED: Final = "refused_tables"
"""The part of an offset that says which tables are not told any more, and why."""
XA_PREPARED: Final = "xa_prepared"
"""The name in source offsets of transactions that are prepared, and neither committed nor rolled back."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin: a place in a file, or behind GTIDs where there are any."""

    file: str
    position: int
    gtids: str = ""


def _file_number(file: str) -> int:
    found = re.search(r"\.(\d+)$", file)
    return int(found[1]) if found else 0


@dataclass(frozen=True, slots=True)
class Position:
    """In front of a transaction, and behind so many of its events, and rows of the next event.

    Servers send a transaction's events in the same order each time; what a transaction has done before `event` and `row` was
    told, and is passed over.
    """

    file: str
    pos: int
    gtids: str = ""
    event: int = 0
    row: int = 0
    gtid: str = ""
    """Of the transaction, where some of it was told."""
    server: int = 0
    """The id of the server that has told it: another may have cut the transaction into other events."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """What else is kept in offsets: what signals have asked for, transactions that are prepared."""

    def offset(self, **more: Any) -> dict[str, Any]:
        """Return it as a source offset."""
        found: dict[str, Any] = {"file": self.file, "pos": self.pos}
        if self.gtids:
            found["gtids"] = self.gtids
        if self.event or self.row:
            found |= {"event": self.event, "row": self.row, "resume_gtid": self.gtid, "resume_server": self.server}
        return {**found, **self.more, **more}

    @classmethod
    def of(cls, offset: Mapping[str, Any]) -> Position:
        """Return the position of a source offset, Debezium's own too; raises ConnectError for what is none.

        Debezium counts events in its own way: the transaction that it was in comes again.
        """
        file, pos, gtids = offset.get("file"), offset.get("pos"), offset.get("gtids") or ""
        if not isinstance(file, str) or not isinstance(pos, int):
            raise ConnectError(
                f"An offset of this connector has file and pos, a text and a number: {dict(offset)} has not"
            )
        try:
            gtid_state(str(gtids))
        except DataError as error:
            raise ConnectError(f"An offset of this connector has gtids: {error}") from error
        kept = {name: value for name, value in offset.items() if name.startswith((*KEPT, XA_PREPARED, REFUSED))}
        if "resume_gtid" not in offset:
            return cls(file, pos, str(gtids), more=kept)
        event, row = int(offset.get("event", 0)), int(offset.get("row", 0))
        gtid, server = str(offset["resume_gtid"]), int(offset.get("resume_server", 0))
        return cls(file, pos, str(gtids), event, row, gtid, server, kept)

    @property
    def start(self) -> Start:
        """Return where to begin to read."""
        return Start(self.file, self.pos, self.gtids)

    def at(self, file: str, pos: int) -> Position:
        """Return another place between transactions, with the same GTIDs behind it."""
        return Position(file, pos, self.gtids, more=self.more)

    def anew(self, file: str, pos: int) -> Position:
        """Return another place with as much told of the transaction behind it: where a server has the same one."""
        return replace(self, file=file, pos=pos)

    def keeping(self, more: Mapping[str, Any]) -> Position:
        """Return the same place with other things that are kept with it."""
        return replace(self, more=more)

    def behind(self, end: int, gtid: str) -> Position:
        """Return the place behind a transaction that ends there."""
        gtids = str(gtid_state(self.gtids or gtid).plus(gtid)) if gtid else self.gtids
        return Position(self.file, end, gtids, more=self.more)

    def within(self, event: int, row: int, gtid: str, server: int) -> Position:
        """Return the place behind a row of the transaction in front of which this is."""
        return Position(self.file, self.pos, self.gtids, event, row, gtid, server, self.more)

    def reaches(self, start: Start) -> bool:
        """Whether this is at a place, or behind it: by GTIDs where both have them."""
        if self.gtids and start.gtids:
            return gtid_state(self.gtids).holds(start.gtids)
        return (_file_number(self.file), self.pos) >= (_file_number(start.file), start.position)

    def holds(self, other: Mapping[str, Any]) -> bool:
        """Whether what stands at another place, of the schema history, was told already."""
        gtids = str(other.get("gtids") or "")
        if self.gtids and gtids:
            mine = gtid_state(self.gtids)
            if not mine.holds(gtids):
                return False
            if not gtid_state(gtids).holds(self.gtids):
                return True
        theirs = (_file_number(str(other.get("file"))), other.get("pos") or 0, other.get("event") or 0)
        return theirs <= (_file_number(self.file), self.pos, self.event)
