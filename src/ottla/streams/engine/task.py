"""One partition's work: what its processors share, and the protocol by which they are made.

**How a processor comes about.** An operation's builder is registered with `@builds(operations.X)`: it gets a `Node` and
returns the processor, a callable `process(key, value, timestamp, headers)`. Nodes are built children first, so that
`node.forward` is the child's own `process` when there is one child: no dispatch lies between processors. Table processors
get and forward `Change(old, new, latest)` as value; stream processors plain values.

A builder may use:

- `node.operation`, `node.name`; `node.call(function)`: a `Function` as a callable of (key, value);
- `node.forward(key, value, timestamp, headers)` to all children, `node.forward_to(child)` to get one's `process`;
- `node.store(name)`: the store (`ottla.streams.engine.stores`), made when first asked for;
- `node.getter(processor)`: the table lookup of another processor, `get(key) -> (value, timestamp) | None`,
  of a versioned table `get(key, as_of)` too; table processors offer theirs with `node.provide_getter(get)`;
- `node.sends_old`: whether somebody downstream needs `Change.old` (Kafka's `enableSendingOldValues`); `node.caches`;
- `node.memory`: a dictionary of integers by text that lives from batch to batch (own stream times and the like);
- `node.on_flush(call)`: called at the end of a batch, in the topology's order, to forward what was coalesced;
  `node.on_finish(call)`: after that, before state is written; `node.on_wall_clock(call)`: with the time in milliseconds;
- `node.task`: `stream_time` (the task's, over all sources), `record` (that came in last), and the counters
  `dropped_late`, `dropped_null_key` to add to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.streams.engine.functions import callable_of
from ottla.streams.engine.interface import EngineSettings, Headers, Record
from ottla.streams.engine.punctuation import PunctuationQueue
from ottla.streams.expressions import Refused
from ottla.streams.expressions.columns import arrow_type
from ottla.streams.plan import operations
from ottla.streams.plan.evaluation import side_kind
from ottla.streams.plan.nodes import ProcessorNode

if TYPE_CHECKING:
    from ottla.streams.engine.stores import AnyStore
    from ottla.streams.functions import Function
    from ottla.streams.plan.topology import Topology

__all__ = ["BUILDERS", "Getter", "Node", "Process", "Task", "builds"]

Process = Callable[[Any, Any, int, Headers], None]
Getter = Callable[..., "tuple[Any, int] | None"]
Builder = Callable[["Node"], Process]

BUILDERS: dict[type, Builder] = {}
_PASS_ON = (
    operations.TableFilter,
    operations.TableMapValues,
    operations.TableProcess,
    operations.TablePassThrough,
    operations.TableJoinMerge,
    operations.Suppress,
)
"""Steps from one table to the next with the same keys."""


def builds(operation: type) -> Callable[[Builder], Builder]:
    """Register the builder of an operation's processors."""

    def register(builder: Builder) -> Builder:
        BUILDERS[operation] = builder
        return builder

    return register


