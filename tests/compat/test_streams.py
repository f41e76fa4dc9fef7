"""Kafka Streams (Java) counts words on the broker, exactly once, and is killed half-way."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests import peer
from tests.server import running_server

pytestmark = [
    pytest.mark.compat,
    pytest.mark.peer,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(peer.missing() is not None, reason=str(peer.missing())),
]
SOURCE, SINK = "streams-plaintext-input", "streams-wordcount-output"
WORDS = ("log", "topic", "offset", "leader", "epoch", "broker", "record")
LINES = 3000
SECONDS_MAX = 150


def lines() -> list[str]:
    return [" ".join(WORDS[(n + k) % len(WORDS)] for k in range(1 + n % 4)) for n in range(LINES)]


@contextmanager
def word_count(folder: Path, bootstrap: str, number: int) -> Iterator[subprocess.Popen[bytes]]:
    settings = folder / "streams.properties"
    settings.write_text(
        f"bootstrap.servers={bootstrap}\n"
        "processing.guarantee=exactly_once_v2\n"
        f"state.dir={folder / 'state'}\n"
        "commit.interval.ms=100\n"
        "num.stream.threads=2\n"
        "consumer.session.timeout.ms=6000\n"
        "consumer.heartbeat.interval.ms=1000\n"
        "replication.factor=1\n"
    )
    output = (folder / f"streams-{number}.out").open("wb")
    process = subprocess.Popen(
        peer.tool_command("streams-wordcount", str(settings)), stdout=output, stderr=output, stdin=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        output.close()


class Counts:
    """Reads the counts that were committed so far: for each word, in the order in which they came."""

    def __init__(self, bootstrap: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
        self._consumer = Consumer(settings)
        self._consumer.assign([TopicPartition(SINK, n, OFFSET_BEGINNING) for n in range(2)])
        self.by_word: dict[str, list[int]] = {}

    def total(self) -> int:
        """Read what has come, and return how many words have been counted."""
        for message in self._consumer.consume(5000, timeout=0.5):
            if message.error() is None:
                count = int.from_bytes(message.value(), "big")
                self.by_word.setdefault(message.key().decode(), []).append(count)
        return sum(map(len, self.by_word.values()))

    def until(self, wanted: int) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while self.total() < wanted:
            assert time.monotonic() < deadline, f"{self.total()} of {wanted} words were counted: {self.by_word}"

    def close(self) -> None:
        self._consumer.close()


def test_a_word_count_that_is_killed_counts_every_word_exactly_once(tmp_path: Path) -> None:
    wanted = Counter(word for line in lines() for word in line.split())
    with running_server(tmp_path, overrides=["group.initial.rebalance.delay.ms=0"]) as server:
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        topics = [NewTopic(SOURCE, 4, 1), NewTopic(SINK, 2, 1, config={"cleanup.policy": "compact"})]
        for future in admin.create_topics(topics).values():
            future.result(30)
        producer = Producer({"bootstrap.servers": server.bootstrap})
        halves = lines()[: LINES // 2], lines()[LINES // 2 :]
        for number, line in enumerate(halves[0]):
            producer.produce(SOURCE, value=line, partition=number % 4)
        assert producer.flush(30) == 0
        counts = Counts(server.bootstrap)
        with word_count(tmp_path, server.bootstrap, 1) as first:
            counts.until(200)
            first.kill()  # as kill -9 does, in the middle of a transaction as likely as not
        for number, line in enumerate(halves[1]):
            producer.produce(SOURCE, value=line, partition=number % 4)
        assert producer.flush(30) == 0
        with word_count(tmp_path, server.bootstrap, 2):
            counts.until(sum(wanted.values()))
        counts.total()
        counts.close()
    assert counts.by_word == {word: list(range(1, count + 1)) for word, count in wanted.items()}
