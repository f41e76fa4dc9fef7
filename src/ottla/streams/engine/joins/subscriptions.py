"""Who asked about which foreign key: the subscription store of a foreign-key join."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any

from ottla.streams.engine.blocks import Blocks
from ottla.streams.engine.interface import EngineSettings, StateBackend, StoreChange
from ottla.streams.plan.nodes import StoreSpec
from ottla.streams.serdes.internal import CombinedKeySerde

__all__ = ["SubscriptionStore"]

_LENGTH = Struct(">i")


class SubscriptionStore:
    """Questions by foreign key and primary key; those of a foreign key lie together, in the order of primary keys' bytes.

    A block's entry is `foreign key bytes -> {primary key bytes: (question's bytes, timestamp)}`.
    """

    def __init__(
        self, spec: StoreSpec, backend: StateBackend, settings: EngineSettings, memory: dict[str, int]
    ) -> None:
        self.spec = spec
        self.name = spec.name
        assert isinstance(spec.key, CombinedKeySerde)
        self._foreign_key, self._primary_key = spec.key.foreign_key.serialize, spec.key.primary_key.serialize
        self._blocks = Blocks(backend, spec.name, settings.block_entries)
        self._resident = settings.resident_entries
        self._changed: dict[tuple[bytes, bytes], int] = {}

    def put(self, foreign_key: Any, primary_key: Any, question: Any, timestamp: int) -> None:
        """Note a question; None forgets it."""
        raw: bytes = self._foreign_key(foreign_key)  # type: ignore[assignment]
        primary: bytes = self._primary_key(primary_key)  # type: ignore[assignment]
        self._set(raw, primary, None if question is None else self.spec.value.serialize(question), timestamp)
        self._changed[raw, primary] = timestamp

    def _set(self, raw: bytes, primary: bytes, data: bytes | None, timestamp: int) -> None:
        entries = self._blocks.changing(raw)
        if data is not None:
            entries.setdefault(raw, {})[primary] = (data, timestamp)
            return
        found = entries.get(raw)
        if found is not None and found.pop(primary, None) is not None and not found:
            del entries[raw]

    def of(self, foreign_key: Any) -> Iterator[Any]:
        """Return the questions about a foreign key."""
        raw: bytes = self._foreign_key(foreign_key)  # type: ignore[assignment]
        found = self._blocks.entries(raw).get(raw)
        for _, (data, _) in sorted(found.items()) if found else ():
            yield self.spec.value.deserialize(data)

    def finish(self, changes: list[StoreChange]) -> None:
        """Write the batch's updates."""
        if self.spec.logged:
            for (raw, primary), timestamp in self._changed.items():
                found = self._blocks.entries(raw).get(raw, {}).get(primary)
                key = _LENGTH.pack(len(raw)) + raw + primary
                changes.append(StoreChange(self.name, key, None if found is None else found[0], timestamp))
        self._changed.clear()
        self._blocks.write()
        self._blocks.forget(self._resident)

    def restore(self, change: StoreChange) -> None:
        """Take in a record of the changelog topic."""
        end = 4 + _LENGTH.unpack_from(change.key)[0]
        self._set(change.key[4:end], change.key[end:], change.value, change.timestamp)
