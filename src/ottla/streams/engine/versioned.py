"""Versioned stores (KIP-889): what a key was at any time within the history that is kept.

A key's versions are a list of (from when, bytes or None), the latest first; None is a deletion, kept because it too was so
at a time. What is older than the history is dropped, except the one version that the history begins with.
"""

from __future__ import annotations

from typing import Any

from ottla.streams.engine.blocks import Blocks
from ottla.streams.engine.interface import EngineSettings, StateBackend, StoreChange
from ottla.streams.plan.nodes import ProcessorNode, StoreSpec
from ottla.streams.plan.operations import TableFilter, TableMapValues
from ottla.streams.plan.topology import Topology

__all__ = ["NOT_PUT", "VersionedStore", "is_versioned"]

NOT_PUT = -2
"""What `put` returns for a version that came after its time in the history (PUT_RETURN_CODE_NOT_PUT)."""
_ALWAYS = (1 << 63) - 1
Version = tuple[int, bytes | None]


def is_versioned(topology: Topology, processor: str) -> bool:
    """True for a table that knows what a row was before: kept so itself, or computed of one that is (KIP-914)."""
    found = topology.nodes[processor]
    if not isinstance(found, ProcessorNode):
        return False
    store = getattr(found.operation, "store", None)
    if store is not None:
        return topology.stores[store].kind == "versioned"
    return isinstance(found.operation, TableFilter | TableMapValues) and is_versioned(topology, found.parents[0])


class VersionedStore:
    """The kind `versioned`; `retention_ms` is its history."""

    def __init__(
        self, spec: StoreSpec, backend: StateBackend, settings: EngineSettings, memory: dict[str, int]
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self.caches = False
        self._memory = memory
        self._serialize_key = spec.key.serialize
        self.serialize = spec.value.serialize
        self.deserialize = spec.value.deserialize
        self._blocks = Blocks(backend, spec.name, settings.block_entries)
        self._resident = settings.resident_entries
        self._changes: list[StoreChange] = []

    @property
    def observed(self) -> int:
        """The latest time put, -1 before the first."""
        return self._memory.get("time", -1)

    def put(self, key: Any, value: Any, timestamp: int) -> int | None:
        """Set what a key is from a time on; return when its next begins (None: never) or NOT_PUT."""
        raw: bytes = self._serialize_key(key)  # type: ignore[assignment]
        if timestamp < self.observed - self.spec.retention_ms:
            return NOT_PUT
        if timestamp > self.observed:
            self._memory["time"] = timestamp
        data = None if value is None else self.serialize(value)
        if self.spec.logged:
            self._changes.append(StoreChange(self.name, raw, data, timestamp))
        return self._insert(raw, data, timestamp)

    def _insert(self, raw: bytes, data: bytes | None, timestamp: int) -> int | None:
        entries = self._blocks.changing(raw)
        versions: list[Version] = [each for each in entries.get(raw, ()) if each[0] != timestamp]
        at = sum(1 for each in versions if each[0] > timestamp)
        until = versions[at - 1][0] if at else None
        versions.insert(at, (timestamp, data))
        kept = self._within_history(versions)
        if kept:
            entries[raw] = kept
        else:
            entries.pop(raw, None)
        return until

    def _within_history(self, versions: list[Version]) -> list[Version]:
        """Return the versions from the one on that held when the history begins."""
        begins = self.observed - self.spec.retention_ms
        for index, (since, data) in enumerate(versions):
            if since <= begins:
                return versions[: index + (data is not None)]
        return versions

    def get(self, key: Any, as_of: int | None = None) -> tuple[Any, int] | None:
        """Return the value that a key had at a time (None: has now) and since when; None before the history begins."""
        if as_of is None:
            as_of = _ALWAYS
        raw: bytes = self._serialize_key(key)  # type: ignore[assignment]
        versions = self._blocks.entries(raw).get(raw, ())
        begins = self.observed - self.spec.retention_ms
        for index, (since, data) in enumerate(versions):
            if since <= as_of:
                if index and as_of < begins:
                    return None
                return None if data is None else (self.deserialize(data), since)
        return None

    def finish(self, changes: list[StoreChange]) -> None:
        """Write the batch's updates. Every version is a change, because a changelog must hold the history too."""
        changes += self._changes
        self._changes = []
        self._blocks.write()
        self._blocks.forget(self._resident)

    def restore(self, change: StoreChange) -> None:
        """Take in a record of the changelog topic."""
        if change.timestamp > self.observed:
            self._memory["time"] = change.timestamp
        self._insert(change.key, change.value, change.timestamp)
