"""What is known while the binlog is read: the transaction under way, tables that are readable, statements in parts."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from ottla.connectors.cdc.events import TableEvents, Transaction
from ottla.connectors.cdc.mysql.binlog import BinlogEvent, Mapped
from ottla.connectors.cdc.mysql.ddl import Effect
from ottla.connectors.cdc.mysql.prepared import Held, Unsettled
from ottla.connectors.cdc.mysql.rows import RowFormat
from ottla.connectors.cdc.mysql.server import quoted
from ottla.connectors.cdc.mysql.shapes import is_over

__all__ = ["OpenTransaction", "Readable", "Replay", "as_of_now", "parts_of"]


@dataclass(slots=True)
class OpenTransaction:
    """A transaction under way."""

    gtid: str
    is_open: bool
    """Whether an end of its own follows."""
    events: int = 0
    """That have come, but for statements that are told beside rows: whether those come is a setting."""
    told: tuple[int, int] = (0, 0)
    """Behind which event and row it is not told yet."""
    query: str | None = None
    thread: int | None = None
    block: Transaction | None = None
    held: Held | None = None
    """Of an XA transaction, whose rows are told once it is committed."""
    made_by: str | None = None
    """The GTID of the XA transaction that this one commits."""
    is_foreign: bool = False
    """Whether it is of a source whose rows are not told."""

    @property
    def source_gtid(self) -> str:
        """Return the GTID under which its rows stand in the binlog."""
        return self.gtid if self.made_by is None else self.made_by


@dataclass(slots=True)
class Replay:
    """An XA transaction that is committed: its rows are told, and then the event that commits it is taken to its end."""

    end: BinlogEvent
    xid: str
    found: Unsettled
    events: deque[BinlogEvent]
    outer: tuple[str, dict[int, Mapped]]
    """The file that is read, and its tables' numbers, for afterwards."""
    is_found: bool = False
    """Whether it has begun, of one that is read once more."""


@dataclass(frozen=True, slots=True)
class Readable:
    """A table whose rows are read, and become records."""

    table: TableEvents
    format: RowFormat
    width: int
    """How many columns it has; a row of the binlog may have those of its time behind them."""
    row_end: int | None
    """Which column says until when a row has been, of a system-versioned table."""


def as_of_now(op: str, before: Any, after: Any, end: int) -> tuple[str, Any] | None:
    """Return what a change of a system-versioned table is to who sees its rows of now; None where it is nothing."""
    if op != "u":
        return None if is_over(after[end]) else (op, after)
    if is_over(before[end]):
        return None if is_over(after[end]) else ("c", after)
    return ("d", before) if is_over(after[end]) else ("u", after)


def parts_of(text: str, effect: Effect) -> list[tuple[str, Effect]]:
    """Return a statement as it is told: one that drops tables is one for each, as Debezium writes them."""
    if not effect.changes or any(each.kind != "DROP" for each in effect.changes):
        return [(text, effect)]
    return [
        (f"DROP TABLE {quoted(each.id.schema)}.{quoted(each.id.table)}", Effect(each.id.schema, (each,)))
        for each in effect.changes
    ]
