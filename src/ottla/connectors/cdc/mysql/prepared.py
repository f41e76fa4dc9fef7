"""XA transactions that are prepared: nobody knows yet whether what they have done is so. Pure.

Their rows stand in the binlog where they were prepared; what becomes of them, anywhere behind it, in a statement. Small ones
are kept in memory until then, of all it is known where they begin, as a part of source offsets: one that is committed when
its rows are not in memory is read from the binlog once more.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.connectors.cdc.mysql.binlog import BinlogEvent, Rows
from ottla.connectors.cdc.mysql.positions import XA_PREPARED, Start

__all__ = ["HELD_BYTES_MAX", "Held", "Prepared", "Unsettled", "xid_of"]

log = logging.getLogger(__name__)
HELD_BYTES_MAX: Final = 32 << 20
"""Of transactions that are prepared and kept in memory, all of them together."""
_XID: Final = re.compile(
    r"XA\s+(?:START|BEGIN|END|PREPARE|COMMIT|ROLLBACK)\s+(.*?)(?:\s+ONE\s+PHASE)?\s*;?$", re.I | re.S
)


def xid_of(statement: str) -> str:
    """Return the name of a transaction in a statement about it, in one form; '' where there is none."""
    found = _XID.match(statement.strip())
    return re.sub(r"\s+", "", found[1]).lower() if found else ""


@dataclass(slots=True)
class Held:
    """A transaction under way that may be prepared at its end: its events, as long as they are few."""

    xid: str = ""
    events: list[BinlogEvent] | None = field(default_factory=list)
    """None where they are too large to be kept."""
    bytes: int = 0

    def take(self, event: BinlogEvent, *, most: int) -> None:
        """Keep an event; `most` bytes at most."""
        self.bytes += max(event.size, len(event.body)) if isinstance(event, Rows) else event.size
        if self.bytes > most:
            self.events = None
        elif self.events is not None:
            self.events.append(event)


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A transaction that is prepared: where it begins, its GTID, its events where they are kept."""

    start: Start
    gtid: str = ""
    file: str = ""
    """The file that it stands in."""
    events: Sequence[BinlogEvent] | None = None
    bytes: int = 0
    thread: int | None = None
    """Of the session that has made it, where the binlog says it in front of its rows."""


class Prepared:
    """All of them, by name."""

    def __init__(self, offset: Mapping[str, Any] | None = None) -> None:
        """Take those of a source offset, where there is one."""
        self._all: dict[str, Unsettled] = {}
        self._kept: dict[str, Any] = {}
        self.restore(offset or {})

    def restore(self, offset: Mapping[str, Any]) -> None:
        """Take those of a source offset, unless they are known already."""
        listed = offset.get(XA_PREPARED)
        if listed == self._kept.get(XA_PREPARED):
            return
        try:
            self._all = {
                str(xid): Unsettled(Start(str(file), int(pos), str(gtids)), str(gtid), str(file))
                for xid, (file, pos, gtids, gtid) in json.loads(listed or "{}").items()
            }
        except (ValueError, TypeError, AttributeError, RecursionError):
            log.warning(
                "What the offset says of prepared transactions cannot be understood, and is forgotten: %s", listed
            )
            self._all = {}
        self._note()

    def kept(self) -> dict[str, Any]:
        """Return them as a part of a source offset; nothing where there are none."""
        return self._kept

    @property
    def starts(self) -> Sequence[Start]:
        """Return where they begin."""
        return [each.start for each in self._all.values()]

    @property
    def room(self) -> int:
        """Return how many more bytes may be kept in memory."""
        return max(0, HELD_BYTES_MAX - sum(each.bytes for each in self._all.values()))

    def add(self, xid: str, found: Unsettled) -> None:
        """Note one that is prepared."""
        self._all[xid] = found
        self._note()

    def get(self, xid: str) -> Unsettled | None:
        """Return one by its name, None where it is not known."""
        return self._all.get(xid)

    def settled(self, xid: str) -> None:
        """Forget one that was committed or rolled back."""
        if self._all.pop(xid, None) is not None:
            self._note()

    def _note(self) -> None:
        listed = {
            xid: [each.start.file, each.start.position, each.start.gtids, each.gtid] for xid, each in self._all.items()
        }
        self._kept = {XA_PREPARED: json.dumps(listed)} if listed else {}
