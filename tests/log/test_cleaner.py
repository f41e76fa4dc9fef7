"""Compaction keeps the latest record of each key at its offset, and everything else that Kafka keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.base import CorruptionError
from ottla.log import AppendOrigin, CleaningAborted, clean, cleanable, install
from ottla.wire import Codec, ControlType, control_type
from tests.log.cleaning import COMPACT, Bench
from tests.log.records import marker

HOUR_MS = 3_600_000


def fill(bench: Bench, *, keys: int = 10, batches: int = 60) -> dict[bytes, bytes]:
    """Append values of a few keys again and again; return what the last ones were."""
    latest = {}
    for at in range(batches):
        pairs = [(b"k%d" % ((at * 3 + each) % keys), b"v%d-%d" % (at, each)) for each in range(3)]
        bench.put(*pairs, codec=Codec(at % 5))
        latest.update(pairs)
    return latest


def test_the_latest_record_of_each_key_stays_at_its_offset() -> None:
    bench = Bench()
    latest = fill(bench)
    before = {(each.key, each.value): each for each in bench.records()}
    bench.seal()
    size = bench.log.size
    result = bench.clean()
    assert result is not None and result.records_kept == 10
    found = bench.records()
    assert {each.key: each.value for each in found} == latest and len(found) == 10
    assert all(before[each.key, each.value] == each for each in found)
    assert [each.offset for each in found] == sorted(each.offset for each in found)
    assert bench.log.size < size / 3 and bench.log.log_end_offset == 180
    assert bench.log.cleaned_to == 180


def test_the_active_segment_is_left_alone() -> None:
    bench = Bench(replace(COMPACT, segment_bytes=1 << 20))
    bench.put((b"k", b"1"), roll=True)
    bench.put((b"k", b"2"))
    bench.log.flush()
    bench.clean()
    assert [each.value for each in bench.records()] == [b"1", b"2"]
    bench.seal()
    bench.clean()
    assert [each.value for each in bench.records()] == [b"2"]


def test_what_is_not_stable_or_not_on_the_device_is_left_alone() -> None:
    bench = Bench()
    for at in range(4):
        bench.put((b"k", b"%d" % at), roll=True)
    assert bench.plan() is None  # nothing was flushed
    bench.log.flush()
    bench.clean(stable=2)
    assert [each.value for each in bench.records()] == [b"1", b"2", b"3"]
    bench.clean()
    assert [each.value for each in bench.records()] == [b"3"]


def test_records_younger_than_the_minimum_lag_are_left_alone() -> None:
    bench = Bench(replace(COMPACT, min_compaction_lag_ms=HOUR_MS))
    bench.put((b"k", b"1"), roll=True)
    bench.put((b"k", b"2"), roll=True)
    bench.now += HOUR_MS
    bench.put((b"k", b"3"), roll=True)
    bench.seal()
    bench.clean()
    assert [each.value for each in bench.records()] == [b"2", b"3"]


def test_a_log_is_due_by_its_dirty_ratio_or_by_the_maximum_lag() -> None:
    bench = Bench(replace(COMPACT, max_compaction_lag_ms=HOUR_MS))
    fill(bench)
    bench.seal()
    bench.clean()
    bench.put((b"k1", b"new"), roll=True)
    bench.seal()
    found = cleanable(bench.log, last_stable_offset=bench.log.log_end_offset, now_ms=bench.now)
    assert 0 < found.ratio < 0.5 and not found.is_due(0.5) and found.is_due(found.ratio / 2)
    later = cleanable(bench.log, last_stable_offset=bench.log.log_end_offset, now_ms=bench.now + HOUR_MS + 1)
    assert later.delay_ms > 0 and later.is_due(0.99)


def test_tombstones_stay_until_their_retention_is_over() -> None:
    bench = Bench()
    bench.put((b"a", b"1"), (b"b", b"1"))
    bench.put((b"a", None), (b"c", b"1"), roll=True)
    bench.seal()
    bench.clean()
    header, records = bench.batches()[-1]
    assert [(each.key, each.value) for each in records] == [(b"a", None), (b"c", b"1")]
    assert header.delete_horizon == bench.now + 1000 and header.max_timestamp == records[-1].timestamp
    assert bench.values() == {b"a": None, b"b": b"1", b"c": b"1"}
    horizon = header.delete_horizon
    bench.put((b"d", b"1"), roll=True)
    bench.seal()
    bench.clean()
    assert b"a" in bench.values() and bench.batches()[1][0].delete_horizon == horizon
    bench.now += 1001
    bench.put((b"e", b"1"), roll=True)
    bench.seal()
    bench.clean()
    assert bench.values() == {b"b": b"1", b"c": b"1", b"d": b"1", b"e": b"1"}


def test_a_value_written_after_a_tombstone_stays() -> None:
    bench = Bench()
    for value in (b"1", None, b"2"):
        bench.put((b"a", value), roll=True)
    bench.seal()
    bench.clean()
    assert [(each.offset, each.value) for each in bench.records()] == [(2, b"2")]


def test_records_without_a_key_are_dropped() -> None:
    bench = Bench()
    bench.put((None, b"no key"), (b"a", b"1"), roll=True)
    bench.seal()
    result = bench.clean()
    assert result is not None and result.records_without_key == 1
    assert bench.values() == {b"a": b"1"}


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_keep_their_codec_producer_and_end(codec: Codec) -> None:
    bench = Bench()
    bench.put((b"a", b"1"), (b"b", b"1"), (b"a", b"2"), codec=codec, producer=(7, 2, 40))
    bench.put((b"b", b"2"), (b"c", b"x" * 100), codec=codec, producer=(7, 2, 43), roll=True)
    bench.seal()
    bench.clean()
    (first, records), (second, _) = bench.batches()
    assert [(each.offset, each.key, each.value) for each in records] == [(2, b"a", b"2")]
    assert (first.base_offset, first.last_offset, first.codec) == (0, 2, codec)
    assert (first.producer_id, first.producer_epoch, first.base_sequence, first.last_sequence) == (7, 2, 40, 42)
    assert (second.base_offset, second.record_count) == (3, 2)
    bench.reopen()
    assert bench.log.producers.entries[7].last_sequence == 44


def test_a_producers_last_batch_stays_without_records_until_it_writes_again() -> None:
    bench = Bench()
    bench.put((b"a", b"1"), producer=(7, 0, 0), roll=True)
    bench.put((b"a", b"2"), producer=(8, 0, 0), roll=True)
    bench.put((b"a", b"3"), roll=True)
    bench.seal()
    bench.clean()
    assert [(header.producer_id, header.record_count) for header, _ in bench.batches()] == [(7, 0), (8, 0), (-1, 1)]
    bench.reopen()
    assert {each: entry.last_sequence for each, entry in bench.log.producers} == {7: 0, 8: 0}
    bench.log.flush()
    bench.put((b"b", b"1"), producer=(7, 0, 1), roll=True)
    bench.seal()
    bench.clean()
    assert [header.producer_id for header, _ in bench.batches()] == [8, -1, 7]
    assert bench.values() == {b"a": b"3", b"b": b"1"}


def test_the_time_of_a_batch_without_records_is_no_records_time() -> None:
    bench = Bench()
    bench.now += 1000
    bench.put((b"a", b"1"), producer=(7, 0, 0))
    bench.now -= 500
    bench.put((b"a", b"2"), (b"b", b"1"), roll=True)
    bench.seal()
    bench.clean()
    assert [header.record_count for header, _ in bench.batches()] == [0, 2]
    for crash in (False, True):
        bench.reopen(crash=crash)
        latest = bench.log.max_timestamp_offset()
        assert latest is not None and latest.offset == 2
        assert bench.log.offset_for_timestamp(bench.now + 100) is None


def test_the_last_batch_of_a_cleaning_stays_so_that_the_end_is_known() -> None:
    bench = Bench()
    bench.put((b"a", b"1"), roll=True)
    bench.put((None, b"dropped"), roll=True)
    bench.seal()
    bench.clean()
    assert [(header.last_offset, header.record_count) for header, _ in bench.batches()] == [(0, 1), (1, 0)]
    bench.put((b"b", b"1"), roll=True)
    bench.seal()
    bench.clean()
    assert [header.last_offset for header, _ in bench.batches()] == [0, 2]


def begin(bench: Bench, producer_id: int, *pairs: tuple[bytes, bytes], sequence: int = 0) -> None:
    bench.put(*pairs, producer=(producer_id, 0, sequence), transactional=True)


def end(bench: Bench, producer_id: int, *, commit: bool, roll: bool = True) -> None:
    data = marker(producer_id, 0, commit=commit)
    bench.log.append(data, leader_epoch=0, origin=AppendOrigin.COORDINATOR, now_ms=bench.now)
    if roll:
        bench.log.roll(bench.now)


def kinds(bench: Bench) -> list[int]:
    return [control_type(records[0].key) for header, records in bench.batches() if header.is_control and records]


def test_aborted_records_go_at_once_and_their_marker_after_its_horizon() -> None:
    bench = Bench()
    bench.put((b"a", b"old"))
    begin(bench, 5, (b"a", b"aborted"))
    begin(bench, 5, (b"b", b"aborted"), sequence=1)
    end(bench, 5, commit=False)
    bench.seal()
    aborted = bench.log.aborted_transactions(0, 10)
    bench.clean()
    assert bench.values() == {b"a": b"old"} and kinds(bench) == [ControlType.ABORT]
    assert bench.log.aborted_transactions(0, 10) == aborted and len(aborted) == 1
    bench.reopen(crash=False)
    bench.log.producers.entries.clear()  # expired: nothing has to stay for its sake
    for offset in range(2):  # the first drops the empty batch that its producer had needed, the second meets nothing
        bench.put((b"c", b"%d" % offset), roll=True)
        bench.seal()
        bench.clean()
        horizons = [header.delete_horizon for header, _ in bench.batches() if header.is_control]
        assert kinds(bench) == [ControlType.ABORT] and [each is not None for each in horizons] == [offset == 1]
    assert bench.log.aborted_transactions(0, 10) == []
    bench.now += 1001
    bench.put((b"c", b"3"), roll=True)
    bench.seal()
    bench.clean()
    assert kinds(bench) == [] and bench.values() == {b"a": b"old", b"c": b"3"}


def test_a_commit_marker_stays_while_there_are_records_of_its_transaction() -> None:
    bench = Bench()
    begin(bench, 5, (b"a", b"1"))
    end(bench, 5, commit=True)
    for value in (b"2", b"3"):
        bench.seal()
        bench.log.producers.entries.clear()
        bench.clean()
        assert kinds(bench) == [ControlType.COMMIT]
        bench.put((b"b", value), roll=True)
    assert all(header.delete_horizon is None for header, _ in bench.batches())
    bench.put((b"a", b"2"), roll=True)
    bench.seal()
    bench.clean()  # its record goes
    bench.put((b"c", b"1"), roll=True)
    bench.seal()
    bench.clean()  # its marker gets a horizon
    bench.now += 1001
    bench.put((b"c", b"2"), roll=True)
    bench.seal()
    bench.clean()
    assert kinds(bench) == [] and bench.values() == {b"a": b"2", b"b": b"3", b"c": b"2"}


def test_an_aborted_transaction_whose_marker_lies_beyond_the_stable_part_is_known() -> None:
    bench = Bench()
    begin(bench, 5, (b"a", b"aborted"))
    bench.log.roll(bench.now)
    begin(bench, 6, (b"b", b"open"))
    end(bench, 5, commit=False)
    bench.seal()
    assert bench.log.last_stable_offset == 1
    bench.clean()
    assert [each.key for each in bench.records()] == [b"b"]
    assert len(bench.log.aborted_transactions(0, 10)) == 1


def test_a_full_map_cleans_as_far_as_it_reaches_and_the_next_round_goes_on() -> None:
    bench = Bench()
    latest = fill(bench, keys=50)
    bench.seal()
    rounds = 0
    while bench.log.cleaned_to < 180:
        before = bench.log.cleaned_to
        result = bench.clean(map_bytes=24 * 20)
        assert result is not None and result.map_utilization <= 1 and bench.log.cleaned_to > before
        rounds += 1
    assert rounds > 3
    assert bench.values() == latest and len(bench.records()) == 50


def test_a_batch_larger_than_the_buffer_is_cleaned_too() -> None:
    bench = Bench(replace(COMPACT, segment_bytes=1 << 20))
    bench.put(*[(b"k%d" % at, b"x" * 1000) for at in range(200)])
    bench.put(*[(b"k%d" % at, b"y") for at in range(199)], roll=True)
    bench.seal()
    bench.clean(buffer_bytes=0)
    assert len(bench.records()) == 200 and bench.values()[b"k199"] == b"x" * 1000


def test_segments_that_stay_as_they_are_are_not_written_again() -> None:
    bench = Bench(replace(COMPACT, segment_bytes=150))
    for at in range(5):
        bench.put((b"k%d" % at, b"x" * 50), roll=True)
    bench.seal()
    result = bench.clean()
    assert result is not None and result.groups == [] and bench.log.cleaned_to == 5
    assert not [name for name in bench.files() if name.endswith(".cleaned")]


def test_indexes_find_what_is_left() -> None:
    bench = Bench(replace(COMPACT, segment_bytes=20_000))
    for at in range(300):
        bench.put((b"k%d" % (at % 100), b"x" * 20))
    bench.seal()
    bench.clean()
    for offset in range(300):
        found = bench.log.read(offset, max_bytes=1, min_one_batch=True)
        assert found.size
    for record in bench.records():
        found_at = bench.log.offset_for_timestamp(record.timestamp)
        assert found_at is not None and found_at.offset == record.offset
    bench.reopen()
    assert bench.log.recovery is not None and not bench.log.recovery.cut_bytes and not bench.log.recovery.notes
    assert len(bench.records()) == 100


def test_readers_of_the_old_segments_finish_undisturbed() -> None:
    bench = Bench()
    fill(bench)
    bench.seal()
    slices = [bench.log.read(at, max_bytes=1 << 20) for at in range(0, 180, 30)]
    wanted = [each.read() for each in slices]
    bench.clean()
    assert [each.read() for each in slices] == wanted
    bench.put((b"k1", b"again"), roll=True)
    bench.seal()
    bench.clean()
    assert [each.read() for each in slices] == wanted
    bench.now += 10
    for path in bench.log.housekeep(bench.now):
        bench.disk.unlink(path)
    assert not [name for name in bench.files() if name.endswith(".deleted")]


# -- a cleaning that is not wanted any more


def leftovers(bench: Bench) -> list[str]:
    return [name for name in bench.files() if name.endswith((".cleaned", ".swap"))]


def test_a_cleaning_ends_when_its_lease_is_gone() -> None:
    bench = Bench()
    fill(bench)
    bench.seal()
    plan = bench.plan()
    assert plan is not None
    spent = []

    def withdraw(size: int) -> None:
        spent.append(size)
        if len(spent) == 5:
            bench.disk.unlink(plan.lease)

    with pytest.raises(CleaningAborted):
        clean(bench.disk, plan, withdraw)
    assert len(spent) == 5 and not leftovers(bench)


@pytest.mark.parametrize("change", ["truncate", "truncate fully", "delete records"])
def test_a_cleaning_is_dropped_when_the_log_changed_meanwhile(change: str) -> None:
    bench = Bench()
    fill(bench)
    bench.seal()
    plan = bench.plan()
    assert plan is not None
    result = clean(bench.disk, plan)
    if change == "truncate":
        bench.log.truncate_to(100)
    elif change == "truncate fully":
        bench.log.truncate_fully_and_start_at(500)
    else:
        bench.log.delete_records_before(50)
    before = bench.records()
    assert not install(bench.disk, bench.log, plan, result, now_ms=bench.now)
    assert bench.records() == before and not leftovers(bench)


def test_a_truncation_makes_what_follows_dirty_again() -> None:
    bench = Bench()
    fill(bench)
    bench.seal()
    bench.clean()
    assert bench.log.cleaned_to == 180
    for at in range(20):
        bench.put((b"k1", b"%d" % at), roll=True)
    bench.seal()
    bench.clean()
    bench.log.truncate_to(179)
    assert bench.log.cleaned_to <= 179
    bench.put((b"k1", b"last"), (b"k1", b"really last"), roll=True)
    bench.seal()
    bench.clean()
    found = [each.value for each in bench.records() if each.key == b"k1"]
    assert found == [b"really last"]


@pytest.mark.parametrize("byte", [150, 200], ids=["header", "records"])
def test_a_damaged_batch_is_an_error_that_names_its_place_and_nothing_is_lost(byte: int) -> None:
    bench = Bench()
    fill(bench)
    bench.seal()
    path = bench.log.segments[1].file.path
    bench.storage.inode(path).data[byte] ^= 0xFF
    plan = bench.plan()
    assert plan is not None
    with pytest.raises(CorruptionError, match=r"21\.log: .*position") as caught:
        clean(bench.disk, plan)
    assert path in str(caught.value)
    assert not leftovers(bench)


def test_a_full_disk_leaves_the_log_as_it_was() -> None:
    from ottla.log import NoSpaceError

    bench = Bench()
    fill(bench)
    bench.seal()
    before = bench.records()
    plan = bench.plan()
    assert plan is not None
    bench.storage.room_bytes = 300
    with pytest.raises(NoSpaceError):
        clean(bench.disk, plan)
    assert bench.records() == before and not leftovers(bench)


def test_retention_goes_on_in_a_log_that_is_compacted_and_deleted() -> None:
    config = replace(COMPACT, cleanup_policy=("compact", "delete"), retention_ms=HOUR_MS)
    bench = Bench(config)
    fill(bench)
    bench.seal()
    bench.clean()
    kept = bench.log.log_end_offset
    bench.now += HOUR_MS + 1
    bench.put((b"new", b"1"))
    bench.log.housekeep(bench.now)
    assert bench.log.log_start_offset == kept and bench.values() == {b"new": b"1"}
    bench.put((b"new", b"2"), roll=True)
    bench.seal()
    bench.clean()
    assert [each.value for each in bench.records()] == [b"2"]
