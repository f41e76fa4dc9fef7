"""Window and session stores, with Kafka's changelog keys (WindowKeySchema, SessionKeySchema) and expiry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from struct import Struct
from typing import Any

from ottla.streams.engine.interface import EngineSettings, Headers, StateBackend, StoreChange
from ottla.streams.engine.rows import Entry, Rows
from ottla.streams.engine.time_index import TimeIndex
from ottla.streams.errors import SerializationError
from ottla.streams.plan.nodes import StoreSpec
from ottla.streams.windows import Windowed

__all__ = ["MAX_TIME", "SessionStore", "WindowStore"]

MAX_TIME = (1 << 63) - 1
"""Java's Long.MAX_VALUE: the end of windows that never end."""
NOTHING_TOLD = -1 << 62
"""Before every time: no window was told when it closed."""
_WINDOW = Struct(">qi")
_SESSION = Struct(">qq")
_SEQUENCE_MASK = 0x7FFFFFFF
_SEGMENT_MS_MIN = 60_000


class _Observed:
    """The latest time put into a store, from batch to batch: rows expire by it."""

    def __init__(self, memory: dict[str, int], retention_ms: int) -> None:
        self._memory = memory
        self._retention_ms = retention_ms
        self.time = memory.get("time", -1)

    def note(self, time: int) -> None:
        if time > self.time:
            self.time = self._memory["time"] = time

    def takes(self, time: int) -> bool:
        """Return whether a row of that time is taken: also one that cannot be read any more, if it is not too old.

        Kafka's RocksDB stores drop whole segments of time (half the retention, at least a minute), so that an update that
        comes just after a row has expired is forwarded and logged.
        """
        if self._retention_ms < 0:
            return True
        segment = max(self._retention_ms // 2, _SEGMENT_MS_MIN)
        return time // segment >= max(0, self.time - self._retention_ms) // segment

    @property
    def earliest(self) -> int:
        """The earliest time that has not expired."""
        return self.time - self._retention_ms + 1 if self._retention_ms >= 0 else -MAX_TIME


def _first(place: tuple[int, ...]) -> int:
    return place[0]


def _same(place: int) -> int:
    return place


def _place(store: str, form: Struct, key: bytes) -> tuple[int, int]:
    """The numbers at the end of a changelog's key; raises SerializationError for a key that is none of such a store's."""
    if len(key) < form.size:
        raise SerializationError(f"store {store}: its changelog has a key of {len(key)} bytes, which is no window's")
    first, second = form.unpack(key[-form.size :])
    return first, second


class _TimedStore:
    """What stores by time have in common: entries by key and place, and an index of what is still to close."""

    def __init__(
        self,
        spec: StoreSpec,
        backend: StateBackend,
        settings: EngineSettings,
        memory: dict[str, int],
        start_of: Callable[[Any], int],
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self.caches = spec.cached
        self.rows = Rows(spec, backend, settings, start_of)
        self.observed = _Observed(memory, spec.retention_ms)
        self._told = memory
        self._backend = backend
        self._limit = settings.block_entries
        self._times: TimeIndex | None = None

    @property
    def times(self) -> TimeIndex:
        """What is still to be told when it closes, by its time; made by who uses it."""
        if self._times is None:
            self._times = TimeIndex(self._backend, self.name, self._limit)
        return self._times

    def pop_closed(self, bound: int) -> Iterator[tuple[int, Any]]:
        """Take out and return what is to be told with times up to `bound`, in order; that much is remembered as told."""
        self._told["told"] = max(bound, self._told.get("told", NOTHING_TOLD))
        return self.times.pop_until(bound)

    def forget_told(self) -> None:
        """Forget what was told already, in a store that is older than what the task remembers."""
        if self._times is not None:
            for _ in self._times.pop_until(self._told.get("told", NOTHING_TOLD)):
                pass

    def _restore_time(self, time: int, member: Any, *, is_there: bool) -> None:
        """Have a row that was restored be told when it closes, where that is still to come."""
        if self._times is not None and time > self._told.get("told", NOTHING_TOLD):
            (self._times.add if is_there else self._times.discard)(time, member)

    def key_bytes(self, key: Any) -> bytes:
        """Return a key's bytes."""
        return self.rows.serialize_key(key)  # type: ignore[return-value]


class WindowStore(_TimedStore):
    """Kafka's window and timestamped_window stores: a place is a window's start, and a number with retain_duplicates.

    Its times are those of windows: key bytes by start.
    """

    def __init__(
        self, spec: StoreSpec, backend: StateBackend, settings: EngineSettings, memory: dict[str, int]
    ) -> None:
        super().__init__(spec, backend, settings, memory, _first if spec.retain_duplicates else _same)
        self.duplicates = spec.retain_duplicates
        self._memory = memory
        self._next = count(memory.get("sequence", 0) + 1).__next__

    def end_of(self, start: int) -> int:
        """Return a window's end by its start."""
        return min(start + self.spec.window_size_ms, MAX_TIME) if self.spec.window_size_ms >= 0 else MAX_TIME

    def windowed(self, entry: Entry) -> Windowed[Any]:
        """Return what an entry is keyed by."""
        place = entry[6]
        start = place[0] if self.duplicates else place
        return Windowed(entry[4], start, self.end_of(start))

    def put(self, key: Any, value: Any, start: int, *, timestamp: int, headers: Headers = ()) -> None:
        """Set (with retain_duplicates: add) what a key has at a time; None deletes, and is no duplicate."""
        if self.duplicates and value is None:
            return
        self.observed.note(start)
        if not self.observed.takes(start):
            return
        place: Any = start
        if self.duplicates:
            number = self._memory["sequence"] = self._next() & _SEQUENCE_MASK
            place = (start, number)
        entry = self.rows.entry(self.key_bytes(key), place, key)
        self.rows.set(entry, value, timestamp, headers)

    def fetch(self, key: Any, start: int) -> tuple[Any, int] | None:
        """Return the value and timestamp of a key's window; not for stores that retain duplicates."""
        entry = self.rows.entry(self.key_bytes(key), start, key)
        return None if entry[0] is None or start < self.observed.earliest else (self.rows.value_of(entry), entry[1])

    def fetch_range(self, key: Any, low: int, high: int) -> list[tuple[int, Any, int]]:
        """Return (start, value, timestamp) of a key's rows with `low` <= start <= `high`, in their order."""
        low = max(low, self.observed.earliest)
        bounds: tuple[Any, Any] = ((low, -1), (high, _SEQUENCE_MASK + 1)) if self.duplicates else (low, high)
        found = self.rows.range(self.key_bytes(key), *bounds, key)
        value_of, pick = self.rows.value_of, _first if self.duplicates else _same
        return [(pick(entry[6]), value_of(entry), entry[1]) for entry in found]

    def fetch_all(self, low: int = -MAX_TIME, high: int = MAX_TIME) -> Iterator[tuple[Windowed[Any], Any, int]]:
        """Return (windowed key, value, timestamp) of all rows in a range of starts, by key bytes and start."""
        low = max(low, self.observed.earliest)
        for _, entry in self.rows.all():
            windowed = self.windowed(entry)
            if low <= windowed.start_ms <= high:
                yield windowed, self.rows.value_of(entry), entry[1]

    def get(self, windowed: Windowed[Any]) -> tuple[Any, int] | None:
        """Look a windowed table up."""
        return self.fetch(windowed.key, windowed.start_ms)

    def _changelog_key(self, raw: bytes, place: Any) -> bytes:
        start, number = place if self.duplicates else (place, 0)
        return raw + _WINDOW.pack(start, number)

    def finish(self, changes: list[StoreChange]) -> None:
        """Write the batch's updates; what has expired goes, unless it is still to be told."""
        before = self.observed.earliest
        if self._times is not None:
            before = min(before, self._times.first())
            self._times.finish()
        self.rows.finish(changes, self._changelog_key, before)

    def restore(self, change: StoreChange) -> None:
        """Take in a record of the changelog topic."""
        start, number = _place(self.spec.name, _WINDOW, change.key)
        self.observed.note(start)
        if self.duplicates:
            self._memory["sequence"] = max(number, self._memory.get("sequence", 0))
            self._next = count(self._memory["sequence"] + 1).__next__
        self._restore_time(start, change.key[:-12], is_there=change.value is not None)
        self.rows.restore(change.key[:-12], (start, number) if self.duplicates else start, change)


class SessionStore(_TimedStore):
    """Kafka's session store: a place is (end, start). Its times are those of sessions: (start, key bytes) by end."""

    def __init__(
        self, spec: StoreSpec, backend: StateBackend, settings: EngineSettings, memory: dict[str, int]
    ) -> None:
        super().__init__(spec, backend, settings, memory, _first)

    def windowed(self, entry: Entry) -> Windowed[Any]:
        """Return what an entry is keyed by."""
        end, start = entry[6]
        return Windowed(entry[4], start, end)

    def put(self, session: Windowed[Any], value: Any, *, timestamp: int, headers: Headers = ()) -> None:
        """Set a session's value; None deletes it."""
        self.observed.note(session.end_ms)
        if not self.observed.takes(session.end_ms):
            return
        place = (session.end_ms, session.start_ms)
        self.rows.set(self.rows.entry(self.key_bytes(session.key), place, session.key), value, timestamp, headers)

    def fetch(self, key: Any, start: int, end: int) -> Any:
        """Return the value of the session with exactly these bounds, or None."""
        entry = self.rows.entry(self.key_bytes(key), (end, start), key)
        return None if entry[0] is None or end < self.observed.earliest else self.rows.value_of(entry)

    def find(self, key: Any, earliest_end: int, latest_start: int) -> list[tuple[Windowed[Any], Any]]:
        """Return a key's sessions that end at or after the one and start at or before the other, by end and start."""
        low = max(earliest_end, self.observed.earliest)
        found = self.rows.range(self.key_bytes(key), (low, -MAX_TIME), (MAX_TIME, MAX_TIME), key)
        return [(self.windowed(each), self.rows.value_of(each)) for each in found if each[6][1] <= latest_start]

    def fetch_all(self) -> Iterator[tuple[Windowed[Any], Any]]:
        """Return every session, by key bytes, end and start."""
        for _, entry in self.rows.all():
            if entry[6][0] >= self.observed.earliest:
                yield self.windowed(entry), self.rows.value_of(entry)

    def get(self, session: Windowed[Any]) -> tuple[Any, int] | None:
        """Look a windowed table up: the value, and the session's end as its timestamp."""
        value = self.fetch(session.key, session.start_ms, session.end_ms)
        return None if value is None else (value, session.end_ms)

    def _changelog_key(self, raw: bytes, place: tuple[int, int]) -> bytes:
        return raw + _SESSION.pack(*place)

    def finish(self, changes: list[StoreChange]) -> None:
        """Write the batch's updates; what has expired goes, unless it is still to be told."""
        before = self.observed.earliest
        if self._times is not None:
            before = min(before, self._times.first())
            self._times.finish()
        self.rows.finish(changes, self._changelog_key, before)

    def restore(self, change: StoreChange) -> None:
        """Take in a record of the changelog topic."""
        end, start = _place(self.spec.name, _SESSION, change.key)
        self.observed.note(end)
        self._restore_time(end, (start, change.key[:-16]), is_there=change.value is not None)
        self.rows.restore(change.key[:-16], (end, start), change)
