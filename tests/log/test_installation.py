"""Between the steps by which a cleaning is put in place the log is used: truncated, shortened, rolled, read, killed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ottla.base import Offset
from ottla.log import CleanerBuffers, Installation, Log, OsDisk, clean, cleanable, plan_cleaning
from ottla.wire import iter_records, next_offset
from tests.log.cleaning import COMPACT, Bench, keyed
from tests.log.records import NOW
from tests.log.test_cleaner_crashes import state

KEYS = 5
LEFTOVERS = (".cleaned", ".swap", ".deleted", ".tmp")


def filled() -> Bench:
    bench = Bench()
    for at in range(12):
        bench.put(*((b"k%d" % (each % KEYS), b"v%d" % each) for each in range(3 * at, 3 * at + 3)), roll=at % 2 == 1)
    bench.put((b"k0", b"active"))
    bench.log.flush()
    for path in ("", "data", "data/t-0"):
        bench.storage.directory(path).sync()
    return bench


def truncate(bench: Bench) -> None:
    bench.log.truncate_to(9)
    bench.put((b"k1", b"other"))


def truncate_all(bench: Bench) -> None:
    bench.log.truncate_fully_and_start_at(3)
    bench.put((b"k1", b"other"))


def shorten(bench: Bench) -> None:
    bench.log.delete_records_before(14)


def grow(bench: Bench) -> None:
    bench.put((b"k2", b"more"), roll=True)
    bench.put((b"k3", b"and more"))


def nothing(bench: Bench) -> None:
    """Only let the next thing happen."""


ACTS = (truncate, truncate_all, shorten, grow, nothing)


def as_without(act: Callable[[Bench], None]) -> dict[bytes | None, bytes]:
    """Return what a consumer holds where nothing is cleaned."""
    bench = filled()
    act(bench)
    return state(bench.records())


@pytest.mark.parametrize("ends", ["goes on", "dies", "loses power"])
@pytest.mark.parametrize("steps", range(1, 5))
@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
def test_what_happens_between_two_steps_finds_the_log_as_it_is(
    act: Callable[[Bench], None], steps: int, ends: str
) -> None:
    bench, cut = filled(), act in (truncate, truncate_all)
    wanted = as_without(act)
    plan = bench.plan()
    assert plan is not None
    work = Installation(bench.disk, bench.log, plan, clean(bench.disk, plan))
    assert work.begin()
    sequence = [lambda: work.promise(bench.now), work.exchange, lambda: work.complete(bench.now)]
    for at in range(steps):  # the fourth is the next group's promise, where there is one
        if not work.is_done or at % 3 == 2:
            assert sequence[at % 3]() is not False
    act(bench)
    if cut and steps > 1:  # what superseded a record that is gone is cut off now; nothing else may differ
        kept = state(bench.records())
        assert kept.items() <= wanted.items() and kept[b"k1"] == b"other"
        wanted = kept
    assert state(bench.records()) == wanted
    if ends == "goes on":
        going = steps % 3
        while going or not work.is_done:
            if sequence[going % 3]() is False:
                work.give_up()
                break
            going = (going + 1) % 3
        else:
            work.end()
        bench.log.housekeep(bench.now)
        assert bench.log.is_settled
        assert state(bench.records()) == wanted
    if ends == "loses power":
        bench.log.flush()  # what was appended since the last one would be lost with reason
        bench.storage.lose_power()
    bench.log.cleaned_to = -1
    bench.reopen()
    if act is shorten:  # what is deleted comes back where the new start was not stored yet
        wanted = as_without(nothing)
    assert state(bench.records()) == wanted
    assert not [name for name in bench.files() if name.endswith(LEFTOVERS)]
    bench.seal()
    bench.clean()
    assert state(bench.records()) == wanted


def test_a_promise_that_comes_after_a_truncation_is_none() -> None:
    bench = filled()
    plan = bench.plan()
    assert plan is not None
    work = Installation(bench.disk, bench.log, plan, clean(bench.disk, plan))
    assert work.begin()
    bench.log.truncate_to(9)
    bench.put((b"k1", b"other"))
    assert not work.promise(bench.now)
    work.give_up()
    work.end()
    assert bench.log.cleaned_to <= 9
    assert not [name for name in bench.files() if name.endswith((".cleaned", ".swap"))]


def test_a_log_is_read_while_a_thread_puts_cleaned_segments_in_place(tmp_path: Path) -> None:
    disk = OsDisk(8)  # few descriptors, so that files are opened by their names all the time
    log = Log.open(disk, str(tmp_path / "t-0"), COMPACT, now_ms=NOW)
    latest: dict[bytes, bytes] = {}
    for at in range(120):
        pairs = [(b"k%d" % (each % 7), b"v%d" % each) for each in range(at, at + 3)]
        latest.update(pairs)
        log.append(keyed(pairs, timestamp=NOW + at), leader_epoch=0, now_ms=NOW)
    log.roll(NOW)
    log.flush()
    plan = plan_cleaning(
        log,
        cleanable(log, last_stable_offset=log.log_end_offset, now_ms=NOW),
        now_ms=NOW,
        lease=str(tmp_path / "t-0" / "cleaning.tmp"),
        buffers=CleanerBuffers(map_bytes=1 << 16),
    )
    disk.open(plan.lease, create=True)
    result = clean(disk, plan)
    before = log.size
    assert result.groups
    work = Installation(disk, log, plan, result)
    assert work.begin()
    with ThreadPoolExecutor(1) as pool:
        while not work.is_done:
            promised = pool.submit(work.promise, NOW)
            while not promised.done():
                assert read(log) == latest
            assert promised.result() and work.exchange()
            completed = pool.submit(work.complete, NOW)
            while not completed.done():
                assert read(log) == latest
    work.end()
    assert log.is_settled and log.size < before
    assert read(log) == latest
    log.close()


def read(log: Log) -> dict[bytes, bytes]:
    """Return the last value of each key, looked up anew for each batch."""
    found: dict[bytes, bytes] = {}
    offset: int = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, max_bytes=1, min_one_batch=True).read()
        if not data:
            break
        for each in iter_records(data):
            assert each.key is not None and each.value is not None
            found[each.key] = each.value
        offset = next_offset(data, Offset(offset))
    return found


def test_a_file_is_opened_as_itself_while_its_name_goes_to_another(tmp_path: Path) -> None:
    disk = OsDisk()
    names = [str(tmp_path / each) for each in ("a", "b")]
    for name in names:
        disk.open(name, create=True).pwrite(0, b"other" if name == names[1] else b"wanted")
    file = disk.open(names[0])
    ended = threading.Event()

    def swap() -> None:
        for _ in range(1000):
            here = file.path
            file.rename(str(tmp_path / "c"))
            disk.rename(names[1 - names.index(here)], here)
            file.rename(names[1 - names.index(here)])

    with ThreadPoolExecutor(1) as pool:
        swapping = pool.submit(swap)
        while not ended.is_set() and not swapping.done():
            assert file.pread(0, 6) == b"wanted"
            file.close()
        swapping.result()
