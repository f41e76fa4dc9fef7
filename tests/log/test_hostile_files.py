"""Derived files hold anything at all: a start reads what the log itself says, at each offset and by each time.

A log of several segments, with transactions and epochs, is closed, or killed; then every file of a kind gets hostile
bytes. What the log says is found out by reading its batches one after the other, without any of its other files.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from ottla.base import Offset, TopicPartition
from ottla.log import AppendOrigin, Log, LogConfig, LogDir, OsDisk
from ottla.log.index import TIME_ENTRY
from ottla.log.os_disk import OsFile
from ottla.log.transaction_index import TransactionIndex
from ottla.wire import ControlType, control_type, iter_batch_records, iter_batches
from tests.log.cleaning import Bench
from tests.log.records import NOW, batch, marker, values

PARTITION = TopicPartition("t", 0)
CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=200)
SEGMENT_FILES = (".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint", "derived-sums")
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "log-start-offset-sums",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
    ".kafka_cleanshutdown",
    ".ottla_cleanshutdown",
)
ENDS = ("clean", "kill")
Damage = Callable[[bytes, bytes, bytes, Random], bytes]
"""Makes hostile bytes of a file's own, those of its neighbour, and those of an earlier day."""
DAMAGES: dict[str, Damage] = {
    "empty": lambda own, other, before, rng: b"",
    "cut": lambda own, other, before, rng: own[: rng.randrange(len(own) + 1)],
    "short by an entry": lambda own, other, before, rng: own[: len(own) * 7 // 8 // 408 * 408],
    "zeroed": lambda own, other, before, rng: bytes(len(own)),
    "random": lambda own, other, before, rng: rng.randbytes(len(own)),
    "negative": lambda own, other, before, rng: b"\xff" * 8 * (len(own) // 8 or 1),
    "eight negative bytes": lambda own, other, before, rng: b"\0\0\0\1\xff\xff\xff\xf0",
    "huge": lambda own, other, before, rng: b"\x7f" + b"\xff" * max(len(own) - 1, 7),
    "of another segment": lambda own, other, before, rng: other,
    "of another day": lambda own, other, before, rng: before,
    "doubled": lambda own, other, before, rng: own + own,
    "more digits than Python reads": lambda own, other, before, rng: (
        own.rpartition(b" ")[0] + b" " + b"9" * 6000 + b"\n"
    ),
    "an infinite number": lambda own, other, before, rng: b'{"version":0,"brokerEpoch":1e400}',
    "one bit": lambda own, other, before, rng: flipped(own, rng),
}


def flipped(data: bytes, rng: Random) -> bytes:
    """Return bytes of which one has another bit."""
    if not data:
        return data
    found = bytearray(data)
    found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
    return bytes(found)


class Said(NamedTuple):
    """What a log says: its records, those of aborted transactions among them, and what can be asked of it."""

    records: list[bytes | None]
    committed: list[bytes | None]
    by_time: list[int | None]
    latest: int
    epochs: list[tuple[int, int]]
    producers: list[tuple[int, int, int]]
    open_from: int | None


def open_dir(folder: Path) -> tuple[LogDir, Log]:
    """Open a log directory and the log in it."""
    log_dir = LogDir.open(OsDisk(), str(folder))
    return log_dir, log_dir.open_log(PARTITION, CONFIG, now_ms=NOW)


def fill(log: Log, rng: Random, steps: int, first: int) -> None:
    """Write plain batches, transactions that end either way, over the end of segments too, and epochs that change."""
    pending: dict[int, int] = {}
    sequences = dict.fromkeys(range(4), 0)
    for at in range(first, first + steps):
        epoch = at // 25
        producer = rng.randrange(5)
        if producer == 4:
            log.append(batch([b"plain %d" % at] * 2, timestamp=NOW + at * 10), leader_epoch=epoch, now_ms=NOW)
        elif producer in pending and rng.random() < 0.4:
            commit = rng.random() < 0.5
            log.append(
                marker(producer, first, commit=commit), leader_epoch=epoch, now_ms=NOW, origin=AppendOrigin.COORDINATOR
            )
            del pending[producer]
        else:
            made = batch(
                [b"t %d %d" % (producer, at)],
                timestamp=NOW + at * 10,
                producer=(producer, first, sequences[producer]),
                transactional=True,
            )
            log.append(made, leader_epoch=epoch, now_ms=NOW)
            sequences[producer] += 1
            pending[producer] = at


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a directory after an earlier day, and one after each end of the next day."""
    found: dict[str, Path] = {}
    above = tmp_path_factory.mktemp("templates")
    for end in ENDS:
        folder = above / end
        log_dir, log = open_dir(folder)
        fill(log, Random(1), 60, 0)
        log_dir.close(broker_epoch=1, high_watermarks={PARTITION: (log, log.log_end_offset)})
        if "before" not in found:
            found["before"] = Path(shutil.copytree(folder, above / "before"))
        log_dir, log = open_dir(folder)
        fill(log, Random(2), 60, 60)
        log.flush(now_ms=NOW)
        log_dir.write_recovery_points()
        log_dir.write_start_offsets()
        log_dir.write_high_watermarks({PARTITION: (log, log.log_end_offset)})
        fill(log, Random(3), 40, 120)
        assert log.segment_count >= 6
        if end == "clean":
            log_dir.close(broker_epoch=2, high_watermarks={PARTITION: (log, log.log_end_offset)})
        else:
            log_dir.release()
        found[end] = folder
    return found


def spoil(folder: Path, before: Path, ends: str, how: str, rng: Random) -> int:
    """Give every file of this kind hostile bytes; return how many there were."""
    named = [each for each in sorted(folder.rglob("*")) if each.is_file() and each.name.endswith(ends)]
    kept = [each.read_bytes() for each in named]
    for at, path in enumerate(named):
        earlier = before / path.relative_to(folder)
        day = earlier.read_bytes() if earlier.exists() else kept[0]
        path.write_bytes(DAMAGES[how](kept[at], kept[at - 1], day, rng))
    return len(named)


def truth(folder: Path) -> Said:
    """Return what the batches say, read one after the other."""
    data = b"".join(each.read_bytes() for each in sorted((folder / "t-0").glob("*.log")))
    records: list[bytes | None] = []
    times: list[tuple[int, int]] = []
    kept: list[tuple[int, bytes | None, int]] = []
    aborted: set[int] = set()
    pending: dict[int, list[int]] = {}
    epochs: list[tuple[int, int]] = []
    producers: dict[int, tuple[int, int, int]] = {}
    for header, position in iter_batches(data):
        if not epochs or epochs[-1][0] != header.partition_leader_epoch:
            epochs.append((header.partition_leader_epoch, header.base_offset))
        for record in iter_batch_records(data, position, header):
            times.append((record.timestamp, record.offset))
            if header.is_control:
                ended = pending.pop(header.producer_id, [])
                aborted.update(ended if control_type(record.key) == ControlType.ABORT else [])
                continue
            records.append(record.value)
            kept.append((record.offset, record.value, header.producer_id))
            if header.is_transactional:
                pending.setdefault(header.producer_id, []).append(record.offset)
        if header.producer_id >= 0 and not header.is_control:
            producers[header.producer_id] = (header.producer_id, header.producer_epoch, header.last_offset)
    stable = min((each[0] for each in pending.values()), default=None)
    until = 1 << 62 if stable is None else stable
    return Said(
        records,
        [value for offset, value, _ in kept if offset not in aborted and offset < until],
        [next((offset for time, offset in times if time >= NOW + at), None) for at in range(-5, 1700, 35)],
        max(times, key=lambda each: each[0])[0],
        epochs,
        sorted(producers.values()),
        stable,
    )


def said(log: Log) -> Said:
    """Return what a log answers when it is asked for the same."""
    records: list[bytes | None] = []
    committed: list[bytes | None] = []
    offset, end, stable = int(log.log_start_offset), log.log_end_offset, log.last_stable_offset
    while offset < end:
        found = log.read(offset, max_bytes=700, upper_bound=end, min_one_batch=True)
        data = found.read()
        gone = {(each.producer_id, each.first_offset) for each in log.aborted_transactions(offset, stable, found)}
        for header, position in iter_batches(data):
            if position + header.size > len(data):
                break
            offset = header.next_offset
            plain = list(iter_batch_records(data, position, header))
            if header.is_control:
                continue
            records += [each.value for each in plain]
            is_gone = any(
                producer == header.producer_id and first <= header.base_offset and header.is_transactional
                for producer, first in gone
            ) and _is_aborted(log, header.producer_id, header.base_offset)
            if header.base_offset < stable and not is_gone:
                committed += [each.value for each in plain]
    for at in range(log.log_start_offset, end):
        assert values(log.read(at, max_bytes=1, min_one_batch=True)) is not None
        assert log.read(at, max_bytes=1, min_one_batch=True).size
    asked = [log.offset_for_timestamp(NOW + at) for at in range(-5, 1700, 35)]
    latest = log.max_timestamp_offset()
    assert latest is not None
    return Said(
        records,
        committed,
        [None if each is None else each.offset for each in asked],
        latest.timestamp,
        [(each.epoch, each.offset) for each in log.leader_epochs.starts],
        sorted(
            (int(each), entry.epoch, entry.batches[-1].last_offset) for each, entry in log.producers if entry.batches
        ),
        log.producers.first_open_offset,
    )


def _is_aborted(log: Log, producer: int, offset: int) -> bool:
    whole = log.aborted_transactions(log.log_start_offset, log.log_end_offset)
    return any(each.producer_id == producer and each.first_offset <= offset <= each.last_offset for each in whole)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("ends", [*SEGMENT_FILES, *CHECKPOINTS])
def test_a_start_believes_the_log_and_no_file_that_is_made_of_it(
    folders: dict[str, Path], tmp_path: Path, ends: str, how: str, end: str
) -> None:
    folder = Path(shutil.copytree(folders[end], tmp_path / "data"))
    expected = truth(folder)
    count = spoil(folder, folders["before"], ends, how, Random(f"{ends} {how} {end}"))
    assert count or (ends, end) in {
        *((each, "kill") for each in CHECKPOINTS if "cleanshutdown" in each),
        ("cleaner-offset-checkpoint", end),
    }
    log_dir, log = open_dir(folder)
    assert said(log) == expected
    log_dir.close(broker_epoch=3, high_watermarks={PARTITION: (log, Offset(log.log_end_offset))})
    log_dir, log = open_dir(folder)
    assert said(log) == expected, "what was built again stays"
    log_dir.release()


@pytest.mark.parametrize("end", ENDS)
def test_without_any_derived_file_the_log_says_the_same(folders: dict[str, Path], tmp_path: Path, end: str) -> None:
    folder = Path(shutil.copytree(folders[end], tmp_path / "data"))
    expected = truth(folder)
    for path in (folder / "t-0").iterdir():
        if path.suffix in {".index", ".timeindex", ".txnindex", ".snapshot"} or "leader-epoch" in path.name:
            path.unlink()
    _, log = open_dir(folder)
    assert said(log) == expected


def test_a_log_that_is_shorter_than_when_it_was_closed_is_told(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders["clean"], tmp_path / "data"))
    _, whole = open_dir(Path(shutil.copytree(folder, tmp_path / "whole")))
    assert not whole.notes
    last = sorted((folder / "t-0").glob("*.log"))[-1]
    data = last.read_bytes()
    *_, (_, start) = iter_batches(data)
    last.write_bytes(data[:start])
    _, log = open_dir(folder)
    assert log.log_end_offset < whole.log_end_offset
    assert any(str(whole.log_end_offset) in each and "records are missing" in each for each in log.notes)


def test_a_segment_that_is_gone_after_a_clean_end_is_told(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders["clean"], tmp_path / "data"))
    path = sorted((folder / "t-0").glob("*.log"))[2]
    path.unlink()
    _, log = open_dir(folder)
    assert any(path.name in each for each in log.notes)


def given_back(folder: Path, change: Callable[[Log], object]) -> LogDir:
    """Have a log changed, and closed cleanly, by one that leaves `derived-sums` as it is, as Apache Kafka does."""
    path = folder / "t-0" / "derived-sums"
    stale = path.read_bytes()
    log_dir, log = open_dir(folder)
    change(log)
    log_dir.close(broker_epoch=3)
    path.write_bytes(stale)
    return log_dir


def test_records_that_another_one_deleted_meanwhile_stay_deleted(folders: dict[str, Path], tmp_path: Path) -> None:
    """Kafka had the folder, appended and deleted: the log began where Ottla had left it, with all that was deleted."""
    folder = Path(shutil.copytree(folders["clean"], tmp_path / "data"))

    def change(log: Log) -> None:
        for at in range(5):
            log.append(batch([b"more %d" % at]), leader_epoch=9, now_ms=NOW)
        log.delete_records_before(log.log_end_offset - 1)

    given_back(folder, change)
    _, log = open_dir(folder)
    assert log.log_start_offset == log.log_end_offset - 1
    assert values(log.read(log.log_start_offset, max_bytes=1 << 20, min_one_batch=True))[-1:] == [b"more 4"]


def test_a_log_that_another_one_has_compacted_meanwhile_lacks_nothing(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders["clean"], tmp_path / "data"))

    def change(log: Log) -> None:
        log.append(batch([b"more"]), leader_epoch=9, now_ms=NOW)
        second = log.segments[1].base_offset
        path = folder / "t-0" / f"{second:020}.log"
        path.write_bytes(path.read_bytes()[: next(iter_batches(path.read_bytes()))[0].batch_length + 12])

    given_back(folder, change)
    _, log = open_dir(folder)
    assert not log.notes


def test_a_segment_that_is_cut_while_its_sum_is_made_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flush on its thread and a follower's truncation: the sum was of the one, and counted for the other."""
    _, log = open_dir(tmp_path)
    for at in range(40):
        log.append(batch([b"v" * 50], timestamp=NOW + at), leader_epoch=0, now_ms=NOW)
    segment = log.segments[0]
    assert segment.base_offset < log.segments[-1].base_offset
    content, cuts = TransactionIndex.content, [5]

    def cut_meanwhile(self: TransactionIndex) -> bytes:
        found = content(self)
        while cuts:
            log.truncate_to(cuts.pop())
        return found

    monkeypatch.setattr(TransactionIndex, "content", cut_meanwhile)
    assert segment.summed() is None and not cuts
    assert segment.sum is None
    found = log.max_timestamp_offset()
    assert found is not None and (found.timestamp, found.offset) == (NOW + 4, 4)


def test_a_log_that_was_compacted_and_flushed_and_nothing_else_lacks_nothing() -> None:
    """Its end was taken for unchanged, so the next start missed what had been compacted."""
    bench = Bench()
    for at in range(6):
        bench.put(*[(b"k%d" % (at % 2), b"v" * 100)] * 3, roll=True)
    bench.reopen(crash=False)
    before = bench.log.size
    bench.clean()
    assert bench.log.size < before
    bench.log.flush()
    bench.reopen(crash=False)
    assert not bench.log.notes


def test_retention_does_not_believe_a_time_that_no_record_has(folders: dict[str, Path], tmp_path: Path) -> None:
    """Without sums, as in a folder of Kafka's, an index that says 1970 makes nothing old."""
    folder = Path(shutil.copytree(folders["clean"], tmp_path / "data"))
    (folder / "t-0" / "derived-sums").unlink()
    for path in (folder / "t-0").glob("*.timeindex"):
        path.write_bytes(TIME_ENTRY.pack(1, 0) * 3)
    _, log = open_dir(folder)
    log.config = LogConfig(segment_bytes=2000, retention_ms=1 << 40)
    count = log.segment_count
    log.housekeep(NOW + (1 << 39))
    assert log.segment_count == count


def test_nothing_is_read_of_the_files_of_sealed_segments_at_a_clean_start(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(folders["clean"], tmp_path / "data"))
    read: list[str] = []
    pread = OsFile.pread

    def noted(file: OsFile, position: int, size: int) -> bytes:
        read.append(file.path.rpartition("/")[2])
        return pread(file, position, size)

    monkeypatch.setattr(OsFile, "pread", noted)
    _, log = open_dir(folder)
    newest = f"{log.segments[-1].base_offset:020d}"
    assert all(each.startswith(newest) for each in read), read


@pytest.mark.parametrize(
    "how", ["missing", "short by its last entry", "doubled", "of the segment before", "none but one"]
)
@pytest.mark.parametrize("sums", ["none", "of an earlier Ottla"])
def test_a_log_of_another_one_never_shows_aborted_records_whatever_its_transaction_indexes_say(
    folders: dict[str, Path], tmp_path: Path, how: str, sums: str
) -> None:
    """Without sums a file that is missing or cut looks like one of a segment with fewer aborted transactions."""
    folder = Path(shutil.copytree(folders["clean"], tmp_path / "data"))
    expected = truth(folder)
    (folder / "t-0" / "derived-sums").unlink()
    indexes = sorted((folder / "t-0").glob("*.txnindex"))
    kept = [each.read_bytes() for each in indexes]
    assert len(indexes) >= 4
    for at, path in enumerate(indexes):
        if how == "missing" or (how == "none but one" and at):
            path.unlink()
        elif how == "short by its last entry":
            path.write_bytes(kept[at][:-34])
        elif how == "doubled":
            path.write_bytes(kept[at] * 2)
        elif how == "of the segment before":
            path.write_bytes(kept[at - 1])
    if sums == "none":
        for path in (folder / "t-0").glob("*.snapshot"):
            path.unlink()
    log_dir, log = open_dir(folder)
    assert said(log) == expected
    fill(log, Random(9), 30, 200)
    assert said(log) == truth(folder)
    log_dir.close(broker_epoch=3, high_watermarks={PARTITION: (log, Offset(log.log_end_offset))})
    log_dir, log = open_dir(folder)
    assert said(log) == truth(folder)
    log_dir.release()