def _nothing(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
    """What a node without children forwards to."""


def _to_all(processes: Sequence[Process]) -> Process:
    """Return a process that calls each in turn."""
    if not processes:
        return _nothing
    if len(processes) == 1:
        return processes[0]
    if len(processes) == 2:
        first, second = processes

        def to_both(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            first(key, value, timestamp, headers)
            second(key, value, timestamp, headers)

        return to_both

    def to_each(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        for process in processes:
            process(key, value, timestamp, headers)

    return to_each


def feeds_a_table_join(topology: Topology, name: str) -> bool:
    """True for a table that a join by primary key hears of, so that it must hear of each change.

    A side that is told late of a change would meet rows of the other side that are newer than what that side has told: the
    deletion of both rows would be told by neither, and what an aggregate behind it takes away had never been added.
    """
    for child in topology.children(name):
        found = topology.nodes[child]
        operation = found.operation if isinstance(found, ProcessorNode) else None
        if isinstance(operation, operations.TableJoin):
            return True
        if isinstance(operation, _PASS_ON) and feeds_a_table_join(topology, child):
            return True
    return False


class Task:
    """What the processors of one partition share during a batch and between batches."""

    def __init__(
        self, topology: Topology, *, number: int, application_id: str, settings: EngineSettings, wall_clock_ms: int = 0
    ) -> None:
        self.topology = topology
        self.number = number
        self.application_id = application_id
        self.settings = settings
        self.stream_time = -1
        self.wall_clock_ms = wall_clock_ms
        self.record = Record(None, None, -1)
        """The record that came in last: its topic, partition and offset are the context of what is done now."""
        self.is_replaying = False
        """Whether records may have been processed before: the stores may know of them what was told to nobody."""
        self.replays: list[Callable[[], None]] = []
        """Called when that begins."""
        self.dropped_late = 0
        self.dropped_null_key = 0
        self.outputs: list[Any] = []
        """`Output`, and where blocks are taken `OutputColumns`."""
        self.memory: dict[str, dict[str, int]] = {}
        self.getters: dict[str, Getter] = {}
        self.askers: dict[str, Callable[[Any, Any, int, Headers], bool]] = {}
        """Those that ask about a row's foreign key once more, by node; False for a row that has none."""
        self.direct: dict[str, Any] = {}
        """Aggregates that a source may feed directly (`fused.Direct`), by node."""
        self.windowed: dict[str, Any] = {}
        """Aggregates over windows whose updates are told at the end of the batch (`WindowUpdater`), by node."""
        self.column_flushes: dict[str, Callable[[], bool]] = {}
        """What tells a table's updates as columns, by node; it returns False where it has done nothing."""
        self.stores: dict[str, AnyStore] = {}
        self.make_store: Callable[[str], AnyStore]
        self.unwritable: Callable[[str, Exception], None]
        """Called with a sink's name and what its serdes have raised; raises where that is not to be skipped."""
        self.flushes: list[tuple[int, Callable[[], None]]] = []
        self.finishes: list[tuple[int, Callable[[], None]]] = []
        self.clocks: list[tuple[int, Callable[[int], None]]] = []
        self.starts: list[Callable[[], None]] = []
        """Called once when all nodes are made, parents last: processors' `init`."""
        self.stream_schedules = PunctuationQueue()
        self.clock_schedules = PunctuationQueue()


class Node:
    """What one processor is made of; see the module's description."""

    def __init__(self, task: Task, name: str, operation: Any, order: int, children: Mapping[str, Process]) -> None:
        self.task = task
        self.name = name
        self.operation = operation
        self.children = children
        self.forward: Process = _to_all(tuple(children.values()))
        self.sends_old = False
        self.parents = tuple(getattr(task.topology.nodes[name], "parents", ()))
        self.caches = task.settings.cache and not feeds_a_table_join(task.topology, name)
        self.memory = task.memory.setdefault(name, {})
        self._order = order

    def forward_to(self, child: str) -> Process:
        """Return one child's process; raises KeyError for a name that is no child's."""
        if child not in self.children:
            raise KeyError(f"{self.name} has no child {child!r}; its children are {sorted(self.children)}")
        return self.children[child]

    def call(self, function: Function) -> Callable[[Any, Any], Any]:
        """Return a step's function as a callable of (key, value)."""
        return callable_of(function, self.name, lambda: self.task.record, self.arrow_type)

    def arrow_type(self, side: str) -> Any:
        """Return the Arrow type of the keys or values that come to this processor; None where it is not known."""
        kind = side_kind(self.task.topology, self.parents, side)
        try:
            return None if kind is None else arrow_type(kind)
        except Refused:
            return None

    def store(self, name: str) -> Any:
        """Return a store of this partition."""
        found = self.task.stores.get(name)
        if found is None:
            found = self.task.stores[name] = self.task.make_store(name)
        return found

    def provide_getter(self, getter: Getter) -> None:
        """Offer this processor's table for lookups."""
        self.task.getters[self.name] = getter

    def getter(self, processor: str) -> Getter:
        """Return the lookup of a table, by its processor's name; that may be built later than the one that asks."""
        getters = self.task.getters

        def get(key: Any, *as_of: int) -> tuple[Any, int] | None:
            return getters[processor](key, *as_of)

        return get

    def on_flush(self, call: Callable[[], None]) -> None:
        """Have `call` called at the end of each batch, to forward what was held back."""
        self.task.flushes.append((self._order, call))

    def on_finish(self, call: Callable[[], None]) -> None:
        """Have `call` called after all was forwarded, before state is written."""
        self.task.finishes.append((self._order, call))

    def on_wall_clock(self, call: Callable[[int], None]) -> None:
        """Have `call` called with the wall clock's time in milliseconds when it advances."""
        self.task.clocks.append((self._order, call))
