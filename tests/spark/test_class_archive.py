"""Which archive of classes a session's JVM uses, and when it writes one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ottla.spark import class_archive
from ottla.spark.class_archive import FOLDER_VARIABLE, QUIET, class_archive_options
from ottla.spark.java import Java


@pytest.fixture
def java(tmp_path: Path) -> Java:
    binary = tmp_path / "java" / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.touch()
    return Java(tmp_path / "java", 17)


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    (tmp_path / "jars").mkdir()
    return tmp_path / "jars"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setattr(class_archive, "BYTES_MIN", 100)
    monkeypatch.setattr(class_archive, "FREE_BYTES_MIN", 0)
    return {FOLDER_VARIABLE: str(tmp_path / "archives")}


def written_by(options: list[str]) -> Path:
    """Return the file that a JVM with these options writes at its end."""
    [path] = [Path(each.partition("=")[2]) for each in options if each.startswith("-XX:ArchiveClassesAtExit=")]
    return path


def test_a_first_run_writes_what_the_next_ones_use(java: Java, jars: Path, here: dict[str, str]) -> None:
    path = written_by(class_archive_options(java, jars, here))
    path.write_bytes(class_archive.WHOLE + bytes(100))
    [first, quiet] = class_archive_options(java, jars, here)
    archive = Path(first.removeprefix("-XX:SharedArchiveFile="))
    assert archive.exists() and not path.exists() and quiet == QUIET
    path.write_bytes(class_archive.WHOLE + bytes(100))  # of another that ended later
    assert class_archive_options(java, jars, here) == [first, quiet] and not path.exists()


@pytest.mark.parametrize("data", [b"", bytes(200), class_archive.WHOLE + bytes(10)], ids=["empty", "torn", "short run"])
def test_what_is_not_whole_or_small_is_never_used(java: Java, jars: Path, here: dict[str, str], data: bytes) -> None:
    path = written_by(class_archive_options(java, jars, here))
    path.write_bytes(data)
    assert written_by(class_archive_options(java, jars, here)) == path
    os.utime(path, (0, 0))
    assert written_by(class_archive_options(java, jars, here)) == path and path.read_bytes() == b""


def test_other_jars_have_an_archive_of_their_own(java: Java, jars: Path, here: dict[str, str]) -> None:
    before = written_by(class_archive_options(java, jars, here))
    os.utime(jars, (1, 1))
    assert written_by(class_archive_options(java, jars, here)).name != before.name


def test_the_archives_that_were_used_last_stay_and_no_more(java: Java, jars: Path, here: dict[str, str]) -> None:
    folder = Path(here[FOLDER_VARIABLE])
    folder.mkdir()
    others = [folder / f"java-17-{number}.jsa" for number in range(8)]
    for number, each in enumerate(others):
        each.touch()
        os.utime(each, (number, number))
    path = written_by(class_archive_options(java, jars, here))
    path.write_bytes(class_archive.WHOLE + bytes(100))
    class_archive_options(java, jars, here)
    mine = folder / f"{path.name.partition('.')[0]}.jsa"
    assert sorted(folder.glob("*.jsa")) == sorted([*others[-3:], mine])


def test_what_was_written_for_another_archive_and_never_taken_goes(
    java: Java, jars: Path, here: dict[str, str]
) -> None:
    left = Path(here[FOLDER_VARIABLE]) / "java-17-gone.999999999.new"
    left.parent.mkdir()
    left.write_bytes(class_archive.WHOLE + bytes(100))
    class_archive_options(java, jars, here)
    assert left.exists(), "it may still be taken"
    os.utime(left, (0, 0))
    class_archive_options(java, jars, here)
    assert not left.exists()


def test_a_session_that_was_killed_keeps_nobody_from_writing(java: Java, jars: Path, here: dict[str, str]) -> None:
    path = written_by(class_archive_options(java, jars, here))
    killed = [path.with_name(f"{path.name.partition('.')[0]}.{2**22 + each}.new") for each in (1, 2)]
    for each in killed:
        each.touch()
    assert written_by(class_archive_options(java, jars, here)) == path and not any(each.exists() for each in killed)


def test_few_runs_write_at_once_and_none_where_the_disk_is_full(
    java: Java, jars: Path, here: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written_by(class_archive_options(java, jars, here))
    for writer in (os.getpid(), os.getppid()):
        path.with_name(f"{path.name.partition('.')[0]}.{writer}.new").touch()
    assert class_archive_options(java, jars, here) == []
    monkeypatch.setattr(class_archive, "FREE_BYTES_MIN", 1 << 62)
    assert class_archive_options(java, jars, {FOLDER_VARIABLE: here[FOLDER_VARIABLE] + "/other"}) == []


@pytest.mark.parametrize(
    "environment", [{FOLDER_VARIABLE: "off", "HOME": "/tmp"}, {}, {FOLDER_VARIABLE: "/dev/null/x"}]
)
def test_without_a_folder_a_session_starts_as_it_would_without_us(
    java: Java, jars: Path, environment: dict[str, str]
) -> None:
    assert class_archive_options(java, jars, environment) == []
