"""Replays: records of one topic written to another, as a search finds them, each once, whatever is killed in the middle.

A replay writes in transactions and commits in each how far it has read, in a group of its own: where it goes on after a
crash is where its last transaction has committed. Its transactional id keeps a second one of it from writing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from ottla.base import FENCED, ErrorCode, KafkaError, Offset, OttlaError, TopicPartition
from ottla.client import (
    Client,
    ConsumerGroupMetadata,
    FetchPosition,
    Isolation,
    TransactionalProducer,
    committed_offsets,
    partition_of,
)
from ottla.wire import AbortedTransactions, Record, build_batch, iter_batch_records, iter_batches

__all__ = ["FROM_HEADER", "Counted", "Matching", "Replay", "Replaying", "Writing", "counted", "replay_group"]

log = logging.getLogger(__name__)

FROM_HEADER: Final = "ottla.replayed.from"
"""The header that says of a record that was replayed where it was."""
PARTITION_BYTES: Final = 1 << 20
FETCH_BYTES: Final = 16 << 20
CHUNK_RECORDS_MAX: Final = 2000
CHUNK_BYTES_MAX: Final = 512 * 1024
"""Of one transaction; a record that is larger goes alone."""
CHUNK_SECONDS: Final = 0.25
"""Of a replay at a rate."""
TIMEOUT_MS: Final = 60_000
IDLE_COMMIT_SECONDS: Final = 5.0
"""How long nothing matches before how far it has read is committed all the same."""
TRIES_SECONDS: Final = 300.0
PAUSE_SECONDS_MAX: Final = 10.0
COUNT_RECORDS_MAX: Final = 1_000_000
COUNT_SECONDS: Final = 5.0

Matching = Callable[[int, Sequence[Record]], Awaitable[Sequence[bool]]]
"""Says of a partition's records which of them are replayed."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What is replayed: a topic's records from positions to ends, by partition, to another topic, so many a second."""

    id: str
    source: str
    target: str
    positions: Mapping[int, int]
    ends: Mapping[int, int]
    where: str = ""
    key: str | None = None
    rate: int | None = None
    letters: Mapping[str, str | None] | None = None
    """Where these are dead letters that are sent back: of which `cause`, mended by which `fix`; `target` may be empty."""

    @property
    def offsets(self) -> int:
        """How many offsets it goes over."""
        return sum(max(0, end - self.positions.get(index, 0)) for index, end in self.ends.items())

    def kept(self) -> dict[str, object]:
        """Return it in JSON's terms."""
        return {
            "id": self.id,
            "source": self.source,
            "target": self.target,
            "positions": {str(index): at for index, at in self.positions.items()},
            "ends": {str(index): at for index, at in self.ends.items()},
            "where": self.where,
            "key": self.key,
            "rate": self.rate,
            **({} if self.letters is None else {"letters": dict(self.letters)}),
        }

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Replay:
        """Return the replay of JSON's terms; raises KeyError, TypeError, ValueError."""
        rate, key, letters = kept.get("rate"), kept.get("key"), kept.get("letters")
        return cls(
            *(str(kept["id"]), str(kept["source"]), str(kept["target"])),
            {int(index): int(at) for index, at in kept["positions"].items()},
            {int(index): int(at) for index, at in kept["ends"].items()},
            str(kept.get("where") or ""),
            None if key is None else str(key),
            None if rate is None else int(rate),
            None if letters is None else {name: letters.get(name) for name in ("cause", "fix")},
        )


def replay_group(replay_id: str) -> str:
    """Return the group, and the transactional id, under which a replay keeps its place."""
    return f"ottla-replay-{replay_id}"


class Writing(Protocol):
    """How a replay's records are written."""

    transactional_id: str

    async def begin(self, client: Client) -> None:
        """Learn what there is, after others with this id were fenced; raises KafkaError."""
        ...

    def written(self, index: int, record: Record) -> list[tuple[TopicPartition, Record]]:
        """Return what a record of the source's partition becomes, and where."""
        ...


class ToTopic:
    """Records go to another topic, each to its key's partition, without a key to that of the same number."""

    def __init__(self, replay: Replay) -> None:
        self.transactional_id = replay_group(replay.id)
        self._source, self._target, self._count = replay.source, replay.target, 0

    async def begin(self, client: Client) -> None:
        """Count the topic's partitions; raises KafkaError where there is none."""
        self._count = len((await client.metadata([self._target])).partitions_of(self._target))
        if not self._count:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {self._target}")

    def written(self, index: int, record: Record) -> list[tuple[TopicPartition, Record]]:
        """Return the record again, with a header that says where it was."""
        at = partition_of(record.key, self._count) if record.key is not None else index % self._count
        whence = f"{self._source}-{index}@{record.offset}".encode()
        again = Record(
            timestamp=record.timestamp,
            key=record.key,
            value=record.value,
            headers=(*record.headers, (FROM_HEADER, whence)),
        )
        return [(TopicPartition(self._target, at), again)]


