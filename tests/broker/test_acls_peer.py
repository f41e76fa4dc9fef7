"""Requests about ACLs where nobody has configured an authorizer: Kafka's answers, ours, and what `kafka-acls` prints."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
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

pytestmark = pytest.mark.peer

CLOSED = "closed"
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


async def answers(port: int) -> dict[str, Any]:
    """Ask everything in every version, each on a connection of its own."""
    told = {}
    for request in requests():
        for version in (1, 2, 3):
            client = NodeClient(cast(Any, None), *await asyncio.open_connection("127.0.0.1", port))
            try:
                told[f"{request} in {version}"] = await client.ask(request, version)
            except asyncio.IncompleteReadError:
                told[f"{request} in {version}"] = CLOSED
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


def test_requests_about_acls_are_answered_as_by_kafka(tmp_path: Path) -> None:
    told: dict[str, Any] = {}
    kafka, broker = free_port(), free_port()
    kafka_controller, controller = (each + peer.CONTROLLER_PORT_AFTER for each in (kafka, broker))

    async def kafkas() -> None:
        told["Kafka"] = [await answers(kafka), await answers(kafka_controller)]

    async def ours() -> None:
        settings = (
            *with_controller(controller),
            f"listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
        )
        async with running_node(tmp_path / "ours", *settings):
            told["ours"] = [await answers(broker), await answers(controller)]
            told["printed"] = await asyncio.to_thread(printed, *at(broker, controller))

    with peer.running_broker(tmp_path / "kafka", kafka, heap="400m"):
        run(kafkas)
        kafka_printed = printed(*at(kafka, kafka_controller))
    run(ours)
    for ours_told, kafkas_told in zip(told["ours"], told["Kafka"], strict=True):
        wrong = [
            f"{asked}\n  {ours_told[asked]}\n  {kafkas_told[asked]}"
            for asked in kafkas_told
            if ours_told[asked] != kafkas_told[asked]
        ]
        assert not wrong, "\n".join(wrong)
    assert told["printed"] == kafka_printed
    assert "No Authorizer is configured" in str(kafka_printed)
