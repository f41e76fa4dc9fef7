"""Clients that nobody here wrote, in consumer groups: they share, die, take over and resume, and lose nothing."""

from __future__ import annotations

import pytest

from tests import peer
from tests.compat import other_languages
from tests.compat.group_life import live_through_it, python_member

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]
PYTHON_CLIENTS = [
    *("confluent-cooperative", "confluent-consumer", "kafka-python"),
    # a group waits for ten seconds in all: both protocols, eager and cooperative, two libraries are above
    *(pytest.param(each, marks=pytest.mark.slow) for each in ("confluent-classic", "aiokafka")),
]


@pytest.mark.parametrize("client", PYTHON_CLIENTS)
def test_a_group_loses_nothing_while_members_come_and_die(bootstrap: str, topic: str, client: str) -> None:
    command, read = python_member(client)
    live_through_it(bootstrap, topic, command, lambda: read)


@pytest.mark.slow
def test_a_group_of_kcats_loses_nothing(bootstrap: str, topic: str) -> None:
    other_languages.kcat()
    live_through_it(bootstrap, topic, other_languages.kcat_command, lambda: other_languages.read_kcat)


@pytest.mark.slow
@pytest.mark.peer
@pytest.mark.skipif(peer.missing() is not None, reason=str(peer.missing()))
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_of_java_clients_loses_nothing(bootstrap: str, topic: str, protocol: str) -> None:
    live_through_it(bootstrap, topic, other_languages.java_command(protocol), other_languages.read_java)


@pytest.mark.slow
def test_a_group_of_franz_go_clients_loses_nothing(bootstrap: str, topic: str) -> None:
    program = str(other_languages.build_franz_go())
    read = python_member("")[1]
    live_through_it(bootstrap, topic, lambda *args: [program, *args], lambda: read)


@pytest.mark.slow
def test_a_group_of_kafkajs_clients_loses_nothing(bootstrap: str, topic: str) -> None:
    folder = other_languages.build_kafkajs()
    read = python_member("")[1]
    live_through_it(bootstrap, topic, lambda *args: ["node", "member.js", *args], lambda: read, folder=folder)
