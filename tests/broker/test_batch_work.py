"""Turns at the worker process: by who has used the least of it, and none is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from ottla.broker import ThreadsAndProcess
from ottla.broker.replicas.batch_work import BatchWork
from ottla.broker.requests.connected import Connected


class _Worker(ThreadsAndProcess):
    """Takes as many turns of the loop as it is told to, and notes who was served, and how many at once."""

    def __init__(self) -> None:
        super().__init__()
        self.served: list[str] = []
        self.running = self.most = 0

    async def process(self, call: Callable[..., Any], /, *args: Any) -> Any:
        self.running += 1
        self.most = max(self.most, self.running)
        self.served.append(args[0])
        for _ in range(args[1]):
            await asyncio.sleep(0)
        self.running -= 1
        return call(*args)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


def client(host: str, port: int = 1) -> Connected:
    return Connected(listener="PLAINTEXT", client_host=host, client_port=port)


def named(name: str, turns: int) -> str:
    if turns < 0:
        raise ValueError(name)
    return name


def test_a_client_with_many_connections_keeps_nobody_behind_all_of_them() -> None:
    async def test() -> None:
        worker, work = _Worker(), BatchWork()
        many = [asyncio.ensure_future(work.run(client("a", port), worker, named, "a", 5)) for port in range(20)]
        await asyncio.sleep(0)
        other = asyncio.ensure_future(work.run(client("b"), worker, named, "b", 5))
        assert await other == "b"
        assert worker.served.index("b") == 1
        assert await asyncio.gather(*many) == ["a"] * 20
        assert worker.most == 1

    run(test())


def test_the_connections_of_one_client_share_what_it_has() -> None:
    async def test() -> None:
        worker, work = _Worker(), BatchWork()

        async def stream(port: int, turns: int, count: int) -> None:
            for _ in range(count):
                await work.run(client("a", port), worker, named, str(port), turns)

        await asyncio.gather(stream(1, 400, 10), stream(2, 1, 10))
        assert worker.served.index("1") < worker.served.index("2")
        assert "11" not in "".join(worker.served).rpartition("2")[0], "a short one waits for one long one at most"

    run(test())


@pytest.mark.parametrize("seed", range(20))
def test_who_hangs_up_takes_nobodys_turn_with_him(seed: int) -> None:
    rng = Random(seed)

    async def test() -> None:
        worker, work = _Worker(), BatchWork()
        tasks: list[asyncio.Task[str]] = []
        for at in range(300):
            who = client(rng.choice("abc"), rng.randrange(3))
            turns = rng.choice((0, 0, 1, 3, -1))
            tasks.append(asyncio.ensure_future(work.run(who, worker, named, str(at), turns)))
            if rng.random() < 0.4:
                rng.choice(tasks).cancel()
            if rng.random() < 0.3:
                await asyncio.sleep(0)
        found = await asyncio.gather(*tasks, return_exceptions=True)
        for at, each in enumerate(found):
            assert each == str(at) or isinstance(each, asyncio.CancelledError | ValueError), each
        assert worker.most == 1
        assert await work.run(client("d"), worker, named, "last", 0) == "last"

    run(test())
