"""Whose log a folder holds is known before anything is removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.base import CorruptionError, Offset, TopicPartition, Uuid, uuid_text
from ottla.log import LogConfig, LogDir, OsDisk, delete_folder
from tests.log.records import batch

KEY = TopicPartition("orders", 0)
OURS, THEIRS = Uuid(bytes(range(16))), Uuid(bytes(range(16, 32)))
CONFIG = LogConfig()
NOW = 1_000


def written(path: Path, topic_id: Uuid) -> Path:
    """Leave a log of one record; return its `partition.metadata`."""
    log_dir = LogDir.open(OsDisk(), str(path))
    log = log_dir.open_log(KEY, CONFIG, now_ms=NOW, topic_id=topic_id)
    log.append(batch([b"a"]), leader_epoch=0, now_ms=NOW)
    log_dir.close()
    return path / str(KEY) / "partition.metadata"


def opened(path: Path, topic_id: Uuid) -> tuple[LogDir, Offset]:
    """Open the log for a topic, remove what is to be removed, and return how far it reaches."""
    log_dir = LogDir.open(OsDisk(), str(path))
    try:
        log_dir.found()
        end = log_dir.open_log(KEY, CONFIG, now_ms=NOW, topic_id=topic_id).log_end_offset
        for folder in log_dir.take_doomed(NOW):
            delete_folder(log_dir.disk, folder)
    finally:
        log_dir.release()
    return log_dir, end


@pytest.mark.parametrize("at", range(len("version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\ncrc32c: 00000000")))
@pytest.mark.parametrize("bit", [0x01, 0x10])
def test_no_wrong_bit_in_a_topic_id_removes_a_log(tmp_path: Path, at: int, bit: int) -> None:
    metadata = written(tmp_path, OURS)
    content = bytearray(metadata.read_bytes())
    content[at] ^= bit
    metadata.write_bytes(content)
    try:
        _, end = opened(tmp_path, OURS)
        assert end == 1
    except CorruptionError as error:
        assert "partition.metadata" in str(error)
    assert (tmp_path / str(KEY) / f"{0:020d}.log").stat().st_size
    metadata.write_text(f"version: 0\ntopic_id: {uuid_text(OURS)}\n")  # what the manual says to do
    assert opened(tmp_path, OURS)[1] == 1


def test_the_log_of_another_topic_is_removed(tmp_path: Path) -> None:
    written(tmp_path, THEIRS)
    log_dir, end = opened(tmp_path, OURS)
    assert end == 0 and not log_dir.strays
    assert sorted(each.name for each in tmp_path.iterdir() if each.is_dir()) == [str(KEY)]


def test_a_log_of_which_nothing_proves_whose_it_is_is_kept(tmp_path: Path) -> None:
    metadata = written(tmp_path, THEIRS)
    kafkas = metadata.read_bytes().rpartition(b"\n")[0]
    metadata.write_bytes(kafkas)
    log_dir, end = opened(tmp_path, OURS)
    assert end == 0
    (stray,) = log_dir.strays
    assert stray.endswith("-stray") and (Path(stray) / "partition.metadata").read_bytes() == kafkas
    assert opened(tmp_path, OURS)[0].strays == [stray], "the next start names it again, and keeps it"
    assert (Path(stray) / f"{0:020d}.log").stat().st_size


@pytest.mark.parametrize("left", [None, b"", b"version: 0\ntop", bytes(60)])
def test_records_that_lost_their_topic_id_with_the_power_are_no_other_topics(
    tmp_path: Path, left: bytes | None
) -> None:
    """The rename at a deletion and the file had not reached the device: the folder has its old name, and no id."""
    metadata = written(tmp_path, THEIRS)
    metadata.unlink()
    if left is not None:
        metadata.write_bytes(left)
    log_dir, end = opened(tmp_path, OURS)
    assert end == 0
    assert [(Path(stray) / f"{0:020d}.log").stat().st_size > 0 for stray in log_dir.strays] == [True]


def test_an_empty_folder_without_an_id_is_the_topics_that_is_opened(tmp_path: Path) -> None:
    metadata = written(tmp_path, OURS)
    (metadata.parent / f"{0:020d}.log").write_bytes(b"")
    metadata.unlink()
    log_dir, end = opened(tmp_path, OURS)
    assert (end, log_dir.strays) == (0, [])


def test_a_folder_that_kafka_wrote_is_taken_as_it_is(tmp_path: Path) -> None:
    metadata = written(tmp_path, OURS)
    metadata.write_bytes(metadata.read_bytes().rpartition(b"\n")[0])
    assert opened(tmp_path, OURS)[1] == 1
