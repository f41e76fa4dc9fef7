"""Runs a case's topology by the engine: one task with everything, internal topics with one partition, as Java's driver does.

Each input is a batch of its own, or `batch` of them are; what comes out for a topic that the topology reads goes in again
before the next input, by smallest timestamp first.
"""

from __future__ import annotations

from typing import Any

from ottla.streams import SourceNode, Topology, standby_nodes
from ottla.streams.engine.executor import Executor
from ottla.streams.engine.interface import EngineSettings, Output, Record, StoreChange
from ottla.streams.engine.resident import ResidentState, kept_memory, memory_over

__all__ = ["Backend", "Driver"]

APPLICATION = "app"


class Backend(dict[str, bytes]):
    """State in a dictionary."""

    def put(self, blob: str, data: bytes | None) -> None:
        """Set or remove a blob."""
        if data is None:
            self.pop(blob, None)
        else:
            self[blob] = data


class Driver:
    """A topology that runs; `outputs` has the records of each topic, `changelogs` the latest value of each key."""

    def __init__(
        self, topology: Topology, *, cache: bool = False, settle: bool = False, resident: str | None = None
    ) -> None:
        """With `settle` every batch has an executor of its own, so that all state goes through blobs.

        With `resident` state stays decoded: `kept`, or `restored` anew before every batch from what the batches before
        have left in changelogs and beside their offsets; `saved` the same over what every third batch has saved,
        `standby` with every third batch over what a standby has followed.
        """
        self.topology, self.cache, self.settle, self.resident = topology, cache, settle, resident
        self._log: list[StoreChange] = []
        self._global: list[Record] = []
        self._saved: tuple[dict[str, bytes], int, int] = {}, 0, 0
        self._batches = 0
        self._standby_state = ResidentState()
        self._standby: Executor | None = None
        self.outputs: dict[str, list[list[Any]]] = {}
        self.changelogs: dict[str, dict[str, str | None]] = {}
        self.dropped = 0
        self._backend: Backend | ResidentState = Backend() if resident is None else ResidentState()
        self._sources = _sources(topology)
        self._offsets: dict[str, int] = {}
        self._waiting = _Waiting()
        self._now = 0
        self._executor = self._new_executor()
        if resident == "standby":
            self._standby = self._new_executor(self._standby_state, is_standby=True)

    def _new_executor(self, backend: ResidentState | None = None, *, is_standby: bool = False) -> Executor:
        nodes = self.topology.nodes
        return Executor(
            self.topology,
            standby_nodes(self.topology, nodes) if is_standby else frozenset(nodes),
            self._backend if backend is None else backend,
            task=0,
            settings=EngineSettings(cache=self.cache, block_entries=4),
            application_id=APPLICATION,
            wall_clock_ms=self._now,
        )

    def pipe(self, record: Record) -> None:
        """Have a record enter; nothing leaves before `finish`."""
        offset = self._offsets.get(record.topic, 0)
        self._offsets[record.topic] = offset + 1
        source = self._sources[record.topic]
        self._executor.process(source, [record._replace(offset=offset)])
        node = self.topology.nodes[source]
        if isinstance(node, SourceNode) and node.is_global:
            self._global.append(record._replace(offset=offset))

    def advance(self, milliseconds: int) -> None:
        """Advance the wall clock."""
        self._now += milliseconds
        self._executor.advance_wall_clock(self._now)

    def finish(self) -> None:
        """End the batch, and those that follow because of what it wrote to internal topics."""
        self._end()
        while (record := self._waiting.pop()) is not None:
            self.pipe(record)
            self._end()

    def _end(self) -> None:
        outputs, changes, progress = self._executor.finish_batch()
        self.dropped += progress.dropped_late + progress.dropped_null_key + progress.skipped_poison
        for output in outputs:
            self._take(output)
        for change in changes:
            log = self.changelogs.setdefault(f"{APPLICATION}-{change.store}-changelog", {})
            log[_text(change.key) or ""] = _text(change.value)
        self._log += changes
        if self.settle:
            self._executor = self._new_executor()
        self._batches += 1
        if self.resident == "saved" and self._batches % 3 == 0:
            assert isinstance(self._backend, ResidentState)
            self._saved = self._backend.saved(), len(self._log), len(self._global)
        if self._standby is not None:
            self._follow(self._standby, changes)
        if self.resident in ("restored", "saved"):
            self._restore()

    def _follow(self, standby: Executor, changes: list[StoreChange]) -> None:
        """Have the standby follow, and sometimes the work go on where it is."""
        assert isinstance(self._backend, ResidentState)
        standby.restore(changes)
        standby.finish_batch()
        if self._batches % 3 == 1 and (memory := self._backend.memory) is not None:
            standby.told(kept_memory(memory))
        if self._batches % 3 == 0:
            self._saved = self._standby_state.saved(), len(self._log), 0
            self._restore()
            self._standby_state = ResidentState(None, self._saved[0])
            self._standby = self._new_executor(self._standby_state, is_standby=True)

    def _restore(self) -> None:
        assert isinstance(self._backend, ResidentState)
        memory = self._backend.memory
        kept = None if memory is None else kept_memory(memory)
        blobs, changes, records = self._saved
        self._backend = ResidentState(memory_over(blobs, kept), blobs)
        self._executor = self._new_executor()
        self._executor.forget_told()
        self._executor.restore(self._log[changes:])
        for record in self._global[records:]:
            self._executor.process(self._sources[record.topic], [record])
        self._executor.finish_batch()

    def _take(self, output: Output) -> None:
        row: list[Any] = [_text(output.key), _text(output.value), output.timestamp]
        if output.headers:
            row.append([[name, _text(data)] for name, data in output.headers])
        self.outputs.setdefault(output.topic, []).append(row)
        if output.topic in self._sources:
            record = Record(output.key, output.value, output.timestamp, output.headers, output.topic)
            self._waiting.push(record)


