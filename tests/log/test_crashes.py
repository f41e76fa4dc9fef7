"""A process, or the machine, may stop inside any change to the disk: what was promised is there, at the old offsets."""

from __future__ import annotations

from random import Random

import pytest

from ottla.base import TopicPartition, Uuid
from ottla.log import AppendOrigin, Log, LogConfig, LogDir
from tests.log.records import NOW, batch, marker, records_of
from tests.sim.disk import SimDisk
from tests.sim.loop import SimLoop
from tests.sim.process import Crash, Process
from tests.sim.storage import Storage
from tests.sim.trace import Trace

PARTITION = TopicPartition("t", 0)
TOPIC_ID = Uuid(bytes(range(16)))
CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=200, file_delete_delay_ms=5, retention_ms=-1)


class World:
    """One log directory on a simulated disk, and what its user was promised."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.storage = Storage(self.rng)
        self.trace = Trace()
        self.values: dict[int, list[bytes]] = {}
        """By offset, what was appended there: more than one value where an unsynced truncation lies between."""
        self.appended = 0
        """End of what is with the operating system."""
        self.flushed = 0
        """End of what is on the device."""
        self.start = 0
        self.epoch = 0
        self.sequences = {7: 0, 8: 0}
        self.now = NOW
        self.count = 0

    def process(self, crash_at: int | None) -> SimDisk:
        process = Process(SimLoop(), "broker")
        return SimDisk(self.storage, process, self.rng, self.trace, crash_at=crash_at, now_ms=lambda: self.now)

    def run(self, disk: SimDisk, steps: int) -> None:
        """Open, check, and do things until the disk crashes or all is done."""
        log_dir = LogDir.open(disk, "data")
        log = log_dir.open_log(PARTITION, CONFIG, now_ms=self.now, topic_id=TOPIC_ID)
        self.check(log)
        self.appended = log.log_end_offset
        self.epoch += 1
        log.begin_epoch(self.epoch)
        self.sequences = {each: self.next_sequence(log, each) for each in self.sequences}
        for _ in range(steps):
            self.step(log_dir, log)
        if self.rng.random() < 0.5:
            log_dir.close(high_watermarks={PARTITION: (log, log.log_end_offset)})
            self.promise(log)

    def promise(self, log: Log) -> None:
        """All of the log is on the device: nothing older can come back."""
        self.flushed = log.log_end_offset
        self.values = {at: given[-1:] for at, given in self.values.items() if at < self.flushed}

    @staticmethod
    def next_sequence(log: Log, producer_id: int) -> int:
        entry = log.producers.entries.get(producer_id)
        return entry.last_sequence + 1 if entry else 0

    def step(self, log_dir: LogDir, log: Log) -> None:
        self.now += 7
        kind = self.rng.randrange(20)
        if kind < 13:
            self.append(log)
        elif kind == 13:
            log.roll(self.now)
        elif kind in (14, 15):
            log.flush()
            self.promise(log)
        elif kind == 16:
            log_dir.write_recovery_points()
        elif kind == 17:
            self.start = self.rng.randrange(log.log_start_offset, log.log_end_offset + 1)
            log.delete_records_before(self.start)
            log_dir.write_start_offsets()
        elif kind == 18:
            for path in log.housekeep(self.now):
                log_dir.disk.unlink(path)
        else:
            self.truncate(log_dir, log)

    def append(self, log: Log) -> None:
        producer_id = self.rng.choice((-1, 7, 8))
        sequence = self.sequences.get(producer_id, -1)
        base = log.log_end_offset
        self.count += 1
        values = [b"%d-%d" % (self.count, at) + bytes(self.rng.randrange(60)) for at in range(self.rng.randrange(1, 4))]
        for at, value in enumerate(values):  # it may or may not survive
            self.values.setdefault(base + at, []).append(value)
        data = batch(values, timestamp=self.now, producer=(producer_id, 0 if producer_id > 0 else -1, sequence))
        log.append(data, leader_epoch=self.epoch, now_ms=self.now)
        self.appended = base + len(values)
        if producer_id > 0:
            self.sequences[producer_id] += len(values)

    def truncate(self, log_dir: LogDir, log: Log) -> None:
        offset = self.rng.randrange(log.log_start_offset, log.log_end_offset + 1)
        self.flushed = min(self.flushed, log.log_start_offset)  # from here on, until the next flush
        self.appended = log.log_start_offset
        log.truncate_to(offset)
        log_dir.write_recovery_points()
        self.appended = log.log_end_offset
        self.sequences = {each: self.next_sequence(log, each) for each in self.sequences}

    def check(self, log: Log) -> None:
        """Everything promised is there, and every offset has the value that it was given."""
        promised = self.appended
        assert log.log_end_offset >= promised, f"{log.log_end_offset} < {promised}"
        assert log.log_start_offset <= max(self.start, promised)
        offset, found = log.log_start_offset, {}
        while offset < log.log_end_offset:
            fresh = [
                each
                for each in records_of(log.read(offset, max_bytes=500, min_one_batch=True))
                if each.offset >= offset
            ]
            assert fresh, f"nothing at {offset}"
            for record in fresh:
                assert record.offset == offset and record.value in self.values[offset], f"offset {offset}"
                assert offset >= promised or record.value == self.values[offset][-1], f"old value at {offset}"
                found[int(offset)] = [record.value]
                offset += 1
        self.values = {at: each for at, each in self.values.items() if at < log.log_start_offset} | found
        self.check_derived(log)

    def check_derived(self, log: Log) -> None:
        """Epochs and producers are those of the records."""
        starts = log.leader_epochs.starts
        assert [each.offset for each in starts] == sorted({each.offset for each in starts})
        assert all(each.offset <= log.log_end_offset for each in starts)
        for producer_id, entry in log.producers:
            assert entry.last_offset < log.log_end_offset
            assert producer_id in self.sequences


@pytest.mark.parametrize("power_loss", [False, True], ids=["process", "power"])
@pytest.mark.parametrize("seed", range(100))
def test_recovery_succeeds_after_a_crash_inside_any_change(seed: int, power_loss: bool) -> None:
    world = World(seed * 2 + power_loss)
    for _ in range(6):
        crash_at = world.rng.randrange(1, 250) if world.rng.random() < 0.85 else None
        try:
            world.run(world.process(crash_at), steps=40)
        except Crash:
            pass
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}\n" + "\n".join(world.trace.recent())) from error
        world.storage.locks.clear()
        if power_loss:
            world.storage.lose_power()
            world.appended = world.flushed
            if not world.storage.exists("data"):
                world.storage.find("")


def test_recovery_killed_at_every_change_completes_in_the_end() -> None:
    for crash_at in range(1, 200):
        world = World(crash_at)
        world.storage.lose_power()
        disk = world.process(None)
        log_dir = LogDir.open(disk, "data")
        log = log_dir.open_log(PARTITION, CONFIG, now_ms=NOW, topic_id=TOPIC_ID)
        for _ in range(30):
            world.append(log)
        inode = world.storage.inode(log.segments[-1].file.path)
        inode.data += b"\x00\x01torn"
        world.storage.locks.clear()
        crashed = 0
        for at in (crash_at, max(1, crash_at // 2), None):
            try:
                again = LogDir.open(world.process(at), "data")
                opened = again.open_log(PARTITION, CONFIG, now_ms=NOW, topic_id=TOPIC_ID)
            except Crash:
                crashed += 1
                world.storage.locks.clear()
                continue
            world.check(opened)
            break
        if not crashed:
            return
    raise AssertionError("recovery makes more changes than were tried")


def test_a_transaction_survives_a_crash_as_it_was() -> None:
    world = World(1)
    disk = world.process(None)
    log = Log.open(disk, "data/t-0", CONFIG, now_ms=NOW)
    log.append(batch([b"a"], producer=(5, 0, 0), transactional=True), leader_epoch=0)
    log.append(batch([b"b"], producer=(6, 0, 0), transactional=True), leader_epoch=0)
    log.append(marker(5, 0, commit=False), leader_epoch=0, origin=AppendOrigin.COORDINATOR)
    aborted = log.aborted_transactions(0, 3)
    again = Log.open(world.process(None), "data/t-0", CONFIG, now_ms=NOW)
    assert again.last_stable_offset == log.last_stable_offset == 1
    assert again.aborted_transactions(0, 3) == aborted and len(aborted) == 1
