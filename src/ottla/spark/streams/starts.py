"""Starts streaming queries so that a small machine keeps up with them.

Spark starts a Python process for each source of a query while the query initialises, and gives it ten seconds to connect
(`PythonWorkerFactory.createSimpleWorker`, not a setting). Many queries that start at once share the processors, and on two
of them a dozen sources were later than that: the query failed with CANNOT_OPEN_SOCKET. On a machine with much other work a
single one may be too late, so that such a failure is worth another start.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = ["STARTS_MAX", "QueryStarts", "worker_was_late"]

INITIALISING = "Initializing"
"""How Spark's status of a query begins until its sources are made (`StreamExecution`, `MicroBatchExecution`)."""
LOOK_SECONDS = 0.02
PATIENCE_SECONDS = 120.0
"""How long a query waits for others; then it starts beside them."""
STARTS_MAX = 5
"""How often a query is started whose Python processes are too late each time."""
LATE = ("CANNOT_OPEN_SOCKET", "Python worker failed to connect back")


def worker_was_late(error: BaseException) -> bool:
    """Return whether a query has failed because a Python process took longer to connect than Spark waits.

    It does so before the query reads: its batch has done nothing, and may be begun again.
    """
    return any(text in str(error) for text in LATE)


class QueryStarts:
    """Starts queries, as many at a time as there are processors to make their sources."""

    def __init__(self, at_once: int | None = None) -> None:
        self._at_once = at_once or os.cpu_count() or 1
        self._initialising: list[StreamingQuery] = []

    def start(self, writer: DataStreamWriter) -> StreamingQuery:
        """Start a query once fewer than `at_once` of the earlier ones are still making their sources."""
        until = time.monotonic() + PATIENCE_SECONDS
        while self._still_initialising() >= self._at_once and time.monotonic() < until:
            time.sleep(LOOK_SECONDS)
        query = writer.start()
        self._initialising.append(query)
        return query

    def _still_initialising(self) -> int:
        self._initialising = [
            each for each in self._initialising if each.isActive and each.status["message"].startswith(INITIALISING)
        ]
        return len(self._initialising)
