"""What somebody with few rights is answered, by Kafka with its StandardAuthorizer and by ours: every API, every version."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from ottla.base import WireError
from ottla.broker.requests.handler import Handler
from ottla.broker.requests.handlers import all_handlers
from ottla.security import Operation, Resource
from ottla.wire import APIS, ApiKey, Message
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests import peer
from tests.broker.access_requests import Names, hidden_world, lines, requests_about, sweeping_requests
from tests.broker.askers import ADMIN, AUTHORIZER, Asker, allowed
from tests.broker.node_client import NodeClient, run, running_node
from tests.ports import free_port

# Kafka's broker starts beside ours, and only a change of these APIs breaks it: with `make compat`.
pytestmark = [pytest.mark.peer, pytest.mark.slow]

CLOSES = "closes the connection"
LATE = "does not answer"
READER = "User:reader"
PASSWORD = "x"
NOT_THERE = Names("nosuch-topic", bytes(range(100, 116)), "nosuch-group", "nosuch-id")
GRANTED = (
    allowed(READER, Operation.READ, Resource.TOPIC, "open"),
    allowed(READER, Operation.READ, Resource.GROUP, "open-group"),
    allowed(READER, Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, "open-id"),
)
OPERATIONS = [
    each for each in Operation if each not in (Operation.UNKNOWN, Operation.ANY, Operation.DELETE, Operation.ALL)
]
OPERATIONS += [Operation.DELETE, Operation.ALL]
"""In the order in which they are tried: what may delete comes last."""
USERS = ("admin", "reader", *(each.name for each in OPERATIONS))
LOGIN = (
    f'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="{PASSWORD}" '
    + " ".join(f'user_{each}="{PASSWORD}"' for each in USERS)
    + ";"
)
OPEN = {
    Resource.TOPIC: "open",
    Resource.GROUP: "open-group",
    Resource.TRANSACTIONAL_ID: "open-id",
    Resource.CLUSTER: "kafka-cluster",
    Resource.USER: "User:x",
    Resource.DELEGATION_TOKEN: "token",
}


def kafka_settings(port: int) -> tuple[str, ...]:
    controller = port + peer.CONTROLLER_PORT_AFTER
    return (
        *AUTHORIZER,
        "listener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        f"listeners=SASL_PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        f"advertised.listeners=SASL_PLAINTEXT://127.0.0.1:{port}",
        "inter.broker.listener.name=SASL_PLAINTEXT",
        *(f"sasl.mechanism.{each}.protocol=PLAIN" for each in ("inter.broker", "controller")),
        "sasl.enabled.mechanisms=PLAIN",
        *(f"listener.name.{each}.plain.sasl.jaas.config={LOGIN}" for each in ("sasl_plaintext", "controller")),
    )


class LoggedIn:
    """Somebody at one of Kafka's listeners, logged in anew where the broker has hung up."""

    def __init__(self, port: int, user: str) -> None:
        self._port = port
        self._user = user
        self._client: NodeClient | None = None

    async def ask(self, request: Message, version: int | None = None) -> Any:
        client = self._client
        if client is None:
            client = NodeClient(cast(Any, None), *await asyncio.open_connection("127.0.0.1", self._port))
            await client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            token = f"\0{self._user}\0{PASSWORD}".encode()
            answer = await client.ask(SaslAuthenticateRequest(auth_bytes=token), 2)
            assert answer.error_code == 0, answer
            self._client = client
        try:
            return await client.ask(request, version)
        except asyncio.IncompleteReadError as error:
            self.close()
            raise WireError(CLOSES) from error
        except asyncio.CancelledError:  # what comes late must not be taken for the next answer
            self.close()
            raise

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


async def told(ask: Callable[[Message, int], Awaitable[Any]], request: Message, version: int, names: Names) -> Any:
    try:
        return lines(await asyncio.wait_for(ask(request, version), 5), names)
    except WireError:
        return frozenset({CLOSES})
    except TimeoutError:
        return frozenset({LATE})


