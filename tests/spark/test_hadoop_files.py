"""What a query sink asks of file systems, on this machine's disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ottla.spark.connect.hadoop_files import sync_local


def test_files_their_checksums_and_all_folders_above_them_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def noted(handle: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    for name in ("one", ".one.crc", "two", "other"):
        (folder / name).write_text(name)
    monkeypatch.setattr(os, "fsync", noted)
    sync_local([folder / "one", folder / "two"])
    assert set(synced[:3]) == {str(folder / name) for name in ("one", ".one.crc", "two")}, "files before their names"
    assert synced[3:6] == [str(folder), str(tmp_path / "a"), str(tmp_path)]
    assert len(synced) == len(set(synced))


def test_a_file_that_is_not_there_is_no_durable_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sync_local([tmp_path / "gone"])
