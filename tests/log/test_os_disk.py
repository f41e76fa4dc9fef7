"""The operating system behind `Disk`."""

from __future__ import annotations

import copy
import errno
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.base import CorruptionError, MissingFileError, NoSpaceError, StorageError, TopicPartition, Uuid
from ottla.log import File, LogConfig, LogDir, OsDisk, replace_file
from tests.log.records import batch


def test_more_files_than_descriptors(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    disk = OsDisk(descriptors_max=8)
    files = [disk.open(f"{tmp_path}/{at}", create=True) for at in range(50)]
    for at, file in enumerate(files):
        file.pwrite(0, b"%d" % at)
    assert [file.pread(0, 10) for file in files] == [b"%d" % at for at in range(50)]
    assert disk.open_descriptors <= 8
    assert len(os.listdir("/proc/self/fd")) <= before + 8


OPERATIONS: dict[str, tuple[str, Callable[[File], object]]] = {
    "a write": ("pwrite", lambda file: file.pwrite(0, b"abc")),
    "a write of several buffers": ("pwritev", lambda file: file.pwrite(0, b"ab", b"c")),
    "a cut": ("ftruncate", lambda file: file.truncate(2)),
    "a look at the size": ("fstat", lambda file: file.size()),
    "an fsync": ("fsync", lambda file: file.fsync()),
    "a read": ("pread", lambda file: file.pread(0, 3)),
    "a read that does not wait": ("preadv", lambda file: file.pread_nowait(0, 3)),
    "a held read": ("pread", lambda file: file.hold().pread(0, 3)),
    "a held read into memory": ("preadv", lambda file: file.hold().pread_into(0, memoryview(bytearray(3)))),
    "a look at what is cached": ("preadv", lambda file: file.hold().is_cached(0, 3)),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_descriptor_that_is_given_up_is_open_until_the_call_with_it_has_ended(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another thread does where few files may be open happens here between the call and the system."""
    call, operation = OPERATIONS[name]
    disk = OsDisk(descriptors_max=1)
    file = disk.open(f"{tmp_path}/f", create=True)
    file.pwrite(0, b"abc")
    identity = os.stat(f"{tmp_path}/f").st_ino
    real = getattr(os, call)
    status = os.fstat
    calls = 0

    def given_up(fd: int, *arguments: object) -> object:
        nonlocal calls
        monkeypatch.setattr(os, call, real)
        for at in range(3):
            disk.open(f"{tmp_path}/other {at}", create=True)
        calls += 1
        assert status(fd).st_ino == identity
        return real(fd, *arguments)

    monkeypatch.setattr(os, call, given_up)
    operation(file)
    assert calls == 1
    assert disk.open_descriptors == 1


def descriptor_of(file: File) -> int:
    """Return the number of the descriptor that is open on a file, as the system shows it."""
    (number,) = (
        each for each in os.listdir("/proc/self/fd") if Path(f"/proc/self/fd/{each}").resolve() == Path(file.path)
    )
    return int(number)


def test_what_is_used_stays_open(tmp_path: Path) -> None:
    disk = OsDisk(descriptors_max=4)
    busy = disk.open(f"{tmp_path}/busy", create=True)
    number = descriptor_of(busy)
    for at in range(20):
        disk.open(f"{tmp_path}/{at}", create=True)
        busy.pread(0, 1)
    assert descriptor_of(busy) == number


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


def test_a_read_into_memory_fills_what_it_can_and_says_how_much(tmp_path: Path) -> None:
    file = OsDisk().open(f"{tmp_path}/f", create=True)
    file.pwrite(0, b"x" * 10_000)
    memory = bytearray(50)
    assert file.hold().pread_into(9_980, memoryview(memory)) in (20, None)
    assert memory in (b"x" * 20 + bytes(30), bytes(50))
    assert file.hold().pread_into(10_000, memoryview(memory)) == 0


def test_errors_are_storage_errors_that_name_the_file(tmp_path: Path) -> None:
    disk = OsDisk()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "f").touch()
    gone = disk.open(f"{tmp_path}/gone", create=True)
    disk.unlink(gone.path)
    gone.close()
    attempts: list[tuple[str, type[StorageError], Callable[[], object]]] = [
        ("missing", MissingFileError, lambda: disk.open(f"{tmp_path}/missing")),
        ("missing/f", MissingFileError, lambda: disk.open(f"{tmp_path}/missing/f", create=True)),
        ("nowhere", MissingFileError, lambda: disk.rename(f"{tmp_path}/nowhere", f"{tmp_path}/x")),
        ("missing", MissingFileError, lambda: disk.fsync_dir(f"{tmp_path}/missing")),
        ("missing", MissingFileError, lambda: disk.space(f"{tmp_path}/missing")),
        ("gone", MissingFileError, lambda: gone.pread(0, 1)),
        ("gone", MissingFileError, lambda: gone.fsync()),
        ("gone", MissingFileError, lambda: disk.fsync_all([gone] * 20)),
        ("folder", StorageError, lambda: disk.rmdir(f"{tmp_path}/folder")),
        ("folder", StorageError, lambda: disk.read(f"{tmp_path}/folder")),
        ("folder/f/g", StorageError, lambda: disk.open(f"{tmp_path}/folder/f/g")),
    ]
    for path, kind, attempt in attempts:
        with pytest.raises(StorageError, match=path) as caught:
            attempt()
        assert type(caught.value) is kind and caught.value.path == f"{tmp_path}/{path}"


@pytest.mark.parametrize("lacking", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EFBIG])
def test_what_ran_out_is_no_dead_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: int) -> None:
    def refuse(*_args: object) -> int:
        raise OSError(lacking, os.strerror(lacking))

    file = OsDisk().open(f"{tmp_path}/f", create=True)
    monkeypatch.setattr(os, "pwrite", refuse)
    with pytest.raises(NoSpaceError, match=os.strerror(lacking)) as caught:
        file.pwrite(0, b"x")
    assert caught.value.path == file.path
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StorageError) as synced:  # what was written before is lost then, which is no lack of space
        file.fsync()
    assert type(synced.value) is StorageError


def test_a_name_that_cannot_be_asked_for_is_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_named: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    (tmp_path / "f").touch()
    monkeypatch.setattr(os, "lstat", refuse)
    monkeypatch.setattr(os, "stat", refuse)
    disk = OsDisk()
    for attempt in (disk.exists, disk.open):
        with pytest.raises(StorageError) as caught:
            attempt(f"{tmp_path}/f")
        assert type(caught.value) is StorageError


def test_the_gravest_error_of_many_fsyncs_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = OsDisk()
    files = [disk.open(f"{tmp_path}/{at}", create=True) for at in range(30)]
    broken, lacking = descriptor_of(files[20]), files[3]
    lacking.close()
    real_open, real_fsync = os.open, os.fsync

    def refuse_open(path: str, *rest: int) -> int:
        if path == lacking.path:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real_open(path, *rest)

    def refuse_fsync(descriptor: int) -> None:
        if descriptor == broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real_fsync(descriptor)

    monkeypatch.setattr(os, "open", refuse_open)
    monkeypatch.setattr(os, "fsync", refuse_fsync)
    with pytest.raises(StorageError) as caught:
        disk.fsync_all(files)
    assert type(caught.value) is StorageError and caught.value.path == files[20].path


def test_files_are_synced_where_the_machine_gives_no_threads(tmp_path: Path) -> None:
    program = """if True:
        import sys, threading
        from ottla.log import OsDisk
        def refuse(self):
            raise RuntimeError("can't start new thread")
        threading.Thread.start = refuse
        disk = OsDisk()
        disk.fsync_all([disk.open(f"{sys.argv[1]}/{at}", create=True) for at in range(20)], [sys.argv[1]] * 20)
    """
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=60)


@pytest.mark.parametrize("kind", [StorageError, NoSpaceError, CorruptionError, MissingFileError])
def test_an_error_comes_whole_from_a_worker_process(kind: type[StorageError]) -> None:
    for returned in (pickle.loads(pickle.dumps(kind("f: broken", "f"))), copy.copy(kind("f: broken", "f"))):
        assert type(returned) is kind and str(returned) == "f: broken" and returned.path == "f"
    assert kind("no file's").path == ""


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


@pytest.mark.parametrize("number", [errno.EIO, errno.EUCLEAN, errno.ESTALE])
def test_a_copy_to_a_socket_says_whether_the_file_failed_or_the_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    file = OsDisk().open(f"{tmp_path}/f", create=True)
    file.pwrite(0, b"abcdef")
    held = file.hold()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert held.sendfile(ours.fileno(), 2, 3) == 3
        assert theirs.recv(10) == b"cde"
        assert held.sendfile(ours.fileno(), 6, 3) == 0
        theirs.close()
        with pytest.raises(BrokenPipeError):
            held.sendfile(ours.fileno(), 0, 3)

        def fails(*arguments: object) -> int:
            raise OSError(number, "the device is gone")

        monkeypatch.setattr(os, "sendfile", fails)
        with pytest.raises(StorageError) as caught:
            held.sendfile(ours.fileno(), 0, 3)
        assert caught.value.path == f"{tmp_path}/f"


def test_a_flushed_log_holds_its_segment_alone_and_a_closed_one_nothing(tmp_path: Path) -> None:
    disk = OsDisk()
    log_dir = LogDir.open(disk, str(tmp_path))
    log = log_dir.open_log(TopicPartition("t", 0), LogConfig(), now_ms=0, topic_id=Uuid(bytes(range(16))))
    log.append(batch([b"a"]), leader_epoch=0, now_ms=0)
    log.flush()
    assert disk.open_descriptors <= 3, "the log and its two indexes"
    log_dir.close()
    assert disk.open_descriptors == 0
