"""What a processor does, as values. One class for each of Kafka Streams' processors.

A *stream* processor sees (key, value); a *table* processor sees changes (key, old value, new value). Function fields are
`Function`s: column expression, per-record Python, or vectorised Python.

`send_old` says that a table's processor forwards the old value too (Kafka's `sendOldValues`), because somebody downstream
asked for it; where it is False, the old value that is forwarded is null.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ottla.streams.functions import Function
from ottla.streams.serdes.basic import Serde
from ottla.streams.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows

__all__ = [
    "Aggregator",
    "Branch",
    "Filter",
    "FlatMap",
    "FlatMapValues",
    "Foreach",
    "ForeignKeyReceive",
    "ForeignKeyRegister",
    "ForeignKeyResolve",
    "ForeignKeyRespond",
    "ForeignKeyRightChanged",
    "Map",
    "MapValues",
    "NotNullKey",
    "Operation",
    "PassThrough",
    "Peek",
    "Process",
    "SelectKey",
    "SessionAggregate",
    "StreamAggregate",
    "StreamGlobalJoin",
    "StreamStreamJoin",
    "StreamTableJoin",
    "StreamToTable",
    "Suppress",
    "TableAggregate",
    "TableFilter",
    "TableJoin",
    "TableJoinMerge",
    "TableMapValues",
    "TablePassThrough",
    "TableProcess",
    "TableRegroup",
    "TableSource",
    "TableToStream",
    "WindowAggregate",
    "WindowStore",
]


# -- streams, without state


@dataclass(frozen=True, slots=True)
class Filter:
    """Forward records for which the predicate holds (does not hold, where `negate`)."""

    predicate: Function
    negate: bool = False


@dataclass(frozen=True, slots=True)
class NotNullKey:
    """What stands before a repartition topic: drops records without a key, unless a join behind it takes them (KIP-962)."""

    drop: bool = True


@dataclass(frozen=True, slots=True)
class MapValues:
    """Replace the value. `value` is the serde of the result, where it is known."""

    mapper: Function
    value: Serde | None = None


@dataclass(frozen=True, slots=True)
class Map:
    """Replace key and value: Python returns (key, value); natively two expressions, `key_mapper` and `mapper`."""

    mapper: Function
    key_mapper: Function | None = None
    key: Serde | None = None
    value: Serde | None = None


@dataclass(frozen=True, slots=True)
class SelectKey:
    """Replace the key."""

    mapper: Function
    key: Serde | None = None


@dataclass(frozen=True, slots=True)
class FlatMap:
    """Forward every (key, value) of the iterable that the mapper returns; Python only."""

    mapper: Function
    key: Serde | None = None
    value: Serde | None = None


@dataclass(frozen=True, slots=True)
class FlatMapValues:
    """Forward a record for every value of the iterable (natively: of the array) that the mapper returns."""

    mapper: Function
    value: Serde | None = None


@dataclass(frozen=True, slots=True)
class Peek:
    """Call an action for each record and forward it."""

    action: Function


@dataclass(frozen=True, slots=True)
class Foreach:
    """Call an action for each record; forwards nothing."""

    action: Function


@dataclass(frozen=True, slots=True)
class PassThrough:
    """Forward what comes: merge, the branches of a split, the two sides of a join."""


@dataclass(frozen=True, slots=True)
class Branch:
    """Forward each record to the child of the first predicate that holds; the last child may be a default without one."""

    predicates: tuple[Function | None, ...]
    children: tuple[str, ...]


# -- aggregation


@dataclass(frozen=True, slots=True)
class Aggregator:
    """How an aggregate comes about.

    `kind` names one that every engine knows: count, sum, min, max, avg, first, last, collect_list, collect_set, reduce,
    aggregate. `argument` is what it is taken over (None: the value). For reduce, `adder(aggregate, value)`; for aggregate,
    `initializer()`, `adder(key, value, aggregate)`; tables add `subtractor`; sessions `merger(key, one, other)`.
    """

    kind: str
    """For kinds other than reduce and aggregate the result is theirs: `count` an int, `avg` a float or None."""
    argument: Function | None = None
    initializer: Callable[[], Any] | None = None
    adder: Callable[..., Any] | None = None
    subtractor: Callable[..., Any] | None = None
    merger: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True)
class StreamAggregate:
    """KStreamAggregate, KStreamReduce: by key."""

    store: str
    aggregator: Aggregator
    send_old: bool = False


@dataclass(frozen=True, slots=True)
class WindowAggregate:
    """KStreamWindowAggregate, KStreamSlidingWindowAggregate: by key and window."""

    store: str
    aggregator: Aggregator
    windows: TimeWindows | SlidingWindows | UnlimitedWindows
    on_close: bool = False
    """Emit once, when the window closes (KIP-825)."""
    send_old: bool = False


@dataclass(frozen=True, slots=True)
class SessionAggregate:
    """KStreamSessionWindowAggregate."""

    store: str
    aggregator: Aggregator
    windows: SessionWindows
    on_close: bool = False
    send_old: bool = False


# -- tables


@dataclass(frozen=True, slots=True)
class TableSource:
    """KTableSource: a topic's records become a table's changes. `store` is None where nobody needs the table itself."""

    store: str | None
    send_old: bool = False


@dataclass(frozen=True, slots=True)
class StreamToTable:
    """KStream.toTable."""

    store: str | None
    send_old: bool = False


@dataclass(frozen=True, slots=True)
class TableFilter:
    """KTableFilter: rows that fail the predicate are deleted; kept in `store` where it is materialized."""

    predicate: Function
    negate: bool = False
    store: str | None = None
    send_old: bool = False


@dataclass(frozen=True, slots=True)
class TableMapValues:
    """KTableMapValues."""

    mapper: Function
    store: str | None = None
    value: Serde | None = None
    send_old: bool = False


@dataclass(frozen=True, slots=True)
class TableRegroup:
    """KTableRepartitionMap: forward a change under another key: subtraction under the old one, addition under the new.

    The mapper returns (key, value); natively two expressions.
    """

    mapper: Function
    key_mapper: Function | None = None
    key: Serde | None = None
    value: Serde | None = None


@dataclass(frozen=True, slots=True)
class TableAggregate:
    """KTableAggregate, KTableReduce: with adder and subtractor."""

    store: str
    aggregator: Aggregator
    send_old: bool = False


@dataclass(frozen=True, slots=True)
class TableJoin:
    """One side of a primary-key join: a change of this table meets the other's current value."""

    other: str
    """The processor whose table is looked up."""
    joiner: Function
    """Called with (left, right) on both sides."""
    kind: str
    """inner, left, outer."""
    is_left: bool
    send_old: bool = False


