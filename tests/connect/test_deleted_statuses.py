"""What it costs to forget connectors: as much for each, however many there are. Counted in instructions, never in time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ottla.connect.storage import (
    ConfigState,
    ConnectorConfig,
    State,
    Status,
    StatusState,
    TaskConfig,
    TaskId,
    TasksCommit,
    apply_config,
    apply_status,
    encode_config,
    encode_status,
)
from tests.connect.machine.test_shown import in_model, statuses
from tests.fuzz_doors.work import work_of

SMALL = 100
GROWTH_MAX = 6.0
"""Of the work for four times as much: n log n is below it, n squared is 16."""
MOST = 20_000_000


def both(name: str) -> tuple[str | TaskId, ...]:
    return TaskId(name, 0), name


def status_fold(count: int) -> Callable[[], object]:
    state = StatusState()
    for of in [each for number in range(count) for each in both(f"c{number}")]:
        state, _ = apply_status(state, *encode_status(Status(of, State.RUNNING, "w", 1)))

    def forget() -> None:
        left = state
        for number in range(count):
            for of in both(f"c{number}"):
                assert not left.tasks("nobody")
                left, _ = apply_status(left, *encode_status(Status(of, State.DESTROYED, "w", 1)))
        assert not left.statuses

    return forget


def config_fold(count: int) -> Callable[[], object]:
    state = ConfigState()
    for number in range(count):
        name = f"c{number}"
        for each in (ConnectorConfig(name, {"a": "b"}), TaskConfig(TaskId(name, 0), {}), TasksCommit(name, 1)):
            state, _ = apply_config(state, *encode_config(each), state.offset)

    def forget() -> None:
        left = state
        for number in range(count):
            left, _ = apply_config(left, *encode_config(ConnectorConfig(f"c{number}", None)), left.offset)
        assert not left.configs and not left.task_configs

    return forget


@pytest.mark.parametrize("made", [status_fold, config_fold])
def test_a_tombstone_costs_as_much_however_many_connectors_there_are(
    made: Callable[[int], Callable[[], object]],
) -> None:
    """Each looked through all: 5,000 deleted connectors held a worker for minutes, at each of its starts."""
    small, large = (work_of(made(count), MOST) for count in (SMALL, 4 * SMALL))
    assert large < GROWTH_MAX * small, (small, large)


def test_a_tombstone_of_what_a_worker_has_costs_as_much_however_much_it_has() -> None:
    """Each wrote out the statuses of all that the worker has, to compare their keys."""

    async def test(kafka: Any) -> None:
        costs = []
        for count in (SMALL, 4 * SMALL):
            store = await statuses(kafka)
            for of in [each for number in range(count) for each in both(f"c{number}")]:
                store.put(Status(of, State.RUNNING, "mine", 1))
            await store.flush(5)
            await asyncio.sleep(1)
            gone = [encode_status(Status(f"c{number}", State.DESTROYED, "w", 1)) for number in range(count)]
            costs.append(work_of(lambda s=store, gone=gone: [s.apply(key.encode(), None, 0) for key, _ in gone], MOST))
            await store.close()
        assert costs[1] < GROWTH_MAX * costs[0], costs

    in_model(test)


def test_a_task_of_a_connector_that_shrank_is_forgotten_with_it() -> None:
    state = ConfigState()
    for each in (
        ConnectorConfig("a", {"x": "1"}),
        *(TaskConfig(TaskId("a", number), {}) for number in range(3)),
        TasksCommit("a", 3),
        TaskConfig(TaskId("a", 0), {}),
        TasksCommit("a", 1),
        ConnectorConfig("a", None),
    ):
        state, _ = apply_config(state, *encode_config(each), state.offset)
    assert not state.task_configs and not state.of_connector
