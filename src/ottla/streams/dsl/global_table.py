"""GlobalKTable: a topic as a table that every instance holds whole, for look-ups by any key."""

from __future__ import annotations

from typing import Generic, TypeVar

from ottla.streams.serdes.basic import Serde

__all__ = ["GlobalKTable"]

K = TypeVar("K")
V = TypeVar("V")


class GlobalKTable(Generic[K, V]):
    """Streams join with it by a key that they make of each record."""

    def __init__(self, *, store: str, queryable: bool, key_serde: Serde | None, value_serde: Serde | None) -> None:
        self.store = store
        """The name of its store."""
        self.queryable_store_name = store if queryable else None
        """The store's name where it was given, so that it can be asked; else None."""
        self.key_serde = key_serde
        self.value_serde = value_serde
