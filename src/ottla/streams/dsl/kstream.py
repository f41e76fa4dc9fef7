"""KStream: a topic's records as a stream, and what can be done with it one record at a time.

Each step takes a column expression (`"upper(value)"`, run by Spark itself), a Python function of one record, or one marked
`@vectorised` that takes Arrow arrays. Names and numbers of steps are those of Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from ottla.streams.dsl.kstream_joins import KStreamJoins
from ottla.streams.dsl.parameters import Grouped, Materialized, Produced, Repartitioned
from ottla.streams.dsl.steps import (
    Expression,
    Place,
    chosen,
    element_of,
    function,
    part_of,
    repartition_names,
    repartition_step,
)
from ottla.streams.dsl.tables import SourceTable, materialization
from ottla.streams.errors import TopologyError
from ottla.streams.functions import Function
from ottla.streams.plan import operations as op
from ottla.streams.plan.graph import Step
from ottla.streams.plan.names import validated
from ottla.streams.plan.operations import Operation
from ottla.streams.plan.topology_builder import TopologyBuilder, processor
from ottla.streams.serdes.basic import Serde
from ottla.streams.serdes.choice import SerdeLike

if TYPE_CHECKING:
    from ottla.streams.dsl.branched import BranchedKStream
    from ottla.streams.dsl.grouped import KGroupedStream
    from ottla.streams.dsl.ktable import KTable

__all__ = ["KStream"]

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


class KStream(KStreamJoins[K, V], Generic[K, V]):
    """A stream of records with keys K and values V; immutable: each method returns what comes next."""

    def filter(
        self, predicate: Callable[[V], bool] | Callable[[K, V], bool] | Expression, *, name: str | None = None
    ) -> KStream[K, V]:
        """Keep the records for which the predicate holds."""
        return self._filter(predicate, name, negate=False)

    def filter_not(
        self, predicate: Callable[[V], bool] | Callable[[K, V], bool] | Expression, *, name: str | None = None
    ) -> KStream[K, V]:
        """Keep the records for which the predicate does not hold."""
        return self._filter(predicate, name, negate=True)

    @overload
    def map_values(
        self, mapper: Expression, *, name: str | None = ..., value_serde: SerdeLike | None = ...
    ) -> KStream[K, Any]: ...

    @overload
    def map_values(
        self,
        mapper: Callable[[V], V2] | Callable[[K, V], V2],
        *,
        name: str | None = ...,
        value_serde: SerdeLike | None = ...,
    ) -> KStream[K, V2]: ...

    def map_values(
        self, mapper: Any, *, name: str | None = None, value_serde: SerdeLike | None = None
    ) -> KStream[K, Any]:
        """Replace the value. Its serde: `value_serde`, else the function's return annotation, else the default."""
        step = self._names.given_or(name, "KSTREAM-MAPVALUES-")
        made = function(step, mapper, "the mapper", self._place)
        value = chosen(step, value_serde, made.returns)
        return self._then(step, op.MapValues(made, value), value=value, changes_value=True)

    @overload
    def map(
        self,
        mapper: Callable[[V], tuple[K2, V2]] | Callable[[K, V], tuple[K2, V2]],
        *,
        name: str | None = ...,
        key_serde: SerdeLike | None = ...,
        value_serde: SerdeLike | None = ...,
    ) -> KStream[K2, V2]: ...

    @overload
    def map(
        self,
        mapper: Expression | None = ...,
        *,
        key: Expression | None = ...,
        name: str | None = ...,
        key_serde: SerdeLike | None = ...,
        value_serde: SerdeLike | None = ...,
    ) -> KStream[Any, Any]: ...

    def map(
        self,
        mapper: Any = None,
        *,
        key: Expression | None = None,
        name: str | None = None,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
    ) -> KStream[Any, Any]:
        """Replace key and value: a function that returns (key, value), or expressions: `map("value.x", key="value.id")`."""
        step = self._names.given_or(name, "KSTREAM-MAP-")
        made, key_made = _pair(step, mapper, key, self._place)
        keys, values = (
            chosen(step, key_serde, part_of(made.returns, 0)),
            chosen(step, value_serde, part_of(made.returns, 1)),
        )
        return self._then(step, op.Map(made, key_made, keys, values), key=keys, value=values, changes_key=True)

    @overload
    def flat_map_values(
        self, mapper: Expression, *, name: str | None = ..., value_serde: SerdeLike | None = ...
    ) -> KStream[K, Any]: ...

    @overload
    def flat_map_values(
        self,
        mapper: Callable[[V], Iterable[V2]] | Callable[[K, V], Iterable[V2]],
        *,
        name: str | None = ...,
        value_serde: SerdeLike | None = ...,
    ) -> KStream[K, V2]: ...

    def flat_map_values(
        self, mapper: Any, *, name: str | None = None, value_serde: SerdeLike | None = None
    ) -> KStream[K, Any]:
        """Replace each record by one for each value that the mapper returns (natively: of the array)."""
        step = self._names.given_or(name, "KSTREAM-FLATMAPVALUES-")
        made = function(step, mapper, "the mapper", self._place)
        value = chosen(step, value_serde, element_of(made.returns))
        return self._then(step, op.FlatMapValues(made, value), value=value, changes_value=True)

    def flat_map(
        self,
        mapper: Callable[[V], Iterable[tuple[K2, V2]]] | Callable[[K, V], Iterable[tuple[K2, V2]]],
        *,
        name: str | None = None,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
    ) -> KStream[K2, V2]:
        """Replace each record by the (key, value) pairs that the mapper returns; Python only."""
        step = self._names.given_or(name, "KSTREAM-FLATMAP-")
        made = function(step, mapper, "the mapper", self._place)
        if made.is_native:
            raise TopologyError(
                step, "expected a Python function: an expression makes one column; use map and flat_map_values"
            )
        kind = element_of(made.returns)
        keys, values = chosen(step, key_serde, part_of(kind, 0)), chosen(step, value_serde, part_of(kind, 1))
        return self._then(step, op.FlatMap(made, keys, values), key=keys, value=values, changes_key=True)

    @overload
    def select_key(
        self, mapper: Expression, *, name: str | None = ..., key_serde: SerdeLike | None = ...
    ) -> KStream[Any, V]: ...

    @overload
    def select_key(
        self,
        mapper: Callable[[V], K2] | Callable[[K, V], K2],
        *,
        name: str | None = ...,
        key_serde: SerdeLike | None = ...,
    ) -> KStream[K2, V]: ...

    def select_key(
        self, mapper: Any, *, name: str | None = None, key_serde: SerdeLike | None = None
    ) -> KStream[Any, V]:
        """Replace the key; what works by key behind it goes through a repartition topic."""
        step = self._names.given_or(name, "KSTREAM-KEY-SELECT-")
        made = function(step, mapper, "the mapper", self._place)
        key = chosen(step, key_serde, made.returns)
        return self._then(step, op.SelectKey(made, key), key=key, changes_key=True)

    def peek(
        self, action: Callable[[V], object] | Callable[[K, V], object], *, name: str | None = None
    ) -> KStream[K, V]:
        """Call an action for each record and forward it; Python only."""
        step = self._names.given_or(name, "KSTREAM-PEEK-")
        return self._then(step, op.Peek(self._action(step, action)), like_before=True)

    def foreach(self, action: Callable[[V], object] | Callable[[K, V], object], *, name: str | None = None) -> None:
        """Call an action for each record: the end of this stream; Python only."""
        step = self._names.given_or(name, "KSTREAM-FOREACH-")
        self._then(step, op.Foreach(self._action(step, action)))

    def print(
        self, *, label: str | None = None, write: Callable[[str], object] | None = None, name: str | None = None
    ) -> None:
        """Print each record as `[label]: key, value`; `write` takes the lines in print's stead."""
        step = self._names.given_or(name, "KSTREAM-PRINTER-")
        self._then(step, op.Foreach(Function(call=_Printer(label or self._place.name, write), with_key=True)))

    def merge(self, other: KStream[K, V], *, name: str | None = None) -> KStream[K, V]:
        """Put two streams together, in no order between them."""
        step = self._names.given_or(name, "KSTREAM-MERGE-")
        if not isinstance(other, KStream):
            raise TopologyError(step, f"expected a KStream to merge with, got {type(other).__name__}")
        mine, theirs = self._place, other._place
        for one, another, part in ((mine.key, theirs.key, "key"), (mine.value, theirs.value, "value")):
            if one is not None and another is not None and one != another:
                raise TopologyError(
                    step, f"the {part}s' serdes differ: {one.name} and {another.name}; map one of them first"
                )
        added = mine.plan.add([mine.step, theirs.step], _step(step, op.PassThrough(), merges=True))
        return KStream(
            replace(
                mine,
                step=added,
                name=step,
                key=mine.key if mine.key == theirs.key else None,
                value=mine.value if mine.value == theirs.value else None,
                sources=mine.sources | theirs.sources,
                rekeyed=mine.rekeyed or theirs.rekeyed,
            )
        )

    def split(self, *, name: str | None = None) -> BranchedKStream[K, V]:
        """Divide the stream: each record goes to the first branch whose predicate holds."""
        from ottla.streams.dsl.branched import BranchedKStream

        return BranchedKStream(self._place, name)

    def repartition(
        self,
        *,
        name: str | None = None,
        partitions: int | None = None,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
        partitioner: Callable[[str, Any, Any, int], int | None] | None = None,
        repartitioned: Repartitioned | None = None,
    ) -> KStream[K, V]:
        """Send the records through an internal topic, whether the key has changed or not."""
        given = repartitioned or Repartitioned(key_serde, value_serde, name, partitions, partitioner)
        prefix = validated(given.name) if given.name is not None else self._names.processor("KSTREAM-REPARTITION-")
        if given.partitions is not None and given.partitions < 1:
            raise TopologyError(prefix, f"expected at least 1 partition, got {given.partitions}")
        key = chosen(prefix, given.key_serde) or self._place.key
        value = chosen(prefix, given.value_serde) or self._place.value
        names = repartition_names(self._place.plan, prefix)
        step = repartition_step(
            names, key, value, partitions=given.partitions, partitioner=given.partitioner, optimizable=False
        )
        added = self._place.plan.add(self._place.step, step)
        return KStream(
            replace(
                self._place,
                step=added,
                name=names.source,
                key=key,
                value=value,
                sources=frozenset({names.source}),
                rekeyed=False,
            )
        )

    def to(
        self,
        topic: str | Callable[[K, V, Any], str],
        *,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
        partitioner: Callable[[str, K, V, int], int | None] | None = None,
        name: str | None = None,
        produced: Produced | None = None,
    ) -> None:
        """Write to a topic: its name, or a function (key, value, record context) that returns it."""
        given = produced or Produced(key_serde, value_serde, partitioner, name)
        step = self._names.given_or(given.name, "KSTREAM-SINK-")
        key = chosen(step, given.key_serde) or self._place.key
        value = chosen(step, given.value_serde) or self._place.value

        def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
            topology.add_sink(step, topic, *parents, key_serde=key, value_serde=value, partitioner=given.partitioner)

        self._place.plan.add(self._place.step, Step(step, write))

    def to_table(self, *, name: str | None = None, materialized: Materialized | str | None = None) -> KTable[K, V]:
        """Take the records as a table's changes: the latest value of each key, null deletes."""
        from ottla.streams.dsl.ktable import KTable

        step = self._names.given_or(name, "KSTREAM-TOTABLE-")
        made = materialization(self._place.plan, step, materialized, "KSTREAM-TOTABLE-")
        key, value = made.key or self._place.key, made.value or self._place.value
        place = replace(self._place, key=key, value=value)
        if place.rekeyed:
            names = repartition_names(place.plan, step)
            added = place.plan.add(place.step, repartition_step(names, key, value))
            place = replace(place, step=added, name=names.source, sources=frozenset({names.source}), rekeyed=False)
        table = SourceTable(step, replace(made, key=key, value=value))

        def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
            table.write(topology, parents, op.StreamToTable(table.stored, table.sends_old))

        added = place.plan.add(place.step, Step(step, write, versioned=made.is_versioned))
        return KTable(replace(place, step=added, name=step), table)

    def group_by_key(
        self,
        *,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
        name: str | None = None,
        grouped: Grouped | None = None,
    ) -> KGroupedStream[K, V]:
        """Group by the key as it is; `name` is the repartition topic's, should the key have changed before."""
        from ottla.streams.dsl.grouped import KGroupedStream

        given = grouped or Grouped(key_serde, value_serde, name)
        step = given.name or self._place.name
        key = chosen(step, given.key_serde) or self._place.key
        value = chosen(step, given.value_serde) or self._place.value
        return KGroupedStream(replace(self._place, key=key, value=value), given.name)

    @overload
    def group_by(
        self,
        mapper: Expression,
        *,
        key_serde: SerdeLike | None = ...,
        value_serde: SerdeLike | None = ...,
        name: str | None = ...,
        grouped: Grouped | None = ...,
    ) -> KGroupedStream[Any, V]: ...

    @overload
    def group_by(
        self,
        mapper: Callable[[V], K2] | Callable[[K, V], K2],
        *,
        key_serde: SerdeLike | None = ...,
        value_serde: SerdeLike | None = ...,
        name: str | None = ...,
        grouped: Grouped | None = ...,
    ) -> KGroupedStream[K2, V]: ...

    def group_by(
        self,
        mapper: Any,
        *,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
        name: str | None = None,
        grouped: Grouped | None = None,
    ) -> KGroupedStream[Any, V]:
        """Group by a new key; the records go through a repartition topic, called `name` where it is given."""
        from ottla.streams.dsl.grouped import KGroupedStream

        given = grouped or Grouped(key_serde, value_serde, name)
        step = self._names.given_or(given.name, "KSTREAM-KEY-SELECT-")
        made = function(step, mapper, "the mapper", self._place)
        key = chosen(step, given.key_serde, made.returns)
        value = chosen(step, given.value_serde) or self._place.value
        after = self._then(step, op.SelectKey(made, key), key=key, changes_key=True)
        return KGroupedStream(replace(after._place, value=value), given.name)

    def process(
        self,
        supplier: Callable[[], Any],
        *stores: str,
        name: str | None = None,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
    ) -> KStream[Any, Any]:
        """Run a `Processor` of one's own, with the named state stores; it may forward what it likes."""
        step = self._names.processor("KSTREAM-PROCESSOR-") if name is None else validated(name)
        made = processor(step, supplier, key_serde, value_serde)
        return self._then(
            step, made, stores=stores, key=made.key, value=made.value, changes_key=True, changes_value=True
        )

    def process_values(
        self,
        supplier: Callable[[], Any],
        *stores: str,
        name: str | None = None,
        value_serde: SerdeLike | None = None,
    ) -> KStream[K, Any]:
        """Run a `FixedKeyProcessor` of one's own: it may change values, and leaves keys as they are."""
        step = self._names.processor("KSTREAM-PROCESSVALUES-") if name is None else validated(name)
        made = processor(step, supplier, None, value_serde, fixed_key=True)
        return self._then(step, made, stores=stores, value=made.value, changes_value=True)

    def _filter(self, predicate: object, name: str | None, *, negate: bool) -> KStream[K, V]:
        step = self._names.given_or(name, "KSTREAM-FILTER-")
        return self._then(
            step, op.Filter(function(step, predicate, "the predicate", self._place), negate), like_before=True
        )

    @staticmethod
    def _action(step: str, action: object) -> Function:
        made = function(step, action, "the action", None)
        if made.is_native:
            raise TopologyError(step, "expected a Python function: an expression does nothing")
        return made

    def _then(
        self,
        name: str,
        operation: Operation,
        *,
        stores: tuple[str, ...] = (),
        key: Serde | None = None,
        value: Serde | None = None,
        changes_key: bool = False,
        changes_value: bool = False,
        like_before: bool = False,
    ) -> KStream[Any, Any]:
        """Add a step; the parts of the record that it does not change keep their serdes."""
        before = self._place
        both = isinstance(operation, (op.Map, op.FlatMap)) or (changes_key and changes_value)
        told = not isinstance(operation, op.Process)  # Kafka's optimiser takes no notice of processors
        step = _step(name, operation, stores, changes_key=told and changes_key, changes_value=told and changes_value)
        return KStream(
            replace(
                before,
                step=before.plan.add(before.step, step),
                name=name,
                key=key if changes_key else before.key,
                value=before.value if like_before or not (changes_value or both) else value,
                rekeyed=before.rekeyed or changes_key,
            )
        )


