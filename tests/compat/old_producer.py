"""A producer of an old confluent-kafka, in a Python of its own: `old_producer.py BOOTSTRAP TOPIC CODEC COUNT`."""

from __future__ import annotations

import sys

import confluent_kafka

SECONDS_MAX = 20
VALUE = b"the same words again and again " * 8


def main(bootstrap: str, topic: str, codec: str, count: int) -> None:
    """Write `count` records in one batch or few; exits with what went wrong."""
    failed: list[str] = []
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 200, "acks": "all"}
    )
    for number in range(count):
        producer.produce(
            topic,
            key=str(number).encode(),
            value=VALUE,
            partition=0,
            on_delivery=lambda error, message: failed.append(str(error)) if error is not None else None,
        )
    left = producer.flush(SECONDS_MAX)
    if left or failed:
        sys.exit(f"{left} records are left, {len(failed)} have failed: {failed[:1]}")
    print(confluent_kafka.__version__)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
