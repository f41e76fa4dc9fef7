"""A topology on the continuous engine without hosts and without a broker: what `TopologyTestDriver` runs there.

Every sub-topology is one task; topics have one partition each. What one task writes the next reads, until none has anything
to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.spark.continuous.plan import GroupPlan, application_plan
from ottla.spark.source.local_topics import LocalRecord, LocalTopics
from ottla.streams import (
    ChangeColumns,
    Executor,
    OutputColumns,
    PartitionPlan,
    Record,
    ResidentState,
    StreamsSettings,
    Topology,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["LocalRun"]


class _Task:
    """A sub-topology's task, and how far it has read its topics."""

    def __init__(self, group: GroupPlan, executor: Executor) -> None:
        self.group, self.executor = group, executor
        self._read = dict.fromkeys([*group.global_topics, *group.topics], 0)

    def take(self, topics: Mapping[str, str], records: Mapping[str, Sequence[LocalRecord]]) -> dict[str, list[Record]]:
        """Take what is new in topics, by source."""
        found: dict[str, list[Record]] = {}
        for topic, source in topics.items():
            first, all_of_it = self._read[topic], records.get(topic, ())
            self._read[topic] = len(all_of_it)
            new = enumerate(all_of_it[first:], first)
            rows = [
                Record(each.key, each.value, each.timestamp, each.headers, topic, 0, offset) for offset, each in new
            ]
            if rows:
                found.setdefault(source, []).extend(rows)
        return found


class LocalRun:
    """See the module's description."""

    def __init__(
        self,
        topology: Topology,
        settings: StreamsSettings,
        partitions: PartitionPlan,
        topics: LocalTopics,
        wall_clock_ms: int,
    ) -> None:
        """Raises Refused for a column expression that only Spark evaluates, TypeError for a step that nobody runs here."""
        plan = application_plan(topology, settings, partitions, topics.partition_counts())
        self._topics, self._clock_ms = topics, wall_clock_ms
        self._tasks = [
            _Task(
                each,
                Executor(
                    plan.topology,
                    each.group.nodes,
                    ResidentState(),
                    task=0,
                    settings=plan.engine,
                    application_id=plan.application_id,
                    wall_clock_ms=wall_clock_ms,
                ),
            )
            for each in plan.groups
        ]

    def process(self, piped: Mapping[str, Sequence[LocalRecord]], wall_clock_ms: int) -> None:
        """Add records to topics and process all there is, then let the wall clock go on. Raises ProcessingError."""
        for topic, records in piped.items():
            self._topics.append(topic, records)
        self._settle()
        if wall_clock_ms != self._clock_ms:
            self._clock_ms = wall_clock_ms
            for each in self._tasks:
                each.executor.advance_wall_clock(wall_clock_ms)
                self._finish(each)
            self._settle()

    def close(self) -> None:
        """End."""

    def _settle(self) -> None:
        size = -1
        while size != self._topics.size:
            size = self._topics.size
            for each in self._tasks:
                self._turn(each)

    def _turn(self, task: _Task) -> None:
        records = self._topics.records
        for source, found in task.take(task.group.global_topics, records).items():
            task.executor.process(source, found)
        entries = task.take(task.group.topics, records)
        if entries:
            task.executor.process_merged(entries)
        self._finish(task)

    def _finish(self, task: _Task) -> None:
        outputs, changes, _ = task.executor.finish_batch()
        told: dict[str, list[LocalRecord]] = {}
        for output in _each(outputs):
            local = LocalRecord(output.key, output.value, max(output.timestamp, 0), output.headers)
            told.setdefault(output.topic, []).append(local)
        for change in _each(changes):
            changelog = task.group.changelogs.get(change.store)
            if changelog is not None:
                local = LocalRecord(change.key, change.value, max(change.timestamp, 0), change.headers)
                told.setdefault(changelog, []).append(local)
        for topic, records in told.items():
            self._topics.append(topic, records)


def _each(made: Iterable[object]) -> Iterable:  # type: ignore[type-arg]
    for each in made:
        if isinstance(each, OutputColumns):
            yield from each.outputs()
        elif isinstance(each, ChangeColumns):
            yield from each.changes()
        else:
            yield each
