"""What retention removes, what it leaves, and when the files go."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ottla.log import File, Log, LogConfig, OsDisk
from tests.log.records import NOW, batch, values

DAY = 86_400_000


def filled(tmp_path: Path, *, count: int = 9, **settings: object) -> Log:
    """Return a log of nine batches, a day apart, three to a segment."""
    size = len(batch([b"x" * 100]))
    config = LogConfig(**{"segment_bytes": 3 * size, "segment_ms": 1 << 40, **settings})  # type: ignore[arg-type]
    log = Log.open(OsDisk(), str(tmp_path / "t-0"), config, now_ms=NOW, clean=True)
    for at in range(count):
        log.append(batch([b"x" * 100], timestamp=NOW + at * DAY), leader_epoch=at // 3, now_ms=NOW + at * DAY)
    return log


def names(log: Log, suffix: str) -> list[str]:
    return sorted(path.name for path in Path(log.folder).iterdir() if path.name.endswith(suffix))


def test_segments_go_when_their_newest_record_is_too_old(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_ms=4 * DAY)
    log.housekeep(NOW + 6 * DAY)
    assert log.log_start_offset == 0, "the first segment's newest record is four days old, not more"
    log.housekeep(NOW + 6 * DAY + 1)
    assert log.log_start_offset == 3 and log.segment_count == 2
    assert [tuple(each) for each in log.leader_epochs.starts] == [(1, 3), (2, 6)]


def test_segments_go_while_enough_bytes_are_left_without_them(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_bytes=1000, retention_ms=-1)
    size = log.size // 9
    assert 3 * size < 1000 < 6 * size
    log.housekeep(NOW)
    assert log.log_start_offset == 3 and log.size == 6 * size


def test_the_active_segment_is_rolled_before_all_of_it_goes(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_ms=DAY)
    log.housekeep(NOW + 100 * DAY)
    assert log.log_start_offset == log.log_end_offset == 9 and log.segment_count == 1 and log.size == 0
    log.append(batch([b"new"], timestamp=NOW + 100 * DAY), now_ms=NOW + 100 * DAY)
    assert values(log.read(9, max_bytes=1000)) == [b"new"]
    log.housekeep(NOW + 100 * DAY)
    assert log.log_start_offset == 9


def test_what_is_not_replicated_stays(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_ms=DAY)
    log.housekeep(NOW + 100 * DAY, high_watermark=5)
    assert log.log_start_offset == 3


def test_a_compacted_topic_keeps_everything_until_it_is_cleaned(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_ms=DAY, cleanup_policy=("compact",))
    log.housekeep(NOW + 100 * DAY)
    assert log.log_start_offset == 0


def test_files_go_after_a_delay_and_readers_may_finish_meanwhile(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_ms=DAY, file_delete_delay_ms=1000)
    reading = log.read(0, max_bytes=1 << 20)
    now = NOW + 100 * DAY
    assert log.housekeep(now) == []
    assert len(names(log, ".log.deleted")) == 3 and names(log, ".log") == ["00000000000000000009.log"]
    assert values(reading) == [b"x" * 100] * 3
    due = log.housekeep(now + 1000)
    assert len(due) == 9
    for path in due:
        OsDisk().unlink(path)
    assert names(log, ".deleted") == []


def test_deleted_records_move_the_start_and_free_whole_segments(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.delete_records_before(4)
    assert log.log_start_offset == 4 and log.segment_count == 2
    assert log.leader_epochs.starts[0] == (1, 4)
    log.delete_records_before(2)
    assert log.log_start_offset == 4
    assert len(names(log, ".snapshot")) == 2


def test_snapshots_go_with_their_segments(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_ms=DAY)
    log.housekeep(NOW + 8 * DAY)
    assert names(log, ".snapshot") == ["00000000000000000006.snapshot"]


def test_a_flush_that_runs_meanwhile_keeps_files_from_being_removed_under_it(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_ms=DAY, file_delete_delay_ms=0)
    disk = InterruptedDisk(log)
    log._durability._disk = disk  # type: ignore[assignment]
    log.flush()
    assert disk.interrupted and log.recovery_point == 0, "what was truncated meanwhile may not count as flushed"
    log.flush()
    assert log.recovery_point == 4
    assert len(log.housekeep(NOW + 5 * DAY)) > 3, "what was set aside meanwhile goes now"


class InterruptedDisk:
    """A disk on which a truncation and a round of retention come between a flush's look at the files and its fsyncs."""

    def __init__(self, log: Log) -> None:
        self._disk, self._log = OsDisk(), log
        self.interrupted = False

    def fsync_all(self, files: Sequence[File], folders: Sequence[str] = ()) -> None:
        if not self.interrupted:
            self.interrupted = True
            self._log.truncate_to(4)
            assert self._log.housekeep(NOW + 4 * DAY) == []
            for file in files:
                file.close()
        self._disk.fsync_all(files, folders)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)
