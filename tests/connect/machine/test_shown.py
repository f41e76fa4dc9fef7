"""What the machine has shown, each by itself."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.client import JoinedMember
from ottla.connect import ConnectError, TaskStart
from ottla.connect.assignment import Assignment, GroupProtocol, WorkerState, decode_assignment, encode_worker_state
from ottla.connect.decisions import create_or_replace
from ottla.connect.distributed.config_store import ConfigStore
from ottla.connect.distributed.leading import Leading
from ottla.connect.distributed.local_work import LocalWork
from ottla.connect.distributed.status_store import StatusStore
from ottla.connect.storage import (
    ConfigState,
    ConnectorConfig,
    State,
    Status,
    TargetState,
    TargetStateChange,
    TaskConfig,
    TaskId,
    TasksCommit,
    apply_config,
    encode_config,
)
from tests.connect.machine.cluster import Door, KafkaModel
from tests.connect.machine.workers import SETTINGS
from tests.sim.loop import SimLoop

TASK = TaskId("a", 0)


def in_model(test: Any) -> None:
    """Run a test in virtual time with a cluster that loses nothing."""
    loop = SimLoop()
    asyncio.set_event_loop(loop)
    kafka = KafkaModel(loop, random.Random(1))
    kafka.is_troubled = False
    try:
        loop.run_until_complete(test(kafka))
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def statuses(kafka: KafkaModel) -> StatusStore:
    """Return a worker's statuses, followed."""
    store = StatusStore(SETTINGS.status_topic, lambda _: Door(kafka, lambda: False), print)  # type: ignore[arg-type, return-value]
    await store.start()
    return store


@pytest.mark.parametrize("late", [State.UNASSIGNED, State.DESTROYED])
def test_what_a_worker_that_was_taken_for_dead_says_late_does_not_stand(late: State) -> None:
    async def test(kafka: KafkaModel) -> None:
        mine, theirs = await statuses(kafka), await statuses(kafka)
        for of in ("a", TASK):
            mine.put(Status(of, State.PAUSED, "mine", 7))
        await mine.flush(5)
        theirs.put(Status("a", late, "theirs", -1))
        await theirs.flush(5)
        await asyncio.sleep(10)
        for store in (mine, theirs):
            found = store.state.statuses
            assert [(found[of].state, found[of].worker_id) for of in ("a", TASK)] == [(State.PAUSED, "mine")] * 2
        mine.put(Status("a", State.UNASSIGNED, "mine", 7))
        await mine.flush(5)
        theirs.put(Status("a", State.RUNNING, "theirs", 6))  # what was given up is not said again
        await theirs.flush(5)
        await asyncio.sleep(10)
        assert mine.state.statuses["a"].state is State.RUNNING
        await mine.close()
        await theirs.close()

    in_model(test)


def folded(*records: Any) -> ConfigState:
    state = ConfigState()
    for at, record in enumerate(records):
        key, value = encode_config(record)
        state, _ = apply_config(state, key, value, at)
    return state


def test_a_pause_that_has_crossed_a_deletion_does_not_pause_the_next_connector_of_that_name() -> None:
    state = folded(
        ConnectorConfig("a", {"x": "1"}),
        ConnectorConfig("a", None),
        TargetStateChange("a", None),
        TargetStateChange("a", TargetState.PAUSED),
    )
    change = create_or_replace(state, "a", {"x": "2"}, target=None, may_replace=True)
    assert change.created and change.records[0] == TargetStateChange("a", TargetState.STARTED)
    there = folded(ConnectorConfig("a", {"x": "1"}), TargetStateChange("a", TargetState.PAUSED))
    assert len(create_or_replace(there, "a", {"x": "2"}, target=None, may_replace=True).records) == 1


class _Runner:
    def __init__(self) -> None:
        self.started: list[TaskStart] = []

    async def start(self, tasks: Sequence[TaskStart]) -> None:
        self.started += tasks

    async def stop(self, tasks: Collection[TaskId]) -> None: ...

    async def pause_or_resume(self, tasks: Collection[TaskId], target: TargetState) -> None: ...


