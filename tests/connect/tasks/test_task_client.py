"""A task's client: its thread waits while the loop works, in a thread of its own or in the model's time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.connect import testing
from ottla.connect.tasks.model_client import ModelLoop, ModelTaskClient
from ottla.connect.tasks.task_client import ClientThread, LazyClient, TaskClient
from tests.server import running_server

NOBODY = "127.0.0.1:1"
"""No request leaves where none is made."""


@pytest.fixture(params=["thread", "model"])
def task_client(request: pytest.FixtureRequest) -> Iterator[TaskClient]:
    if request.param == "thread":
        with ClientThread(NOBODY, "tests") as opened:
            yield opened
        return
    world = testing.World()
    loop = ModelLoop(world)
    client = ModelTaskClient(loop, testing.ModelClient(testing.ModelCluster(world), testing.Life(world)))
    yield client
    client.close()
    loop.end()


async def answer() -> int:
    await asyncio.sleep(0)
    return 42


async def failure() -> None:
    raise LookupError("not there")


async def never(ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        ended.append("cancelled")
        raise


def test_what_runs_in_the_loop_returns_or_raises_in_the_tasks_thread(task_client: TaskClient) -> None:
    assert task_client.run(answer()) == 42
    with pytest.raises(LookupError, match="not there"):
        task_client.run(failure())


def test_what_takes_too_long_is_given_up(task_client: TaskClient) -> None:
    ended: list[str] = []
    began = task_client.now()
    with pytest.raises(TimeoutError):
        task_client.run(never(ended), 0.05)
    assert task_client.run(answer()) == 42, "the loop goes on"
    assert ended == ["cancelled"]
    assert task_client.now() - began >= 0.05


def test_a_wait_ends_when_the_loop_says_that_something_has_changed(task_client: TaskClient) -> None:
    changed, found = task_client.condition(), list[int]()

    def change() -> None:
        with changed:
            found.append(1)
            changed.notify_all()

    with changed:
        task_client.call_soon(change)
        while not found:
            assert changed.wait(60)


def test_a_wait_for_what_never_changes_ends_in_time(task_client: TaskClient) -> None:
    changed, began = task_client.condition(), task_client.now()
    with changed:
        changed.wait(0.05)
    assert task_client.now() - began >= 0.05


def test_closing_cancels_what_is_under_way() -> None:
    ended: list[str] = []
    with ClientThread(NOBODY, "tests") as client:
        future = client.begin(never(ended))
        client.run(answer())  # the coroutine before it has begun
    assert ended == ["cancelled"]
    assert future.cancelled()
    client.close()  # a second time does nothing


def test_a_lazy_client_is_made_when_it_is_asked_for_and_anew_behind_a_close() -> None:
    made: list[ClientThread] = []

    def make(bootstrap: str, client_id: str, /, **given: Any) -> ClientThread:
        made.append(ClientThread(bootstrap, client_id, **given))
        return made[-1]

    lazy = LazyClient(NOBODY, "tests", request_timeout_ms=1_000, make_client=make)
    lazy.close()
    assert not made
    assert lazy() is lazy() is made[0]
    lazy.close()
    assert not made[0]._thread.is_alive()
    assert lazy() is made[1]
    lazy.close()


def test_its_requests_reach_the_cluster(tmp_path: Path) -> None:
    with running_server(tmp_path) as server, ClientThread(server.bootstrap, "tests") as client:
        assert client.run(client.client.metadata()).nodes
