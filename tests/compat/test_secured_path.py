"""A whole path where nothing is in clear and nobody may do more than docs/security.md gives to him.

PostgreSQL → JDBC source → topics → a Streams join → S3 sink, on three nodes that log in to each other over TLS.
The worker, each connector and the application have a user each. A capture of everything that Kafka's protocol, Connect and
Spark say on loopback shows no password and no record.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from ottla.client import librdkafka_security
from tests.cluster.nodes import CLUSTER_ID
from tests.connect.chaos.parts import Worker
from tests.connect.rest.asked import ask_once
from tests.connect.rest.calls import Call
from tests.connectors.s3_server import KEYS, S3Server, running_s3
from tests.ports import free_ports
from tests.processes import end
from tests.security.authority import authority, signed
from tests.security.tls_files import key_properties, trust_properties
from tests.waiting import until
from tools.postgres import PASSWORD as DATABASE_PASSWORD
from tools.postgres import USER as DATABASE_USER
from tools.postgres import PostgresServer, missing, private_cluster

pytestmark = [pytest.mark.slow, pytest.mark.compat, pytest.mark.spark, pytest.mark.timeout(1500)]

SECONDS_MAX = 400.0
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
JSON = "org.apache.kafka.connect.json.JsonConverter"
USERS = ("node", "admin", "worker", "orders", "shop", "archive")
PASSWORDS = {each: f"the-secret-of-{each}" for each in USERS}
MARK = "Zanzibar"
"""What every record holds, and nobody shall see on the way."""
CUSTOMERS, ORDERS, ENRICHED = "shop-customers", "shop-orders", "enriched"
COUNT, CUSTOMERS_COUNT = 30, 3
CANARY = "a bird in a mine"

R, W, CREATE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DESCRIBE
DELETE, CONFIGS = AclOperation.DELETE, AclOperation.DESCRIBE_CONFIGS
TOPIC, GROUP, IDS = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED

RIGHTS: Mapping[str, Sequence[tuple[Any, str, Any, Sequence[Any]]]] = {
    "worker": (
        (TOPIC, "connect-", PREFIXED, (R, W, CREATE, CONFIGS)),
        (GROUP, "secured-connect", LITERAL, (R,)),
        (IDS, "connect-cluster-secured-connect", LITERAL, (W,)),
        (IDS, "secured-connect-", PREFIXED, (W,)),
    ),
    "orders": (
        (TOPIC, "shop-", PREFIXED, (W,)),
        (TOPIC, "connect-offset", LITERAL, (W,)),
        (IDS, "secured-connect-source-", PREFIXED, (W,)),
    ),
    "shop": (
        (TOPIC, "shop-", PREFIXED, (R,)),
        (TOPIC, ENRICHED, LITERAL, (W,)),
        (TOPIC, "enricher-", PREFIXED, (R, W, CREATE, DELETE, CONFIGS)),
        (GROUP, "enricher", LITERAL, (R,)),
        (IDS, "enricher-", PREFIXED, (W,)),
    ),
    "archive": ((TOPIC, ENRICHED, LITERAL, (R,)), (GROUP, "connect-sink-s3", LITERAL, (R,))),
}
"""As docs/security.md has it; nobody else may do anything."""

APPLICATION = """
from ottla.streams import StreamsBuilder

settings = {"application.id": "enricher", "processing.guarantee": "exactly_once_v2", "commit.interval.ms": "500"}


def build(builder: StreamsBuilder) -> None:
    customers = builder.table("shop-customers", key_serde="json", value_serde="json")
    orders = builder.stream("shop-orders", key_serde="json", value_serde="json")
    enriched = orders.join(customers, lambda order, customer: {**order, **customer}, value_serde="json")
    enriched.to("enriched", key_serde="json", value_serde="json")
"""


class Capture:
    """Looks at all that goes over loopback, but for what the database and the store say, who are not ours to encrypt."""

    def __init__(self, words: Sequence[str], *, but: Sequence[int]) -> None:
        self._words = [each.encode() for each in words]
        self._but = set(but)
        self.packets = 0
        self.seen: set[str] = set()
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
        self._socket.settimeout(0.5)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                packet, (interface, *_) = self._socket.recvfrom(1 << 17)
                if interface == "lo":
                    self._look_at(packet)

    def _look_at(self, packet: bytes) -> None:
        header = (packet[0] & 0x0F) * 4
        ports = set(struct.unpack_from(">HH", packet, header)) if len(packet) >= header + 4 else set()
        if packet[9] != socket.IPPROTO_TCP or ports & self._but:
            return
        self.packets += 1
        self.seen |= {f"{word.decode()} on {sorted(ports)}" for word in self._words if word in packet}

    def close(self) -> None:
        self._ended.set()
        self._thread.join(10)
        self._socket.close()


@dataclass
class SecuredPath:
    """What runs."""

    folder: Path
    database: PostgresServer
    s3: S3Server
    ports: list[int] = field(default_factory=lambda: free_ports(7))

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports[:3])

    @property
    def rest(self) -> int:
        return self.ports[6]

    def security(self, user: str | None = None) -> dict[str, str]:
        """Return what a user's client is told; without one, all but the login."""
        found = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", **trust_properties(self.folder, CA)}
        return found if user is None else found | {"sasl.jaas.config": login(user)}


