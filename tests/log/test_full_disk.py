"""A full disk refuses appends and breaks nothing: with room again the log goes on, whatever the write that failed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla.base import KafkaError, StorageError, Uuid
from ottla.log import AppendOrigin, Buffer, Disk, File, Log, LogConfig, NoSpaceError, OsDisk
from ottla.log.index import KEPT_MAX, OFFSET_ENTRY, Index
from tests.log.failing_disk import FailingDisk
from tests.log.records import NOW, batch, marker, values

SMALL = LogConfig(segment_bytes=500, index_interval_bytes=1)
ROOM_MAX = 24


class TightDisk:
    """A real disk on which only so many changes that take room succeed; None is any number."""

    def __init__(self) -> None:
        self._disk = OsDisk()
        self.room: int | None = None

    def take(self) -> None:
        if self.room is not None:
            if self.room == 0:
                raise NoSpaceError("the disk is full")
            self.room -= 1

    def open(self, path: str, *, create: bool = False) -> File:
        if create and not self._disk.exists(path):
            self.take()
        return TightFile(self, self._disk.open(path, create=create))

    def mkdir(self, path: str) -> None:
        self.take()
        self._disk.mkdir(path)

    def link(self, source: str, target: str) -> bool:
        self.take()
        return self._disk.link(source, target)

    def fsync_all(self, files: Any, folders: Any = ()) -> None:
        self._disk.fsync_all([each.file for each in files], folders)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)


class TightFile:
    """A file on it: a write that finds no room leaves half of its bytes behind."""

    def __init__(self, disk: TightDisk, file: File) -> None:
        self.disk = disk
        self.file = file

    @property
    def path(self) -> str:
        return self.file.path

    @path.setter
    def path(self, value: str) -> None:
        self.file.path = value

    def pwrite(self, position: int, *buffers: Buffer) -> None:
        try:
            self.disk.take()
        except NoSpaceError:
            data = b"".join(buffers)
            self.file.pwrite(position, data[: len(data) // 2])
            raise
        self.file.pwrite(position, *buffers)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def opened(disk: TightDisk, folder: Path, *, clean: bool) -> Log:
    tight: Disk = disk  # type: ignore[assignment]
    return Log.open(tight, str(folder), SMALL, now_ms=NOW, clean=clean)


def append(log: Log, number: int) -> None:
    log.append(batch([b"%d" % number], producer=(7, 0, number)), leader_epoch=number // 4, now_ms=NOW + number)


def everything(log: Log) -> list[bytes | None]:
    found: list[bytes | None] = []
    while len(found) < log.log_end_offset:
        found += values(log.read(len(found), max_bytes=1 << 20))
    return found


@pytest.mark.parametrize("reopen", [False, True])
@pytest.mark.parametrize("prepare", [lambda log: None, lambda log: log.roll()])
def test_a_log_goes_on_after_a_full_disk(tmp_path: Path, prepare: Callable[[Log], None], reopen: bool) -> None:
    for room in range(ROOM_MAX):
        disk = TightDisk()
        folder = tmp_path / f"t-{room}"
        log = opened(disk, folder, clean=True)
        for number in range(9):
            append(log, number)
        prepare(log)
        disk.room, done = room, 9
        with pytest.raises(NoSpaceError):
            for number in range(9, 100):
                append(log, number)
                done = number + 1
        refused = 0
        for _ in range(3):  # and again, while it is still full
            try:
                append(log, done)
            except NoSpaceError:
                refused += 1
        assert refused == 3
        assert everything(log) == [b"%d" % each for each in range(done)]
        disk.room, first = None, log
        if reopen:
            log = opened(disk, folder, clean=False)
        for number in range(done, done + 12):
            append(log, number)
        assert everything(log) == [b"%d" % each for each in range(done + 12)]
        with pytest.raises(KafkaError):
            append(log, done + 20)  # the producer's state has kept up: a gap in its sequence is refused
        log.flush()
        again = opened(disk, folder, clean=False)
        assert everything(again) == [b"%d" % each for each in range(done + 12)]
        for each in {first, log, again}:
            each.close()  # indexes are kept by their module, and keep their disk's files open


def test_a_flush_without_room_for_the_small_files_may_be_tried_again(tmp_path: Path) -> None:
    disk = TightDisk()
    log = opened(disk, tmp_path / "t-0", clean=True)
    for number in range(9):
        append(log, number)
    disk.room = 0
    for _ in range(2):
        with pytest.raises(NoSpaceError):
            log.flush()
        assert log.recovery_point == 0
    disk.room = None
    log.flush()
    assert log.recovery_point == 9


def without_index_entries(tmp_path: Path, *, flushed: bool) -> tuple[Log, FailingDisk]:
    """Return a log of 200 records, of whose index entries none could be written, in the end of a second segment."""
    disk = FailingDisk(OsDisk())
    log = Log.open(disk, f"{tmp_path}/t-0", LogConfig(index_interval_bytes=1), now_ms=NOW, clean=True)  # type: ignore[arg-type]
    append(log, 0)
    log.roll(NOW)
    if flushed:
        log.flush()
    disk.watch(1, "full", only="index")
    for number in range(1, 200):
        append(log, number)
    assert disk.has_failed
    return log, disk


@pytest.mark.parametrize("flushed", [False, True])
def test_a_full_disk_leaves_no_batch_behind(tmp_path: Path, flushed: bool) -> None:
    log, disk = without_index_entries(tmp_path, flushed=flushed)
    wanted = [b"%d" % each for each in range(200)]
    assert everything(log) == wanted
    if flushed:
        log.flush()
    point = log.recovery_point
    again = Log.open(OsDisk(), f"{tmp_path}/t-0", LogConfig(), now_ms=NOW, recovery_point=point)  # after kill -9
    assert everything(again) == wanted
    again.abandon()
    with pytest.raises(NoSpaceError):
        log.roll(NOW)  # sealed without its index it would not be
    disk.mend()
    log.roll(NOW)
    assert log.segments[1].offset_index.count_below(1 << 30, field=0) > 150
    log.close()
    assert everything(Log.open(OsDisk(), f"{tmp_path}/t-0", LogConfig(), now_ms=NOW, clean=True)) == wanted


def test_index_entries_that_cannot_be_written_have_a_bound(tmp_path: Path) -> None:
    disk = FailingDisk(OsDisk())
    index = Index(disk, f"{tmp_path}/i", OFFSET_ENTRY, 0)  # type: ignore[arg-type]
    index.create()
    disk.watch(1, "full")
    for at in range(5 * KEPT_MAX):
        index.append(at + 1, at)
    assert len(index) <= KEPT_MAX and index.last() == (5 * KEPT_MAX, 5 * KEPT_MAX - 1)
    for key in (0, 70, 5000, 5 * KEPT_MAX):
        found = index.floor(key)
        assert (found[0] <= key) if found is not None else key < 5000
    disk.mend()
    index.append(5 * KEPT_MAX + 1, 5 * KEPT_MAX)
    index.write()
    size = (tmp_path / "i").stat().st_size
    assert Index(OsDisk(), f"{tmp_path}/i", OFFSET_ENTRY, size).last() == (5 * KEPT_MAX + 1, 5 * KEPT_MAX)


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("name", [".index", ".timeindex", ".log"])
def test_a_roll_without_room_hides_no_later_record(tmp_path: Path, name: str, clean: bool) -> None:
    disk = FailingDisk(OsDisk())
    log = Log.open(disk, f"{tmp_path}/t-0", LogConfig(), now_ms=NOW, clean=True)  # type: ignore[arg-type]
    append(log, 0)
    disk.watch(1, "full", only=f"00001{name}")
    if name == ".log":
        with pytest.raises(NoSpaceError):
            log.roll(NOW)
    else:
        log.roll(NOW)  # an index's file is made when there is something to write
    for number in range(1, 11):  # what is appended now fits into the old segment, or waits for no index
        append(log, number)
    if clean:
        if name != ".log":
            with pytest.raises(NoSpaceError):  # or a clean start would find a segment without it
                log.close()
            assert everything(log) == [b"%d" % each for each in range(11)]
            disk.mend()
        log.close()
    again = Log.open(OsDisk(), f"{tmp_path}/t-0", LogConfig(), now_ms=NOW, clean=clean)
    assert everything(again) == [b"%d" % each for each in range(11)]


def test_an_abort_without_room_for_its_index_entry_is_known_to_readers(tmp_path: Path) -> None:
    disk = FailingDisk(OsDisk())
    log = Log.open(disk, f"{tmp_path}/t-0", LogConfig(), now_ms=NOW, clean=True)  # type: ignore[arg-type]
    log.append(batch([b"aborted"], producer=(7, 0, 0), transactional=True), now_ms=NOW)
    disk.watch(1, "full", only=".txnindex")
    log.append(marker(7, 0, commit=False), now_ms=NOW, origin=AppendOrigin.COORDINATOR)
    assert disk.has_failed
    wanted = [(7, 0, 1, 2)]
    assert log.last_stable_offset == 2
    assert [tuple(each) for each in log.aborted_transactions(0, 2)] == wanted
    killed = Log.open(OsDisk(), f"{tmp_path}/t-0", LogConfig(), now_ms=NOW)
    assert [tuple(each) for each in killed.aborted_transactions(0, 2)] == wanted
    (tmp_path / "t-0" / "00000000000000000000.txnindex").unlink()
    with pytest.raises(NoSpaceError):
        log.roll(NOW)  # or a clean start would find a segment without it
    disk.mend()
    log.close()
    again = Log.open(OsDisk(), f"{tmp_path}/t-0", LogConfig(), now_ms=NOW, clean=True)
    assert [tuple(each) for each in again.aborted_transactions(0, 2)] == wanted


def test_records_are_deleted_though_the_disk_has_no_room_for_a_name(tmp_path: Path) -> None:
    disk = FailingDisk(OsDisk())
    log = Log.open(disk, f"{tmp_path}/t-0", SMALL, now_ms=NOW, clean=True)  # type: ignore[arg-type]
    for number in range(20):
        append(log, number)
    disk.watch(1, "full")
    log.delete_records_before(15)
    assert disk.has_failed and log.log_start_offset == 15
    assert min(int(each.stem) for each in (tmp_path / "t-0").glob("*.log")) == log.segments[0].base_offset > 0


def test_the_start_moves_whole_where_files_cannot_be_renamed(tmp_path: Path) -> None:
    config = replace(SMALL, retention_ms=-1)
    for move in ("delete", "retain"):
        disk = FailingDisk(OsDisk())
        log = Log.open(disk, f"{tmp_path}/{move}-0", config, now_ms=NOW, clean=True)  # type: ignore[arg-type]
        for number in range(20):
            append(log, number)
        bases = [each.base_offset for each in log.segments]
        disk.watch(1, "EIO", only="rename")
        if move == "delete":
            log.delete_records_before(bases[-1])
        else:
            log.config = replace(config, retention_bytes=log.segments[-1].size)
            log.housekeep(NOW)
        assert disk.has_failed and log.log_start_offset == bases[-1]
        assert values(log.read(bases[-1], max_bytes=100_000))[0] == b"%d" % bases[-1]
        disk.watch(1, "EIO", only="rename")
        with pytest.raises(StorageError):  # and the disk's failure is not forgotten
            log.housekeep(NOW)
        disk.mend()
        log.housekeep(NOW)
        assert [each.base_offset for each in log.segments] == bases[-1:]
        assert len(list((tmp_path / f"{move}-0").glob("*.log"))) == 1


@pytest.mark.parametrize("kind", ["ENOSPC", "ENOENT"])
def test_a_flush_that_asked_nothing_of_the_device_is_asked_again(tmp_path: Path, kind: str) -> None:
    disk = FailingDisk(OsDisk())
    log = Log.open(disk, str(tmp_path / "log"), LogConfig(), now_ms=NOW, topic_id=Uuid(bytes(range(16))))
    log.append(batch([b"a"]), leader_epoch=0, now_ms=NOW)
    count = 4  # the first calls are for `derived-sums`, without which a flush goes on
    while log.unflushed:
        count += 1
        disk.watch(count, kind)
        with suppress(StorageError):
            log.flush(now_ms=NOW)
        assert count < 20
    assert count > 7, "each call of a first flush has failed once"


def test_a_flush_needs_no_append_once_there_is_room_for_what_a_truncation_owes(tmp_path: Path) -> None:
    disk = FailingDisk(OsDisk())
    log = Log.open(disk, f"{tmp_path}/t-0", SMALL, now_ms=NOW, clean=True)
    for number in range(20):
        append(log, number)
    disk.watch(1, "ENOSPC", only="fsync_dir")
    log.truncate_to(3)
    assert disk.has_failed and not log.is_settled
    with pytest.raises(NoSpaceError):
        log.flush(now_ms=NOW)
    log.settle()
    log.flush(now_ms=NOW)
    assert not log.unflushed and log.is_settled
    assert len(list((tmp_path / "t-0").glob("*.log"))) == log.segment_count
