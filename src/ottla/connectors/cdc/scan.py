"""Tables read whole, one behind the other: their rows marked as Debezium marks them, counted, and told of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, Protocol, TypeVar

from ottla.connect import SourceRecord
from ottla.connectors.cdc.catalog import TableId
from ottla.connectors.cdc.metrics import CaptureMetrics
from ottla.connectors.cdc.notifications import INITIAL, Notifications

__all__ = ["Scan", "scanned"]

_SOURCE: Final = 2
_SNAPSHOT: Final = 4
"""Where `source` is in an envelope, and `snapshot` in that."""


class _Named(Protocol):
    @property
    def id(self) -> TableId: ...


T = TypeVar("T", bound=_Named)


def scanned(
    tables: Sequence[T],
    rows: Callable[[T], Iterator[SourceRecord]],
    metrics: CaptureMetrics,
    notifications: Notifications,
) -> Iterator[SourceRecord]:
    """Yield each row's record, the first and the last of a table and of all marked as such; `rows` reads a table."""
    metrics.snapshot_began(len(tables))
    tell, names = notifications.tell, [str(each.id) for each in tables]
    tell(INITIAL, "STARTED")
    tell(INITIAL, "DATA_COLLECTIONS_RESOLVED", tables=names)
    waiting: SourceRecord | None = None
    for table in tables:
        tell(INITIAL, "IN_PROGRESS", tables=names, current_collection_in_progress=table.id)
        is_first, count = True, 0
        for record in rows(table):
            if waiting is not None:
                yield waiting
                mark = "first_in_data_collection" if is_first else "true"
            else:
                mark = "first"
            _mark(record, mark)
            waiting, is_first, count = record, False, count + 1
            metrics.read(str(table.id))
        metrics.table_done()
        done: dict[str, Any] = {"scanned_collection": table.id, "total_rows_scanned": count, "status": "SUCCEEDED"}
        tell(INITIAL, "TABLE_SCAN_COMPLETED", tables=names, **done)
        if waiting is not None and not is_first and waiting.value["source"]["snapshot"] != "first":
            _mark(waiting, "last_in_data_collection")
    if waiting is not None:
        _mark(waiting, "last")
        yield waiting


class Scan:
    """Records that are taken some at a time, of which is known at once whether they were the last."""

    def __init__(self, records: Iterator[SourceRecord]) -> None:
        self._records = records
        self._next: SourceRecord | None = None
        self.is_over = False

    def take(self, most: int) -> list[SourceRecord]:
        """Return so many at most, and see whether there are more; raises what reading raises."""
        found = [] if self._next is None else [self._next]
        found += islice(self._records, most - len(found))
        self._next = next(self._records, None)
        self.is_over = self._next is None
        return found


def _mark(record: SourceRecord, mark: str) -> None:
    record.value.values[_SOURCE].values[_SNAPSHOT] = mark
