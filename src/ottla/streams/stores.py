"""State stores of one's own, and the kinds that a table may be kept in: `Stores`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ottla.streams.durations import Duration, milliseconds
from ottla.streams.plan.names import validated
from ottla.streams.plan.nodes import StoreSpec
from ottla.streams.serdes.choice import SerdeLike, serde_of

__all__ = ["StoreBuilder", "StoreSupplier", "Stores"]


@dataclass(frozen=True, slots=True)
class StoreSupplier:
    """A store without serdes. `kind`: key_value, window, session, versioned."""

    name: str
    kind: str
    retention_ms: int = -1
    window_size_ms: int = -1
    retain_duplicates: bool = False


@dataclass(frozen=True, slots=True)
class StoreBuilder:
    """A store with serdes and its changelog; immutable: each `with_…` returns another."""

    supplier: StoreSupplier
    kind: str
    key_serde: SerdeLike
    value_serde: SerdeLike
    logging: bool = True
    changelog_config: Mapping[str, str] = field(default_factory=dict)
    caching: bool = False

    @property
    def name(self) -> str:
        """The store's name."""
        return self.supplier.name

    def with_logging_enabled(self, config: Mapping[str, str] | None = None) -> StoreBuilder:
        """Keep a changelog topic, with these topic configs."""
        return replace(self, logging=True, changelog_config=dict(config or {}))

    def with_logging_disabled(self) -> StoreBuilder:
        """Keep no changelog topic: the state is gone with the checkpoint."""
        return replace(self, logging=False)

    def with_caching_enabled(self) -> StoreBuilder:
        """Forward coalesced updates."""
        return replace(self, caching=True)

    def with_caching_disabled(self) -> StoreBuilder:
        """Forward every update."""
        return replace(self, caching=False)

    def spec(self, *, is_global: bool = False) -> StoreSpec:
        """Return the store as it stands in a topology."""
        step = f"store {self.name}"
        return StoreSpec(
            validated(self.name),
            self.kind,
            serde_of(self.key_serde, step),
            serde_of(self.value_serde, step),
            retention_ms=self.supplier.retention_ms,
            window_size_ms=self.supplier.window_size_ms,
            retain_duplicates=self.supplier.retain_duplicates,
            logged=self.logging and not is_global,
            cached=self.caching,
            changelog_config=self.changelog_config,
            is_global=is_global,
        )


class Stores:
    """Kafka's `Stores`: suppliers (`key_value`, `window`, `session`, `versioned`) and builders for processors.

    Whether a store lies in memory or on disk is the engine's business, so Kafka's persistent and in-memory ones are one.
    """

    @staticmethod
    def key_value(name: str) -> StoreSupplier:
        """A store of values by key."""
        return StoreSupplier(name, "key_value")

    @staticmethod
    def versioned(name: str, history_retention: Duration) -> StoreSupplier:
        """A store that remembers older values for so long (KIP-889)."""
        return StoreSupplier(name, "versioned", milliseconds(history_retention, f"store {name}: history_retention"))

    @staticmethod
    def window(
        name: str, *, retention: Duration, window_size: Duration, retain_duplicates: bool = False
    ) -> StoreSupplier:
        """A store of values by key and window."""
        kept, size = (
            milliseconds(retention, f"store {name}: retention"),
            milliseconds(window_size, f"store {name}: window_size"),
        )
        if size > kept:
            raise ValueError(f"store {name}: expected a retention of at least the window size {size} ms, got {kept} ms")
        return StoreSupplier(name, "window", kept, size, retain_duplicates)

    @staticmethod
    def session(name: str, *, retention: Duration) -> StoreSupplier:
        """A store of values by key and session."""
        return StoreSupplier(name, "session", milliseconds(retention, f"store {name}: retention"))

    @staticmethod
    def key_value_store(supplier: StoreSupplier | str, key_serde: SerdeLike, value_serde: SerdeLike) -> StoreBuilder:
        """Values by key."""
        return StoreBuilder(_supplier(supplier, "key_value"), "key_value", key_serde, value_serde)

    @staticmethod
    def timestamped_key_value_store(
        supplier: StoreSupplier | str, key_serde: SerdeLike, value_serde: SerdeLike
    ) -> StoreBuilder:
        """Values with timestamps by key."""
        return StoreBuilder(_supplier(supplier, "key_value"), "timestamped_key_value", key_serde, value_serde)

    @staticmethod
    def versioned_store(supplier: StoreSupplier, key_serde: SerdeLike, value_serde: SerdeLike) -> StoreBuilder:
        """Values by key and time."""
        return StoreBuilder(_supplier(supplier, "versioned"), "versioned", key_serde, value_serde)

    @staticmethod
    def window_store(supplier: StoreSupplier, key_serde: SerdeLike, value_serde: SerdeLike) -> StoreBuilder:
        """Values by key and window."""
        return StoreBuilder(_supplier(supplier, "window"), "window", key_serde, value_serde)

    @staticmethod
    def timestamped_window_store(supplier: StoreSupplier, key_serde: SerdeLike, value_serde: SerdeLike) -> StoreBuilder:
        """Values with timestamps by key and window."""
        return StoreBuilder(_supplier(supplier, "window"), "timestamped_window", key_serde, value_serde)

    @staticmethod
    def session_store(supplier: StoreSupplier, key_serde: SerdeLike, value_serde: SerdeLike) -> StoreBuilder:
        """Values by key and session."""
        return StoreBuilder(_supplier(supplier, "session"), "session", key_serde, value_serde)


def _supplier(given: StoreSupplier | str, kind: str) -> StoreSupplier:
    supplier = StoreSupplier(given, kind) if isinstance(given, str) else given
    if supplier.kind != kind:
        raise ValueError(f"store {supplier.name}: expected a {kind} store, got a {supplier.kind} store")
    return supplier
