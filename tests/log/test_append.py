"""What an append assigns, refuses and leaves behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.base import CorruptionError, ErrorCode, KafkaError, StorageError, Uuid
from ottla.log import AppendOrigin, File, Log, LogConfig, NoSpaceError, OsDisk
from ottla.wire import iter_batches, validate_batches
from tests.log.records import NOW, batch, records_of, values

MAGIC_AT = 16


def opened(tmp_path: Path, **settings: object) -> Log:
    return Log.open(OsDisk(), str(tmp_path / "t-0"), LogConfig(**settings), now_ms=NOW, clean=True)  # type: ignore[arg-type]


def code_of(log: Log, data: bytearray, **more: object) -> ErrorCode:
    end, size = log.log_end_offset, log.size
    with pytest.raises(KafkaError) as raised:
        log.append(data, now_ms=NOW, **more)  # type: ignore[arg-type]
    assert (log.log_end_offset, log.size) == (end, size), "a refused append left something"
    return raised.value.code


def test_offsets_and_the_leaders_epoch_are_stamped_in_place(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append(batch([b"a", b"b"]), leader_epoch=4, now_ms=NOW)
    info = log.append(batch([b"c"]), leader_epoch=5, now_ms=NOW)
    assert (info.first_offset, info.last_offset, info.log_append_time, info.duplicate) == (2, 2, -1, False)
    found = validate_batches(log.read(0, max_bytes=1 << 20).read())
    assert [(each.base_offset, each.partition_leader_epoch) for each, _ in found] == [(0, 4), (2, 5)]
    assert [(each.epoch, each.offset) for each in log.leader_epochs.starts] == [(4, 0), (5, 2)]


def test_log_append_time_is_the_brokers(tmp_path: Path) -> None:
    log = opened(tmp_path, message_timestamp_type="LogAppendTime")
    info = log.append(batch([b"a"], timestamp=5), now_ms=NOW)
    assert info.log_append_time == info.max_timestamp == NOW
    assert records_of(log.read(0, max_bytes=1000))[0].timestamp == NOW
    validate_batches(log.read(0, max_bytes=1000).read())


def test_a_batch_over_max_message_bytes_is_too_large(tmp_path: Path) -> None:
    assert code_of(opened(tmp_path, max_message_bytes=100), batch([bytes(100)])) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    assert code_of(opened(tmp_path, segment_bytes=100), batch([bytes(100)])) is ErrorCode.RECORD_LIST_TOO_LARGE


def test_replicated_batches_keep_their_offsets_and_epochs(tmp_path: Path) -> None:
    log = opened(tmp_path, max_message_bytes=10)
    data = batch([b"a", b"b"], base_offset=10, leader_epoch=2) + batch([b"c"], base_offset=14, leader_epoch=3)
    info = log.append(data, leader_epoch=9, now_ms=NOW, origin=AppendOrigin.REPLICATION)
    assert (info.first_offset, info.last_offset, log.log_end_offset) == (10, 14, 15)
    assert [tuple(each) for each in log.leader_epochs.starts] == [(2, 10), (3, 14)]
    assert [each.offset for each in records_of(log.read(0, max_bytes=1000))] == [10, 11, 14]
    assert values(log.read(12, max_bytes=1000)) == [b"c"]
    back = batch([b"x"], base_offset=3)
    assert code_of(log, back, origin=AppendOrigin.REPLICATION) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_quorums_batches_leave_no_gap(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append(batch([b"a"], base_offset=0, leader_epoch=1), origin=AppendOrigin.RAFT, now_ms=NOW)
    skipping = batch([b"b"], base_offset=2, leader_epoch=1)
    assert code_of(log, skipping, origin=AppendOrigin.RAFT) is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("keep", [0, 1, 60, 100])
def test_a_full_disk_leaves_the_log_as_it_was(tmp_path: Path, keep: int) -> None:
    log = opened(tmp_path)
    log.append(batch([b"before"]), now_ms=NOW)
    segment = log._segments[-1]
    whole = segment.file
    segment.file = FullFile(whole, keep)
    with pytest.raises(NoSpaceError):
        log.append(batch([b"lost"]), now_ms=NOW)
    assert whole.size() == segment.size
    segment.file = whole
    assert log.append(batch([b"after"]), now_ms=NOW).first_offset == 1
    log.close()
    again = Log.open(OsDisk(), str(tmp_path / "t-0"), LogConfig(), now_ms=NOW)
    assert values(again.read(0, max_bytes=1000)) == [b"before", b"after"]


class FullFile:
    """A file on a disk that takes so many bytes of the next write, and no more."""

    def __init__(self, file: File, keep: int) -> None:
        self._file = file
        self._keep = keep
        self.path = file.path

    def pwrite(self, position: int, *buffers: bytes) -> None:
        self._file.pwrite(position, b"".join(buffers)[: self._keep])
        raise NoSpaceError(f"{self.path}: No space left on device")

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


def test_segments_roll_by_size_and_time_and_index(tmp_path: Path) -> None:
    size = len(batch([b"x" * 100]))
    by_size = opened(tmp_path / "size", segment_bytes=size * 3)
    for _ in range(7):
        by_size.append(batch([b"x" * 100]), now_ms=NOW)
    assert [int(path[-24:-4]) for path in (each.file.path for each in by_size.segments)] == [0, 3, 6]

    by_time = opened(tmp_path / "time", segment_ms=1000)
    for at in (0, 900, 1000, 1001, 1500, 2100):
        by_time.append(batch([b"x"], timestamp=NOW + at), now_ms=NOW)
    assert [int(path[-24:-4]) for path in (each.file.path for each in by_time.segments)] == [0, 3, 5]

    by_index = opened(tmp_path / "index", segment_index_bytes=48, index_interval_bytes=0)
    for at in range(8):
        by_index.append(batch([b"x"], timestamp=NOW + at), now_ms=NOW)
    assert by_index.segment_count > 1


def test_offsets_too_far_from_the_base_begin_a_new_segment(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append(batch([b"a"], leader_epoch=0), origin=AppendOrigin.REPLICATION, now_ms=NOW)
    far = 1 << 32
    log.append(batch([b"b"], base_offset=far, leader_epoch=0), origin=AppendOrigin.REPLICATION, now_ms=NOW)
    assert log.segment_count == 2 and values(log.read(1, max_bytes=1000)) == [b"b"]
    assert log.log_end_offset == far + 1


def test_a_slice_may_end_inside_a_batch_but_begins_with_a_whole_one(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for _ in range(3):
        log.append(batch([b"v" * 50]), now_ms=NOW)
    size = log.size // 3
    assert log.read(0, max_bytes=size - 1).size == 0
    assert log.read(0, max_bytes=1, min_one_batch=True).size == size
    assert log.read(1, max_bytes=size + 5).size == size + 5
    assert len(list(iter_batches(log.read(0, max_bytes=1 << 20, upper_bound=2).read()))) == 2
    assert log.read(2, max_bytes=1 << 20, upper_bound=2).size == 0
    assert log.read(3, max_bytes=1 << 20).size == 0


def test_a_closed_logs_disk_error_is_a_storage_error(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append(batch([b"a"]), now_ms=NOW)
    log.roll(NOW)
    log.abandon()
    (tmp_path / "t-0" / "00000000000000000000.log").unlink()
    with pytest.raises(StorageError):
        log.read(0, max_bytes=100)


def test_a_log_whose_first_batch_is_damaged_says_so_at_the_next_append(tmp_path: Path) -> None:
    """`segment.ms` counts from that batch, so that an append reads it; what is wrong is the log, and not the batch."""
    log = opened(tmp_path)
    log.append(batch([b"a"]), now_ms=NOW)
    log.close()
    log = opened(tmp_path)
    with (tmp_path / "t-0" / "00000000000000000000.log").open("r+b") as file:
        file.seek(MAGIC_AT)
        file.write(b"\x63")
    with pytest.raises(CorruptionError, match="position 0"):
        log.append(batch([b"b"]), now_ms=NOW)


def test_a_new_log_is_two_files_until_an_index_has_something_to_say(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    topic_id = Uuid(bytes(range(16)))
    log = Log.open(OsDisk(), str(folder), LogConfig(), now_ms=NOW, topic_id=topic_id, is_missing=True)
    log.append(batch([b"a"]), leader_epoch=0, now_ms=NOW)
    assert sorted(each.suffix for each in folder.iterdir()) == [".log", ".metadata"]
    killed = Log.open(OsDisk(), str(folder), LogConfig(), now_ms=NOW, topic_id=topic_id)
    assert values(killed.read(0, max_bytes=1000)) == [b"a"]
    killed.close()
    assert {".index", ".timeindex"} < {each.suffix for each in folder.iterdir()}
    clean = Log.open(OsDisk(), str(folder), LogConfig(), now_ms=NOW, clean=True)
    assert values(clean.read(0, max_bytes=1000)) == [b"a"]
    assert clean.offset_for_timestamp(NOW) is not None
