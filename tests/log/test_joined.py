"""Batches that are appended by one write: as one by one, in memory and in every file, or not at all."""

from __future__ import annotations

from random import Random

import pytest

from ottla.base import KafkaError, StorageError
from ottla.log import Log, LogConfig
from ottla.wire import BatchRules, admit_batch
from tests.log.failing_disk import FailingDisk
from tests.log.records import NOW, batch
from tests.sim.disk import SimDisk
from tests.sim.loop import SimLoop
from tests.sim.process import Process
from tests.sim.storage import Storage
from tests.sim.trace import Trace

FOLDER = "data/t-0"
CONFIG = LogConfig(segment_bytes=6000, index_interval_bytes=300, max_message_bytes=700, segment_index_bytes=240)
JOINED_AT_LEAST = 40


class Bench:
    """A log on a disk of its own."""

    def __init__(self, config: LogConfig = CONFIG) -> None:
        storage = Storage(Random(1))
        self.disk = FailingDisk(SimDisk(storage, Process(SimLoop(), "broker"), Random(2), Trace()))
        self.log = Log.open(self.disk, FOLDER, config, now_ms=NOW, clean=True)

    def files(self) -> dict[str, bytes | None]:
        return {each.name: self.disk.read(f"{FOLDER}/{each.name}") for each in self.disk.scan(FOLDER)}


def one_by_one(log: Log, sent: list[bytearray], epoch: int, now_ms: int) -> list[object]:
    answers: list[object] = []
    for each in sent:
        try:
            answers.append(log.append(each, leader_epoch=epoch, now_ms=now_ms))
        except KafkaError as error:
            answers.append((error.code, error.message))
    return answers


def joined(log: Log, sent: list[bytearray], epoch: int, now_ms: int) -> int:
    planned = log.plan_joined([(each, admit_batch(each, BatchRules(), NOW)) for each in sent], now_ms=now_ms)
    return -1 if planned is None else log.append_planned(planned, leader_epoch=epoch, now_ms=now_ms)


def state_of(log: Log) -> tuple[object, ...]:
    producers = {at: (e.epoch, e.batches, e.last_timestamp, e.transaction_offset) for at, e in log.producers}
    segments = [
        (
            s.base_offset,
            s.size,
            s.max_timestamp,
            s.max_timestamp_offset,
            s.bytes_since_entry,
            s.modified_ms,
            s.first_timestamp,
        )
        for s in log.segments
    ]
    indexes = [
        [index.entry(at) for at in range(len(index))] for s in log.segments for index in (s.offset_index, s.time_index)
    ]
    return (log.log_end_offset, log.leader_epochs.starts, log.producers.end_offset, producers, segments, indexes)


class Sender:
    """Makes batches such as clients send: mostly what is next, sometimes again, too late, too early or too large."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.at = 0
        self.next: dict[int, int] = {7: 0, 8: 0}

    def batch(self) -> bytearray:
        rng = self.rng
        values = [b"v" * rng.randrange(1, 80) for _ in range(rng.randrange(1, 4))]
        if rng.random() < 0.02:
            values.append(b"large" * 200)
        timestamp = NOW + rng.randrange(-1000, 1000) if rng.random() > 0.02 else -1
        producer = rng.choice((-1, 7, 8))
        if producer < 0:
            return batch(values, timestamp=timestamp)
        sequence = self.next[producer]
        if rng.random() < 0.05:
            sequence = max(0, sequence + rng.choice((-1, -3, 1, 4)))
        self.next[producer] = sequence + len(values)
        transactional = producer == 8 and self.at > 100 and rng.random() < 0.05
        return batch(values, timestamp=timestamp, producer=(producer, 0, sequence), transactional=transactional)


@pytest.mark.parametrize("seed", range(20))
def test_joined_batches_leave_a_log_as_if_they_came_one_by_one(seed: int) -> None:
    sender, together, apart = Sender(seed), Bench(), Bench()
    were_joined = 0
    for sender.at in range(150):
        at = sender.at
        sender.next = dict.fromkeys(sender.next, 0) | {e: entry.last_sequence + 1 for e, entry in apart.log.producers}
        sent = [sender.batch() for _ in range(sender.rng.randrange(1, 7))]
        epoch = at // 40
        expected = one_by_one(apart.log, [bytearray(each) for each in sent], epoch, NOW + at)
        kept = [bytes(each) for each in sent]
        end = together.log.log_end_offset
        first = -1 if any(each[22] & 0x10 for each in sent) else joined(together.log, sent, epoch, NOW + at)
        if first < 0:
            assert [bytes(each) for each in sent] == kept, "what was not appended was not touched"
            assert one_by_one(together.log, sent, epoch, NOW + at) == expected
        else:
            assert first == end
            were_joined += 1
        assert state_of(together.log) == state_of(apart.log)
    together.log.flush()
    apart.log.flush()
    assert together.files() == apart.files()
    assert len(together.log.segments) > 1 and were_joined > JOINED_AT_LEAST


def test_joined_batches_are_one_write() -> None:
    bench = Bench()
    bench.log.append(batch([b"first"]), leader_epoch=0, now_ms=NOW)
    bench.disk.watch()
    assert joined(bench.log, [batch([b"x"] * 3) for _ in range(5)], 0, NOW) == 1
    assert bench.disk.calls == [f"pwrite {FOLDER}/{0:020}.log"]


@pytest.mark.parametrize("kind", ["EIO", "ENOSPC", "short"])
def test_batches_whose_write_fails_may_be_appended_one_by_one(kind: str) -> None:
    bench, other = Bench(), Bench()
    for each in (bench, other):
        each.log.append(batch([b"first"], producer=(7, 0, 0)), leader_epoch=0, now_ms=NOW)
    before = state_of(bench.log)
    sent = [batch([b"x"] * 2, producer=(7, 0, 1 + 2 * at)) for at in range(4)]
    bench.disk.watch(1, kind)
    with pytest.raises(StorageError):
        joined(bench.log, sent, 3, NOW + 1)
    assert state_of(bench.log) == before
    bench.disk.mend()
    other_sent = [bytearray(each) for each in sent]
    assert one_by_one(bench.log, sent, 3, NOW + 1) == one_by_one(other.log, other_sent, 3, NOW + 1)
    assert state_of(bench.log) == state_of(other.log) and bench.files() == other.files()
