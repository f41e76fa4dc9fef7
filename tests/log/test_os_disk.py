"""The operating system behind `Disk`."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from ottla.base import StorageError
from ottla.log import OsDisk, replace_file


def test_more_files_than_descriptors(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    disk = OsDisk(descriptors_max=8)
    files = [disk.open(f"{tmp_path}/{at}", create=True) for at in range(50)]
    for at, file in enumerate(files):
        file.pwrite(0, b"%d" % at)
    assert [file.pread(0, 10) for file in files] == [b"%d" % at for at in range(50)]
    assert disk.open_descriptors <= 8
    assert len(os.listdir("/proc/self/fd")) <= before + 8


def test_what_is_used_stays_open(tmp_path: Path) -> None:
    disk = OsDisk(descriptors_max=4)
    busy = disk.open(f"{tmp_path}/busy", create=True)
    number = busy.fileno()
    for at in range(20):
        disk.open(f"{tmp_path}/{at}", create=True)
        busy.pread(0, 1)
    assert busy.fileno() == number


def test_a_write_of_many_buffers_is_one_run_of_bytes(tmp_path: Path) -> None:
    file = OsDisk().open(f"{tmp_path}/f", create=True)
    pieces = [b"%d," % at for at in range(3000)]
    file.pwrite(2, *pieces)
    assert file.pread(2, 1 << 20) == b"".join(pieces) and file.size() == 2 + len(b"".join(pieces))


def test_a_read_that_may_not_wait_gives_the_bytes_or_none(tmp_path: Path) -> None:
    file = OsDisk().open(f"{tmp_path}/f", create=True)
    file.pwrite(0, b"x" * 10_000)
    assert file.pread_nowait(100, 50) in (b"x" * 50, None)
    assert file.pread_nowait(9_990, 50) is None


def test_errors_are_storage_errors_that_name_the_file(tmp_path: Path) -> None:
    disk = OsDisk()
    with pytest.raises(StorageError, match="missing"):
        disk.open(f"{tmp_path}/missing")
    with pytest.raises(StorageError, match="nowhere"):
        disk.rename(f"{tmp_path}/nowhere", f"{tmp_path}/x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "f").touch()
    with pytest.raises(StorageError, match="folder"):
        disk.rmdir(f"{tmp_path}/folder")
    with pytest.raises(StorageError):
        disk.read(f"{tmp_path}/folder")


def test_what_is_not_there_is_none_or_empty(tmp_path: Path) -> None:
    disk = OsDisk()
    assert disk.read(f"{tmp_path}/x") is None and disk.scan(f"{tmp_path}/x") == []
    disk.unlink(f"{tmp_path}/x")
    disk.rmdir(f"{tmp_path}/x")


def test_a_file_is_replaced_at_once(tmp_path: Path) -> None:
    disk = pickle.loads(pickle.dumps(OsDisk()))
    replace_file(disk, f"{tmp_path}/f", b"one")
    replace_file(disk, f"{tmp_path}/f", b"two!")
    assert [(each.name, each.size, each.is_folder) for each in disk.scan(str(tmp_path))] == [("f", 4, False)]
    assert disk.space(str(tmp_path)).total > 0


def test_many_files_reach_the_device_together(tmp_path: Path) -> None:
    disk = OsDisk()
    files = [disk.open(f"{tmp_path}/{at}", create=True) for at in range(40)]
    disk.fsync_all(files, [str(tmp_path)])
    (tmp_path / "7").unlink()
    files[7].close()
    with pytest.raises(StorageError):
        disk.fsync_all(files)
