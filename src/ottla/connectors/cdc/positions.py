"""Where reading is: what is kept as a source offset, and which transactions a snapshot has seen already. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ottla.connect import ConnectError
from ottla.connectors.cdc.refused import REFUSED
from ottla.connectors.cdc.signals import KEPT

__all__ = ["STREAMED_MAX", "Origin", "Position", "SeenTransactions", "StreamedTransactions"]

STREAMED_MAX: Final = 10_000
"""How many transactions are noted before somebody has to look which of them are seen."""


@dataclass(frozen=True, slots=True)
class SeenTransactions:
    """Which transactions a snapshot of PostgreSQL's sees (`pg_current_snapshot`), and up to where any of them can be met."""

    text: str
    until_lsn: int

    def has(self, xid: int) -> bool:
        """Whether a transaction was committed for the snapshot; `xid` has 32 bits."""
        low, high, running = self.text.split(":")
        xmin, xmax = int(low), int(high)
        whole = (xmax & ~0xFFFFFFFF) | xid
        if whole > xmax + (1 << 31):
            whole -= 1 << 32
        elif whole < xmax - (1 << 31):
            whole += 1 << 32
        if whole >= xmax:
            return False
        return whole < xmin or str(whole) not in running.split(",")


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose log a place is in: another server's, or another timeline's, has something else at the same place."""

    system: str
    """The identifier that a cluster is given when it is made; copies have the same."""
    timeline: int
    """Counted up where a copy or a standby begins to write by itself."""


class StreamedTransactions:
    """What the stream has told of and a reader of the tables may not see yet.

    A commit is in the log, and sent, before others see it: microseconds before, or as long as a synchronous standby takes.
    Rows that are read meanwhile are older than what was told of them.
    """

    def __init__(self) -> None:
        self._xids: set[int] = set()

    def passed(self, xid: int) -> None:
        """Note a transaction; `xid` has 32 bits."""
        self._xids.add(xid)

    @property
    def are_many(self) -> bool:
        """Whether it is time to look, so that they do not become more and more."""
        return len(self._xids) >= STREAMED_MAX

    def are_seen(self, snapshot: SeenTransactions) -> bool:
        """Whether a snapshot sees all of them; those that it sees are forgotten."""
        self._xids = {each for each in self._xids if not snapshot.has(each)}
        return not self._xids


@dataclass(frozen=True, slots=True)
class Position:
    """Behind a commit, and behind so many changes of the next transaction that has any.

    The server sends whole transactions, in the order of their commits; it is told to begin behind `commit_lsn`, and sends
    the changes of that next transaction in the same order each time.
    """

    commit_lsn: int
    """The end of the last commit record that was passed."""
    changes: int = 0
    seen: SeenTransactions | None = None
    more: Mapping[str, Any] = field(default_factory=dict)
    """What else is kept in offsets: how far snapshots are that signals have asked for, and tables that are not told."""
    origin: Origin | None = None
    """None in offsets that say nothing of it: Debezium's, and older ones."""

    def offset(self, **more: Any) -> dict[str, Any]:
        """Return it as a source offset, with Debezium's names where it has them."""
        found: dict[str, Any] = {
            "lsn_commit": self.commit_lsn,
            "lsn_proc": self.commit_lsn,
            "changes": self.changes,
            **self.more,
            **more,
        }
        if self.seen is not None:
            found |= {"snapshot_seen": self.seen.text, "snapshot_until": self.seen.until_lsn}
        if self.origin is not None:
            found |= {"system_id": self.origin.system, "timeline": self.origin.timeline}
        return found

    @classmethod
    def of(cls, offset: Mapping[str, Any]) -> Position:
        """Return the position of a source offset, Debezium's own too; raises ConnectError for what is none.

        Debezium keeps no count of changes: the transaction that it was in comes again.
        """
        lsn, changes = offset.get("lsn_commit", offset.get("lsn")), offset.get("changes", 0)
        seen = offset.get("snapshot_seen")
        until = offset.get("snapshot_until", 0)
        if not isinstance(lsn, int) or not isinstance(changes, int) or not isinstance(until, int):
            raise ConnectError(f"An offset of this connector has lsn_commit, a number: {dict(offset)} has not")
        kept = {name: value for name, value in offset.items() if name.startswith((*KEPT, REFUSED))}
        system, timeline = offset.get("system_id"), offset.get("timeline")
        origin = Origin(str(system), timeline) if system is not None and isinstance(timeline, int) else None
        return cls(lsn, changes, None if seen is None else SeenTransactions(str(seen), until), kept, origin)

    def after_commit(self, end_lsn: int) -> Position:
        """Return the place behind a commit; what a snapshot has seen is forgotten where it can be met no more."""
        seen = self.seen if self.seen is not None and end_lsn < self.seen.until_lsn else None
        return replace(self, commit_lsn=max(end_lsn, self.commit_lsn), changes=0, seen=seen)

    def after_change(self) -> Position:
        """Return the place behind one more change of the transaction under way."""
        return replace(self, changes=self.changes + 1)

    def keeping(self, more: Mapping[str, Any]) -> Position:
        """Return the same place with other things that are kept with it."""
        return replace(self, more=more)
