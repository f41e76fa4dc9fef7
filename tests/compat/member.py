"""A member of a consumer group, in a process of its own that a test may kill: `python -m tests.compat.member CLIENT ...`.

Prints a JSON line for what happens: `{"assigned": [partitions]}` after each rebalance, `{"record": [partition, offset,
value]}` for each record, whose offset is committed after its line has left. It runs until it is terminated.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable
from typing import Any

SESSION_MS = 3000
HEARTBEAT_MS = 300


def say(what: str, value: object) -> None:
    """Print one line, at once."""
    print(json.dumps({what: value}), flush=True)


def confluent(bootstrap: str, topic: str, group: str, extra: dict[str, Any]) -> None:
    """librdkafka, by confluent-kafka."""
    from confluent_kafka import Consumer

    settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", **extra}
    consumer = Consumer({**settings, "enable.auto.commit": False})

    def assigned(who: Consumer, partitions: list[Any]) -> None:
        if extra.get("partition.assignment.strategy") == "cooperative-sticky" or "group.protocol" in extra:
            who.incremental_assign(partitions)
        else:
            who.assign(partitions)
        say("assigned", sorted(each.partition for each in who.assignment()))

    def revoked(who: Consumer, partitions: list[Any]) -> None:
        gone = {each.partition for each in partitions}
        say("assigned", sorted(each.partition for each in who.assignment() if each.partition not in gone))

    consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked)
    try:
        while True:
            message = consumer.poll(0.2)
            if message is None or message.error() is not None:
                continue
            say("record", [message.partition(), message.offset(), (message.value() or b"").decode()])
            consumer.commit(message=message, asynchronous=False)
    finally:
        consumer.close()


def confluent_classic(bootstrap: str, topic: str, group: str) -> None:
    """The classic protocol with eager rebalancing."""
    times = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
    confluent(bootstrap, topic, group, times)


def confluent_cooperative(bootstrap: str, topic: str, group: str) -> None:
    """The classic protocol with cooperative rebalancing (KIP-429), as a static member (KIP-345)."""
    times = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
    confluent(bootstrap, topic, group, {**times, "partition.assignment.strategy": "cooperative-sticky"})


def confluent_consumer(bootstrap: str, topic: str, group: str) -> None:
    """The consumer protocol (KIP-848)."""
    confluent(bootstrap, topic, group, {"group.protocol": "consumer"})


def kafka_python(bootstrap: str, topic: str, group: str) -> None:
    """kafka-python, blocking."""
    from kafka import ConsumerRebalanceListener, KafkaConsumer

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
    )

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: Any) -> None:
            say("assigned", sorted(each.partition for each in consumer.assignment()))

        def on_partitions_revoked(self, revoked: Any) -> None:
            say("assigned", [])

    consumer.subscribe([topic], listener=Listener())
    while True:
        for records in consumer.poll(200).values():
            for each in records:
                say("record", [each.partition, each.offset, each.value.decode()])
            consumer.commit()


def aiokafka(bootstrap: str, topic: str, group: str) -> None:
    """aiokafka, on asyncio."""
    from aiokafka import AIOKafkaConsumer
    from aiokafka.abc import ConsumerRebalanceListener

    async def run() -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
        )

        class Listener(ConsumerRebalanceListener):
            async def on_partitions_assigned(self, assigned: Any) -> None:
                say("assigned", sorted(each.partition for each in assigned))

            async def on_partitions_revoked(self, revoked: Any) -> None:
                say("assigned", [])

        consumer.subscribe([topic], listener=Listener())
        async with consumer:
            while True:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    for each in records:
                        say("record", [each.partition, each.offset, (each.value or b"").decode()])
                    await consumer.commit()

    asyncio.run(run())


CLIENTS: dict[str, Callable[[str, str, str], None]] = {
    "confluent-classic": confluent_classic,
    "confluent-cooperative": confluent_cooperative,
    "confluent-consumer": confluent_consumer,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
}


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    CLIENTS[sys.argv[1]](*sys.argv[2:5])
