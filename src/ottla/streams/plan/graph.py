"""The plan while the DSL makes it: steps in the order of calls, written into a topology when it is built.

Kafka Streams does the same: what a table must keep is known only when all that uses it is there. The order of writing,
by the number of the call that added a step, is the order of nodes in the topology.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from ottla.streams.errors import TopologyError
from ottla.streams.plan.names import Names, validated
from ottla.streams.plan.topology import Topology
from ottla.streams.plan.topology_builder import TopologyBuilder
from ottla.streams.serdes.basic import Serde

__all__ = ["Plan", "Repartition", "Step"]


@dataclass(slots=True)
class Repartition:
    """What a step that goes through an internal topic needs when it is merged with others (`topology.optimization`)."""

    topic: str
    key: Serde | None
    value: Serde | None
    optimizable: bool
    drops_null_keys: bool = True


@dataclass(slots=True, eq=False)
class Step:
    """One call's nodes. `write(topology, parents)` adds them; the last or only one is named `name`."""

    name: str
    write: Callable[[TopologyBuilder, tuple[str, ...]], object]
    source_topics: tuple[str, ...] = ()
    source_pattern: str | None = None
    offset_reset: str | None = None
    is_stream_source: bool = False
    is_table_source: bool = False
    changes_key: bool = False
    changes_value: bool = False
    merges: bool = False
    takes_null_keys: bool = False
    """A left or outer join, which also takes records without a key (KIP-962)."""
    versioned: bool | None = None
    """Whether its table is versioned; None: as its parents'."""
    is_suppress: bool = False
    grace_ms: int | None = None
    repartition: Repartition | None = None
    reused_topic: str | None = None
    """The topic that a table uses as its changelog (optimisation)."""
    priority: int = -1
    parents: list[Step] = field(default_factory=list)
    children: list[Step] = field(default_factory=list)
    written: bool = False

    def add_child(self, child: Step) -> None:
        """Put a step behind this one."""
        if child not in self.children:
            self.children.append(child)
        if self not in child.parents:
            child.parents.append(self)

    def remove_child(self, child: Step) -> None:
        """Take a step away from behind this one."""
        self.children.remove(child)
        child.parents.remove(self)

    def is_versioned(self) -> bool:
        """True where what it forwards comes from a versioned table."""
        if self.versioned is not None:
            return self.versioned
        return bool(self.parents) and all(each.is_versioned() for each in self.parents)

    def window_grace_ms(self) -> int:
        """Return the grace of the windows upstream; raises TopologyError where there are none."""
        if self.grace_ms is not None:
            return self.grace_ms
        if not self.parents:
            raise TopologyError("suppress", "expected a windowed table: only windows close")
        return max(each.window_grace_ms() for each in self.parents)


class Plan:
    """All steps of a `StreamsBuilder`."""

    def __init__(self) -> None:
        self.names = Names()
        self.root = Step("root", lambda topology, parents: None)
        self.copartitioned: list[set[str]] = []
        self._priority = 0
        self._store_names: set[str] = set()

    def check_store_name(self, name: str, step: str) -> None:
        """Raise TopologyError for a store's name that is illegal or taken."""
        if validated(name) in self._store_names:
            raise TopologyError(step, f"a different store has been named {name!r} already")
        self._store_names.add(name)

    def add(self, parents: Step | Collection[Step], step: Step) -> Step:
        """Put a step behind others; a step that was put somewhere before gets its latest place in the order."""
        for parent in [parents] if isinstance(parents, Step) else parents:
            parent.add_child(step)
            step.priority = self._priority
            self._priority += 1
        return step

    def copartition(self, *groups: Iterable[str]) -> frozenset[str]:
        """Demand as many partitions of all these sources' topics; returns them all."""
        together = {name for group in groups for name in group}
        self.copartitioned.append(together)
        return frozenset(together)

    def prepare(self) -> None:
        """Let streams over the same topics share a source; a plan may be built more than once."""
        for step in self.steps():
            step.written = False
        self._merge_sources()

    def write(self, topology: TopologyBuilder) -> Topology:
        """Write every step once all its parents are written, in order of priority, and return the plan."""
        self._keep_null_keys()
        waiting: list[tuple[int, int, Step]] = [(self.root.priority, 0, self.root)]
        number = 0
        while waiting:
            _, _, step = heapq.heappop(waiting)
            if step.written or not all(each.written for each in step.parents):
                continue
            step.write(topology, tuple(each.name for each in step.parents))
            step.written = True
            for child in step.children:
                number += 1
                heapq.heappush(waiting, (child.priority, number, child))
        for group in self.copartitioned:
            topology.copartition(group)
        return topology.build()

    def steps(self) -> list[Step]:
        """Return all steps, parents before children where there is but one way to them."""
        found: dict[int, Step] = {}
        stack = [self.root]
        while stack:
            step = stack.pop()
            if id(step) not in found:
                found[id(step)] = step
                stack.extend(reversed(step.children))
        return list(found.values())

    def _merge_sources(self) -> None:
        """Let streams over the same topics share one source."""
        first: dict[object, Step] = {}
        for step in list(self.root.children):
            if not step.is_stream_source:
                continue
            key: object = step.source_pattern or frozenset(step.source_topics)
            main = first.setdefault(key, step)
            if main is step:
                self._refuse_overlap(step, first)
                continue
            if main.offset_reset != step.offset_reset:
                raise TopologyError(
                    step.name,
                    f"topics {', '.join(step.source_topics)} are read by {main.name} with another offset_reset",
                )
            for child in list(step.children):
                step.remove_child(child)
                main.add_child(child)
            self.root.remove_child(step)
            for group in self.copartitioned:
                if step.name in group:
                    group.remove(step.name)
                    group.add(main.name)

    @staticmethod
    def _refuse_overlap(step: Step, others: dict[object, Step]) -> None:
        for other in others.values():
            shared = set(step.source_topics) & set(other.source_topics)
            if other is not step and shared:
                raise TopologyError(
                    step.name,
                    f"topic {min(shared)} is read by {other.name} too: expected the same topics in both, or none of them",
                )

    def _keep_null_keys(self) -> None:
        """Tell repartition steps upstream of a left or outer join to keep records without a key (KIP-962)."""
        keeping: set[int] = set()
        changed = True
        steps = self.steps()
        while changed:
            changed = False
            for step in steps:
                if id(step) not in keeping and any(
                    child.takes_null_keys or id(child) in keeping for child in step.children
                ):
                    keeping.add(id(step))
                    changed = True
        for step in steps:
            if step.repartition is not None and id(step) in keeping:
                step.repartition.drops_null_keys = False
