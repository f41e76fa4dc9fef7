"""How blocks enter a task and how tables' updates leave it as columns: the steps of a source or a table put together once.

As columns go all steps behind a source or none: a tree of steps without state that ends in topics and in aggregates whose
updates are told at the end of the batch. Where a node is reached in two ways, or two of them write the same topic or store,
records would have to take turns between them; those go record by record.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ottla.streams.engine.column_records import BlockRecords, OutputColumns
from ottla.streams.engine.columnar.aggregates import is_combined, key_aggregate, window_aggregate
from ottla.streams.engine.columnar.flow import Flow
from ottla.streams.engine.columnar.steps import STEPS, Step, branch_step
from ottla.streams.engine.columnar.values import Column, Unfit, binary_of
from ottla.streams.engine.edges import full_name
from ottla.streams.engine.interface import Record
from ottla.streams.engine.stores import KeyValueStore
from ottla.streams.engine.task import Node, Task
from ottla.streams.engine.values import SCALARS
from ottla.streams.engine.window_stores import WindowStore
from ottla.streams.plan import operations
from ottla.streams.plan.nodes import SinkNode, SourceNode
from ottla.streams.serdes.windowed import TimeWindowedSerde

if TYPE_CHECKING:
    from ottla.streams.engine.window_updater import WindowUpdater

__all__ = ["block_entry", "block_flush"]

log = logging.getLogger(__name__)
Effects = list[Callable[[], None]]


class _Steps:
    """Puts the steps below one node together; raises Unfit for what does not go as columns."""

    def __init__(self, task: Task, nodes: Mapping[str, Node], children: Mapping[str, Sequence[str]]) -> None:
        self.task, self.nodes, self.children = task, nodes, children
        self.effects: Effects = []
        self.fail: Callable[[int, Exception], None] = _raise
        self._seen: set[str] = set()
        self.ends: list[str] = []
        """What is written: topics, and stores."""
        self.calls_users = False
        """Whether an aggregate calls functions of the user's after something has changed."""

    def below(self, name: str) -> Step:
        """Return what all children of a node do with a block."""
        steps = [self.step(each) for each in self.children[name]]
        return _some(steps)

    def step(self, name: str) -> Step:
        """Return what a node does with a block."""
        if name in self._seen:
            raise Unfit(f"{name} is reached in several ways")
        self._seen.add(name)
        found = self.task.topology.nodes[name]
        if isinstance(found, SinkNode):
            return self._sink(found)
        node = self.nodes[name]
        operation = node.operation
        if isinstance(operation, operations.Branch):
            return branch_step(node, {each: _some([self.step(each)]) for each in self.children[name]})
        if isinstance(operation, operations.StreamAggregate | operations.WindowAggregate):
            return self._aggregate(node)
        make = STEPS.get(type(operation))
        if make is None:
            raise Unfit(f"{name} goes record by record")
        return make(node, self.below(name))

    def _sink(self, sink: SinkNode) -> Step:
        if not isinstance(sink.topic, str) or sink.partitioner is not None:
            raise Unfit(f"{sink.name} chooses a place for each record")
        topic, task, effects = full_name(sink.topic, self.task), self.task, self.effects
        self.ends.append(f"topic {topic}")

        def step(flow: Flow) -> None:
            keys = binary_of(flow.key.listed()) if sink.key is None else flow.key.encoded(sink.key)
            values = binary_of(flow.value.listed()) if sink.value is None else flow.value.encoded(sink.value)
            made = OutputColumns(sink.name, topic, keys, values, flow.times, flow.headers)
            effects.append(lambda: task.outputs.append(made))

        return step

    def _aggregate(self, node: Node) -> Step:
        known = self.task.direct.get(node.name)
        updater: WindowUpdater | None = self.task.windowed.get(node.name)
        self.calls_users = self.calls_users or not is_combined(node)
        self.ends.append(f"store {node.operation.store}")
        if updater is not None:
            return window_aggregate(node, updater, self.effects, self._failed)
        if known is None:
            raise Unfit(f"{node.name} tells every update")
        return key_aggregate(node, known.store, self.effects, self._failed)

    def _failed(self, row: int, error: Exception) -> None:
        self.fail(row, error)

    def check(self, *, skips: bool) -> None:
        """Raise Unfit where blocks would do things in another order than records."""
        if len(set(self.ends)) < len(self.ends):
            raise Unfit("a topic or a store is written in several ways")
        if skips and self.calls_users and len(self.ends) > 1:
            raise Unfit("a record that is skipped would have to be taken back elsewhere")


def _raise(_row: int, error: Exception) -> None:
    raise error


def _some(steps: Sequence[Step]) -> Step:
    """Return a step that calls each in turn, unless there is nothing to do."""

    def step(flow: Flow) -> None:
        if len(flow):
            for each in steps:
                each(flow)

    return step


