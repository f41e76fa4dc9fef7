"""The virtual-time loop and simulated processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from random import Random
from typing import Any, TypeVar

import pytest

from tests.schedules import Schedule
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


def order_of(schedule: Schedule | None, *, in_process: bool = True) -> list[str]:
    """Return in which order three tasks and three callbacks run that are all ready at once."""
    loop = SimLoop(schedule)
    seen: list[str] = []

    async def note(name: str, comes: asyncio.Future[None]) -> None:
        seen.append(f"begin {name}")
        await comes
        seen.append(name)

    async def program() -> None:
        futures: list[asyncio.Future[None]] = []
        for name in "abc":
            futures.append(loop.create_future())
            asyncio.ensure_future(note(name, futures[-1])).add_done_callback(
                lambda _, name=name: seen.append(f"{name} done")  # type: ignore[misc]
            )
        await asyncio.sleep(1)
        for name, each in zip("abc", futures, strict=True):
            each.set_result(None)
            loop.call_soon(seen.append, f"call {name}")
        await asyncio.sleep(60)

    async def main() -> None:
        await (Process(loop, "p").run(program()) if in_process else program())

    run(loop, main())
    return seen


def late(seed: int, **kinds: tuple[float, float]) -> Schedule:
    return Schedule(Random(seed), **kinds)  # type: ignore[arg-type]


def test_what_tasks_of_a_process_have_ready_comes_in_orders_of_the_seeds_choice() -> None:
    orders = {tuple(order_of(late(seed, turns=(0.5, 3)))) for seed in range(20)}
    assert len(orders) > 5
    assert order_of(late(3, turns=(0.5, 3))) == order_of(late(3, turns=(0.5, 3)))
    for kept in ("call", "begin"):
        found = {tuple(each for each in order if each.startswith(kept)) for order in orders}
        assert found == {tuple(f"{kept} {name}" for name in "abc")}, "what code schedules or begins keeps its order"


def test_a_task_comes_late_while_others_go_on() -> None:
    orders = [order_of(late(seed, waits=(0.3, 3.0))) for seed in range(20)]
    assert any(order.index("call c") < order.index("a") < order.index("b done") for order in orders)
    assert any(order.index("c done") < order.index("a") for order in orders)


def test_what_belongs_to_no_process_keeps_its_order() -> None:
    quiet = order_of(None, in_process=False)
    assert {tuple(order_of(late(seed, turns=(0.9, 3)), in_process=False)) for seed in range(5)} == {tuple(quiet)}


def test_a_loop_that_was_held_finds_more_than_one_timer_due() -> None:
    loop = SimLoop(late(1, holds=(1.0, 1.0)))
    times: list[float] = []

    async def main() -> None:
        for number in range(100):
            loop.call_later(0.1 * number, lambda: times.append(loop.time()))
        await asyncio.sleep(20)

    run(loop, main())
    assert len(times) == 100 > 2 * len(set(times))
    assert times == sorted(times)


def test_nothing_that_comes_late_is_run_in_a_process_that_was_killed_meanwhile() -> None:
    for seed in range(10):
        loop = SimLoop(late(seed, turns=(0.5, 3), waits=(0.5, 2.0)))
        seen: list[float] = []

        async def program(loop: SimLoop = loop, seen: list[float] = seen) -> None:
            while True:
                await asyncio.sleep(0.1)
                seen.append(loop.time())

        async def main(loop: SimLoop = loop, seen: list[float] = seen) -> None:
            process = Process(loop, "p")
            loop.call_later(5.05, process.kill)
            with pytest.raises(Crash):
                await process.run(program())
            await asyncio.sleep(10)
            assert seen and seen[-1] < 5.06

        run(loop, main())
        assert not loop.errors


def test_a_future_s_callbacks_keep_their_order_and_no_later_one_s_task_runs_before_them() -> None:
    for seed in range(30):
        loop = SimLoop(late(seed, turns=(0.6, 4)))
        seen: list[str] = []

        async def program(loop: SimLoop = loop, seen: list[str] = seen) -> None:
            future = loop.create_future()
            for name in ("first", "second"):
                future.add_done_callback(lambda _, name=name: seen.append(name))  # type: ignore[misc]

            async def wait() -> None:
                await future
                seen.append("who awaits it")

            task = asyncio.ensure_future(wait())
            await asyncio.sleep(1)
            future.set_result(None)
            await task

        async def main(loop: SimLoop = loop) -> None:
            await Process(loop, "p").run(program())

        run(loop, main())
        assert seen == ["first", "second", "who awaits it"]
