"""The loop that transactions are for: consume, produce, and commit the offsets in the same transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

__all__ = ["committed", "copy", "create", "producer", "records"]

SECONDS_MAX = 100.0
QUIET_S = 0.2


def create(bootstrap: str, *topics: str, partitions: int = 1) -> None:
    """Create topics; returns when they are there."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(each, partitions, 1) for each in topics]).values():
        future.result(SECONDS_MAX)


def producer(bootstrap: str, transactional_id: str, **settings: Any) -> Producer:
    """Return a transactional producer that has been initialised."""
    config = {
        "bootstrap.servers": bootstrap,
        "transactional.id": transactional_id,
        "log_level": 0,
        **{key.replace("_", "."): value for key, value in settings.items()},
    }
    made = Producer(config)
    made.init_transactions(SECONDS_MAX)
    return made


def reader(bootstrap: str, *, isolation: str = "read_committed", group: str = "reader") -> Consumer:
    """Return a consumer that commits nothing by itself."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )


def records(
    bootstrap: str, topic: str, *, partitions: int = 1, isolation: str = "read_committed"
) -> list[tuple[int, int, bytes]]:
    """Return (partition, offset, value) of everything that such a reader sees now, in order per partition."""
    consumer = reader(bootstrap, isolation=isolation)
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    found: list[tuple[int, int, bytes]] = []
    ended: set[int] = set()
    while len(ended) < partitions:
        message = consumer.poll(SECONDS_MAX)
        assert message is not None, f"{topic} does not end: {found[-3:]}"
        if message.error():
            assert message.error().code() == -191, message.error()
            ended.add(message.partition())
        else:
            found.append((message.partition(), message.offset(), message.value()))
    consumer.close()
    return found


def committed(bootstrap: str, group: str, topic: str, partition: int = 0) -> int:
    """Return a group's stable offset; below 0 where there is none."""
    consumer = reader(bootstrap, group=group)
    (found,) = consumer.committed([TopicPartition(topic, partition)], SECONDS_MAX)
    consumer.close()
    return int(found.offset)


def copy(
    consumer: Consumer, writer: Producer, target: str, *, batch: int, commit: bool = True, wait_s: float = 1.0
) -> int:
    """Copy up to so many records in one transaction, partition by partition; return how many there were.

    A transaction that cannot go on is aborted, and the consumer goes back to what is committed.
    """
    messages = [each for each in consumer.consume(batch, wait_s) if not each.error()]
    if not messages:
        return 0
    writer.begin_transaction()
    try:
        for each in messages:
            writer.produce(target, each.value(), each.key(), partition=each.partition())
        writer.send_offsets_to_transaction(positions(messages), consumer.consumer_group_metadata(), SECONDS_MAX)
        if commit:
            writer.commit_transaction(SECONDS_MAX)
            return len(messages)
        writer.abort_transaction(SECONDS_MAX)
    except KafkaException as error:
        if not error.args[0].txn_requires_abort():
            raise
        writer.abort_transaction(SECONDS_MAX)
    rewind(consumer, messages)
    return 0


def positions(messages: Iterable[Any]) -> list[TopicPartition]:
    """Return where reading goes on after these messages."""
    ends: dict[tuple[str, int], int] = {}
    for each in messages:
        ends[each.topic(), each.partition()] = each.offset() + 1
    return [TopicPartition(topic, partition, offset) for (topic, partition), offset in ends.items()]


def rewind(consumer: Consumer, messages: Sequence[Any]) -> None:
    """Go back to the first of these messages in each partition."""
    first: dict[tuple[str, int], int] = {}
    for each in messages:
        first.setdefault((each.topic(), each.partition()), each.offset())
    for (topic, partition), offset in first.items():
        consumer.seek(TopicPartition(topic, partition, offset))
