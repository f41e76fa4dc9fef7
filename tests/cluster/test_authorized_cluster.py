"""A cluster in which nobody but the administrator is a super user: brokers have a broker's right, clients what ACLs say."""

from __future__ import annotations

import asyncio
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.admin import create_acls
from ottla.client import BlockingClient, client_network
from ottla.security import CLUSTER_NAME, Acl, Operation, PatternType, PermissionType, Resource
from tests.broker.sasl_client import PLAIN
from tests.cluster.nodes import LoopbackCluster
from tests.waiting import until

USERS = ("admin", "controller", "broker", "ann", "bob", "eve")


def login(user: str) -> str:
    """Return a node's own login, and everybody else's."""
    return (
        f'{PLAIN} required username="{user}" password="{user}" '
        + " ".join(f'user_{each}="{each}"' for each in USERS)
        + ";"
    )


def settings(user: str) -> list[str]:
    return [
        "listener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
        "inter.broker.listener.name=PLAINTEXT",
        "sasl.enabled.mechanisms=PLAIN",
        "sasl.mechanism.inter.broker.protocol=PLAIN",
        "sasl.mechanism.controller.protocol=PLAIN",
        f"listener.name.plaintext.plain.sasl.jaas.config={login(user)}",
        f"listener.name.controller.plain.sasl.jaas.config={login(user)}",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:admin;User:controller",
        "offsets.topic.replication.factor=2",
        "offsets.topic.num.partitions=3",
        "transaction.state.log.replication.factor=2",
        "transaction.state.log.num.partitions=3",
        "transaction.state.log.min.isr=2",
        "group.initial.rebalance.delay.ms=0",
    ]


def entry(user: str, operation: Operation, resource: Resource, name: str) -> Acl:
    what = resource, name, PatternType.LITERAL
    return Acl(*what, f"User:{user}", "*", operation, PermissionType.ALLOW)


BROKERS = [
    entry("broker", each, Resource.CLUSTER, CLUSTER_NAME) for each in (Operation.CLUSTER_ACTION, Operation.CREATE)
]
"""What brokers need: their own right, and one to make the internal topics."""
CLIENTS = [
    entry("ann", Operation.WRITE, Resource.TOPIC, "t"),
    entry("ann", Operation.WRITE, Resource.TRANSACTIONAL_ID, "tx"),
    entry("bob", Operation.READ, Resource.TOPIC, "t"),
    entry("bob", Operation.READ, Resource.GROUP, "g"),
]


def give(address: str, acls: list[Acl], *, of_controllers: bool) -> None:
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    properties["sasl.jaas.config"] = f'{PLAIN} required username="admin" password="admin";'
    network = client_network(properties)
    with BlockingClient(address, of_controllers=of_controllers, network=network) as client:
        create_acls(client, acls)


def of(user: str, bootstrap: str, **more: str) -> dict[str, str]:
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": user,
        **more,
    }


def write_and_read(bootstrap: str) -> None:
    admin = AdminClient(of("admin", bootstrap))
    admin.create_topics([NewTopic("t", 2, 2), NewTopic("other", 1, 2)])["t"].result(60)
    producer = Producer(of("ann", bootstrap) | {"transactional.id": "tx", "acks": "all"})
    producer.init_transactions(60)
    producer.begin_transaction()
    for at in range(20):
        producer.produce("t", str(at), partition=at % 2)
    producer.commit_transaction(60)
    reader = of("bob", bootstrap) | {
        "group.id": "g",
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
    consumer = Consumer(reader)
    consumer.subscribe(["t"])
    found: list[str] = []
    until(lambda: found.append(read) or len(found) == 20 if (read := _next(consumer)) else False, lambda: found)
    consumer.commit(asynchronous=False)
    assert sorted(map(int, found)) == list(range(20))
    assert set(consumer.list_topics(timeout=30).topics) == {"t"}
    consumer.close()
    eve = Consumer(of("eve", bootstrap) | {"group.id": "g"})
    assert eve.list_topics(timeout=30).topics == {}
    eve.close()
    errors: list[int] = []
    intruder = Producer(of("eve", bootstrap))
    intruder.produce("t", "x", on_delivery=lambda error, _: errors.append(error.code()))
    intruder.flush(30)
    assert errors == [KafkaError.TOPIC_AUTHORIZATION_FAILED]


def _next(consumer: Consumer) -> str | None:
    message = consumer.poll(0.2)
    return None if message is None or message.error() else message.value().decode()


def test_brokers_with_a_brokers_right_serve_clients_with_theirs(tmp_path: Path) -> None:
    cluster = LoopbackCluster(tmp_path, ())

    async def test(cluster: LoopbackCluster) -> None:
        quorum = cluster.static_voters([1])
        cluster.add(1, roles="controller", quorum=quorum, settings=settings("controller"))
        for each in (2, 3):
            cluster.add(each, roles="broker", quorum=quorum, settings=settings("broker"))
        await cluster.start(1)
        await asyncio.to_thread(give, cluster.controller_address(1), BROKERS, of_controllers=True)
        await cluster.start(2, 3)
        bootstrap = f"{cluster.client_address(2)},{cluster.client_address(3)}"
        await asyncio.to_thread(give, bootstrap, CLIENTS, of_controllers=False)
        await asyncio.to_thread(write_and_read, bootstrap)

    cluster.run(test)
