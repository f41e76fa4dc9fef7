"""Idempotent and transactional producers, as the log checks and remembers them (KIP-98, KIP-360)."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from ottla.base import CorruptionError, ErrorCode, KafkaError, StorageError
from ottla.log import AbortedTransaction, AppendOrigin, Log, LogConfig, OsDisk, producer_state
from ottla.log.producer_snapshot import decode_snapshot, encode_snapshot
from ottla.log.producers import Producers
from ottla.wire import read_batch_header
from tests.log.failing_disk import FailingDisk
from tests.log.records import NOW, batch, marker, records_of

COORDINATOR = AppendOrigin.COORDINATOR


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return reopened(tmp_path)


def reopened(tmp_path: Path, *, clean: bool = True) -> Log:
    return Log.open(OsDisk(), str(tmp_path / "t-0"), LogConfig(segment_bytes=4000), now_ms=NOW, clean=clean)


def send(log: Log, sequence: int, *, count: int = 1, epoch: int = 0, producer_id: int = 7) -> tuple[int, int, bool]:
    info = log.append(batch([b"v"] * count, producer=(producer_id, epoch, sequence)), leader_epoch=0, now_ms=NOW)
    return info.first_offset, info.last_offset, info.duplicate


def refused(log: Log, sequence: int, *, epoch: int = 0) -> ErrorCode:
    end = log.log_end_offset
    with pytest.raises(KafkaError) as raised:
        send(log, sequence, epoch=epoch)
    assert log.log_end_offset == end
    return raised.value.code


def test_a_duplicate_is_answered_with_its_first_offsets(log: Log) -> None:
    assert send(log, 0, count=3) == (0, 2, False)
    assert send(log, 3) == (3, 3, False)
    assert send(log, 0, count=3) == (0, 2, True)
    assert log.log_end_offset == 4


def test_the_last_five_batches_are_remembered_and_no_more(log: Log) -> None:
    for sequence in range(6):
        send(log, sequence)
    assert send(log, 1) == (1, 1, True)
    assert refused(log, 0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_in_the_sequence_is_out_of_order(log: Log) -> None:
    send(log, 0)
    assert refused(log, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_after_the_largest_int(log: Log) -> None:
    largest = (1 << 31) - 1
    assert send(log, largest - 1, count=2) == (0, 1, False)
    assert send(log, 0) == (2, 2, False)
    assert send(log, largest - 1, count=2) == (0, 1, True)


def test_a_batch_across_the_wrap_is_one_batch(log: Log) -> None:
    largest = (1 << 31) - 1
    send(log, largest, count=3)
    assert send(log, 2) == (3, 3, False)
    assert send(log, largest, count=3) == (0, 2, True)


def test_an_unknown_producer_may_begin_anywhere(log: Log) -> None:
    assert send(log, 40) == (0, 0, False)


def test_a_newer_epoch_begins_at_zero_and_fences_the_older(log: Log) -> None:
    send(log, 0)
    assert refused(log, 5, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    send(log, 0, epoch=1)
    assert refused(log, 1, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("clean", [True, False])
def test_what_is_known_of_producers_survives_a_restart(tmp_path: Path, clean: bool) -> None:
    log = reopened(tmp_path)
    for sequence in range(30):
        send(log, sequence)
    last = log.log_end_offset - 1
    if clean:
        log.close()
    else:
        log.abandon()
    again = reopened(tmp_path, clean=clean)
    assert send(again, 29) == (last, last, True)
    assert refused(again, 31) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(again, 30) == (last + 1, last + 1, False)


def test_producers_are_rebuilt_without_any_snapshot(tmp_path: Path) -> None:
    log = reopened(tmp_path)
    for sequence in range(60):
        send(log, sequence)
    assert log.segment_count > 1
    log.abandon()
    for path in (tmp_path / "t-0").glob("*.snapshot"):
        path.unlink()
    assert reopened(tmp_path, clean=False).producers.entries[7].last_sequence == 59


def test_a_torn_snapshot_is_dropped_for_an_older_one(tmp_path: Path) -> None:
    log = reopened(tmp_path)
    for sequence in range(60):
        send(log, sequence)
    log.close()
    newest = sorted((tmp_path / "t-0").glob("*.snapshot"))[-1]
    newest.write_bytes(newest.read_bytes()[:-5])
    assert reopened(tmp_path).producers.entries[7].last_sequence == 59


def test_producers_expire_but_not_with_a_transaction_open(log: Log) -> None:
    send(log, 0, producer_id=1)
    log.append(batch([b"t"], producer=(2, 0, 0), transactional=True), now_ms=NOW)
    log.housekeep(NOW + 86_400_000)
    assert list(log.producers.entries) == [2]


def test_the_last_stable_offset_waits_for_the_oldest_open_transaction(log: Log) -> None:
    send(log, 0, producer_id=1)
    log.append(batch([b"t"], producer=(2, 0, 0), transactional=True), now_ms=NOW)
    log.append(batch([b"u"], producer=(3, 0, 0), transactional=True), now_ms=NOW)
    assert log.last_stable_offset == 1
    log.append(marker(2, 0, commit=True), origin=COORDINATOR, now_ms=NOW)
    assert log.last_stable_offset == 2
    assert log.stable_until(3) == 1, "the marker at 3 is not replicated yet"
    assert log.stable_until(4) == 2
    log.append(marker(3, 0, commit=False), origin=COORDINATOR, now_ms=NOW)
    assert log.last_stable_offset == log.stable_until(5) == 5
    assert [tuple(each) for each in log.aborted_transactions(0, 5)] == [(3, 2, 4, 5)]
    assert log.aborted_transactions(5, 5) == [] and log.aborted_transactions(0, 2) == []


def test_the_last_stable_offset_is_never_below_the_logs_start(tmp_path: Path) -> None:
    log = reopened(tmp_path)
    log.append(batch([b"t"] * 3, producer=(2, 0, 0), transactional=True), now_ms=NOW)
    for at in range(60):
        send(log, at)
    assert log.last_stable_offset == log.stable_until(60) == 0
    log.delete_records_before(2)
    assert log.last_stable_offset == log.stable_until(60) == 2
    log.delete_records_before(30)
    assert log.last_stable_offset == log.stable_until(60) == 30, (
        "as in Kafka: nobody may read beyond, nobody is sent away"
    )
    log.append(marker(2, 0, commit=False), origin=COORDINATOR, now_ms=NOW)
    assert log.last_stable_offset == log.stable_until(64) == 64
    assert [tuple(each) for each in log.aborted_transactions(30, 64)] == [(2, 0, 63, 64)]


def brute_force(log: Log, offset: int, upper_bound: int) -> list[AbortedTransaction]:
    entries = [each for segment in log.segments for each in segment.transactions.aborted]
    return [each for each in entries if each.last_offset >= offset and each.first_offset < upper_bound]


@pytest.mark.parametrize("again", [False, True], ids=["growing", "opened again"])
def test_a_slice_comes_with_the_aborted_transactions_in_it(tmp_path: Path, again: bool) -> None:
    rng = Random(5)
    log = reopened(tmp_path)
    running: dict[int, int] = {}
    sequences = dict.fromkeys(range(6), 0)
    for _ in range(1200):
        producer = rng.randrange(6)
        if running.get(producer, 0) and rng.random() < 0.3 / (1 + 6 * (producer == 0)):  # one's are long
            log.append(marker(producer, 0, commit=rng.random() < 0.3), origin=COORDINATOR, now_ms=NOW)
            running[producer] = 0
        else:
            count = rng.randrange(1, 4)
            data = batch([b"v"] * count, producer=(producer, 0, sequences[producer]), transactional=True)
            log.append(data, leader_epoch=0, now_ms=NOW)
            sequences[producer] += count
            running[producer] = 1
    if again:
        log.close()
        log = reopened(tmp_path)
    end = log.last_stable_offset
    assert end > 1000 and log.segment_count > 20
    for offset in range(0, end, 7):
        for max_bytes in (1, 300, 2000, 100_000):
            found = log.read(offset, max_bytes=max_bytes, upper_bound=end, min_one_batch=True)
            records = records_of(found)
            given = log.aborted_transactions(offset, end, found)
            needed = brute_force(log, offset, records[-1].offset + 1)
            # an index knows the slice's end to an entry (4 KiB); never less, and little more
            assert set(needed) <= set(given) <= set(brute_force(log, offset, min(end, records[-1].offset + 200)))
            assert len(given) == len(set(given)) and log.aborted_transactions(offset, end) == brute_force(
                log, offset, end
            )


def test_a_small_slice_of_a_long_log_comes_with_few_aborted_transactions(tmp_path: Path) -> None:
    log = Log.open(OsDisk(), str(tmp_path / "t-0"), LogConfig(index_interval_bytes=500), now_ms=NOW, clean=True)
    for at in range(3000):
        log.append(batch([b"v"], producer=(2, 0, at), transactional=True), now_ms=NOW)
        log.append(marker(2, 0, commit=False), origin=COORDINATOR, now_ms=NOW)
    for offset in (0, 1001, 2999, 5990):
        found = log.read(offset, max_bytes=1000)
        assert 1 <= len(log.aborted_transactions(offset, 6000, found)) <= 10
    nothing = log.read(6000, max_bytes=1000)
    assert log.aborted_transactions(6000, 6000, nothing) == []


def test_an_older_coordinators_marker_is_fenced(log: Log) -> None:
    log.append(batch([b"t"], producer=(2, 0, 0), transactional=True), now_ms=NOW)
    log.append(marker(2, 0, commit=True, coordinator_epoch=5), origin=COORDINATOR, now_ms=NOW)
    with pytest.raises(KafkaError) as raised:
        log.append(marker(2, 0, commit=True, coordinator_epoch=4), origin=COORDINATOR, now_ms=NOW)
    assert raised.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_plain_batch_inside_a_transaction_is_refused(log: Log) -> None:
    log.append(batch([b"t"], producer=(2, 0, 0), transactional=True), now_ms=NOW)
    with pytest.raises(KafkaError) as raised:
        log.append(batch([b"u"], producer=(2, 0, 1)), now_ms=NOW)
    assert raised.value.code is ErrorCode.INVALID_TXN_STATE


def test_truncation_takes_producers_back(log: Log) -> None:
    for sequence in range(40):
        send(log, sequence)
    log.truncate_to(20)
    assert log.producers.entries[7].last_sequence == 19
    assert send(log, 20) == (20, 20, False)


def test_a_snapshot_is_read_as_it_was_written() -> None:
    producers = Producers("t-0", 1000)
    append = producers.prepare(9)
    append.epoch, append.coordinator_epoch, append.last_timestamp, append.transaction_offset = 3, 4, 5, 6
    producers.update(append)
    ((producer_id, entry),) = decode_snapshot(encode_snapshot(producers), "x")
    assert producer_id == 9 and (entry.epoch, entry.coordinator_epoch, entry.transaction_offset) == (3, 4, 6)
    assert entry.batches == ()


@pytest.mark.parametrize("cut", range(0, 60, 7))
def test_a_damaged_snapshot_is_corruption_and_nothing_else(cut: int) -> None:
    producers = Producers("t-0", 1000)
    producers.update(producers.prepare(9))
    data = encode_snapshot(producers)
    with pytest.raises(CorruptionError):
        decode_snapshot(data[: min(cut, len(data) - 1)], "x")
    flipped = bytearray(data)
    flipped[cut % len(data)] ^= 1
    with pytest.raises(StorageError):
        decode_snapshot(bytes(flipped), "x")


class _Many:
    """A log of more producers than a snapshot is written of at once."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(producer_state, "AT_ONCE_MAX", 2)
        self.folder = folder
        self.log = reopened(folder)
        for each in range(5):
            send(self.log, 0, producer_id=each)

    def snapshots(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "t-0").glob("*.snapshot"))

    def known(self, log: Log) -> dict[int, int]:
        return {each: entry.last_sequence for each, entry in log.producers}


