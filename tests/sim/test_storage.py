"""The simulated file system loses what a real one may lose, and nothing else."""

from __future__ import annotations

from random import Random

import pytest

from tests.sim.storage import SECTOR_BYTES, Directory, Inode, Storage


def storage_with(data: bytes, seed: int = 0) -> tuple[Storage, Inode]:
    storage = Storage(Random(seed))
    inode = Inode()
    storage.root.add("file", inode)
    storage.root.sync()
    inode.write(0, data)
    return storage, inode


@pytest.mark.parametrize("seed", range(20))
def test_synced_bytes_survive_a_power_loss(seed: int) -> None:
    storage, inode = storage_with(b"a" * 5000, seed)
    inode.sync()
    inode.write(5000, b"b" * 3000)
    storage.lose_power()
    assert storage.inode("file").data.startswith(b"a" * 5000)


def test_unsynced_bytes_may_be_there_or_gone_or_torn_at_a_sector() -> None:
    results = set()
    for seed in range(200):
        storage, inode = storage_with(b"a" * 100, seed)
        inode.sync()
        inode.write(100, b"b" * 2000)
        storage.lose_power()
        data = bytes(storage.inode("file").data)
        results.add(data)
        tail = data[100:SECTOR_BYTES]
        assert set(tail) <= set(b"b") or set(tail) <= {0}
    assert b"a" * 100 in results and b"a" * 100 + b"b" * 2000 in results and len(results) > 20


def test_a_name_without_a_synced_directory_may_be_lost_and_order_is_kept() -> None:
    outcomes = set()
    for seed in range(50):
        storage = Storage(Random(seed))
        for name in "abc":
            storage.root.add(name, Inode())
        storage.lose_power()
        outcomes.add("".join(storage.root.entries))
    assert outcomes == {"", "a", "ab", "abc"}


def test_rename_is_atomic() -> None:
    for seed in range(50):
        storage = Storage(Random(seed))
        old, new = Inode(), Inode()
        old.write(0, b"old")
        new.write(0, b"new")
        old.sync()
        new.sync()
        storage.root.add("checkpoint", old)
        storage.root.sync()
        storage.root.add("checkpoint.tmp", new)
        storage.root.rename("checkpoint.tmp", "checkpoint")
        storage.lose_power()
        assert bytes(storage.inode("checkpoint").data) in (b"old", b"new")


def test_an_fsync_that_failed_is_not_made_good_by_the_next() -> None:
    for seed in range(20):
        storage, inode = storage_with(b"precious", seed)
        inode.forget_dirty()
        inode.sync()
        storage.lose_power()
        assert not storage.inode("file").data.strip(b"\0")


@pytest.mark.parametrize("seed", range(20))
def test_a_truncation_that_is_lost_takes_later_writes_with_it(seed: int) -> None:
    storage, inode = storage_with(b"a" * 1000, seed)
    inode.sync()
    inode.truncate(100)
    inode.write(100, b"b" * 500)
    storage.lose_power()
    data = bytes(storage.inode("file").data)
    assert data == b"a" * 1000 or (data.startswith(b"a" * 100) and data[100:].strip(b"b\0") == b"")


def test_what_is_below_a_lost_directory_is_lost() -> None:
    storage = Storage(Random(3))
    inner = Directory()
    storage.root.sync()
    inner.add("f", Inode())
    inner.sync()
    storage.root.add("d", inner)
    storage.root.remove("d")
    storage.root.add("e", inner)
    storage.lose_power()
    assert not storage.exists("d/f") or not storage.exists("e/f")
