"""A cluster in clear becomes a protected one, node by node, and no acknowledged record is missing (docs/security.md)."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from ottla.client import Client, Limits, NewTopic, create_topics, librdkafka_security
from tests.broker.sasl_client import PLAIN
from tests.cluster.nodes import LoopbackCluster
from tests.ports import free_ports
from tests.security.authority import authority, signed
from tests.security.tls_files import key_properties, trust_properties

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(900)]

CA = authority()
NODES = (1, 2, 3)
PASSWORD = "the-secret-of-nodes"
LOGIN = f'{PLAIN} required username="node" password="{PASSWORD}" user_node="{PASSWORD}" user_ann="a-secret";'
COPIES = (
    "offsets.topic.replication.factor=3",
    "min.insync.replicas=2",
    "offsets.topic.num.partitions=1",
    "group.initial.rebalance.delay.ms=0",
)
TOPIC = "t"


class Feeder:
    """A stranger's producer that goes on through everything; `acknowledged` is what it was promised."""

    def __init__(self, settings: dict[str, Any], name: str) -> None:
        self.acknowledged: set[bytes] = set()
        self.refused: list[str] = []
        self._producer = Producer({**settings, "enable.idempotence": True, "message.timeout.ms": 600_000})
        self._name, self._ended = name, threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()

    def _feed(self) -> None:
        count = 0
        while not self._ended.wait(0.01):
            self._producer.produce(TOPIC, f"{self._name} {count}".encode(), on_delivery=self._told)
            self._producer.poll(0)
            count += 1

    def _told(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged.add(message.value())
        else:
            self.refused.append(error.str())

    def end(self) -> None:
        self._ended.set()
        self._thread.join(30)
        assert self._producer.flush(120) == 0 and not self.refused, self.refused[:3]


class Walk:
    """The settings of a node at each step."""

    def __init__(self, cluster: LoopbackCluster, folder: Path) -> None:
        self._cluster, self._begun = cluster, {node: host.overrides for node, host in cluster.hosts.items()}
        self._ports = dict(zip(NODES, free_ports(len(NODES)), strict=True))
        stores = key_properties(folder, signed(CA, "node"), "node") | trust_properties(folder, CA)
        self._secured = (
            "sasl.enabled.mechanisms=PLAIN",
            "sasl.mechanism.inter.broker.protocol=PLAIN",
            "sasl.mechanism.controller.protocol=PLAIN",
            f"listener.name.secured.plain.sasl.jaas.config={LOGIN}",
            f"listener.name.controller.plain.sasl.jaas.config={LOGIN}",
            *(f"{key}={value}" for key, value in stores.items()),
        )

    def secured(self, node: int) -> str:
        """Return where a node lets in those who log in."""
        return f"127.0.0.1:{self._ports[node]}"

    def step(
        self, node: int, among: str, *, plain: bool, controllers: str = "PLAINTEXT", more: tuple[str, ...] = ()
    ) -> None:
        """Have a node start with two listeners, or the protected one alone; `among` is what brokers talk on."""
        listeners = [f"SECURED://{self.secured(node)}", f"CONTROLLER://{self._cluster.controller_address(node)}"]
        if plain:
            listeners.insert(0, f"PLAINTEXT://{self._cluster.client_address(node)}")
        protocols = f"CONTROLLER:{controllers},PLAINTEXT:PLAINTEXT,SECURED:SASL_SSL"
        self._cluster.hosts[node].overrides = (
            *self._begun[node],
            *self._secured,
            f"listeners={','.join(listeners)}",
            f"listener.security.protocol.map={protocols}",
            f"inter.broker.listener.name={among}",
            *more,
        )


def test_a_cluster_in_clear_becomes_a_protected_one_without_losing_a_record(tmp_path: Path) -> None:
    cluster = LoopbackCluster(tmp_path, COPIES)
    secured = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} required username="ann" password="a-secret";',
        **trust_properties(tmp_path, CA),
    }

    def is_whole() -> bool:
        leader = cluster.leader()
        if leader is None:
            return False
        topics = cluster.quorum(leader).image.topics.values()
        return all(len(each.isr) == len(NODES) for topic in topics for each in topic.partitions.values())

    async def restarted(*nodes: int) -> None:
        await cluster.stop(*nodes)
        await cluster.start(*nodes)
        await cluster.until(is_whole)

    async def test(cluster: LoopbackCluster) -> None:
        cluster.static(3)
        await cluster.start()
        walk = Walk(cluster, tmp_path)
        plain = ",".join(map(cluster.client_address, NODES))
        async with Client(plain, limits=Limits(call_s=60)) as client:
            await create_topics(client, [NewTopic(TOPIC, 3, 3)])
        await cluster.until(is_whole)
        before = Feeder({"bootstrap.servers": plain}, "before")
        for among in ("PLAINTEXT", "SECURED"):  # first a second listener, then brokers talk on it
            for node in NODES:
                walk.step(node, among, plain=True)
                await restarted(node)
        bootstrap = ",".join(map(walk.secured, NODES))
        after = Feeder({"bootstrap.servers": bootstrap, **librdkafka_security(secured)}, "after")
        await asyncio.to_thread(before.end)  # clients have moved
        for node in NODES:
            walk.step(node, "SECURED", plain=False)
            await restarted(node)
        for node in NODES:  # controllers speak one protocol on a port: they change together
            walk.step(node, "SECURED", plain=False, controllers="SASL_SSL")
        await restarted(*NODES)
        rules = (
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users=User:node;User:ann",
        )
        for node in NODES:
            walk.step(node, "SECURED", plain=False, controllers="SASL_SSL", more=rules)
            await restarted(node)
        await asyncio.to_thread(after.end)
        settings = {"bootstrap.servers": bootstrap, **librdkafka_security(secured)}
        found = await asyncio.to_thread(read_all, settings, before, after)
        assert len(found) == len(set(found))
        assert before.acknowledged | after.acknowledged == set(found)

    cluster.run(test)


def read_all(settings: dict[str, Any], *feeders: Feeder) -> list[bytes]:
    """Return every record, as somebody reads them who has nothing to do with who wrote them."""
    consumer = Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    wanted, found = sum(len(each.acknowledged) for each in feeders), list[bytes]()
    while len(found) < wanted:
        message = consumer.poll(60)
        assert message is not None, f"{len(found)} of {wanted} came"
        if message.error() is None:
            found.append(message.value() or b"")
    consumer.close()
    return found
