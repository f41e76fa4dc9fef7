"""What plans statements runs beside the server's loop, with a limit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ottla.sql import SqlError
from ottla.sql.commands import Catalogue
from ottla.sql_server.schemas import Asking


@asynccontextmanager
async def planning(planning_s: float) -> AsyncIterator[Asking]:
    """One of a server without a registry."""
    asking = Asking("", 10.0, Catalogue, planning_s=planning_s)
    try:
        yield asking
    finally:
        asking.close()


def test_what_plans_without_a_registry_lets_others_run() -> None:
    """The call ends when the loop says so, which it cannot while the call holds it."""

    async def main() -> bool:
        said = threading.Event()
        async with planning(20.0) as asking:
            running = asyncio.create_task(asking.run(lambda: said.wait(10)))
            await asyncio.sleep(0)
            said.set()
            return await running

    assert asyncio.run(main())


def test_a_plan_that_takes_too_long_is_refused_and_a_command_of_the_topic_is_waited_for() -> None:
    async def main() -> int:
        async with planning(0.0) as asking:
            with pytest.raises(SqlError, match="could not be planned within 0 s"):
                await asking.run(lambda: 7)
            return await asking.run(lambda: 7, has_to_end=True)

    assert asyncio.run(main()) == 7
