"""What is done to a log directory happens whole or not at all too, whichever of its calls to the disk fails.

Each story tells what became of an acknowledged record: however the call failed, it is there, in this process and in the
next one, and what was deleted or made anew is not mixed with what was there before.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from ottla.base import StorageError, TopicPartition, Uuid
from ottla.log import Log, LogConfig, LogDir
from tests.log.failing_disk import KINDS, FailingDisk, Killed
from tests.log.records import NOW, batch, values
from tests.sim.disk import SimDisk
from tests.sim.loop import SimLoop
from tests.sim.process import Process
from tests.sim.storage import Storage
from tests.sim.trace import Trace

KEY, OTHER = TopicPartition("t", 0), TopicPartition("u", 0)
FIRST, SECOND = Uuid(bytes(range(16))), Uuid(bytes(range(1, 17)))
CONFIG = LogConfig(segment_bytes=400)
OLD, NEW = 30, 12


class Bench:
    """A directory with two logs, and all that checkpoints can say of them."""

    def __init__(self) -> None:
        self.storage = Storage(Random(1))
        self.topic_id = FIRST
        """Which topic of the name the metadata knows."""
        self.acknowledged = OLD
        self.start_process()
        for key, topic_id in ((KEY, FIRST), (OTHER, SECOND)):
            log = self.log_dir.open_log(key, CONFIG, now_ms=NOW, topic_id=topic_id)
            for at in range(OLD):
                log.append(batch([b"%s %d" % (topic_id[:1].hex().encode(), at)]), leader_epoch=0, now_ms=NOW)
            log.delete_records_before(20)
            log.flush()
        self.log_dir.write_recovery_points()
        self.log_dir.write_start_offsets()

    def start_process(self) -> None:
        self.process = Process(SimLoop(), "broker")
        self.disk = FailingDisk(SimDisk(self.storage, self.process, Random(2), Trace()))
        self.log_dir = LogDir.open(self.disk, "data")  # type: ignore[arg-type]

    def restart(self) -> None:
        """Kill the process, and start another."""
        self.process.alive = False
        self.start_process()

    def make_again(self) -> None:
        """Let the metadata say that the topic was dropped and made again, and follow."""
        self.topic_id = SECOND
        self.acknowledged = 0
        if KEY in self.log_dir.logs and self.log_dir.logs[KEY].topic_id == FIRST:
            self.log_dir.delete_log(KEY, unique="u", now_ms=NOW, delay_ms=0)
        self.write_new()

    def write_new(self) -> None:
        """Open what the metadata knows, and append what is lacking."""
        log = self.log_dir.logs.get(KEY)
        if log is None:
            log = self.log_dir.open_log(KEY, CONFIG, now_ms=NOW, topic_id=self.topic_id)
        while log.log_end_offset < NEW:
            at = log.log_end_offset
            log.append(batch([b"01 %d" % at]), leader_epoch=0, now_ms=NOW)
            self.acknowledged = at + 1

    def move_back(self) -> None:
        """Let the log be moved away, and come back with as much as it has elsewhere by now: less. Until then it is there."""
        self.topic_id, self.acknowledged = FIRST, 0
        if KEY in self.log_dir.logs:
            if self.log_dir.logs[KEY].log_end_offset == NEW:
                self.acknowledged = NEW
                return
            self.log_dir.delete_log(KEY, unique="u", now_ms=NOW, delay_ms=0)
        if KEY in self.log_dir.future_folders or KEY not in self.log_dir.futures:
            future = self.log_dir.open_future(KEY, CONFIG, now_ms=NOW, unique="f", topic_id=FIRST)
            while future.log_end_offset < NEW:
                at = future.log_end_offset
                data = batch([b"00 %d" % at], base_offset=at, leader_epoch=0)
                future.append_replicated(data, leader_epoch=0, now_ms=NOW)
            future.flush()
            self.log_dir.name_future(KEY)
        self.acknowledged = NEW
        self.log_dir.take_future(KEY)

    def checkpoint(self) -> None:
        self.log_dir.write_recovery_points()
        self.log_dir.write_start_offsets()
        self.log_dir.write_high_watermarks(self._watermarks())
        self.log_dir.write_cleaned_offsets()

    def close(self) -> None:
        self.log_dir.close(high_watermarks=self._watermarks())

    def _watermarks(self) -> dict[TopicPartition, tuple[Log, int]]:
        return {key: (log, log.log_end_offset) for key, log in self.log_dir.logs.items()}

    def check(self, where: str) -> None:
        """Open what the metadata knows, and find what was acknowledged, and nothing of the other topic."""
        log = self.log_dir.logs.get(KEY)
        if log is None:
            log = self.log_dir.open_log(KEY, CONFIG, now_ms=NOW, topic_id=self.topic_id)
        assert log.log_end_offset >= self.acknowledged, where
        mark = self.topic_id[:1].hex().encode()
        start = 20 if log.log_end_offset == OLD else 0
        assert log.log_start_offset == start, where
        for at in range(start, log.log_end_offset):
            assert values(log.read(at, max_bytes=1, min_one_batch=True)) == [mark + b" %d" % at], where
        other = self.log_dir.logs.get(OTHER)
        if other is None:
            other = self.log_dir.open_log(OTHER, CONFIG, now_ms=NOW, topic_id=SECOND)
        assert (other.log_start_offset, other.log_end_offset) == (20, OLD), where


STORIES: dict[str, Callable[[Bench], object]] = {
    "make again": Bench.make_again,
    "move away and back": Bench.move_back,
    "checkpoint": Bench.checkpoint,
    "close": Bench.close,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("story", STORIES)
def test_what_is_done_to_a_directory_is_whole_or_not(story: str, kind: str) -> None:
    tell = STORIES[story]
    bench = Bench()
    bench.disk.watch()
    tell(bench)
    calls = list(bench.disk.calls)
    assert 5 < len(calls) < 500
    for number, call in enumerate(calls, 1):
        where = f"{story}: {kind} at {number}, {call}"
        bench = Bench()
        bench.disk.watch(number, kind)
        try:
            tell(bench)
        except Killed:
            pass
        except StorageError:
            if story != "close":
                bench.disk.mend()
                tell(bench)  # with the disk well again, it can be done
                bench.check(where)
        bench.restart()
        bench.check(where)
        bench.log_dir.close()
        bench.restart()
        assert bench.log_dir.is_clean, where
        bench.check(where)
