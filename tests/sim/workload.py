"""What the clients of a world do: produce plainly and idempotently, read, administer; all of it told to the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, Unpack

from ottla.base import ErrorCode
from ottla.wire import iter_records, read_response
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.sim.batches import ProducerIdentity, Style, batch_of, values_of
from tests.sim.client import Connection, NoAnswer
from tests.sim.hostile import check_headers
from tests.sim.ledger import Ledger, PartitionFacts, Row, TopicFacts, Violation
from tests.sim.trace import Trace

__all__ = ["EARLIEST", "LATEST", "RETRY_S", "Clients", "fetch_request", "list_offset", "read_everything"]

TOPIC_RESOURCE, TOPIC_CONFIG_SOURCE = 2, 1
EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3
MAX_TIMESTAMP_FROM = 7
LOOKED_UP_CHANCE = 0.3
TOPIC_IDS_FROM = 13
RETRY_S = 0.15
REBORN_BATCHES = 3
IDEMPOTENT_IN_FLIGHT_MAX = 5
"""As clients have it: a broker knows a producer's last five batches, so that of six sent again the first is out of order."""
PASSING = {
    ErrorCode.NONE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.LEADER_NOT_AVAILABLE,
}
"""Errors that a healthy client meets while a broker or its disk comes and goes."""


