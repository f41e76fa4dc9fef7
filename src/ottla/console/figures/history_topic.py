"""What a cluster's figures were, kept in a topic in blocks of five minutes, so that a console that starts goes on there.

Each record is a block: the minutes of every series, and what happened meanwhile. A console that ends by itself writes the
part of a block that it has; one that is killed loses five minutes at most. Of several consoles of one cluster each writes
only the blocks that no other has written by then.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ottla.background import count_failure, end, keep_running
from ottla.base import Millis, OttlaError
from ottla.client import Client
from ottla.console.figures.history import Bucket, History, Mark
from ottla.console.figures.sampler import Sampler
from ottla.console.own_topic import OwnTopic
from ottla.wire import Codec, Record

__all__ = ["BLOCK_MS", "Block", "HistoryKeeper", "HistoryTopic", "block_of", "read_block"]

log = logging.getLogger(__name__)

BLOCK_MS = 5 * 60_000
KEPT_MS = 14 * 86_400_000
DAY_MS = 86_400_000
BACK_MS = 3_600_000
"""How far back blocks are written that could not be written in their time."""
JITTER_S = 15.0
"""Consoles begin to write a block at different times, so that one sees what the other has written."""
LOOK_SECONDS = 10.0
LOAD_TRIES_MAX = 100
STOP_SECONDS_MAX = 2.0
NAME_CHARACTERS_MAX = 600
DIGITS = 7
VERSION = 1
CONFIGS: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": str(KEPT_MS),
    "segment.ms": str(DAY_MS),
}


@dataclass(frozen=True, slots=True)
class Block:
    """The minutes of every series from one time until before another (ms), and what happened in it."""

    from_ms: int
    until_ms: int
    series: Mapping[str, Iterable[Bucket]]
    marks: Iterable[tuple[str, Mark]] = ()

    def kept(self) -> bytes:
        """Return it as a record's value."""
        return json.dumps(
            {
                "version": VERSION,
                "from": self.from_ms,
                "until": self.until_ms,
                "series": {
                    name: [[each.at_ms, *map(_short, (each.last, each.least, each.most))] for each in found]
                    for name, found in self.series.items()
                },
                "marks": [[name, each.at_ms, each.kind, each.text] for name, each in self.marks],
            },
            ensure_ascii=False,
            separators=(",", ":"),
        ).encode(errors="replace")


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def block_of(history: History, from_ms: int, until_ms: int) -> Block:
    """Return what a history has of a time."""
    return Block(from_ms, until_ms, history.minutes(from_ms, until_ms), history.marked(from_ms, until_ms))


def read_block(value: bytes | None) -> Block | None:
    """Return what a record holds; None for what no console has written."""
    try:
        found: Any = json.loads(value or b"")
        if found["version"] != VERSION:
            return None
        start, until = int(found["from"]), int(found["until"])
        if not 0 <= start < until <= start + BLOCK_MS:
            return None
        series = {
            str(name)[:NAME_CHARACTERS_MAX]: [_bucket(each, start, until) for each in points]
            for name, points in found["series"].items()
        }
        marks = [
            (str(name), Mark(min(max(int(at), start), until), str(kind), str(text)[:NAME_CHARACTERS_MAX]))
            for name, at, kind, text in found["marks"]
        ]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return None
    return Block(start, until, series, marks)


def _bucket(point: Any, start: int, until: int) -> Bucket:
    """Raises ValueError for a point that cannot be one of the block."""
    at, *values = point
    last, least, most = map(float, values)
    if not start - 60_000 <= int(at) < until or not all(map(math.isfinite, (last, least, most))):
        raise ValueError("no point of this block")
    return Bucket(int(at), last, least, most)


class HistoryTopic:
    """The topic of one cluster; `name` is empty where there is to be none."""

    def __init__(self, client: Client, name: str) -> None:
        self._topic = OwnTopic(client, name, CONFIGS)

    @property
    def is_there(self) -> bool:
        """False where figures are kept in memory only."""
        return bool(self._topic.name)

    async def load(self, now_ms: int) -> History:
        """Return what it holds of the last two weeks; raises OttlaError."""
        history = History()
        held: Block | None = None
        async for record in self._topic.records():
            block = read_block(record.value)
            if block is None or not now_ms - KEPT_MS <= block.from_ms <= now_ms + BLOCK_MS:
                continue
            if held is not None and block.from_ms > held.from_ms:
                _take(history, held, coarse=held.from_ms < now_ms - DAY_MS)
                held = None
                await asyncio.sleep(0)
            if held is None or (block.from_ms == held.from_ms and block.until_ms >= held.until_ms):
                held = block  # the same block again has more of it
        if held is not None:
            _take(history, held, coarse=False)
        return history

    async def newest(self) -> Block | None:
        """Return the last block that was written, by whomever; raises OttlaError."""
        found = [read_block(each.value) async for each in self._topic.records(newest=1)]
        return found[-1] if found else None

    async def write(self, block: Block) -> None:
        """Append a block; raises OttlaError."""
        record = Record(timestamp=Millis(block.from_ms), key=str(block.from_ms).encode(), value=block.kept())
        await self._topic.append(record, codec=Codec.GZIP)


