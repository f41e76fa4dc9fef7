"""Work off the loop: threads, a worker process, and that it never outlives its broker."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ottla.base import ErrorCode, KafkaError
from ottla.broker import ThreadsAndProcess
from ottla.wire import RecordsRefused

GONE_SECONDS_MAX = 100.0
NICEST = 19
"""What a process can be at most, which tests may be run with already."""


def refuse() -> None:
    """Raise what has to survive the way back from another process."""
    raise RecordsRefused(ErrorCode.INVALID_RECORD, "no", ((3, "why"),))


def test_work_is_done_elsewhere_and_its_result_comes_back() -> None:
    async def test() -> None:
        offload = ThreadsAndProcess()
        try:
            assert await offload.thread(os.getpid) == os.getpid()
            worker = await offload.process(os.getpid)
            assert worker != os.getpid()
            assert await offload.process(os.getpid) == worker
        finally:
            offload.close()

    asyncio.run(test())


def test_long_work_has_a_process_of_its_own_of_low_priority() -> None:
    async def test() -> None:
        offload = ThreadsAndProcess()
        try:
            worker, cleaner = await asyncio.gather(offload.process(os.getpid), offload.background(os.getpid))
            assert len({worker, cleaner, os.getpid()}) == 3
            assert await offload.background(os.nice, 0) == min(os.nice(0) + 10, NICEST)
            os.kill(cleaner, signal.SIGKILL)
            assert await offload.background(os.getpid) != cleaner
        finally:
            offload.close()

    asyncio.run(test())


def test_an_error_of_the_worker_comes_back_as_it_was_raised() -> None:
    import pickle

    with pytest.raises(RecordsRefused) as caught:
        refuse()
    returned = pickle.loads(pickle.dumps(caught.value))
    assert (returned.code, returned.message) == (ErrorCode.INVALID_RECORD, "no")
    assert returned.record_errors == ((3, "why"),)
    plain = pickle.loads(pickle.dumps(KafkaError(ErrorCode.CORRUPT_MESSAGE)))
    assert plain.code is ErrorCode.CORRUPT_MESSAGE


def test_a_worker_that_died_is_replaced() -> None:
    async def test() -> None:
        offload = ThreadsAndProcess()
        try:
            worker = await offload.process(os.getpid)
            os.kill(worker, signal.SIGKILL)
            assert await offload.process(os.getpid) != worker
        finally:
            offload.close()

    asyncio.run(test())


def die_first(place: str) -> int:
    """End the worker as the kernel does for want of memory, but not a second time; return its process then."""
    try:
        os.close(os.open(place, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return os.getpid()
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def test_all_that_a_dead_worker_held_goes_on_in_one_other(tmp_path: Path) -> None:
    """The second to hear of it gave up the worker that had been begun for the first, which then ran beside another."""

    async def test() -> None:
        offload = ThreadsAndProcess()
        try:
            calls = [
                offload.process(die_first, str(tmp_path / "died")),
                *(offload.process(os.getpid) for _ in range(5)),
            ]
            workers = set(await asyncio.gather(*calls))
            assert len(workers) == 1
            assert {await offload.process(os.getpid)} == workers
        finally:
            offload.close()

    asyncio.run(test())


HOLDER = """
import asyncio, os
from ottla.broker import ThreadsAndProcess

async def main():
    offload = ThreadsAndProcess()
    print(await offload.process(os.getpid), flush=True)
    await asyncio.sleep(60)

if __name__ == "__main__":
    asyncio.run(main())
"""


def test_a_worker_ends_with_a_broker_that_is_killed() -> None:
    broker = subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True)
    assert broker.stdout is not None
    worker = int(broker.stdout.readline())
    broker.kill()
    broker.wait()
    broker.stdout.close()
    deadline = time.monotonic() + GONE_SECONDS_MAX
    while _runs(worker):
        assert time.monotonic() < deadline, "the worker outlived its broker"
        time.sleep(0.02)


def _runs(process_id: int) -> bool:
    try:
        with open(f"/proc/{process_id}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_machine_without_more_threads_costs_an_answer_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    from ottla.base import NoSpaceError

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def test() -> None:
        offload = ThreadsAndProcess()
        try:
            with monkeypatch.context() as patch:
                patch.setattr(threading.Thread, "start", refuse)
                with pytest.raises(NoSpaceError, match="thread"):
                    await offload.thread(os.getpid)
            blocked, running = threading.Event(), threading.Event()

            def hold() -> bool:
                running.set()
                return blocked.wait(20)

            first = asyncio.ensure_future(offload.thread(hold))
            await asyncio.to_thread(running.wait, 20)
            with monkeypatch.context() as patch:
                patch.setattr(threading.Thread, "start", refuse)
                second = asyncio.ensure_future(offload.thread(os.getpid))
                await asyncio.sleep(0)
            blocked.set()
            assert await first and await second == os.getpid()
        finally:
            offload.close()

    asyncio.run(test())
