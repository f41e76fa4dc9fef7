"""Real Kafka's DescribeConfigs and ours, from one server.properties, key by key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.config import BrokerConfig, ConfigEntry, TopicConfig
from tests import peer
from tests.ports import free_port

# Kafka's broker starts beside ours, and only a change of these APIs breaks it: with `make compat`.
pytestmark = [pytest.mark.peer, pytest.mark.slow]

OTTLA_DEFAULTS = {"listeners", "log.dir", "node.id", "process.roles", "controller.listener.names"}
"""Keys whose defaults are Ottla's own: it starts without configuration, and on loopback."""
SPECIAL_ROWS = {"min.insync.replicas", "broker.id"}
"""Kafka writes a first cluster-wide `min.insync.replicas` itself, and derives `broker.id`."""
OTTLA_ROWS = {"ottla.strict.reads"}
"""Ottla's own settings that can be changed live: whoever changes one has to find it described."""

Comparable = tuple[str | None, int, bool, bool]


class Kafka(NamedTuple):
    """Where the broker listens, and the folder with its settings."""

    bootstrap: str
    folder: Path


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    path, port = tmp_path_factory.mktemp("peer"), free_port()
    with peer.running_broker(path, port, overrides=["log.retention.minutes=5", "log.roll.ms=7000"]):
        yield Kafka(f"127.0.0.1:{port}", path)


def described(kafka: Kafka, kind: str, name: str) -> dict[str, Comparable]:
    from confluent_kafka.admin import AdminClient, ConfigResource

    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    (future,) = admin.describe_configs([ConfigResource(kind, name)]).values()
    return {
        entry.name: (entry.value, int(entry.source), entry.is_read_only, entry.is_sensitive)
        for entry in future.result(30).values()
    }


def comparable(entries: list[ConfigEntry]) -> dict[str, Comparable]:
    return {entry.name: (entry.value, int(entry.source), entry.read_only, entry.sensitive) for entry in entries}


def different(theirs: dict[str, Comparable], ours: dict[str, Comparable]) -> dict[str, object]:
    skipped = OTTLA_DEFAULTS | SPECIAL_ROWS | OTTLA_ROWS
    return {
        name: (theirs.get(name), ours.get(name))
        for name in sorted(theirs.keys() | ours.keys())
        if theirs.get(name) != ours.get(name) and name not in skipped
    }


def test_a_broker_is_described_as_by_kafka(kafka: Kafka) -> None:
    ours = BrokerConfig.load((kafka.folder / "server.properties").read_text())
    assert different(described(kafka, "BROKER", "1"), comparable(ours.entries())) == {}


def test_a_topic_is_described_as_by_kafka(kafka: Kafka) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    overrides = {"segment.bytes": "2000000", "cleanup.policy": "compact,delete", "min.cleanable.dirty.ratio": "0.25"}
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    next(iter(admin.create_topics([NewTopic("t", 1, 1, config=overrides)]).values())).result(30)
    ours = TopicConfig(overrides, BrokerConfig.load((kafka.folder / "server.properties").read_text()))
    assert different(described(kafka, "TOPIC", "t"), comparable(ours.entries())) == {}