@dataclass(frozen=True)
class Clients:
    """What every client needs of its world."""

    connect: Callable[[str], Coroutine[Any, Any, Connection]]
    """Opens a connection once the broker may be used; raises NoAnswer."""
    now_ms: Callable[[], int]
    ledger: Ledger
    trace: Trace
    rng: Random
    disk_has_failed: Callable[[], bool]
    was_forgotten: Callable[[str, int, bytearray], bool]
    """Whether a batch is in a partition's log, and the broker cannot know it again, for it began with a later snapshot."""
    style: Style
    rebirth_chance: float = 0.0
    """How often a topic that was deleted is created again at once, under its name."""
    kept_apart: frozenset[str] = frozenset()
    """Topics that only those write to who name them."""
    lands_late = False
    """True where what was not answered may be done later, when copies are in sync again."""

    async def connect_at(self, name: str, connection: Connection, host: str, port: int) -> Connection:
        """Return a connection to the broker at an address, which is the one that the address was learnt from."""
        return connection

    # ---------------------------------------------------------------- producing

    def batch(self, values: list[bytes], **identity: Unpack[ProducerIdentity]) -> bytearray:
        """Build a batch in this world's style."""
        return batch_of(self.rng, self.style, self.now_ms(), values, **identity)

    def _produce_request(self, topic: TopicFacts, index: int, acks: int, records: bytearray) -> ProduceRequest:
        data = PartitionProduceData(index=index, records=bytes(records))
        return ProduceRequest(
            acks=acks,
            timeout_ms=3000,
            topic_data=[TopicProduceData(name=topic.name, topic_id=topic.topic_id, partition_data=[data])],
        )

    async def plain_producer(self, name: str, acks: int, stop: asyncio.Event) -> None:
        """Send batches one by one and never again."""
        number = 0
        while not stop.is_set():
            try:
                connection = await self.connect(name)
                while not stop.is_set() and connection.is_open:
                    number += 1
                    await self._plain_batch(connection, name, number, acks)
                    await asyncio.sleep(0.3 * self.rng.random())
            except NoAnswer:
                await asyncio.sleep(RETRY_S)

    async def _plain_batch(self, connection: Connection, name: str, number: int, acks: int) -> None:
        topic, index = self._some_partition()
        await self.plain_batch_for(connection, topic, index, name, number, acks)

    async def plain_batch_for(
        self,
        connection: Connection,
        topic: TopicFacts,
        index: int,
        name: str,
        number: int,
        acks: int,
        version: int | None = None,
    ) -> None:
        values = values_of(self.rng, self.style, name, number)
        request = self._produce_request(topic, index, acks, self.batch(values))
        if version is None:
            version = connection.version_of(0)
        future = connection.send(request, version, answered=acks != 0)
        if acks == 0:
            return
        facts = self.ledger.partitions.get((topic.name, index))
        answer = _only(await connection.receive(ProduceResponse, future, 0, version))
        self.plain_answer(topic, facts, values, answer)

    def plain_answer(
        self, topic: TopicFacts, facts: PartitionFacts | None, values: list[bytes], answer: PartitionProduceResponse
    ) -> None:
        """Take in what is answered to a plain batch; `facts` are those of its partition when it was sent."""
        index = answer.index
        is_told_of_this_life = facts is not None and self.ledger.partitions.get((topic.name, index)) is facts
        if answer.error_code == 0 and is_told_of_this_life:
            assert facts is not None
            facts.acknowledge(answer.base_offset, values, answer.log_append_time_ms)
            self.trace.note(f"acked {facts.name} {answer.base_offset} {len(values)}")
        elif answer.error_code not in PASSING:
            raise Violation(f"a plain batch for {topic.name}-{index} was refused: {ErrorCode(answer.error_code).name}")

    async def burst_producer(self, name: str, topic_name: str, stop: asyncio.Event) -> None:
        """Send plain batches to one partition, several by one write, and none of them again."""
        number = 0
        while not stop.is_set():
            try:
                connection = await self.connect(name)
                version = connection.version_of(0)
                while not stop.is_set() and connection.is_open:
                    topic, acks = self.ledger.topics[topic_name], self.rng.choice((1, -1))
                    connection.cork()
                    asking = []
                    for _ in range(1 + self.rng.randrange(self.style.in_flight_max)):
                        number += 1
                        answer = self.plain_batch_for(connection, topic, 0, name, number, acks, version)
                        asking.append(asyncio.ensure_future(answer))
                    await asyncio.sleep(0)  # all of them are sent
                    connection.uncork()
                    for found in await asyncio.gather(*asking, return_exceptions=True):
                        if isinstance(found, BaseException):
                            raise found
                    await asyncio.sleep(0.3 * self.rng.random())
            except NoAnswer:
                await asyncio.sleep(RETRY_S)

    def _some_partition(self) -> tuple[TopicFacts, int]:
        topics = [each for name, each in self.ledger.topics.items() if name not in self.kept_apart]
        topic = topics[self.rng.randrange(len(topics))]
        return topic, self.rng.randrange(topic.partitions)

    async def idempotent_producer(self, name: str, topic_name: str, stop: asyncio.Event) -> None:
        """Keep several batches in flight to one partition and send them again, in order, until they are acknowledged."""
        session = _Session(self, name, topic_name, self.rng.randrange(self.ledger.topics[topic_name].partitions))
        while not stop.is_set() or session.unacknowledged:
            try:
                connection = await self.connect(name)
                await session.run(connection, stop)
            except NoAnswer:
                await asyncio.sleep(RETRY_S)

    # ---------------------------------------------------------------- reading

    async def reader(self, name: str, stop: asyncio.Event) -> None:
        """Follow a partition from its start, or from anywhere, and now and then change to another."""
        while not stop.is_set():
            topic, index = self._some_partition()
            facts = self.ledger.partitions[topic.name, index]
            try:
                connection = await self.connect(name)
                offset = await list_offset(connection, topic.name, index, EARLIEST)
                for _ in range(2 + self.rng.randrange(8)):
                    if self.ledger.partitions.get((topic.name, index)) is not facts or offset is None:
                        break
                    offset = await self._read_once(connection, topic, index, facts, offset)
                    await asyncio.sleep(0.2 * self.rng.random())
                connection.close()
            except NoAnswer:
                await asyncio.sleep(RETRY_S)

    async def _read_once(
        self, connection: Connection, topic: TopicFacts, index: int, facts: PartitionFacts, offset: int
    ) -> int | None:
        wait_ms = self.rng.choice((0, 0, 100, 500))
        data = await fetch(
            connection, topic, index, offset, max_bytes=self.rng.choice((1, 500, 5000, 1 << 20)), max_wait_ms=wait_ms
        )
        if data.error_code in (ErrorCode.OFFSET_OUT_OF_RANGE,):
            return await list_offset(connection, topic.name, index, EARLIEST)
        if data.error_code:
            if data.error_code not in PASSING:
                raise Violation(f"fetch of {facts.name} at {offset}: {ErrorCode(data.error_code).name}")
            return None
        if self.ledger.partitions.get((topic.name, index)) is not facts:
            return None  # the topic was deleted meanwhile, and this may be another of its name
        if self.style.has_headers:
            for record in iter_records(data.records or b""):
                if not (record.value or b"").startswith(b"vandal"):
                    check_headers(record)
        rows = rows_of(data, offset)
        facts.watermarks(connection.seen, data.log_start_offset, data.high_watermark)
        facts.observe(rows)
        if rows and rows[-1][0] >= data.high_watermark:
            raise Violation(f"{facts.name}: {rows[-1][0]} was shown beyond the high watermark {data.high_watermark}")
        if rows and [row[0] for row in rows] != list(range(offset, offset + len(rows))):
            raise Violation(f"{facts.name}: a fetch at {offset} brought offsets {[row[0] for row in rows]}")
        return offset + len(rows)

    # ---------------------------------------------------------------- administering

    async def administrator(self, stop: asyncio.Event) -> None:
        """Create, grow, configure and delete topics; delete records."""
        number = 0
        while not stop.is_set():
            number += 1
            try:
                connection = await self.connect("admin")
                acts = [self._create, self._create, self._delete, self._grow, self._configure, self._trim]
                if self.rebirth_chance:
                    acts += [self._delete, self._delete, self._trim_churn, self._trim_churn]
                act = self.rng.choice(acts)
                await act(connection, number)
            except NoAnswer:
                await asyncio.sleep(1.0)
            await asyncio.sleep((0.5 if self.rebirth_chance else 1.5) * self.rng.random())

    async def create_topic(self, connection: Connection, name: str, partitions: int, configs: dict[str, str]) -> None:
        """Create a topic; after NoAnswer nothing is known of it."""
        wanted = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        answer = await connection.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=3000), CreateTopicsResponse)
        code = answer.topics[0].error_code
        if code == ErrorCode.NONE:
            topic_id = answer.topics[0].topic_id
            if not any(topic_id):
                topic_id = (await topics_of(connection))[name][0]
            self.ledger.created(name, topic_id, partitions, dict(configs))
            self.trace.note(f"created {name} {topic_id.hex()}")
        elif not self.disk_has_failed():
            raise Violation(f"creating {name}: {ErrorCode(code).name} {answer.topics[0].error_message}")

    async def _create(self, connection: Connection, number: int) -> None:
        await self._create_churn(connection, f"churn-{number}", number)

    async def _create_churn(self, connection: Connection, name: str, number: int) -> None:
        configs = {"retention.ms": str(3_600_000 + number)}
        if self.rng.random() < 0.5:
            configs |= {"flush.messages": "1", "internal.segment.bytes": str(self.style.segment_bytes)}
        await self.create_topic(connection, name, 1 + self.rng.randrange(3), configs)

    def _some_churn(self) -> TopicFacts | None:
        topics = [each for name, each in self.ledger.topics.items() if name.startswith("churn") and each.certain]
        return topics[self.rng.randrange(len(topics))] if topics else None

    async def _delete(self, connection: Connection, number: int) -> None:
        topic = self._some_churn()
        if topic is None:
            return
        topic.certain = False
        version = connection.version_of(20)
        request = DeleteTopicsRequest(topic_names=[topic.name], timeout_ms=3000)
        if version >= 6:
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic.name)], timeout_ms=3000)
        answer = await connection.ask(request, DeleteTopicsResponse, version)
        code = answer.responses[0].error_code
        if code == ErrorCode.NONE:
            self.ledger.deleted(topic.name)
            self.trace.note(f"deleted {topic.name}")
            if self.rebirth_chance and self.rng.random() < self.rebirth_chance:
                await self._bear_again(connection, topic.name, number)
        elif not self.disk_has_failed():
            raise Violation(f"deleting {topic.name}: {ErrorCode(code).name}")

    async def _bear_again(self, connection: Connection, name: str, number: int) -> None:
        """Create a topic that was there a moment ago, and write to it while what was stored of it may be about."""
        await self._create_churn(connection, name, number)
        topic = self.ledger.topics.get(name)
        for batch in range(REBORN_BATCHES if topic is not None else 0):
            assert topic is not None
            index = self.rng.randrange(topic.partitions)
            await self.plain_batch_for(connection, topic, index, f"admin-{number}", batch, 1)

    async def _trim_churn(self, connection: Connection, number: int) -> None:
        """Delete all records of a topic that will be deleted one day."""
        topic = self._some_churn()
        if topic is not None:
            await self._delete_records(connection, topic, self.rng.randrange(topic.partitions), -1)

    async def _grow(self, connection: Connection, number: int) -> None:
        topic = self._some_churn()
        if topic is None:
            return
        count = topic.partitions + 1
        topic.certain = False
        answer = await connection.ask(
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=topic.name, count=count, assignments=None)], timeout_ms=3000
            ),
            CreatePartitionsResponse,
        )
        code = answer.results[0].error_code
        if code == ErrorCode.NONE:
            self.ledger.grown(topic.name, count)
            topic.certain = True
        elif not self.disk_has_failed():
            raise Violation(f"growing {topic.name} to {count}: {ErrorCode(code).name}")

    async def _configure(self, connection: Connection, number: int) -> None:
        topic = self._some_churn()
        if topic is None:
            return
        await self.configure(connection, topic, "retention.ms", str(7_200_000 + number))

    async def configure(self, connection: Connection, topic: TopicFacts, key: str, value: str) -> None:
        """Set one of a topic's own settings; what was not answered may be set until the broker is started again."""
        topic.possible.append((key, value))
        wanted = AlterConfigsResource(
            resource_type=TOPIC_RESOURCE,
            resource_name=topic.name,
            configs=[AlterableConfig(name=key, config_operation=0, value=value)],
        )
        request = IncrementalAlterConfigsRequest(resources=[wanted])
        code = (await connection.ask(request, IncrementalAlterConfigsResponse)).responses[0].error_code
        if code == ErrorCode.NONE:
            topic.configs[key] = value
            topic.possible.remove((key, value))
        elif not self.disk_has_failed():
            raise Violation(f"configuring {topic.name}: {ErrorCode(code).name}")

    async def _trim(self, connection: Connection, number: int) -> None:
        topic, index = self._some_partition()
        facts = self.ledger.partitions[topic.name, index]
        offset = self.rng.choice((-1, self.rng.randrange(facts.os_end + 1)))
        await self._delete_records(connection, topic, index, offset)

    async def _delete_records(self, connection: Connection, topic: TopicFacts, index: int, offset: int) -> None:
        facts = self.ledger.partitions[topic.name, index]
        answer = await connection.ask(
            DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name=topic.name, partitions=[DeleteRecordsPartition(partition_index=index, offset=offset)]
                    )
                ],
                timeout_ms=3000,
            ),
            DeleteRecordsResponse,
        )
        result = answer.topics[0].partitions[0]
        if result.error_code == ErrorCode.NONE and result.low_watermark < offset:
            raise Violation(
                f"{facts.name}: records to {offset} were deleted, but the log starts at {result.low_watermark}"
            )
        if result.error_code not in PASSING | {ErrorCode.OFFSET_OUT_OF_RANGE}:
            raise Violation(f"{facts.name}: deleting records: {ErrorCode(result.error_code).name}")


