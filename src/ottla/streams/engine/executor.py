"""The executor: any processors of a topology, for one partition, batch by batch.

    executor = Executor(topology, nodes, backend, task=0, settings=EngineSettings(), application_id="orders")
    executor.process("KSTREAM-SOURCE-0000000000", records)
    outputs, changes, progress = executor.finish_batch()

Nothing is written to the backend before `finish_batch`. After an error the executor must be thrown away: its memory holds
half a batch. An executor may be kept from batch to batch as long as nobody else wrote to its backend.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from heapq import merge
from typing import Any

import ottla.streams.engine.aggregates
import ottla.streams.engine.joins.foreign_key
import ottla.streams.engine.joins.lookups
import ottla.streams.engine.joins.streams
import ottla.streams.engine.joins.tables
import ottla.streams.engine.processors
import ottla.streams.engine.stateless
import ottla.streams.engine.suppress
import ottla.streams.engine.tables
import ottla.streams.engine.windowed  # noqa: F401  (their builders register themselves)
from ottla.streams.engine.buffers import SuppressBuffer
from ottla.streams.engine.column_records import BlockRecords
from ottla.streams.engine.edges import extractor_of, sink, source_decoder
from ottla.streams.engine.fused import direct_loop
from ottla.streams.engine.interface import EngineSettings, Output, Progress, Record, StateBackend, StoreChange
from ottla.streams.engine.joins.stores import JOIN_STORES
from ottla.streams.engine.resident import TASK_BLOB, task_memory
from ottla.streams.engine.stores import AnyStore, KeyValueStore
from ottla.streams.engine.task import BUILDERS, Node, Task
from ottla.streams.engine.task import Process as Call
from ottla.streams.engine.versioned import VersionedStore
from ottla.streams.engine.window_stores import SessionStore, WindowStore
from ottla.streams.plan.nodes import ProcessorNode, SinkNode, SourceNode
from ottla.streams.plan.operations import Process, TableProcess
from ottla.streams.plan.topology import Topology
from ottla.streams.user_code import raised_in

__all__ = ["Executor", "ProcessingError", "standby_nodes"]


class ProcessingError(Exception):
    """A record could not be processed; the cause is the error of the step."""


class Executor:
    """Some of a topology's nodes for one partition; see the module's description."""

    def __init__(
        self,
        topology: Topology,
        nodes: Collection[str],
        backend: StateBackend,
        *,
        task: int,
        settings: EngineSettings | None = None,
        application_id: str = "ottla",
        wall_clock_ms: int = 0,
    ) -> None:
        """Raises KeyError for a name that the topology does not have, TypeError for an operation nobody can run here."""
        self._settings = settings or EngineSettings()
        self._backend = backend
        self._task = Task(
            topology,
            number=task,
            application_id=application_id,
            settings=self._settings,
            wall_clock_ms=wall_clock_ms,
        )
        self._task.make_store = self._make_store
        self._task.unwritable = self._unwritable
        self._load_memory()
        self._processes: dict[str, Call] = {}
        self._entries: dict[str, Callable[[Iterable[Record]], None]] = {}
        self._nodes: dict[str, Node] = {}
        self._block_entries: dict[str, Any] = {}
        """What takes blocks in, by source; None where they go record by record."""
        self._processed = 0
        self._poison = 0
        self._build(topology, frozenset(nodes))

    def _load_memory(self) -> None:
        blob = self._backend.get(TASK_BLOB)
        if blob is not None:
            self._task.stream_time, self._task.memory = marshal.loads(blob)

    def _make_store(self, name: str) -> AnyStore:
        spec = self._task.topology.stores[name]
        memory = self._task.memory.setdefault(f"store {name}", {})
        if spec.kind in ("window", "timestamped_window"):
            return WindowStore(spec, self._backend, self._settings, memory)
        if spec.kind == "session":
            return SessionStore(spec, self._backend, self._settings, memory)
        if spec.kind == "suppress_buffer":
            return SuppressBuffer(spec, self._backend, self._settings, memory)
        if spec.kind == "versioned":
            return VersionedStore(spec, self._backend, self._settings, memory)
        if spec.kind in JOIN_STORES:
            return JOIN_STORES[spec.kind](spec, self._backend, self._settings, memory)
        return KeyValueStore(spec, self._backend, self._settings)

    def _build(self, topology: Topology, names: frozenset[str]) -> None:
        """Make the processors, children first."""
        missing = names - topology.nodes.keys()
        if missing:
            raise KeyError(f"the topology has no nodes {sorted(missing)}")
        order = [name for name in topology.nodes if name in names]
        children = _children(topology, names)
        for index in range(len(order) - 1, -1, -1):
            name = order[index]
            found = topology.nodes[name]
            below = {child: self._processes[child] for child in children[name]}
            node = Node(self._task, name, getattr(found, "operation", None), index, below)
            node.sends_old = getattr(node.operation, "send_old", False)
            self._nodes[name] = node
            self._processes[name] = self._process_of(found, node)
        self._task.flushes.sort(key=lambda each: each[0])
        self._task.finishes.sort(key=lambda each: each[0])
        self._task.clocks.sort(key=lambda each: each[0])
        for start in reversed(self._task.starts):
            start()
        self._below = children
        if self._settings.column_rows_min:
            self._flush_columns()

    def _flush_columns(self) -> None:
        """Have tables tell their updates as columns where what follows them allows it."""
        from ottla.streams.engine.columnar import block_flush

        for name in (*self._task.direct, *self._task.windowed):
            found = block_flush(self._nodes[name], self._task, self._nodes, self._below)
            if found is not None:
                self._task.column_flushes[name] = found

    def _process_of(self, found: Any, node: Node) -> Call:
        if isinstance(found, SinkNode):
            return sink(found, self._task)
        if isinstance(found, ProcessorNode):
            builder = BUILDERS.get(type(found.operation))
            if builder is None:
                raise TypeError(f"{found.name}: nobody runs {type(found.operation).__name__} in Python")
            return builder(node)
        return node.forward

    # -- records in

    def process(self, source: str, records: Iterable[Record]) -> None:
        """Process records that enter at a node, in their order; raises ProcessingError."""
        entry = self._entries.get(source)
        if entry is None:
            entry = self._entries[source] = self._entry(source)
        entry(records)

    def process_block(self, source: str, block: BlockRecords) -> None:
        """Process a block that enters at a source: as columns where every step allows it; raises ProcessingError."""
        if 0 < self._settings.column_rows_min <= len(block):
            if source not in self._block_entries:
                self._block_entries[source] = self._block_entry(source)
            run = self._block_entries[source]
            if run is not None and run(block):
                self._processed += len(block)
                return
        self.process(source, block.records())

    def _block_entry(self, name: str) -> Callable[[BlockRecords], bool] | None:
        from ottla.streams.engine.columnar import block_entry

        found = self._task.topology.nodes[name]
        if not isinstance(found, SourceNode):
            return None
        failed = partial(self._failed, source=name)
        return block_entry(
            found, self._task, self._nodes, self._below, lambda record, error: failed(record, error=error)
        )

    def process_merged(self, entries: Mapping[str, Sequence[Record]]) -> None:
        """Process several nodes' records in Kafka's order.

        Each topic partition keeps its own order; between them the one whose next record has the smaller timestamp goes
        first (PartitionGroup), the earlier in `entries` where they are equal.
        """
        if len(entries) == 1:
            for name, records in entries.items():
                self.process(name, records)
            return
        calls = {name: self._entries.get(name) or self._entries.setdefault(name, self._entry(name)) for name in entries}
        for _, name, record in merge(*_queues(entries), key=lambda each: each[0]):
            calls[name]((record,))

    def _entry(self, source: str) -> Callable[[Iterable[Record]], None]:
        """Return the loop that takes records in at a node."""
        if source not in self._processes:
            raise KeyError(f"{source!r} is none of this executor's nodes: {sorted(self._processes)}")
        found = self._task.topology.nodes[source]
        decode = source_decoder(found, self._task) if isinstance(found, SourceNode) else None
        if isinstance(found, SourceNode) and found.extractor is not None:
            return self._timed(found, decode)
        ordinary = self._loop(self._processes[source], decode, source)
        return self._fused(found, ordinary) if isinstance(found, SourceNode) else ordinary

    def _fused(
        self, source: SourceNode, ordinary: Callable[[Iterable[Record]], None]
    ) -> Callable[[Iterable[Record]], None]:
        """Return the loop of a source that feeds one coalescing aggregate alone; the ordinary one for any other."""
        children = [name for name in self._task.topology.children(source.name) if name in self._processes]
        direct = self._task.direct.get(children[0]) if len(children) == 1 else None
        if direct is None or self._task.starts or source.value is None or source.extractor is not None:
            return ordinary
        if source.key != direct.store.spec.key:
            return ordinary
        run_direct = direct_loop(
            direct, source.value, self._task, ordinary, lambda record, error: self._failed(record, source.name, error)
        )

        def run(records: Iterable[Record]) -> None:
            number = run_direct(records)  # counts in `_processed` too, where it hands records to the ordinary loop
            self._processed += number

        return run

    def _loop(self, process: Call, decode: Any, source: str) -> Callable[[Iterable[Record]], None]:
        task, punctuate = self._task, self._task.stream_schedules.run

        def run(records: Iterable[Record]) -> None:
            number = 0
            punctuates = bool(task.starts)
            for record in records:
                number += 1
                key, value, timestamp, headers, _, _, _ = record
                if decode is not None:
                    try:
                        key, value = decode[0](key), decode[1](value)
                    except Exception as error:  # a serde may raise anything
                        self._undecodable(record, source, error)
                        continue
                if timestamp > task.stream_time:
                    task.stream_time = timestamp
                task.record = record
                try:
                    process(key, value, timestamp, headers)
                except Exception as error:  # a user's function may raise anything
                    self._failed(record, source, error)
                if punctuates:
                    self._punctuate(punctuate, task.stream_time)
            self._processed += number

        return run

    def _timed(self, source: SourceNode, decode: Any) -> Callable[[Iterable[Record]], None]:
        """Return the loop of a source whose extractor says what time it is; a negative time drops the record."""
        loop = self._loop(self._processes[source.name], None, source.name)
        extract, memory = extractor_of(source, self._task), self._task.memory.setdefault(source.name, {})

        def run(records: Iterable[Record]) -> None:
            for record in records:
                try:
                    known = (
                        record
                        if decode is None
                        else record._replace(key=decode[0](record.key), value=decode[1](record.value))
                    )
                except Exception as error:  # a serde may raise anything
                    self._undecodable(record, source.name, error)
                    continue
                where = f"{record.topic}-{record.partition}"
                try:
                    time = extract(known, memory.get(where, -1))
                except Exception as error:  # no handler is asked, as in Kafka Streams
                    raise ProcessingError(
                        f"{source.name}: no time for {_where(record)}{_in(error)}: {error}"
                    ) from error
                if time < 0:
                    self._poison += 1
                    continue
                memory[where] = max(time, memory.get(where, -1))
                loop((known._replace(timestamp=time),))

        return run

    def _punctuate(self, run: Callable[[int], None], now_ms: int) -> None:
        try:
            run(now_ms)
        except Exception as error:  # a user's function may raise anything
            raise ProcessingError(f"a schedule at {now_ms} ms failed{_in(error)}: {error!r}") from error

    def _undecodable(self, record: Record, source: str, error: Exception) -> None:
        settings = self._settings
        if not self._skips(settings.skip_undecodable, settings.decide_undecodable, record, error):
            raise ProcessingError(f"{source}: cannot decode {_where(record)}: {error}") from error
        self._skip(record, error)

    def _failed(self, record: Record, source: str, error: Exception) -> None:
        settings = self._settings
        if isinstance(error, ProcessingError) or not self._skips(
            settings.skip_failing, settings.decide_failing, record, error
        ):
            raise ProcessingError(f"{source}: cannot process {_where(record)}{_in(error)}: {error!r}") from error
        self._skip(record, error)

    def _unwritable(self, sink: str, error: Exception) -> None:
        """Skip what a sink's serdes cannot write, or raise: no handler of processing is asked (KIP-399)."""
        settings, record = self._settings, self._task.record
        if not self._skips(settings.skip_unwritable, settings.decide_unwritable, record, error):
            words = f"{sink}: cannot write a result of {_where(record)}{_in(error)}: {error!r}"
            raise ProcessingError(words) from error
        self._skip(record, error)

    def _skips(self, skips: bool, decide: Callable[..., str] | None, record: Record, error: Exception) -> bool:
        """Whether a record is skipped: by the policy, or by what the user's handler says."""
        if decide is None:
            return skips
        try:
            return str(decide(record, error)).lower() == "continue"
        except Exception as problem:  # a user's handler may raise anything
            words = f"the exception handler failed with {_where(record)}{_in(problem)}: {problem!r}"
            raise ProcessingError(words) from problem

    def _skip(self, record: Record, error: Exception) -> None:
        """Count a skipped record and send it to the dead letter topic, where there is one (KIP-1034)."""
        self._poison += 1
        topic = self._settings.dead_letter_topic
        if topic is None:
            return
        said = {
            "exception": type(error).__name__,
            "message": str(error),
            "topic": record.topic,
            "partition": str(record.partition),
            "offset": str(record.offset),
        }
        headers = tuple((f"__streams.errors.{name}", text.encode(errors="replace")) for name, text in said.items())
        key, value = (
            part if isinstance(part, bytes | None) else repr(part).encode(errors="replace") for part in record[:2]
        )
        self._task.outputs.append(Output("", topic, key, value, record.timestamp, (*record.headers, *headers)))

    # -- time and the end of a batch

    def advance_wall_clock(self, now_ms: int) -> None:
        """Tell the wall clock's time: punctuators and time limits that are due act now."""
        self._task.wall_clock_ms = now_ms
        self._punctuate(self._task.clock_schedules.run, now_ms)
        for _, call in self._task.clocks:
            self._forward_held(partial(call, now_ms))

    @property
    def wall_clock_due_ms(self) -> int | None:
        """The time at which `advance_wall_clock` has something to do next; None where nothing waits for the clock."""
        return self._task.clock_schedules.due_ms

    def finish_batch(self) -> tuple[list[Any], list[Any], Progress]:
        """Forward what was coalesced, write state to the backend, and return all that leaves.

        Where blocks are taken there may be `OutputColumns` among outputs, and `ChangeColumns` among changes.
        """
        task = self._task
        for _, call in (*task.flushes, *task.finishes):
            self._forward_held(call)
        changes: list[Any] = []
        for store in task.stores.values():
            store.finish(changes)
        self._backend.put(TASK_BLOB, marshal.dumps((task.stream_time, task.memory), 2))
        outputs, task.outputs[:] = list(task.outputs), []
        progress = Progress(
            self._processed, task.dropped_late, task.dropped_null_key, self._poison, stream_time=task.stream_time
        )
        self._processed = self._poison = task.dropped_late = task.dropped_null_key = 0
        return outputs, changes, progress

    def _forward_held(self, call: Callable[[], None]) -> None:
        """Let a processor forward what it held back, which nobody knows of which record it came."""
        try:
            call()
        except ProcessingError:
            raise
        except Exception as error:  # a user's function may raise anything
            place = raised_in(error)
            if place is None:
                raise
            raise ProcessingError(f"what a batch held back cannot be processed, {place}: {error!r}") from error

    # -- state

    def store(self, name: str) -> AnyStore:
        """Return a store, to read it: what it holds now, the batch's updates included."""
        found = self._task.stores.get(name)
        if found is None:
            found = self._task.stores[name] = self._make_store(name)
        return found

    def told(self, memory: bytes) -> None:
        """Take over from a task's memory which windows it has told when they closed: a standby holds them no longer."""
        for name, found in task_memory(memory)[1].items():
            if name.startswith("store ") and "told" in found:
                self._task.memory.setdefault(name, {})["told"] = found["told"]
        self.forget_told()

    def forget_told(self) -> None:
        """Have no window told again that was told since the state was saved which this executor began with."""
        for store in self._task.stores.values():
            if isinstance(store, WindowStore | SessionStore):
                store.forget_told()

    def replay(self, *, is_replaying: bool) -> None:
        """Say whether records may come that were processed before, what they had made being lost but for changelogs.

        Where a row is gone that was there before, tables tell so then even if they know of no row that was there.
        """
        if is_replaying:
            for begin in self._task.replays:
                begin()
        self._task.is_replaying = is_replaying

    def restore(self, changes: Iterable[StoreChange]) -> None:
        """Take in records of changelog topics, in their order; written by the next `finish_batch`."""
        for change in changes:
            self.store(change.store).restore(change)


