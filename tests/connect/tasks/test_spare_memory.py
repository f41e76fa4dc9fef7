"""When a task gives the system the memory that a busy time has left behind."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from ottla.connect.tasks.spare_memory import BUSY_ROWS, QUIET_ROWS, WINDOW_SECONDS, SpareMemory, free_memory


def freed_after(*windows: int) -> list[int]:
    """Return behind which windows, of so many rows each, memory was given back."""
    freed: list[int] = []
    at = 0
    spare = SpareMemory(0.0, lambda: freed.append(at))
    for at, rows in enumerate(windows):
        spare.took(rows)
        spare.look((at + 1) * WINDOW_SECONDS)
    return freed


def test_memory_is_given_back_in_the_first_quiet_window_behind_a_busy_time_and_not_again() -> None:
    assert freed_after(BUSY_ROWS, BUSY_ROWS, 0, 0, 10, 0) == [2]
    assert freed_after(BUSY_ROWS, 0, BUSY_ROWS, QUIET_ROWS - 1, 0) == [1, 3]


def test_a_task_that_always_has_little_to_do_or_always_much_gives_nothing_back() -> None:
    assert freed_after(*[10] * 50) == []
    assert freed_after(*[BUSY_ROWS] * 50) == []


def test_a_window_that_is_not_over_counts_on() -> None:
    freed: list[float] = []
    spare = SpareMemory(0.0, lambda: freed.append(1.0))
    spare.took(BUSY_ROWS)
    spare.look(WINDOW_SECONDS)
    for part in range(1, 10):
        spare.look(WINDOW_SECONDS * (1 + part / 10))
    assert not freed
    spare.look(WINDOW_SECONDS * 2)
    assert freed


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux tells what a process holds")
def test_what_arrow_and_the_c_library_have_freed_is_the_systems_again() -> None:
    before = pa.total_allocated_bytes()
    held = [pa.array([b"x" * 4096] * 64) for _ in range(200)]
    assert pa.total_allocated_bytes() > before
    del held
    free_memory()
    free_memory()  # it may be asked for again at once
    assert pa.total_allocated_bytes() == before
