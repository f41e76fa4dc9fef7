"""Publish and subscribe: whoever is interested reads every message, and the publisher knows none of them.

Each subscriber is a consumer group of its own, so that each has its own place in the topic.
Run it with a broker: python examples/publish_subscribe.py [localhost:9092]
"""

import sys
import uuid

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

SERVERS = {"bootstrap.servers": sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"}
TOPIC = f"price-changes-{uuid.uuid4().hex[:6]}"
PATIENCE_SECONDS = 30
PRICES = [("apple", "1.10"), ("pear", "0.90"), ("apple", "1.15")]


def publish() -> None:
    """Write every price; who will read it is nobody's business here."""
    producer = Producer(SERVERS)
    for product, price in PRICES:
        producer.produce(TOPIC, key=product, value=price)
    producer.flush()


def subscribe(group: str) -> list[tuple[str, str]]:
    """Read as many messages as there are, as one subscriber."""
    consumer = Consumer({**SERVERS, "group.id": f"{group}-{TOPIC}", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    received = []
    while len(received) < len(PRICES):
        message = consumer.poll(PATIENCE_SECONDS)
        if message is None:
            raise SystemExit(f"{group}: no message within {PATIENCE_SECONDS} s")
        if message.error():
            raise SystemExit(f"{group}: {message.error()}")
        received.append((message.key().decode(), message.value().decode()))
    consumer.close()
    return received


def main() -> None:
    """Publish once, subscribe twice: the shop window and the accounts each see everything."""
    admin = AdminClient(SERVERS)
    admin.create_topics([NewTopic(TOPIC, num_partitions=1)])[TOPIC].result()
    publish()
    for group in ("shop-window", "accounts"):
        received = subscribe(group)
        assert received == PRICES, received
        print(f"{group} received", ", ".join(f"{product}={price}" for product, price in received))


if __name__ == "__main__":
    main()
