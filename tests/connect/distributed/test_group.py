"""Workers share connectors and tasks, and what one is asked the others know."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ottla.connect.storage import TaskId
from tests.broker.node_client import run, start_node
from tests.connect.distributed.workers import BROKER, SETTINGS, Cluster, cluster_at
from tests.connect.rest.calls import SOURCE
from tests.waiting import until_async

SECRETIVE = {"connector.class": "tests.Secretive", "tasks.max": "4", "tasks": "4"}


@asynccontextmanager
async def cluster(folder: Path, **changes: Any) -> AsyncIterator[Cluster]:
    node = await start_node(folder, *BROKER)
    try:
        async with cluster_at(f"127.0.0.1:{node.listeners[0].port}", replace(SETTINGS, **changes)) as found:
            yield found
    finally:
        await node.stop()


def tasks(name: str, count: int) -> list[TaskId]:
    return [TaskId(name, each) for each in range(count)]


def test_a_connector_put_to_any_worker_runs_once_with_its_tasks_shared(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as group:
            await group.grown(3)
            status, found = await group.follower.ask("POST", "/connectors", {"name": "a", "config": SECRETIVE})
            assert (status, found["name"], found["tasks"]) == (201, "a", [])
            await until_async(lambda: group.running() == tasks("a", 4) and group.hosting() == ["a"])
            assert sorted(len(each.runner.tasks) for each in group.workers) == [1, 1, 2]
            for worker in group.workers:
                assert await worker.ask("GET", "/connectors") == (200, ["a"])
            await group.together()
            await until_async(lambda: all(len(each.herder.statuses.state.statuses) == 5 for each in group.workers))
            _, shown = await group.leader.ask("GET", "/connectors/a/status")
            assert shown["connector"]["state"] == "RUNNING"
            assert [each["state"] for each in shown["tasks"]] == ["RUNNING"] * 4
            assert {each["worker_id"] for each in shown["tasks"]} == {each.herder.worker_id for each in group.workers}

    run(test, 60)


def test_a_dead_workers_tasks_run_elsewhere_and_a_new_worker_gets_its_share(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as group:
            await group.grown(2)
            await group.leader.ask("POST", "/connectors", {"name": "a", "config": SECRETIVE})
            await until_async(lambda: group.running() == tasks("a", 4) and group.hosting() == ["a"])
            await group.kill(group.leader)
            await until_async(lambda: group.running() == tasks("a", 4) and group.hosting() == ["a"])
            await group.add()
            await until_async(lambda: [len(each.runner.tasks) for each in group.workers] == [2, 2])
            await group.together()
            found = group.leader.herder.metrics()
            assert found["coordinator-assigned-tasks"] == 2 and found["worker-rebalance-completed-rebalances-total"] > 1
            assert found["worker-rebalance-rebalancing"] == 0 and found["worker-rebalance-epoch"] > 1

    run(test, 60)


def test_pausing_and_resuming_reaches_every_task(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as group:
            await group.grown(2)
            await group.leader.ask("POST", "/connectors", {"name": "a", "config": SECRETIVE})
            await until_async(lambda: group.running() == tasks("a", 4))
            for verb, state in (("pause", "PAUSED"), ("resume", "RUNNING")):
                assert (await group.follower.ask("PUT", f"/connectors/a/{verb}"))[0] == 202
                view = group.follower.herder.statuses
                await until_async(
                    lambda state=state, view=view: (
                        [each.state.value for each in view.state.statuses.values()] == [state] * 5
                    )
                )

    run(test, 60)


def test_stopping_removes_the_tasks_and_deleting_everything(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as group:
            await group.grown(2)
            await group.leader.ask("POST", "/connectors", {"name": "a", "config": SECRETIVE})
            await until_async(lambda: group.running() == tasks("a", 4))
            assert (await group.follower.ask("PUT", "/connectors/a/stop"))[0] == 204
            await until_async(lambda: not group.running())
            state = group.leader.herder.statuses
            await until_async(lambda: [each.state.value for each in state.state.statuses.values()] == ["STOPPED"])
            assert (await group.follower.ask("DELETE", "/connectors/a"))[0] == 204
            await until_async(lambda: not group.hosting() and not state.state.statuses)
            assert (await group.follower.ask("GET", "/connectors/a"))[0] == 404

    run(test, 60)


def test_restarts_reach_the_worker_that_has_the_task(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as group:
            await group.grown(2)
            await group.leader.ask("POST", "/connectors", {"name": "a", "config": SECRETIVE})
            await until_async(lambda: group.running() == tasks("a", 4))
            await group.together()
            starts = sum(each.runner.starts for each in group.workers)
            for worker in group.workers:
                for task in range(4):
                    assert (await worker.ask("POST", f"/connectors/a/tasks/{task}/restart"))[0] == 204
            assert sum(each.runner.starts for each in group.workers) == starts + 8
            path = "/connectors/a/restart?includeTasks=true"
            status, body = await group.follower.ask("POST", path)
            assert status == 202 and {each["state"] for each in body["tasks"]} == {"RESTARTING"}
            await until_async(lambda: sum(each.runner.starts for each in group.workers) == starts + 12)
            assert (await group.follower.ask("POST", "/connectors/a/restart"))[0] == 204
            assert (await group.follower.ask("POST", "/connectors/b/restart"))[0] == 404

    run(test, 60)


def test_another_configuration_sets_the_tasks_anew_on_all_workers(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as group:
            await group.grown(2)
            await group.leader.ask("POST", "/connectors", {"name": "a", "config": SECRETIVE})
            await until_async(lambda: group.running() == tasks("a", 4))
            for worker in group.workers:
                port = str(worker.port)
                status, _ = await worker.ask("PUT", "/connectors/a/config", {**SECRETIVE, "tasks": "2", "to": port})
                assert status == 200

                def is_set(port: str = port) -> bool:
                    found = [each for worker in group.workers for each in worker.runner.tasks.values()]
                    return sorted(each.task for each in found) == tasks("a", 2) and all(
                        each.config.get("to") == port for each in found
                    )

                await until_async(is_set)

    run(test, 60)


def test_offsets_are_altered_in_the_topic_and_read_by_all(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as group:
            await group.grown(2)
            config = {"connector.class": SOURCE, "topic": "t"}
            asked = {"name": "lines", "config": config, "initial_state": "STOPPED"}
            assert (await group.follower.ask("POST", "/connectors", asked))[0] == 201
            await group.together()
            pairs = {"offsets": [{"partition": {"filename": "f"}, "offset": {"position": 12}}]}
            status, body = await group.follower.ask("PATCH", "/connectors/lines/offsets", pairs)
            assert (status, body["message"]) == (200, "The offsets for this connector have been altered successfully")
            for worker in group.workers:
                assert await worker.ask("GET", "/connectors/lines/offsets") == (200, pairs)
            await group.leader.herder.store_offsets("lines", [({"filename": "f"}, {"position": 40})])
            state = await group.follower.herder.stored_offsets("lines")
            assert state.offset("lines", {"filename": "f"}) == {"position": 40}
            assert (await group.follower.ask("DELETE", "/connectors/lines/offsets"))[0] == 200
            assert await group.leader.ask("GET", "/connectors/lines/offsets") == (200, {"offsets": []})

    run(test, 60)


def test_a_cluster_wide_level_reaches_every_worker(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as group:
            await group.grown(2)
            path = "/admin/loggers/ottla.tests.distributed"
            assert (await group.follower.ask("PUT", f"{path}?scope=cluster", {"level": "ERROR"}))[0] == 204
            await until_async(lambda: logging.getLogger("ottla.tests.distributed").level == logging.ERROR)

    run(test, 60)
