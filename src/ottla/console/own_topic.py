"""A topic of one partition in which a console keeps something of its own: made when first written, read from its start.

The console writes and reads it as itself. What goes wrong is an OttlaError, for the caller to say: no page depends on it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Final

from ottla.base import ErrorCode, KafkaError, TopicPartition
from ottla.client import EARLIEST, LATEST, Client, NewTopic, OutOfRange, TopicScan, create_topics
from ottla.wire import Codec, Record, build_batch

__all__ = ["OwnTopic"]

FETCH_BYTES: Final = 8 << 20


class OwnTopic:
    """The topic; without a name there is none, and nothing is kept."""

    def __init__(self, client: Client, name: str, configs: Mapping[str, str]) -> None:
        self._client = client
        self._configs = configs
        self.name = name
        self._place = TopicPartition(name, 0)
        self._is_there = False

    async def end(self) -> int:
        """Return the offset behind its last record, 0 where it is not there yet; raises OttlaError."""
        if not self.name:
            return 0
        if not await self._found():
            return 0
        try:
            return int((await self._client.list_offsets({self._place: LATEST}))[self._place].offset)
        except KafkaError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            self._is_there = False
            return 0

    async def _found(self) -> bool:
        """Look whether it is there; it is then believed to be until an answer says otherwise."""
        if not self._is_there:
            found = (await self._client.metadata([self.name])).topics.get(self.name)
            self._is_there = found is not None and not found.error
        return self._is_there

    async def records(self, *, newest: int | None = None, after: int = 0) -> AsyncIterator[Record]:
        """Yield what it holds from an offset on, the last `newest` offsets at most; raises OttlaError."""
        end = await self.end()
        if end <= after:
            return
        start = int((await self._client.list_offsets({self._place: EARLIEST}))[self._place].offset)
        at = max(start, after, 0 if newest is None else end - newest)
        scan = TopicScan(
            self._client, {self._place: (at, end)}, out_of_range=OutOfRange.SKIP, partition_bytes=FETCH_BYTES
        )
        async for _, record in scan:
            yield record

    async def append(self, *records: Record, codec: Codec = Codec.NONE) -> int:
        """Append records and return the first one's offset, -1 without a topic; makes it at need. Raises OttlaError."""
        if not self.name or not records:
            return -1
        batch = {self._place: build_batch(list(records), codec=codec)}
        if not await self._found():  # to be refused takes seconds: the client tries again for a topic that is just made
            await self._make()
        try:
            (answer,) = await self._client.produce(batch)
        except KafkaError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            await self._make()
            (answer,) = await self._client.produce(batch)
        if answer.error:
            raise KafkaError(answer.error)
        return int(answer.base_offset)

    async def _make(self) -> None:
        refused = await create_topics(self._client, [NewTopic(self.name, 1, configs=self._configs)])
        error = refused.get(self.name)
        if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise error
