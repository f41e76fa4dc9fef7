"""What a sink task may ask: the worker's answers to seek, pause, timeouts, commits and records that cannot be stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ottla.base import TopicPartition
from ottla.connect import ConnectError, ErrantRecordReporter, SinkRecord, error_policy
from ottla.connect.tasks.error_handler import ErrorHandler
from ottla.connect.tasks.fetcher import Fetcher
from ottla.connect.tasks.pipeline import RawRecord

__all__ = ["ErrantRecords", "SinkContext"]

Origin = tuple[str | None, int | None, int | None]

SINK_TASK = "org.apache.kafka.connect.sink.SinkTask"


class SinkContext:
    """A task's `SinkTaskContext`; the loop reads what was asked from its fields."""

    def __init__(self, configs: Mapping[str, str], fetcher: Fetcher) -> None:
        self._configs, self._fetcher = configs, fetcher
        self.errant_records: ErrantRecordReporter | None = None
        """See `SinkTaskContext`."""
        self.reported: set[Origin] = set()
        """The records that were reported since the last ones were taken: put again, they make no second dead letter."""
        self.partitions: frozenset[TopicPartition] = frozenset()
        self.sought: dict[TopicPartition, int] = {}
        self.timeout_ms: int | None = None
        self.commit_requested = False
        self.paused: set[TopicPartition] = set()

    @property
    def configs(self) -> Mapping[str, str]:
        """See `SinkTaskContext`."""
        return self._configs

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """See `SinkTaskContext`."""
        return self.partitions

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """See `SinkTaskContext`."""
        self.sought.update(offsets)

    def timeout(self, ms: int) -> None:
        """See `SinkTaskContext`."""
        self.timeout_ms = ms

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """See `SinkTaskContext`; raises ConnectError for partitions that are another task's."""
        wanted = self._own(partitions, "pause")
        self.paused |= wanted
        self._fetcher.pause(wanted)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """See `SinkTaskContext`; raises ConnectError for partitions that are another task's."""
        wanted = self._own(partitions, "resume")
        self.paused -= wanted
        self._fetcher.resume(wanted)

    def _own(self, partitions: Iterable[TopicPartition], what: str) -> set[TopicPartition]:
        wanted = set(partitions)
        if not wanted <= self.partitions:
            raise ConnectError(f"SinkTasks may not {what} partitions that are not currently assigned to them.")
        return wanted

    def request_commit(self) -> None:
        """See `SinkTaskContext`."""
        self.commit_requested = True


class ErrantRecords:
    """A task's `ErrantRecordReporter`; `raw` finds the bytes that a record was made of."""

    def __init__(self, handler: ErrorHandler, raw: Callable[[SinkRecord], RawRecord], reported: set[Origin]) -> None:
        self._handler, self._raw, self._reported = handler, raw, reported

    def report(self, record: SinkRecord, error: BaseException) -> None:
        """See `ErrantRecordReporter`; a record of a `put` that is tried again is reported once."""
        origin = record.original_topic, record.original_partition, record.original_offset
        if origin in self._reported:
            return
        self._reported.add(origin)
        self._handler.fail(error, error_policy.Processing.TASK_PUT, SINK_TASK, self._raw(record))
