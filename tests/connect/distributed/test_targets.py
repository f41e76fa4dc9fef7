"""What is asked of a connector while its workers wait: a fence, a task that ends slowly, a worker that goes."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla.connect import ConnectError
from ottla.connect.storage import State, TargetState, TaskId
from tests.broker.node_client import run
from tests.connect.distributed.test_group import cluster, tasks
from tests.connect.distributed.test_safety import TWO, held_back
from tests.connect.distributed.workers import Cluster, Worker
from tests.waiting import until_async

OFFSET = {"partition": {"n": 0}, "offset": {"at": 7}}


def held_fences(worker: Worker) -> tuple[asyncio.Event, asyncio.Event]:
    """Make a worker's rounds of fencing wait; returns what says that one has begun, and what lets them go on."""
    begun, may_end, configs = asyncio.Event(), asyncio.Event(), worker.herder.group.configs
    fence = configs.fence

    async def slowly(transactional_ids: Sequence[str]) -> None:
        begun.set()
        await may_end.wait()
        await fence(transactional_ids)

    configs.fence = slowly  # type: ignore[method-assign]
    return begun, may_end


ONE = {"connector.class": "tests.Secretive", "tasks.max": "1", "tasks": "1"}


async def of_the_follower(group: Cluster) -> TaskId:
    """Return the task, a connector's only one, that the worker runs which does not lead; the leader has another's."""
    await group.grown(2)
    for name in ("a", "b"):
        await group.leader.ask("POST", "/connectors", {"name": name, "config": ONE})
        await until_async(lambda name=name: TaskId(name, 0) in group.running())
        await group.together()
    assert [len(each.runner.tasks) for each in group.workers] == [1, 1]
    [task] = group.follower.runner.tasks
    return task


def targets(group: Cluster) -> set[TargetState]:
    return {each.target for worker in group.workers for each in worker.runner.tasks.values()}


def test_a_connector_that_is_paused_during_a_fence_is(tmp_path: Path) -> None:
    """Pausing again did not help either: its target was that already."""

    async def test() -> None:
        async with cluster(tmp_path, exactly_once="enabled") as group:
            [worker] = await group.grown(1)
            await worker.ask("POST", "/connectors", {"name": "a", "config": TWO})
            await until_async(lambda: group.running() == tasks("a", 2))
            begun, may_end = held_fences(worker)
            await worker.ask("PUT", "/connectors/a/config", {**TWO, "tasks": "3", "tasks.max": "3"})
            await begun.wait()
            state = worker.herder.group.configs
            assert (await worker.ask("PUT", "/connectors/a/pause"))[0] == 202
            await until_async(lambda: state.state.target_state("a") is TargetState.PAUSED and worker.settled)
            may_end.set()
            await until_async(lambda: group.running() == tasks("a", 3))
            await group.together()
            assert targets(group) == {TargetState.PAUSED}
            told = worker.herder.statuses
            await until_async(lambda: {each.state for each in told.state.statuses.values()} == {State.PAUSED})

    run(test, 60)


def test_a_connector_that_is_resumed_during_a_fence_is(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path, exactly_once="enabled") as group:
            [worker] = await group.grown(1)
            await worker.ask("POST", "/connectors", {"name": "a", "config": TWO})
            await until_async(lambda: group.running() == tasks("a", 2))
            await worker.ask("PUT", "/connectors/a/pause")
            await until_async(lambda: targets(group) == {TargetState.PAUSED})
            begun, may_end, configs = asyncio.Event(), asyncio.Event(), worker.herder.group.configs
            refresh = configs.refresh

            async def slowly(seconds_max: float) -> None:
                begun.set()
                await may_end.wait()
                await refresh(seconds_max)

            configs.refresh = slowly  # type: ignore[method-assign]
            assert (await worker.ask("POST", "/connectors/a/tasks/0/restart"))[0] == 204
            await begun.wait()
            assert (await worker.ask("PUT", "/connectors/a/resume"))[0] == 202
            await until_async(lambda: targets(group) == {TargetState.STARTED})
            may_end.set()
            await until_async(lambda: group.running() == tasks("a", 2))
            assert targets(group) == {TargetState.STARTED}

    run(test, 60)


