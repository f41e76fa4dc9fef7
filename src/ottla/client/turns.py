"""In which order requests for the same partition leave, whatever each has to wait for before: a leader, a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial

from ottla.base import TopicPartition

__all__ = ["Turn", "Turns"]


class Turns:
    """Gives each call its turn behind those that were begun before it for the same partitions."""

    def __init__(self) -> None:
        self._last: dict[TopicPartition, asyncio.Future[None]] = {}

    def take(self, partitions: Iterable[TopicPartition]) -> Turn:
        """Return the turn of a call that begins now, which has to end it for each of its partitions."""
        mine: dict[TopicPartition, asyncio.Future[None]] = {}
        before: dict[TopicPartition, asyncio.Future[None]] = {}
        loop = asyncio.get_running_loop()
        for partition in partitions:
            if partition in mine:
                continue
            last = self._last.get(partition)
            if last is not None:
                before[partition] = last
            mine[partition] = self._last[partition] = loop.create_future()
        return Turn(self._last, mine, before)


class Turn:
    """One call's."""

    __slots__ = ("_before", "_last", "_mine")

    def __init__(
        self,
        last: dict[TopicPartition, asyncio.Future[None]],
        mine: dict[TopicPartition, asyncio.Future[None]],
        before: dict[TopicPartition, asyncio.Future[None]],
    ) -> None:
        self._last, self._mine, self._before = last, mine, before

    async def comes(self) -> None:
        """Return once those before it have sent their requests, or will send none."""
        if self._before:
            await asyncio.wait(set(self._before.values()))
            self._before = {}

    def over(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Let those behind it go on, for these partitions or for all; again for one is nothing.

        Of a call that is cancelled while it waits for its turn, they still wait for whom it has waited for.
        """
        for partition in list(self._mine if partitions is None else partitions):
            ended = self._mine.pop(partition, None)
            if ended is None:
                continue
            before = self._before.get(partition)
            if before is None or before.done():
                self._end(partition, ended)
            else:
                before.add_done_callback(partial(self._follow, partition, ended))

    def _follow(self, partition: TopicPartition, ended: asyncio.Future[None], _: asyncio.Future[None]) -> None:
        self._end(partition, ended)

    def _end(self, partition: TopicPartition, ended: asyncio.Future[None]) -> None:
        if self._last.get(partition) is ended:
            del self._last[partition]
        ended.set_result(None)
