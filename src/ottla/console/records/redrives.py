"""Dead letters that are sent back as a replay: at a rate, paused and gone on with, each once however often it is begun.

Which letters have been sent stands in a topic of its own (`ottla.admin.dead_letters`), written in the transactions that send
them; whoever sends letters of the same topic in another way is fenced by the transactional id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ottla.admin import (
    DeadLetter,
    Fixed,
    FixError,
    letter_of,
    make_done_topic,
    redrive_transactional_id,
    redriven,
    sent_back,
)
from ottla.base import TopicPartition
from ottla.client import BlockingClient, Client
from ottla.console.records.fixes import Fix
from ottla.console.records.replays import Replay
from ottla.wire import Record

__all__ = ["ToOrigins"]


class ToOrigins:
    """Letters go back where they came from, or to the replay's target where it has one."""

    def __init__(self, replay: Replay) -> None:
        """Raises OttlaError for a fix that is none."""
        assert replay.letters is not None
        self.transactional_id = redrive_transactional_id(replay.source)
        self._source, self._to, self._cause = replay.source, replay.target or None, replay.letters.get("cause")
        self._fix = Fix(words) if (words := replay.letters.get("fix")) else None
        self._done: set[bytes] = set()
        self._counts: dict[str, int] = {}
        self._wanted: dict[tuple[int, int], tuple[DeadLetter, Fixed | None]] = {}
        """Letters that are sent with the next transactions, by partition and offset: parsed and mended once."""

    async def begin(self, client: Client) -> None:
        """Learn which letters have been sent, and where there are topics; raises KafkaError."""
        await make_done_topic(client)
        loop = asyncio.get_running_loop()
        self._done = await asyncio.to_thread(lambda: redriven(BlockingClient.over(client, loop), self._source))
        self._counts = {name: len(each.partitions) for name, each in (await client.metadata()).topics.items()}
        self._wanted.clear()

    async def matching(self, index: int, records: Sequence[Record]) -> list[bool]:
        """Say which letters are sent: of this cause, not sent before, which say whence they came, and which the fix fits."""
        return [self._is_wanted(index, each) for each in records]

    def _is_wanted(self, index: int, record: Record) -> bool:
        letter = letter_of(TopicPartition(self._source, index), record)
        if (self._cause is not None and letter.cause != self._cause) or letter.key in self._done:
            return False
        target = self._to or letter.topic
        if target not in self._counts or target == self._source:
            return False
        try:
            fixed = None if self._fix is None else self._fix.apply(record, letter.headers())
        except FixError:
            return False
        self._wanted[index, int(record.offset)] = letter, fixed
        return True

    def written(self, index: int, record: Record) -> list[tuple[TopicPartition, Record]]:
        """Return the letter as it goes back, and what remembers it; it has matched before."""
        letter, fixed = self._wanted.pop((index, int(record.offset)))
        return sent_back(letter, self._counts, self._to, fixed)
