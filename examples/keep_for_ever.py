"""Retention for ever: a topic can be the record of all that happened, and not only a pipe.

By default a topic keeps a week. `retention.ms=-1` keeps everything, as long as the disk has room; the setting belongs to
the topic and can change at any time.
Run it with a broker: python examples/keep_for_ever.py [localhost:9092]
"""

import sys
import uuid

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

SERVERS = {"bootstrap.servers": sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"}
TOPIC = f"history-{uuid.uuid4().hex[:6]}"
LONG_AGO = 946_684_800_000  # 2000-01-01, in milliseconds


def main() -> None:
    """Make a topic that keeps everything, and find what is older than any usual retention."""
    admin = AdminClient(SERVERS)
    admin.create_topics([NewTopic(TOPIC, num_partitions=1, config={"retention.ms": "-1"})])[TOPIC].result()
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC)
    configs = admin.describe_configs([resource])[resource].result()
    print(f"{TOPIC[:7]} keeps records for {configs['retention.ms'].value} ms, which means for ever")

    producer = Producer(SERVERS)
    for year in range(26):
        producer.produce(TOPIC, value=f"the year {2000 + year}", timestamp=LONG_AGO + year * 365 * 86_400_000)
    producer.flush()

    consumer = Consumer({**SERVERS, "group.id": "not-used", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    first = consumer.poll(30)
    assert first is not None and first.error() is None
    assert first.value() == b"the year 2000"
    low, high = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0))
    assert (low, high) == (0, 26)
    print(f"{high - low} records, the first of them", first.value().decode())
    consumer.close()


if __name__ == "__main__":
    main()
