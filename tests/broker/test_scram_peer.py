"""Users of SCRAM in Kafka and here: the same requests answered alike, `kafka-configs` on both, and each other's folders."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from ottla.wire import Message
from ottla.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from ottla.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from tests import peer
from tests.broker.advertised import with_controller
from tests.broker.node_client import NodeClient, run, running_node
from tests.broker.test_scram import deletion, upsertion
from tests.ports import free_port

# Kafka's broker starts beside ours, and only a change of these APIs breaks it: with `make compat`.
pytestmark = [pytest.mark.peer, pytest.mark.slow]


def altered(*upsert: Any, delete: tuple[Any, ...] = ()) -> Message:
    return AlterUserScramCredentialsRequest(upsertions=upsert, deletions=delete)


def described(*users: str) -> Message:
    return DescribeUserScramCredentialsRequest(users=[UserName(name=each) for each in users] or None)


def requests() -> Iterator[Message]:
    yield described()
    yield altered()
    yield altered(upsertion("a"), upsertion("a", mechanism=2, iterations=8192), upsertion("b,=\u20ac"))
    yield described()
    yield described("a", "nobody", "a")
    yield described("b,=\u20ac", "")
    for wrong in (
        upsertion("w", iterations=4095),
        upsertion("w", iterations=16385),
        upsertion("w", iterations=-1),
        upsertion("w", mechanism=0),
        upsertion("w", mechanism=7),
        upsertion(""),
        upsertion("", mechanism=0, iterations=1),
        upsertion("w", mechanism=0, iterations=1),
    ):
        yield altered(wrong)
        yield altered(wrong, upsertion("c"))
        yield altered(wrong, wrong)
        yield altered(upsertion("w"), wrong)
    for code in (0, 1, 2, 7):
        yield altered(delete=(deletion("nobody", code),))
        yield altered(delete=(deletion("", code),))
        yield altered(upsertion("nobody"), delete=(deletion("nobody", code),))
        yield altered(delete=(deletion("c", code), deletion("c", code)))
        yield altered(upsertion("c"), delete=(deletion("c", code),))
    yield altered(upsertion("t"), upsertion("t"))
    yield altered(upsertion("t"), upsertion("t"), upsertion("t", mechanism=2))
    yield altered(upsertion("a", mechanism=2), delete=(deletion("a"),))
    yield described()


def label(request: Any) -> str:
    """Return what a request asks for, without salts."""
    if isinstance(request, DescribeUserScramCredentialsRequest):
        return f"describe {[each.name for each in request.users or ()]}"
    removed = [(each.name, each.mechanism) for each in request.deletions]
    return f"remove {removed}, set {[(each.name, each.mechanism, each.iterations) for each in request.upsertions]}"


async def answer(client: NodeClient, request: Message) -> Any:
    """Return what each user's part of an answer says."""
    found = await client.ask(request)
    return sorted(
        (each.user, each.error_code, each.error_message, [(i.mechanism, i.iterations) for i in infos])
        for each in found.results
        for infos in (getattr(each, "credential_infos", ()),)
    )


async def same_answers(our_port: int, kafkas_port: int) -> None:
    """Ask both everything; Kafka's broker may be a little behind its controller, so it may be asked again to describe."""
    ours, kafkas = [
        NodeClient(cast(Any, None), *await asyncio.open_connection("127.0.0.1", port))
        for port in (our_port, kafkas_port)
    ]
    for request in requests():
        told, other = await answer(ours, request), await answer(kafkas, request)
        for _ in range(100 if isinstance(request, DescribeUserScramCredentialsRequest) else 0):
            if told == other:
                break
            await asyncio.sleep(0.05)
            other = await answer(kafkas, request)
        assert told == other, label(request)
    ours.close()
    kafkas.close()


USERS = ("--entity-type", "users")
SET = ("--alter", *USERS, "--entity-name", "al", "--add-config")
REMOVE = ("--alter", *USERS, "--entity-name", "al", "--delete-config")
CALLS = (
    ("--describe", *USERS),
    (*SET, "SCRAM-SHA-256=[iterations=8192,password=x]"),
    (*SET, "SCRAM-SHA-512=[password=x]"),
    ("--describe", *USERS, "--entity-name", "al"),
    (*REMOVE, "SCRAM-SHA-512"),
    (*REMOVE, "SCRAM-SHA-512"),
    (*SET, "SCRAM-SHA-256=[iterations=9,password=x]"),
    ("--describe", *USERS),
)


def printed(*bootstraps: str) -> list[list[tuple[int, list[str]]]]:
    """Return what Kafka's own tool prints about each cluster."""
    found = []
    with peer.one_jvm() as tool:
        for bootstrap in bootstraps:
            done = [tool("configs", "--bootstrap-server", bootstrap, *call) for call in CALLS]
            found.append(
                [(each.returncode, sorted(re.split(r"[\s,]+", each.stdout))) for each in done]
            )  # Java's hash order
    return found


def test_answers_and_kafkas_own_tool_are_the_same_on_both(tmp_path: Path) -> None:
    kafka, controller = free_port(), free_port()

    async def test() -> None:
        async with running_node(tmp_path / "ours", *with_controller(controller)) as client:
            port = client.node.listeners[0].port
            await same_answers(port, kafka)
            texts = await asyncio.to_thread(printed, f"127.0.0.1:{port}", f"127.0.0.1:{kafka}")
            assert texts[0] == texts[1]

    (tmp_path / "kafka").mkdir()
    with peer.running_broker(tmp_path / "kafka", kafka, heap="400m"):
        run(test, seconds=250)
