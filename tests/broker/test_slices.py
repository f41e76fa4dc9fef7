"""Work that is done in slices is charged to the request that it is done for."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Generator
from pathlib import Path
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


def test_a_coroutine_charges_its_request_for_the_work_between_its_pauses_and_not_for_the_pauses() -> None:
    context: RequestContext[Any] = RequestContext(None, CONNECTED, 3, 12, 1, "test")
    context.worked_ns = 0  # as the router leaves it before a coroutine begins
    charged = []

    async def test() -> None:
        pauses = slices.Pauses(context, steps=2)
        for _ in range(8):
            charged.append(context.worked_ns)
            await pauses.step()
        before = context.worked_ns
        pauses.charge()
        assert context.worked_ns > before

    asyncio.run(test())
    assert charged[0] == charged[1] == 0
    assert charged[1] < charged[2] == charged[3] < charged[4] == charged[5] < charged[6]


def test_every_coroutine_of_an_api_that_pauses_charges_its_request() -> None:
    wrong = [
        f"{path.name}:{node.lineno}"
        for path in Path(slices.__file__).parents[1].joinpath("api").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and (ast.unparse(node.func) == "asyncio.sleep" or (ast.unparse(node.func) == "Pauses" and not node.args))
        and path.name != "list_offsets.py"  # it waits for the device in between
    ]
    assert not wrong
