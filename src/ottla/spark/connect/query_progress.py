"""What a sink that is a streaming query tells of its progress; see `ottla.connect.decisions.Progress`.

Batches are written by a thread of Spark's, which notes what it has done; the watching thread tells.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ottla.base import KafkaError, Offset, TopicPartition
from ottla.client import LATEST, BlockingClient, Isolation
from ottla.connect import decisions
from ottla.connect.tasks.progress import TaskProgress, sink_positions, waiting_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["QueryProgress", "query_mark"]

TELL_SECONDS = 1.0
LOOK_SECONDS = 10.0
"""Between two questions where topics end."""


class QueryProgress:
    """Of one task."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._progress = TaskProgress(now)
        self._ends: dict[TopicPartition, Offset] = {}
        self._tell_at = self._look_at = 0.0
        self._told = 0
        self.records = 0
        """Records of batches that are written."""
        self.trouble: str | None = None
        """Why a batch is tried again."""

    @property
    def is_due(self) -> bool:
        """Whether it is to be told again."""
        return self._now() >= self._tell_at

    @property
    def looks(self) -> bool:
        """Whether it is to be asked where topics end."""
        return self._now() >= self._look_at

    def began(self) -> None:
        """Note that the query runs from now on: what was before does not count."""
        self._progress.resumed()
        self._tell_at = self._look_at = 0.0

    def look(self, client: BlockingClient, positions: Mapping[TopicPartition, Offset], isolation: Isolation) -> None:
        """Ask where topics end."""
        self._look_at = self._now() + LOOK_SECONDS
        try:
            found = client.list_offsets(dict.fromkeys(positions, LATEST), isolation=isolation)
        except KafkaError as error:
            self._progress.troubled("topics", error)
            return
        self._progress.well("topics")
        self._ends = {each: end.offset for each, end in found.items()}

    def told(
        self,
        positions: Mapping[TopicPartition, Offset],
        committed: Mapping[TopicPartition, Offset],
        *,
        is_active: bool,
        mark: object,
    ) -> decisions.Progress:
        """Return what is to be told now; `mark` changes as a batch goes on.

        Between two batches records may wait as they should: for the next interval, or until a file is full.
        """
        self._tell_at = self._now() + TELL_SECONDS
        self._progress.is_so("put", self.trouble)
        if (records := self.records) > self._told:
            self._progress.moved(records - self._told)
            self._told = records
        return self._progress.told(
            waiting_records(positions, self._ends),
            mark=(sum(positions.values()), mark if is_active else self._now()),
            position=sink_positions(committed),
        )


def query_mark(spark: SparkSession, query: StreamingQuery) -> tuple[bool, int]:
    """Return whether a batch is under way, and how many tasks of its jobs have ended: that changes as it goes on."""
    if not query.status["isTriggerActive"]:
        return False, 0
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(each) for each in tracker.getJobIdsForGroup(str(query.runId))]
    stages = [tracker.getStageInfo(each) for job in jobs if job is not None for each in job.stageIds]
    return True, sum(each.numCompletedTasks for each in stages if each is not None)
