"""Transactional producers of a world: what they commit is seen whole and once, what they abort never.

Two producers share a transactional id, so that each fences the other. Every transaction writes one value to two partitions.
A power loss may take anything that was not flushed, so that a new topic and new transactional ids begin after it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from ottla.base import ErrorCode, Millis
from ottla.wire import Record, build_batch
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.sim.client import Connection, NoAnswer
from tests.sim.committed import Again, CommittedReader, judge
from tests.sim.ledger import Violation
from tests.sim.workload import PASSING, Clients

__all__ = ["Book", "transact"]

LEDGERS_TOPIC = "flushed"
PARTITIONS = (0, 1)
RETRY_S = 0.2
END_RETRIES_MAX = 50
GONE = {
    *PASSING,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
} - {ErrorCode.NONE}
"""What a healthy producer hears while brokers come and go, or while a transaction before is being ended."""


@dataclass
class Era:
    """What was promised since a power loss."""

    topic: str
    committed: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    aborted: set[str] = field(default_factory=set)


@dataclass
class Book:
    """The eras, and how many producers have not finished."""

    producers: int
    eras: dict[int, Era] = field(default_factory=dict)

    def era(self, losses: int) -> Era:
        """Return the era after so many power losses."""
        return self.eras.setdefault(losses, Era(f"txn-{losses}"))


def losses_of(clients: Clients) -> int:
    """Return how often the world has lost power."""
    return clients.ledger.partitions[LEDGERS_TOPIC, 0].power_losses


async def transact(clients: Clients, name: str, transactional_id: str, book: Book, stop: asyncio.Event) -> None:
    """Produce in transactions until it is over; whoever is last looks at everything."""
    number = 0
    while not stop.is_set():
        try:
            connection = await clients.connect(name)
            losses = losses_of(clients)
            era = book.era(losses)
            await _create(connection, era.topic)
            identity = await _initialise(connection, f"{transactional_id}-{losses}")
            for _ in range(1 + clients.rng.randrange(6)):
                number += 1
                tag = f"{name}:{number}"
                identity = await _one(clients, connection, f"{transactional_id}-{losses}", identity, era, tag)
                if clients.rng.random() < 0.2:
                    await _look(clients, connection, era, is_over=False)
            connection.close()
        except (NoAnswer, Again):
            await asyncio.sleep(RETRY_S * (1 + clients.rng.random()))
    book.producers -= 1
    while not book.producers:
        try:
            connection = await clients.connect(name)
            losses = losses_of(clients)
            if losses in book.eras:
                await _create(connection, book.eras[losses].topic)
                await _initialise(connection, f"{transactional_id}-{losses}")
                if losses == losses_of(clients):
                    await _look(clients, connection, book.eras[losses], is_over=True)
            connection.close()
            return
        except (NoAnswer, Again):
            await asyncio.sleep(RETRY_S)


async def _create(connection: Connection, topic: str) -> None:
    wanted = CreatableTopic(name=topic, num_partitions=len(PARTITIONS), replication_factor=1)
    answer = await connection.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=3000), CreateTopicsResponse, 7)
    if answer.topics[0].error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        raise Again


def _judge(code: int, what: str) -> ErrorCode:
    return judge(code, what, GONE)


async def _initialise(connection: Connection, transactional_id: str) -> tuple[int, int]:
    """Take over a transactional id; what was open under it is aborted."""
    finding = FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id])
    if (await connection.ask(finding, FindCoordinatorResponse, 4)).coordinators[0].error_code:
        raise Again
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    answer = await connection.ask(request, InitProducerIdResponse, 5)
    if _judge(answer.error_code, "initialising") is not ErrorCode.NONE:
        raise Violation(f"initialising {transactional_id}: {ErrorCode(answer.error_code).name}")
    return answer.producer_id, answer.producer_epoch


async def _one(
    clients: Clients, connection: Connection, transactional_id: str, identity: tuple[int, int], era: Era, tag: str
) -> tuple[int, int]:
    """Write one value to every partition and end the transaction; return the identity to go on with."""
    era.aborted.add(tag)  # until a commit is asked for
    for index in PARTITIONS:
        record = Record(timestamp=Millis(clients.now_ms()), value=tag.encode())
        batch = build_batch(
            [record], producer_id=identity[0], producer_epoch=identity[1], base_sequence=0, transactional=True
        )
        data = TopicProduceData(
            name=era.topic, partition_data=[PartitionProduceData(index=index, records=bytes(batch))]
        )
        request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=3000, topic_data=[data])
        answer = await connection.ask(request, ProduceResponse, 12)
        if _judge(answer.responses[0].partition_responses[0].error_code, f"producing {tag}") is not ErrorCode.NONE:
            raise Again
        await asyncio.sleep(0.02 * clients.rng.random())
    commit = clients.rng.random() < 0.7
    if commit:
        era.aborted.discard(tag)
        era.unknown.add(tag)
    request_end = EndTxnRequest(
        transactional_id=transactional_id, producer_id=identity[0], producer_epoch=identity[1], committed=commit
    )
    for _ in range(END_RETRIES_MAX):
        ended = await connection.ask(request_end, EndTxnResponse, 5)
        if ended.error_code not in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            break
        await asyncio.sleep(0.02)
    code = _judge(ended.error_code, f"ending {tag}")
    if code is not ErrorCode.NONE:
        raise Again
    if commit:
        era.unknown.discard(tag)
        era.committed.add(tag)
        clients.ledger.tally.records += len(PARTITIONS)
    clients.trace.note(f"{'committed' if commit else 'aborted'} {tag}")
    return ended.producer_id, ended.producer_epoch


async def _look(clients: Clients, connection: Connection, era: Era, *, is_over: bool) -> None:
    """Read what is committed: nothing that was aborted, nothing twice; in the end everything that was promised, whole."""
    committed = set(era.committed)
    seen = [await _read(clients, connection, era.topic, index) for index in PARTITIONS]
    for index, tags in zip(PARTITIONS, seen, strict=True):
        place = f"{era.topic}-{index}"
        if len(set(tags)) < len(tags):
            raise Violation(f"{place}: a value is there twice: {tags}")
        if wrong := era.aborted & set(tags):
            raise Violation(f"{place}: aborted, and read all the same: {wrong}")
        if is_over and not committed <= set(tags):
            raise Violation(f"{place}: committed, and not there: {committed - set(tags)}")
    if is_over and set(seen[0]) != set(seen[1]):
        raise Violation(f"{era.topic}: torn transactions: {set(seen[0]) ^ set(seen[1])}")


async def _read(clients: Clients, connection: Connection, topic: str, index: int) -> list[str]:
    """Return the values that a reader of committed records sees."""
    reader = CommittedReader(f"{topic}-{index}")
    size = clients.style.draw_slice(clients.rng)
    while True:
        wanted = FetchPartition(partition=index, fetch_offset=reader.offset, partition_max_bytes=size)
        request = FetchRequest(
            isolation_level=1, session_epoch=-1, topics=[FetchTopic(topic=topic, partitions=[wanted])]
        )
        answer = await connection.ask(request, FetchResponse, 12)
        found = answer.responses[0].partitions[0]
        if ErrorCode(found.error_code) in GONE:
            raise Again
        if found.error_code:
            raise Violation(f"reading {topic}-{index} at {reader.offset}: {ErrorCode(found.error_code).name}")
        if not reader.take(found):
            return reader.values
