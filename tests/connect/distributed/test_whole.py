"""Distributed workers with real connectors and real tasks, in threads instead of Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.connect.distributed.workers import BROKER
from tests.connect.whole import running_connect
from tests.server import running_server
from tests.waiting import until

LINES = 300
STRINGS = dict.fromkeys(("key.converter", "value.converter"), "org.apache.kafka.connect.storage.StringConverter")


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    with running_server(tmp_path, overrides=BROKER) as server:
        yield server.bootstrap


def values(bootstrap: str, topic: str) -> list[str]:
    """Return what is committed in a topic's only partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "look", "isolation.level": "read_committed"})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[str] = []
        while (message := consumer.poll(1.0)) is not None:
            assert message.error() is None and message.value() is not None
            found.append(message.value().decode())
            if (message.offset() or 0) + 1 >= end:
                break
        return found
    finally:
        consumer.close()


@pytest.mark.parametrize("support", ["disabled", "enabled"])
def test_a_worker_that_leaves_hands_its_tasks_over_and_no_line_comes_twice(
    bootstrap: str, tmp_path: Path, support: str
) -> None:
    given, taken = tmp_path / "in.txt", tmp_path / "out.txt"
    given.write_text("".join(f"line {number}\n" for number in range(LINES)))
    settings = {**STRINGS, "exactly.once.source.support": support}
    with ExitStack() as stack:
        others = [
            stack.enter_context(running_connect(tmp_path, bootstrap, distributed=True, **settings)) for _ in range(2)
        ]
        with running_connect(tmp_path, bootstrap, distributed=True, **settings) as first:
            source = {"connector.class": "FileStreamSource", "file": str(given), "topic": "through"}
            first.create("in", source)
            first.create("out", {"connector.class": "FileStreamSink", "file": str(taken), "topics": "through"})
            until(lambda: taken.exists() and len(taken.read_text().splitlines()) == LINES)
            length = given.stat().st_size
            wanted = {"offsets": [{"partition": {"filename": str(given)}, "offset": {"position": length}}]}
            until(lambda: others[0].ask("GET", "/connectors/in/offsets") == (200, wanted))
        with given.open("a") as file:
            file.writelines(f"line {number}\n" for number in range(LINES, 2 * LINES))
        until(lambda: len(taken.read_text().splitlines()) >= 2 * LINES, lambda: others[0].ask("GET", "/connectors"))
        for name in ("in", "out"):
            others[1].until(name, "RUNNING", "RUNNING")
    every = [f"line {number}" for number in range(2 * LINES)]
    assert taken.read_text().splitlines() == every
    assert values(bootstrap, "through") == every
