"""KGroupedStream: records grouped by key, on their way into a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from ottla.streams.dsl.aggregation import Aggregation, counter, folder, reducer
from ottla.streams.dsl.parameters import Materialized
from ottla.streams.dsl.steps import Place
from ottla.streams.errors import TopologyError
from ottla.streams.plan.operations import Aggregator
from ottla.streams.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows

if TYPE_CHECKING:
    from ottla.streams.dsl.cogroup import CogroupedKStream
    from ottla.streams.dsl.ktable import KTable
    from ottla.streams.dsl.windowed import SessionWindowedKStream, TimeWindowedKStream

__all__ = ["KGroupedStream"]

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


class KGroupedStream(Generic[K, V]):
    """A stream by key: count, reduce or aggregate it, as a whole or by window."""

    def __init__(self, place: Place, repartition_name: str | None) -> None:
        self._aggregation = Aggregation(place, repartition_name, shared={})

    def count(self, *, name: str | None = None, materialized: Materialized | str | None = None) -> KTable[K, int]:
        """Count the records by key."""
        if isinstance(materialized, Materialized) and materialized.store_name is None:
            self._aggregation.place.plan.names.store("KSTREAM-AGGREGATE-")  # Kafka uses a number up here
        return self._table(counter(), "KSTREAM-AGGREGATE-", name, materialized)

    def reduce(
        self, reduce: Callable[[V, V], V], *, name: str | None = None, materialized: Materialized | str | None = None
    ) -> KTable[K, V]:
        """Put a key's values together by `reduce(aggregate, value)`; the first value is the first aggregate."""
        return self._table(reducer(name or "reduce", reduce), "KSTREAM-REDUCE-", name, materialized)

    @overload
    def aggregate(
        self, initializer: Aggregator, *, name: str | None = ..., materialized: Materialized | str | None = ...
    ) -> KTable[K, Any]: ...

    @overload
    def aggregate(
        self,
        initializer: Callable[[], A] | A,
        adder: Callable[[K, V, A], A] | Callable[[V, A], A],
        *,
        name: str | None = ...,
        materialized: Materialized | str | None = ...,
    ) -> KTable[K, A]: ...

    def aggregate(
        self,
        initializer: Any,
        adder: Any = None,
        *,
        name: str | None = None,
        materialized: Materialized | str | None = None,
    ) -> KTable[K, Any]:
        """Fold a key's values: `initializer()` (or an immutable value), then `adder(key, value, aggregate)`.

        Or give a declared aggregate: `aggregate(agg.sum("value.amount"))`. The result's serde is the materialized one's,
        else the adder's return annotation, else what the initial value is of.
        """
        made = folded(name or "aggregate", initializer, adder)
        return self._table(made, "KSTREAM-AGGREGATE-", name, materialized)

    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedKStream[K, V]: ...

    @overload
    def windowed_by(self, windows: TimeWindows | SlidingWindows | UnlimitedWindows) -> TimeWindowedKStream[K, V]: ...

    def windowed_by(self, windows: Any) -> Any:
        """Aggregate by window of event time."""
        from ottla.streams.dsl.windowed import SessionWindowedKStream, TimeWindowedKStream

        windowed = replace(self._aggregation, windows=windows)
        if isinstance(windows, SessionWindows):
            return SessionWindowedKStream(windowed)
        if isinstance(windows, (TimeWindows, SlidingWindows, UnlimitedWindows)):
            return TimeWindowedKStream(windowed)
        raise TopologyError(
            "windowed_by", f"expected TimeWindows, SlidingWindows, SessionWindows or UnlimitedWindows, got {windows!r}"
        )

    def cogroup(self, adder: Callable[[K, V, A], A] | Callable[[V, A], A]) -> CogroupedKStream[K, A]:
        """Begin an aggregate of several grouped streams, each with its own `adder(key, value, aggregate)`."""
        from ottla.streams.dsl.cogroup import CogroupedKStream

        return CogroupedKStream[K, A](self._aggregation.place.plan).cogroup(self, adder)

    def _table(
        self, aggregator: Aggregator, prefix: str, name: str | None, materialized: Materialized | str | None
    ) -> KTable[Any, Any]:
        from ottla.streams.dsl.ktable import KTable

        return KTable(*self._aggregation.build(aggregator, prefix, name, materialized))


def folded(step: str, initializer: object, adder: object, merger: object | None = None) -> Aggregator:
    """Return a declared aggregate, or one of an initializer and functions."""
    if isinstance(initializer, Aggregator):
        if adder is not None or merger is not None:
            raise TopologyError(step, f"{initializer.kind} is a whole aggregate: expected no functions beside it")
        return initializer
    return folder(step, initializer, adder, merger=merger)