Sides = dict[str, Any]


def listeners(handler: Handler[Any]) -> list[str]:
    return [each for each in ("broker", "controller") if each in APIS[handler.api_key].listeners]


UNCOMPARED = frozenset(
    {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.DESCRIBE_CLIENT_TRAFFIC}
)
"""What `test_api_versions_peer.py` compares, what Kafka does not have, and what a connection cannot ask again once somebody
has logged in."""
OF_LOGINS = frozenset(
    {
        *(ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN),
        *(ApiKey.DESCRIBE_DELEGATION_TOKEN, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS),
    }
)
"""What is answered by how somebody has logged in, which nobody has who is asked for here; and what Kafka's controller fails
at (UNKNOWN_SERVER_ERROR)."""


async def everything_told(sides: Sides, hidden: Names) -> dict[str, Any]:
    """Ask every API in every version about what is hidden and what is not there, and for all that there is."""
    found: dict[str, Any] = {}
    for handler in all_handlers():
        if handler.api_key in UNCOMPARED | OF_LOGINS:
            continue
        name = APIS[handler.api_key].name
        for version in range(handler.versions[0], handler.versions[1] + 1):
            for side in listeners(handler):
                for about in (hidden, NOT_THERE):
                    for at, request in enumerate(requests_about(handler, about, version)):
                        label = f"{name} {version} {side} {about.topic} {at}"
                        found[label] = await told(sides[side].ask, request, version, about)
                for at, request in enumerate(sweeping_requests(handler, version)):
                    found[f"{name} {version} {side} all {at}"] = await told(sides[side].ask, request, version, hidden)
    return found


async def grant(ask: Callable[[Message, int | None], Awaitable[Any]], entries: tuple[AclCreation, ...]) -> None:
    answer = await ask(CreateAclsRequest(creations=list(entries)), None)
    assert not any(each.error_code for each in answer.results), answer


ONES_OWN = re.compile(r"(cluster_id|\.port|topics\[\d\]\.topic_id)=.*")
"""What differs from one cluster to the next."""
A_REQUEST_IN_JAVA = re.compile(r"error_message=Request Request\(.*", re.DOTALL)
"""What Kafka's controller tells who may not do something to the cluster: all that it knows of the request's connection."""


