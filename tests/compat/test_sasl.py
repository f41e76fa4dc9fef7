"""Clients that nobody here wrote log in, and are refused where they should be."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPythonPartition
from kafka.errors import KafkaError as KafkaPythonError

from ottla.cli.main import main
from tests.server import Server, running_server

pytestmark = pytest.mark.compat
USER, PASSWORD = "ann", "it's \\ a \"=secret"
QUOTED = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
SETTINGS = (
    "listeners=SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol=SASL_PLAINTEXT",
    "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "connections.max.reauth.ms=3000",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config="
    f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{QUOTED}";',
)
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server where ann logs in by every mechanism, for three seconds at a time."""
    folder = tmp_path_factory.mktemp("sasl")
    format_command = ["storage", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "--override", f"log.dirs={folder / 'data'}"]
    for mechanism in MECHANISMS[1:]:
        format_command += ["--add-scram", f"{mechanism}=[name={USER},password={PASSWORD}]"]
    (folder / "server.properties").write_text("")
    assert main([*format_command, "-c", str(folder / "server.properties")]) == 0
    with running_server(folder, overrides=SETTINGS) as running:
        yield running


def by_librdkafka(server: Server, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    return {
        "bootstrap.servers": server.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": password,
    }


def by_python(server: Server, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    return {
        "bootstrap_servers": server.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": password,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka_writes_and_reads(server: Server, topic: str, mechanism: str) -> None:
    producer = Producer(by_librdkafka(server, mechanism))
    for number in range(100):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(30) == 0
    consumer = Consumer(by_librdkafka(server, mechanism) | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = []
    while len(found) < 100:
        record = consumer.poll(30)
        assert record is not None and record.error() is None
        found.append(record.value())
    consumer.close()
    assert found == [b"%d" % number for number in range(100)]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_writes_and_reads(server: Server, topic: str, mechanism: str) -> None:
    producer = KafkaProducer(**by_python(server, mechanism))
    producer.send(topic, b"value").get(30)
    producer.close(30)
    consumer = KafkaConsumer(**by_python(server, mechanism), consumer_timeout_ms=30_000)
    partition = KafkaPythonPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    assert next(consumer).value == b"value"
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_writes_and_reads(server: Server, topic: str, mechanism: str) -> None:
    async def test() -> None:
        async with AIOKafkaProducer(**by_python(server, mechanism)) as producer:
            await producer.send_and_wait(topic, b"value")
        async with AIOKafkaConsumer(**by_python(server, mechanism), group_id=None) as consumer:
            partition = TopicPartition(topic, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            assert (await consumer.getone()).value == b"value"

    asyncio.run(asyncio.wait_for(test(), 60))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka_renews_its_login_on_the_open_connection(server: Server, topic: str, mechanism: str) -> None:
    """librdkafka renews a login of three seconds before it ends, and loses nothing while it goes on writing."""
    failed: list[Any] = []
    disconnected: list[KafkaError] = []
    producer = Producer(by_librdkafka(server, mechanism) | {"error_cb": disconnected.append})
    end = time.monotonic() + 5
    while time.monotonic() < end:
        producer.produce(topic, b"value", callback=lambda error, _: failed.append(error) if error else None)
        producer.poll(0.2)
    assert producer.flush(30) == 0
    assert not failed and not disconnected


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_told_to_every_client(server: Server, mechanism: str) -> None:
    seen: list[KafkaError] = []
    admin = AdminClient(by_librdkafka(server, mechanism, "wrong") | {"error_cb": seen.append})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=2)
    admin.poll(1)
    assert KafkaError._AUTHENTICATION in {each.code() for each in seen}
    with pytest.raises(KafkaPythonError):
        KafkaProducer(**by_python(server, mechanism, "wrong"), bootstrap_timeout_ms=1000)

    async def test() -> None:
        producer = AIOKafkaProducer(**by_python(server, mechanism, "wrong"))
        with pytest.raises(AiokafkaError):
            await producer.start()
        await producer.stop()

    asyncio.run(asyncio.wait_for(test(), 60))
    assert PASSWORD not in "".join(server.lines) and "Traceback" not in "".join(server.lines)
