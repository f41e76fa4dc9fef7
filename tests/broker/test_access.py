"""Who may read one topic learns nothing of any other topic, group or transaction, by any API, in any version."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ottla.base import WireError
from ottla.broker.requests.handler import Handler
from ottla.broker.requests.handlers import all_handlers
from ottla.security import Operation, Resource
from ottla.wire import APIS, ApiKey, Message
from tests.broker.access_requests import Names, hidden_world, lines, requests_about, sweeping_requests
from tests.broker.askers import ADMIN, AUTHORIZER, Asker, allowed, grant
from tests.broker.node_client import NodeClient, run, running_node

READER = "User:reader"
NOT_THERE = Names("nosuch-topic", bytes(range(100, 116)), "nosuch-group", "nosuch-id")
SECRETS = ("secret-topic", "secret-group", "secret-id", "secret-user")
CLOSES = "closes the connection"


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[tuple[NodeClient, Names]]:
    async with running_node(folder, *AUTHORIZER, "num.partitions=1") as client:
        admin = Asker(client.node, ADMIN)
        hidden = await hidden_world(admin.ask, lambda: asyncio.sleep(0.01))
        await grant(
            client.node,
            allowed(READER, Operation.READ, Resource.TOPIC, "open"),
            allowed(READER, Operation.READ, Resource.GROUP, "open-group"),
        )
        yield client, hidden


def askers(client: NodeClient, handler: Handler[Any]) -> list[Asker]:
    """Return the reader on each kind of listener that serves the API."""
    sides = APIS[handler.api_key].listeners
    return [
        Asker(client.node, READER, is_controller=side == "controller")
        for side in ("broker", "controller")
        if side in sides
    ]


async def answer(asker: Asker, request: Message, version: int) -> Any:
    try:
        return await asyncio.wait_for(asker.ask(request, version), 30)
    except WireError:
        return CLOSES


def test_what_is_hidden_and_what_is_not_there_look_alike(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as (client, hidden):
            wrong = []
            for handler in all_handlers():
                for version in range(handler.versions[0], handler.versions[1] + 1):
                    named = (requests_about(handler, each, version) for each in (hidden, NOT_THERE))
                    for about_hidden, about_nothing in zip(*named, strict=True):
                        for asker in askers(client, handler):
                            shown = lines(await answer(asker, about_hidden, version), hidden)
                            expected = lines(await answer(asker, about_nothing, version), NOT_THERE)
                            if shown != expected:
                                told = sorted(shown ^ expected)
                                wrong.append(f"{type(about_hidden).__name__} {version}: {told}")
            assert not wrong, "\n".join(wrong)

    run(test)


def test_no_list_names_what_is_hidden(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as (client, hidden):
            secrets = [*SECRETS, hidden.topic_id.hex()]
            wrong = []
            for handler in all_handlers():
                for version in range(handler.versions[0], handler.versions[1] + 1):
                    for request in sweeping_requests(handler, version):
                        for asker in askers(client, handler):
                            shown = str(lines(await answer(asker, request, version), NOT_THERE))
                            told = [secret for secret in secrets if secret in shown]
                            if told:
                                wrong.append(f"{request} in {version} tells {told}")
            assert not wrong, "\n".join(wrong)

    run(test)


def test_what_is_granted_is_seen(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as (client, _):
            reader = Asker(client.node, READER)
            handlers = {each.api_key: each for each in all_handlers()}
            [_, everything] = sweeping_requests(handlers[ApiKey.METADATA], 13)
            assert [each.name for each in (await reader.ask(everything)).topics] == ["open"]
            [*_, offsets] = sweeping_requests(handlers[ApiKey.OFFSET_FETCH], 9)
            [group] = (await reader.ask(offsets, 9)).groups
            assert [each.name for each in group.topics] == ["open"]

    run(test)
