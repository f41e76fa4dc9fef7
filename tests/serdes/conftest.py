"""A broker and a registry that all tests of a module share: each takes topics of its own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from tests.registry.running import RegistryProcess, running_registry
from tests.server import Server, running_server

NUMBERS = count(1)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    overrides = ("group.initial.rebalance.delay.ms=0",)
    with running_server(tmp_path_factory.mktemp("broker"), overrides=overrides) as server:
        yield server


@pytest.fixture(scope="module")
def registry(broker: Server) -> Iterator[RegistryProcess]:
    with running_registry(broker.bootstrap) as found:
        yield found


@pytest.fixture
def topic() -> str:
    return f"topic-{next(NUMBERS)}"
