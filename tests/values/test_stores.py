"""Hostile keys, values and times through Streams' stores, and through changelogs back again."""

from __future__ import annotations

import pytest

from ottla.streams.engine import StoreChange
from ottla.streams.engine.store_faces import face_of
from ottla.streams.errors import SerializationError
from ottla.streams.windows import Windowed
from tests.streams.engine.plans import Backend
from tests.values.stores import KINDS, LONG_MAX, opened
from tests.values.watched import found


@pytest.mark.timeout(600)
def test_every_store_gives_each_value_back_or_refuses_it() -> None:
    assert found("tests.values.stores") == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_is_none_is_refused_by_the_store_s_name(kind: str) -> None:
    face = face_of(opened(kind, Backend(), {}), lambda: 5)
    with pytest.raises(SerializationError, match="store s: a key cannot be null"):
        face.put(Windowed(None, 1, 2), "v") if kind == "session" else (
            face.put(None, ("v", 5), 5) if kind in ("window", "versioned") else face.put(None, ("v", 5))
        )  # type: ignore[arg-type,call-arg]


@pytest.mark.parametrize("time", [LONG_MAX + 1, -LONG_MAX - 2])
def test_a_time_beyond_64_bits_is_refused_when_it_is_put(time: int) -> None:
    with pytest.raises(SerializationError, match="beyond the 64 bits"):
        face_of(opened("window", Backend(), {}), lambda: 5).put("k", "v", time)  # type: ignore[arg-type,call-arg]
    with pytest.raises(SerializationError, match="beyond the 64 bits"):
        face_of(opened("session", Backend(), {}), lambda: 5).put(Windowed("k", 0, time), "v")  # type: ignore[arg-type,call-arg]


@pytest.mark.parametrize("kind", ["window", "session"])
def test_a_changelog_s_key_that_is_too_short_is_named(kind: str) -> None:
    with pytest.raises(SerializationError, match="its changelog has a key of 3 bytes"):
        opened(kind, Backend(), {}).restore(StoreChange("s", b"abc", b"v", 5))


def test_a_version_of_the_last_moment_is_the_latest() -> None:
    store = opened("versioned", Backend(), {})
    store.put("k", "v", LONG_MAX)
    assert store.get("k") == ("v", LONG_MAX)