def block_entry(
    source: SourceNode,
    task: Task,
    nodes: Mapping[str, Node],
    children: Mapping[str, Sequence[str]],
    failed: Callable[[Record, Exception], None],
) -> Callable[[BlockRecords], bool] | None:
    """Return what takes a source's block in; it returns False where it has done nothing. None where none can be taken.

    `failed` is told of a record that a user's function failed with; it raises where the record is not skipped.
    """
    settings = task.settings
    if task.starts or source.extractor is not None:
        return None
    steps = _Steps(task, nodes, children)
    try:
        root = steps.below(source.name)
        steps.check(skips=settings.skip_failing or settings.decide_failing is not None)
    except Unfit:
        return None
    effects = steps.effects

    def run(block: BlockRecords) -> bool:
        try:
            key, value = Column.read(block.keys, source.key), Column.read(block.values, source.value)
            root(Flow(key, value, block.times, block.headers))
        except Exception:  # whatever it is: record by record it comes again, and is said, or skipped
            log.debug("a block of %s goes record by record", source.name, exc_info=True)
            effects.clear()
            return False
        steps.fail = lambda row, error: failed(block.record(row), error)
        task.record = block.record(len(block) - 1)
        task.stream_time = max(task.stream_time, int(block.times.max()))
        try:
            for each in effects:
                each()
        finally:
            effects.clear()
        return True

    return run


# -- what tables tell at the end of a batch


def block_flush(
    node: Node, task: Task, nodes: Mapping[str, Node], children: Mapping[str, Sequence[str]]
) -> Callable[[], bool] | None:
    """Return what tells a table's updates as columns; it returns False where it has done nothing.

    None where what follows the table goes record by record.
    """
    steps = _Steps(task, nodes, children)
    try:
        below = _some([_to_stream(steps, each) for each in children[node.name]])
        steps.check(skips=False)
        if steps.calls_users:
            raise Unfit("an aggregate of what an aggregate tells")
    except Unfit:
        return None
    store = node.store(node.operation.store)
    effects, at_least = steps.effects, task.settings.column_rows_min

    def flush() -> bool:
        if len(_live(store)) < at_least:
            return False
        try:
            below(_updates(store))
        except Exception:  # whatever it is: record by record it comes again, and is said
            log.debug("updates of %s are told one by one", node.name, exc_info=True)
            effects.clear()
            return False
        for each in effects:
            each()
        effects.clear()
        return True

    return flush


def _to_stream(steps: _Steps, name: str) -> Step:
    node = steps.nodes.get(name)
    if node is None or not isinstance(node.operation, operations.TableToStream):
        raise Unfit(f"{name} is told of changes")
    return steps.below(name)


def _live(store: KeyValueStore | WindowStore) -> Mapping[bytes, Any]:
    return store.live if isinstance(store, KeyValueStore) else store.rows.live


def _updates(store: KeyValueStore | WindowStore) -> Flow:
    """Return a table's updates in the order of the last update of each."""
    if isinstance(store, KeyValueStore):
        found = [(entry[3], raw, entry) for raw, entry in store.live.items() if entry[3]]
    else:
        found = [(entry[3], raw, entry) for raw, rows in store.rows.live.items() for entry in rows.values() if entry[3]]
    found = [each for each in found if each[2][0] is not None or each[2][2] is not None]
    found.sort()
    entries = [entry for _, _, entry in found]
    value_of = store.value_of if isinstance(store, KeyValueStore) else store.rows.value_of
    values = [entry[0] if type(entry[0]) in SCALARS else value_of(entry) for entry in entries]
    times = np.array([entry[1] for entry in entries], np.int64)
    headers = [entry[5] for entry in entries]
    raws = [raw for _, raw, _ in found]
    key = _windowed_keys(store, raws, entries) if isinstance(store, WindowStore) else _keys(store, raws, entries)
    return Flow(key, Column.of_values(values), times, headers if any(headers) else None)


def _keys(store: KeyValueStore, raws: list[bytes], entries: list[list[Any]]) -> Column:
    made = Column.read(binary_of(raws), store.spec.key)
    return made if made.array is not None else Column.of_values([entry[4] for entry in entries])


def _windowed_keys(store: WindowStore, raws: list[bytes], entries: list[list[Any]]) -> Column:
    inner = Column.read(binary_of(raws), store.spec.key)
    if inner.array is None or not inner.is_exact:
        return Column.of_values([store.windowed(entry) for entry in entries])
    data = binary_of([raw + entry[6].to_bytes(8, "big", signed=True) for raw, entry in zip(raws, entries, strict=True)])
    serde = TimeWindowedSerde(store.spec.key, store.spec.window_size_ms)
    return Column(len(raws), data=data, serde=serde, make=lambda: [store.windowed(entry) for entry in entries])