def _take(history: History, block: Block, *, coarse: bool) -> None:
    for name, points in block.series.items():
        for each in _one(list(points)) if coarse else points:
            history.take(name, each)
    for name, mark in block.marks:
        history.mark(name, mark)


def _one(points: list[Bucket]) -> list[Bucket]:
    """Return a block's minutes as one stretch: what is older than a day is drawn by ten minutes."""
    if not points:
        return []
    least, most = min(each.least for each in points), max(each.most for each in points)
    return [Bucket(points[0].at_ms, points[-1].last, least, most)]


class HistoryKeeper:
    """Gives a sampler the history from before, and writes what comes."""

    def __init__(self, sampler: Sampler, topic: HistoryTopic, now_ms: Callable[[], int]) -> None:
        self._sampler = sampler
        self._topic = topic
        self._now_ms = now_ms
        self._written_ms = 0
        """Until when everything is in the topic."""
        self._complaint = ""
        self._loaded = False
        self._writes = False
        self._task: asyncio.Task[None] | None = None

    def start(self, *, writes: bool) -> None:
        """Begin; without `writes` only what is there is read."""
        if self._topic.is_there:
            self._writes = writes
            self._task = keep_running(self._run, name="keep the history", serves="figures from before")

    async def stop(self) -> None:
        """Write what there is of a block, if the cluster takes it soon, and end."""
        if self._task is None:
            return
        await end(self._task)
        if self._writes and self._loaded:
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS_MAX):
                    await self.write(partly=True)

    async def _run(self) -> None:
        if not self._loaded:
            await self.load()
        if not self._writes or not self._loaded:
            return
        jitter_ms = int(random.uniform(0, JITTER_S) * 1000)
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._now_ms() - jitter_ms >= self._written_ms + BLOCK_MS:
                try:
                    await self.write()
                except Exception:  # a mistake of ours costs a block, and is said
                    log.exception("a block of the history could not be written")
                    count_failure("the console's figures")

    async def load(self) -> None:
        """Have the sampler go on from what was kept, as soon as the cluster answers."""
        began_ms = self._now_ms()
        self._written_ms = began_ms - began_ms % BLOCK_MS
        seen = 0
        for _ in range(LOAD_TRIES_MAX):
            seen = await self._sampler.next(seen)
            try:
                older = await self._topic.load(self._now_ms())
            except OttlaError as error:
                self._complain(f"figures from before are not known yet: {error}")
                continue
            older.absorb(self._sampler.history)
            self._sampler.history = older
            self._loaded = True
            return

    async def write(self, *, partly: bool = False) -> None:
        """Write the blocks that are over; with `partly` the one that is not over as well. What goes wrong is logged."""
        now_ms = self._now_ms()
        if now_ms < self._written_ms - BLOCK_MS:  # the clock was set back
            self._written_ms = now_ms - now_ms % BLOCK_MS
        start = max(self._written_ms, (now_ms - BACK_MS) // BLOCK_MS * BLOCK_MS)
        try:
            other = await self._topic.newest()
            if other is not None and other.from_ms > now_ms + BLOCK_MS:
                other = None  # of another clock
            while start + BLOCK_MS <= now_ms or (partly and start < now_ms):
                until = min(start + BLOCK_MS, now_ms)
                if other is None or other.until_ms < until:
                    block = block_of(self._sampler.history, start, until)
                    if block.series:
                        await self._topic.write(block)
                start += BLOCK_MS
                if start <= now_ms:
                    self._written_ms = start
            self._complaint = ""
        except OttlaError as error:
            self._complain(f"figures are not kept: {error}")

    def _complain(self, text: str) -> None:
        """Log what is wrong, once for each that is said."""
        if text != self._complaint:
            log.warning("%s", text)
        self._complaint = text