class _Session:
    """An idempotent producer's state: its id, its next sequence, and the batches that are not acknowledged."""

    def __init__(self, clients: Clients, name: str, topic: str, index: int) -> None:
        self.clients = clients
        self.name = name
        self.topic = topic
        self.index = index
        self.producer_id = -1
        self.producer_epoch = -1
        self.sequence = 0
        self.number = 0
        self.power_losses = 0
        self.unacknowledged: list[tuple[int, list[bytes], bytearray]] = []

    @property
    def facts(self) -> PartitionFacts:
        """The partition written to."""
        return self.clients.ledger.partitions[self.topic, self.index]

    async def run(self, connection: Connection, stop: asyncio.Event) -> None:
        """Produce over one connection until it fails or the work is done."""
        rng = self.clients.rng
        if self.producer_id < 0:
            await self._begin(connection)
        version = connection.version_of(0)
        style = self.clients.style
        sent: list[asyncio.Future[bytes]] = []
        if style.sends_together:
            connection.cork()
        for _, _, records in self.unacknowledged:
            sent.append(self._send(connection, version, records))
        while connection.is_open or (sent and sent[0].done()):  # what has come before the end is heard
            while (
                connection.is_open
                and not stop.is_set()
                and len(sent) < min(1 + rng.randrange(style.in_flight_max), IDEMPOTENT_IN_FLIGHT_MAX)
            ):
                sent.append(self._send(connection, version, self._next()))
            connection.uncork()
            if not sent:
                connection.close()
                return
            answer = _only(await connection.receive(ProduceResponse, sent.pop(0), 0, version))
            if not self._heard(answer):
                connection.close()
                await asyncio.sleep(RETRY_S)
                return
            if not style.sends_together:
                await asyncio.sleep(style.thinking_s * rng.random())
            elif await self._think(sent, style.thinking_s * rng.random(), version):
                connection.cork()
            else:
                connection.close()
                await asyncio.sleep(RETRY_S)
                return

    async def _think(self, sent: list[asyncio.Future[bytes]], seconds: float, version: int) -> bool:
        """Pause, but hear each answer as it comes: what it promises is promised then; False as `_heard`."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + seconds
        while sent and (left_s := until_s - loop.time()) > 0:
            done, _ = await asyncio.wait({sent[0]}, timeout=left_s)
            if not done:
                return True
            if sent[0].exception() is not None:
                return True  # the next one that waits for it says so
            answer = read_response(ProduceResponse, sent.pop(0).result(), 0, version)[1]
            if not self._heard(_only(answer)):
                return False
        await asyncio.sleep(max(0.0, until_s - loop.time()))
        return True

    async def _begin(self, connection: Connection) -> None:
        answer = await connection.ask(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), InitProducerIdResponse
        )
        if answer.error_code:
            if not self.clients.disk_has_failed():
                raise Violation(f"no producer id: {ErrorCode(answer.error_code).name}")
            raise NoAnswer("no producer id")
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        self.sequence = 0
        self.power_losses = self.facts.power_losses

    def _next(self) -> bytearray:
        self.number += 1
        values = values_of(self.clients.rng, self.clients.style, self.name, self.number)
        records = self.clients.batch(
            values, producer_id=self.producer_id, producer_epoch=self.producer_epoch, base_sequence=self.sequence
        )
        self.sequence += len(values)
        self.unacknowledged.append((self.number, values, records))
        return records

    def _send(self, connection: Connection, version: int, records: bytearray) -> asyncio.Future[bytes]:
        topic = self.clients.ledger.topics[self.topic]
        return connection.send(self.clients._produce_request(topic, self.index, -1, records), version)

    def _begin_anew(self) -> None:
        """Give up what is not acknowledged, as clients do that are refused, and take another id."""
        self.clients.trace.note(f"{self.name} begins anew")
        self.producer_id = -1
        self.unacknowledged.clear()

    def _heard(self, answer: PartitionProduceResponse) -> bool:
        """Take in one answer; False where everything must be sent again on another connection."""
        code = ErrorCode(answer.error_code)
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            _, values, _ = self.unacknowledged.pop(0)
            if code is ErrorCode.NONE:
                if answer.base_offset < 0:
                    raise Violation(f"{self.facts.name}: acknowledged with offset {answer.base_offset}")
                self.facts.acknowledge(answer.base_offset, values, answer.log_append_time_ms)
                self.clients.trace.note(f"acked {self.facts.name} {answer.base_offset} {len(values)} {self.name}")
            return True
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and (
            self.facts.power_losses > self.power_losses or self.clients.disk_has_failed()
        ):
            # What it had been told was written is gone with the power: it starts over, as clients do.
            self._begin_anew()
            return False
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and self.clients.was_forgotten(
            self.topic, self.index, self.unacknowledged[0][2]
        ):
            # A snapshot of the producers' states has the last batch of each, as Kafka's: of several that were in flight when
            # the broker ended, the others are in the log and not known again.
            self._begin_anew()
            return False
        if code in PASSING:
            return False
        raise Violation(f"{self.facts.name}: an idempotent batch was refused: {code.name}")


def _only(answer: ProduceResponse) -> PartitionProduceResponse:
    return answer.responses[0].partition_responses[0]


async def list_offset(connection: Connection, topic: str, index: int, timestamp: int) -> int | None:
    """Return one offset of a partition by timestamp, or None where the partition cannot be asked now."""
    answer = await ask_offset(connection, topic, index, timestamp)
    if answer.error_code and answer.error_code not in PASSING:
        raise Violation(f"offset of {topic}-{index} at {timestamp}: {ErrorCode(answer.error_code).name}")
    return None if answer.error_code else answer.offset


async def ask_offset(connection: Connection, topic: str, index: int, timestamp: int) -> ListOffsetsPartitionResponse:
    """Ask for one offset of a partition by timestamp."""
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=index, timestamp=timestamp)])
        ],
    )
    version = connection.version_of(2) if timestamp != MAX_TIMESTAMP else MAX_TIMESTAMP_FROM
    return (await connection.ask(request, ListOffsetsResponse, version)).topics[0].partitions[0]


def fetch_request(topic: TopicFacts, index: int, offset: int, *, max_bytes: int, max_wait_ms: int) -> FetchRequest:
    """Ask for one partition outside of a session."""
    partition = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic.name, topic_id=topic.topic_id, partitions=[partition])],
    )


async def fetch(
    connection: Connection, topic: TopicFacts, index: int, offset: int, *, max_bytes: int, max_wait_ms: int = 0
) -> PartitionData:
    """Fetch one partition outside of a session."""
    request = fetch_request(topic, index, offset, max_bytes=max_bytes, max_wait_ms=max_wait_ms)
    answer = await connection.ask(request, FetchResponse)
    if answer.error_code:
        raise Violation(f"fetch of {topic.name}-{index}: {ErrorCode(answer.error_code).name}")
    return answer.responses[0].partitions[0]


def rows_of(data: PartitionData, offset: int) -> list[Row]:
    """Return the whole records from an offset on; the last batch may be cut short."""
    return [
        (record.offset, bytes(record.value or b""), record.timestamp)
        for record in iter_records(data.records or b"")
        if record.offset >= offset
    ]


async def topics_of(connection: Connection) -> dict[str, tuple[bytes, int]]:
    """Return every topic: name → (id, partitions)."""
    answer = await connection.ask(MetadataRequest(topics=None), MetadataResponse, 12)
    return {topic.name: (topic.topic_id, len(topic.partitions)) for topic in answer.topics if topic.name is not None}


async def configs_of(connection: Connection, names: list[str]) -> dict[str, dict[str, str]]:
    """Return the topics' own configuration."""
    resources = [
        DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None)
        for name in names
    ]
    answer = await connection.ask(DescribeConfigsRequest(resources=resources), DescribeConfigsResponse)
    return {
        result.resource_name: {
            each.name: each.value or "" for each in result.configs if each.config_source == TOPIC_CONFIG_SOURCE
        }
        for result in answer.results
    }


