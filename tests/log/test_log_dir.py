"""A log directory: whose it is, who has it, how it was left, and its checkpoints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.base import ConfigError, CorruptionError, NodeId, StorageError, TopicPartition, Uuid
from ottla.log import LogConfig, LogDir, LogDirLockedError, MetaProperties, OsDisk, delete_folder
from tests.log.records import NOW, batch, values

KEY = TopicPartition("a.topic-with-dashes", 3)
TOPIC_ID = Uuid(bytes(range(16)))
OTHER_ID = Uuid(bytes(range(1, 17)))
CONFIG = LogConfig()


def opened(tmp_path: Path) -> LogDir:
    return LogDir.open(OsDisk(), str(tmp_path / "data"))


def test_a_second_user_is_refused_with_a_line_that_says_so(tmp_path: Path) -> None:
    first = opened(tmp_path)
    with pytest.raises(LogDirLockedError, match=r"\.lock .*another process"):
        opened(tmp_path)
    code = f"from ottla.log import *; LogDir.open(OsDisk(), {str(tmp_path / 'data')!r})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "LogDirLockedError" in result.stderr
    first.release()
    opened(tmp_path).release()


def test_identity_is_kafkas_meta_properties(tmp_path: Path) -> None:
    log_dir = opened(tmp_path)
    assert log_dir.meta is None
    meta = MetaProperties(cluster_id="MkU3OEVBNTcwNTJENDM2Qg", node_id=NodeId(7), directory_id=TOPIC_ID)
    log_dir.format(meta)
    lines = (tmp_path / "data" / "meta.properties").read_text().splitlines()
    assert {
        "cluster.id=MkU3OEVBNTcwNTJENDM2Qg",
        "node.id=7",
        "version=1",
        "directory.id=AAECAwQFBgcICQoLDA0ODw",
    } <= set(lines)
    log_dir.release()
    (tmp_path / "data" / "meta.properties").write_text(
        "#\n#Sat Nov 21 08:15:00 UTC 2026\nnode.id=7\nversion=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n"
        "directory.id=AAECAwQFBgcICQoLDA0ODw\n"
    )
    again = opened(tmp_path)
    assert again.meta == meta
    again.release()
    (tmp_path / "data" / "meta.properties").write_text("version=1\nnode.id=x\n")
    with pytest.raises(CorruptionError):
        opened(tmp_path)
    (tmp_path / "data" / "meta.properties").write_text("version=1\n")
    with pytest.raises(CorruptionError, match=r"cluster\.id"):
        opened(tmp_path)


def test_a_clean_end_is_marked_and_the_mark_is_used_once(tmp_path: Path) -> None:
    log_dir = opened(tmp_path)
    assert not log_dir.is_clean
    log = log_dir.open_log(KEY, CONFIG, now_ms=NOW, topic_id=TOPIC_ID)
    log.append(batch([b"a", b"b"]), leader_epoch=0, now_ms=NOW)
    log_dir.close(broker_epoch=42, high_watermarks={KEY: (log, 2)})
    data = tmp_path / "data"
    assert (data / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":42}'
    assert (data / "recovery-point-offset-checkpoint").read_text() == f"0\n1\n{KEY.topic} 3 2\n"
    assert (data / "replication-offset-checkpoint").read_text() == f"0\n1\n{KEY.topic} 3 2\n"
    identity = (data / str(KEY) / "partition.metadata").read_text()
    assert identity == "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\ncrc32c: " + identity[-8:]

    again = opened(tmp_path)
    assert again.is_clean and again.broker_epoch == 42 and again.high_watermark(KEY) == 2
    assert not (data / ".kafka_cleanshutdown").exists()
    (found,) = again.found()
    assert (found.partition, found.topic_id) == (KEY, TOPIC_ID)
    log = again.open_log(KEY, CONFIG, now_ms=NOW, topic_id=TOPIC_ID)
    assert log.recovery is None and log.recovery_point == 2
    again.release()

    killed = opened(tmp_path)
    assert not killed.is_clean
    assert killed.recovery_arguments(KEY) == {"recovery_point": 2, "log_start_offset": 0}
    assert killed.open_log(KEY, CONFIG, now_ms=NOW).recovery is not None
    killed.release()


def test_the_logs_start_survives_a_restart(tmp_path: Path) -> None:
    log_dir = opened(tmp_path)
    log = log_dir.open_log(KEY, CONFIG, now_ms=NOW)
    for _ in range(4):
        log.append(batch([b"a"]), now_ms=NOW)
    log.delete_records_before(3)
    log_dir.write_start_offsets()
    assert (tmp_path / "data" / "log-start-offset-checkpoint").read_text() == f"0\n1\n{KEY.topic} 3 3\n"
    log_dir.release()
    again = opened(tmp_path)
    assert again.open_log(KEY, CONFIG, now_ms=NOW).log_start_offset == 3
    again.release()


def test_a_deleted_log_leaves_at_once_and_its_files_later(tmp_path: Path) -> None:
    log_dir = opened(tmp_path)
    log = log_dir.open_log(KEY, CONFIG, now_ms=NOW, topic_id=TOPIC_ID)
    log.append(batch([b"a"]), now_ms=NOW)
    reading = log.read(0, max_bytes=1000)
    log_dir.delete_log(KEY, unique="f00d", now_ms=NOW, delay_ms=1000)
    folder = tmp_path / "data" / f"{KEY.topic}-3.f00d-delete"
    assert folder.is_dir() and not log_dir.has_log(KEY) and values(reading) == [b"a"]
    assert log_dir.take_doomed(NOW + 999) == []
    (doomed,) = log_dir.take_doomed(NOW + 1000)
    delete_folder(log_dir.disk, doomed)
    assert not folder.exists()
    fresh = log_dir.open_log(KEY, CONFIG, now_ms=NOW, topic_id=OTHER_ID)
    assert fresh.log_end_offset == 0
    log_dir.release()


def test_what_a_crash_left_of_a_deletion_is_found_again(tmp_path: Path) -> None:
    log_dir = opened(tmp_path)
    log_dir.open_log(KEY, CONFIG, now_ms=NOW)
    log_dir.delete_log(KEY, unique="f00d", now_ms=NOW, delay_ms=1 << 40)
    log_dir.release()
    again = opened(tmp_path)
    assert again.found() == []
    assert len(again.take_doomed(NOW)) == 1
    again.release()


def test_a_folder_of_an_earlier_topic_of_the_name_is_set_aside(tmp_path: Path) -> None:
    log_dir = opened(tmp_path)
    log_dir.open_log(KEY, CONFIG, now_ms=NOW, topic_id=TOPIC_ID).append(batch([b"old"]), now_ms=NOW)
    log_dir.close()
    again = opened(tmp_path)
    log = again.open_log(KEY, CONFIG, now_ms=NOW, topic_id=OTHER_ID)
    assert log.log_end_offset == 0 and log.topic_id == OTHER_ID
    assert len(again.take_doomed(NOW)) == 1
    again.release()


def test_a_long_topic_name_still_fits_when_it_is_deleted(tmp_path: Path) -> None:
    key = TopicPartition("t" * 249, 12)
    log_dir = opened(tmp_path)
    log_dir.open_log(key, CONFIG, now_ms=NOW)
    log_dir.delete_log(key, unique="0" * 32, now_ms=NOW, delay_ms=0)
    assert len(log_dir.take_doomed(NOW)) == 1
    log_dir.release()


def test_a_damaged_checkpoint_only_makes_the_start_read_more(tmp_path: Path) -> None:
    log_dir = opened(tmp_path)
    log_dir.open_log(KEY, CONFIG, now_ms=NOW).append(batch([b"a"]), now_ms=NOW)
    log_dir.release()
    (tmp_path / "data" / "recovery-point-offset-checkpoint").write_text("0\n2\nhalf")
    again = opened(tmp_path)
    assert again.open_log(KEY, CONFIG, now_ms=NOW).log_end_offset == 1
    again.release()


def test_the_metadata_log_is_the_quorums(tmp_path: Path) -> None:
    log_dir = opened(tmp_path)
    (tmp_path / "data" / "__cluster_metadata-0").mkdir()
    (tmp_path / "data" / "no-partition").mkdir()
    assert log_dir.found() == []
    log_dir.release()


def test_where_closing_fails_no_mark_is_left(tmp_path: Path) -> None:
    log_dir = opened(tmp_path)
    log = log_dir.open_log(KEY, CONFIG, now_ms=NOW)
    log.append(batch([b"a"]), now_ms=NOW)
    delete_folder(log_dir.disk, log.folder)
    log.abandon()
    with pytest.raises(StorageError):
        log_dir.close()
    assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    opened(tmp_path).release()


def test_a_partitions_log_is_no_log_directory(tmp_path: Path) -> None:
    log_dir = opened(tmp_path)
    log_dir.open_log(KEY, CONFIG, now_ms=NOW, topic_id=TOPIC_ID)
    log_dir.close()
    folder = tmp_path / "data" / str(KEY)
    before = sorted(folder.iterdir())
    with pytest.raises(ConfigError, match="it is the log of a partition"):
        LogDir.open(OsDisk(), str(folder))
    assert sorted(folder.iterdir()) == before


def test_a_log_directory_is_not_removed_as_a_log(tmp_path: Path) -> None:
    log_dir = opened(tmp_path)
    log_dir.format(MetaProperties(cluster_id="MkU3OEVBNTcwNTJENDM2Qg", node_id=NodeId(7), directory_id=TOPIC_ID))
    log_dir.open_log(KEY, CONFIG, now_ms=NOW, topic_id=TOPIC_ID).append(batch([b"a"]), now_ms=NOW)
    log_dir.close()
    with pytest.raises(StorageError, match="is not removed"):
        delete_folder(OsDisk(), str(tmp_path / "data"))
    assert (tmp_path / "data" / str(KEY)).is_dir()