def test_a_new_segment_encodes_no_producer_where_there_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = _Many(tmp_path, monkeypatch)
    monkeypatch.setattr(producer_state, "encode_snapshot", lambda _: pytest.fail("encoded by the append"))
    many.log.roll()
    send(many.log, 1, producer_id=0)
    send(many.log, 0, producer_id=9)
    assert many.snapshots() == []
    monkeypatch.undo()
    many.log.flush()
    assert many.snapshots() == ["00000000000000000005.snapshot"]
    data = (tmp_path / "t-0" / many.snapshots()[0]).read_bytes()
    assert {each: entry.last_sequence for each, entry in decode_snapshot(data, "x")} == dict.fromkeys(range(5), 0)
    assert many.known(many.log) == {**dict.fromkeys(range(5), 0), 0: 1, 9: 0}


@pytest.mark.parametrize("flushes", [0, 1])
def test_a_start_knows_many_producers_whether_their_snapshot_was_written_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flushes: int
) -> None:
    many = _Many(tmp_path, monkeypatch)
    many.log.roll()
    send(many.log, 1, producer_id=0)
    for _ in range(flushes):
        many.log.flush()
    many.log.roll()
    send(many.log, 1, producer_id=1)
    wanted = many.known(many.log)
    many.log.abandon()  # killed
    again = reopened(tmp_path, clean=False)
    assert many.known(again) == wanted
    again.close()
    assert many.known(reopened(tmp_path)) == wanted


