"""Actual and history: the same events twice, in a topic that keeps them all and in one that keeps the last of each key.

Who asks how it came about reads the history. Who only wants to know how things are reads the compacted topic, which is
smaller, so a program's table is there sooner. The broker compacts what lies in closed segments, every 15 seconds unless
`log.cleaner.backoff.ms` says something else, so this takes as long.
Run it with a broker: python examples/actual_and_history.py [localhost:9092]
"""

import sys
import time
import uuid

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

SERVERS = {"bootstrap.servers": sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"}
RUN = uuid.uuid4().hex[:6]
HISTORY, ACTUAL = f"prices-history-{RUN}", f"prices-actual-{RUN}"
PRODUCTS = ["apple", "cherry", "pear", "plum", "quince"]
CHANGES, HOUR_MS = 200, 3_600_000
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": str(24 * HOUR_MS),  # a day's records are a segment; the newest is never compacted
    "min.cleanable.dirty.ratio": "0.1",  # compact when a tenth of the log has not been: sooner, for more work
}
WAIT_S_MAX = 90


def everything(topic: str) -> list[Message]:
    """Return all that the topic holds now; the offsets of what was compacted are left out."""
    consumer = Consumer({**SERVERS, "group.id": "not-used", "enable.auto.commit": False, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while True:
        message = consumer.poll(30)
        if message is None:
            raise SystemExit("no answer from the broker")
        if message.error():  # that this was the last one
            consumer.close()
            return found
        found.append(message)


def table(messages: list[Message]) -> dict[str, str]:
    """Fold records into the last value of each key."""
    return {message.key().decode(): message.value().decode() for message in messages}


def main() -> None:
    """Write every change to both topics, let the broker compact one, and compare what is read."""
    topics = [NewTopic(HISTORY, 1, config={"retention.ms": "-1"}), NewTopic(ACTUAL, 1, config=COMPACTED)]
    admin = AdminClient(SERVERS)
    for made in admin.create_topics(topics).values():
        made.result()
    producer = Producer(SERVERS)
    began = int(time.time() * 1000) - (CHANGES + 48) * HOUR_MS
    changes = [(began + at * HOUR_MS, PRODUCTS[at * 3 % 5], f"{100 + at} cents") for at in range(CHANGES)]
    changes.append((began + (CHANGES + 24) * HOUR_MS, "apple", "99 cents"))  # a day later: it begins a segment
    for topic in (HISTORY, ACTUAL):
        for timestamp, product, price in changes:
            producer.produce(topic, key=product, value=price, timestamp=timestamp)
            producer.flush()

    deadline = time.monotonic() + WAIT_S_MAX
    while len(actual := everything(ACTUAL)) > len(PRODUCTS) + 1:
        if time.monotonic() > deadline:
            raise SystemExit("the broker has not compacted the topic")
        time.sleep(0.1)
    history = everything(HISTORY)
    assert table(actual) == table(history)
    print(f"the history holds {len(history)} changes, the compacted topic {len(actual)} of them")
    print("both say that apples are", table(actual)["apple"])


if __name__ == "__main__":
    main()
