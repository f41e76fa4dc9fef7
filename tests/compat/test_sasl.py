"""Clients that nobody here wrote log in, and are refused where they should be."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
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
from tests import peer
from tests.security.authority import authority, signed
from tests.security.tls_files import key_properties, trust_properties
from tests.server import Server, running_server
from tests.waiting import until

pytestmark = pytest.mark.compat
USER, PASSWORD = "ann", "it's \\ a \"=secret"
QUOTED = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
MODULES = "org.apache.kafka.common.security."
UNSIGNED = f"{MODULES}oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
CA = authority()


def settings(folder: Path) -> Iterator[str]:
    """Yield the settings of a node where ann logs in on two listeners, for three seconds at a time."""
    yield f"listeners={','.join(f'{each}://127.0.0.1:0' for each in PROTOCOLS)}"
    yield "security.inter.broker.protocol=SASL_PLAINTEXT"
    yield "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
    yield "connections.max.reauth.ms=3000"
    yield "delegation.token.secret.key=the cluster's own"
    for name in map(str.lower, PROTOCOLS):
        plain = f'{MODULES}plain.PlainLoginModule required user_{USER}="{QUOTED}";'
        yield f"listener.name.{name}.plain.sasl.jaas.config={plain}"
        yield f"listener.name.{name}.oauthbearer.sasl.server.callback.handler.class={UNSIGNED}"
    for key, value in key_properties(folder, signed(CA, "broker"), "listener").items():
        yield f"{key}={value}"


@dataclass(frozen=True)
class Target:
    """One listener of a running server."""

    server: Server
    protocol: str
    bootstrap: str
    authority: str
    """A file with whom its certificate is signed by."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with users of every mechanism."""
    folder = tmp_path_factory.mktemp("sasl")
    trust_properties(folder, CA)
    format_command = ["storage", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "--override", f"log.dirs={folder / 'data'}"]
    for mechanism in MECHANISMS[1:]:
        format_command += ["--add-scram", f"{mechanism}=[name={USER},password={PASSWORD}]"]
    (folder / "server.properties").write_text("")
    assert main([*format_command, "-c", str(folder / "server.properties")]) == 0
    with running_server(folder, overrides=[*settings(folder)]) as running:
        yield running


@pytest.fixture(params=PROTOCOLS)
def target(request: pytest.FixtureRequest, server: Server) -> Target:
    """Each listener of the server."""
    begin = f"ready {request.param}://"
    line = until(lambda: next((each for each in server.lines if each.startswith(begin)), ""))
    return Target(server, request.param, line.removeprefix(begin).strip(), str(server.folder / "trusted.pem"))


