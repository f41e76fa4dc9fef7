"""Grouped streams by window of event time: tumbling, hopping and sliding windows, and sessions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from ottla.streams.dsl.aggregation import Aggregation, counter, reducer
from ottla.streams.dsl.grouped import folded
from ottla.streams.dsl.parameters import EmitStrategy, Materialized
from ottla.streams.errors import TopologyError
from ottla.streams.plan.operations import Aggregator
from ottla.streams.windows import SlidingWindows, UnlimitedWindows, Windowed

if TYPE_CHECKING:
    from ottla.streams.dsl.ktable import KTable

__all__ = ["SessionWindowedKStream", "TimeWindowedKStream"]

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


class _Windowed(Generic[K, V]):
    """What windows of all kinds can do."""

    def __init__(self, aggregation: Aggregation) -> None:
        self._aggregation = aggregation

    def count(
        self, *, name: str | None = None, materialized: Materialized | str | None = None
    ) -> KTable[Windowed[K], int]:
        """Count the records by key and window."""
        burns = not isinstance(self._aggregation.windows, SlidingWindows)
        if burns and isinstance(materialized, Materialized) and materialized.store_name is None:
            self._aggregation.place.plan.names.store("KSTREAM-AGGREGATE-")  # Kafka uses a number up here
        return self._table(counter(), "KSTREAM-AGGREGATE-", name, materialized)

    def reduce(
        self, reduce: Callable[[V, V], V], *, name: str | None = None, materialized: Materialized | str | None = None
    ) -> KTable[Windowed[K], V]:
        """Put the values of a key and window together by `reduce(aggregate, value)`."""
        return self._table(reducer(name or "reduce", reduce), "KSTREAM-REDUCE-", name, materialized)

    def emit_strategy(self, strategy: EmitStrategy | str) -> Self:
        """Say when results are emitted: on each update, or once when the window closes."""
        chosen = EmitStrategy(strategy)
        if chosen is EmitStrategy.ON_WINDOW_CLOSE and isinstance(self._aggregation.windows, UnlimitedWindows):
            raise TopologyError("emit_strategy", "unlimited windows never close: expected on_window_update")
        return type(self)(replace(self._aggregation, emit=chosen))

    def _table(
        self, aggregator: Aggregator, prefix: str, name: str | None, materialized: Materialized | str | None
    ) -> KTable[Any, Any]:
        from ottla.streams.dsl.ktable import KTable

        return KTable(*self._aggregation.build(aggregator, prefix, name, materialized))


class TimeWindowedKStream(_Windowed[K, V]):
    """A grouped stream by time windows: tumbling, hopping, sliding or unlimited."""

    @overload
    def aggregate(
        self, initializer: Aggregator, *, name: str | None = ..., materialized: Materialized | str | None = ...
    ) -> KTable[Windowed[K], Any]: ...

    @overload
    def aggregate(
        self,
        initializer: Callable[[], A] | A,
        adder: Callable[[K, V, A], A] | Callable[[V, A], A],
        *,
        name: str | None = ...,
        materialized: Materialized | str | None = ...,
    ) -> KTable[Windowed[K], A]: ...

    def aggregate(
        self,
        initializer: Any,
        adder: Any = None,
        *,
        name: str | None = None,
        materialized: Materialized | str | None = None,
    ) -> KTable[Windowed[K], Any]:
        """Fold a key's values by window: `initializer()`, then `adder(key, value, aggregate)`; or a declared aggregate."""
        made = folded(name or "aggregate", initializer, adder)
        return self._table(made, "KSTREAM-AGGREGATE-", name, materialized)


class SessionWindowedKStream(_Windowed[K, V]):
    """A grouped stream by sessions."""

    @overload
    def aggregate(
        self, initializer: Aggregator, *, name: str | None = ..., materialized: Materialized | str | None = ...
    ) -> KTable[Windowed[K], Any]: ...

    @overload
    def aggregate(
        self,
        initializer: Callable[[], A] | A,
        adder: Callable[[K, V, A], A] | Callable[[V, A], A],
        merger: Callable[[K, A, A], A] | Callable[[A, A], A],
        *,
        name: str | None = ...,
        materialized: Materialized | str | None = ...,
    ) -> KTable[Windowed[K], A]: ...

    def aggregate(
        self,
        initializer: Any,
        adder: Any = None,
        merger: Any = None,
        *,
        name: str | None = None,
        materialized: Materialized | str | None = None,
    ) -> KTable[Windowed[K], Any]:
        """Fold a session's values; `merger(key, one, other)` puts two sessions together that a record joins."""
        step = name or "aggregate"
        if merger is None and not isinstance(initializer, Aggregator):
            raise TopologyError(step, "sessions need a merger(key, one, other): expected a third function")
        made = folded(step, initializer, adder, merger)
        return self._table(made, "KSTREAM-AGGREGATE-", name, materialized)
