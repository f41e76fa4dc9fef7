"""What is evaluated in threads: it has a limit, ends when nobody waits, and comes in slices."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from ottla.sql import SqlError, parse_expression
from ottla.sql.expressions import Scope, compile_expression
from ottla.sql_server import turns as turns_module
from ottla.sql_server import workers
from ottla.sql_server.errors import TOO_MANY, StatementError
from ottla.sql_server.turns import Turns

ENDLESS = parse_expression(
    "REDUCE(GENERATE_SERIES(1, 1000000), 0, (s, x) => s + REDUCE(GENERATE_SERIES(1, 1000), 0, (t, y) => t + y))"
)


def test_an_endless_expression_is_refused_and_its_thread_is_free_again() -> None:
    async def main() -> int:
        turns = Turns(1, seconds_max=0.05)
        evaluate = compile_expression(ENDLESS, Scope.of(()))
        try:
            with pytest.raises(SqlError, match=r"takes longer than 0\.05 s to evaluate"):
                await turns.run(lambda: evaluate(()))
            return await turns.run(lambda: 7)
        finally:
            turns.close()

    assert asyncio.run(main()) == 7


def test_an_evaluation_that_nobody_waits_for_ends() -> None:
    async def main() -> int:
        turns = Turns(1, seconds_max=3600.0)
        begun = threading.Event()
        evaluate = compile_expression(ENDLESS, Scope.of(()))

        def call() -> object:
            begun.set()
            return evaluate(())

        running = asyncio.create_task(turns.run(call))
        await asyncio.to_thread(begun.wait)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        try:
            return await turns.run(lambda: 7)  # there is one thread only
        finally:
            turns.close()

    assert asyncio.run(main()) == 7


def test_rows_come_in_order_in_batches_and_none_is_no_row() -> None:
    def rows() -> Iterator[int | None]:
        for each in range(1000):
            yield each
            yield None

    async def main() -> list[list[int]]:
        turns = Turns(1)
        try:
            return [batch async for batch in turns.batches(rows(), 64)]
        finally:
            turns.close()

    found = asyncio.run(main())
    assert [each for batch in found for each in batch] == list(range(1000))
    assert max(map(len, found)) <= 64


def test_each_row_has_its_own_time() -> None:
    """Together they take longer than one may, by the limit's own clock."""

    def row(_: int) -> int:
        end_s = time.thread_time() + 0.05
        while time.thread_time() < end_s:
            pass
        return 1

    async def main() -> int:
        turns = Turns(1, seconds_max=0.2)
        try:
            return sum([len(batch) async for batch in turns.batches(map(row, range(8)), 64)])
        finally:
            turns.close()

    assert asyncio.run(main()) == 8


def test_what_is_short_does_not_wait_for_what_is_long() -> None:
    """Ten times as many as there are threads for short ones are endless, and wait for each other."""

    async def main() -> list[int]:
        turns = Turns(1, seconds_max=3600.0)
        evaluate = compile_expression(ENDLESS, Scope.of(()))
        endless = [asyncio.create_task(turns.run(lambda: evaluate(()))) for _ in range(10)]
        try:
            return [await turns.run(lambda: 7) for _ in range(3)]
        finally:
            assert not any(each.done() for each in endless)
            for each in endless:
                each.cancel()
            await asyncio.gather(*endless, return_exceptions=True)
            turns.close()

    assert asyncio.run(main()) == [7, 7, 7]


def test_too_many_long_ones_are_refused_at_once_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "LONG_WAITING_MAX", 1)

    async def main() -> list[BaseException]:
        turns = Turns(1, seconds_max=3600.0)
        evaluate = compile_expression(ENDLESS, Scope.of(()))
        endless = {asyncio.create_task(turns.run(lambda: evaluate(()))) for _ in range(workers.LONG + 2)}
        try:
            refused, others = await asyncio.wait(endless, return_when=asyncio.FIRST_COMPLETED)
            assert len(others) == workers.LONG + 1
            return [error for each in refused if (error := each.exception()) is not None]
        finally:
            for each in endless:
                each.cancel()
            await asyncio.gather(*endless, return_exceptions=True)
            turns.close()

    (error,) = asyncio.run(main())
    assert isinstance(error, StatementError) and error.code == TOO_MANY, error


def test_one_that_waited_too_long_is_given_up_and_its_thread_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns_module, "WAIT_SECONDS_MAX", -3599.8)

    async def main() -> None:
        turns = Turns(1, seconds_max=3600.0)
        evaluate = compile_expression(ENDLESS, Scope.of(()))
        ended = threading.Event()

        def call() -> object:
            try:
                return evaluate(())
            finally:
                ended.set()

        with pytest.raises(StatementError, match="Other statements take all the time"):
            await turns.run(call)
        assert await asyncio.to_thread(ended.wait, 30)
        turns.close()

    asyncio.run(main())


def test_a_server_that_stops_gives_up_what_it_evaluates() -> None:
    async def main() -> None:
        turns = Turns(1, seconds_max=3600.0)
        evaluate = compile_expression(ENDLESS, Scope.of(()))
        begun = threading.Event()

        def call() -> object:
            begun.set()
            return evaluate(())

        running = asyncio.create_task(turns.run(call))
        await asyncio.to_thread(begun.wait)
        turns.close()
        with pytest.raises(SqlError, match="given up"):
            await running

    asyncio.run(main())
