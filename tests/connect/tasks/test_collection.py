"""How often a task's process looks for cycles: seldom, unless a plugin has said otherwise."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import suppress

import pytest

from ottla.connect import discover
from ottla.connect.tasks import TaskSpec, run_task


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize(("before", "after"), [(700, 50_000), (0, 0), (80_000, 80_000)])
def test_a_task_raises_pythons_own_threshold_and_no_other(before: int, after: int) -> None:
    gc.set_threshold(before, 10, 10)
    spec = object.__new__(TaskSpec)
    with suppress(AttributeError):  # there is no port to ask
        run_task(spec, None, plugins=discover())  # type: ignore[arg-type]
    assert gc.get_threshold() == (after, 10, 10)