CA = authority()


def login(user: str) -> str:
    return f'{PLAIN} username="{user}" password="{PASSWORDS[user]}";'


@contextmanager
def nodes(path: SecuredPath) -> Iterator[None]:
    """Run three nodes that log in to each other, and let in whom an ACL names."""
    stores = key_properties(path.folder, signed(CA, "node"), "node") | trust_properties(path.folder, CA)
    known = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
    entry = f'{PLAIN} username="node" password="{PASSWORDS["node"]}" {known};'
    clients, controllers = path.ports[:3], path.ports[3:6]
    shared = [
        "process.roles=broker,controller",
        "controller.listener.names=CONTROLLER",
        f"controller.quorum.voters={','.join(f'{node}@127.0.0.1:{port}' for node, port in enumerate(controllers, 1))}",
        "listener.security.protocol.map=CONTROLLER:SASL_SSL,CLIENTS:SASL_SSL",
        "inter.broker.listener.name=CLIENTS",
        "sasl.enabled.mechanisms=PLAIN",
        "sasl.mechanism.inter.broker.protocol=PLAIN",
        "sasl.mechanism.controller.protocol=PLAIN",
        f"listener.name.clients.plain.sasl.jaas.config={entry}",
        f"listener.name.controller.plain.sasl.jaas.config={entry}",
        *(f"{key}={value}" for key, value in stores.items()),
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:node;User:admin",
        "offsets.topic.num.partitions=4",
        "transaction.state.log.num.partitions=4",
        "group.initial.rebalance.delay.ms=0",
    ]
    running: list[subprocess.Popen[bytes]] = []
    try:
        for node in (1, 2, 3):
            here = f"CLIENTS://127.0.0.1:{clients[node - 1]},CONTROLLER://127.0.0.1:{controllers[node - 1]}"
            own = [f"node.id={node}", f"listeners={here}", f"log.dirs={path.folder / str(node)}"]
            file = path.folder / f"{node}.properties"
            file.write_text("\n".join([*shared, *own]))
            ottla = [sys.executable, "-m", "ottla.cli.main"]
            subprocess.run([*ottla, "storage", "format", "-t", CLUSTER_ID, "-c", file], check=True, cwd=path.folder)
            with (path.folder / f"{node}.out").open("wb") as out:
                running.append(subprocess.Popen([*ottla, "server", "start", str(file)], stdout=out, stderr=out))
        for node in (1, 2, 3):
            said = path.folder / f"{node}.out"
            until(lambda said=said: "ready " in said.read_text(), said.read_text, seconds=SECONDS_MAX)  # type: ignore[misc]
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def prepare(path: SecuredPath) -> AdminClient:
    """Make the topics, and give everybody what he needs."""
    admin = AdminClient({"bootstrap.servers": path.bootstrap, **librdkafka_security(path.security("admin"))})
    for each in admin.create_topics([NewTopic(name, 2, 3) for name in (CUSTOMERS, ORDERS, ENRICHED)]).values():
        each.result(60)
    bindings = [
        AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
        for user, rights in RIGHTS.items()
        for kind, name, pattern, operations in rights
        for operation in operations
    ]
    for made in admin.create_acls(bindings).values():
        made.result(60)
    return admin


