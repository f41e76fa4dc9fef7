"""One broker of Ottla, started as a user starts it, for every client in this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server import Server, running_server

GROUPS_IN_A_HURRY = (
    "group.initial.rebalance.delay.ms=100",
    "group.min.session.timeout.ms=500",
    "group.consumer.min.session.timeout.ms=500",
    "group.consumer.session.timeout.ms=3000",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=300",
)
"""So that a member's death is noticed within seconds."""


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A running `ottla server start` on a free port of 127.0.0.1."""
    with running_server(tmp_path_factory.mktemp("ottla"), overrides=GROUPS_IN_A_HURRY) as running:
        yield running


@pytest.fixture
def bootstrap(server: Server) -> str:
    """host:port of the broker."""
    return server.bootstrap


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses."""
    name = f"{request.node.path.stem}-{request.node.name}"
    return "".join(each if each.isalnum() else "-" for each in name)[:200]
