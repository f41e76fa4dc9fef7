"""The threads of a soak run: each loops until it is told to end, and tells the ledger what was acknowledged."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer

from tests.soak.ledger import Ledger

__all__ = ["PARTITIONS", "compacting", "filling", "member", "plain", "transactional"]

PARTITIONS = 6
KEYS = 500
FLUSH_SECONDS = 60
MEMBER_SECONDS = (2.0, 8.0)
SKIPPED = "skipped sequence numbers"
"""What librdkafka says of itself where an abort has purged records from its queue; nothing was asked of the broker."""


def plain(bootstrap: str, name: str, ledger: Ledger, ended: threading.Event) -> None:
    """Produce numbered records idempotently, in bursts."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    number = 0

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            ledger.error(f"{name}: a record was not acknowledged: {error}")
            return
        with ledger.lock:
            ledger.acknowledged[(name, message.partition())].append(int(message.value().split(b":")[1]))

    while not ended.is_set():
        for _ in range(100):
            producer.produce(
                "plain", b"%s:%d" % (name.encode(), number), partition=number % PARTITIONS, callback=delivered
            )
            number += 1
        producer.poll(0)
        ended.wait(0.02)
    if producer.flush(FLUSH_SECONDS):
        ledger.error(f"{name}: records were still unacknowledged after {FLUSH_SECONDS} s")


def transactional(bootstrap: str, name: str, ledger: Ledger, ended: threading.Event, rng: random.Random) -> None:
    """Produce in transactions, a third of which are aborted."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(FLUSH_SECONDS)
    number = 0
    while not ended.is_set():
        producer.begin_transaction()
        numbers = range(number, number + rng.randrange(1, 60))
        number = numbers.stop
        for each in numbers:
            producer.produce("transactions", b"%s:%d" % (name.encode(), each), partition=each % PARTITIONS)
        try:
            if rng.random() < 1 / 3:
                producer.abort_transaction(FLUSH_SECONDS)
                with ledger.lock:
                    ledger.aborted += 1
                continue
            producer.commit_transaction(FLUSH_SECONDS)
        except KafkaException as error:
            if SKIPPED in str(error) and error.args[0].txn_requires_abort():
                producer.abort_transaction(FLUSH_SECONDS)
                continue
            ledger.error(f"{name}: a transaction did not end: {error}")
            return
        with ledger.lock:
            for each in numbers:
                ledger.committed[(name, each % PARTITIONS)].append(each)


def compacting(bootstrap: str, ledger: Ledger, ended: threading.Event, rng: random.Random) -> None:
    """Update and delete keys of a compacted topic."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    number = 0
    while not ended.is_set():
        for _ in range(200):
            key = f"key-{rng.randrange(KEYS)}"
            value = None if rng.random() < 0.1 else f"{number}:{'x' * 100}"
            producer.produce("compacted", key=key, value=value, partition=0)
            ledger.latest[key] = value
            number += 1
        if producer.flush(FLUSH_SECONDS):
            ledger.error(f"compacted: records were still unacknowledged after {FLUSH_SECONDS} s")
            return
        ended.wait(0.05)


def filling(bootstrap: str, ledger: Ledger, ended: threading.Event) -> None:
    """Fill a topic that keeps a few megabytes."""
    producer = Producer({"bootstrap.servers": bootstrap})
    while not ended.is_set():
        for _ in range(100):
            producer.produce("retained", value=b"x" * 1000, partition=0)
        if producer.flush(FLUSH_SECONDS):
            ledger.error(f"retained: records were still unacknowledged after {FLUSH_SECONDS} s")
            return
        ended.wait(0.05)


def member(bootstrap: str, protocol: str, ledger: Ledger, ended: threading.Event, rng: random.Random) -> None:
    """Be a member of a group again and again, for a few seconds each time; what was read counts once it is committed."""
    while not ended.is_set():
        settings = {"bootstrap.servers": bootstrap, "group.id": f"soak-{protocol}", "auto.offset.reset": "earliest"}
        consumer = Consumer({**settings, "enable.auto.commit": False, "group.protocol": protocol})
        consumer.subscribe(["plain"])
        until = time.monotonic() + rng.uniform(*MEMBER_SECONDS)
        try:
            while time.monotonic() < until and not ended.is_set():
                take(consumer, ledger)
        finally:
            consumer.close()


def take(consumer: Consumer, ledger: Ledger) -> int:
    """Read some records, commit them, and note them; a commit that a rebalance has overtaken counts for nothing."""
    messages = [each for each in consumer.consume(500, timeout=0.5) if each.error() is None]
    if not messages:
        return 0
    try:
        consumer.commit(asynchronous=False)
    except KafkaException:
        return 0
    with ledger.lock:
        for each in messages:
            name, number = each.value().split(b":")
            ledger.consumed[(name.decode(), each.partition())].add(int(number))
    return len(messages)