@dataclass(frozen=True, slots=True)
class Counted:
    """What a look beforehand has found; `is_whole` where it has come to the end."""

    looked: int
    hits: int
    is_whole: bool


@dataclass(slots=True)
class _Chunk:
    """What the next transaction writes, and how far it has then read."""

    records: list[tuple[int, Record]] = field(default_factory=list)
    size: int = 0
    reached: dict[int, int] = field(default_factory=dict)

    def add(self, index: int, record: Record) -> None:
        self.records.append((index, record))
        self.size += len(record.key or b"") + len(record.value or b"") + 64
        self.size += sum(len(name) + len(value or b"") for name, value in record.headers)


async def _batches(
    client: Client, topic: str, positions: dict[int, int], ends: Mapping[int, int]
) -> AsyncIterator[tuple[int, list[Record], int]]:
    """Yield a batch's committed records between positions and ends with where it ends; positions move behind that."""
    while True:
        asked = [
            FetchPosition(TopicPartition(topic, index), Offset(at), PARTITION_BYTES)
            for index, at in positions.items()
            if at < ends[index]
        ]
        if not asked:
            return
        for answer in await client.fetch(
            asked, max_wait_ms=200, max_bytes=FETCH_BYTES, isolation=Isolation.READ_COMMITTED
        ):
            index = answer.partition.partition
            if answer.error is ErrorCode.OFFSET_OUT_OF_RANGE:  # retention went by
                positions[index] = max(int(answer.log_start_offset), positions[index] + 1)
                continue
            records, aborted = answer.check().records, AbortedTransactions(answer.aborted)
            for header, start in iter_batches(records):
                if header.next_offset <= positions[index]:
                    continue
                hidden, at, end = aborted.hides(header), positions[index], ends[index]
                found = [] if hidden else iter_batch_records(records, start, header)
                reached = min(int(header.next_offset), end)
                yield index, [each for each in found if at <= each.offset < end], reached
                positions[index] = reached


async def counted(client: Client, replay: Replay, matching: Matching) -> Counted:
    """Count what a replay would write, for some seconds at most; raises KafkaError."""
    looked = hits = 0
    loop = asyncio.get_running_loop()
    until_s = loop.time() + COUNT_SECONDS
    async for index, records, _ in _batches(client, replay.source, dict(replay.positions), replay.ends):
        looked += len(records)
        hits += sum(await matching(index, records))
        if looked >= COUNT_RECORDS_MAX or loop.time() > until_s:
            return Counted(looked, hits, False)
    return Counted(looked, hits, True)


