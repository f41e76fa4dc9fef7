"""Each change of a log happens whole or not at all, whichever of its calls to the disk fails; a crash there changes no more.

For every story the calls are counted first. Then each call fails in turn, in each way, in a log made anew: what the log says
afterwards, its readers' view of transactions and its producers included, is what it said before or what it should say now;
the story can be told again; the log goes on; and another start, clean or not, finds the same.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

import ottla.log.index
from ottla.base import StorageError
from ottla.log import AppendOrigin, CleanerBuffers, Log, LogConfig, clean, cleanable, install, plan_cleaning
from ottla.wire import read_batch_header
from tests.log.cleaning import keyed
from tests.log.failing_disk import KINDS, FailingDisk, Killed
from tests.log.records import NOW, batch, marker, records_of
from tests.sim.disk import SimDisk
from tests.sim.loop import SimLoop
from tests.sim.process import Process
from tests.sim.storage import Storage
from tests.sim.trace import Trace

CONFIG = LogConfig(
    segment_bytes=900,
    index_interval_bytes=1,
    file_delete_delay_ms=5,
    retention_ms=1000,
    cleanup_policy=("compact", "delete"),
    min_cleanable_dirty_ratio=0.0,
)
FOLDER = "data/t-0"
CALLS_MAX = 400
WRITER, ABORTER, OPEN = 7, 8, 9
State = tuple[Any, ...]
PREFIXES = ("truncate", "replicate")
"""Stories of several steps: a crash, or the failure of a later step, may leave the log after any of them."""


class Bench:
    """One log on a disk of which one call may fail."""

    def __init__(self) -> None:
        self.storage = Storage(Random(1))
        self.disk = self.new_disk()
        self.log = Log.open(self.disk, FOLDER, CONFIG, now_ms=NOW, clean=True)
        self.start = 0
        for at in range(14):
            self.put(at)
        for number in (ABORTER, OPEN):
            data = batch([b"aborted", b"too"], producer=(number, 0, 0), transactional=True, timestamp=NOW + 20)
            self.log.append(data, leader_epoch=2, now_ms=NOW + 20)
        self.log.append(batch([b"last"], timestamp=NOW + 5000), leader_epoch=2, now_ms=NOW + 5000)

    def put(self, at: int) -> None:
        """Append a record of the idempotent producer, with a key of few."""
        data = keyed([(b"k%d" % (at % 3), b"%d" % at)], timestamp=NOW + at, producer=(WRITER, 0, at))
        self.log.append(data, leader_epoch=at // 5, now_ms=NOW + at)

    def new_disk(self) -> FailingDisk:
        return FailingDisk(SimDisk(self.storage, Process(SimLoop(), "broker"), Random(2), Trace()))

    def opened_again(self, *, clean: bool = False, recovery_point: int = 0) -> Log:
        """Start a new process on the same files."""
        self.disk = self.new_disk()
        start = 0 if clean else self.start
        self.log = Log.open(
            self.disk, FOLDER, CONFIG, now_ms=NOW, clean=clean, log_start_offset=start, recovery_point=recovery_point
        )
        return self.log


def state_of(log: Log) -> State:
    """Return all that anybody can see of a log."""
    found, offset = [], int(log.log_start_offset)
    while offset < log.log_end_offset:
        records = [each for each in records_of(log.read(offset, max_bytes=1 << 20)) if each.offset >= offset]
        if not records:
            break
        found += [(each.offset, each.value) for each in records]
        offset = records[-1].offset + 1
    producers = {
        producer_id: (each.epoch, each.last_sequence, each.last_offset, each.transaction_offset)
        for producer_id, each in log.producers
    }
    return (
        (log.log_start_offset, log.log_end_offset, log.last_stable_offset),
        tuple(found),
        producers,
        tuple(log.aborted_transactions(log.log_start_offset, log.log_end_offset)),
        log.leader_epochs.starts,
    )


def put_one(log: Log) -> None:
    log.append(keyed([(b"k", b"14")], producer=(WRITER, 0, 14)), leader_epoch=2, now_ms=NOW + 30)


def put_joined(log: Log) -> None:
    """Two batches of the producer, around one of nobody, by one write."""
    sent = [
        keyed([(b"k", b"14")], producer=(WRITER, 0, 14)),
        batch([b"nobody's", b"two"], timestamp=NOW + 30),
        keyed([(b"k", b"15"), (b"k", b"16")], producer=(WRITER, 0, 15)),
    ]
    kept = [bytes(each) for each in sent]
    try:
        end = log.log_end_offset
        planned = log.plan_joined([(each, read_batch_header(each)) for each in sent], now_ms=NOW + 30)
        assert planned is not None and planned.first_offset == end, "they are as usual"
        assert log.append_planned(planned, leader_epoch=2, now_ms=NOW + 30) == end
    except StorageError:
        assert [bytes(each) for each in sent] == kept, "they can be appended one by one now"
        raise


def put_and_roll(log: Log) -> None:
    data = keyed([(b"k", b"x" * 500)], timestamp=NOW + 30, producer=(WRITER, 0, 14))
    log.append(data, leader_epoch=3, now_ms=NOW + 30)


def abort(log: Log) -> None:
    log.append(marker(ABORTER, 0, commit=False), leader_epoch=2, now_ms=NOW + 30, origin=AppendOrigin.COORDINATOR)


def replicate(log: Log) -> None:
    data = bytearray()
    for at in range(6):
        data += batch([b"r%d" % at * 60], base_offset=log.log_end_offset + at, leader_epoch=4)
    log.append_replicated(data, leader_epoch=4, now_ms=NOW + 30)


def compact(log: Log) -> None:
    found = cleanable(log, last_stable_offset=log.last_stable_offset, now_ms=NOW + 30)
    if not found.cleanable_bytes:  # it was done
        return
    lease = f"{FOLDER}/lease"
    disk = log._disk
    disk.open(lease, create=True).close()
    plan = plan_cleaning(log, found, now_ms=NOW + 30, lease=lease, buffers=CleanerBuffers(map_bytes=1 << 12))
    result = clean(disk, plan)
    assert result.groups and install(disk, log, plan, result, now_ms=NOW + 30)


STORIES: dict[str, Callable[[Log], object]] = {
    "append": put_one,
    "append joined": put_joined,
    "append and roll": put_and_roll,
    "abort": abort,
    "roll": lambda log: log.roll(NOW + 30),
    "replicate": replicate,
    "truncate inside the active segment": lambda log: log.truncate_to(log.log_end_offset - 3),
    "truncate segments away": lambda log: log.truncate_to(3),
    "truncate all, go on ahead": lambda log: log.truncate_fully_and_start_at(50),
    "truncate all, go on inside": lambda log: log.truncate_fully_and_start_at(5),
    "truncate all, go on at a segment": lambda log: log.truncate_fully_and_start_at(log.segments[1].base_offset),
    "delete records": lambda log: log.delete_records_before(log.segments[-1].base_offset + 1),
    "retain": lambda log: log.housekeep(NOW + 3000),
    "flush": lambda log: log.flush(),
    "compact": compact,
}


def prepared(story: str) -> Bench:
    bench = Bench()
    if story == "compact":
        bench.log.roll(NOW + 25)
        bench.log.flush()
    return bench


def go_on(log: Log) -> None:
    """What anybody does next: it must work, and say the same whatever had failed."""
    for at in range(5):
        log.append(batch([b"on %d" % at], timestamp=NOW + 6000), leader_epoch=5, now_ms=NOW + 6000)
        log.roll(NOW + 6000)
    data = batch([b"more"], producer=(11, 0, 0), transactional=True, timestamp=NOW + 6000)
    log.append(data, leader_epoch=5, now_ms=NOW + 6000)
    log.append(marker(11, 0, commit=False), leader_epoch=5, now_ms=NOW + 6000, origin=AppendOrigin.COORDINATOR)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("story", STORIES)
def test_a_change_is_whole_or_not_at_all(story: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ottla.log.index, "PENDING_MAX", 4)
    tell = STORIES[story]
    bench = prepared(story)
    before = state_of(bench.log)
    bench.disk.watch()
    tell(bench.log)
    calls = list(bench.disk.calls)
    after = state_of(bench.log)
    go_on(bench.log)
    end = state_of(bench.log)
    assert 0 < len(calls) < CALLS_MAX
    for number, call in enumerate(calls, 1):
        if kind == "short" and not call.startswith("pwrite"):
            continue
        where = f"{story}: {kind} at {number}, {call}"
        bench = prepared(story)
        bench.start = min(before[0][0], after[0][0])
        point = min(bench.log.recovery_point, after[0][1]) if story.startswith("truncate") else bench.log.recovery_point
        bench.disk.watch(number, kind)
        failed = killed = False
        try:
            tell(bench.log)
        except StorageError:
            failed = True
        except Killed:
            killed = True
        if killed:
            check_killed(bench, point, before, after, story, where)
        else:
            check_failed(bench, tell, before, after, end, story, kind, failed, where)


def check_killed(bench: Bench, point: int, before: State, after: State, story: str, where: str) -> None:
    found = state_of(bench.opened_again(recovery_point=point))
    if story.startswith(PREFIXES):
        low, high = sorted((before, after), key=lambda each: len(each[1]))
        assert found == after or (
            high[1][: len(found[1])] == found[1] and len(found[1]) >= len(low[1]) * (story.startswith("replicate"))
        ), where
    elif story in ("delete records", "retain"):  # the start is in a checkpoint, which was not written
        assert found[1][-len(after[1]) :] == after[1] and found[2] == before[2], where
    else:
        assert found[1] in (before[1], after[1]), where
        if story != "compact":
            assert found in (before, after), where
    again = state_of(bench.opened_again(recovery_point=point))
    assert again == found, where


def check_failed(
    bench: Bench,
    tell: Callable[[Log], object],
    before: State,
    after: State,
    end: State,
    story: str,
    kind: str,
    failed: bool,
    where: str,
) -> None:
    log = bench.log
    found = state_of(log) if kind != "full" else None
    bench.disk.mend()
    found = found or state_of(log)
    if story == "replicate":
        assert found[1] == after[1][: len(found[1])], where
        if failed:
            return
    assert found == (before if failed and story not in ("delete records", "retain") else found), where
    assert found in (before, after), where
    if story == "flush" and failed and kind not in ("ENOSPC", "ENOENT", "short", "full"):
        with pytest.raises(StorageError):  # the device was asked, and is never asked twice
            log.flush()
    else:
        if failed:
            tell(log)
        assert state_of(log) == after, where
        log.housekeep(NOW + 31, high_watermark=0)
        go_on(log)
        assert state_of(log) == end, where
    wanted = state_of(log)
    bench.start = int(log.log_start_offset)
    point = int(log.recovery_point)
    assert state_of(bench.opened_again(recovery_point=point)) == wanted, where
    bench.log.close()
    assert state_of(bench.opened_again(clean=True)) == wanted or bench.start, where
