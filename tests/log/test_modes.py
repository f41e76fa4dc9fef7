"""What a server keeps is its user's alone from the moment that it is there, whatever the umask says."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.log import OsDisk


@pytest.fixture(autouse=True)
def any_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folders_are_made_for_their_user_alone_and_so_are_those_above(tmp_path: Path) -> None:
    disk = OsDisk()
    disk.mkdir(str(tmp_path / "a" / "b" / "c"))
    disk.mkdir(str(tmp_path / "d"))
    assert {mode(tmp_path / each) for each in ("a", "a/b", "a/b/c", "d")} == {0o700}
    disk.mkdir(str(tmp_path / "a" / "b" / "c"))


def test_files_and_locks_are_made_for_their_user_alone(tmp_path: Path) -> None:
    disk = OsDisk()
    disk.open(str(tmp_path / "file"), create=True)
    lock = disk.lock(str(tmp_path / "lock"))
    assert lock is not None
    lock.release()
    assert {mode(tmp_path / "file"), mode(tmp_path / "lock")} == {0o600}


def test_a_folder_that_others_enter_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir(mode=0o755)
    OsDisk().mkdir(str(tmp_path / "old"))
    OsDisk().mkdir(str(tmp_path / "old" / "new"))
    assert (mode(tmp_path / "old"), mode(tmp_path / "old" / "new")) == (0o755, 0o700)
