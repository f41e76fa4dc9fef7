"""Work that is done in slices is charged to the request that it is done for."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

import pytest

from ottla.broker.requests import slices
from ottla.broker.requests.answers import Answer, Encoded, reply_of
from ottla.broker.requests.connected import Connected
from ottla.broker.requests.handler import RequestContext

CONNECTED = Connected(listener="PLAINTEXT")


def test_a_request_is_charged_for_every_slice_and_not_for_the_first_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_STEPS", 2)
    context: RequestContext[Any] = RequestContext(None, CONNECTED, 3, 12, 1, "test")
    charged = []

    def work() -> Generator[None, None, Answer]:
        for _ in range(8):
            charged.append(context.worked_ns)
            yield
        return Encoded(())

    async def test() -> None:
        answer = slices.now_or_in_slices(context, work())
        context.worked_ns = 0  # the router charges for the first slice, which is over
        assert isinstance(await reply_of(answer), Encoded)

    asyncio.run(test())
    assert charged[:3] == [-1, -1, 0]
    assert 0 < charged[4] < charged[6] < context.worked_ns
