"""Transactional producers of a simulated cluster: what they commit is seen whole and once, what they abort never.

Two producers share a transactional id, so that each fences the other. Every transaction writes one value to two partitions,
which may have different leaders, and ends at a coordinator that may be a third.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from ottla.base import ErrorCode, Millis
from ottla.wire import Record, build_batch
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.sim.client import NoAnswer
from tests.sim.cluster.client import MOVING, Application, Clients
from tests.sim.committed import Again, CommittedReader, judge
from tests.sim.ledger import Violation

__all__ = ["TOPIC", "Book", "look_at_the_end", "read_committed", "transact"]

TOPIC = "txn"
PARTITIONS = (0, 1)
RETRY_S = 0.1
END_RETRIES_MAX = 100
LAST_LOOK_SECONDS_MAX = 60.0
PRODUCE_VERSION, END_VERSION, INIT_VERSION, FETCH_VERSION = 12, 5, 5, 12
PASSING = {*MOVING, ErrorCode.CONCURRENT_TRANSACTIONS}


@dataclass
class Book:
    """What was promised, by transactional id's producers together."""

    committed: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    aborted: set[str] = field(default_factory=set)


async def transact(clients: Clients, name: str, transactional_id: str, book: Book, stop: asyncio.Event) -> None:
    """Produce in transactions until it is over."""
    application = Application(clients, name)
    number = 0
    while not stop.is_set():
        try:
            identity = await _initialise(application, transactional_id)
            for _ in range(1 + clients.rng.randrange(8)):
                if stop.is_set():
                    break
                number += 1
                identity = await _one(application, transactional_id, identity, book, f"{name}:{number}")
                if clients.rng.random() < 0.25:
                    await _look(application, book)
                await asyncio.sleep(0.2 * clients.rng.random())
        except (NoAnswer, Again):
            for index in PARTITIONS:
                application.forget(TOPIC, index)
            await asyncio.sleep(RETRY_S * (1 + clients.rng.random()))
    application.close()


def _judge(code: int, what: str) -> ErrorCode:
    return judge(code, what, PASSING)


async def _initialise(application: Application, transactional_id: str) -> tuple[int, int]:
    """Take over a transactional id; what was open under it is aborted."""
    link = await application.coordinator(transactional_id, kind=1)
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    answer = await application.ask(link.connection, request, InitProducerIdResponse, INIT_VERSION)
    code = _judge(answer.error_code, "initialising")
    if code is ErrorCode.PRODUCER_FENCED:  # another initialisation came between
        raise Again
    if code is not ErrorCode.NONE:
        raise Violation(f"initialising {transactional_id}: {code.name}")
    owner = application.clients.producer_ids.setdefault(answer.producer_id, transactional_id)
    if owner != transactional_id:
        raise Violation(f"producer id {answer.producer_id} was given to {owner} and to {transactional_id}")
    return answer.producer_id, answer.producer_epoch


async def _one(
    application: Application, transactional_id: str, identity: tuple[int, int], book: Book, tag: str
) -> tuple[int, int]:
    """Write one value to every partition and end the transaction; return the identity to go on with."""
    clients = application.clients
    book.aborted.add(tag)  # until a commit is asked for
    for index in PARTITIONS:
        await _write(application, transactional_id, identity, index, tag)
        await asyncio.sleep(0.03 * clients.rng.random())
    commit = clients.rng.random() < 0.7
    if commit:
        book.aborted.discard(tag)
        book.unknown.add(tag)
    answer = await _end(application, transactional_id, identity, commit=commit, tag=tag)
    if commit:
        book.unknown.discard(tag)
        book.committed.add(tag)
        clients.ledger.tally.records += len(PARTITIONS)
    clients.trace.note(f"{'committed' if commit else 'aborted'} {tag}")
    return answer.producer_id, answer.producer_epoch


async def _write(
    application: Application, transactional_id: str, identity: tuple[int, int], index: int, tag: str
) -> None:
    record = Record(timestamp=Millis(application.clients.now_ms()), value=tag.encode())
    batch = build_batch(
        [record], producer_id=identity[0], producer_epoch=identity[1], base_sequence=0, transactional=True
    )
    data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=index, records=bytes(batch))])
    request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=2000, topic_data=[data])
    for _ in range(3):  # the same batch again, as clients do, where its fate is not known
        link = await application.leader(TOPIC, index)
        try:
            answer = await application.ask(link.connection, request, ProduceResponse, PRODUCE_VERSION)
        except NoAnswer:
            application.forget(TOPIC, index)
            continue
        code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
        if code in PASSING:
            application.forget(TOPIC, index)
            await asyncio.sleep(RETRY_S)
            continue
        if _judge(code, f"producing {tag}") is not ErrorCode.NONE:
            raise Again
        return
    raise Again