async def read_everything(connection: Connection, ledger: Ledger, *, lost_power: bool) -> None:
    """Compare everything that the broker has after a start with what was promised."""
    found = await topics_of(connection)
    for name in [name for name, facts in ledger.topics.items() if not facts.certain]:
        if name not in found:
            ledger.deleted(name)
        else:
            ledger.grown(name, found[name][1])
            ledger.topics[name].certain = True
    ledger.check_topics(found)
    for name, configs in (await configs_of(connection, list(ledger.topics))).items():
        ledger.check_configs(name, configs)
    for (name, index), facts in ledger.partitions.items():
        topic = ledger.topics[name]
        start = await list_offset(connection, name, index, EARLIEST)
        end = await list_offset(connection, name, index, LATEST)
        if start is None or end is None:
            raise Violation(f"{facts.name} cannot be asked for its offsets after a start")
        rows: list[Row] = []
        while (at := start + len(rows)) < end:
            data = await fetch(connection, topic, index, at, max_bytes=1 << 20)
            more = rows_of(data, at)
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and "retention.bytes" in topic.configs:
                moved = await list_offset(connection, name, index, EARLIEST)
                if moved is not None and moved > at:  # retention has deleted what was next, and all before it
                    start, rows = moved, []
                    continue
            if data.error_code or not more:
                raise Violation(f"{facts.name}: a fetch at {at} of {end} brought error {data.error_code} and nothing")
            rows += more
        facts.came_back(start, end, rows, lost_power=lost_power)
        if rows and connection.rng.random() < LOOKED_UP_CHANCE:
            await _look_up(connection, facts, rows)