def local_work(runner: _Runner, told: list[Status], fence: Any) -> LocalWork:
    state = folded(ConnectorConfig("a", {"x": "1"}), TaskConfig(TASK, {"n": "1"}), TasksCommit("a", 1))

    async def remove(name: str) -> None: ...

    hosting: Any = SimpleNamespace(
        connectors=SimpleNamespace(remove=remove),
        is_sink=lambda config: False,
        task_starts=lambda state, tasks, generation: [
            TaskStart(each, {}, {}, TargetState.STARTED, generation) for each in tasks
        ],
    )

    return LocalWork(
        replace(SETTINGS, exactly_once="enabled"),
        hosting,
        runner,
        worker_id="mine",
        current=lambda: state,
        tell=told.append,
        fence=fence,
        started=lambda name: None,
        offsets_topic=lambda state, name: "offsets",
    )


def test_a_task_whose_leader_goes_while_it_is_asked_for_a_fence_starts_behind_the_next_one() -> None:
    async def test(kafka: KafkaModel) -> None:
        asked: list[str] = []
        told: list[Status] = []

        async def fence(name: str) -> None:
            asked.append(name)
            if len(asked) < 3:
                raise ConnectError("The leader at http://w2:80/ cannot be asked: refused")

        runner = _Runner()
        work = local_work(runner, told, fence)
        await work.start_tasks([TASK], 1)
        await asyncio.sleep(30)
        assert [each.task for each in runner.started] == [TASK] and len(asked) == 3
        assert [(each.state, "cannot be asked" in (each.trace or "")) for each in told] == [(State.FAILED, True)] * 2

    in_model(test)


def test_a_task_that_is_stopped_between_two_fences_asks_for_none_and_does_not_start() -> None:
    async def test(kafka: KafkaModel) -> None:
        asked: list[str] = []

        async def fence(name: str) -> None:
            asked.append(name)
            raise ConnectError("nobody answers")

        runner = _Runner()
        work = local_work(runner, [], fence)
        await work.start_tasks([TASK], 1)
        await asyncio.sleep(1)
        await work.stop_tasks([TASK])
        count = len(asked)
        await asyncio.sleep(100)
        assert not runner.started and len(asked) == count

    in_model(test)


def test_a_configuration_topic_that_is_not_read_in_time_is_told_as_that() -> None:
    async def test(kafka: KafkaModel) -> None:
        cut: list[bool] = []
        configs = ConfigStore(SETTINGS, lambda _: Door(kafka, lambda: bool(cut)), lambda change: None, print)  # type: ignore[arg-type, return-value]
        await configs.start()
        await configs.read(3, before="modifying offsets")
        cut.append(True)
        with pytest.raises(ConnectError, match="Failed to read to end of config topic before modifying offsets: timed"):
            await configs.read(3, before="modifying offsets")
        await configs.close()

    in_model(test)


def test_a_connector_that_is_deleted_before_it_starts_is_begun_when_it_is_made_again() -> None:
    """It was taken for one that runs: the next one of its name had a connector that was never asked for tasks."""

    async def test(kafka: KafkaModel) -> None:
        told: list[Status] = []

        async def fence(name: str) -> None: ...

        work = local_work(_Runner(), told, fence)
        await work.launch("gone", 3)
        assert not work.connectors
        assert told == [Status("gone", State.UNASSIGNED, "mine", 3)]

    in_model(test)


def test_a_new_leader_takes_away_what_was_deleted_while_the_one_before_went() -> None:
    """It knew nothing of what others had been given: the connector, or a task of one that has fewer now, ran on for ever."""
    theirs = Assignment("gone", "http://gone/", 3, ("a", "b"), (TASK, TaskId("a", 1), TaskId("b", 0)))
    states = {"new": WorkerState("http://new/", 9), "other": WorkerState("http://other/", 9, theirs)}
    state = folded(ConnectorConfig("a", {"x": "1"}), TaskConfig(TASK, {"n": "1"}), TasksCommit("a", 1))
    found = Leading(0).assignments(
        GroupProtocol.SESSIONED,
        [JoinedMember(each, encode_worker_state(states[each], GroupProtocol.SESSIONED)) for each in states],
        replace(state, offset=9),
        leader="new",
        last_generation=-1,
        generation=8,
        now_ms=0,
    )
    given = {member: decode_assignment(each) for member, each in found.items()}
    assert given["other"] is not None and given["new"] is not None
    assert given["other"].revoked_connectors == ("b",)
    assert set(given["other"].revoked_tasks) == {TaskId("a", 1), TaskId("b", 0)}
    assert not (given["new"].revoked_connectors or given["new"].revoked_tasks)
