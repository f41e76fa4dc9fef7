"""Stores as processors of one's own see them: Kafka's KeyValueStore, WindowStore, SessionStore, VersionedKeyValueStore."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ottla.streams.engine.stores import AnyStore, KeyValueStore
from ottla.streams.engine.versioned import VersionedStore
from ottla.streams.engine.window_stores import MAX_TIME, SessionStore, WindowStore
from ottla.streams.errors import SerializationError
from ottla.streams.processor_api import ValueAndTimestamp
from ottla.streams.windows import Windowed

__all__ = ["KeyValueFace", "SessionFace", "VersionedFace", "WindowFace", "face_of"]

Clock = Callable[[], int]
"""The timestamp of the record that is processed."""


def _key(store: str, key: Any) -> Any:
    """A key as it was given; raises SerializationError for none, which no store keeps."""
    if key is None:
        raise SerializationError(f"store {store}: a key cannot be null")
    return key


def _time(store: str, time_ms: int) -> int:
    """A time as it was given; raises SerializationError for one that a changelog's 64 bits do not hold."""
    if not -MAX_TIME - 1 <= time_ms <= MAX_TIME:
        raise SerializationError(f"store {store}: a time is beyond the 64 bits of Kafka's")
    return time_ms


class KeyValueFace:
    """A key-value store; values are `ValueAndTimestamp` where the store is timestamped."""

    def __init__(self, store: KeyValueStore, now: Clock, *, timestamped: bool) -> None:
        self.name = store.name
        self._store = store
        self._now = now
        self._timestamped = timestamped

    def _given(self, value: Any, timestamp: int) -> Any:
        return ValueAndTimestamp(value, timestamp) if self._timestamped else value

    def get(self, key: Any) -> Any:
        """Return a key's value, or None."""
        found = self._store.get(_key(self.name, key))
        return None if found is None else self._given(*found)

    def put(self, key: Any, value: Any) -> None:
        """Set a key's value; None deletes it."""
        if self._timestamped and value is not None:
            self._store.put(_key(self.name, key), value[0], _time(self.name, value[1]))
        else:
            self._store.put(_key(self.name, key), value, self._now())

    def put_if_absent(self, key: Any, value: Any) -> Any:
        """Set a key's value if it has none; return what it had."""
        found = self.get(key)
        if found is None:
            self.put(key, value)
        return found

    def put_all(self, entries: Iterable[tuple[Any, Any]]) -> None:
        """Set many."""
        for key, value in entries:
            self.put(key, value)

    def delete(self, key: Any) -> Any:
        """Delete a key; return what it had."""
        found = self.get(key)
        self.put(key, None)
        return found

    def _scan(self, low: bytes | None = None, high: bytes | None = None) -> list[tuple[Any, Any]]:
        rows = self._store.scan(low, high)
        return [(self._store.deserialize_key(raw), self._given(value, timestamp)) for raw, value, timestamp in rows]

    def all(self) -> Iterator[tuple[Any, Any]]:
        """Return every (key, value), by the bytes of keys."""
        return iter(self._scan())

    def reverse_all(self) -> Iterator[tuple[Any, Any]]:
        """The same, backwards."""
        return iter(self._scan()[::-1])

    def _between(self, low: Any, high: Any) -> list[tuple[Any, Any]]:
        serialize = self._store.serialize_key
        return self._scan(None if low is None else serialize(low), None if high is None else serialize(high))

    def range(self, low: Any, high: Any) -> Iterator[tuple[Any, Any]]:
        """Return (key, value) with low <= key <= high by their bytes; None is no bound."""
        return iter(self._between(low, high))

    def reverse_range(self, low: Any, high: Any) -> Iterator[tuple[Any, Any]]:
        """The same, backwards."""
        return iter(self._between(low, high)[::-1])

    def prefix_scan(self, prefix: Any, serialize: Callable[[Any], bytes] | None = None) -> Iterator[tuple[Any, Any]]:
        """Return (key, value) of the keys whose bytes begin with those of `prefix`."""
        raw: bytes = (serialize or self._store.serialize_key)(prefix)  # type: ignore[assignment]
        rows = self._store.scan(raw)
        return iter(
            [
                (self._store.deserialize_key(key), self._given(value, at))
                for key, value, at in rows
                if key.startswith(raw)
            ]
        )

    def approximate_num_entries(self) -> int:
        """Return how many keys there are."""
        return self._store.approximate_count()


