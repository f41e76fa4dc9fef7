"""Processors of the user's own: their contexts, stores and schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.streams.durations import Duration, milliseconds
from ottla.streams.engine.interface import Headers, Record
from ottla.streams.engine.punctuation import Schedule
from ottla.streams.engine.store_faces import face_of
from ottla.streams.engine.tables import derived_table
from ottla.streams.engine.task import Node, Process, builds
from ottla.streams.plan import operations
from ottla.streams.plan.nodes import ProcessorNode
from ottla.streams.processor_api import ProcessRecord, PunctuationType, RecordMetadata

__all__ = ["Context"]


class Context:
    """A `ProcessorContext` of one processor in one task."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._task = node.task
        self._faces: dict[str, Any] = {}
        self._schedules = 0
        self._punctuating = False
        self.timestamp = -1
        """Of the record, or the schedule's call, that is being processed."""

    @property
    def application_id(self) -> str:
        """The application's `application.id`."""
        return self._task.application_id

    @property
    def partition(self) -> int:
        """The partition that this processor works on."""
        return self._task.number

    def forward(self, record: ProcessRecord[Any, Any], child: str | None = None) -> None:
        """Hand a record to all children, or to one by its name."""
        process = self._node.forward if child is None else self._node.forward_to(child)
        process(*record)

    def get_state_store(self, name: str) -> Any:
        """Return a store that the step was given; raises KeyError for any other."""
        found = self._faces.get(name)
        if found is None:
            node = self._task.topology.nodes[self._node.name]
            given = node.stores if isinstance(node, ProcessorNode) else ()
            if name not in given and not self._is_global(name):
                raise KeyError(f"{self._node.name} has no store {name!r}; it was given {sorted(given)}")
            found = self._faces[name] = face_of(self._node.store(name), lambda: self.timestamp)
        return found

    def _is_global(self, name: str) -> bool:
        spec = self._task.topology.stores.get(name)
        return spec is not None and spec.is_global

    def schedule(self, interval: Duration, kind: PunctuationType, call: Callable[[int], None]) -> Schedule:
        """Have `call(time)` called each interval; raises ValueError for an interval below one millisecond."""
        interval_ms = milliseconds(interval, f"{self._node.name}: a schedule's interval")
        if interval_ms < 1:
            raise ValueError(f"{self._node.name}: a schedule's interval is {interval_ms} ms, expected at least 1")
        name = f"schedule {self._schedules}"
        self._schedules += 1
        schedule = Schedule(interval_ms, self._punctuator(call), self._node.memory, name)
        by_stream = kind is PunctuationType.STREAM_TIME
        first = 0 if by_stream else self._task.wall_clock_ms + interval_ms
        self._node.memory.setdefault(name, first)
        (self._task.stream_schedules if by_stream else self._task.clock_schedules).add(schedule)
        return schedule

    def _punctuator(self, call: Callable[[int], None]) -> Callable[[int], None]:
        def punctuate(now_ms: int) -> None:
            task, before = self._task, (self.timestamp, self._task.record)
            self.timestamp, self._punctuating = now_ms, True
            task.record = Record(None, None, now_ms)
            try:
                call(now_ms)
            finally:
                (self.timestamp, task.record), self._punctuating = before, False

        return punctuate

    def commit(self) -> None:
        """Nothing to do: every batch ends with a commit."""

    def record_metadata(self) -> RecordMetadata | None:
        """Return where the current record came from; None in a schedule's call."""
        record = self._task.record
        return None if self._punctuating else RecordMetadata(record.topic, record.partition, record.offset)

    @property
    def headers(self) -> Headers:
        """The headers of the record that came in last."""
        return self._task.record.headers

    def task_timestamp(self) -> int:
        """Return the timestamp of the record that came in last."""
        return self._task.record.timestamp

    def current_stream_time_ms(self) -> int:
        """Return the latest timestamp that the partition has had."""
        return self._task.stream_time

    def current_system_time_ms(self) -> int:
        """Return the clock's time, as it was told last."""
        return self._task.wall_clock_ms


class _FixedKeyContext(Context):
    """The context of `process_values`: what is forwarded has the key of what came in."""

    key: Any = None

    def forward(self, record: ProcessRecord[Any, Any], child: str | None = None) -> None:
        """Hand a record to the children; raises ValueError for another key."""
        if record.key is not self.key and record.key != self.key and not self._punctuating:
            raise ValueError(
                f"{self._node.name}: process_values forwards under the record's own key, not {record.key!r}"
            )
        super().forward(record, child)


@builds(operations.TableProcess)
def _table_process(node: Node) -> Process:
    """KTableTransformValues: a transformer of a table's values, called for deletions too; it forwards nothing itself."""
    transformer = node.operation.supplier()
    context = _ForwardingDisabled(node)
    node.task.starts.append(lambda: transformer.init(context) if hasattr(transformer, "init") else None)
    return derived_table(node, _timed(context, transformer.transform))


def _timed(context: Context, transform: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def compute(key: Any, value: Any) -> Any:
        context.timestamp = context.task_timestamp()
        return transform(key, value)

    return compute


class _ForwardingDisabled(Context):
    """The context of a transformer of values."""

    def forward(self, record: ProcessRecord[Any, Any], child: str | None = None) -> None:
        """Refuse: what `transform` returns is forwarded."""
        raise RuntimeError(f"{self._node.name}: a transformer of a table's values cannot forward")


@builds(operations.Process)
def _process(node: Node) -> Process:
    """Process, process_values: the supplier's processor."""
    processor = node.operation.supplier()
    context = _FixedKeyContext(node) if node.operation.fixed_key else Context(node)
    node.task.starts.append(lambda: processor.init(context) if hasattr(processor, "init") else None)
    take = processor.process

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        before = context.timestamp
        context.timestamp = timestamp
        take(ProcessRecord(key, value, timestamp, headers))
        context.timestamp = before

    def process_fixed(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        context.key = key  # type: ignore[attr-defined]
        process(key, value, timestamp, headers)

    return process_fixed if node.operation.fixed_key else process