def test_no_snapshot_goes_while_a_newer_one_is_still_to_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = _Many(tmp_path, monkeypatch)
    many.log.roll()
    many.log.flush()
    send(many.log, 1, producer_id=0)
    many.log.roll()
    send(many.log, 2, producer_id=0)
    many.log.roll()
    send(many.log, 3, producer_id=0)
    many.log.delete_records_before(7)
    many.log.housekeep(NOW)
    assert many.log.segments[0].base_offset == 7
    assert many.snapshots() == ["00000000000000000005.snapshot"]
    wanted = many.known(many.log)
    many.log.flush()
    assert many.snapshots()[-1] == "00000000000000000007.snapshot"
    many.log.abandon()  # killed
    assert many.known(reopened(tmp_path, clean=False)) == wanted


def test_what_is_truncated_is_in_no_snapshot_that_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = _Many(tmp_path, monkeypatch)
    many.log.roll()
    send(many.log, 1, producer_id=0)
    many.log.roll()
    many.log.truncate_to(5)
    many.log.flush()
    assert many.snapshots() in ([], ["00000000000000000005.snapshot"])
    assert many.known(many.log) == dict.fromkeys(range(5), 0)
    many.log.truncate_to(3)
    many.log.flush()
    assert many.snapshots() == []
    send(many.log, 0, producer_id=8)
    wanted = many.known(many.log)
    many.log.abandon()
    assert many.known(reopened(tmp_path, clean=False)) == wanted == {0: 0, 1: 0, 2: 0, 8: 0}


