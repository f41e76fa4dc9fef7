"""A follower's log: what it takes from its leader, where it parts from it, and that two copies end alike."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ottla.base import ErrorCode, KafkaError, StorageError
from ottla.log import AppendOrigin, Log, LogConfig, OsDisk
from tests.log.failing_disk import FailingDisk
from tests.log.records import NOW, batch, marker, values

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=150, file_delete_delay_ms=0, retention_ms=-1)


def opened(tmp_path: Path, name: str = "t-0", config: LogConfig = SMALL) -> Log:
    return Log.open(OsDisk(), str(tmp_path / name), config, now_ms=NOW)


def everything(log: Log) -> bytes:
    return b"".join(each.file.pread(0, each.size) for each in log.segments)


def fetched(leader: Log, offset: int, max_bytes: int = 100_000) -> bytearray:
    """Return what a leader answers to a fetch, with the end of the last batch cut off as it falls."""
    return bytearray(leader.read(offset, max_bytes=max_bytes, min_one_batch=True).read())


def test_batches_arrive_as_they_are_in_the_leaders_log(tmp_path: Path) -> None:
    leader, follower = opened(tmp_path, "leader"), opened(tmp_path, "follower")
    for at in range(30):
        leader.append(batch([b"v%d" % at, b"w"], producer=(7, 0, 2 * at)), leader_epoch=at // 10, now_ms=NOW)
    while follower.log_end_offset < leader.log_end_offset:
        data = fetched(leader, follower.log_end_offset, 700)
        assert follower.append_replicated(data, leader_epoch=2, now_ms=NOW) <= len(data)
    assert everything(follower) == everything(leader)
    assert follower.leader_epochs.starts == leader.leader_epochs.starts
    assert follower.producers.entries[7].batches == leader.producers.entries[7].batches
    assert follower.segment_count > 1


def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch(tmp_path: Path) -> None:
    leader, follower = opened(tmp_path, "leader"), opened(tmp_path, "follower")
    for _ in range(3):
        leader.append(batch([b"value"]), leader_epoch=0)
    data = bytearray(everything(leader))
    assert follower.append_replicated(data[:-1], leader_epoch=0, now_ms=NOW) == 2 * len(data) // 3
    assert follower.log_end_offset == 2
    assert follower.append_replicated(data[:30], leader_epoch=0, now_ms=NOW) == 0


def test_a_batch_with_a_wrong_checksum_is_refused(tmp_path: Path) -> None:
    follower = opened(tmp_path)
    data = batch([b"value"], leader_epoch=0)
    data[-2] ^= 1
    with pytest.raises(KafkaError) as refused:
        follower.append_replicated(data, leader_epoch=0, now_ms=NOW)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert follower.log_end_offset == 0


def test_batches_of_a_later_epoch_than_the_one_asked_are_left_out(tmp_path: Path) -> None:
    follower = opened(tmp_path)
    old, new = batch([b"old"], leader_epoch=3), batch([b"new"], base_offset=1, leader_epoch=4)
    assert follower.append_replicated(old + new, leader_epoch=3, now_ms=NOW) == len(old)
    assert follower.log_end_offset == 1


def test_offsets_do_not_go_back(tmp_path: Path) -> None:
    follower = opened(tmp_path)
    follower.append_replicated(batch([b"a", b"b"], leader_epoch=0), leader_epoch=0, now_ms=NOW)
    for base_offset in (0, 1):
        with pytest.raises(KafkaError) as refused:
            data = batch([b"c", b"d"], base_offset=base_offset, leader_epoch=0)
            follower.append_replicated(data, leader_epoch=0, now_ms=NOW)
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_an_empty_log_begins_with_the_batch_in_which_the_leaders_log_starts(tmp_path: Path) -> None:
    follower = opened(tmp_path)
    follower.truncate_fully_and_start_at(12)
    follower.append_replicated(batch([b"v"] * 5, base_offset=10, leader_epoch=1), leader_epoch=1, now_ms=NOW)
    assert (follower.log_start_offset, follower.log_end_offset) == (10, 15)
    follower.delete_records_before(12)
    assert values(follower.read(12, max_bytes=1000)) == [b"v"] * 5


def test_what_does_not_fit_one_segment_fills_several(tmp_path: Path) -> None:
    leader, follower = opened(tmp_path, "leader", LogConfig()), opened(tmp_path, "follower")
    for at in range(40):
        leader.append(batch([b"x" * (at * 3)]), leader_epoch=0)
    leader.append(batch([b"y" * 5000]), leader_epoch=0)
    leader.append(batch([b"z"]), leader_epoch=0)
    follower.append_replicated(bytearray(everything(leader)), leader_epoch=0, now_ms=NOW)
    assert everything(follower) == everything(leader)
    assert [each.size <= 1000 for each in follower.segments].count(False) == 1


def test_transactions_arrive_with_their_ends(tmp_path: Path) -> None:
    leader, follower = opened(tmp_path, "leader"), opened(tmp_path, "follower")
    leader.append(batch([b"a"], producer=(5, 0, 0), transactional=True), leader_epoch=0)
    leader.append(batch([b"b"], producer=(6, 0, 0), transactional=True), leader_epoch=0)
    leader.append(marker(5, 0, commit=False), leader_epoch=0, origin=AppendOrigin.COORDINATOR)
    follower.append_replicated(bytearray(everything(leader)), leader_epoch=0, now_ms=NOW)
    assert follower.aborted_transactions(0, 3) == leader.aborted_transactions(0, 3) != []
    assert follower.stable_until(3) == leader.stable_until(3) == 1


@pytest.mark.parametrize(
    ("starts", "end", "answer", "cut"),
    [
        (((0, 0), (2, 10)), 15, (0, 12), 10),  # the leader went on in epoch 0: our epoch 2 goes
        (((0, 0), (2, 10)), 15, (0, 8), 8),  # the leader's epoch 0 ended earlier
        (((0, 0), (2, 10)), 15, (2, 13), 13),  # ours went on longer
        (((0, 0), (2, 10)), 15, (1, 9), 10),  # epoch 1 is not known here: cut to where 0 ends, and ask again
        (((3, 0),), 9, (1, 4), 0),  # nothing here is as old as that
        (((3, 0),), 9, (-1, -1), 0),
        ((), 9, (1, 4), 4),  # no epochs are known: believe the leader
    ],
)
def test_a_follower_parts_where_the_epochs_do(
    tmp_path: Path, starts: tuple[tuple[int, int], ...], end: int, answer: tuple[int, int], cut: int
) -> None:
    log = opened(tmp_path)
    for epoch, offset in starts:
        log.leader_epochs.assign(epoch, offset)
    log.leader_epochs.log_end_offset = end  # type: ignore[assignment]
    assert log.leader_epochs.parts_from(*answer) == cut


def catch_up(leader: Log, follower: Log, epoch: int, rng: random.Random, most: int) -> None:
    """Let a follower fetch as the protocol says (KIP-595), `most` times at most."""
    for _ in range(most):
        last, offset = follower.leader_epochs.latest, follower.log_end_offset
        if last >= 0:
            end = leader.leader_epochs.end_offset_for(last)
            assert end.end_offset >= 0, "the follower knows an epoch that the leader does not"
            if end.epoch < last or end.end_offset < offset:
                follower.truncate_to(follower.leader_epochs.parts_from(end.epoch, end.end_offset))
                continue
        if offset == leader.log_end_offset:
            return
        follower.append_replicated(fetched(leader, offset, rng.randrange(50, 2000)), leader_epoch=epoch, now_ms=NOW)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_their_histories_two_logs_end_in_agreement(tmp_path: Path, seed: int) -> None:
    """Leaders come and go among three copies, with unfinished catching up between; the last one's log is everyone's.

    A leader is elected as Kafka does: its log must not be behind a record that a majority has.
    """
    rng = random.Random(seed)
    logs = [opened(tmp_path, f"copy-{at}") for at in range(3)]
    committed: list[bytes] = []
    epoch = 0
    for _ in range(25):
        ranked = sorted(logs, key=lambda each: (each.leader_epochs.latest, each.log_end_offset))
        leader = rng.choice(ranked[1:])  # at least as far as one other: it has all that a majority has
        epoch += rng.randrange(1, 3)
        leader.begin_epoch(epoch)
        for _ in range(rng.randrange(6)):
            values = [b"%d-%d" % (epoch, rng.randrange(1000))] * rng.randrange(1, 5)
            leader.append(batch(values), leader_epoch=epoch, now_ms=NOW)
            for each in logs:
                if each is not leader and rng.random() < 0.4:
                    catch_up(leader, each, epoch, rng, rng.randrange(1, 4))
        if any(
            each.log_end_offset == leader.log_end_offset and each.leader_epochs.latest == epoch
            for each in logs
            if each is not leader
        ):
            assert everything(leader).startswith(b"".join(committed)), f"seed {seed}: a committed record is lost"
            committed = [everything(leader)]
    for each in logs:
        catch_up(leader, each, epoch, rng, 1000)
    assert len({everything(each) for each in logs}) == 1, f"seed {seed}"
    # the last leader may not have written yet: then only it knows its epoch
    known = {tuple(start for start in each.leader_epochs.starts if start.offset < each.log_end_offset) for each in logs}
    assert len(known) == 1, f"seed {seed}"
    for each in logs:
        each.abandon()


def test_a_leaders_first_batch_is_written_to_no_file_that_a_start_would_not_find(tmp_path: Path) -> None:
    data = batch([b"a", b"b", b"c", b"d"], base_offset=48, leader_epoch=1)
    for number in range(1, 20):
        folder = f"{tmp_path}/t-{number}"
        disk = FailingDisk(OsDisk())
        log = Log.open(disk, folder, LogConfig(), now_ms=NOW, log_start_offset=50, clean=True)  # type: ignore[arg-type]
        disk.watch(number, "EIO")
        try:
            log.append_replicated(bytearray(data), leader_epoch=1, now_ms=NOW)
        except StorageError:
            assert log.log_end_offset in (48, 50)
            disk.mend()
            log.append_replicated(bytearray(data), leader_epoch=1, now_ms=NOW)
        again = Log.open(OsDisk(), folder, LogConfig(), now_ms=NOW, log_start_offset=50)
        assert again.log_end_offset == 52
        assert disk.has_failed == (number <= len(disk.calls))