@dataclass(frozen=True, slots=True)
class TableJoinMerge:
    """KTableKTableJoinMerger: puts both sides' results into the joined table."""

    store: str | None = None
    send_old: bool = False


@dataclass(frozen=True, slots=True)
class TablePassThrough:
    """KTablePassThrough: what the aggregates of a cogroup have in common; forwards their changes."""

    store: str


@dataclass(frozen=True, slots=True)
class TableProcess:
    """KTableTransformValues: a fixed-key processor over a table's values; `store` holds the results where materialized."""

    supplier: Callable[[], Any]
    store: str | None = None
    value: Serde | None = None
    send_old: bool = False


@dataclass(frozen=True, slots=True)
class TableToStream:
    """KTable.toStream: changes become records, deletions null values. A key mapper is a SelectKey of its own."""


@dataclass(frozen=True, slots=True)
class Suppress:
    """KTable.suppress (KIP-328)."""

    until: str
    """window_close or time_limit."""
    wait_ms: int = 0
    """How long after its own time (window_close: after its window's end) a change waits."""
    max_records: int | None = None
    max_bytes: int | None = None
    on_full: str = "emit"
    """emit, or stop: stop the application."""
    store: str | None = None


# -- joins of streams


@dataclass(frozen=True, slots=True)
class WindowStore:
    """KStreamJoinWindow: note a record for the other side to find, and forward it."""

    store: str