class _Waiting:
    """Records by topic; the topic whose next record has the smallest timestamp is first.

    Which goes first of equal ones follows from the heap of java.util.PriorityQueue that Kafka's PartitionGroup uses.
    """

    def __init__(self) -> None:
        self._records: dict[str, list[Record]] = {}
        self._heap: list[str] = []

    def _time(self, topic: str) -> int:
        return self._records[topic][0].timestamp

    def push(self, record: Record) -> None:
        """Put a record behind those of its topic."""
        queue = self._records.setdefault(record.topic, [])
        queue.append(record)
        if len(queue) == 1:
            self._offer(record.topic)

    def pop(self) -> Record | None:
        """Take the next record, or None."""
        if not self._heap:
            return None
        topic = self._poll()
        record = self._records[topic].pop(0)
        if self._records[topic]:
            self._offer(topic)
        return record

    def _offer(self, topic: str) -> None:
        heap = self._heap
        heap.append(topic)
        at = len(heap) - 1
        while at > 0 and self._time(topic) < self._time(heap[(at - 1) // 2]):
            heap[at] = heap[(at - 1) // 2]
            at = (at - 1) // 2
        heap[at] = topic

    def _poll(self) -> str:
        heap = self._heap
        first, last = heap[0], heap.pop()
        if heap:
            at = 0
            while (child := 2 * at + 1) < len(heap):
                if child + 1 < len(heap) and self._time(heap[child]) > self._time(heap[child + 1]):
                    child += 1
                if self._time(last) <= self._time(heap[child]):
                    break
                heap[at] = heap[child]
                at = child
            heap[at] = last
        return first


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("latin-1")


def _sources(topology: Topology) -> dict[str, str]:
    """Return the source of each topic, by the topic's full name."""
    found = {}
    for node in topology.nodes.values():
        if isinstance(node, SourceNode):
            for topic in node.topics:
                found[f"{APPLICATION}-{topic}" if topic in topology.repartition_topics else topic] = node.name
    return found
