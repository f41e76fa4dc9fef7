"""A simulated disk of which one call fails: once, at its number, as it was told."""

from __future__ import annotations

from random import Random

import pytest

from ottla.base import MissingFileError, NoSpaceError, StorageError
from tests.sim.disk import CallFailure, SimDisk
from tests.sim.loop import SimLoop
from tests.sim.process import Crash, Process
from tests.sim.storage import Storage
from tests.sim.trace import Trace


def disk_of(storage: Storage, failure: CallFailure | None = None, *, after: int = 0) -> SimDisk:
    disk = SimDisk(storage, Process(SimLoop(), "p"), Random(1), Trace())
    disk.fail_in = None if failure is None else (after, failure)
    return disk


def with_file() -> Storage:
    storage = Storage(Random(1))
    disk = disk_of(storage)
    disk.mkdir("/d")
    disk.open("/d/a", create=True).pwrite(0, b"0123456789")
    return storage


def test_a_write_without_room_leaves_a_prefix_and_the_next_one_works() -> None:
    storage = with_file()
    disk = disk_of(storage, CallFailure.NO_SPACE, after=1)
    file = disk.open("/d/a")
    with pytest.raises(NoSpaceError):
        file.pwrite(10, b"abcdef")
    assert b"0123456789abcdef".startswith(bytes(storage.inode("/d/a").data))
    file.pwrite(10, b"abcdef")
    assert bytes(storage.inode("/d/a").data) == b"0123456789abcdef"


def test_a_crash_before_a_rename_leaves_the_old_name_and_one_after_it_the_new() -> None:
    for failure, name in ((CallFailure.CRASH_BEFORE, "a"), (CallFailure.CRASH_AFTER, "b")):
        storage = with_file()
        with pytest.raises(Crash):
            disk_of(storage, failure).rename("/d/a", "/d/b")
        assert list(storage.directory("/d").entries) == [name]


def test_a_call_that_cannot_miss_a_file_meets_an_io_error_instead() -> None:
    storage = with_file()
    with pytest.raises(MissingFileError):
        disk_of(storage, CallFailure.MISSING).open("/d/a")
    with pytest.raises(StorageError) as raised:
        disk_of(storage, CallFailure.MISSING).fsync_dir("/d")
    assert not isinstance(raised.value, MissingFileError)


def test_a_failed_fsync_that_drops_its_pages_is_not_mended_by_a_second_one() -> None:
    for drops, kept in ((True, bytes(10)), (False, b"0123456789")):
        storage = with_file()
        disk = disk_of(storage, CallFailure.IO_ERROR, after=1)
        disk.failed_syncs_drop = drops
        file = disk.open("/d/a")
        with pytest.raises(StorageError):
            file.fsync()
        assert disk.sync_failed
        file.fsync()
        inode = storage.inode("/d/a")
        inode.lose_power(Random(1))
        assert bytes(inode.data) == kept
