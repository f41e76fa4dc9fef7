"""Who feeds the application, and who counts: confluent-kafka's clients, which know nothing of ours."""

from __future__ import annotations

import threading
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

__all__ = ["CHANGELOG", "UNREAD", "Feeder", "differences", "feed_plainly", "inputs", "read_messages", "read_topic"]

CHANGELOG = "app-counts-changelog"
UNREAD = "lost"
CHUNK = 20
KEYS = 17
PAUSE_S = 0.2
BEGIN: dict[str, Any] = {"auto.offset.reset": "earliest"}
"""Whose head was deleted is read from where it begins."""
QUIET: dict[str, Any] = {"log_level": 0}


class Feeder(threading.Thread):
    """Writes transactions of records into `in`, some of which it aborts, until it is told to stop."""

    def __init__(self, bootstrap: str, sent: int = 0) -> None:
        """`sent` is how many chunks a feeder before has sent, so that no value comes twice."""
        super().__init__(daemon=True)
        self._servers = bootstrap
        self._over = threading.Event()
        self.sent = sent

    def run(self) -> None:
        """Feed; after any error with a new producer. What became of a chunk then, the topic itself will tell."""
        while not self._over.is_set():
            try:
                self._feed()
            except KafkaException:
                self._over.wait(0.2)

    def _feed(self) -> None:
        name = f"feeder-{uuid.uuid4()}"
        settings = {"bootstrap.servers": self._servers, "transactional.id": name, "transaction.timeout.ms": 5000}
        producer = Producer({**settings, "linger.ms": 0, **QUIET})
        producer.init_transactions(10)
        while not self._over.is_set():
            producer.begin_transaction()
            self.sent += 1
            aborted = self.sent % 7 == 0
            for n in range(CHUNK):
                number = self.sent * CHUNK + n
                value = f"{'aborted' if aborted else 'id'}-{number}"
                producer.produce("in", key=f"key-{number % KEYS}", value=value)
            (producer.abort_transaction if aborted else producer.commit_transaction)(10)
            self._over.wait(PAUSE_S)

    def stop(self) -> None:
        """Stop after the chunk at hand."""
        self._over.set()
        self.join()


def feed_plainly(bootstrap: str, word: str, counts: dict[int, int]) -> None:
    """Write so many records into each partition of `in`, in no transaction; every value is another."""
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET})
    for partition, count in counts.items():
        for number in range(count):
            value = f"{word}-{uuid.uuid4()}"
            producer.produce("in", key=f"key-{partition}-{number % KEYS}", value=value, partition=partition)
    assert producer.flush(30) == 0


def read_topic(bootstrap: str, topic: str) -> list[tuple[str, bytes]]:
    """Return a topic's committed records as (key, value); each key's in their order."""
    return [((each.key() or b"").decode(), each.value() or b"") for each in read_messages(bootstrap, topic)]


def read_messages(bootstrap: str, topic: str, *, timeout_s: float = 60.0) -> list[Message]:
    """Return a topic's committed records, each partition's in their order."""
    settings = {"bootstrap.servers": bootstrap, "group.id": str(uuid.uuid4()), "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "enable.partition.eof": True, **BEGIN, **QUIET})
    try:
        partitions = consumer.list_topics(topic, timeout_s).topics[topic].partitions
        consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
        found: list[Message] = []
        ended: set[int] = set()
        while len(ended) < len(partitions):
            message = consumer.poll(timeout_s)
            assert message is not None, f"{topic} brings nothing for {timeout_s} s"
            if message.error() is None:
                found.append(message)
            elif message.error().code() == -191:  # _PARTITION_EOF
                ended.add(message.partition() or 0)
            else:
                raise KafkaException(message.error())
        return found
    finally:
        consumer.close()


def differences(bootstrap: str, before: Iterable[tuple[str, str]] = ()) -> tuple[int, list[str]]:
    """Return how many records `in` has, and has had `before`, and what is not as it has to be in the topics of results."""
    given = list(dict.fromkeys([*before, *inputs(bootstrap)]))  # no value is sent twice
    wrong = [f"{value} was aborted and is in the input" for _, value in given if value.startswith("aborted")]
    copied = Counter(value.decode() for _, value in read_topic(bootstrap, "copied"))
    wanted = Counter(value.upper() for _, value in given)
    wrong += [f"{value} is {copied[value]} times in copied" for value in wanted if copied[value] != wanted[value]]
    wrong += [f"{value} is in copied and not in the input" for value in copied.keys() - wanted.keys()]
    totals = Counter(key for key, _ in given)
    counted = [(key, int(value)) for key, value in read_topic(bootstrap, "counted")]
    changes = [(key, int.from_bytes(value, "big")) for key, value in read_topic(bootstrap, CHANGELOG)]
    wrong += _wrong_counts("counted", counted, totals)
    wrong += _wrong_counts("the changelog", changes, totals) if changes else []
    return len(given), wrong


def inputs(bootstrap: str) -> list[tuple[str, str]]:
    """Return the keys and values that `in` has now, without those that were deleted before anybody read them.

    A broker that is killed may show them again: where a log begins is written down once a minute, as in Kafka.
    """
    found = [(key, value.decode()) for key, value in read_topic(bootstrap, "in")]
    return [each for each in found if not each[1].startswith(UNREAD)]


def _wrong_counts(topic: str, found: list[tuple[str, int]], totals: Counter[str]) -> list[str]:
    """Say which keys' counts do not rise, each once, to the total."""
    counts: dict[str, list[int]] = defaultdict(list)
    for key, count in found:
        counts[key].append(count)
    wrong = [f"{key} is in {topic} and not in the input" for key in counts.keys() - totals.keys()]
    for key, total in totals.items():
        seen = counts.get(key, [0])
        if seen[-1] != total:
            wrong.append(f"{topic} counts {key} to {seen[-1]} and not to {total}")
        wrong += [f"{topic} counts {key} to {b} after {a}" for a, b in pairwise(seen) if b <= a]
    return wrong
