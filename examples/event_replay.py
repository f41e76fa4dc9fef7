"""Event replay: the events are kept, so a result that was computed wrongly is computed again.

Reading removes nothing from a topic. A mended program goes back to the beginning, or to any point in time.
Run it with a broker: python examples/event_replay.py [localhost:9092]
"""

import sys
import uuid
from collections.abc import Callable

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

SERVERS = {"bootstrap.servers": sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"}
TOPIC = f"account-{uuid.uuid4().hex[:6]}"
JANUARY, FEBRUARY = 1_767_225_600_000, 1_769_904_000_000  # the first of each month of 2026, in milliseconds
EVENTS = [(JANUARY, "deposit 100"), (JANUARY + 1, "withdraw 30"), (FEBRUARY, "deposit 5")]
Apply = Callable[[int, str], int]


def buggy(balance: int, event: str) -> int:
    """Add every amount, also what was withdrawn."""
    return balance + int(event.split()[1])


def mended(balance: int, event: str) -> int:
    """Add deposits and subtract the rest."""
    kind, amount = event.split()
    return balance + (int(amount) if kind == "deposit" else -int(amount))


def replay(apply: Apply, since: int | None = None) -> int:
    """Read from the beginning, or from a time on, to what is the end now; return the balance that comes of it."""
    consumer = Consumer({**SERVERS, "group.id": "not-used", "enable.auto.commit": False})
    start = TopicPartition(TOPIC, 0, OFFSET_BEGINNING)
    if since is not None:
        (start,) = consumer.offsets_for_times([TopicPartition(TOPIC, 0, since)])
    _, end = consumer.get_watermark_offsets(start)
    consumer.assign([start])
    balance = offset = 0
    while offset < end:
        message = consumer.poll(30)
        if message is None or message.error():
            raise SystemExit("no answer from the broker")
        balance = apply(balance, message.value().decode())
        offset = message.offset() + 1
    consumer.close()
    return balance


def main() -> None:
    """Compute with the bug, mend it, and compute again from the same events."""
    admin = AdminClient(SERVERS)
    admin.create_topics([NewTopic(TOPIC, num_partitions=1)])[TOPIC].result()
    producer = Producer(SERVERS)
    for timestamp, event in EVENTS:
        producer.produce(TOPIC, value=event, timestamp=timestamp)
    producer.flush()
    print("with the bug the balance is", replay(buggy))
    assert replay(mended) == 75
    print("replayed with the mended program it is", replay(mended))
    print("since February came", replay(mended, since=FEBRUARY))


if __name__ == "__main__":
    main()
