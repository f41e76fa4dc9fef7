"""Calls that wait, where a signal's handler raises in the middle of one."""

from __future__ import annotations

import asyncio
from typing import NoReturn

import pytest

from ottla.client import BlockingClient

INTERRUPTIONS = pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit])


@pytest.fixture
def client() -> BlockingClient:
    return BlockingClient("127.0.0.1:1")


def interrupt(raised: type[BaseException]) -> NoReturn:
    raise raised


@INTERRUPTIONS
def test_an_interrupt_as_a_call_ends_leaves_a_client_that_closes(
    client: BlockingClient, raised: type[BaseException]
) -> None:
    async def ends_as_the_signal_comes() -> None:
        asyncio.get_running_loop().call_soon(interrupt, raised)

    with pytest.raises(raised), client:
        client.run(ends_as_the_signal_comes())


@INTERRUPTIONS
def test_an_interrupt_as_a_call_ends_leaves_a_client_that_is_asked_again(
    client: BlockingClient, raised: type[BaseException]
) -> None:
    async def ends_as_the_signal_comes() -> None:
        asyncio.get_running_loop().call_soon(interrupt, raised)

    async def answers() -> int:
        await asyncio.sleep(0)
        return 7

    with client:
        with pytest.raises(raised):
            client.run(ends_as_the_signal_comes())
        assert client.run(answers()) == 7


@INTERRUPTIONS
def test_a_call_that_is_interrupted_goes_on_beside_no_later_one(
    client: BlockingClient, raised: type[BaseException]
) -> None:
    went_on = []

    async def waits() -> None:
        asyncio.get_running_loop().call_soon(interrupt, raised)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        went_on.append(True)

    with client:
        with pytest.raises(raised):
            client.run(waits())
        for _ in range(5):
            client.run(asyncio.sleep(0))
    assert not went_on


@INTERRUPTIONS
def test_an_interrupt_within_a_part_of_a_call_leaves_a_client_that_closes(
    client: BlockingClient, raised: type[BaseException], capfd: pytest.CaptureFixture[str]
) -> None:
    async def part() -> None:
        interrupt(raised)

    async def whole() -> None:
        await asyncio.gather(part(), asyncio.sleep(10))

    with pytest.raises(raised), client:
        client.run(whole())
    assert capfd.readouterr().err == ""
