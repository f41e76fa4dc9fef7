"""Brokers with three doors, for the benchmark of security: in clear, by TLS, and by a login."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

from bench.broker import PARTITIONS, Topic, generate, unique
from bench.generator import Load
from bench.systems import KAFKA, Kafka, Ottla, System
from bench.visitors import acl, create_acls
from ottla.base import OttlaError
from ottla.client import BlockingClient
from ottla.security import Operation, PatternType, PermissionType, Resource
from ottla.wire.messages.create_acls import AclCreation
from tests.ports import CONTROLLERS_AFTER, free_port
from tests.security.authority import authority, signed
from tests.waiting import until

__all__ = ["AclPair", "Keys", "by_tls", "keys", "login_port", "started_pair", "started_secured", "tls_port", "warm_up"]

MEMORY = Path("/dev/shm")
"""Where files lie in memory."""
USER, PASSWORD = "ann", "anns-secret"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
WARM_SECONDS = {KAFKA: 20.0}
"""How long Kafka's machine code takes to be made; Ottla has none to wait for."""
WARM_SECONDS_ELSE = 1.0
TOPIC = "measured"
ON_THE_TOPIC = 500
"""Entries for others on the very topic that is written to."""
ELSEWHERE = 20
"""Entries for the writer on other topics."""
SMALL: dict[str, Any] = {"kind": "produce", "topic": TOPIC, "batch_bytes": 170, "depth": 64, "connections": PARTITIONS}
"""Single records of 100 bytes."""


@dataclass(frozen=True)
class Keys:
    """Files: a broker's key with its certificate, and the authority that has signed it (ECDSA, P-256)."""

    broker: Path
    trusted: Path


@contextmanager
def keys() -> Iterator[Keys]:
    """Make an authority and a broker's key, there for the length of a block."""
    with TemporaryDirectory(prefix="ottla-bench-keys-") as folder:
        found = Keys(Path(folder) / "broker.pem", Path(folder) / "trusted.pem")
        by = authority()
        broker = signed(by, "broker")
        found.broker.write_text(broker.key_pem() + broker.chain_pem())
        found.trusted.write_text(by.chain_pem())
        yield found


def tls_port(system: System) -> int:
    """Return where the broker speaks TLS."""
    return system.port + 1


def login_port(system: System) -> int:
    """Return where it asks for logins, in clear."""
    return system.port + 2


def by_tls(system: System, keys: Keys) -> dict[str, Any]:
    """Return the way of loads through TLS."""
    return {"port": tls_port(system), "trust": str(keys.trusted)}


@contextmanager
def started_secured(name: str, keys: Keys, *more: str, in_memory: bool = False) -> Iterator[System]:
    """Run a broker for the length of a block; `in_memory` keeps the disk out of what is measured."""
    port = free_port()
    doors = {"PLAINTEXT": port, "SSL": port + 1, "SASL_PLAINTEXT": port + 2}
    if name == KAFKA:
        doors["CONTROLLER"] = port + CONTROLLERS_AFTER
    protocols = [f"{each}:{'PLAINTEXT' if each == 'CONTROLLER' else each}" for each in doors]
    settings = (
        "listeners=" + ",".join(f"{each}://127.0.0.1:{at}" for each, at in doors.items()),
        "listener.security.protocol.map=" + ",".join(protocols),
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={keys.broker}",
        "ssl.enabled.protocols=TLSv1.3",
        "sasl.enabled.mechanisms=PLAIN",
        "log.segment.delete.delay.ms=1000",
        f'listener.name.sasl_plaintext.plain.sasl.jaas.config={PLAIN_MODULE} required user_{USER}="{PASSWORD}";',
        *more,
    )
    folder = Path(mkdtemp(prefix=f"ottla-bench-{name}-", dir=MEMORY if in_memory and MEMORY.is_dir() else None))
    system = (Kafka if name == KAFKA else Ottla)(name, folder, port=port, overrides=settings)
    system.loads = by_tls(system, keys)
    try:
        system.start()
        await_registration(system)
        yield system
    finally:
        system.stop()


def await_registration(system: System) -> None:
    """Return when clients are told of a broker: Kafka answers a little before, and librdkafka asks only once then."""
    with BlockingClient(system.bootstrap) as client:
        until(lambda: client.metadata([]).nodes, "a registered broker", past=(OttlaError,))


def warm_up(system: System, *, scale: float = 1.0) -> None:
    """Send all kinds of load for as long as the broker needs to be at its best."""
    with Topic(system, unique("warm")) as topic:
        way = {"port": system.port, **system.loads, "topic": topic}
        loads = [
            Load(kind="produce", **way, requests=2_000),
            Load(kind="produce", **way, requests=100, batch_bytes=1 << 20, depth=2, record_bytes=1000),
            Load(kind="fetch", **way, requests=400),
        ]
        repeat(system, loads, scale)


def repeat(system: System, loads: list[Load], scale: float) -> None:
    """Send loads again and again, once at least."""
    ends = time.monotonic() + WARM_SECONDS.get(system.name, WARM_SECONDS_ELSE) * scale
    while True:
        for load in loads:
            generate(load)
        if time.monotonic() >= ends:
            return


@dataclass(frozen=True)
class AclPair:
    """Two brokers of one system, alike but for the authorizer and its entries."""

    name: str
    without: System
    with_acls: System


@contextmanager
def started_pair(name: str, keys: Keys, *, acls: int, scale: float) -> Iterator[AclPair]:
    """Run both for the length of a block, with a topic each; the one in clear is a super user's door."""
    rules = (f"authorizer.class.name={AUTHORIZER}", "super.users=User:ANONYMOUS")
    with started_secured(name, keys) as without, started_secured(name, keys, *rules) as with_acls:
        create_acls(with_acls.bootstrap, entries(acls))
        for system in (without, with_acls):
            system.loads = {"port": login_port(system), "user": f"{USER}:{PASSWORD}"}
        with Topic(without, TOPIC), Topic(with_acls, TOPIC):
            for system in (without, with_acls):
                repeat(system, [Load(**SMALL, **system.loads, requests=max(512, int(50_000 * scale)))], scale)
            yield AclPair(name, without, with_acls)


def entries(count: int) -> list[AclCreation]:
    """Return so many ACLs of every kind, by one of which alone the writer may write to the topic."""
    found = [
        acl(TOPIC[:4], f"User:{USER}", pattern=PatternType.PREFIXED),
        *(acl(f"elsewhere-{each}", f"User:{USER}", operation=Operation.READ) for each in range(ELSEWHERE)),
        *(acl(TOPIC, f"User:other-{each}", operation=Operation.READ) for each in range(ON_THE_TOPIC)),
    ]
    for each in range(count - len(found)):
        kind, user = each % 4, f"User:user-{each % 500}"
        if kind == 0:
            found.append(acl(f"topic-{each}", user))
        elif kind == 1:
            found.append(acl("team" * (1 + each % 9) + str(each), user, pattern=PatternType.PREFIXED))
        elif kind == 2:
            found.append(acl(f"group-{each}", user, resource=Resource.GROUP, operation=Operation.READ))
        else:
            found.append(acl(f"topic-{each}", user, operation=Operation.DELETE, permission=PermissionType.DENY))
    return found[:count]
