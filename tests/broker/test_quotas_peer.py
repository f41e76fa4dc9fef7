"""The same quota requests to Apache Kafka and to a node of ours, answer by answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from ottla.wire import Message
from ottla.wire.messages import alter_client_quotas as aq
from ottla.wire.messages import describe_client_quotas as dq
from tests import peer
from tests.broker.node_client import NodeClient, running_node
from tests.ports import free_port

# Kafka's broker starts beside ours, and only a change of these APIs breaks it: with `make compat`.
pytestmark = [pytest.mark.peer, pytest.mark.slow]

EXACT, DEFAULT, ANY = 0, 1, 2
ASKED_MAX = 20_000
WORDED_OTHERWISE = re.compile(
    r"Ignoring duplicate entity.*|A quota key must appear.*|An entity must appear.*|should ?not"
)
Names = dict[str, str | None]


def entry(names: Names, **ops: float | None) -> Any:
    return aq.RequestEntryData(
        entity=[aq.EntityData(entity_type=kind, entity_name=name) for kind, name in names.items()],
        ops=[aq.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops.items()],
    )


def alter(*entries: Any, validate_only: bool = False) -> Message:
    return aq.AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)


def describe(*components: tuple[str, int, str | None], strict: bool = False) -> Message:
    parts = [dq.ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    return dq.DescribeClientQuotasRequest(components=parts, strict=strict)


def alterations() -> Iterator[Message]:
    yield alter(
        entry({"user": "ann"}, producer_byte_rate=1000.0, consumer_byte_rate=2000.0),
        entry({"user": None}, request_percentage=12.5),
        entry({"user": "ann", "client-id": "app"}, producer_byte_rate=500.0),
        entry({"user": "ann", "client-id": None}, controller_mutation_rate=0.5),
        entry({"user": None, "client-id": None}, consumer_byte_rate=1.0),
        entry({"client-id": "app"}, producer_byte_rate=7.0),
        entry({"client-id": None}, producer_byte_rate=8.0, request_percentage=200.0),
        entry({"ip": "127.0.0.9"}, connection_creation_rate=10.0),
        entry({"ip": None}, connection_creation_rate=20.0),
        entry({"ip": "::7"}, connection_creation_rate=3.0),
        entry({"user": "gone"}, producer_byte_rate=1.0),
    )
    yield alter(entry({"user": "gone"}, producer_byte_rate=None, consumer_byte_rate=None))
    for bad in (
        entry({}, producer_byte_rate=1.0),
        entry({"user": ""}, producer_byte_rate=1.0),
        entry({"group": "g"}, producer_byte_rate=1.0),
        entry({"user": "u", "ip": "127.0.0.1"}, producer_byte_rate=1.0),
        entry({"ip": "127.0.0.1"}, producer_byte_rate=1.0),
        entry({"ip": "not an address"}, connection_creation_rate=1.0),
        entry({"user": "u"}, connection_creation_rate=1.0),
        entry({"user": "u"}, none_such=1.0),
        entry({"user": "u"}, none_such=None),
        entry({"user": "u"}, producer_byte_rate=0.0),
        entry({"user": "u"}, producer_byte_rate=-5.0),
        entry({"user": "u"}, producer_byte_rate=1.5),
        entry({"user": "u"}, producer_byte_rate=1e30),
        entry({"user": "u"}, request_percentage=0.001),
        entry({"ip": "127.0.0.1"}, connection_creation_rate=3e9),
        entry({"ip": "127.0.0.1"}, connection_creation_rate=0.5),
        entry({"user": "u", "client-id": ""}, producer_byte_rate=1.0),
        aq.RequestEntryData(entity=[aq.EntityData(entity_type="user", entity_name="u")] * 2, ops=[]),
        aq.RequestEntryData(
            entity=[aq.EntityData(entity_type="user", entity_name="u")],
            ops=[
                aq.OpData(key="producer_byte_rate", value=1.0),
                aq.OpData(key="producer_byte_rate", remove=True),
            ],
        ),
    ):
        yield alter(bad, validate_only=True)
    twice = entry({"user": "twice"}, producer_byte_rate=5.0), entry({"user": "twice"}, consumer_byte_rate=6.0)
    yield alter(*twice, validate_only=True)
    yield alter(entry({"user": "part"}, producer_byte_rate=5.0, none_such=1.0), entry({"user": "v"}))


def descriptions() -> Iterator[Message]:
    for strict in (False, True):
        yield describe(strict=strict)
        for kind in ("user", "client-id", "ip"):
            yield describe((kind, ANY, None), strict=strict)
            yield describe((kind, DEFAULT, None), strict=strict)
            for name in ("ann", "app", "127.0.0.9", "none"):
                yield describe((kind, EXACT, name), strict=strict)
        yield describe(("user", ANY, None), ("client-id", ANY, None), strict=strict)
        yield describe(("user", EXACT, "ann"), ("client-id", DEFAULT, None), strict=strict)
    yield describe(("user", ANY, None), ("ip", ANY, None))
    yield describe(("user", ANY, None), ("user", ANY, None))
    yield describe(("", ANY, None))
    yield describe(("group", ANY, None))
    yield describe(("user", 7, None))
    yield describe(("user", EXACT, None))
    yield describe(("user", DEFAULT, "x"))
    yield describe(("user", ANY, "x"))


def plain(answer: Any) -> Any:
    """Return what an answer says, with entities in one order."""
    if isinstance(answer, aq.AlterClientQuotasResponse):
        found = [(each.error_code, each.error_message or "", names(each.entity)) for each in answer.entries]
        return sorted((code, WORDED_OTHERWISE.sub("...", text), str(who)) for code, text, who in found)
    entries = None
    if answer.entries is not None:
        entries = sorted(
            (str(names(each.entity)), sorted((value.key, value.value) for value in each.values))
            for each in answer.entries
        )
    return answer.error_code, answer.error_message, entries


def names(entity: Any) -> list[tuple[str, str | None]]:
    return sorted((each.entity_type, each.entity_name) for each in entity)


async def answers(client: NodeClient) -> list[tuple[str, Any]]:
    found = await asked(client, alterations)
    for _ in range(ASKED_MAX):  # Kafka's controller answers before its broker has heard
        if len((await client.ask(describe(), 1)).entries) == 10:
            break
    return found + await asked(client, descriptions)


async def asked(client: NodeClient, requests: Callable[[], Iterator[Message]]) -> list[tuple[str, Any]]:
    everything = [(version, request) for version in (0, 1) for request in requests()]
    return [(f"v{version} {request}", plain(await client.ask(request, version))) for version, request in everything]


def test_quota_answers_are_kafkas(tmp_path: Path) -> None:
    port = free_port()

    async def ours() -> list[tuple[str, Any]]:
        async with running_node(tmp_path / "ottla", "node.id=1") as client:
            return await answers(client)

    async def theirs() -> list[tuple[str, Any]]:
        client = NodeClient(cast(Any, None), *await asyncio.open_connection("127.0.0.1", port))
        try:
            return await answers(client)
        finally:
            client.close()

    with peer.running_broker(tmp_path / "kafka", port, heap="400m"):
        kafka = asyncio.run(asyncio.wait_for(theirs(), 100))
    ottla = asyncio.run(asyncio.wait_for(ours(), 100))
    wrong = [
        f"{asked}\n  ours    {one}\n  Kafka's {other}"
        for (asked, one), (_, other) in zip(ottla, kafka, strict=True)
        if one != other
    ]
    assert not wrong, "\n".join(wrong)
