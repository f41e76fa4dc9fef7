"""The virtual-time loop and simulated processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from tests.sim.loop import Deadlock, RunawayLoop, SimLoop
from tests.sim.process import Crash, Process

T = TypeVar("T")


def run(loop: SimLoop, coro: Coroutine[Any, Any, T]) -> T:
    try:
        return loop.run_until_complete(coro)
    finally:
        loop.close()


def test_a_virtual_day_passes_at_once() -> None:
    loop = SimLoop()
    began = time.perf_counter()
    run(loop, asyncio.sleep(86_400))
    assert loop.time() >= 86_400
    assert time.perf_counter() - began < 1


def test_timers_fire_in_order_of_time_whatever_the_order_of_setting() -> None:
    loop = SimLoop()
    fired: list[int] = []

    async def main() -> None:
        for delay in (3, 1, 2):
            loop.call_later(delay, fired.append, delay)
        await asyncio.sleep(4)

    run(loop, main())
    assert fired == [1, 2, 3]


def test_waiting_for_nothing_is_a_deadlock_that_names_the_task() -> None:
    loop = SimLoop()

    async def stuck() -> None:
        await loop.create_future()

    with pytest.raises(Deadlock, match=r"test_loop\.py"):
        run(loop, stuck())


def test_spinning_without_time_passing_is_an_error() -> None:
    loop = SimLoop()

    async def spin() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    with pytest.raises(RunawayLoop):
        run(loop, spin())


def test_threads_are_refused() -> None:
    loop = SimLoop()

    async def main() -> None:
        await asyncio.to_thread(print)

    with pytest.raises(AssertionError, match="Offload"):
        run(loop, main())


def test_errors_that_nobody_handles_are_kept() -> None:
    loop = SimLoop()

    async def main() -> None:
        loop.call_soon(lambda: 1 // 0)
        await asyncio.sleep(1)

    run(loop, main())
    assert len(loop.errors) == 1 and "ZeroDivisionError" in loop.errors[0]


def test_nothing_of_a_killed_process_runs_again() -> None:
    loop = SimLoop()
    seen: list[str] = []

    async def child() -> None:
        try:
            while True:
                seen.append("child")
                await asyncio.sleep(1)
        finally:
            seen.append("cleanup")

    async def program() -> None:
        asyncio.get_running_loop().call_later(2.5, seen.append, "timer")
        await child()

    async def main() -> None:
        process = Process(loop, "p")
        loop.call_later(1.5, process.kill)
        with pytest.raises(Crash):
            await process.run(program())
        assert loop.time() == 1.5
        await asyncio.sleep(10)
        assert seen == ["child", "child"]
        with pytest.raises(Crash):
            await process.run(child())

    run(loop, main())
    assert not loop.errors


def test_a_crash_from_inside_a_write_ends_the_process_where_it_stands() -> None:
    loop = SimLoop()
    seen: list[str] = []

    async def program(process: Process) -> None:
        asyncio.get_running_loop().call_soon(seen.append, "later")
        process.kill()
        process.check()
        seen.append("after")

    async def main() -> None:
        process = Process(loop, "p")
        with pytest.raises(Crash):
            await process.run(program(process))
        await asyncio.sleep(1)

    run(loop, main())
    assert seen == [] and not loop.errors


def test_a_callback_may_pause_a_process_that_is_ready_to_run() -> None:
    loop = SimLoop()
    seen: list[str] = []

    async def program(name: str) -> None:
        for number in range(3):
            await asyncio.sleep(1)
            seen.append(f"{name}{number}")

    async def main() -> None:
        process = Process(loop, "p")
        loop.call_at(1.0, process.pause)  # at the moment when all others are ready, and before them
        tasks = [process.spawn(program(name)) for name in "ab"]
        await asyncio.sleep(5)
        assert seen == []
        process.resume()
        await asyncio.wait(tasks)

    run(loop, main())
    assert seen == ["a0", "b0", "a1", "b1", "a2", "b2"] and not loop.errors
