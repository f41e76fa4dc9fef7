"""A full disk refuses appends and breaks nothing: with room again the log goes on, whatever the write that failed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.base import KafkaError
from ottla.log import Buffer, Disk, File, Log, LogConfig, NoSpaceError, OsDisk
from tests.log.records import NOW, batch, values

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
        disk.room = None
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
