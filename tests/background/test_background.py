"""What runs beside its owner ends by nobody's oversight: told, counted, begun again, and gone at the close."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import weakref
from contextlib import suppress

import pytest

from ottla.background import (
    APART_MAX,
    apart,
    awaited,
    end,
    ended_badly,
    failure_counts,
    restarting,
    running,
    supervise,
    supervise_thread,
)
from tests.background.killing import Mistake, kill


def test_a_task_that_fails_is_told_with_what_it_serves_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    told: list[BaseException] = []

    async def fails() -> None:
        raise Mistake("x")

    async def story() -> None:
        task = supervise(fails(), name="follow t", serves="table T", failed=told.append)
        await asyncio.wait([task])
        await asyncio.sleep(0)
        assert not running()
        assert ended_badly(task)

    before = failure_counts().get("table T", 0)
    asyncio.run(story())
    assert [type(each) for each in told] == [Mistake]
    assert failure_counts()["table T"] == before + 1
    [line] = [each for each in caplog.records if each.levelno == logging.CRITICAL]
    assert "follow t, which serves table T, has failed" in line.getMessage()
    assert line.exc_info is not None


def test_a_task_that_nobody_holds_is_not_collected() -> None:
    async def waits() -> None:
        await asyncio.get_running_loop().create_future()  # which nobody else has: the two are a ring of garbage

    async def story() -> None:
        held = weakref.ref(supervise(waits(), name="w", serves="t"))
        await asyncio.sleep(0)
        gc.collect()
        assert held() is not None
        await end(*running())

    asyncio.run(story())


def test_a_task_that_has_ended_runs_no_more_though_nobody_was_told_yet() -> None:
    async def story() -> None:
        seen: list[tuple[bool, bool]] = []

        def look() -> None:
            seen.append((task.done(), task in running()))

        async def ends() -> None:
            asyncio.get_running_loop().call_soon(look)  # before what is called behind the task's end

        task = supervise(ends(), name="e", serves="t")
        assert list(running()) == [task]
        await asyncio.wait([task])
        await asyncio.sleep(0)
        assert seen == [(True, False)]

    asyncio.run(story())


def test_one_that_is_cancelled_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        told: list[BaseException] = []
        task = supervise(asyncio.Event().wait(), name="w", serves="t", failed=told.append)
        await asyncio.sleep(0)
        await end(task, None)
        assert task.cancelled()
        assert not told
        assert not ended_badly(task)

    asyncio.run(story())
    assert not caplog.records


def test_what_restarts_goes_on_after_a_mistake_with_pauses_that_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        times: list[float] = []
        loop = asyncio.get_running_loop()
        slept: list[float] = []

        async def no_pause(seconds: float) -> None:
            slept.append(seconds)

        monkeypatch.setattr(asyncio, "sleep", no_pause)
        resets: list[int] = []

        async def run() -> str:
            times.append(loop.time())
            if len(times) < 9:
                raise Mistake("again")
            return "through"

        found = await restarting(run, name="r", serves="restarted", reset=lambda: resets.append(len(times)))
        assert found == "through"
        assert slept == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
        assert resets == list(range(1, 9))

    asyncio.run(story())
    assert failure_counts()["restarted"] >= 8


def test_the_end_waits_for_what_a_task_does_last() -> None:
    async def story() -> None:
        last: list[str] = []

        async def runs() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                last.append("done")

        tasks = [supervise(runs(), name=f"r{n}", serves="t") for n in range(2)]
        await asyncio.sleep(0)
        await end(*tasks)
        assert last == ["done", "done"]

    asyncio.run(story())


def test_an_awaited_task_gives_its_error_to_its_maker_only(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        task = awaited(asyncio.Event().wait(), name="a")
        await asyncio.sleep(0)
        kill(task)
        with pytest.raises(Mistake):
            await task

    asyncio.run(story())
    assert not caplog.records


def test_a_thread_that_fails_is_told(caplog: pytest.LogCaptureFixture) -> None:
    told = threading.Event()

    def fails() -> None:
        raise Mistake("x")

    thread = supervise_thread(fails, name="watch", serves="the watched", failed=lambda _: told.set())
    thread.join(10)
    assert told.is_set()
    assert thread.daemon
    assert "watch, which serves the watched, has failed" in caplog.text
    assert failure_counts()["the watched"] >= 1


def test_one_that_ends_because_what_it_awaits_is_cancelled_is_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        told: list[BaseException] = []
        shared: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def waits() -> None:
            await shared

        task = supervise(waits(), name="w", serves="an answer", failed=told.append)
        await asyncio.sleep(0)
        shared.cancel()
        await asyncio.wait([task])
        await asyncio.sleep(0)
        assert len(told) == 1
        assert ended_badly(task)

    asyncio.run(story())
    assert any("an answer" in each.getMessage() for each in caplog.records)


def test_what_restarts_begins_again_though_what_it_awaits_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        begun = 0

        async def begin() -> str:
            nonlocal begun
            begun += 1
            if begun == 1:
                shared: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                shared.cancel()
                await shared
            return "whole"

        assert await restarting(begin, name="r", serves="t") == "whole"
        assert begun == 2
        endless = asyncio.ensure_future(restarting(asyncio.Event().wait, name="r", serves="t"))
        await asyncio.sleep(0)
        await end(endless)
        assert endless.cancelled()

    monkeypatch.setattr("ottla.background.tasks.BACKOFF_S", 0.0)
    asyncio.run(story())


def test_files_that_do_not_come_cost_their_time_and_a_bounded_number_of_threads() -> None:
    came = threading.Event()

    async def story() -> None:
        for _ in range(APART_MAX):
            with pytest.raises(TimeoutError, match=r"read: not done within 0\.001 s"):
                await apart(came.wait, seconds=0.001, name="read", serves="a test")
        with pytest.raises(TimeoutError, match="are being waited for already"):
            await apart(came.wait, seconds=60, name="read", serves="a test")
        came.set()
        async with asyncio.timeout(60):
            while True:
                with suppress(TimeoutError):
                    assert await apart(threading.get_ident, seconds=60, name="read", serves="a test")
                    break
                await asyncio.sleep(0)
        with pytest.raises(Mistake, match="the call's"):
            await apart(fails, seconds=60, name="read", serves="a test")

    def fails() -> None:
        raise Mistake("the call's")

    asyncio.run(story())
