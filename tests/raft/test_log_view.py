from __future__ import annotations

from ottla.base import LeaderEpoch, Offset
from ottla.raft import EpochEnd, EpochStart, LogView, SnapshotId

VIEW = LogView().appended(0, 10, 1).appended(10, 5, 4)


def snapshot(end: int, epoch: int) -> SnapshotId:
    return SnapshotId(Offset(end), LeaderEpoch(epoch))


def test_an_epoch_ends_where_the_next_begins() -> None:
    assert [VIEW.end_of(epoch) for epoch in (1, 3, 4, 9)] == [
        EpochEnd(LeaderEpoch(1), Offset(10)),
        EpochEnd(LeaderEpoch(1), Offset(10)),
        EpochEnd(LeaderEpoch(4), Offset(15)),
        EpochEnd(LeaderEpoch(4), Offset(15)),
    ]
    assert VIEW.end_of(0) == (0, 0)


def test_history_is_shared_where_offset_and_epoch_agree() -> None:
    assert VIEW.holds(0, 0) and VIEW.holds(10, 1) and VIEW.holds(15, 4) and VIEW.holds(12, 4)
    assert not VIEW.holds(11, 1) and not VIEW.holds(16, 4) and not VIEW.holds(12, 2)


def test_truncation_forgets_the_epochs_behind_it() -> None:
    assert VIEW.truncated(10) == LogView().appended(0, 10, 1)
    assert VIEW.truncated(12).epochs == VIEW.epochs
    assert VIEW.truncated(99) == VIEW


def test_a_trimmed_log_knows_what_came_before_it() -> None:
    trimmed = VIEW.with_snapshot(snapshot(12, 4)).trimmed(5)
    assert trimmed.start == snapshot(5, 1)
    assert trimmed.epochs == (EpochStart(LeaderEpoch(1), Offset(5)), EpochStart(LeaderEpoch(4), Offset(10)))
    at_boundary = VIEW.with_snapshot(snapshot(12, 4)).trimmed(10)
    assert at_boundary.start == snapshot(10, 1)
    assert at_boundary.epochs == (EpochStart(LeaderEpoch(4), Offset(10)),)


def test_a_history_older_than_the_logs_start_needs_a_snapshot() -> None:
    trimmed = VIEW.with_snapshot(snapshot(12, 4)).trimmed(12)
    assert trimmed.is_before(11, 4) and trimmed.is_before(14, 2) and trimmed.is_before(12, 3)
    assert not trimmed.is_before(12, 4) and not trimmed.is_before(15, 4)
    assert not VIEW.is_before(0, 0)


def test_an_empty_log_after_a_snapshot_continues_it() -> None:
    view = LogView.after(snapshot(20, 3))
    assert (view.end_offset, view.last_epoch) == (20, 3)
    assert view.appended(20, 1, 5).end_of(3) == (3, 20)
