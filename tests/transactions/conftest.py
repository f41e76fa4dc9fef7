"""One broker for all tests of transactions that need a real one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server import Server, running_server

__all__ = ["server"]


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A broker that looks for late transactions every 100 ms."""
    settings = [
        "transaction.abort.timed.out.transaction.cleanup.interval.ms=100",
        "group.initial.rebalance.delay.ms=0",
    ]
    with running_server(tmp_path_factory.mktemp("transactions"), overrides=settings) as running:
        yield running
