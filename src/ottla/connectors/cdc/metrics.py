"""What a captured database's task measures, under Debezium's names, as Debezium's rules for the JMX exporter write them.

`debezium.postgres:type=connector-metrics,context=streaming,server=PREFIX` is `debezium_metrics_…{plugin,name,context}`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ottla.connect import Measure

__all__ = ["CaptureMetrics"]

PREFIX = "debezium_metrics_"
NOT_YET = -1.0
EVENTS = {"c": "Create", "u": "Update", "d": "Delete"}


class CaptureMetrics:
    """Of one task: of its stream, and of its last snapshot."""

    def __init__(
        self, server: str, now_ms: Callable[[], float] = lambda: time.time() * 1000, *, plugin: str = "postgres"
    ) -> None:
        self._server, self._now_ms, self._plugin = server, now_ms, plugin
        self.is_connected = False
        self.committed = 0
        """Transactions of which the end was seen."""
        self._seen = dict.fromkeys((*EVENTS, "other"), 0)
        self._filtered = 0
        self._behind_ms = NOT_YET
        self._last_ms: float | None = None
        self._tables = self._tables_left = 0
        self._rows: dict[str, int] = {}
        self._is_running = self._is_completed = self._is_aborted = False
        self._began_ms: float | None = None
        self._ended_ms: float | None = None

    # -- the stream

    def changed(self, operation: str, commit_us: int | None, count: int = 1) -> None:
        """Count changes of the stream that became records: `c`, `u`, `d`, or another; `commit_us` is when they were made."""
        self._seen[operation if operation in EVENTS else "other"] += count
        self._last_ms = self._now_ms()
        if commit_us is not None:
            self._behind_ms = max(0.0, self._last_ms - commit_us / 1000)

    def filtered(self) -> None:
        """Count a change that is not captured."""
        self._filtered += 1

    # -- the snapshot

    def snapshot_began(self, tables: int) -> None:
        """Note that tables are read from now on."""
        self._tables = self._tables_left = tables
        self._rows, self._began_ms, self._ended_ms = {}, self._now_ms(), None
        self._is_running, self._is_completed, self._is_aborted = True, False, False

    def read(self, table: str, count: int = 1) -> None:
        """Count rows that were read."""
        self._rows[table] = self._rows.get(table, 0) + count

    def table_done(self) -> None:
        """Note that a table was read whole."""
        self._tables_left = max(0, self._tables_left - 1)

    def snapshot_ended(self, *, aborted: bool = False) -> None:
        """Note that the snapshot is over."""
        self._ended_ms = self._now_ms()
        self._is_running, self._is_completed, self._is_aborted = False, not aborted, aborted

    # -- what is shown

    def progress(self) -> dict[str, Any]:
        """Return how far a snapshot is that runs, and when the last change was read: no more than when one has been."""
        found: dict[str, Any] = {}
        if self._is_running:
            rows = sum(self._rows.values())
            found["snapshot"] = {"tables": self._tables, "tables_left": self._tables_left, "rows": rows}
        if self._last_ms is not None:
            found |= {"last_change_at_ms": int(self._last_ms), "last_change_behind_ms": int(self._behind_ms)}
        return found

    def measures(self) -> list[Measure]:
        """Return them as the worker shows them."""
        found = [self._measure("streaming", self._streaming()), self._measure("snapshot", self._snapshot())]
        return found + [
            self._measure("snapshot", {"RowsScanned": rows}, table=name) for name, rows in self._rows.items()
        ]

    def _measure(self, context: str, values: dict[str, float], **more: str) -> Measure:
        labels = {"plugin": self._plugin, "name": self._server, "context": context, **more}
        return Measure(f"debezium.{self._plugin}", "connector-metrics", labels, values, PREFIX)

    def _streaming(self) -> dict[str, float]:
        since_ms = NOT_YET if self._last_ms is None else self._now_ms() - self._last_ms
        return {
            "Connected": float(self.is_connected),
            "MilliSecondsBehindSource": self._behind_ms,
            "MilliSecondsSinceLastEvent": since_ms,
            "NumberOfCommittedTransactions": self.committed,
            "NumberOfEventsFiltered": self._filtered,
            "TotalNumberOfEventsSeen": sum(self._seen.values()),
            **{f"TotalNumberOf{name}EventsSeen": self._seen[each] for each, name in EVENTS.items()},
        }

    def _snapshot(self) -> dict[str, float]:
        end_ms = self._now_ms() if self._ended_ms is None else self._ended_ms
        return {
            "SnapshotRunning": float(self._is_running),
            "SnapshotCompleted": float(self._is_completed),
            "SnapshotAborted": float(self._is_aborted),
            "SnapshotDurationInSeconds": 0.0 if self._began_ms is None else (end_ms - self._began_ms) / 1000,
            "TotalTableCount": self._tables,
            "RemainingTableCount": self._tables_left,
        }