def _step(
    name: str,
    operation: Operation,
    stores: tuple[str, ...] = (),
    *,
    changes_key: bool = False,
    changes_value: bool = False,
    merges: bool = False,
) -> Step:
    def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
        topology.add_operation(name, operation, parents, stores)

    return Step(name, write, changes_key=changes_key, changes_value=changes_value, merges=merges)


def _pair(step: str, mapper: object, key: object, place: Place) -> tuple[Function, Function | None]:
    """Return the function of (key, value), or the two expressions."""
    if key is None:
        made = function(step, mapper, "the mapper", place)
        if made.is_native:
            raise TopologyError(
                step, "expected two expressions, the value's and key=, or a function that returns (key, value)"
            )
        return made, None
    keys = function(step, key, "key", place)
    values = function(step, "value" if mapper is None else mapper, "the mapper", place)
    if not keys.is_native or not values.is_native:
        raise TopologyError(step, "expected two expressions, or one function that returns (key, value)")
    return values, keys


class _Printer:
    """Prints records as Kafka Streams' `Printed` does."""

    def __init__(self, label: str, write: Callable[[str], object] | None) -> None:
        self.label = label
        self.write = write

    def __call__(self, key: object, value: object) -> None:
        (self.write or print)(f"[{self.label}]: {key}, {value}")
