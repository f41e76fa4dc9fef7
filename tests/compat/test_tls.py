"""Clients that nobody here wrote, on a TLS listener that wants their certificates."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer

from tests import peer
from tests.security.authority import PASSWORD, Identity, authority, signed
from tests.security.tls_files import client_properties, listener_overrides
from tests.server import Server, running_server

pytestmark = pytest.mark.compat

CA = authority()
STRANGERS = authority("Strangers")
CLIENT = signed(CA, "client", hosts=())
RECORDS = [b"record %d" % i for i in range(50)]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A broker whose keys lie in a PKCS12 store, and that takes only clients whom its authority has signed."""
    folder = tmp_path_factory.mktemp("tls")
    (folder / "listener.p12").write_bytes(signed(CA, "broker").p12())
    store = ("type=PKCS12", f"location={folder / 'listener.p12'}", f"password={PASSWORD}")
    overrides = listener_overrides(
        folder, signed(CA, "broker"), CA, "ssl.client.auth=required", *(f"ssl.keystore.{each}" for each in store)
    )
    with running_server(folder, overrides=overrides) as running:
        yield running


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with the client's key and the authority that it trusts, as PEM."""
    client_properties(tmp_path, CA, CLIENT)
    return tmp_path


def librdkafka(server: Server, identity: Identity | None = CLIENT, trusted: Identity = CA) -> dict[str, str]:
    own = {} if identity is None else {"ssl.key.pem": identity.key_pem(), "ssl.certificate.pem": identity.chain_pem()}
    return {
        "bootstrap.servers": f"localhost:{server.port}",
        "security.protocol": "SSL",
        "ssl.ca.pem": trusted.chain_pem(),
        **own,
    }


def test_librdkafka_writes_and_reads_with_a_certificate(secured: Server, topic: str) -> None:
    admin = AdminClient(librdkafka(secured))
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    producer = Producer(librdkafka(secured))
    for each in RECORDS:
        producer.produce(topic, each)
    assert producer.flush(30) == 0
    consumer = Consumer({**librdkafka(secured), "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = []
    while len(found) < len(RECORDS):
        message = consumer.poll(30)
        assert message is not None and message.error() is None
        found.append(message.value())
    consumer.close()
    assert found == RECORDS


@pytest.mark.parametrize(("identity", "trusted"), [(None, CA), (signed(STRANGERS, "client"), CA), (CLIENT, STRANGERS)])
def test_librdkafka_gets_nowhere_without_trust_on_both_sides(
    secured: Server, identity: Identity | None, trusted: Identity
) -> None:
    admin = AdminClient(librdkafka(secured, identity, trusted))
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=3)


@pytest.mark.slow
def test_kafka_python_writes_and_reads_with_a_certificate(secured: Server, topic: str, files: Path) -> None:
    how = {
        "bootstrap_servers": f"localhost:{secured.port}",
        "security_protocol": "SSL",
        "ssl_cafile": str(files / "trusted.pem"),
        "ssl_certfile": str(files / "client.pem"),
        "ssl_keyfile": str(files / "client.pem"),
    }
    producer = KafkaProducer(**how)
    for each in RECORDS:
        producer.send(topic, each)
    producer.close(30)
    consumer = KafkaConsumer(topic, **how, auto_offset_reset="earliest", consumer_timeout_ms=30_000)
    found = []
    for record in consumer:
        found.append(record.value)
        if len(found) == len(RECORDS):
            break
    consumer.close()
    assert found == RECORDS


@pytest.mark.slow
def test_aiokafka_writes_and_reads_with_a_certificate(secured: Server, topic: str, files: Path) -> None:
    context = create_ssl_context(
        cafile=str(files / "trusted.pem"), certfile=str(files / "client.pem"), keyfile=str(files / "client.pem")
    )

    async def round_trip() -> list[bytes]:
        how = {"bootstrap_servers": f"localhost:{secured.port}", "security_protocol": "SSL", "ssl_context": context}
        async with AIOKafkaProducer(**how) as producer:
            for each in RECORDS:
                await producer.send_and_wait(topic, each)
        async with AIOKafkaConsumer(topic, **how, auto_offset_reset="earliest") as consumer:
            return [(await consumer.getone()).value for _ in RECORDS]

    assert asyncio.run(asyncio.wait_for(round_trip(), 100)) == RECORDS


@pytest.mark.slow
@pytest.mark.peer
@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
def test_javas_tools_write_and_read_with_stores_of_their_own_kinds(
    secured: Server, topic: str, tmp_path: Path, protocol: str
) -> None:
    (tmp_path / "client.p12").write_bytes(CLIENT.p12())
    config = tmp_path / "client.properties"
    config.write_text(
        "".join(
            f"{key}={value}\n"
            for key, value in {
                **client_properties(tmp_path, CA),
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": str(tmp_path / "client.p12"),
                "ssl.keystore.password": PASSWORD,
                "ssl.enabled.protocols": protocol,
                "ssl.protocol": protocol,
            }.items()
        )
    )
    at = ("--bootstrap-server", f"localhost:{secured.port}")
    lines = "".join(f"line {i}\n" for i in range(20))
    sent = peer.tool("console-producer", *at, "--command-config", str(config), "--topic", topic, stdin=lines)
    assert sent.returncode == 0, sent.stdout + sent.stderr
    read = ("--from-beginning", "--max-messages", "20", "--timeout-ms", "60000")
    found = peer.tool("console-consumer", *at, "--command-config", str(config), "--topic", topic, *read)
    assert found.stdout == lines, found.stdout + found.stderr
