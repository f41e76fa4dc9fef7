"""The socket of a tab: it is told of each sample, and asks for searches whose frames come as fast as it gives credit.

What the page says: `{"sub": N, "kind": "sample"|"scan"|"sql", "args": {…}}`, `{"unsub": N}`, `{"credit": N, "frames": K}`.
What it is told: frames with `sub` and `seq`. A search waits where there is no credit, so that a slow tab holds no memory
here; of samples the newest replaces those that were not sent.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

from ottla.background import supervise
from ottla.base import OttlaError
from ottla.console.figures.sampler import Sampler
from ottla.console.records.scans import Frame
from ottla.http import HttpError, Socket

__all__ = ["Credit", "Live"]

log = logging.getLogger(__name__)

SUBSCRIPTIONS_MAX = 8
CREDIT_AT_FIRST = 8
CREDIT_MAX = 64

Frames = Callable[[Mapping[str, Any]], Awaitable[AsyncGenerator[Frame, None]]]


class Credit:
    """Frames that the page is ready for, at most `CREDIT_MAX`."""

    def __init__(self) -> None:
        self.frames = CREDIT_AT_FIRST
        self._there = asyncio.Event()
        self._there.set()

    def give(self, frames: int) -> None:
        """Let so many more frames go."""
        self.frames = min(CREDIT_MAX, self.frames + max(0, frames))
        if self.frames:
            self._there.set()

    async def take(self) -> None:
        """Wait until a frame may go."""
        await self._there.wait()
        self.frames -= 1
        if not self.frames:
            self._there.clear()


class Live:
    """What one tab listens to."""

    def __init__(
        self,
        socket: Socket,
        sampler: Sampler,
        frames: Mapping[str, Frames],
        holds: Callable[[], bool] = lambda: True,
    ) -> None:
        """`frames` give those of a subscription, by its kind.

        `holds` says whether the session is still open: with it the socket ends.
        """
        self._socket, self._sampler, self._frames, self._holds = socket, sampler, frames, holds
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._credit: dict[int, Credit] = {}

    async def run(self) -> None:
        """Serve the tab until it leaves."""
        try:
            while (text := await self._socket.receive()) is not None:
                await self._take(text)
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _take(self, text: str) -> None:
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            await self._send(-1, 0, {"type": "error", "message": "A JSON object is expected"})
        elif type(number := message.get("sub")) is int:
            await self._subscribe(number, message)
        elif type(number := message.get("unsub")) is int:
            self._end(number)
        elif type(number := message.get("credit")) is int and type(count := message.get("frames")) is int:
            self._give(number, count)

    def _give(self, number: int, count: int) -> None:
        if (credit := self._credit.get(number)) is not None:
            credit.give(count)

    def _end(self, number: int) -> None:
        task = self._tasks.pop(number, None)
        self._credit.pop(number, None)
        if task is not None:
            task.cancel()

    async def _subscribe(self, number: int, message: Mapping[str, Any]) -> None:
        self._end(number)
        if len(self._tasks) >= SUBSCRIPTIONS_MAX:
            await self._send(number, 0, {"type": "error", "message": f"{SUBSCRIPTIONS_MAX} subscriptions are open"})
            return
        args = message.get("args")
        kind = str(message.get("kind"))
        if (kind != "sample" and kind not in self._frames) or not isinstance(args, dict | None):
            kinds = ", ".join(["sample", *self._frames])
            await self._send(number, 0, {"type": "error", "message": f"kind is one of {kinds}, args an object"})
            return
        self._credit[number] = Credit()
        told = self._samples(number) if kind == "sample" else self._follow(number, self._frames[kind], args or {})
        task = supervise(told, name=kind, serves="a tab")
        self._tasks[number] = task
        task.add_done_callback(lambda done: self._forget(number, done))

    def _forget(self, number: int, done: asyncio.Task[None]) -> None:
        if self._tasks.get(number) is done:
            del self._tasks[number]
            self._credit.pop(number, None)

    async def _samples(self, number: int) -> None:
        seen = 0
        for seq in range(1 << 62):
            seen = await self._sampler.next(seen)
            if not self._holds():
                await self._socket.close()
                return
            sample = self._sampler.newest
            frame = {
                "type": "sample",
                "at_ms": None if sample is None else sample.at_ms,
                "period_s": self._sampler.period_s,
                "error": self._sampler.error,
            }
            if not await self._send(number, seq, frame):
                return

    async def _follow(self, number: int, begin: Frames, args: Mapping[str, Any]) -> None:
        credit = self._credit[number]
        seq = 0
        try:
            frames = await begin(args)
            try:
                async for frame in frames:
                    await credit.take()
                    if not self._holds():
                        await self._socket.close()
                        return
                    if not await self._send(number, seq, frame):
                        return
                    seq += 1
            finally:
                await frames.aclose()
        except HttpError as error:
            await self._send(number, seq, {"type": "error", "error_code": error.error_code, "message": error.message})
        except OttlaError as error:
            await self._send(number, seq, {"type": "error", "error_code": 500, "message": str(error)})
        except Exception:  # our own mistake: the page hears that there was one, the log what it was
            message = "The console has failed to search; its log says why."
            await self._send(number, seq, {"type": "error", "error_code": 500, "message": message})
            raise

    async def _send(self, number: int, seq: int, frame: Frame) -> bool:
        text = json.dumps({"sub": number, "seq": seq, **frame}, ensure_ascii=False, separators=(",", ":"))
        return await self._socket.send(text)