def comparable(ours: frozenset[str], kafkas: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Return both answers without what need not be the same; ours has words for some errors where Kafka's has none."""

    def without_ones_own(told: frozenset[str]) -> frozenset[str]:
        worded = (A_REQUEST_IN_JAVA.sub("error_message=Cluster authorization failed.", each) for each in told)
        return frozenset(ONES_OWN.sub(r"\1", each) for each in worded if "aborted_transactions" not in each)

    mine, theirs = without_ones_own(ours), without_ones_own(kafkas)
    wordless = {each for each in theirs - mine if each.endswith("error_message=None")}
    begins = tuple(each.removesuffix("None") for each in wordless)
    return frozenset(each for each in mine if each in theirs or not each.startswith(begins)), theirs - wordless


def test_who_may_little_is_answered_as_by_kafka(tmp_path: Path) -> None:
    found: dict[str, dict[str, Any]] = {}
    port = free_port()

    async def kafkas() -> None:
        admin = LoggedIn(port, "admin")
        sides = {
            "broker": LoggedIn(port, "reader"),
            "controller": LoggedIn(port + peer.CONTROLLER_PORT_AFTER, "reader"),
        }
        hidden = await hidden_world(admin.ask, lambda: asyncio.sleep(0.05))
        await grant(admin.ask, GRANTED)
        await asyncio.sleep(0.5)  # until the broker's own authorizer has the entries, too
        found["Kafka"] = await everything_told(sides, hidden)
        for each in (admin, *sides.values()):
            each.close()

    async def ours() -> None:
        async with running_node(tmp_path / "ours", *AUTHORIZER, "num.partitions=1") as client:
            admin = Asker(client.node, ADMIN)
            hidden = await hidden_world(admin.ask, lambda: asyncio.sleep(0.01))
            await grant(admin.ask, GRANTED)
            sides = {
                "broker": Asker(client.node, READER),
                "controller": Asker(client.node, READER, is_controller=True),
            }
            found["ours"] = await everything_told(sides, hidden)

    with peer.running_broker(tmp_path / "kafka", port, heap="400m", overrides=kafka_settings(port)):
        run(kafkas, 400)
    run(ours, 400)
    wrong: dict[str, list[str]] = {}
    for label, theirs in found["Kafka"].items():
        mine, theirs = comparable(found["ours"][label], theirs)
        if mine != theirs:
            name, _, which = label.partition(" ")
            difference = f"{name}: ours {sorted(mine - theirs)}, Kafka's {sorted(theirs - mine)}"
            wrong.setdefault(difference, []).append(which)
    assert not wrong, "\n".join(f"{difference}: {', '.join(which)}" for difference, which in wrong.items())


REFUSED = re.compile(r"error_code=(29|30|31|53|65)$")
"""Codes of who may not."""


async def refusals(ask: Callable[[Message, int], Awaitable[Any]], names: Names) -> dict[str, frozenset[str]]:
    """Return by API, in its highest version, where an answer says that somebody may not."""
    found: dict[str, frozenset[str]] = {}
    for handler in all_handlers():
        if handler.api_key in UNCOMPARED or "broker" not in APIS[handler.api_key].listeners:
            continue
        version = handler.versions[1]
        for at, request in enumerate(requests_about(handler, names, version)):
            if getattr(request, "acks", -1) == -1:
                answer = await told(ask, request, version, names)
                found[f"{APIS[handler.api_key].name} {at}"] = frozenset(filter(REFUSED.search, answer))
    return found


async def each_right(
    admin: Callable[[Message, int | None], Awaitable[Any]], asker: Callable[[str], Any]
) -> dict[str, frozenset[str]]:
    """Give each operation to a user of its own, on everything that is open, and return what all are refused."""
    await hidden_world(admin, lambda: asyncio.sleep(0.05))
    entries = [
        allowed(f"User:{operation.name}", operation, resource, name)
        for operation in OPERATIONS
        for resource, name in OPEN.items()
    ]
    await grant(admin, tuple(entries))
    await asyncio.sleep(0.5)  # until a broker's own authorizer has the entries, too
    [topic] = (await admin(MetadataRequest(topics=[MetadataRequestTopic(name="open")]), 12)).topics
    names = Names("open", bytes(topic.topic_id), "open-group", "open-id")
    found: dict[str, frozenset[str]] = {}
    for operation in OPERATIONS:
        user = asker(operation.name)
        for label, refused in (await refusals(user.ask, names)).items():
            found[f"{operation.name}: {label}"] = refused
    return found


def test_each_operation_opens_what_it_opens_at_kafkas(tmp_path: Path) -> None:
    found: dict[str, dict[str, frozenset[str]]] = {}
    port = free_port()

    async def kafkas() -> None:
        found["Kafka"] = await each_right(LoggedIn(port, "admin").ask, lambda user: LoggedIn(port, user))

    async def ours() -> None:
        async with running_node(tmp_path / "ours", *AUTHORIZER, "group.initial.rebalance.delay.ms=0") as client:
            found["ours"] = await each_right(
                Asker(client.node, ADMIN).ask, lambda user: Asker(client.node, f"User:{user}")
            )

    with peer.running_broker(tmp_path / "kafka", port, heap="400m", overrides=kafka_settings(port)):
        run(kafkas, 400)
    run(ours, 400)
    wrong = [
        f"{label}: ours {sorted(found['ours'][label] - theirs)}, Kafka's {sorted(theirs - found['ours'][label])}"
        for label, theirs in found["Kafka"].items()
        if found["ours"][label] != theirs
    ]
    assert not wrong, "\n".join(wrong)
