"""Clients that nobody here wrote, in groups on three brokers, while the coordinator, a leader and the controller die."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import peer
from tests.chaos.world import World
from tests.compat import other_languages
from tests.compat.brokers import three_brokers
from tests.compat.cluster_life import live_on_three_brokers
from tests.compat.group_life import python_member

pytestmark = [pytest.mark.compat, pytest.mark.timeout(400), pytest.mark.slow]
PYTHON_CLIENTS = ["confluent-classic", "confluent-cooperative", "confluent-consumer", "kafka-python", "aiokafka"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Three brokers for every test here; each test leaves them mended."""
    with three_brokers(tmp_path_factory.mktemp("brokers")) as running:
        yield running


@pytest.mark.parametrize("client", PYTHON_CLIENTS)
def test_a_group_loses_nothing_while_brokers_die(world: World, topic: str, client: str) -> None:
    command, read = python_member(client)
    live_on_three_brokers(world, topic, command, lambda: read)


def test_a_group_of_kcats_loses_nothing_while_brokers_die(world: World, topic: str) -> None:
    other_languages.kcat()
    live_on_three_brokers(world, topic, other_languages.kcat_command, lambda: other_languages.read_kcat)


@pytest.mark.peer
@pytest.mark.skipif(peer.missing() is not None, reason=str(peer.missing()))
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_of_java_clients_loses_nothing_while_brokers_die(world: World, topic: str, protocol: str) -> None:
    live_on_three_brokers(world, topic, other_languages.java_command(protocol), other_languages.read_java)


def test_a_group_of_franz_go_clients_loses_nothing_while_brokers_die(world: World, topic: str) -> None:
    program = str(other_languages.build_franz_go())
    read = python_member("")[1]
    live_on_three_brokers(world, topic, lambda *args: [program, *args], lambda: read)


def test_a_group_of_kafkajs_clients_loses_nothing_while_brokers_die(world: World, topic: str) -> None:
    folder = other_languages.build_kafkajs()
    read = python_member("")[1]
    live_on_three_brokers(world, topic, lambda *args: ["node", "member.js", *args], lambda: read, folder=folder)
