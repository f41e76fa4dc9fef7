"""Streams and tables: one sequence of records, read as facts that add up, or as the last word on each key.

In a stream each record is one more fact, as a payment is. In a table each record replaces what its key said before, as an
address does, and a record without a value deletes its key. A compacted topic (`cleanup.policy=compact`) keeps at least the
last record of each key, which is all that a table needs.
Run it with a broker: python examples/stream_and_table.py [localhost:9092]
"""

import sys
import uuid
from collections.abc import Iterator

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

SERVERS = {"bootstrap.servers": sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"}
RUN = uuid.uuid4().hex[:6]
PAYMENTS, ADDRESSES = f"payments-{RUN}", f"addresses-{RUN}"


def everything(topic: str) -> Iterator[Message]:
    """Yield all that the topic holds now."""
    consumer = Consumer({**SERVERS, "group.id": "not-used", "enable.auto.commit": False})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0))
    consumer.assign([TopicPartition(topic, 0, 0)])
    offset = 0
    while offset < end:
        message = consumer.poll(30)
        if message is None or message.error():
            raise SystemExit("no answer from the broker")
        offset = message.offset() + 1
        yield message
    consumer.close()


def main() -> None:
    """Fold one topic into sums and the other into a table."""
    topics = [NewTopic(PAYMENTS, 1), NewTopic(ADDRESSES, 1, config={"cleanup.policy": "compact"})]
    admin = AdminClient(SERVERS)
    for made in admin.create_topics(topics).values():
        made.result()
    producer = Producer(SERVERS)
    for customer, amount in [("ann", 10), ("bob", 4), ("ann", 5)]:
        producer.produce(PAYMENTS, key=customer, value=str(amount))
    for customer, address in [("ann", "1 Old Road"), ("bob", "2 Hill"), ("ann", "3 New Road"), ("bob", None)]:
        producer.produce(ADDRESSES, key=customer, value=address)
    producer.flush()

    sums: dict[str, int] = {}
    for message in everything(PAYMENTS):
        customer = message.key().decode()
        sums[customer] = sums.get(customer, 0) + int(message.value())
    table: dict[str, str] = {}
    for message in everything(ADDRESSES):
        if message.value() is None:
            table.pop(message.key().decode(), None)
        else:
            table[message.key().decode()] = message.value().decode()
    assert (sums, table) == ({"ann": 15, "bob": 4}, {"ann": "3 New Road"}), (sums, table)
    print("the stream adds up to", sums)
    print("the table holds", table)


if __name__ == "__main__":
    main()
