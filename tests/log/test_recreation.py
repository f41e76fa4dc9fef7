"""What checkpoints say of a log is never taken for what they say of another one that has its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.base import NoSpaceError, StorageError, TopicPartition, Uuid
from ottla.log import LogConfig, LogDir, OsDisk
from tests.log.failing_disk import FailingDisk
from tests.log.records import NOW, batch, values

KEY, OTHER = TopicPartition("t", 0), TopicPartition("u", 0)
FIRST, SECOND = Uuid(bytes(range(16))), Uuid(bytes(range(1, 17)))
CONFIG = LogConfig(segment_bytes=900)
NAMES = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)


def opened(tmp_path: Path) -> LogDir:
    return LogDir.open(OsDisk(), str(tmp_path / "data"))


def fill(log_dir: LogDir, topic_id: Uuid, count: int, *, start: int = 0) -> None:
    """Make a log, write to it, and store all that checkpoints can say of it."""
    log = log_dir.open_log(KEY, CONFIG, now_ms=NOW, topic_id=topic_id)
    for at in range(count):
        log.append(batch([b"%d" % at]), leader_epoch=0, now_ms=NOW)
    log.delete_records_before(start)
    log.cleaned_to = start
    log.flush()
    log_dir.write_recovery_points()
    log_dir.write_start_offsets()
    log_dir.write_cleaned_offsets()
    log_dir.write_high_watermarks({KEY: (log, count)})


@pytest.mark.parametrize("restarted", [False, True])
def test_a_topic_made_again_keeps_its_records_after_a_crash(tmp_path: Path, restarted: bool) -> None:
    log_dir = opened(tmp_path)
    fill(log_dir, FIRST, 60, start=40)
    log_dir.delete_log(KEY, unique="u", now_ms=NOW, delay_ms=60_000)
    if restarted:
        log_dir.release()
        log_dir = opened(tmp_path)
    log = log_dir.open_log(KEY, CONFIG, now_ms=NOW, topic_id=SECOND)
    assert (log.log_start_offset, log.recovery_point, log.cleaned_to, log_dir.high_watermark(KEY)) == (0, 0, -1, 0)
    for at in range(50):
        log.append(batch([b"new %d" % at]), leader_epoch=0, now_ms=NOW)
    log_dir.release()  # kill -9
    again = opened(tmp_path)
    log = again.open_log(KEY, CONFIG, now_ms=NOW, topic_id=SECOND)
    assert (log.log_start_offset, log.log_end_offset, log.cleaned_to, again.high_watermark(KEY)) == (0, 50, -1, 0)
    assert values(log.read(0, max_bytes=1 << 20))[0] == b"new 0"
    again.release()


def test_a_topic_that_was_made_again_while_the_broker_was_away_keeps_its_records(tmp_path: Path) -> None:
    log_dir = opened(tmp_path)
    fill(log_dir, FIRST, 60, start=40)
    log_dir.release()
    log_dir = opened(tmp_path)
    log = log_dir.open_log(KEY, CONFIG, now_ms=NOW, topic_id=SECOND)
    for at in range(50):
        log.append(batch([b"new %d" % at]), leader_epoch=0, now_ms=NOW)
    log_dir.release()
    again = opened(tmp_path).open_log(KEY, CONFIG, now_ms=NOW, topic_id=SECOND)
    assert (again.log_start_offset, again.log_end_offset) == (0, 50)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_replica_that_was_moved_away_and_back_opens_with_less(tmp_path: Path, restarted: bool) -> None:
    log_dir = opened(tmp_path)
    fill(log_dir, FIRST, 60, start=40)
    log_dir.delete_log(
        KEY, unique="u", now_ms=NOW, delay_ms=60_000
    )  # it lies in another directory now, where it is cut
    if restarted:
        log_dir.release()
        log_dir = opened(tmp_path)
    future = log_dir.open_future(KEY, CONFIG, now_ms=NOW, unique="f", topic_id=FIRST)
    for at in range(30):
        data = batch([b"%d" % at], base_offset=at, leader_epoch=0)
        future.append_replicated(data, leader_epoch=0, now_ms=NOW)
    future.delete_records_before(3)
    future.flush()
    log_dir.name_future(KEY)
    log_dir.release()  # the power fails before anything else is stored
    again = opened(tmp_path)
    log = again.open_log(KEY, CONFIG, now_ms=NOW, topic_id=FIRST)
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (3, 30, 0)
    again.release()


def test_a_watermark_read_of_the_log_before_is_not_stored_for_the_one_that_has_its_name(tmp_path: Path) -> None:
    log_dir = opened(tmp_path)
    fill(log_dir, FIRST, 60)
    read_a_moment_ago = {KEY: (log_dir.logs[KEY], 60)}
    log_dir.delete_log(KEY, unique="u", now_ms=NOW, delay_ms=60_000)
    log = log_dir.open_log(KEY, CONFIG, now_ms=NOW, topic_id=SECOND)
    for at in range(50):
        log.append(batch([b"new %d" % at]), leader_epoch=0, now_ms=NOW)
    log_dir.write_high_watermarks(read_a_moment_ago)
    log_dir.release()  # kill -9
    again = opened(tmp_path)
    again.open_log(KEY, CONFIG, now_ms=NOW, topic_id=SECOND)
    assert again.high_watermark(KEY) == 0
    again.release()


def test_what_is_said_of_other_logs_stays(tmp_path: Path) -> None:
    log_dir = opened(tmp_path)
    other = log_dir.open_log(OTHER, CONFIG, now_ms=NOW, topic_id=SECOND)
    other.append(batch([b"a", b"b"]), leader_epoch=0, now_ms=NOW)
    other.delete_records_before(1)
    other.cleaned_to = 1
    other.flush()
    fill(log_dir, FIRST, 60, start=40)
    log_dir.write_high_watermarks({KEY: (log_dir.logs[KEY], 60), OTHER: (other, 2)})
    log_dir.delete_log(KEY, unique="u", now_ms=NOW, delay_ms=60_000)
    log_dir.open_log(KEY, CONFIG, now_ms=NOW, topic_id=SECOND)
    texts = [(tmp_path / "data" / name).read_text() for name in NAMES]
    assert texts == [f"0\n1\nu 0 {offset}\n" for offset in (2, 1, 2, 1)], "in Kafka's format"
    log_dir.release()


def test_a_log_is_not_made_before_the_checkpoints_have_forgotten_the_one_before(tmp_path: Path) -> None:
    disk = FailingDisk(OsDisk())
    log_dir = LogDir.open(disk, str(tmp_path / "data"))  # type: ignore[arg-type]
    fill(log_dir, FIRST, 60, start=40)
    log_dir.delete_log(KEY, unique="u", now_ms=NOW, delay_ms=60_000)
    disk.watch()
    log_dir.open_log(KEY, CONFIG, now_ms=NOW, topic_id=SECOND)
    calls = len(disk.calls)
    log_dir.delete_log(KEY, unique="v", now_ms=NOW, delay_ms=0)
    for number in range(1, calls):
        for kind in ("full", "EIO", "ENOENT"):
            fill(log_dir, FIRST, 60, start=40)
            log_dir.delete_log(KEY, unique="w", now_ms=NOW, delay_ms=0)
            disk.watch(number, kind)
            try:
                log_dir.open_log(KEY, CONFIG, now_ms=NOW, topic_id=SECOND)
            except StorageError:
                disk.mend()
                log_dir.open_log(KEY, CONFIG, now_ms=NOW, topic_id=SECOND)
            disk.mend()
            log = log_dir.logs[KEY]
            for at in range(5):
                log.append(batch([b"new %d" % at]), leader_epoch=0, now_ms=NOW)
            again = LogDir(OsDisk(), str(tmp_path / "data"), _NoLock())
            killed = again.open_log(KEY, CONFIG, now_ms=NOW, topic_id=SECOND)
            assert (killed.log_start_offset, killed.log_end_offset) == (0, 5), f"{kind} at {number}"
            killed.abandon()
            log_dir.delete_log(KEY, unique="x", now_ms=NOW, delay_ms=0)
            assert log_dir.take_doomed(NOW)  # whose files are closed with that
    log_dir.release()


class _NoLock:
    def release(self) -> None:
        """Nothing is held."""


def test_a_folder_that_cannot_be_set_aside_is_set_aside_later(tmp_path: Path) -> None:
    disk = FailingDisk(OsDisk())
    log_dir = LogDir.open(disk, str(tmp_path / "data"))  # type: ignore[arg-type]
    fill(log_dir, FIRST, 20)
    disk.watch(1, "full", only="rename")
    log_dir.delete_log(KEY, unique="u", now_ms=NOW, delay_ms=5)  # deleted it is, for all who ask
    assert KEY not in log_dir.logs and log_dir.take_doomed(NOW + 10) == []
    with pytest.raises(NoSpaceError):
        log_dir.open_log(KEY, CONFIG, now_ms=NOW, topic_id=FIRST)  # the same topic's, moved away and back
    disk.mend()
    log = log_dir.open_log(KEY, CONFIG, now_ms=NOW, topic_id=FIRST)
    assert log.log_end_offset == 0
    log.append(batch([b"a"]), leader_epoch=0, now_ms=NOW)
    (folder,) = log_dir.take_doomed(NOW + 10)
    assert folder.endswith("-delete") and values(log.read(0, max_bytes=1000)) == [b"a"]
    log_dir.release()