class Replaying:
    """A replay under way."""

    def __init__(self, client: Client, replay: Replay, matching: Matching, writing: Writing | None = None) -> None:
        self._client, self.replay, self._matching = client, replay, matching
        self._writing = ToTopic(replay) if writing is None else writing
        self._producer = TransactionalProducer(client, self._writing.transactional_id, timeout_ms=TIMEOUT_MS)
        self._member = ConsumerGroupMetadata(replay_group(replay.id), "", -1)
        self._sequences: dict[TopicPartition, int] = {}
        self._loop = asyncio.get_running_loop()
        self._began_s = self._loop.time()
        self._counts: dict[int, int] = {}
        """Records that were written, by partition of the source: kept beside the offsets that are committed."""
        self.reached: dict[int, int] = dict(replay.positions)
        """How far it has come for good, by partition."""
        self.trouble = ""
        """What goes wrong at the moment, and is tried again."""

    @property
    def written(self) -> int:
        """How many records it has written, in this process and before."""
        return sum(self._counts.values())

    @property
    def share(self) -> float:
        """How much of it is done, from 0 to 1, by offsets."""
        replay = self.replay
        gone = sum(max(0, self.reached.get(index, 0) - replay.positions.get(index, 0)) for index in replay.ends)
        return min(1.0, gone / replay.offsets) if replay.offsets else 1.0

    async def run(self) -> None:
        """Replay up to the end; raises KafkaError for what does not pass, PRODUCER_FENCED where another goes on with it.

        What is written when it is cancelled is written once; begun anew it goes on behind that.
        """
        failing_s: float | None = None
        pause_s = 0.5
        while True:
            try:
                before = self.written
                await self._once()
            except KafkaError as error:
                if not _passes(error):
                    raise
                now_s = self._loop.time()
                if failing_s is None or self.written > before:
                    failing_s, pause_s = now_s, 0.5
                if now_s - failing_s > TRIES_SECONDS:
                    raise
                self.trouble = str(error)
                log.warning("replay %s is tried again: %s", self.replay.id, error)
                await asyncio.sleep(pause_s)
                pause_s = min(PAUSE_SECONDS_MAX, 2 * pause_s)
            else:
                return

    async def _once(self) -> None:
        replay = self.replay
        await self._producer.begin()
        self._sequences.clear()
        places = [TopicPartition(replay.source, index) for index in replay.ends]
        kept = await committed_offsets(self._client, self._member.group, places, require_stable=True)
        self.reached = {
            index: max(start, int(kept[place].offset) if (place := TopicPartition(replay.source, index)) in kept else 0)
            for index, start in replay.positions.items()
        }
        self._counts = {each.partition: int(found.metadata or 0) for each, found in kept.items()}
        await self._writing.begin(self._client)
        self._began_s, written = self._loop.time(), 0
        chunk, committed_s = _Chunk(), self._loop.time()
        most = CHUNK_RECORDS_MAX
        if replay.rate is not None:
            most = max(1, min(most, int(replay.rate * CHUNK_SECONDS)))
        try:
            async for index, records, reached in _batches(self._client, replay.source, dict(self.reached), replay.ends):
                for record, wanted in zip(records, await self._matching(index, records), strict=True):
                    if wanted:
                        if chunk.records and (len(chunk.records) >= most or chunk.size >= CHUNK_BYTES_MAX):
                            written += await self._commit(chunk)
                            await self._keep_rate(written)
                            chunk, committed_s = _Chunk(), self._loop.time()
                        chunk.add(index, record)
                    chunk.reached[index] = int(record.offset) + 1
                chunk.reached[index] = reached
                if not chunk.records and self._loop.time() - committed_s > IDLE_COMMIT_SECONDS:
                    await self._commit(chunk)
                    chunk, committed_s = _Chunk(), self._loop.time()
            if chunk.reached:
                await self._commit(chunk)
        except BaseException:
            await self._abort()
            raise

    async def _abort(self) -> None:
        """End what is open, if that goes; what is left open is aborted by whoever begins next, or by its timeout."""
        if self._producer.is_open:
            try:
                async with asyncio.timeout(5):
                    await self._producer.end(commit=False)
            except (OttlaError, TimeoutError) as error:
                log.debug("a transaction of replay %s stays open: %s", self.replay.id, error)

    async def _keep_rate(self, written: int) -> None:
        if self.replay.rate is not None:
            await asyncio.sleep(max(0.0, self._began_s + written / self.replay.rate - self._loop.time()))

    async def _commit(self, chunk: _Chunk) -> int:
        """Write a chunk and how far it has read in one transaction; returns how many records it has written."""
        replay = self.replay
        by_place: dict[TopicPartition, list[Record]] = {}
        for index, record in chunk.records:
            for place, written in self._writing.written(index, record):
                by_place.setdefault(place, []).append(written)
        if by_place:
            batches = {
                place: build_batch(
                    records,
                    producer_id=self._producer.producer_id,
                    producer_epoch=self._producer.epoch,
                    base_sequence=self._sequences.get(place, 0),
                    transactional=True,
                )
                for place, records in by_place.items()
            }
            for answer in await self._producer.produce(batches):
                if answer.error:
                    raise KafkaError(answer.error)
            for place, records in by_place.items():
                self._sequences[place] = self._sequences.get(place, 0) + len(records)
        offsets = {TopicPartition(replay.source, index): Offset(at) for index, at in chunk.reached.items()}
        counts = dict(self._counts)
        for index, _ in chunk.records:
            counts[index] = counts.get(index, 0) + 1
        words = {each: str(counts.get(each.partition, 0)) for each in offsets}
        await self._producer.commit_offsets(offsets, self._member, words=words)
        epoch = self._producer.epoch
        await self._producer.end(commit=True)
        if self._producer.epoch != epoch:  # KIP-890: each transaction has an epoch, and sequences of its own
            self._sequences.clear()
        self.reached |= chunk.reached
        self._counts = counts
        self.trouble = ""
        return len(chunk.records)


def _passes(error: KafkaError) -> bool:
    """Return whether a replay is begun anew behind an error; not where another has taken it over."""
    return error.retriable and error.code not in FENCED
