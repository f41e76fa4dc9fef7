"""A reader with incremental fetch sessions (KIP-227): it asks only for what has changed and still misses nothing."""

from __future__ import annotations

import asyncio
from random import Random

from ottla.base import ErrorCode
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from tests.sim.client import Connection, NoAnswer
from tests.sim.ledger import Ledger, Violation
from tests.sim.workload import EARLIEST, LATEST, PASSING, TOPIC_IDS_FROM, Clients, list_offset, rows_of

__all__ = ["read_in_sessions"]

Key = tuple[str, int]
SESSIONS_FROM = 7
CATCH_UP_FETCHES_MAX = 200
"""Fetches within which a reader that nothing disturbs comes to the ends of its partitions."""
FETCHES_PER_CONNECTION_MAX = 12


class _Session:
    """One session on one connection: what the broker was told, and where the reader is."""

    def __init__(self, ledger: Ledger, rng: Random, positions: dict[Key, int], *, bytes_max: int) -> None:
        self.ledger = ledger
        self.bytes_max = bytes_max
        self.rng = rng
        self.positions = positions
        self.seen: dict[str, int] = {}
        self.told: dict[Key, int] = {}
        self.session_id = 0
        self.epoch = 0
        self.version = SESSIONS_FROM + rng.randrange(18 - SESSIONS_FROM + 1)

    def request(self) -> FetchRequest:
        """Name what is new or has moved, and forget what is no longer there."""
        changed = [key for key, offset in self.positions.items() if self.told.get(key) != offset]
        dropped = [key for key in self.told if key not in self.positions]
        topics = []
        for key in changed:
            facts = self.ledger.topics[key[0]]
            partition = FetchPartition(
                partition=key[1], fetch_offset=self.positions[key], partition_max_bytes=self.bytes_max
            )
            topics.append(FetchTopic(topic=key[0], topic_id=facts.topic_id, partitions=[partition]))
            self.told[key] = self.positions[key]
        for key in dropped:
            del self.told[key]
        forgotten = [
            ForgottenTopic(topic=topic, topic_id=self.ledger.topics[topic].topic_id, partitions=[index])
            for topic, index in dropped
        ]
        return FetchRequest(
            replica_id=-1,
            max_wait_ms=self.rng.choice((0, 50, 300)),
            min_bytes=1,
            max_bytes=self.rng.choice((2000, 20_000)),
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
        )

    def take(self, answer: FetchResponse) -> bool:
        """Take in an answer; False where the session is over."""
        if answer.error_code in (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH):
            return False
        if answer.error_code:
            raise Violation(f"a fetch session was refused: {ErrorCode(answer.error_code).name}")
        self.session_id = answer.session_id
        self.epoch += 1
        names = {facts.topic_id: name for name, facts in self.ledger.topics.items()}
        for topic in answer.responses:
            name = names.get(topic.topic_id) if self.version >= TOPIC_IDS_FROM else topic.topic
            for data in topic.partitions:
                if name is not None and (name, data.partition_index) in self.positions:
                    self._partition((name, data.partition_index), data)
        return True

    def _partition(self, key: Key, data: PartitionData) -> None:
        facts = self.ledger.partitions[key]
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            del self.positions[key]
            return
        if data.error_code:
            if data.error_code not in PASSING:
                raise Violation(f"{facts.name} in a session: {ErrorCode(data.error_code).name}")
            return
        at = self.positions[key]
        rows = rows_of(data, at)
        facts.watermarks(self.seen, data.log_start_offset, data.high_watermark)
        facts.observe(rows)
        if [row[0] for row in rows] != list(range(at, at + len(rows))):
            raise Violation(f"{facts.name}: a session at {at} brought offsets {[row[0] for row in rows]}")
        self.positions[key] = at + len(rows)


async def read_in_sessions(clients: Clients, topics: list[str], stop: asyncio.Event) -> None:
    """Follow every partition of some topics until told to stop, then to their ends."""
    ledger = clients.ledger
    keys = [key for key in ledger.partitions if key[0] in topics]
    positions: dict[Key, int] = {}
    quiet = 0
    while True:
        try:
            connection = await clients.connect("session-reader")
            for key in keys:
                if key not in positions and (start := await list_offset(connection, *key, EARLIEST)) is not None:
                    positions[key] = start
            await _follow(clients, connection, positions)
            if stop.is_set() and await _at_ends(connection, keys, positions):
                return
            connection.close()
        except NoAnswer:
            positions.clear()  # a broker that starts again may have lost its unflushed end
            await asyncio.sleep(0.2)
            continue
        quiet += stop.is_set()
        if quiet > CATCH_UP_FETCHES_MAX // FETCHES_PER_CONNECTION_MAX * 10:
            raise Violation(f"sessions do not bring the reader to the ends: it stands at {positions}")


async def _follow(clients: Clients, connection: Connection, positions: dict[Key, int]) -> None:
    session = _Session(clients.ledger, clients.rng, positions, bytes_max=clients.style.session_bytes)
    for _ in range(FETCHES_PER_CONNECTION_MAX):
        if not session.take(await connection.ask(session.request(), FetchResponse, session.version)):
            return
        await asyncio.sleep(0.25 * clients.rng.random())


async def _at_ends(connection: Connection, keys: list[Key], positions: dict[Key, int]) -> bool:
    for key in keys:
        end = await list_offset(connection, *key, LATEST)
        if end is None or positions.get(key, -1) < end:
            return False
    return True
