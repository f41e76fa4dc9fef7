"""A PostgreSQL whose changes can be captured, for a session of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.connectors.cdc.replay import logical_server
from tools.postgres import PostgresServer, missing


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with logical_server() as found:
        yield found


@pytest.fixture
def database(server: PostgresServer) -> str:
    return server.new_database()
