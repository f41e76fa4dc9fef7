"""Requests about ACLs, with an authorizer and without: Kafka's answers, ours, and what `kafka-acls` prints."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from ottla.wire import Message
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.messages.describe_acls import DescribeAclsRequest
from tests import peer
from tests.broker.advertised import with_controller
from tests.broker.node_client import NodeClient, run, running_node
from tests.ports import free_port

# Kafka's broker starts beside ours, and only a change of these APIs breaks it: with `make compat`.
pytestmark = [pytest.mark.peer, pytest.mark.slow]

CLOSED = "closed"
Asked = Sequence[Message]
GROUP, CLUSTER = 3, 4
READ, TOPIC, LITERAL, ALLOW = 3, 2, 3, 3
ANY = 1
UNKNOWN, NONE_SUCH = 0, 99
TOOL_CALLS = (
    ("--list",),
    ("--list", "--topic", "t"),
    ("--add", "--allow-principal", "User:a", "--operation", "Read", "--topic", "t"),
    ("--add", "--allow-principal", "User:a", "--producer", "--topic", "t", "--transactional-id", "x"),
    ("--remove", "--force", "--allow-principal", "User:a", "--operation", "Read", "--topic", "t"),
    ("--remove", "--force", "--group", "g"),
)


def elements(resource: int = TOPIC, pattern: int = LITERAL, operation: int = READ, permission: int = ALLOW) -> Any:
    """Return the three requests about one ACL with these codes in it."""
    creation = AclCreation(
        resource_type=resource,
        resource_name="t",
        resource_pattern_type=pattern,
        principal="User:a",
        host="*",
        operation=operation,
        permission_type=permission,
    )
    wanted: dict[str, Any] = {
        "resource_type_filter": resource,
        "resource_name_filter": "t",
        "pattern_type_filter": pattern,
        "principal_filter": None,
        "host_filter": "*",
        "operation": operation,
        "permission_type": permission,
    }
    return (
        DescribeAclsRequest(**wanted),
        CreateAclsRequest(creations=[creation, creation]),
        DeleteAclsRequest(filters=[DeleteAclsFilter(**wanted)] * 2),
    )


def requests() -> Iterator[Message]:
    yield from elements()
    yield from elements(ANY, ANY, ANY, ANY)
    yield from (CreateAclsRequest(creations=[]), DeleteAclsRequest(filters=[]))
    for code in (UNKNOWN, NONE_SUCH):
        for name in ("resource", "pattern", "operation", "permission"):
            yield from elements(**{name: code})


async def answers(port: int, asked: Asked) -> dict[str, Any]:
    """Ask everything in every version, each on a connection of its own."""
    told = {}
    for at, (request, version) in enumerate((each, version) for each in asked for version in (1, 2, 3)):
        client = NodeClient(cast(Any, None), *await asyncio.open_connection("127.0.0.1", port))
        try:
            told[f"{at} {request} in {version}"] = in_order(await client.ask(request, version))
        except asyncio.IncompleteReadError:
            told[f"{at} {request} in {version}"] = CLOSED
        client.close()
    return told


def printed(*bootstraps: str) -> dict[str, tuple[int, str, str]]:
    """Return what Kafka's own tool makes of a cluster, without where in Java it was when it failed."""
    told = {}
    with peer.one_jvm() as tool:
        for words in TOOL_CALLS:
            for bootstrap in bootstraps:
                found = tool("org.apache.kafka.tools.AclCommand", *bootstrap.split(), *words)
                said = re.sub(r"(?m)^\s+at .*\n", "", found.stderr)
                told[f"{bootstrap.split()[0]} {words}"] = (found.returncode, found.stdout, said)
    return told


def at(broker: int, controller: int) -> tuple[str, str]:
    return f"--bootstrap-server 127.0.0.1:{broker}", f"--bootstrap-controller 127.0.0.1:{controller}"


