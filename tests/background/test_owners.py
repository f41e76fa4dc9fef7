"""Each background task of each service is killed by an unforeseen error: its owner goes on, or says that it does not.

Never does a service go on as if it were well while something of it has ended.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from ottla.background import failure_counts, running
from tests.background.killing import kill, named
from tests.broker.node_client import start_node
from tests.connect.whole import GROUP, JSON
from tests.server import Server, running_server
from tests.waiting import until_async

QUICK = ("group.initial.rebalance.delay.ms=0",)


@dataclass(frozen=True)
class Owner:
    """A service that runs; `is_unwell` is what it says of itself."""

    is_unwell: Callable[[], bool]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    with running_server(tmp_path_factory.mktemp("broker"), overrides=QUICK) as server:
        yield server


@asynccontextmanager
async def node(folder: Path, _: str) -> AsyncIterator[Owner]:
    found = await start_node(folder)
    assert found.failed is not None
    failed = found.failed
    try:
        yield Owner(failed.done)
    finally:
        await found.stop()


@asynccontextmanager
async def registry(folder: Path, bootstrap: str) -> AsyncIterator[Owner]:
    from ottla.registry import Instance, registry_settings

    given = {"kafkastore.bootstrap.servers": bootstrap, "listeners": "http://127.0.0.1:0"}
    found = Instance(registry_settings(given, {}))
    await found.start()
    await until_async(lambda: found.registry.election.is_held)
    try:
        yield Owner(lambda: not found.registry.store.is_followed)
    finally:
        await found.stop()


@asynccontextmanager
async def sql_server(folder: Path, bootstrap: str) -> AsyncIterator[Owner]:
    from ottla.sql_server.rest.instance import Instance
    from ottla.sql_server.settings import server_settings

    given = {"bootstrap.servers": bootstrap, "listeners": "http://127.0.0.1:0", "ottla.sql.engine": "python"}
    found = Instance(server_settings(given, {}))
    await found.start()
    await until_async(lambda: named("heartbeats"))
    try:
        yield Owner(lambda: not found.server.topic.is_followed)
    finally:
        await found.stop()


@asynccontextmanager
async def connect_worker(folder: Path, bootstrap: str) -> AsyncIterator[Owner]:
    from ottla.connect.distributed.herder import DistributedHerder
    from ottla.connect.worker_config import WorkerConfig, WorkerMode
    from ottla.spark import ConnectWorker, ThreadJobs, distributed_herder

    given = {
        "bootstrap.servers": bootstrap,
        "listeners": "http://127.0.0.1:0",
        "key.converter": JSON,
        "value.converter": JSON,
        **GROUP,
    }
    found = ConnectWorker(WorkerConfig.load(given, WorkerMode.DISTRIBUTED), distributed_herder, jobs=ThreadJobs())
    await found.start()
    await until_async(lambda: found.herder.ready)
    try:
        herder = found.herder
        assert isinstance(herder, DistributedHerder)
        yield Owner(herder.group.ended.done)
    finally:
        await found.close()


@asynccontextmanager
async def console(folder: Path, bootstrap: str) -> AsyncIterator[Owner]:
    from ottla.console import Console, console_settings
    from ottla.console.clusters import ClusterSettings

    settings = console_settings(
        {"ottla.console.listeners": "http://127.0.0.1:0"}, (ClusterSettings("cluster", bootstrap, {}),)
    )
    found = Console(settings)
    await found.start()
    try:
        yield Owner(lambda: False)  # all that it has goes on
    finally:
        await found.stop()


OWNERS = {each.__name__: each for each in (node, registry, sql_server, connect_worker, console)}
LEAST = {
    "node": {"send heartbeats", "housekeeping", "compaction", "keep voters", "a duty"},
    "registry": {"office", "heartbeats", "follow _schemas", "accept connections"},
    "sql_server": {"office", "heartbeats", "follow _confluent-ksql-default__command_topic", "accept connections"},
    "connect_worker": {
        *("group loop", "heartbeats", "write statuses", "accept connections"),
        *(f"follow connect-{kind}" for kind in ("config", "offset", "status")),
    },
    "console": {"sample", "sweep sessions", "accept connections"},
}
"""Tasks that are there at least, so that the test does not come to kill nobody."""


LONG = {"sql_server", "connect_worker", "console"}
"""Services that take a while to start, which they do again and again here."""


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[pytest.mark.slow] if each in LONG else []) for each in OWNERS]
)
def test_no_task_of_a_service_ends_and_leaves_it_well(name: str, tmp_path: Path, broker: Server) -> None:
    async def story() -> None:
        killed: set[str] = set()
        while True:  # one at a time, in a service that is well
            async with OWNERS[name](tmp_path / str(len(killed)), broker.bootstrap) as owner:
                if not await kill_those_that_go_on(owner, killed):
                    break
        assert killed >= LEAST[name], killed
        await until_async(lambda: not running(), lambda: running())

    async def kill_those_that_go_on(owner: Owner, killed: set[str]) -> bool:
        """Kill tasks until the owner is not well; False where all have been killed."""
        while True:
            task = next((each for each in running() if each.get_name() not in killed), None)
            if task is None:
                return False
            name, before = task.get_name(), Counter(failure_counts())
            if not await kill_when_it_waits(task):
                continue
            killed.add(name)
            await until_async(partial(told_since, before), f"word of {name}")
            if task.done():
                held = partial(is_felt, owner, name)
                await until_async(held, f"{name} has ended, and its owner is well: that")
            if owner.is_unwell():
                return True

    asyncio.run(asyncio.wait_for(story(), 250))


def told_since(before: Counter[str]) -> bool:
    return Counter(failure_counts()) > before


def is_felt(owner: Owner, name: str) -> bool:
    """Whether an owner says that a task of it has ended, or has begun it anew."""
    return owner.is_unwell() or bool(named(name))


async def kill_when_it_waits(task: asyncio.Task[object]) -> bool:
    """Kill a task where it waits; False where it ends before."""
    while not task.done():
        try:
            kill(task)
        except (AssertionError, asyncio.InvalidStateError):
            await asyncio.sleep(0)
        else:
            return True
    return False
