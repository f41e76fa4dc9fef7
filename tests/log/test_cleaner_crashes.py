"""A process, or the machine, may stop inside any change that a cleaning makes: what was there before, or after, is there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.log import clean, install
from ottla.wire import Record
from tests.log.cleaning import COMPACT, Bench
from tests.log.test_cleaner import begin, end
from tests.sim.process import Crash

CHANGES_MAX = 400


def filled(seed: int) -> Bench:
    """Return a log with keys written again, tombstones, a producer and an aborted transaction, ready to be cleaned."""
    bench = Bench(replace(COMPACT, segment_bytes=700), seed=seed)
    bench.put((b"gone", b"old"), (b"k0", b"first"))
    begin(bench, 5, (b"k1", b"aborted"))
    end(bench, 5, commit=False, roll=False)
    for at in range(30):
        bench.put((b"k%d" % (at % 7), b"v%d" % at), (b"gone", None), producer=(7, 0, 2 * at))
    bench.seal()
    bench.clean()
    bench.now += 1001  # the tombstone may go, together with what it deletes
    for at in range(20):
        bench.put((b"k%d" % (at % 3), b"w%d" % at), producer=(7, 0, 60 + at))
    bench.put((b"k1", b"last"))
    bench.seal()
    return bench


def state(records: list[Record]) -> dict[bytes | None, bytes]:
    """Return what a consumer holds after reading these."""
    found: dict[bytes | None, bytes] = {}
    for each in records:
        if each.value is None:
            found.pop(each.key, None)
        else:
            found[each.key] = each.value
    return found


@pytest.mark.parametrize("power_loss", [False, True], ids=["process", "power"])
def test_a_crash_at_any_change_leaves_the_old_segments_or_the_new(power_loss: bool) -> None:
    whole = filled(0)
    wanted = state(whole.records())
    whole.clean()
    assert state(whole.records()) == wanted
    for crash_at in range(1, CHANGES_MAX):
        bench = filled(crash_at)
        assert state(bench.records()) == wanted
        for path in ("", "data", "data/t-0"):
            bench.storage.directory(path).sync()
        crashed = killed_at(bench, crash_at)
        if power_loss:
            bench.storage.lose_power()
        aftermath(bench, wanted, crash_at)
        if not crashed:
            return
    raise AssertionError("a cleaning makes more changes than were tried")


def killed_at(bench: Bench, crash_at: int) -> bool:
    """Clean with a disk that crashes at a change; False where the cleaning made fewer."""
    plan = bench.plan()
    assert plan is not None
    disk = bench.new_disk(crash_at)
    log = bench.log
    log._disk = log._durability._disk = disk  # the process that cleans, swaps and dies
    for segment in log.segments:
        segment._disk = segment.file._disk = disk  # type: ignore[attr-defined]
    try:
        result = clean(disk, plan)
        assert result.groups and install(disk, log, plan, result, now_ms=bench.now)
    except Crash:
        return True
    return False


def aftermath(bench: Bench, wanted: dict[bytes | None, bytes], crash_at: int) -> None:
    """Start again, and be killed again while starting; then all is there, and can be cleaned."""
    end_offset = bench.log.log_end_offset
    point = crash_at % 2 * bench.log.recovery_point  # as it was stored, or not yet
    for again_at in (1, 3, 7, None):
        bench.disk = bench.new_disk(again_at)
        try:
            bench.open_again(recovery_point=point)
        except Crash:
            continue
        break
    leftovers = [name for name in bench.files() if name.endswith((".cleaned", ".swap", ".deleted", ".tmp"))]
    assert not leftovers, f"crash at change {crash_at}: {leftovers}"
    assert state(bench.records()) == wanted, f"crash at change {crash_at}"
    assert bench.log.log_end_offset == end_offset
    assert bench.log.producers.entries[7].last_sequence == 79
    bench.seal()
    bench.clean()
    assert state(bench.records()) == wanted, f"crash at change {crash_at}, cleaned again"