def standby_nodes(topology: Topology, nodes: Iterable[str]) -> list[str]:
    """Return the steps that a standby has of these: those that know how to restore, and none that runs a user's processor.

    A processor is made and begun with its executor, and may do anything then.
    """
    found = ((name, topology.nodes[name]) for name in nodes)
    return [name for name, node in found if not isinstance(getattr(node, "operation", None), Process | TableProcess)]


def _children(topology: Topology, names: frozenset[str]) -> dict[str, list[str]]:
    """Return each node's children among `names`, in the order in which they were added."""
    found: dict[str, list[str]] = {name: [] for name in names}
    for node in topology.nodes.values():
        if not isinstance(node, SourceNode) and node.name in names:
            for parent in node.parents:
                if parent in found:
                    found[parent].append(node.name)
    return found


def _where(record: Record) -> str:
    return f"the record at {record.topic}-{record.partition}, offset {record.offset}"


def _in(error: Exception) -> str:
    place = raised_in(error)
    return "" if place is None else f", {place}"


def _queues(entries: Mapping[str, Sequence[Record]]) -> list[list[tuple[int, str, Record]]]:
    """Return each topic partition's records by the timestamp at which its queue lets them go.

    A queue's head decides, so a record behind a later one goes as soon as that one has gone: its time is the largest so far.
    """
    queues: dict[tuple[str, str, int], list[tuple[int, str, Record]]] = {}
    for name, records in entries.items():
        for record in records:
            queue = queues.setdefault((name, record.topic, record.partition), [])
            time = max(record.timestamp, queue[-1][0]) if queue else record.timestamp
            queue.append((time, name, record))
    return list(queues.values())