async def _end(
    application: Application, transactional_id: str, identity: tuple[int, int], *, commit: bool, tag: str
) -> EndTxnResponse:
    """Ask the coordinator until it answers; whoever gives up does not know how the transaction ended."""
    request = EndTxnRequest(
        transactional_id=transactional_id, producer_id=identity[0], producer_epoch=identity[1], committed=commit
    )
    for _ in range(END_RETRIES_MAX):
        try:
            link = await application.coordinator(transactional_id, kind=1)
            answer = await application.ask(link.connection, request, EndTxnResponse, END_VERSION)
        except NoAnswer:
            if application.clients.rng.random() < 0.5:
                raise
            continue
        if ErrorCode(answer.error_code) not in PASSING:
            if _judge(answer.error_code, f"ending {tag}") is not ErrorCode.NONE:
                raise Again
            return answer
        await asyncio.sleep(0.05)
    raise Again


# -- looking


async def _look(application: Application, book: Book) -> None:
    """Read what is committed: nothing that was aborted, nothing twice."""
    aborted = set(book.aborted)  # a commit may be asked for while this reads
    for index in PARTITIONS:
        tags = await _read(application, index)
        place = f"{TOPIC}-{index}"
        if len(set(tags)) < len(tags):
            raise Violation(f"{place}: a value is there twice: {tags}")
        if wrong := sorted(aborted & set(tags) & book.aborted):
            raise Violation(f"{place}: aborted, and read all the same: {wrong}")


async def read_committed(clients: Clients, book: Book, stop: asyncio.Event) -> None:
    """Look again and again while transactions are open."""
    application = Application(clients, "reader of what is committed")
    while not stop.is_set():
        try:
            await _look(application, book)
        except (NoAnswer, Again):
            for index in PARTITIONS:
                application.forget(TOPIC, index)
        await asyncio.sleep(0.4 * clients.rng.random())
    application.close()


async def look_at_the_end(clients: Clients, transactional_id: str, book: Book) -> None:
    """Everything that was promised is there, whole, once, and nothing else."""
    application = Application(clients, "last transactional reader")
    deadline = asyncio.get_running_loop().time() + LAST_LOOK_SECONDS_MAX
    while True:
        try:
            await _initialise(application, transactional_id)  # ends what was left open
            await _look(application, book)
            seen = [set(await _read(application, index)) for index in PARTITIONS]
            if book.committed <= seen[0] and seen[0] == seen[1]:
                application.close()
                return
        except (NoAnswer, Again):
            seen = []
        if asyncio.get_running_loop().time() > deadline:
            break
        await asyncio.sleep(0.5)
    if not seen:
        raise Violation(f"{TOPIC} cannot be read although nothing disturbs the cluster")
    for index, tags in enumerate(seen):
        if lost := sorted(book.committed - tags):
            raise Violation(f"{TOPIC}-{index}: committed, and not there: {lost}")
    raise Violation(f"{TOPIC}: torn transactions: {sorted(seen[0] ^ seen[1])}")


async def _read(application: Application, index: int) -> list[str]:
    """Return the values that a reader of committed records sees."""
    reader = CommittedReader(f"{TOPIC}-{index}")
    size = application.clients.style.draw_slice(application.clients.rng)
    while True:
        link = await application.leader(TOPIC, index)
        wanted = FetchPartition(partition=index, fetch_offset=reader.offset, partition_max_bytes=size)
        request = FetchRequest(
            isolation_level=1, session_epoch=-1, topics=[FetchTopic(topic=TOPIC, partitions=[wanted])]
        )
        answer = await application.ask(link.connection, request, FetchResponse, FETCH_VERSION)
        found = answer.responses[0].partitions[0]
        if ErrorCode(found.error_code) in PASSING:
            application.forget(TOPIC, index)
            raise Again
        if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:  # a new leader does not know yet how far all is
            raise Again
        if found.error_code:
            raise Violation(f"reading {TOPIC}-{index} at {reader.offset}: {ErrorCode(found.error_code).name}")
        if not reader.take(found):
            return reader.values