def fill(path: SecuredPath) -> None:
    """Make the source's tables."""
    with psycopg.connect(path.database.url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("CREATE TABLE customers (id INT PRIMARY KEY, name TEXT NOT NULL)")
        connection.execute("CREATE TABLE orders (id INT PRIMARY KEY, customer_id INT NOT NULL)")
        for each in range(CUSTOMERS_COUNT):
            connection.execute("INSERT INTO customers VALUES (%s, %s)", (each, f"{MARK} {each}"))


def order(path: SecuredPath) -> None:
    with psycopg.connect(path.database.url.replace("+psycopg", ""), autocommit=True) as connection:
        for each in range(COUNT):
            connection.execute("INSERT INTO orders VALUES (%s, %s)", (each, each % CUSTOMERS_COUNT))


def rows_read(told: str) -> int:
    """Return how many rows the application has read, as it tells now and then."""
    return max((int(each) for each in re.findall(r"RUNNING, (\d+) rows", told)), default=0)


def worker_properties(path: SecuredPath) -> dict[str, str]:
    kinds = ("producer", "consumer", "admin")
    clients = {f"{kind}.{key}": value for kind in kinds for key, value in path.security().items()}
    storage = {f"{each}.storage.topic": f"connect-{each}" for each in ("config", "offset", "status")}
    return {
        "bootstrap.servers": path.bootstrap,
        "group.id": "secured-connect",
        **path.security("worker"),
        **clients,
        **storage,
        **{f"{each}.storage.replication.factor": "3" for each in ("config", "offset", "status")},
        "offset.storage.partitions": "2",
        "status.storage.partitions": "2",
        "exactly.once.source.support": "enabled",
        "offset.flush.interval.ms": "500",
        "scheduled.rebalance.max.delay.ms": "0",
        "task.restart.max": "0",
        "key.converter": JSON,
        "key.converter.schemas.enable": "false",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
    }


def connectors(path: SecuredPath) -> dict[str, dict[str, str]]:
    source = {
        "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
        "connection.url": path.database.jdbc_url("postgres"),
        "connection.user": DATABASE_USER,
        "connection.password": DATABASE_PASSWORD,
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "topic.prefix": "shop-",
        "poll.interval.ms": "200",
        "exactly.once.support": "required",
        "producer.override.sasl.jaas.config": login("orders"),
        "transforms": "key,plain",
        "transforms.key.type": "org.apache.kafka.connect.transforms.ValueToKey",
        "transforms.plain.type": "org.apache.kafka.connect.transforms.ExtractField$Key",
    }
    keys = {"customers": "id", "orders": "customer_id"}
    found = {
        f"source-{table}": {
            **source,
            "table.whitelist": table,
            "transforms.key.fields": key,
            "transforms.plain.field": key,
        }
        for table, key in keys.items()
    }
    found["sink-s3"] = {
        **KEYS,
        "connector.class": "io.confluent.connect.s3.S3SinkConnector",
        "topics": ENRICHED,
        "flush.size": "1",
        "s3.bucket.name": "secured",
        "store.url": path.s3.url,
        "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
        "consumer.override.sasl.jaas.config": login("archive"),
        "consumer.override.isolation.level": "read_committed",
        "consumer.override.metadata.max.age.ms": "1000",
    }
    return found


@contextmanager
def application(path: SecuredPath) -> Iterator[Path]:
    """Run the application as its own user; yields what it prints."""
    file, properties, out = (path.folder / name for name in ("enricher.py", "enricher.properties", "enricher.out"))
    file.write_text(APPLICATION)
    given = {"bootstrap.servers": path.bootstrap, "state.dir": str(path.folder / "state"), **path.security("shop")}
    properties.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
    command = [sys.executable, "-m", "ottla.cli.main", "streams", "run", str(file), "--plain", "--master", "local[2]"]
    with out.open("wb") as printed:
        process = subprocess.Popen(
            [*command, "--properties", str(properties)],
            stdout=printed,
            stderr=printed,
            cwd=path.folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
    try:
        yield out
    finally:
        end(process, 60)


def shout(word: str) -> None:
    """Say something in clear."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as said,
    ):
        said.sendall(word.encode())


def test_records_go_from_a_database_to_a_store_in_private_each_part_with_its_own_rights(tmp_path: Path) -> None:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with ExitStack() as stack:
        path = SecuredPath(tmp_path, stack.enter_context(private_cluster()), stack.enter_context(running_s3()))
        path.s3.bucket("secured")
        words = [CANARY, *PASSWORDS.values(), MARK, DATABASE_PASSWORD, KEYS["aws.secret.access.key"]]
        but = [
            int(path.s3.url.rpartition(":")[2]),
            int(path.database.url.rpartition(":")[2].partition("/")[0]),
            path.rest,
        ]
        capture = Capture(words, but=but)
        stack.callback(capture.close)
        shout(CANARY)
        until(lambda: capture.seen, "what is said in clear is seen")
        capture.seen.clear()
        fill(path)
        stack.enter_context(nodes(path))
        prepare(path)
        worker = Worker(0, tmp_path, path.rest, worker_properties(path))
        stack.callback(worker.close)
        worker.start()

        def ask(call: Call) -> Any:
            with contextlib.suppress(OSError):
                return ask_once(path.rest, call)
            return None

        told = tmp_path / "worker-0.out"
        until(lambda: ask(Call("GET", "/")), lambda: told.read_text()[-3000:], seconds=SECONDS_MAX)
        for name, config in connectors(path).items():
            made = until(lambda name=name, config=config: ask(Call("PUT", f"/connectors/{name}/config", config)))  # type: ignore[misc]
            assert made["status"] in (200, 201), made
        out = stack.enter_context(application(path))

        def troubles() -> str:
            states = [ask(Call("GET", f"/connectors/{name}/status")) for name in connectors(path)]
            return "\n".join([*map(str, states), told.read_text()[-4000:], out.read_text()[-4000:]])

        # An order whose customer is not in the table yet has no result: customers come first.
        until(lambda: rows_read(out.read_text()) >= CUSTOMERS_COUNT, troubles, seconds=SECONDS_MAX)
        order(path)

        def archived() -> list[dict[str, Any]]:
            objects = path.s3.objects("secured").values()
            return [json.loads(line) for each in objects for line in each.splitlines()]

        until(lambda: len(archived()) >= COUNT, troubles, seconds=SECONDS_MAX)
        rows = sorted(archived(), key=lambda row: row["customer_id"])
        assert len(rows) == COUNT and all(row["name"] == f"{MARK} {row['customer_id']}" for row in rows)
        assert capture.packets > 100
        assert not capture.seen
