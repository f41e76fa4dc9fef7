"""The index files: Kafka's bytes, and looking things up in them."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from random import Random

import pytest

from ottla.base import MissingFileError
from ottla.log import Log, LogConfig, OsDisk
from ottla.log.index import OFFSET_ENTRY, PENDING_MAX, TIME_ENTRY, Index
from tests.log.failing_disk import FailingDisk
from tests.log.records import NOW, batch, values


@pytest.mark.parametrize("count", [0, 1, PENDING_MAX - 1, PENDING_MAX, 700, 2000])
def test_the_entry_at_or_below_a_key_is_found_written_or_not(tmp_path: Path, count: int) -> None:
    index = Index(OsDisk(), f"{tmp_path}/i", OFFSET_ENTRY, 0)
    index.create()
    entries = [(3 * at + 1, 100 * at) for at in range(count)]
    for entry in entries:
        index.append(*entry)
    keys = [key for key, _ in entries]
    for again in (index, None):
        found = again or Index(OsDisk(), f"{tmp_path}/i", OFFSET_ENTRY, (tmp_path / "i").stat().st_size if count else 0)
        for key in {0, 1, 2, 3, 4, count, 3 * count, 3 * count + 5}:
            at = bisect_right(keys, key)
            assert found.floor(key) == (entries[at - 1] if at else None)
        assert len(found) == count and found.last() == (entries[-1] if entries else None)
        index.write()


def test_cutting_keeps_what_lies_below(tmp_path: Path) -> None:
    index = Index(OsDisk(), f"{tmp_path}/i", TIME_ENTRY, 0)
    index.create()
    for at in range(1000):
        index.append(10_000 + at, 2 * at)
    index.cut(index.count_below(1001, field=1))
    assert len(index) == 501 and index.last() == (10_500, 1000)
    index.write()
    assert (tmp_path / "i").stat().st_size == 501 * TIME_ENTRY.size
    index.cut(index.count_below(10_000, field=0))
    assert len(index) == 0 and index.last() is None and index.floor(1 << 40) is None


def test_the_bytes_are_big_endian_pairs(tmp_path: Path) -> None:
    index = Index(OsDisk(), f"{tmp_path}/i", TIME_ENTRY, 0)
    index.create()
    index.append(0x0102030405060708, 0x0A0B0C0D)
    index.write()
    assert (tmp_path / "i").read_bytes() == bytes([1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13])


def long_log(tmp_path: Path) -> Log:
    """Return a log of two segments whose first has an index of many entries, on the disk."""
    log = Log.open(OsDisk(), f"{tmp_path}/t-0", LogConfig(index_interval_bytes=1), now_ms=NOW, clean=True)
    for at in range(100):
        log.append(batch([b"%d" % at], timestamp=NOW + at), leader_epoch=0, now_ms=NOW)
    log.roll(NOW)
    log.append(batch([b"100"], timestamp=NOW + 100), leader_epoch=0, now_ms=NOW)
    return log


@pytest.mark.parametrize(
    "position", [7300, 1 << 20, 80, 90], ids=["at the end", "beyond", "too early", "inside a batch"]
)
def test_a_wrong_index_entry_leads_past_no_record(tmp_path: Path, position: int) -> None:
    log = long_log(tmp_path)
    segment = log.segments[0]
    if position == 7300:
        position = segment.size
    elif position == 80:  # the place of a later batch
        position = segment.locate(90).position  # type: ignore[union-attr]
    path = tmp_path / "t-0" / "00000000000000000000.index"
    data = bytearray(path.read_bytes())
    for at in range(20, 80):
        data[8 * at + 4 : 8 * at + 8] = position.to_bytes(4, "big")
    path.write_bytes(data)
    for offset in range(100):
        assert values(log.read(offset, max_bytes=75, min_one_batch=True)) == [b"%d" % offset]
        found = log.offset_for_timestamp(NOW + offset)
        assert found is not None and found.offset == offset


def test_readers_make_no_files(tmp_path: Path) -> None:
    log = long_log(tmp_path)
    for segment in log.segments:
        segment.close()
    paths = [each for each in (tmp_path / "t-0").iterdir() if each.suffix in (".index", ".timeindex")]
    for path in paths:
        path.unlink()
    for look in (lambda: log.read(3, max_bytes=75), lambda: log.offset_for_timestamp(NOW + 50)):
        with pytest.raises(MissingFileError):
            look()
    assert not any(path.exists() for path in paths)


@pytest.mark.parametrize("seed", range(8))
def test_the_floor_is_the_same_whatever_was_looked_up_before(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    disk = OsDisk()
    index = Index(disk, f"{tmp_path}/i", OFFSET_ENTRY, 0)
    index.create()
    entries: list[tuple[int, int]] = []
    at = 0
    for _ in range(60):
        for _ in range(rng.choice((0, 1, 70, 700))):
            last = entries[-1] if entries else (0, 0)
            entries.append((last[0] + rng.randrange(1, 4), last[1] + rng.randrange(1, 100)))
            index.append(*entries[-1])
        if rng.random() < 0.15:
            kept = rng.randrange(len(entries) + 1)
            index.cut(kept)
            del entries[kept:]
        if rng.random() < 0.5:
            index.write()
        end = entries[-1][0] + 3 if entries else 3
        for _ in range(20):
            at = rng.randrange(end) if rng.random() < 0.3 else (at + rng.randrange(200)) % end  # most readers go on
            expected = entries[: bisect_right(entries, at, key=lambda each: each[0])][-1:]
            assert index.floor(at) == (expected[0] if expected else None)
            key = at if rng.random() < 0.7 else rng.randrange(end)
            behind = bisect_right(entries, key, key=lambda each: each[0])
            assert index.above(key) in (None, *entries[behind : behind + 1])


def test_who_reads_on_takes_few_reads_of_an_index(tmp_path: Path) -> None:
    disk = FailingDisk(OsDisk())
    index = Index(disk, f"{tmp_path}/i", OFFSET_ENTRY, 0)
    index.create()
    for at in range(5120):
        index.append(at, 100 * at)
    index.write()
    disk.watch(only="pread")
    for at in range(0, 5120, 8):
        assert index.floor(at) == (at, 100 * at)
    assert len(disk.calls) < 20


@pytest.mark.parametrize("seed", range(6))
def test_the_batch_of_an_offset_is_found_whatever_the_sizes_of_batches(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    log = Log.open(OsDisk(), f"{tmp_path}/t-0", LogConfig(index_interval_bytes=4096), now_ms=NOW, clean=True)
    wanted: list[tuple[int, int]] = []
    position = 0
    for _ in range(300):
        size = rng.choice((10, 100, 5000, 20_000))
        data = batch([b"v" * size] * rng.randrange(1, 4), timestamp=NOW)
        first = log.append(data, leader_epoch=0, now_ms=NOW).first_offset
        wanted += [(position, position + len(data))] * (log.log_end_offset - first)
        position += len(data)
    log.roll(NOW)
    segment = log.segments[0]
    for offset, found in enumerate(wanted):
        assert segment.locate(offset) == found
    for offset in rng.sample(range(len(wanted)), 200):
        assert segment.locate(offset) == wanted[offset]
    assert segment.locate(len(wanted)) is None


def test_who_reads_on_through_large_batches_takes_one_short_read_to_find_each(tmp_path: Path) -> None:
    disk = FailingDisk(OsDisk())
    log = Log.open(disk, f"{tmp_path}/t-0", LogConfig(), now_ms=NOW, clean=True)
    for _ in range(100):
        log.append(batch([b"v" * 8_000] * 2, timestamp=NOW), leader_epoch=0, now_ms=NOW)
    log.roll(NOW)
    log.read(0, max_bytes=1)
    disk.watch(only="pread")
    for at in range(4, 100, 4):
        found = log.read(2 * at, max_bytes=64_000, min_one_batch=True)
        assert found.position == at * log.segments[0].size // 100
    assert len(disk.calls) < 24 + 6  # the index's block besides


def test_a_wrong_entry_at_a_large_batch_leads_past_no_record(tmp_path: Path) -> None:
    """Also where what lies at the wrong place looks like a batch that has the offset."""
    log = Log.open(OsDisk(), f"{tmp_path}/t-0", LogConfig(), now_ms=NOW, clean=True)
    decoy = bytes(batch([b"decoy"] * 9, base_offset=3))
    for at in range(10):
        log.append(batch([b"%d" % at + b"v" * 9000 + decoy * 90], timestamp=NOW), leader_epoch=0, now_ms=NOW)
    log.roll(NOW)
    segment = log.segments[0]
    places = [segment.locate(offset) for offset in range(10)]
    path = tmp_path / "t-0" / "00000000000000000000.index"
    whole = path.read_bytes()
    inside = segment.file.pread(0, segment.size).index(decoy, places[5].position)  # type: ignore[union-attr]
    for at in range(len(whole) // 8):
        data = bytearray(whole)
        data[8 * at + 4 : 8 * at + 8] = inside.to_bytes(4, "big")
        path.write_bytes(data)
        segment.close()
        for offset in range(10):
            found = segment.locate(offset)
            assert found == places[offset] or (found is not None and offset == found.position)
