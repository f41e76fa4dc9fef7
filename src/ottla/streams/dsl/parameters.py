"""Kafka Streams' parameter objects: what a step may be told at once. Most of it can be given by keyword too.

A serde is a `Serde`, a name or a Python type; a duration is a timedelta, milliseconds or text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from ottla.streams.durations import Duration
from ottla.streams.serdes.choice import SerdeLike
from ottla.streams.stores import StoreSupplier

__all__ = [
    "Branched",
    "BufferConfig",
    "Consumed",
    "EmitStrategy",
    "Grouped",
    "Joined",
    "Materialized",
    "Named",
    "Produced",
    "Repartitioned",
    "StreamJoined",
    "Suppressed",
    "TableJoined",
]


class Named(str):
    """A name, for those who come from Java: `name=Named("x")` is `name="x"`."""


@dataclass(frozen=True, slots=True)
class Consumed:
    """How a topic is read. `offset_reset`: earliest, latest, none, or `by_duration:<ISO duration>`."""

    key_serde: SerdeLike | None = None
    value_serde: SerdeLike | None = None
    timestamp_extractor: Any = None
    offset_reset: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Produced:
    """How a topic is written. `partitioner(topic, key, value, partition_count)` returns a partition or None."""

    key_serde: SerdeLike | None = None
    value_serde: SerdeLike | None = None
    partitioner: Callable[[str, Any, Any, int], int | None] | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Grouped:
    """How records are grouped; `name` is that of the repartition topic, should one be needed."""

    key_serde: SerdeLike | None = None
    value_serde: SerdeLike | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Joined:
    """A join of a stream with a table; `grace` (KIP-923) lets records wait for a versioned table."""

    key_serde: SerdeLike | None = None
    value_serde: SerdeLike | None = None
    other_value_serde: SerdeLike | None = None
    name: str | None = None
    grace: Duration | None = None


@dataclass(frozen=True, slots=True)
class StreamJoined:
    """A join of two streams; `name` is the processors', `store_name` that of the two window stores."""

    key_serde: SerdeLike | None = None
    value_serde: SerdeLike | None = None
    other_value_serde: SerdeLike | None = None
    name: str | None = None
    store_name: str | None = None
    this_store: StoreSupplier | None = None
    other_store: StoreSupplier | None = None
    logging: bool = True
    changelog_config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableJoined:
    """A join of tables by foreign key; the partitioners are those of the left and of the right table's topics."""

    name: str | None = None
    partitioner: Callable[[str, Any, Any, int], int | None] | None = None
    other_partitioner: Callable[[str, Any, Any, int], int | None] | None = None


@dataclass(frozen=True, slots=True)
class Repartitioned:
    """A repartition topic: its name, how many partitions, and by which partitioner."""

    key_serde: SerdeLike | None = None
    value_serde: SerdeLike | None = None
    name: str | None = None
    partitions: int | None = None
    partitioner: Callable[[str, Any, Any, int], int | None] | None = None


@dataclass(frozen=True, slots=True)
class Materialized:
    """How a table is kept. With a name (or a store) it can be queried; a text is a `Materialized` of that name.

    `retention` is for windowed tables; `store` is one of `Stores`, such as a versioned one.
    """

    name: str | None = None
    key_serde: SerdeLike | None = None
    value_serde: SerdeLike | None = None
    retention: Duration | None = None
    store: StoreSupplier | None = None
    logging: bool = True
    changelog_config: Mapping[str, str] = field(default_factory=dict)
    caching: bool = True

    def __post_init__(self) -> None:
        if self.name is not None and self.store is not None:
            raise TypeError("Materialized: give a name or a store, not both")

    @property
    def store_name(self) -> str | None:
        """The given name, or the given store's."""
        return self.store.name if self.store is not None else self.name


class EmitStrategy(Enum):
    """When a windowed aggregate is emitted (KIP-825)."""

    ON_WINDOW_UPDATE = "on_window_update"
    ON_WINDOW_CLOSE = "on_window_close"

    @staticmethod
    def on_window_update() -> EmitStrategy:
        """On each update of a window."""
        return EmitStrategy.ON_WINDOW_UPDATE

    @staticmethod
    def on_window_close() -> EmitStrategy:
        """Once, when the window closes."""
        return EmitStrategy.ON_WINDOW_CLOSE


@dataclass(frozen=True, slots=True)
class BufferConfig:
    """How much `suppress` holds back. `on_full`: emit early, or stop the application."""

    max_records: int | None = None
    max_bytes: int | None = None
    on_full: str = "emit"
    logging: bool = True
    changelog_config: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def unbounded(cls) -> BufferConfig:
        """As much as there is."""
        return cls(on_full="stop")

    @classmethod
    def of_max_records(cls, count: int) -> BufferConfig:
        """So many keys; then the oldest are emitted early."""
        return cls(max_records=count)

    @classmethod
    def of_max_bytes(cls, size: int) -> BufferConfig:
        """So many bytes; then the oldest are emitted early."""
        return cls(max_bytes=size)

    def with_max_records(self, count: int) -> BufferConfig:
        """Bound the number of keys too."""
        return replace(self, max_records=count)

    def with_max_bytes(self, size: int) -> BufferConfig:
        """Bound the bytes too."""
        return replace(self, max_bytes=size)

    def emit_early_when_full(self) -> BufferConfig:
        """Emit the oldest when full."""
        return replace(self, on_full="emit")

    def shut_down_when_full(self) -> BufferConfig:
        """Stop the application when full."""
        return replace(self, on_full="stop")


@dataclass(frozen=True, slots=True)
class Suppressed:
    """What `KTable.suppress` holds back, and until when (KIP-328)."""

    until: str
    """window_close or time_limit."""
    wait: Duration = 0
    buffer: BufferConfig = field(default_factory=BufferConfig.unbounded)
    name: str | None = None

    @classmethod
    def until_window_closes(cls, buffer: BufferConfig | None = None, *, name: str | None = None) -> Suppressed:
        """Emit a window's result once, when no record can change it any more."""
        chosen = buffer or BufferConfig.unbounded()
        if chosen.on_full != "stop":
            raise ValueError(
                "until_window_closes: results are final only where the buffer stops the application when full"
            )
        return cls("window_close", 0, chosen, name)

    @classmethod
    def until_time_limit(
        cls, wait: Duration, buffer: BufferConfig | None = None, *, name: str | None = None
    ) -> Suppressed:
        """Emit the latest change of a key when `wait` has passed since the first that was held back."""
        return cls("time_limit", wait, buffer or BufferConfig.unbounded(), name)

    def with_name(self, name: str) -> Suppressed:
        """Name the processor and its store."""
        return replace(self, name=name)


@dataclass(frozen=True, slots=True)
class Branched:
    """One branch of a split: its name's ending, and what is done with it (`to(stream)`; what it returns is the branch)."""

    name: str | None = None
    to: Callable[[Any], Any] | None = None