class WindowFace:
    """A window store."""

    def __init__(self, store: WindowStore, now: Clock, *, timestamped: bool) -> None:
        self.name = store.name
        self._store = store
        self._now = now
        self._timestamped = timestamped

    def _given(self, value: Any, timestamp: int) -> Any:
        return ValueAndTimestamp(value, timestamp) if self._timestamped else value

    def put(self, key: Any, value: Any, window_start_ms: int) -> None:
        """Set what a key has in the window that starts then; None deletes it."""
        key, window_start_ms = _key(self.name, key), _time(self.name, window_start_ms)
        if self._timestamped and value is not None:
            self._store.put(key, value[0], window_start_ms, timestamp=_time(self.name, value[1]))
        else:
            self._store.put(key, value, window_start_ms, timestamp=self._now())

    def fetch(self, key: Any, time_ms: int, to_ms: int | None = None) -> Any:
        """Return the value of the window that starts then; with `to_ms`, (start, value) of those that start between."""
        if to_ms is not None:
            return iter([(at, self._given(value, time)) for at, value, time in self._rows(key, time_ms, to_ms)])
        found = self._store.fetch(_key(self.name, key), time_ms)
        return None if found is None else self._given(*found)

    def _rows(self, key: Any, low: int, high: int) -> list[tuple[int, Any, int]]:
        return self._store.fetch_range(_key(self.name, key), low, high)

    def backward_fetch(self, key: Any, from_ms: int, to_ms: int) -> Iterator[tuple[int, Any]]:
        """Return (start, value) of a key's windows that start between, the latest first."""
        return iter([(at, self._given(value, time)) for at, value, time in reversed(self._rows(key, from_ms, to_ms))])

    def fetch_all(self, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed[Any], Any]]:
        """Return (windowed key, value) of all windows that start between, by key bytes and start."""
        rows = self._store.fetch_all(from_ms, to_ms)
        return iter([(windowed, self._given(value, time)) for windowed, value, time in rows])

    def all(self) -> Iterator[tuple[Windowed[Any], Any]]:
        """Return everything."""
        return self.fetch_all(-MAX_TIME, MAX_TIME)


class SessionFace:
    """A session store."""

    def __init__(self, store: SessionStore, now: Clock) -> None:
        self.name = store.name
        self._store = store
        self._now = now

    def put(self, session: Windowed[Any], value: Any) -> None:
        """Set a session's value; None deletes it."""
        _key(self.name, session.key)
        for each in (session.start_ms, session.end_ms):
            _time(self.name, each)
        self._store.put(session, value, timestamp=self._now())

    def remove(self, session: Windowed[Any]) -> None:
        """Delete a session."""
        self.put(session, None)

    def fetch(self, key: Any) -> Iterator[tuple[Windowed[Any], Any]]:
        """Return a key's sessions."""
        return iter(self._store.find(_key(self.name, key), -MAX_TIME, MAX_TIME))

    def fetch_session(self, key: Any, start_ms: int, end_ms: int) -> Any:
        """Return the value of the session with exactly these bounds, or None."""
        return self._store.fetch(_key(self.name, key), start_ms, end_ms)

    def find_sessions(
        self, key: Any, earliest_end_ms: int, latest_start_ms: int
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        """Return a key's sessions that end at or after the one time and start at or before the other."""
        return iter(self._store.find(_key(self.name, key), earliest_end_ms, latest_start_ms))


class VersionedFace:
    """A versioned store (KIP-889)."""

    def __init__(self, store: VersionedStore) -> None:
        self.name = store.name
        self._store = store

    def put(self, key: Any, value: Any, timestamp_ms: int) -> int | None:
        """Set a key's value from then on; return until when it holds, None for always, -2 where it came too late."""
        return self._store.put(_key(self.name, key), value, _time(self.name, timestamp_ms))

    def get(self, key: Any, as_of_ms: int | None = None) -> ValueAndTimestamp[Any] | None:
        """Return a key's latest value, or the one as of a time."""
        found = self._store.get(_key(self.name, key), as_of_ms)
        return None if found is None else ValueAndTimestamp(*found)

    def delete(self, key: Any, timestamp_ms: int) -> ValueAndTimestamp[Any] | None:
        """Delete a key from then on; return what it had then."""
        found = self.get(key, timestamp_ms)
        self.put(key, None, timestamp_ms)
        return found


def face_of(store: AnyStore, now: Clock) -> KeyValueFace | WindowFace | SessionFace | VersionedFace:
    """Return what a processor gets to see of a store."""
    timestamped = store.spec.kind.startswith("timestamped")
    if isinstance(store, KeyValueStore):
        return KeyValueFace(store, now, timestamped=timestamped)
    if isinstance(store, WindowStore):
        return WindowFace(store, now, timestamped=timestamped)
    if isinstance(store, SessionStore):
        return SessionFace(store, now)
    if isinstance(store, VersionedStore):
        return VersionedFace(store)
    raise TypeError(f"store {store.name} of kind {store.spec.kind} is not for processors")
