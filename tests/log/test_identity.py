"""The logs of a topic that are made together share the file that says whose they are, and nobody writes into it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ottla.base import NoSpaceError, StorageError, TopicPartition, Uuid
from ottla.log import LogConfig, LogDir, OsDisk
from ottla.log.identity import NAMES_MAX
from ottla.log.properties import read_topic_id
from tests.log.failing_disk import FailingDisk, Killed
from tests.log.records import NOW, batch

TOPIC_ID = Uuid(bytes(range(16)))
OTHER_ID = Uuid(bytes(range(1, 17)))
CONFIG = LogConfig()


def opened(tmp_path: Path) -> LogDir:
    return LogDir.open(OsDisk(), str(tmp_path / "data"))


def make(log_dir: LogDir, count: int, topic: str = "t", topic_id: Uuid = TOPIC_ID) -> None:
    for index in range(count):
        log_dir.open_log(TopicPartition(topic, index), CONFIG, now_ms=NOW, topic_id=topic_id)


def inode(tmp_path: Path, name: str) -> int:
    return (tmp_path / "data" / name / "partition.metadata").stat().st_ino


def test_new_logs_of_a_topic_share_a_file_and_those_of_another_do_not(tmp_path: Path) -> None:
    log_dir = opened(tmp_path)
    make(log_dir, 3)
    make(log_dir, 2, "u", OTHER_ID)
    assert len({inode(tmp_path, f"t-{each}") for each in range(3)}) == 1
    assert inode(tmp_path, "u-0") == inode(tmp_path, "u-1") != inode(tmp_path, "t-0")
    assert sorted(each.name for each in (tmp_path / "data" / "t-2").iterdir()) == [
        "00000000000000000000.log",
        "partition.metadata",
    ]
    for name, wanted in (("t-0", TOPIC_ID), ("t-2", TOPIC_ID), ("u-1", OTHER_ID)):
        assert read_topic_id(log_dir.disk, str(tmp_path / "data" / name)) == wanted
    log_dir.release()


def test_a_file_has_a_bounded_number_of_names(tmp_path: Path) -> None:
    log_dir = opened(tmp_path)
    make(log_dir, NAMES_MAX + 1)
    assert inode(tmp_path, "t-0") == inode(tmp_path, f"t-{NAMES_MAX - 1}") != inode(tmp_path, f"t-{NAMES_MAX}")
    log_dir.release()


def test_no_name_is_taken_of_a_file_in_a_folder_that_was_given_up(tmp_path: Path) -> None:
    log_dir = opened(tmp_path)
    make(log_dir, 1)
    log_dir.delete_log(TopicPartition("t", 0), unique="x", now_ms=NOW, delay_ms=0)
    make(log_dir, 1, topic_id=OTHER_ID)
    log_dir.open_log(TopicPartition("t", 1), CONFIG, now_ms=NOW, topic_id=TOPIC_ID)
    assert read_topic_id(log_dir.disk, str(tmp_path / "data" / "t-0")) == OTHER_ID
    assert read_topic_id(log_dir.disk, str(tmp_path / "data" / "t-1")) == TOPIC_ID
    log_dir.release()


def test_a_log_gets_a_file_of_its_own_where_the_shared_one_is_gone(tmp_path: Path) -> None:
    log_dir = opened(tmp_path)
    make(log_dir, 1)
    (tmp_path / "data" / "t-0" / "partition.metadata").unlink()
    log_dir.open_log(TopicPartition("t", 1), CONFIG, now_ms=NOW, topic_id=TOPIC_ID)
    assert read_topic_id(log_dir.disk, str(tmp_path / "data" / "t-1")) == TOPIC_ID
    log_dir.release()


@pytest.mark.parametrize("code", [errno.EMLINK, errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV])
def test_where_a_file_can_have_no_further_name_each_log_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refuse)
    log_dir = opened(tmp_path)
    make(log_dir, 2)
    assert inode(tmp_path, "t-0") != inode(tmp_path, "t-1")
    assert read_topic_id(log_dir.disk, str(tmp_path / "data" / "t-1")) == TOPIC_ID
    log_dir.release()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_name_that_the_disk_refuses_is_an_error_with_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(NoSpaceError if code == errno.ENOSPC else StorageError, match="b: "):
        OsDisk().link(str(tmp_path / "a"), str(tmp_path / "b"))


def test_a_shared_file_that_a_crash_left_empty_is_written_for_one_log_alone(tmp_path: Path) -> None:
    """Of a deleted topic's folders one is taken by a new topic of its name: the others are not the new topic's by that."""
    log_dir = opened(tmp_path)
    make(log_dir, 2)
    log_dir.release()
    path = tmp_path / "data" / "t-0" / "partition.metadata"
    path.write_bytes(b"")
    again = opened(tmp_path)
    make(again, 1, topic_id=OTHER_ID)
    assert read_topic_id(again.disk, str(tmp_path / "data" / "t-0")) == OTHER_ID
    assert (tmp_path / "data" / "t-1" / "partition.metadata").read_bytes() == b""
    again.release()


def test_a_process_may_be_killed_before_any_call_that_makes_a_log_and_the_next_one_has_it(tmp_path: Path) -> None:
    for number in range(1, 40):
        path = str(tmp_path / str(number))
        disk = FailingDisk(OsDisk())
        log_dir = LogDir.open(disk, path)
        log_dir.open_log(TopicPartition("t", 0), CONFIG, now_ms=NOW, topic_id=TOPIC_ID).append(
            batch([b"a"]), now_ms=NOW
        )
        disk.watch(number, "kill")
        try:
            make_second = log_dir.open_log(TopicPartition("t", 1), CONFIG, now_ms=NOW, topic_id=TOPIC_ID)
        except Killed:
            disk.mend()
            log_dir.release()
        else:
            assert any(call.startswith("link ") for call in disk.calls)
            assert make_second.topic_id == TOPIC_ID
            log_dir.release()
            return
        again = LogDir.open(OsDisk(), path)
        logs = [again.open_log(TopicPartition("t", each), CONFIG, now_ms=NOW, topic_id=TOPIC_ID) for each in range(2)]
        assert [each.log_end_offset for each in logs] == [1, 0]
        assert not again.strays
        assert [read_topic_id(again.disk, each.folder) for each in logs] == [TOPIC_ID, TOPIC_ID]
        again.release()
    raise AssertionError("it never ended")