def test_without_room_the_snapshot_of_many_producers_waits_and_the_flush_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FailingDisk(OsDisk())
    monkeypatch.setattr(producer_state, "AT_ONCE_MAX", 2)
    log = Log.open(disk, str(tmp_path / "t-0"), LogConfig(), now_ms=NOW, clean=True)
    for each in range(5):
        send(log, 0, producer_id=each)
    log.roll()
    send(log, 1, producer_id=0)
    disk.watch(1, "ENOSPC", only=".snapshot")
    log.flush()
    assert disk.has_failed and log.recovery_point == 6
    assert not list((tmp_path / "t-0").glob("*.snapshot"))
    send(log, 2, producer_id=0)
    log.flush()
    assert len(list((tmp_path / "t-0").glob("*.snapshot"))) == 1


@pytest.mark.parametrize("frozen_here", [0, 1, 2])
@pytest.mark.parametrize("frozen_there", [1, 2])
@pytest.mark.parametrize("then", [0, 1])
def test_what_was_frozen_stays_as_it_was_whoever_takes_the_producers_over(
    frozen_here: int, frozen_there: int, then: int
) -> None:
    """A snapshot is written of what is frozen, later and by a thread; whose the producers are then, changes nothing."""

    def write(producers: Producers, sequence: int) -> None:
        append = producers.prepare(7)
        header = read_batch_header(batch([b"v"], producer=(7, 0, sequence)))
        append.add(header, sequence, check_epoch=False, check_sequence=False)
        producers.update(append)

    mine, other = Producers("t-0", 1 << 40), Producers("t-0", 1 << 40)
    for _ in range(frozen_here):
        mine.freeze()
    for at in range(frozen_there):
        write(other, at)
        frozen = other.freeze()
    mine.take(other)
    for _ in range(then):
        frozen = mine.freeze()
    before = encode_snapshot(frozen.items())
    write(mine, frozen_there)
    assert encode_snapshot(frozen.items()) == before