def both(folder: Path, asked: Asked, *overrides: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what Kafka and ours answer on their two listeners, and what the tool prints of each."""
    told: dict[str, Any] = {}
    kafka, broker = free_port(), free_port()
    kafka_controller, controller = (each + peer.CONTROLLER_PORT_AFTER for each in (kafka, broker))

    async def kafkas() -> None:
        told["Kafka"] = [await answers(kafka, asked), await answers(kafka_controller, asked)]

    async def ours() -> None:
        settings = (
            *with_controller(controller),
            f"listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
            *overrides,
        )
        async with running_node(folder / "ours", *settings):
            told["ours"] = [await answers(broker, asked), await answers(controller, asked)]
            told["printed"] = await asyncio.to_thread(printed, *at(broker, controller))

    with peer.running_broker(folder / "kafka", kafka, heap="400m", overrides=overrides):
        run(kafkas)
        kafka_printed = printed(*at(kafka, kafka_controller))
    run(ours)
    wrong = [
        f"{question}\n  {ours_told[question]}\n  {kafkas_told[question]}"
        for ours_told, kafkas_told in zip(told["ours"], told["Kafka"], strict=True)
        for question in kafkas_told
        if ours_told[question] != kafkas_told[question]
    ]
    assert not wrong, "\n".join(wrong)
    return told["printed"], kafka_printed


def test_requests_about_acls_are_answered_as_by_kafka(tmp_path: Path) -> None:
    ours_printed, kafka_printed = both(tmp_path, list(requests()))
    assert ours_printed == kafka_printed
    assert "No Authorizer is configured" in str(kafka_printed)


def named(name: str = "t", resource: int = TOPIC, principal: str = "User:a", **fields: Any) -> AclCreation:
    """Return an entry that is valid unless a field is given that is not."""
    given = {"resource_pattern_type": LITERAL, "host": "*", "operation": READ, "permission_type": ALLOW, **fields}
    return AclCreation(resource_type=resource, resource_name=name, principal=principal, **given)


def life() -> Iterator[Message]:
    """Make entries, look for them and remove them, with everything wrong that an entry can have."""
    wrong = [
        *(named(""), named("x", CLUSTER), named(principal="a"), named(principal="a:"), named(principal="")),
        *(named(host=""), named("*", resource_pattern_type=4)),
    ]
    yield CreateAclsRequest(creations=wrong)
    for each in wrong:
        yield CreateAclsRequest(creations=[each])
    good = [
        *(named(), named(), named("t", operation=4), named("ta", resource_pattern_type=4), named("*")),
        *(named("kafka-cluster", CLUSTER, operation=7), named("g", GROUP, host="10.0.0.1", permission_type=2)),
        *(named("t", operation=2), named("x", 5, operation=4), named("User:b", 7, operation=13)),
    ]
    yield CreateAclsRequest(creations=good)
    yield CreateAclsRequest(creations=good)
    for filters in FILTERS:
        yield DescribeAclsRequest(**filters)
    for filters in FILTERS:
        yield DeleteAclsRequest(filters=[DeleteAclsFilter(**filters)] * 2)
    yield DescribeAclsRequest(**FILTERS[0])


ANYTHING: dict[str, Any] = {
    "resource_type_filter": ANY,
    "resource_name_filter": None,
    "pattern_type_filter": ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": ANY,
    "permission_type": ANY,
}
FILTERS: list[dict[str, Any]] = [
    ANYTHING,
    {**ANYTHING, "resource_type_filter": TOPIC, "resource_name_filter": "tab", "pattern_type_filter": 2},
    {**ANYTHING, "resource_name_filter": "t", "pattern_type_filter": LITERAL},
    {**ANYTHING, "resource_name_filter": "ta", "pattern_type_filter": 4},
    {**ANYTHING, "resource_name_filter": "*"},
    {**ANYTHING, "principal_filter": "User:b"},
    {**ANYTHING, "operation": 2},
    {**ANYTHING, "operation": READ, "host_filter": "*"},
    {**ANYTHING, "permission_type": 2},
    {**ANYTHING, "resource_type_filter": UNKNOWN + NONE_SUCH},
    {**ANYTHING, "operation": NONE_SUCH},
    ANYTHING,
]


def in_order(message: Any) -> Any:
    """Return an answer as text, whose lists have no order: Kafka's are Java's hash order."""
    if isinstance(message, Message):
        fields = [f"{each.name}={in_order(getattr(message, each.name))}" for each in message.FIELDS]
        return f"{type(message).__name__}({', '.join(fields)})"
    if isinstance(message, list | tuple):
        return sorted(map(in_order, message))
    return repr(message)


def test_acls_are_made_found_and_removed_as_by_kafka(tmp_path: Path) -> None:
    authorizer = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    ours_printed, kafka_printed = both(tmp_path, list(life()), authorizer, "super.users=User:ANONYMOUS")
    assert {call: sorted_lines(said) for call, said in ours_printed.items()} == {
        call: sorted_lines(said) for call, said in kafka_printed.items()
    }
    assert "(principal=User:a, host=*, operation=READ, permissionType=ALLOW)" in str(kafka_printed)


def sorted_lines(said: tuple[int, str, str]) -> tuple[int, list[str], list[str]]:
    code, out, err = said
    return code, sorted(out.splitlines()), sorted(err.splitlines())
