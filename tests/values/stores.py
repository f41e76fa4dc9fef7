"""Streams' stores of every kind: hostile keys, values, times and changelogs are put, read, scanned, kept and restored."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

from ottla.streams import StoreSpec
from ottla.streams.engine import EngineSettings, StoreChange
from ottla.streams.engine.store_faces import face_of
from ottla.streams.engine.stores import KeyValueStore
from ottla.streams.engine.versioned import VersionedStore
from ottla.streams.engine.window_stores import SessionStore, WindowStore
from ottla.streams.errors import SerializationError
from ottla.streams.serdes.choice import serde_of
from ottla.streams.windows import Windowed
from tests.hostile_values import HOSTILE, RAW, TEXTS, same
from tests.streams.engine.plans import Backend
from tests.values.watched import Case, short

KINDS = ("key_value", "timestamped_key_value", "window", "session", "versioned")
SERDES = ("string", "bytes", "short", "integer", "long", "float", "double", "boolean", "uuid", "json")
ERRORS = (SerializationError,)
LONG_MAX = (1 << 63) - 1
TIMES = (0, -1, 1, LONG_MAX, -LONG_MAX - 1, LONG_MAX + 1, -LONG_MAX - 2, 10**400, (1 << 62) + 1)
VALUES: tuple[object, ...] = (*(value for _, _, value in HOSTILE), *TEXTS)


def cases() -> Iterator[Case]:
    """Every kind of store."""
    for kind in KINDS:
        for name in SERDES:
            for value in VALUES:
                label = f"{kind} of {name} {short(value)}"
                yield Case(label, _kept(kind, name, "k", value), ERRORS)
                yield Case(f"{label} as a key", _kept(kind, "string", value, "v", key_serde=name), ERRORS)
        for time in TIMES:
            yield Case(f"{kind} at {short(time)}", _kept(kind, "string", "k", "v", time=time), ERRORS)
        for raw in (*RAW, b"\0" * 12, b"\xff" * 12, b"\x80" * 16, struct.pack(">qq", LONG_MAX, -LONG_MAX - 1)):
            yield Case(f"{kind} restored of {short(raw)}", _restored(kind, raw), ERRORS)


def opened(kind: str, backend: Backend, memory: dict[str, int], *, key: str = "string", value: str = "string") -> Any:
    """A store over what a backend has."""
    spec = StoreSpec("s", kind, serde_of(key), serde_of(value), retention_ms=1000, window_size_ms=10)
    settings = EngineSettings(block_entries=2)
    if kind == "window":
        return WindowStore(spec, backend, settings, memory)
    if kind == "session":
        return SessionStore(spec, backend, settings, memory)
    if kind == "versioned":
        return VersionedStore(spec, backend, settings, memory)
    return KeyValueStore(spec, backend, settings)


def _kept(
    kind: str, name: str, key: object, value: object, *, time: int = 5, key_serde: str = "string"
) -> Callable[[], object]:
    def kept() -> None:
        backend, memory = Backend(), {}
        store = opened(kind, backend, memory, key=key_serde, value=name)
        _put(kind, store, key, value, time)
        _put(kind, store, key, value, time)
        changes: list[StoreChange] = []
        store.finish(changes)
        serde = serde_of(name)
        wanted = serde.deserialize(serde.serialize(value))
        if kind == "versioned" and time < -1001:
            wanted = None  # before its history begins
        if kind in ("window", "session") and time < 0:
            wanted = None  # before all segments
        again = opened(kind, backend, memory, key=key_serde, value=name)
        other_memory: dict[str, int] = {}
        other = opened(kind, Backend(), other_memory, key=key_serde, value=name)
        for each in changes:
            other.restore(each)
        for found in (_read(kind, each, key, time) for each in (again, other)):
            assert same(found, wanted), f"{short(wanted)} came back as {short(found)}"
        _scanned(kind, other)

    return kept


def _face(store: Any, time: int) -> Any:
    return face_of(store, lambda: time)


def _put(kind: str, store: Any, key: object, value: object, time: int) -> None:
    face: Any = _face(store, time)
    if kind == "timestamped_key_value":
        face.put(key, None if value is None else (value, time))
    elif kind == "session":
        face.put(Windowed(key, time, time), value)
    elif kind == "key_value":
        face.put(key, value)
    else:
        face.put(key, value, time)


def _read(kind: str, store: Any, key: object, time: int) -> object:
    face: Any = _face(store, time)
    if kind == "session":
        return face.fetch_session(key, time, time)
    if kind == "window":
        return face.fetch(key, time)
    found = face.get(key)
    return found[0] if isinstance(found, tuple) else found


def _scanned(kind: str, store: Any) -> None:
    face: Any = _face(store, 0)
    if kind == "versioned":
        return
    if kind == "session":
        list(store.fetch_all())
        return
    rows = list(face.all())
    if kind != "window":
        assert list(face.range(None, None)) == rows or len(rows) == len(list(face.reverse_all()))
        assert face.approximate_num_entries() == len(rows)


def _restored(kind: str, raw: bytes | None) -> Callable[[], object]:
    def restored() -> None:
        for key, value in ((raw, b"v"), (b"k" + b"\0" * 16, raw)):
            store = opened(kind, Backend(), {})
            if key is None:
                continue
            store.restore(StoreChange("s", key, value, LONG_MAX))
            store.finish([])
            _scanned(kind, store)

    return restored
