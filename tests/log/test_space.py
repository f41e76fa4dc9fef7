"""What is deleted is given back: no file that is removed is kept open, and its space is free; readers in flight finish."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.base import TopicPartition, Uuid
from ottla.log import LogConfig, LogDir, OsDisk, delete_folder
from tests.log.records import NOW, batch

KEY = TopicPartition("t", 0)
CONFIG = LogConfig(segment_bytes=1 << 20, file_delete_delay_ms=60_000, retention_bytes=2 << 20, index_interval_bytes=1)
DISK_BYTES = 12 << 20
WRITTEN_BYTES = 60 << 20
MODULE = "tests.log.test_space"


def open_paths(folder: Path) -> list[str]:
    """Return the files below a folder that this process holds open that are removed, or are to be."""
    paths = []
    for name in os.listdir("/proc/self/fd"):
        try:
            paths.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue
    below = [each for each in paths if each.startswith(f"{folder}/")]
    return [each for each in below if each.endswith((" (deleted)", ".deleted")) or "-delete/" in each]


def test_retained_and_truncated_files_are_not_kept_open(tmp_path: Path) -> None:
    disk = OsDisk()
    log_dir = LogDir.open(disk, str(tmp_path / "data"))
    log = log_dir.open_log(KEY, CONFIG, now_ms=NOW)
    data = batch([bytes(100_000)])
    for at in range(80):
        log.append(data, now_ms=NOW + at)
    log.truncate_to(70)
    reading = log.read(5, max_bytes=50_000, min_one_batch=True)
    wanted = reading.read()
    gone = log.housekeep(NOW + 100)
    assert gone == [] and log.log_start_offset > 5
    assert reading.read() == wanted, "for file.delete.delay.ms, the files are there"
    for path in log.housekeep(NOW + 60_200):
        disk.unlink(path)
    assert reading.read() == wanted, "who reads it keeps it"
    assert len(open_paths(tmp_path)) == 1
    del reading
    assert open_paths(tmp_path) == []
    log_dir.release()


def test_the_files_of_a_dropped_log_are_not_kept_open(tmp_path: Path) -> None:
    disk = OsDisk()
    log_dir = LogDir.open(disk, str(tmp_path / "data"))
    log = log_dir.open_log(KEY, CONFIG, now_ms=NOW, topic_id=Uuid(bytes(16)))
    for at in range(40):
        log.append(batch([bytes(100_000)]), now_ms=NOW + at)
    assert log.housekeep(NOW + 100) == []  # some are set aside already
    log_dir.delete_log(KEY, unique="u", now_ms=NOW, delay_ms=10)
    reading = log.read(log.log_start_offset, max_bytes=200_000)
    assert len(reading.read()) > 100_000
    for folder in log_dir.take_doomed(NOW + 10):
        delete_folder(disk, folder)
    assert open_paths(tmp_path) == []
    assert list((tmp_path / "data").glob("t-0*")) == []
    log_dir.release()


def test_a_small_disk_takes_five_times_its_size(tmp_path: Path) -> None:
    if os.geteuid() or shutil.which("unshare") is None:
        pytest.skip("a small file system needs root and Linux's mount namespaces")
    script = f'mount -t tmpfs -o size={DISK_BYTES} small "$1" || exit 77; exec "$2" -m {MODULE} "$1"'
    command = ["unshare", "-m", "sh", "-c", script, "sh", str(tmp_path), sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert "used at the end: 0" in done.stdout


def used(path: str) -> int:
    """Return the bytes that the file system's files take, as statfs says."""
    found = os.statvfs(path)
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def fill(path: str) -> None:
    """Write much more than fits to a log that is retained, then to one that is dropped and made again."""
    disk = OsDisk()
    empty = used(path)
    log_dir = LogDir.open(disk, f"{path}/data")
    data = batch([bytes(100_000)])
    now = NOW
    log = log_dir.open_log(KEY, CONFIG, now_ms=now)
    for _ in range(WRITTEN_BYTES // len(data)):
        now += 10_000
        log.append(data, now_ms=now)
        for gone in log.housekeep(now):
            disk.unlink(gone)
    for round_ in range(10):
        log_dir.delete_log(KEY, unique=f"u{round_}", now_ms=now, delay_ms=60_000)
        now += 60_000
        for folder in log_dir.take_doomed(now):
            delete_folder(disk, folder)
        log = log_dir.open_log(KEY, CONFIG, now_ms=now)
        for _ in range(50):
            log.append(data, now_ms=now)
    log_dir.delete_log(KEY, unique="last", now_ms=now, delay_ms=0)
    for folder in log_dir.take_doomed(now):
        delete_folder(disk, folder)
    log_dir.release()
    os.unlink(f"{path}/data/.lock")
    os.rmdir(f"{path}/data")
    print(f"used at the end: {used(path) - empty}")


if __name__ == "__main__":
    fill(sys.argv[1])
