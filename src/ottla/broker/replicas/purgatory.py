"""The broker's delayed answers: the lists of `replica`, ticked by one timer of the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from ottla.background import count_failure
from ottla.base import TopicPartition
from ottla.replica import DeadlineQueue, KeyedWaits, Wait

__all__ = ["Purgatory"]

log = logging.getLogger(__name__)

HIGH_WATERMARK_DELAY_S: Final = 0.01
"""How long followers' fetches go on waiting for records when only the high watermark is news: most of the time some come,
and one answer carries both."""


class Purgatory:
    """Holds delayed produces and fetches of all partitions, and finishes each once.

    Consumers' fetches are woken by the high watermark, followers' by appends, and a little later by the high watermark.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._deadlines = DeadlineQueue()
        self._produces: KeyedWaits[TopicPartition] = KeyedWaits()
        self._fetches: KeyedWaits[TopicPartition] = KeyedWaits()
        self._follower_fetches: KeyedWaits[TopicPartition] = KeyedWaits()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = 0.0  # when it is due: uvloop's handle does not say, where that is at once
        self._grown: dict[TopicPartition, int] = {}
        self._appended: dict[TopicPartition, int] = {}
        self._untold: dict[TopicPartition, None] = {}
        self._telling: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._deadlines)

    def now_s(self) -> float:
        """Return the time that deadlines are given in."""
        return self._loop.time()

    def add_produce(self, wait: Wait, partitions: tuple[TopicPartition, ...]) -> None:
        """Let a produce wait until its partitions have reached their offsets, or its deadline."""
        self._add(wait, self._produces, partitions)

    def add_fetch(self, wait: Wait, partitions: tuple[TopicPartition, ...]) -> None:
        """Let a fetch wait until enough can be read, or its deadline."""
        self._add(wait, self._fetches, partitions)

    def add_follower_fetch(self, wait: Wait, partitions: tuple[TopicPartition, ...]) -> None:
        """Let a follower's fetch wait until something is appended, or its deadline."""
        self._add(wait, self._follower_fetches, partitions)

    def list_fetch(self, wait: Wait, partitions: Iterable[TopicPartition], *, is_follower: bool) -> None:
        """Let a fetch that waits be ended by more partitions."""
        where = self._follower_fetches if is_follower else self._fetches
        for each in partitions:
            where.add(each, wait)

    def list_follower_fetch(self, wait: Wait, partition: TopicPartition) -> None:
        """Let a follower's fetch that waits be woken by one more partition."""
        self._follower_fetches.add(partition, wait)

    def give_up(self, wait: Wait) -> None:
        """Forget a wait whose client is gone."""
        if not wait.done:
            self._deadlines.finished(wait)

    def advanced(self, partition: TopicPartition, high_watermark: int, size: int) -> None:
        """Called when a high watermark has moved and `size` more bytes can be read.

        Produces end at once. Fetches end when the loop has handled what it has read so far, so that one fetch takes
        what a burst of requests has appended, and so that an appending request is answered before the consumers it
        wakes.
        """
        if self._timer is None:  # nobody waits for anything
            return
        if self._produces:
            for wait in self._produces.reached(partition, high_watermark):
                self.finish(wait)
        if self._fetches:
            if not self._grown:
                self._loop.call_soon(self._wake_fetches)
            self._grown[partition] = self._grown.get(partition, 0) + size
        if self._follower_fetches:
            self.tell_followers(partition)

    def appended(self, partition: TopicPartition, size: int) -> None:
        """Called when a leader has appended so many bytes, which its followers may have at once."""
        if self._follower_fetches:
            if not self._appended:
                self._loop.call_soon(self._wake_followers)
            self._appended[partition] = self._appended.get(partition, 0) + size

    def tell_followers(self, partition: TopicPartition) -> None:
        """Let the followers that wait hear soon of a partition's high watermark."""
        if not self._follower_fetches:
            return
        if self._telling is None:
            self._telling = self._loop.call_later(HIGH_WATERMARK_DELAY_S, self._tell_followers)
        self._untold[partition] = None

    def look_again(self, partition: TopicPartition) -> None:
        """End the waits of clients' fetches from a partition of which more, or less, may be read than was thought."""
        self._end(partition, self._fetches)

    def interrupt(self, partition: TopicPartition) -> None:
        """End every wait of a partition that has gone or changed its leader: each looks again at what is so now."""
        self._end(partition, self._produces, self._fetches, self._follower_fetches)

    def _end(self, partition: TopicPartition, *several: KeyedWaits[TopicPartition]) -> None:
        for waits in several:
            for wait in waits.take(partition):
                self.finish(wait)

    def close(self) -> None:
        """Stop the timer; whoever still waits is not answered."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._telling is not None:
            self._telling.cancel()

    def _add(self, wait: Wait, where: KeyedWaits[TopicPartition], partitions: tuple[TopicPartition, ...]) -> None:
        for each in partitions:
            where.add(each, wait)
        self._deadlines.add(wait)
        if self._timer is None or wait.deadline_s < self._timer_s:
            self._set_timer()

    def _wake_fetches(self) -> None:
        grown, self._grown = self._grown, {}
        for partition, size in grown.items():
            for wait in self._fetches.grew(partition, size):
                self.finish(wait)

    def _wake_followers(self) -> None:
        appended, self._appended = self._appended, {}
        for partition, size in appended.items():
            for wait in self._follower_fetches.grew(partition, size):
                self.finish(wait)

    def _tell_followers(self) -> None:
        self._telling = None
        untold, self._untold = self._untold, {}
        for partition in untold:
            for wait in self._follower_fetches.take(partition):
                self.finish(wait)

    def finish(self, wait: Wait) -> None:
        """End a wait before its time, as if what it waits for had come."""
        if not wait.done:
            self._deadlines.finished(wait)
            wait.finish(True)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        deadline_s = self._deadlines.next_deadline_s()
        self._timer = None
        if deadline_s is not None:
            self._timer = self._loop.call_at(deadline_s, self._tick)
            self._timer_s = deadline_s

    def _tick(self) -> None:
        """End the waits whose time is over. The timer counts as set meanwhile: others still wait, and `advanced` asks."""
        for wait in self._deadlines.expire(self._loop.time()):
            try:
                wait.finish(False)
            except Exception:  # our own mistake: it is said, and the other waits end all the same
                log.exception("a delayed answer could not be given")
                count_failure("delayed answers")
        self._set_timer()
