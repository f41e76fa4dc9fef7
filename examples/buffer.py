"""A buffer: a burst is written at once, and a slow consumer takes it at its own speed, stops, and goes on later.

The topic stands between the two, so that neither waits for the other. The consumer commits how far it has come; its lag is
what lies between there and the end.
Run it with a broker: python examples/buffer.py [localhost:9092]
"""

import sys
import uuid

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

SERVERS = {"bootstrap.servers": sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"}
TOPIC = f"readings-{uuid.uuid4().hex[:6]}"
BURST, AT_ONCE = 3000, 500
PATIENCE_SECONDS = 30


def consume(some: int) -> int:
    """Take so many readings, commit, and return the lag that is left; each call is a consumer that starts anew."""
    consumer = Consumer(
        {**SERVERS, "group.id": f"archive-{TOPIC}", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([TOPIC])
    taken = 0
    while taken < some:
        messages = consumer.consume(min(AT_ONCE, some - taken), timeout=PATIENCE_SECONDS)
        if not messages:
            raise SystemExit(f"no reading within {PATIENCE_SECONDS} s")
        taken += sum(1 for message in messages if not message.error())
    (position,) = consumer.position([TopicPartition(TOPIC, 0)])
    consumer.commit(offsets=[position], asynchronous=False)
    _, end = consumer.get_watermark_offsets(position)
    consumer.close()
    return end - position.offset


def main() -> None:
    """Write a burst while nobody reads, then let a consumer catch up in several goes."""
    admin = AdminClient(SERVERS)
    admin.create_topics([NewTopic(TOPIC, num_partitions=1)])[TOPIC].result()
    producer = Producer(SERVERS)
    for number in range(BURST):
        producer.produce(TOPIC, value=f"reading {number}")
        producer.poll(0)
    producer.flush()
    print(f"{BURST} readings written before anybody read one")
    lags = [consume(BURST // 3) for _ in range(3)]
    assert lags == [2 * BURST // 3, BURST // 3, 0], lags
    print("the consumer's lag after each go:", ", ".join(map(str, lags)))


if __name__ == "__main__":
    main()
