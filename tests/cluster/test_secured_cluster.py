"""Nodes that talk to each other in private only: TLS with certificates on both sides, or logins over TLS."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.base import ConfigError, TopicPartition
from ottla.client import Client, FetchPosition, Limits, client_network, create_topics
from ottla.client import NewTopic as OurTopic
from tests.broker.node_client import batch
from tests.broker.sasl_client import PLAIN
from tests.cluster.nodes import CLUSTER_ID, LoopbackCluster
from tests.ports import free_ports
from tests.security.authority import authority, signed
from tests.security.tls_files import client_properties, key_properties, trust_properties
from tests.waiting import until

CA = authority()
BROKER = signed(CA, "broker")
COPIES = (
    "offsets.topic.replication.factor=3",
    "transaction.state.log.replication.factor=3",
    "min.insync.replicas=2",
    "broker.session.timeout.ms=3000",
)
LOGIN = f'{PLAIN} required username="node" password="x" user_node="x" user_ann="y";'


def tls_settings(folder: Path) -> list[str]:
    """Return the settings of nodes that show each other certificates; listeners are told apart by name alone."""
    properties = key_properties(folder, BROKER, "node") | trust_properties(folder, CA)
    return [
        "listener.security.protocol.map=CONTROLLER:SSL,PLAINTEXT:SSL",
        "inter.broker.listener.name=PLAINTEXT",
        "ssl.client.auth=required",
        *(f"{key}={value}" for key, value in properties.items()),
        *COPIES,
    ]


def login_settings(folder: Path) -> list[str]:
    """Return the settings of nodes that log in to each other."""
    properties = key_properties(folder, BROKER, "node") | trust_properties(folder, CA)
    return [
        "listener.security.protocol.map=CONTROLLER:SASL_SSL,PLAINTEXT:SASL_SSL",
        "inter.broker.listener.name=PLAINTEXT",
        "sasl.enabled.mechanisms=PLAIN",
        "sasl.mechanism.inter.broker.protocol=PLAIN",
        "sasl.mechanism.controller.protocol=PLAIN",
        f"listener.name.plaintext.plain.sasl.jaas.config={LOGIN}",
        f"listener.name.controller.plain.sasl.jaas.config={LOGIN}",
        *(f"{key}={value}" for key, value in properties.items()),
        *COPIES,
    ]


def login_properties(folder: Path) -> dict[str, str]:
    """Return what a client says to such nodes."""
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} required username="ann" password="y";',
        **trust_properties(folder, CA),
    }


@pytest.mark.parametrize("logs_in", [False, True], ids=["certificates", "logins"])
def test_three_nodes_elect_replicate_and_go_on_without_one(tmp_path: Path, logs_in: bool) -> None:
    settings = login_settings(tmp_path) if logs_in else tls_settings(tmp_path)
    properties = login_properties(tmp_path) if logs_in else client_properties(tmp_path, CA, BROKER)
    cluster = LoopbackCluster(tmp_path, settings)

    async def test(cluster: LoopbackCluster) -> None:
        cluster.static(3)
        await cluster.start()
        bootstrap = ",".join(cluster.client_address(each) for each in cluster.hosts)
        limits = Limits(connect_s=30, request_s=30, call_s=60, unreachable_s=30)
        at = TopicPartition("t", 0)
        async with Client(bootstrap, limits=limits, network=client_network(properties)) as client:
            await create_topics(client, [OurTopic("t", 1, 3)])
            await client.produce({at: batch(b"before")})
            leader = (await client.metadata(["t"])).topics["t"].partitions[0].leader
            await cluster.stop(leader)
            await client.produce({at: batch(b"after")})
            found = b""
            while b"after" not in found:
                (answer,) = await client.fetch([FetchPosition(at, 0)])
                found = bytes(answer.records)
            assert b"before" in found

    cluster.run(test)


def test_a_node_without_a_known_certificate_does_not_join(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "strange").mkdir()
    stranger = key_properties(tmp_path / "strange", signed(authority("Strangers"), "broker"), "node")
    cluster = LoopbackCluster(tmp_path, tls_settings(tmp_path))

    async def test(cluster: LoopbackCluster) -> None:
        cluster.static(3)
        strange = cluster.hosts[3]
        strange.overrides += tuple(f"{key}={value}" for key, value in stranger.items())
        await cluster.start(1, 2)
        await cluster.start(3, wait=False)
        await cluster.until(lambda: "SSL handshake failed" in caplog.text)
        assert 3 not in cluster.quorum(1).image.brokers

    with caplog.at_level(logging.INFO):
        cluster.run(test)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("sasl.mechanism.controller.protocol=GSSAPI", "sasl.mechanism.controller.protocol"),
        ("sasl.mechanism.inter.broker.protocol=GSSAPI", "Kafka's default is GSSAPI"),
        (f'listener.name.controller.plain.sasl.jaas.config={PLAIN} required user_a="b";', "username and a password"),
        ("listener.name.controller.ssl.truststore.location=/nowhere", "/nowhere"),
    ],
)
def test_links_that_cannot_be_as_they_are_configured_keep_a_node_from_starting(
    tmp_path: Path, change: str, words: str
) -> None:
    cluster = LoopbackCluster(tmp_path, [*login_settings(tmp_path), change])

    async def test(cluster: LoopbackCluster) -> None:
        cluster.static(1)
        with pytest.raises(ConfigError, match=words):
            await cluster.start()
        cluster.hosts[1].node = None

    cluster.run(test)


@contextmanager
def processes(folder: Path) -> Iterator[tuple[list[int], dict[int, subprocess.Popen[str]]]]:
    """Run three nodes as processes of their own; yields their clients' ports, and the processes."""
    ports = free_ports(6)
    clients, controllers = ports[:3], ports[3:]
    voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in enumerate(controllers, 1))
    running: dict[int, subprocess.Popen[str]] = {}
    try:
        for node in (1, 2, 3):
            lines = [
                "process.roles=broker,controller",
                f"node.id={node}",
                f"listeners=PLAINTEXT://127.0.0.1:{clients[node - 1]},CONTROLLER://127.0.0.1:{controllers[node - 1]}",
                "controller.listener.names=CONTROLLER",
                f"controller.quorum.voters={voters}",
                f"log.dirs={folder / str(node)}",
                *tls_settings(folder),
            ]
            path = folder / f"{node}.properties"
            path.write_text("\n".join(lines))
            ottla = [sys.executable, "-m", "ottla.cli.main"]
            subprocess.run([*ottla, "storage", "format", "-t", CLUSTER_ID, "-c", path], check=True, cwd=folder)
            with (folder / f"{node}.out").open("w") as out:
                command = [*ottla, "server", "start", str(path)]
                running[node] = subprocess.Popen(command, stdout=out, stderr=out, cwd=folder, text=True)
        for node in running:
            until(lambda node=node: "ready " in (folder / f"{node}.out").read_text(), f"node {node}")  # type: ignore[misc]
        yield clients, running
    finally:
        for process in running.values():
            process.kill()
            process.wait()


@pytest.mark.slow
@pytest.mark.compat
def test_three_processes_lose_nothing_that_a_stranger_wrote_when_one_is_killed(tmp_path: Path) -> None:
    with processes(tmp_path) as (ports, running):
        how = {
            "bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in ports),
            "security.protocol": "SSL",
            "ssl.ca.pem": CA.chain_pem(),
            "ssl.key.pem": BROKER.key_pem(),
            "ssl.certificate.pem": BROKER.chain_pem(),
        }
        admin = AdminClient(how)
        admin.create_topics([NewTopic("t", 3, 3)])["t"].result(60)
        producer = Producer({**how, "enable.idempotence": True})
        for at in range(300):
            producer.produce("t", b"%d" % at)
            if at == 100:
                assert producer.flush(60) == 0
                running[1].send_signal(signal.SIGKILL)
        assert producer.flush(60) == 0
        consumer = Consumer({**how, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        found: set[bytes] = set()
        while len(found) < 300:
            message = consumer.poll(60)
            assert message is not None
            if message.error() is None:
                found.add(message.value() or b"")
        consumer.close()
        assert found == {b"%d" % at for at in range(300)}
