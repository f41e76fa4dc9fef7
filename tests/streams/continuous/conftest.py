"""A broker, and topics for each test of continuous mode."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client import BlockingClient
from tests.server import running_server
from tests.streams.continuous.worlds import World


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingClient]:
    quickly = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=1000")
    folder = tmp_path_factory.mktemp("ottla")
    with running_server(folder, overrides=quickly) as server, BlockingClient(server.bootstrap) as opened:
        yield opened


@pytest.fixture
def world(request: pytest.FixtureRequest, client: BlockingClient, tmp_path: Path) -> Iterator[World]:
    name = "".join(each if each.isalnum() else "-" for each in request.node.name.removeprefix("test_"))[-60:]
    made = World(name, client, tmp_path)
    yield made
    made.close()