def by_librdkafka(target: Target, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    return {
        "bootstrap.servers": target.bootstrap,
        "security.protocol": target.protocol,
        "ssl.ca.location": target.authority,
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": password,
    }


def by_python(target: Target, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    return {
        "bootstrap_servers": target.bootstrap,
        "security_protocol": target.protocol,
        "ssl_context": ssl.create_default_context(cafile=target.authority) if target.protocol == "SASL_SSL" else None,
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": password,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka_writes_and_reads(target: Target, topic: str, mechanism: str) -> None:
    producer = Producer(by_librdkafka(target, mechanism))
    for number in range(100):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(30) == 0
    consumer = Consumer(by_librdkafka(target, mechanism) | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = []
    while len(found) < 100:
        record = consumer.poll(30)
        assert record is not None and record.error() is None
        found.append(record.value())
    consumer.close()
    assert found == [b"%d" % number for number in range(100)]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_writes_and_reads(target: Target, topic: str, mechanism: str) -> None:
    producer = KafkaProducer(**by_python(target, mechanism))
    producer.send(topic, b"value").get(30)
    producer.close(30)
    consumer = KafkaConsumer(**by_python(target, mechanism), consumer_timeout_ms=30_000)
    partition = KafkaPythonPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    assert next(consumer).value == b"value"
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_writes_and_reads(target: Target, topic: str, mechanism: str) -> None:
    async def test() -> None:
        async with AIOKafkaProducer(**by_python(target, mechanism)) as producer:
            await producer.send_and_wait(topic, b"value")
        async with AIOKafkaConsumer(**by_python(target, mechanism), group_id=None) as consumer:
            partition = TopicPartition(topic, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            assert (await consumer.getone()).value == b"value"

    asyncio.run(asyncio.wait_for(test(), 60))


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka_renews_its_login_on_the_open_connection(target: Target, topic: str, mechanism: str) -> None:
    """librdkafka renews a login of three seconds before it ends, and loses nothing while it goes on writing."""
    failed: list[Any] = []
    disconnected: list[KafkaError] = []
    producer = Producer(by_librdkafka(target, mechanism) | {"error_cb": disconnected.append})
    end = time.monotonic() + 5
    while time.monotonic() < end:
        producer.produce(topic, b"value", callback=lambda error, _: failed.append(error) if error else None)
        producer.poll(0.2)
    assert producer.flush(30) == 0
    assert not failed and not disconnected
    assert "was not renewed" not in "".join(target.server.lines)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_told_to_every_client(target: Target, mechanism: str) -> None:
    seen: list[KafkaError] = []
    admin = AdminClient(by_librdkafka(target, mechanism, "wrong") | {"error_cb": seen.append})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=2)
    admin.poll(1)
    assert KafkaError._AUTHENTICATION in {each.code() for each in seen}
    with pytest.raises(KafkaPythonError):
        KafkaProducer(**by_python(target, mechanism, "wrong"), bootstrap_timeout_ms=1000)

    async def test() -> None:
        producer = AIOKafkaProducer(**by_python(target, mechanism, "wrong"))
        with pytest.raises(AiokafkaError):
            await producer.start()
        await producer.stop()

    asyncio.run(asyncio.wait_for(test(), 60))
    assert PASSWORD not in "".join(target.server.lines) and "Traceback" not in "".join(target.server.lines)


def java_login(mechanism: str) -> str:
    """Return the JAAS entry of ann for Java's clients."""
    if mechanism == "OAUTHBEARER":
        return f'{MODULES}oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="{USER}";'
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return f'{MODULES}{module} required username="{USER}" password="{QUOTED}";'


def java_properties(target: Target, folder: Path, mechanism: str, login: str) -> str:
    """Write what Java's clients are told, and return where."""
    lines = [
        f"bootstrap.servers={target.bootstrap}",
        f"security.protocol={target.protocol}",
        f"ssl.truststore.type=PEM\nssl.truststore.location={target.authority}" if target.protocol == "SASL_SSL" else "",
        f"sasl.mechanism={mechanism}",
        "sasl.jaas.config=" + login.replace("\\", "\\\\"),
    ]
    path = folder / f"{mechanism}.properties"
    path.write_text("\n".join(lines))
    return str(path)


@pytest.mark.slow
@pytest.mark.peer
def test_java_logs_in_renews_its_login_and_uses_delegation_tokens(target: Target, topic: str, tmp_path: Path) -> None:
    with peer.one_jvm() as tool:

        def run(name: str, *args: str) -> str:
            done = tool(name, *args)
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        at = ("--bootstrap-server", target.bootstrap, "--command-config")
        for mechanism in (*MECHANISMS, "OAUTHBEARER"):
            named = java_properties(target, tmp_path, mechanism, java_login(mechanism))
            own = f"{topic}-{mechanism}"
            run("topics", *at, named, "--create", "--topic", own)
            slowly = ("--num-records", "500", "--record-size", "100", "--throughput", "100")  # longer than a login
            assert "500 records sent" in run("producer-perf", "--topic", own, *slowly, "--command-config", named)
            assert run("get-offsets", *at, named, "--topic", own).strip() == f"{own}:0:500"
        plain = java_properties(target, tmp_path, "PLAIN", java_login("PLAIN"))
        made = run("delegation-tokens", *at, plain, "--create", "--max-life-time-period", "-1").splitlines()[-1].split()
        bearer = f'{MODULES}scram.ScramLoginModule required username="{made[0]}" password="{made[1]}" tokenauth="true";'
        named = java_properties(target, tmp_path, "SCRAM-SHA-512", bearer)
        assert f"{topic}-PLAIN" in run("topics", *at, named, "--list").split()
        refused = tool("delegation-tokens", *at, named, "--describe")
        assert refused.returncode == 1 and "DelegationTokenAuthorizationException" not in refused.stderr
        assert "not allowed on PLAINTEXT/1-way SSL channels and on delegation token" in refused.stderr
    assert "was not renewed" not in "".join(target.server.lines)
