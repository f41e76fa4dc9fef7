"""Where a log begins is believed where it is proved: no wrong number hides records, and nothing deleted comes back."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from ottla.base import NodeId, StorageError, TopicPartition, Uuid
from ottla.log import Log, LogConfig, LogDir, MetaProperties, OsDisk
from tests.log.failing_disk import FailingDisk, Killed
from tests.log.records import NOW, batch, values

KEY = TopicPartition("t", 0)
TOPIC_ID = Uuid(bytes(range(16)))
CONFIG = LogConfig(segment_bytes=900)
KAFKAS, OURS = "log-start-offset-checkpoint", "log-start-offset-sums"
MARK, OWN_MARK = ".kafka_cleanshutdown", ".ottla_cleanshutdown"
COUNT = 60


def opened(folder: Path) -> tuple[LogDir, Log]:
    """Open a directory, which is given its identity where it has none, and its log."""
    log_dir = LogDir.open(OsDisk(), str(folder))
    if log_dir.meta is None:
        log_dir.format(MetaProperties(cluster_id="MkU3OEVBNTcwNTJENDM2Qg", node_id=NodeId(1), directory_id=TOPIC_ID))
    return log_dir, log_dir.open_log(KEY, CONFIG, now_ms=NOW, topic_id=TOPIC_ID)


def ended(folder: Path, *, start: int, clean: bool) -> None:
    """Fill a log, delete what is before `start`, and end the process in one way or the other."""
    log_dir, log = opened(folder)
    for at in range(COUNT):
        log.append(batch([b"%d" % at]), leader_epoch=0, now_ms=NOW)
    log.delete_records_before(start)
    if start:
        log_dir.write_start_offsets()
    if clean:
        log_dir.close(broker_epoch=1)
    else:
        log_dir.release()


def say(folder: Path, start: int, name: str = KAFKAS) -> None:
    """Write a whole checkpoint that says where the log begins."""
    (folder / name).write_text(f"0\n1\nt 0 {start}\n")


def shown(log: Log) -> list[bytes | None]:
    """Return the records that the log shows."""
    found: list[bytes | None] = []
    offset = int(log.log_start_offset)
    while offset < log.log_end_offset:
        read = values(log.read(offset, max_bytes=1 << 20, min_one_batch=True))
        found += read
        offset += len(read)
    return found


def records(start: int) -> list[bytes]:
    """Return what was written from an offset on."""
    return [b"%d" % at for at in range(start, COUNT)]


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("start", [0, 25])
@pytest.mark.parametrize("wrong", [26, 40, COUNT, COUNT + 1, 1 << 40])
def test_a_start_that_nobody_told_hides_no_record(tmp_path: Path, wrong: int, start: int, clean: bool) -> None:
    """One more, and segments that hold records were removed; beyond the end, and all were."""
    ended(tmp_path, start=start, clean=clean)
    say(tmp_path, wrong)
    log_dir, log = opened(tmp_path)
    assert log.log_start_offset == start and shown(log) == records(start)
    (note,) = log_dir.notes
    assert f"t-0 begins at {wrong}" in note and f"t-0 begins at {start}" in note and "not believed" in note
    log_dir.close(broker_epoch=2)
    assert (tmp_path / KAFKAS).read_text() == (f"0\n1\nt 0 {start}\n" if start else "0\n0\n")
    log_dir, log = opened(tmp_path)
    assert not log_dir.notes and shown(log) == records(start)
    log_dir.release()


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("how", ["gone", "empty", "of before", "torn"])
def test_deleted_records_stay_deleted_without_the_checkpoint(tmp_path: Path, how: str, clean: bool) -> None:
    ended(tmp_path, start=25, clean=clean)
    path = tmp_path / KAFKAS
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes({"empty": b"", "of before": b"0\n1\nt 0 3\n", "torn": path.read_bytes()[:-4]}[how])
    log_dir, log = opened(tmp_path)
    assert log.log_start_offset == 25 and not log_dir.notes
    log_dir.release()


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("how", ["gone", "empty", "one bit", "torn", "of another day"])
def test_sums_that_are_damaged_bring_nothing_back(tmp_path: Path, how: str, clean: bool) -> None:
    ended(tmp_path, start=25, clean=clean)
    path = tmp_path / OURS
    whole = path.read_bytes()
    if how == "gone":
        path.unlink()
    else:
        bit = bytes([*whole[:8], whole[8] ^ 1, *whole[9:]])
        path.write_bytes({"empty": b"", "one bit": bit, "torn": whole[:-1][:-3], "of another day": bit[1:]}[how])
    log_dir, log = opened(tmp_path)
    assert log.log_start_offset == 25 and "without a checksum" in log_dir.notes[0]
    log_dir.write_start_offsets()
    log_dir.release()
    log_dir, log = opened(tmp_path)
    assert log.log_start_offset == 25 and not log_dir.notes
    log_dir.release()


@pytest.mark.parametrize("clean", [False, True])
def test_a_folder_of_kafkas_begins_where_its_checkpoint_says_and_that_is_told(tmp_path: Path, clean: bool) -> None:
    """Kafka deletes its mark at a start, and knows nothing of ours: whatever it has done since, its checkpoint counts."""
    ended(tmp_path, start=25, clean=True)
    (tmp_path / MARK).unlink()
    say(tmp_path, 31)
    if clean:
        (tmp_path / MARK).write_text('{"version":0,"brokerEpoch":77}')
    log_dir, log = opened(tmp_path)
    assert log.log_start_offset == 31
    assert "Apache Kafka" in log_dir.notes[0] and "t-0 begins at 31" in log_dir.notes[0]
    log_dir.release()  # before anything was stored
    log_dir, log = opened(tmp_path)
    assert log.log_start_offset == 31, "the sums of before do not come back"
    log_dir.close(broker_epoch=78)
    log_dir, log = opened(tmp_path)
    assert log.log_start_offset == 31 and not log_dir.notes
    log_dir.release()


def test_a_folder_that_never_was_ours_begins_where_its_checkpoint_says(tmp_path: Path) -> None:
    ended(tmp_path, start=25, clean=True)
    for name in (OURS, OWN_MARK):
        (tmp_path / name).unlink()
    log_dir, log = opened(tmp_path)
    assert log.log_start_offset == 25 and log_dir.is_clean and "Apache Kafka" in log_dir.notes[0]
    log_dir.release()


@pytest.mark.parametrize("kind", ["kill", "EIO", "full", "short"])
def test_a_call_that_fails_between_the_two_files_leaves_a_start_that_was_told(tmp_path: Path, kind: str) -> None:
    ended(tmp_path, start=25, clean=True)
    starts = []
    for at in range(1, 40):
        folder = Path(shutil.copytree(tmp_path, tmp_path.parent / f"{kind}-{at}"))
        disk = FailingDisk(OsDisk())
        log_dir = LogDir.open(disk, str(folder))
        log = log_dir.open_log(KEY, CONFIG, now_ms=NOW, topic_id=TOPIC_ID)
        log.delete_records_before(44)
        disk.watch(at, kind)
        with suppress(StorageError, Killed):
            log_dir.write_start_offsets()
            break
        disk.mend()
        log_dir.release()
        log_dir, log = opened(folder)
        starts.append(int(log.log_start_offset))
        assert not log_dir.notes
        log_dir.release()
    assert starts == sorted(starts) and starts[0] < 44 and set(starts) == {starts[0], 44}


@pytest.mark.parametrize("told", [0, 25])
def test_a_start_that_kafka_has_moved_since_a_kill_of_ours_counts_though_kafka_was_killed_too(
    tmp_path: Path, told: int
) -> None:
    """Neither leaves a mark then. Kafka writes to `log-start-offset-checkpoint.tmp`, and renames that."""
    ended(tmp_path, start=told, clean=False)
    kafkas = tmp_path / (KAFKAS + ".tmp")
    kafkas.write_text("0\n1\nt 0 31\n")
    kafkas.rename(tmp_path / KAFKAS)
    for _ in range(2):
        log_dir, log = opened(tmp_path)
        assert log.log_start_offset == 31 and shown(log) == records(31)
        assert "Apache Kafka" in log_dir.notes[0]
        log_dir.release()
    log_dir, log = opened(tmp_path)
    log.delete_records_before(33)
    log_dir.write_start_offsets()
    log_dir.release()
    say(tmp_path, 40)
    log_dir, log = opened(tmp_path)
    assert log.log_start_offset == 33, "from the next checkpoint on its checksum counts again"
    log_dir.release()


def test_the_folder_of_an_earlier_version_keeps_its_checksums_behind_a_kill(tmp_path: Path) -> None:
    ended(tmp_path, start=25, clean=True)
    (tmp_path / (KAFKAS + ".tmp")).unlink()
    log_dir, _ = opened(tmp_path)
    log_dir.release()
    say(tmp_path, 40)
    log_dir, log = opened(tmp_path)
    assert log.log_start_offset == 25 and "not believed" in log_dir.notes[0]
    log_dir.release()


@pytest.mark.parametrize("name", [OURS, KAFKAS, MARK, OWN_MARK, KAFKAS + ".tmp"])
def test_a_fifo_in_a_files_place_is_said_and_not_waited_for(tmp_path: Path, name: str) -> None:
    ended(tmp_path, start=25, clean=True)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    if name == KAFKAS + ".tmp":  # looked at where there is no mark
        (tmp_path / MARK).unlink()
        (tmp_path / OWN_MARK).unlink()
    with pytest.raises(StorageError, match=f"{name}: it is not a regular file"):
        opened(tmp_path)
