"""Event sourcing: the state of a program is what its events add up to, so a restart loses nothing.

That takes longer each year, so it keeps snapshots in a compacted topic, and reads only the events that came after.
Run it with a broker: python examples/event_sourcing.py [localhost:9092]
"""

import json
import sys
import uuid
from collections.abc import Iterator

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

SERVERS = {"bootstrap.servers": sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"}
EVENTS, SNAPSHOTS = (f"{name}-{uuid.uuid4().hex[:6]}" for name in ("bookings", "balances"))
ACCOUNTS, COUNT, SNAPSHOT_EVERY = ["ann", "bob", "cleo"], 3000, 500


class Bank:
    """Balances, and the offset up to which the events are in each of them."""

    def __init__(self) -> None:
        self.balances = dict.fromkeys(ACCOUNTS, 0)
        self.known = dict.fromkeys(ACCOUNTS, -1)

    def apply(self, event: Message) -> None:
        """Take in an event that is not known yet."""
        account = event.key().decode()
        if event.offset() > self.known[account]:
            self.balances[account], self.known[account] = self.balances[account] + int(event.value()), event.offset()

    def restore(self, snapshot: Message) -> None:
        """Take over how an account stood."""
        account = snapshot.key().decode()
        self.balances[account], self.known[account] = json.loads(snapshot.value())


def read(topic: str, offset: int = 0) -> Iterator[Message]:
    """Yield what the topic holds from an offset to its end."""
    consumer = Consumer({**SERVERS, "group.id": "not-used", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, offset)])
    while (message := consumer.poll(30)) is not None and not message.error():
        yield message
    consumer.close()


def main() -> None:
    """Run the bank for a while, then start it again in both ways."""
    admin = AdminClient(SERVERS)
    for topic, config in [(EVENTS, {"retention.ms": "-1"}), (SNAPSHOTS, {"cleanup.policy": "compact"})]:
        admin.create_topics([NewTopic(topic, 1, config=config)])[topic].result()
    producer = Producer({**SERVERS, "enable.idempotence": True})
    for at in range(COUNT):
        producer.produce(EVENTS, key=ACCOUNTS[at % 3], value=str(at % 7 - 2))
    producer.flush()
    bank = Bank()
    for event in read(EVENTS):
        bank.apply(event)
        if event.offset() % SNAPSHOT_EVERY == SNAPSHOT_EVERY // 2:
            for account, balance in bank.balances.items():
                producer.produce(SNAPSHOTS, key=account, value=json.dumps([balance, bank.known[account]]))
    producer.flush()

    from_events, from_snapshots = Bank(), Bank()
    for event in read(EVENTS):
        from_events.apply(event)
    for snapshot in read(SNAPSHOTS):
        from_snapshots.restore(snapshot)
    newer = list(read(EVENTS, min(from_snapshots.known.values()) + 1))
    for event in newer:
        from_snapshots.apply(event)
    assert from_events.balances == from_snapshots.balances == bank.balances
    print(f"started again from {COUNT} events: {from_events.balances}")
    print(f"started again from snapshots and {len(newer)} events: the same")


if __name__ == "__main__":
    main()
