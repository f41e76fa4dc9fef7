from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.broker.api import metadata
from ottla.broker.metadata_answers import BYTES_MAX, MetadataAnswers
from ottla.broker.requests import slices
from ottla.broker.requests.answers import Encoded, reply_of
from ottla.broker.requests.connected import Connected
from ottla.broker.requests.handler import RequestContext
from ottla.metadata import EMPTY_IMAGE, Image
from ottla.wire.messages.metadata import MetadataRequest
from tests.broker.node_client import parts, run, running_node


def frame(body: bytes, correlation_id: int) -> bytes:
    return (4 + len(body)).to_bytes(4, "big") + correlation_id.to_bytes(4, "big") + body


def test_a_kept_answer_goes_out_under_each_requests_own_correlation_id() -> None:
    answers = MetadataAnswers()
    kept = answers.keep(EMPTY_IMAGE, "asked", frame(b"body", 1), 1)
    found = answers.find(EMPTY_IMAGE, "asked", 2)
    assert found is not None
    assert (b"".join(kept.parts), b"".join(found.parts)) == (frame(b"body", 1), frame(b"body", 2))


def test_what_was_kept_of_an_older_image_is_forgotten() -> None:
    answers = MetadataAnswers()
    newer = Image()
    answers.keep(EMPTY_IMAGE, "asked", frame(b"old", 1), 1)
    assert answers.find(newer, "asked", 2) is None
    answers.keep(newer, "other", frame(b"new", 1), 1)
    assert answers.find(newer, "asked", 2) is None and answers.find(EMPTY_IMAGE, "asked", 2) is None


def test_what_is_kept_has_a_bound() -> None:
    answers = MetadataAnswers()
    half = bytes(BYTES_MAX // 2)
    for asked in ("a", "b"):
        answers.keep(EMPTY_IMAGE, asked, frame(half, 1), 1)
    assert answers.find(EMPTY_IMAGE, "a", 1) is not None
    answers.keep(EMPTY_IMAGE, "c", frame(half, 1), 1)
    assert answers.find(EMPTY_IMAGE, "a", 1) is None and answers.find(EMPTY_IMAGE, "c", 1) is not None


def test_clients_see_every_change_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            seen = []
            for name in ("a", "b", "c"):
                await client.create(name)
                for _ in range(2):
                    answer = await client.ask(MetadataRequest(topics=None))
                    seen.append(sorted(each.name for each in answer.topics))
            assert seen == [["a"], ["a"], ["a", "b"], ["a", "b"], ["a", "b", "c"], ["a", "b", "c"]]

    run(test)


def test_an_answer_that_is_older_than_the_image_pushes_out_no_newer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:

            def ask(version: int) -> Any:
                connected = Connected(listener=client.node.listeners[0].name, client_host="192.0.2.1")
                context: RequestContext[Any] = RequestContext(parts(client.node), connected, 3, version, 1, "test")
                return metadata.HANDLER.handle(context, MetadataRequest(topics=None))

            await client.create("a")
            monkeypatch.setattr(slices, "SLICE_STEPS", 1)
            older = ask(12)
            await client.create("b")
            await reply_of(ask(13))
            found: Any = await reply_of(older)
            assert [each.name for each in found.topics] == ["a"]
            assert isinstance(ask(13), Encoded)

    run(test)
