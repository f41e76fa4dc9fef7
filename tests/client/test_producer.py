"""`Producer` on a broker of our own, and on one that loses what it is sent: order, sequences, halves, what ends it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ottla.base import ErrorCode, KafkaError, Millis, Offset, TopicPartition
from ottla.client import (
    BlockingClient,
    Client,
    FetchPosition,
    Isolation,
    Limits,
    Producer,
    ProducerOptions,
    RecordTooLargeError,
    SettledBatch,
    TransactionalProducer,
    encode_records,
)
from ottla.wire import ApiKey, Codec, Record, iter_records, read_batch_header
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.init_producer_id import InitProducerIdResponse
from ottla.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tests.client.scripted import offers, scripted_broker
from tests.server import running_server

NOW_MS = time.time_ns() // 1_000_000
HASTY = Limits(connect_s=2, request_s=0.2, call_s=5, backoff_s=0.01)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingClient]:
    with running_server(tmp_path_factory.mktemp("producer")) as server, BlockingClient(server.bootstrap) as opened:
        yield opened


def make(client: BlockingClient, name: str, partitions: int = 1, **configs: str) -> TopicPartition:
    """Create a topic and return its first partition."""
    wanted = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=wanted)
    response = client.request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), controller=True)
    assert response.topics[0].error_code == 0
    return TopicPartition(name, 0)


def stored(client: BlockingClient, place: TopicPartition) -> list[bytes | None]:
    position = FetchPosition(place, Offset(0))
    [found] = client.fetch([position], max_wait_ms=0, isolation=Isolation.READ_COMMITTED)
    return [each.value for each in iter_records(found.check().records)]


def gather(producer: Producer, place: TopicPartition, *values: bytes, token: object = None) -> None:
    records = [Record(timestamp=Millis(NOW_MS + n), value=value) for n, value in enumerate(values)]
    producer.gather(encode_records(place, records), token)


@pytest.mark.parametrize(
    "options",
    [
        ProducerOptions(),
        ProducerOptions(codec=Codec.LZ4),
        ProducerOptions(acks=1, idempotent=False, in_flight_max=1),
    ],
    ids=["idempotent", "compressed", "plain"],
)
def test_batches_are_stored_in_their_order_and_settled_with_their_offsets(
    client: BlockingClient, options: ProducerOptions, request: pytest.FixtureRequest
) -> None:
    first = make(client, f"ordered-{request.node.callspec.id}", 2)
    second = TopicPartition(first.topic, 1)
    settled: list[SettledBatch] = []

    async def write() -> None:
        producer = Producer(client.client, options, settled=settled.append)
        await producer.start()
        assert producer.is_idle
        for number in range(20):
            for place in (first, second):
                gather(producer, place, b"%d" % number, b"and", token=number)
                if producer.is_full:
                    await producer.send_full()
        await producer.flush()
        assert producer.is_idle
        await producer.close()

    client.run(write())
    expected = [value for number in range(20) for value in (b"%d" % number, b"and")]
    for place in (first, second):
        mine = [each for each in settled if each.partition == place]
        assert [(each.token, each.first, each.count, each.error) for each in mine] == [
            (number, 0, 2, None) for number in range(20)
        ]
        assert [each.base_offset for each in mine] == list(range(0, 40, 2))
        assert stored(client, place) == expected


@pytest.mark.parametrize("transactional", [False, True])
def test_a_batch_that_its_topic_does_not_take_is_sent_in_halves(client: BlockingClient, transactional: bool) -> None:
    place = make(client, f"small-{transactional}".lower(), max_message_bytes="2000")
    settled: list[SettledBatch] = []
    values = [b"%02d" % number + b"x" * 300 for number in range(20)]

    async def write() -> None:
        by = TransactionalProducer(client.client, "halves", timeout_ms=60_000) if transactional else None
        if by is not None:
            await by.begin()
        producer = Producer(client.client, ProducerOptions(), transaction=by, settled=settled.append)
        await producer.start()
        for first in range(0, 20, 10):
            gather(producer, place, *values[first : first + 10], token=first)
        gather(producer, place, b"small", token=20)
        await producer.flush()
        if by is not None:
            await producer.end(commit=True)
        await producer.close()

    client.run(write())
    assert stored(client, place)[:21] == [*values, b"small"]
    for token in (0, 10):
        parts = [each for each in settled if each.token == token]
        assert len(parts) > 1 and sum(each.count for each in parts) == 10
        assert [each.first for each in parts] == [sum(one.count for one in parts[:n]) for n in range(len(parts))]


def test_a_record_that_its_topic_does_not_take_ends_the_producer(client: BlockingClient) -> None:
    place = make(client, "refusing", max_message_bytes="2000")
    settled: list[SettledBatch] = []

    async def write() -> None:
        failed: list[BaseException] = []
        options = ProducerOptions()
        producer = Producer(client.client, options, settled=settled.append, failed=failed.append)
        await producer.start()
        gather(producer, place, b"small")
        gather(producer, place, b"x" * 3000, token="large")
        with pytest.raises(RecordTooLargeError, match=r"a record for refusing-0 has 30\d\d bytes, .* takes 2000"):
            await producer.flush()
        assert [producer.error] == failed
        gather(producer, place, b"behind")
        with pytest.raises(RecordTooLargeError):
            await producer.send()
        await producer.close()

    client.run(write())
    assert [each.token for each in settled if each.error is not None] == ["large"]
    assert stored(client, place) == [b"small"]


def test_a_producer_that_goes_on_sends_what_is_behind_a_refused_record(client: BlockingClient) -> None:
    place = make(client, "going-on", max_message_bytes="2000")
    settled: list[SettledBatch] = []

    async def write() -> None:
        options = ProducerOptions(goes_on=True, delivery_timeout_ms=10_000, record_bytes_max=10_000)
        producer = Producer(client.client, options, settled=settled.append)
        await producer.start()
        for number in range(10):
            gather(producer, place, b"x" * 3000 if number == 3 else b"%d" % number, token=number)
        gather(producer, place, b"y" * 20_000, token="too large to be sent")
        await producer.flush()
        await producer.close()

    client.run(write())
    assert stored(client, place) == [b"%d" % number for number in range(10) if number != 3]
    errors = {each.token: str(each.error) for each in settled if each.error is not None}
    assert list(errors) == ["too large to be sent", 3] or list(errors) == [3, "too large to be sent"]
    assert "this client sends 10000: raise max.request.size" in errors["too large to be sent"]


def test_what_is_forgotten_leaves_no_gap_in_the_sequences(client: BlockingClient) -> None:
    place = make(client, "forgotten")

    async def write() -> None:
        producer = Producer(client.client, ProducerOptions())
        await producer.start()
        gather(producer, place, b"sent")
        await producer.flush()
        for token in ("one", "two"):
            gather(producer, place, b"forgotten", token=token)
        assert producer.forget() == ["one", "two"] and producer.is_idle
        gather(producer, place, b"sent too")
        await producer.flush()
        await producer.close()

    client.run(write())
    assert stored(client, place) == [b"sent", b"sent too"]


def test_two_transactions_follow_each_other(client: BlockingClient) -> None:
    place = make(client, "transactions")

    async def write() -> None:
        by = TransactionalProducer(client.client, "two", timeout_ms=60_000)
        await by.begin()
        producer = Producer(client.client, ProducerOptions(), transaction=by)
        await producer.start()
        for value, commit in ((b"kept", True), (b"dropped", False), (b"kept too", True)):
            gather(producer, place, value)
            await producer.flush()
            await producer.end(commit=commit)
        await producer.close()
        await by.begin()  # returns when every marker is written

    client.run(write())
    found = [each for each in stored(client, place) if each in (b"kept", b"kept too")]
    assert found == [b"kept", b"kept too"]


def answered(request: Any, *, error: ErrorCode = ErrorCode.NONE) -> ProduceResponse:
    [topic] = request.topic_data
    parts = [PartitionProduceResponse(index=0, base_offset=0, error_code=int(error))]
    return ProduceResponse(
        responses=[TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=parts)]
    )


def sequence(request: Any) -> int:
    [topic] = request.topic_data
    return read_batch_header(bytes(topic.partition_data[0].records), 0).base_sequence


async def on_script(answers: list[Any], batches: int) -> tuple[list[int], list[SettledBatch]]:
    """Send batches of one record to a broker that gives these answers to its Produces, in turn, and then acknowledges.

    Returns the sequences of the batches as the broker saw them, and what became of each.
    """
    settled: list[SettledBatch] = []
    sequences: list[int] = []

    def produced(request: Any, version: int) -> Any:
        sequences.append(sequence(request))
        return answers.pop(0)(request) if answers else answered(request)

    async with script_of(produced) as client:
        producer = Producer(client, ProducerOptions(), settled=settled.append)
        await producer.start()
        for number in range(batches):
            gather(producer, TopicPartition("words", 0), b"%d" % number, token=number)
            if producer.is_full:
                await producer.send_full()
        await producer.flush()
        await producer.close()
        return sequences, settled


@asynccontextmanager
async def script_of(produced: Callable[[Any, int], Any]) -> AsyncIterator[Client]:
    """Yield a client of a broker that answers Produces so."""
    script: dict[int, Any] = {
        ApiKey.API_VERSIONS: offers({ApiKey.API_VERSIONS: 4, ApiKey.METADATA: 12, ApiKey.PRODUCE: 9, 22: 4}),
        ApiKey.INIT_PRODUCER_ID: lambda request, version: InitProducerIdResponse(producer_id=7, producer_epoch=0),
        ApiKey.PRODUCE: produced,
    }
    async with scripted_broker(script) as broker, Client(f"127.0.0.1:{broker.port}", limits=HASTY) as client:
        script[ApiKey.METADATA] = lambda request, version: broker.metadata([1])
        yield client


def test_nothing_overtakes_the_first_batch_of_a_partition() -> None:
    def lost(request: Any) -> bytes:
        return b"\xff" * 8  # no answer at all: the connection ends with it

    sequences, settled = asyncio.run(on_script([lost], 4))
    assert sequences == [0, 0, 1, 2, 3]  # a broker that does not know the producer would have taken 1 as its first
    assert [each.token for each in settled] == [0, 1, 2, 3]


def test_what_is_behind_a_batch_out_of_order_is_sent_again_behind_it() -> None:
    def out_of_order(request: Any) -> ProduceResponse:
        return answered(request, error=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)

    sequences, settled = asyncio.run(on_script([answered, out_of_order, out_of_order], 3))
    assert sequences == [0, 1, 2, 1, 2]
    assert [(each.token, each.error) for each in settled] == [(0, None), (1, None), (2, None)]


def test_a_flush_waits_for_what_is_sent_again_one_after_the_other() -> None:
    async def test() -> list[Any]:
        again, settled = asyncio.Event(), list[SettledBatch]()
        answers: list[Callable[[Any], ProduceResponse]] = [
            answered,
            lambda request: answered(request, error=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
            lambda request: answered(request, error=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ]

        def produced(request: Any, version: int) -> ProduceResponse:
            if answers:
                return answers.pop(0)(request)
            again.set()
            return answered(request)

        async with script_of(produced) as client:
            producer = Producer(client, ProducerOptions(), settled=settled.append)
            await producer.start()
            for number in range(3):
                gather(producer, TopicPartition("words", 0), b"%d" % number, token=number)
                await producer.send()
            await again.wait()
            assert not producer.is_idle
            await producer.flush()
            found = [each.token for each in settled]
            await producer.close()
            return found

    assert asyncio.run(test()) == [0, 1, 2]


def test_a_duplicate_has_been_stored_already() -> None:
    def duplicate(request: Any) -> ProduceResponse:
        return answered(request, error=ErrorCode.DUPLICATE_SEQUENCE_NUMBER)

    _, settled = asyncio.run(on_script([answered, duplicate, duplicate], 2))
    assert [(each.token, each.base_offset, each.error) for each in settled] == [(0, 0, None), (1, -1, None)]


def test_an_error_that_no_repetition_mends_ends_the_producer_at_once() -> None:
    def forbidden(request: Any) -> ProduceResponse:
        return answered(request, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    with pytest.raises(KafkaError) as caught:
        asyncio.run(on_script([forbidden], 1))
    assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