@dataclass(frozen=True, slots=True)
class StreamStreamJoin:
    """One side of a windowed join; `own` and `other` are the two sides' window stores."""

    own: str
    other: str
    joiner: Function
    windows: JoinWindows
    kind: str
    """inner, left, outer."""
    is_left: bool
    outer_store: str | None = None
    """Where records wait that have not met a partner (left and outer)."""


@dataclass(frozen=True, slots=True)
class StreamTableJoin:
    """Look up the record's key in a table of the same partition; `kind`: inner, left."""

    table: str
    """The processor whose table is looked up."""
    joiner: Function
    kind: str
    grace_ms: int | None = None
    """How long a record waits for the (versioned) table to catch up (KIP-923); None: it does not."""
    buffer_store: str | None = None
    """Where records wait."""


@dataclass(frozen=True, slots=True)
class StreamGlobalJoin:
    """Look up a key made of the record in a table that every instance holds whole; `kind`: inner, left."""

    store: str
    key_mapper: Function
    joiner: Function
    kind: str


# -- joins of tables by foreign key (KIP-213)


@dataclass(frozen=True, slots=True)
class ForeignKeyRegister:
    """Left table's change → subscription (and unsubscription) sent to the foreign key's partition.

    Forwards (foreign key, `internal_serdes.Subscription`); `value` is the left value's serde, whose bytes are hashed.
    """

    extractor: Function
    kind: str
    """inner, left."""
    value: Serde | None = None


@dataclass(frozen=True, slots=True)
class ForeignKeyReceive:
    """SubscriptionReceiveProcessor: note the subscription in `subscriptions`, forward its change under the combined key."""

    subscriptions: str


@dataclass(frozen=True, slots=True)
class ForeignKeyRespond:
    """SubscriptionJoinProcessor: a subscription meets the right table's current value; forwards (primary key, Response)."""

    right: str
    """The right table's processor."""


@dataclass(frozen=True, slots=True)
class ForeignKeyRightChanged:
    """ForeignTableJoinProcessor: the right table's change is sent to every subscriber, as (primary key, Response)."""

    subscriptions: str


@dataclass(frozen=True, slots=True)
class ForeignKeyResolve:
    """ResponseJoinProcessor: a response is joined with the left row, unless that has changed since it asked."""

    left: str
    """The left table's processor."""
    joiner: Function
    kind: str
    value: Serde | None = None
    """The left value's serde: its bytes' hash must be the response's."""
    register: str = ""
    """The node that asks: it knows which rows have a foreign key."""


# -- processors of one's own


@dataclass(frozen=True, slots=True)
class Process:
    """A processor of the user's: `supplier()` returns one per partition. `fixed_key`: process_values."""

    supplier: Callable[[], Any]
    """Makes a `processor_api.Processor` or `FixedKeyProcessor`."""
    fixed_key: bool = False
    key: Serde | None = None
    value: Serde | None = None


Operation = (
    Filter
    | NotNullKey
    | MapValues
    | Map
    | SelectKey
    | FlatMap
    | FlatMapValues
    | Peek
    | Foreach
    | PassThrough
    | Branch
    | StreamAggregate
    | WindowAggregate
    | SessionAggregate
    | TableSource
    | StreamToTable
    | TableFilter
    | TableMapValues
    | TableRegroup
    | TableAggregate
    | TableJoin
    | TableJoinMerge
    | TablePassThrough
    | TableProcess
    | TableToStream
    | Suppress
    | WindowStore
    | StreamStreamJoin
    | StreamTableJoin
    | StreamGlobalJoin
    | ForeignKeyRegister
    | ForeignKeyReceive
    | ForeignKeyRespond
    | ForeignKeyRightChanged
    | ForeignKeyResolve
    | Process
)
