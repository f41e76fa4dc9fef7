"""Searches in processes of their own, so that none of them can hold up a page: two workers, a search at either of them.

A worker is asked for each frame, so that a page that is slow holds a search up and no memory. Who leaves ends his search;
where a worker dies its searches say so, and the next one gets a new worker.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import sys
import zlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from ottla.background import supervise
from ottla.base import ErrorCode, KafkaError, OttlaError
from ottla.console.clusters import ClusterSettings, Credentials
from ottla.console.records.file_decoders import FileDecoder
from ottla.console.records.masks import Masks
from ottla.console.records.scans import Frame
from ottla.http import HttpError

__all__ = ["HEAD_BYTES", "ScanJob", "ScanProcesses"]

log = logging.getLogger(__name__)

WORKERS = 2
AT_ONCE_OF_ONE = 2
AT_ONCE = 6
LIVE_AT_ONCE = 100
HEAD_BYTES = 4
"""Before each message: how long it is."""
END_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class ScanJob:
    """A search as a worker is told of it: where, as whom, what, and what is hidden."""

    settings: ClusterSettings
    credentials: Credentials | None
    body: Mapping[str, Any]
    positions: Mapping[int, int] | None = None
    registry: Mapping[str, str] | None = None
    masks: Masks | None = None
    decoders: tuple[FileDecoder, ...] = ()


@dataclass
class _Worker:
    process: asyncio.subprocess.Process
    waiting: dict[int, asyncio.Future[Any]] = field(default_factory=dict)
    """By search: who waits for its next frame."""
    open: set[int] = field(default_factory=set)
    reading: asyncio.Task[None] | None = None

    def say(self, *message: object) -> None:
        data = pickle.dumps(message)
        stdin = self.process.stdin
        assert stdin is not None
        if not stdin.is_closing():
            stdin.write(len(data).to_bytes(HEAD_BYTES, "big") + data)

    def give_up(self, error: BaseException) -> None:
        """End the process: what it says is not understood, and another takes its place."""
        if self.process.returncode is None:
            self.process.kill()

    @property
    def is_alive(self) -> bool:
        return self.process.returncode is None and self.reading is not None and not self.reading.done()


class ScanProcesses:
    """Runs searches; `start` it on a loop, and `stop` it there."""

    def __init__(self) -> None:
        self._workers: list[_Worker] = []
        self._starting = asyncio.Lock()
        self._all = asyncio.Semaphore(AT_ONCE)
        self._live = asyncio.Semaphore(LIVE_AT_ONCE)
        self._of_one: dict[str, asyncio.Semaphore] = {}
        self._last = 0

    async def start(self) -> None:
        """Have the workers ready before somebody waits for them."""
        async with self._starting:
            self._workers = [each for each in self._workers if each.is_alive]
            while len(self._workers) < WORKERS:
                self._workers.append(await _started())

    async def stop(self) -> None:
        """End the workers, and with them all searches."""
        for each in self._workers:
            if each.process.returncode is None:
                each.process.terminate()
            try:
                async with asyncio.timeout(END_SECONDS):
                    await each.process.wait()
            except TimeoutError:
                each.process.kill()
                await each.process.wait()
            if each.reading is not None:
                each.reading.cancel()
                await asyncio.gather(each.reading, return_exceptions=True)
        self._workers.clear()

    async def frames(self, job: ScanJob, who: str) -> AsyncGenerator[Frame, None]:
        """Yield a search's frames; waits for its turn where too many are under way. Raises HttpError, OttlaError."""
        async with AsyncExitStack() as turns:
            if job.body.get("from") == "live":
                await turns.enter_async_context(self._live)
            else:
                mine = self._of_one.setdefault(who, asyncio.Semaphore(AT_ONCE_OF_ONE))
                await turns.enter_async_context(mine)
                await turns.enter_async_context(self._all)
            worker = await self._chosen(job)
            self._last += 1
            number = self._last
            worker.open.add(number)
            worker.say("open", number, job)
            try:
                while (frame := await self._next(worker, number)) is not None:
                    yield frame
            finally:
                worker.open.discard(number)
                worker.waiting.pop(number, None)
                if worker.is_alive:
                    worker.say("close", number)

    async def _chosen(self, job: ScanJob) -> _Worker:
        """Return the worker that has least to do; for what comes from now on, the one that reads the topic already."""
        if sum(each.is_alive for each in self._workers) < WORKERS:
            await self.start()
        if job.body.get("from") == "live":
            place = zlib.crc32(f"{job.settings.name} {job.body.get('topic')}".encode()) % WORKERS
            if self._workers[place].is_alive:
                return self._workers[place]
        return min((each for each in self._workers if each.is_alive), key=lambda each: len(each.open))

    async def _next(self, worker: _Worker, number: int) -> Frame | None:
        if not worker.is_alive:
            raise OttlaError(GONE)
        waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        worker.waiting[number] = waiting
        worker.say("next", number)
        kind, *said = await waiting
        if kind == "frame":
            return dict(said[0])
        if kind == "error":
            raise _error(*said)
        return None


GONE = "The process that searched has ended; search again."


async def _started() -> _Worker:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ottla.console.records.scan_worker"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # a signal to the console's terminal is the console's matter: it ends its workers
    )
    worker = _Worker(process)
    worker.reading = supervise(_read(worker), name="hear a worker", serves="searches", failed=worker.give_up)
    return worker


async def _read(worker: _Worker) -> None:
    stdout = worker.process.stdout
    assert stdout is not None
    try:
        while True:
            size = int.from_bytes(await stdout.readexactly(HEAD_BYTES), "big")
            number, *message = pickle.loads(await stdout.readexactly(size))
            waiting = worker.waiting.pop(number, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
    except asyncio.IncompleteReadError:
        pass
    finally:
        for waiting in worker.waiting.values():
            if not waiting.done():
                waiting.set_result(("error", "ended", 0, GONE))
        worker.waiting.clear()


def _error(kind: str, code: int, text: str) -> OttlaError:
    if kind == "http":
        return HttpError(code, text)
    return KafkaError(ErrorCode(code), text) if kind == "kafka" else OttlaError(text)