async def _look_up(connection: Connection, facts: PartitionFacts, rows: list[Row]) -> None:
    """Find records by time, as a walk over all of them does."""
    asked = rows[connection.rng.randrange(len(rows))][2] - connection.rng.randrange(2)
    expected = _first_since(rows, asked)
    topic, _, index = facts.name.rpartition("-")
    found = await ask_offset(connection, topic, int(index), asked)
    if (found.offset, found.timestamp) != expected:  # unless retention has deleted it meanwhile
        start = await list_offset(connection, topic, int(index), EARLIEST)
        rows = [each for each in rows if start is not None and each[0] >= start]
        expected = _first_since(rows, asked)
    if (found.offset, found.timestamp) != expected:
        raise Violation(f"{facts.name}: from time {asked} is {expected}, found was {(found.offset, found.timestamp)}")
    found = await ask_offset(connection, topic, int(index), MAX_TIMESTAMP)
    largest = max((timestamp for _, _, timestamp in rows), default=-1)
    if found.timestamp != largest or (found.offset, largest) not in [(offset, when) for offset, _, when in rows]:
        raise Violation(f"{facts.name}: the largest time is {largest}, found was {(found.offset, found.timestamp)}")


def _first_since(rows: list[Row], timestamp: int) -> tuple[int, int]:
    """Return (offset, timestamp) of the first record of this time or a later one; (-1, -1) where there is none."""
    return next(((offset, time) for offset, _, time in rows if time >= timestamp), (-1, -1))
