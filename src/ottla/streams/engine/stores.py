"""Key-value stores: what a table keeps by key, with the timestamp of each value.

An *entry* is what a batch touched: a list, because the loops that change it run once per record::

    [value, timestamp, before, turn, key, headers]

`value` None is a deleted or missing row. `before` is the value's bytes before the batch (or before the last flush of the
cache), None where there was none. `turn` is 0 for an entry that was only read, else the number of its last update: caches
are flushed in that order, as Kafka's are. Entries live until the end of the batch; blocks hold `key -> (bytes, timestamp)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from operator import itemgetter
from typing import Any

from ottla.streams.engine.blocks import Blocks
from ottla.streams.engine.buffers import SuppressBuffer
from ottla.streams.engine.column_records import ChangeColumns
from ottla.streams.engine.interface import EngineSettings, Headers, StateBackend, StoreChange
from ottla.streams.engine.joins.stores import JoinStore
from ottla.streams.engine.values import Raw, is_fixed, serialize_all
from ottla.streams.engine.versioned import VersionedStore
from ottla.streams.engine.window_stores import SessionStore, WindowStore
from ottla.streams.plan.nodes import StoreSpec

__all__ = ["AnyStore", "Entry", "KeyValueStore"]

Entry = list[Any]


class KeyValueStore:
    """Kafka's key_value and timestamped_key_value stores."""

    def __init__(self, spec: StoreSpec, backend: StateBackend, settings: EngineSettings) -> None:
        self.spec = spec
        self.name = spec.name
        self.caches = spec.cached
        self.live: dict[bytes, Entry] = {}
        """What this batch touched, by the key's bytes; cleared in place at its end."""
        self.flushed = False
        """Whether a processor forwards the updates of a batch."""
        self.turn: Callable[[], int] = count(1).__next__
        self.serialize_key = spec.key.serialize
        self.deserialize_key = spec.key.deserialize
        self.serialize = spec.value.serialize
        self.deserialize = spec.value.deserialize
        self._blocks = Blocks(backend, spec.name, settings.block_entries)
        self._resident = settings.resident_entries
        self._columns_from = settings.column_rows_min

    def entry(self, raw: bytes, key: Any) -> Entry:
        """Return the entry of a key that `live` does not hold yet."""
        found = self._blocks.entries(raw).get(raw)
        if found is None:
            entry: Entry = [None, -1, None, 0, key, ()]
        else:
            data, timestamp = found
            entry = [self.deserialize(data), timestamp, data, 0, key, ()]
        self.live[raw] = entry
        return entry

    def find(self, key: Any) -> Entry:
        """Return a key's entry."""
        raw: bytes = self.serialize_key(key)  # type: ignore[assignment]
        found = self.live.get(raw)
        return found if found is not None else self.entry(raw, key)

    def value_of(self, entry: Entry) -> Any:
        """Return an entry's value, for a reader who may do with it what he likes."""
        value = entry[0]
        if type(value) is Raw:
            return self.deserialize(bytes(value))
        if is_fixed(value):
            return value
        return self.deserialize(self.serialize(value) if entry[3] else entry[2])

    def before(self, entry: Entry) -> Any:
        """Return the value that an entry had before the batch, or before the last flush."""
        return None if entry[2] is None else self.deserialize(entry[2])

    def get(self, key: Any) -> tuple[Any, int] | None:
        """Return a key's value and timestamp, or None."""
        entry = self.find(key)
        return None if entry[0] is None else (self.value_of(entry), entry[1])

    def put(self, key: Any, value: Any, timestamp: int, headers: Headers = ()) -> Entry:
        """Set a key's value; None deletes it."""
        entry = self.find(key)
        entry[0] = value if is_fixed(value) else Raw(self.serialize(value) or b"")
        entry[1] = timestamp
        entry[3] = self.turn()
        entry[4] = key
        entry[5] = headers
        return entry

    def updated(self) -> list[Entry]:
        """Return the entries that were updated in this batch, in the order of their last update."""
        return sorted([each for each in self.live.values() if each[3]], key=itemgetter(3))

    def scan(self, low: bytes | None = None, high: bytes | None = None) -> Iterator[tuple[bytes, Any, int]]:
        """Return (key bytes, value, timestamp) in the order of the keys' bytes, `low` <= key <= `high`."""
        found: dict[bytes, tuple[Any, int] | None] = dict.fromkeys(self.live)
        keys = {raw for raw, _ in self._blocks.items()} | set(found)
        for raw in sorted(keys):
            if (low is None or raw >= low) and (high is None or raw <= high):
                entry = self.live.get(raw) or self.entry(raw, self.deserialize_key(raw))
                if entry[0] is not None:
                    yield raw, self.value_of(entry), entry[1]

    def approximate_count(self) -> int:
        """Return how many keys have a value."""
        return sum(1 for _ in self.scan())

    def finish(self, changes: list[Any]) -> None:
        """Put the batch's updates into their blocks, write those, and say what changed."""
        if 0 < self._columns_from <= len(self.live):
            self._finish_columns(changes)
        else:
            self._finish_each(changes)
        self.live.clear()
        self._blocks.write()
        self._blocks.forget(self._resident)

    def _finish_columns(self, changes: list[Any]) -> None:
        updated = [(raw, entry) for raw, entry in self.live.items() if entry[3] > 0]
        keys, times = [raw for raw, _ in updated], [entry[1] for _, entry in updated]
        values = serialize_all(self.spec.value, [entry[0] for _, entry in updated])
        changing = self._blocks.changing
        for raw, data, timestamp in zip(keys, values, times, strict=True):
            if data is None:
                changing(raw).pop(raw, None)
            else:
                changing(raw)[raw] = (data, timestamp)
        if self.spec.logged and keys:
            changes.append(ChangeColumns(self.name, keys, values, times))

    def _finish_each(self, changes: list[Any]) -> None:
        name, logged, changing, serialize = self.name, self.spec.logged, self._blocks.changing, self.serialize
        new = tuple.__new__  # a named tuple's own constructor takes twice as long
        for raw, entry in self.live.items():
            if entry[3] < 1:
                continue
            value, timestamp = entry[0], entry[1]
            data = bytes(value) if type(value) is Raw else serialize(value)
            if data is None:
                changing(raw).pop(raw, None)
            else:
                changing(raw)[raw] = (data, timestamp)
            if logged:
                changes.append(new(StoreChange, (name, raw, data, timestamp, ())))

    def restore(self, change: StoreChange) -> None:
        """Take in a record of the changelog topic."""
        entries = self._blocks.changing(change.key)
        if change.value is None:
            entries.pop(change.key, None)
        else:
            entries[change.key] = (change.value, change.timestamp)


AnyStore = KeyValueStore | WindowStore | SessionStore | SuppressBuffer | VersionedStore | JoinStore
