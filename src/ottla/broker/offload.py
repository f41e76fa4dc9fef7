"""Work off the event loop: threads for calls that release the interpreter's lock, worker processes for Python work.

All start when first needed. A busy Python thread would slow every request of the loop a hundredfold, so a thread gets
system calls only (fsync, cold reads, unlink), and recompression, recovery scans and the like go to a process. Compaction
has processes of its own, so that no request waits behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

from ottla.background import supervise_thread
from ottla.base import NoSpaceError

__all__ = ["ThreadsAndProcess"]

T = TypeVar("T")

THREADS = 8
"""Calls of the disk that may be waited for at once."""
WORKERS = 1
"""Worker processes: they compete with the broker for the machine's cores."""
BACKGROUND_WORKERS_MAX = 8
"""Worker processes for work that takes long; `log.cleaner.threads` says how many of them are used."""
BACKGROUND_NICENESS = 10
"""What takes long has time: a busy broker gets the cores first."""
IDLE_S_MAX = 60.0
"""A worker process that nobody has used for this long is ended, for its memory's sake."""


class ThreadsAndProcess:
    """The real `Offload`."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._process = _Processes(WORKERS, niceness=0)
        self._background = _Processes(BACKGROUND_WORKERS_MAX, niceness=BACKGROUND_NICENESS)

    async def thread(self, call: Callable[..., T], /, *args: object) -> T:
        """Run a call that releases the interpreter's lock on a thread."""
        if self._threads is None:
            self._threads = _Threads(THREADS, thread_name_prefix="ottla-disk")
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *args)

    async def process(self, call: Callable[..., T], /, *args: object) -> T:
        """Run picklable Python work in the worker process; one that died is replaced, once."""
        return await self._process.run(call, *args)

    async def background(self, call: Callable[..., T], /, *args: object) -> T:
        """Run picklable Python work that takes long in a worker process of low priority; one that died is replaced, once."""
        return await self._background.run(call, *args)

    def close(self) -> None:
        """Finish what runs, and end threads and processes."""
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=True, cancel_futures=True)
        self._process.close()
        self._background.close()


class _Threads(ThreadPoolExecutor):
    """Threads of which fewer are enough where the machine gives no more (RLIMIT_NPROC, a container's `pids.max`).

    The call has been queued when a thread is to be started: were the refusal raised, it would be run and its result lost,
    and a flush of the metadata log would pass for failed. So only the lack of any thread is raised, as a lack of room.
    """

    def _adjust_thread_count(self) -> None:
        try:
            super()._adjust_thread_count()
        except RuntimeError as error:
            if not any(each.is_alive() for each in self._threads):
                self._work_queue.get_nowait()
                raise NoSpaceError(f"no thread can be started: {error}") from error


class _Processes:
    """Worker processes of one kind: started when needed, ended when nobody has used them for a while."""

    def __init__(self, workers: int, *, niceness: int) -> None:
        self._workers = workers
        self._niceness = niceness
        self._pool: ProcessPoolExecutor | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._running = 0

    async def run(self, call: Callable[..., T], *args: object) -> T:
        """Run a call in one of the processes; where that dies, once more in another."""
        pool = self._begun()
        try:
            return await self._run(pool, call, *args)
        except BrokenExecutor:
            if self._pool is pool:  # or the others that it failed have begun the next one, which they use
                self._pool = None
                pool.shutdown(wait=False)
            return await self._run(self._begun(), call, *args)

    def _begun(self) -> ProcessPoolExecutor:
        if self._pool is None:
            import multiprocessing  # only where a process is started: it costs every start a twentieth of a second
            from concurrent.futures import ProcessPoolExecutor

            self._pool = ProcessPoolExecutor(
                self._workers,
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_end_with_the_broker,
                initargs=(self._niceness,),
            )
        return self._pool

    async def _run(self, pool: ProcessPoolExecutor, call: Callable[..., T], *args: object) -> T:
        loop = asyncio.get_running_loop()
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        self._running += 1
        try:
            return await loop.run_in_executor(pool, call, *args)
        finally:
            self._running -= 1
            if not self._running:
                self._idle = loop.call_later(IDLE_S_MAX, self._end)

    def _end(self) -> None:
        self._idle = None
        if self._pool is not None and not self._running:
            self._pool.shutdown(wait=False)
            self._pool = None

    def close(self) -> None:
        """Finish what runs, and end the processes."""
        if self._idle is not None:
            self._idle.cancel()
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)


def _end_with_the_broker(niceness: int) -> None:
    """In the worker: end when the broker does, however it does; by its pool's pipes alone it would wait for ever."""
    import os
    from multiprocessing import parent_process

    os.nice(niceness)
    broker = parent_process()
    assert broker is not None

    def watch() -> None:
        broker.join()
        os._exit(0)

    supervise_thread(watch, name="end with the broker", serves="a worker process", failed=lambda _: os._exit(1))
