"""A start after anything but a clean end: what is whole stays, what is torn goes, what is damaged is reported."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path

import pytest

from ottla.base import CorruptionError
from ottla.log import AppendOrigin, Log, LogConfig, OsDisk, recover
from tests.log.records import NOW, batch, marker, records_of, values

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=200)
ZERO = "00000000000000000000"


def written(folder: Path, count: int = 12) -> Log:
    log = Log.open(OsDisk(), str(folder), CONFIG, now_ms=NOW, clean=True)
    for at in range(count):
        data = batch([b"value %d" % at + b"." * 80], timestamp=NOW + at, producer=(3, 0, at))
        log.append(data, leader_epoch=at // 4, now_ms=NOW)
    return log


def opened(folder: Path, **more: object) -> Log:
    return Log.open(OsDisk(), str(folder), CONFIG, now_ms=NOW, **more)  # type: ignore[arg-type]


def everything(log: Log) -> list[bytes | None]:
    found: list[bytes | None] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        fresh = [
            each for each in records_of(log.read(offset, max_bytes=500, min_one_batch=True)) if each.offset >= offset
        ]
        found += [each.value for each in fresh]
        offset = fresh[-1].offset + 1  # type: ignore[assignment]
    return found


def contents(count: int) -> list[bytes]:
    return [b"value %d" % at + b"." * 80 for at in range(count)]


def test_a_torn_tail_is_cut_at_the_last_whole_batch_wherever_it_is_torn(tmp_path: Path) -> None:
    log = written(tmp_path / "t-0", 4)
    log.abandon()
    data = (tmp_path / "t-0" / f"{ZERO}.log").read_bytes()
    size = len(data) // 4
    for end in range(2 * size, len(data) + 1):
        shutil.copytree(tmp_path / "t-0", tmp_path / "x-0")
        (tmp_path / "x-0" / f"{ZERO}.log").write_bytes(data[:end])
        again = opened(tmp_path / "x-0")
        whole = end // size
        assert again.log_end_offset == whole and again.recovery is not None
        assert again.recovery.cut_bytes == end % size and not again.recovery.kept_aside
        assert everything(again) == contents(whole)
        assert again.producers.entries[3].last_sequence == whole - 1
        again.abandon()
        shutil.rmtree(tmp_path / "x-0")


@pytest.mark.parametrize("junk", [bytes(300), b"\xff" * 300, b"\x00" * 8 + b"\x7f\xff\xff\xff" + bytes(100)])
def test_what_follows_the_last_batch_is_cut_whatever_it_is(tmp_path: Path, junk: bytes) -> None:
    written(tmp_path / "t-0").abandon()
    newest = sorted((tmp_path / "t-0").glob("*.log"))[-1]
    newest.write_bytes(newest.read_bytes() + junk)
    log = opened(tmp_path / "t-0")
    assert everything(log) == contents(12)


def test_damage_below_the_recovery_point_is_reported_and_nothing_is_cut(tmp_path: Path) -> None:
    log = written(tmp_path / "t-0", 8)
    log.abandon()
    path = tmp_path / "t-0" / f"{ZERO}.log"
    data = bytearray(path.read_bytes())
    data[300] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptionError, match="below the recovery point 8"):
        opened(tmp_path / "t-0", recovery_point=8)
    assert path.read_bytes() == data


def test_what_damage_above_the_recovery_point_takes_with_it_is_kept_aside(tmp_path: Path) -> None:
    log = written(tmp_path / "t-0", 8)
    log.abandon()
    path = tmp_path / "t-0" / f"{ZERO}.log"
    data = bytearray(path.read_bytes())
    size = len(data) // 8
    data[2 * size + 70] ^= 1
    path.write_bytes(data)
    again = opened(tmp_path / "t-0")
    assert everything(again) == contents(2)
    assert again.recovery is not None
    (kept,) = again.recovery.kept_aside
    assert Path(kept).read_bytes() == data[2 * size :]


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot"])
@pytest.mark.parametrize("clean", [True, False])
def test_missing_and_garbled_files_beside_the_data_are_built_again(tmp_path: Path, suffix: str, clean: bool) -> None:
    for at, damage in enumerate((b"", b"\x01", b"\xff" * 27, None)):
        folder = tmp_path / f"t-{at}"
        log = written(folder, 40)
        assert log.segment_count > 2
        log.close()
        for path in folder.glob(f"*{suffix}"):
            path.unlink() if damage is None else path.write_bytes(damage)
        again = opened(folder, clean=clean, recovery_point=40)
        assert everything(again) == contents(40)
        found = again.offset_for_timestamp(NOW + 17)
        assert found is not None and found.offset == 17
        again.abandon()


def test_a_start_after_a_clean_end_scans_nothing(tmp_path: Path) -> None:
    written(tmp_path / "t-0", 40).close()
    log = opened(tmp_path / "t-0", clean=True)
    assert log.recovery is None and log.log_end_offset == 40


def test_leftovers_of_deletion_and_compaction_are_cleared_up(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    written(folder).close()
    compacted = (folder / f"{ZERO}.log").read_bytes()
    for name in ("x.log.deleted", f"{ZERO}.index.deleted", f"{1:020d}.log.cleaned", "leader-epoch-checkpoint.tmp"):
        (folder / name).write_bytes(b"rubbish")
    (folder / f"{99:020d}.index").write_bytes(bytes(8))
    log = opened(folder)
    assert everything(log) == contents(12)
    log.close()
    (folder / f"{ZERO}.log.swap").write_bytes(compacted)
    (folder / f"{ZERO}.log").unlink()
    log = opened(folder)
    assert everything(log) == contents(12)
    names = [each.name for each in folder.iterdir()]
    assert not [each for each in names if each.endswith((".deleted", ".cleaned", ".swap", ".tmp"))]
    assert f"{99:020d}.index" not in names


def test_epochs_are_found_again_in_the_batches(tmp_path: Path) -> None:
    log = written(tmp_path / "t-0")
    wanted = log.leader_epochs.starts
    log.abandon()
    (tmp_path / "t-0" / "leader-epoch-checkpoint").unlink(missing_ok=True)
    assert opened(tmp_path / "t-0").leader_epochs.starts == wanted


def test_preallocated_files_of_a_killed_process_count_only_as_far_as_they_were_written(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    written(folder).abandon()
    newest = sorted(folder.glob("*.log"))[-1]
    for path, size in (
        (newest, 100_000),
        (newest.with_suffix(".index"), 10_000),
        (newest.with_suffix(".timeindex"), 12_000),
    ):
        with path.open("ab") as file:
            file.truncate(size)
    assert everything(opened(folder)) == contents(12)


def test_recovery_can_run_in_another_process_and_reports_its_progress(tmp_path: Path) -> None:
    written(tmp_path / "t-0", 40).abandon()
    told: list[tuple[int, int]] = []
    call = pickle.loads(pickle.dumps((OsDisk(), str(tmp_path / "t-0"), CONFIG)))
    report = recover(*call, now_ms=NOW, progress=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1] == report.scanned_bytes
    log = opened(tmp_path / "t-0", recovered=pickle.loads(pickle.dumps(report)))
    assert log.log_end_offset == report.log_end_offset == 40
    assert log.leader_epochs.latest == 9


def test_an_empty_folder_begins_where_the_log_is_to_start(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", log_start_offset=70)
    assert log.log_start_offset == log.log_end_offset == 70
    log.append(batch([b"a"]), now_ms=NOW)
    assert values(log.read(70, max_bytes=1000)) == [b"a"]


def test_a_torn_entry_of_the_transaction_index_costs_nothing(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    log.append(batch([b"aborted"], producer=(5, 0, 0), transactional=True), leader_epoch=0, now_ms=NOW)
    log.append(marker(5, 1, commit=False), leader_epoch=0, now_ms=NOW, origin=AppendOrigin.COORDINATOR)
    aborted = log.aborted_transactions(0, 2)
    log.abandon()
    path = tmp_path / "t-0" / f"{ZERO}.txnindex"
    whole = path.read_bytes()
    for torn in (whole[:-1], whole[:1], whole + b"\0\0\0", b"x" * 50):
        path.write_bytes(torn)
        again = opened(tmp_path / "t-0")
        assert again.aborted_transactions(0, 2) == aborted and len(aborted) == 1
        again.abandon()


@pytest.mark.parametrize(("recovery_point", "end"), [(10, 12), (1, 2)])
def test_gaps_of_a_compaction_are_no_tear_when_the_topic_is_compacted_no_more(
    tmp_path: Path, recovery_point: int, end: int
) -> None:
    for name, base in (("t-0", 0), ("u-0", 10)):
        log = Log.open(OsDisk(), str(tmp_path / name), CONFIG, now_ms=NOW, clean=True)
        log.truncate_fully_and_start_at(base)
        for at in (base, base + 1):
            log.append(batch([b"v%d" % at]), leader_epoch=1, now_ms=NOW)
        log.abandon()
    for each in (tmp_path / "u-0").glob("*10.*"):
        shutil.copy(each, tmp_path / "t-0")
    again = opened(tmp_path / "t-0", recovery_point=recovery_point)
    assert again.log_end_offset == end
    assert everything(again) == [b"v0", b"v1", b"v10", b"v11"][: 2 + 2 * (end == 12)]


def test_a_tail_that_a_compacted_log_lost_with_the_power_is_a_tear_where_more_is_known_to_be_flushed(
    tmp_path: Path,
) -> None:
    compacted = LogConfig(cleanup_policy=("compact",), segment_bytes=1 << 20)
    log = Log.open(OsDisk(), str(tmp_path / "t-0"), compacted, now_ms=NOW, clean=True)
    for at in range(4):
        log.append(batch([b"v%d" % at]), leader_epoch=1, now_ms=NOW)
        if at == 0:
            log.flush()
    flushed = log.recovery_point
    log.roll(NOW)
    log.append(batch([b"v4"]), leader_epoch=1, now_ms=NOW)
    log.abandon()
    first = tmp_path / "t-0" / f"{ZERO}.log"
    os.truncate(first, first.stat().st_size * 3 // 4)  # a whole batch: the first segment looks sound
    again = Log.open(OsDisk(), str(tmp_path / "t-0"), compacted, now_ms=NOW, recovery_point=flushed)
    assert everything(again) == [b"v0", b"v1", b"v2"], (
        "the rest comes from the leader, and nothing is missing in between"
    )
    assert again.log_end_offset == 3
