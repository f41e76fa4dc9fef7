"""A broker, and a server that all tests of a module share: each takes names of its own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from tests.server import Server, running_server
from tests.sql_server.running import SqlProcess, running_sql

NUMBERS = count(1)
QUICK = ("group.initial.rebalance.delay.ms=0",)


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("broker"), overrides=QUICK) as server:
        yield server


@pytest.fixture(scope="package")
def sql(broker: Server) -> Iterator[SqlProcess]:
    with running_sql(broker.bootstrap) as found:
        yield found


@pytest.fixture
def name() -> str:
    return f"N{next(NUMBERS)}"
