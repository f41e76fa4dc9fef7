"""The clients' tests on three brokers that every change has to pass: one death each for a group and for a transaction."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.world import World
from tests.compat.brokers import three_brokers
from tests.compat.cluster_copying import copy_through
from tests.compat.cluster_life import live_on_three_brokers
from tests.compat.group_life import python_member

pytestmark = [pytest.mark.compat, pytest.mark.timeout(200)]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Three brokers for both tests."""
    with three_brokers(tmp_path_factory.mktemp("brokers")) as running:
        yield running


def test_a_group_loses_nothing_when_its_coordinator_dies(world: World, topic: str) -> None:
    command, read = python_member("confluent-consumer")
    live_on_three_brokers(world, topic, command, lambda: read, deaths=("coordinator",))


def test_each_record_is_copied_once_when_the_transactions_coordinator_dies(world: World) -> None:
    copy_through(world, "copy", ("transactions",), count=150)
