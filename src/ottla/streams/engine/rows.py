"""Tables whose keys hold several rows each: windows by start, sessions by end and start, subscriptions by primary key.

All rows of a key lie in one block, in a dictionary by *place*: an integer or a tuple of integers and bytes, whatever marshal
can write and `sorted` can order. Entries are as in `stores`, with one field more::

    [value, timestamp, before, turn, key, headers, place]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from ottla.streams.engine.blocks import NEVER, Blocks
from ottla.streams.engine.interface import EngineSettings, Headers, StateBackend, StoreChange
from ottla.streams.engine.values import Raw, is_fixed
from ottla.streams.plan.nodes import StoreSpec

__all__ = ["Entry", "Place", "Rows"]

Entry = list[Any]
Place = Any


class Rows:
    """The rows of a store's keys. `time_of(place)` tells when a row lies, for expiry; None where rows do not expire."""

    def __init__(
        self,
        spec: StoreSpec,
        backend: StateBackend,
        settings: EngineSettings,
        time_of: Callable[[Place], int] | None = None,
    ) -> None:
        self.live: dict[bytes, dict[Place, Entry]] = {}
        """What this batch touched; cleared in place at its end."""
        self.flushed = False
        """Whether a processor forwards the updates of a batch."""
        self.turn: Callable[[], int] = count(1).__next__
        self.serialize_key = spec.key.serialize
        self.deserialize_key = spec.key.deserialize
        self.serialize = spec.value.serialize
        self.deserialize = spec.value.deserialize
        self._spec = spec
        self._time_of = time_of
        self._blocks = Blocks(backend, spec.name, settings.block_entries)
        self._resident = settings.resident_entries

    def entry(self, raw: bytes, place: Place, key: Any) -> Entry:
        """Return a row's entry; [None, -1, ...] where there is no such row."""
        rows = self.live.get(raw)
        if rows is None:
            rows = self.live[raw] = {}
        entry = rows.get(place)
        if entry is None:
            stored = self._blocks.entries(raw).get(raw)
            found = None if stored is None else stored.get(place)
            if found is None:
                entry = [None, -1, None, 0, key, (), place]
            else:
                data, timestamp = found
                entry = [self.deserialize(data), timestamp, data, 0, key, (), place]
            rows[place] = entry
        return entry

    def value_of(self, entry: Entry) -> Any:
        """Return an entry's value, for a reader who may do with it what he likes."""
        value = entry[0]
        if type(value) is Raw:
            return self.deserialize(bytes(value))
        if is_fixed(value):
            return value
        return self.deserialize(self.serialize(value) if entry[3] else entry[2])

    def before(self, entry: Entry) -> Any:
        """Return the value that an entry had before the batch."""
        return None if entry[2] is None else self.deserialize(entry[2])

    def set(self, entry: Entry, value: Any, timestamp: int, headers: Headers = ()) -> None:
        """Set a row's value; None deletes it."""
        entry[0] = value if is_fixed(value) else Raw(self.serialize(value) or b"")
        entry[1] = timestamp
        entry[3] = self.turn()
        entry[5] = headers

    def range(self, raw: bytes, low: Place, high: Place, key: Any) -> list[Entry]:
        """Return a key's rows with `low` <= place <= `high`, in the order of their places."""
        places = self._places(raw, low, high)
        entries = (self.entry(raw, place, key) for place in places)
        return [each for each in entries if each[0] is not None]

    def _places(self, raw: bytes, low: Place, high: Place) -> list[Place]:
        stored = self._blocks.entries(raw).get(raw)
        live = self.live.get(raw)
        places = [] if stored is None else [place for place in stored if low <= place <= high]
        if live:
            places += [place for place in live if low <= place <= high and (stored is None or place not in stored)]
        places.sort()
        return places

    def all(self) -> Iterator[tuple[bytes, Entry]]:
        """Return every row, by key bytes and place; loads all blocks."""
        keys = {raw for raw, _ in self._blocks.items()} | set(self.live)
        for raw in sorted(keys):
            key = self.deserialize_key(raw)
            stored = self._blocks.entries(raw).get(raw) or {}
            for place in sorted({*stored, *self.live.get(raw, ())}):
                entry = self.entry(raw, place, key)
                if entry[0] is not None:
                    yield raw, entry

    def updated(self) -> list[Entry]:
        """Return the entries that were updated in this batch, in the order of their last update."""
        found = [entry for rows in self.live.values() for entry in rows.values() if entry[3]]
        found.sort(key=lambda each: each[3])
        return found

    def finish(
        self, changes: list[StoreChange], changelog_key: Callable[[bytes, Place], bytes], expired_before: int
    ) -> None:
        """Put updates into their blocks, drop expired rows, write, and say what changed."""
        name, logged, blocks, time_of = self._spec.name, self._spec.logged, self._blocks, self._time_of
        for raw, rows in self.live.items():
            stored: dict[Place, Any] | None = None
            for place, entry in rows.items():
                if entry[3] < 1:
                    continue
                if stored is None:
                    stored = blocks.changing(raw).setdefault(raw, {})
                value = entry[0]
                data = bytes(value) if type(value) is Raw else self.serialize(value)
                if data is None:
                    stored.pop(place, None)
                else:
                    stored[place] = (data, entry[1])
                    if time_of is not None:
                        blocks.note_time(raw, time_of(place))
                if logged:
                    changes.append(StoreChange(name, changelog_key(raw, place), data, entry[1]))
            if stored is not None and not stored:
                blocks.changing(raw).pop(raw, None)
        self.live.clear()
        if time_of is not None:
            self._expire(time_of, expired_before)
        blocks.write()
        blocks.forget(self._resident)

    def _expire(self, time_of: Callable[[Place], int], before: int) -> None:
        """Drop rows whose time is earlier than `before`, in blocks that are known to hold some."""
        for block in self._blocks:
            if block.earliest >= before:
                continue
            entries, earliest = self._blocks.load(block), NEVER
            for raw, rows in tuple(entries.items()):
                old = [place for place in rows if time_of(place) < before]
                for place in old:
                    del rows[place]
                if rows:
                    earliest = min(earliest, min(map(time_of, rows)))
                else:
                    del entries[raw]
                block.dirty = block.dirty or bool(old)
            self._blocks.set_earliest(block, earliest)

    def restore(self, raw: bytes, place: Place, change: StoreChange) -> None:
        """Take in a record of the changelog topic."""
        entries = self._blocks.changing(raw)
        rows = entries.setdefault(raw, {})
        if change.value is None:
            rows.pop(place, None)
            if not rows:
                del entries[raw]
            return
        rows[place] = (change.value, change.timestamp)
        if self._time_of is not None:
            self._blocks.note_time(raw, self._time_of(place))
