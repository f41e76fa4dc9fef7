"""Delayed answers on the loop that production runs on."""

from __future__ import annotations

import asyncio

import pytest

from ottla.base import TopicPartition
from ottla.broker.replicas.purgatory import Purgatory
from ottla.cli.local.serving import loop_factory
from ottla.replica import Wait

PARTITION = TopicPartition("t", 0)


@pytest.mark.timeout(30)
def test_a_wait_can_be_added_behind_one_that_is_due_at_once() -> None:
    """uvloop gives no timer for what is due now, so nothing may be asked of it."""

    async def run() -> list[str]:
        loop = asyncio.get_running_loop()
        ended: list[str] = []
        done = asyncio.Event()

        def later(satisfied: bool) -> None:
            ended.append("later")
            done.set()

        purgatory = Purgatory(loop)
        purgatory.add_produce(Wait(loop.time(), lambda satisfied: ended.append("due")), (PARTITION,))
        purgatory.add_produce(Wait(loop.time() + 0.01, later), (PARTITION,))
        await done.wait()
        purgatory.close()
        return ended

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        assert runner.run(run()) == ["due", "later"]


@pytest.mark.timeout(30)
def test_a_high_watermark_that_moves_while_others_time_out_wakes_who_waits_for_it() -> None:
    async def run() -> bool:
        loop = asyncio.get_running_loop()
        reached: asyncio.Future[bool] = loop.create_future()
        purgatory = Purgatory(loop)

        def fails(satisfied: bool) -> None:
            raise AssertionError("a mistake in one answer")

        def moves_it(satisfied: bool) -> None:
            purgatory.advanced(PARTITION, 1, 10)

        for finish in (fails, moves_it):
            purgatory.add_produce(Wait(loop.time(), finish), (TopicPartition("other", 0),))
        waiting = Wait(loop.time() + 3600, reached.set_result, required={PARTITION: 1})
        purgatory.add_produce(waiting, (PARTITION,))
        is_reached = await reached
        purgatory.close()
        return is_reached

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        assert runner.run(run())