def test_a_connector_that_is_stopped_during_a_fence_has_no_task(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path, exactly_once="enabled") as group:
            [worker] = await group.grown(1)
            await worker.ask("POST", "/connectors", {"name": "a", "config": TWO})
            await until_async(lambda: group.running() == tasks("a", 2))
            begun, may_end = held_fences(worker)
            await worker.ask("PUT", "/connectors/a/config", {**TWO, "tasks": "3", "tasks.max": "3"})
            await begun.wait()
            starts = worker.runner.starts
            assert (await worker.ask("PUT", "/connectors/a/stop"))[0] == 204
            may_end.set()
            await group.together()
            await worker.herder.group.configs.refresh(5)
            assert worker.runner.starts == starts and not worker.runner.tasks and not worker.herder.work.tasks

    run(test, 60)


def test_a_task_that_begins_when_its_connector_is_stopped_may_not_write(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as group:
            task = await of_the_follower(group)
            name, follower = task.connector, group.follower
            begun, may_end = await held_back(follower)
            assert (await group.leader.ask("PUT", f"/connectors/{name}/stop"))[0] == 204
            await begun.wait()
            with pytest.raises(ConnectError, match="already generated a new set"):
                await follower.herder.confirm(task)
            may_end.set()
            await until_async(lambda: task not in group.running())

    run(test, 60)


def test_offsets_that_are_deleted_stay_deleted_while_another_workers_task_ends(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as group:
            task = await of_the_follower(group)
            name, follower = task.connector, group.follower
            begun, may_end, stop = asyncio.Event(), asyncio.Event(), follower.runner.stop

            async def stores_last(found: Collection[TaskId]) -> None:
                begun.set()
                await may_end.wait()
                await follower.herder.store_offsets(name, [(OFFSET["partition"], OFFSET["offset"])])
                await stop(found)

            follower.runner.stop = stores_last  # type: ignore[method-assign]
            assert (await group.leader.ask("PUT", f"/connectors/{name}/stop"))[0] == 204
            await begun.wait()
            deleted = asyncio.create_task(group.leader.ask("DELETE", f"/connectors/{name}/offsets"))
            await until_async(lambda: group.leader.settled)
            for _ in range(30):  # rounds in which an answer that waits for nobody would have come
                await group.leader.ask("GET", f"/connectors/{name}/offsets")
            may_end.set()
            status, body = await deleted
            assert status == 200, body
            assert await group.leader.ask("GET", f"/connectors/{name}/offsets") == (200, {"offsets": []})

    run(test, 60)


def test_offsets_of_a_task_that_does_not_end_are_not_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr("ottla.connect.distributed.herder.ENDED_SECONDS_MAX", 0.2)
        async with cluster(tmp_path) as group:
            task = await of_the_follower(group)
            name, follower = task.connector, group.follower
            begun, may_end = await held_back(follower)
            assert (await group.leader.ask("PUT", f"/connectors/{name}/stop"))[0] == 204
            await begun.wait()
            status, body = await group.leader.ask("DELETE", f"/connectors/{name}/offsets")
            assert status == 500 and "haven't stopped completely yet" in body["message"]
            may_end.set()
            await until_async(lambda: task not in group.running())
            assert (await follower.ask("DELETE", f"/connectors/{name}/offsets"))[0] == 200

    run(test, 60)


def test_the_status_of_a_task_that_still_ends_is_there_and_is_gone_behind_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as group:
            task = await of_the_follower(group)
            name, follower = task.connector, group.follower
            begun, may_end = await held_back(follower)
            assert (await group.leader.ask("DELETE", f"/connectors/{name}"))[0] == 204
            await begun.wait()
            told = group.leader.herder.statuses
            await until_async(lambda: group.leader.settled)
            await told.flush(5)
            await told.read_to_end()
            assert told.state.statuses[task].state is State.RUNNING
            may_end.set()
            await until_async(lambda: not {name, task} & {*told.state.statuses})

    run(test, 60)


def test_a_worker_that_ends_starts_nothing_behind_what_it_stopped(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as group:
            await group.grown(1)
            [worker] = group.workers
            await worker.ask("POST", "/connectors", {"name": "a", "config": TWO})
            await until_async(lambda: group.running() == tasks("a", 2))
            await group.together()
            flush, starts = worker.herder.statuses.flush, worker.runner.starts

            async def slowly(seconds_max: float) -> Any:
                added = await group.add()  # which gives work anew while this worker tells its last
                await until_async(lambda: worker.herder.group.member.rejoins)
                for _ in range(50):
                    await added.ask("GET", "/")
                await flush(seconds_max)

            worker.herder.statuses.flush = slowly  # type: ignore[method-assign]
            group.workers.remove(worker)
            await worker.close()
            assert worker.runner.starts == starts and not worker.runner.tasks
            await until_async(lambda: group.running() == tasks("a", 2))

    run(test, 60)
