"""A program that copies a topic in transactions until it has come to the end, however often it is killed and begun again.

`python -m tests.transactions.copier BOOTSTRAP SOURCE TARGET PARTITIONS TRANSACTIONAL_ID SEED` prints a line for each
transaction that it has committed, and `done` at the end.
"""

from __future__ import annotations

import os
import random
import sys
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tests.transactions.copying import SECONDS_MAX, copy, producer, reader

BATCH_MAX = 20
ABORTS_IN = 10
"""One transaction in so many is aborted on purpose."""
ROUNDS_MAX = 100_000


def main(bootstrap: str, source: str, target: str, partitions: int, name: str, seed: int) -> None:
    """Copy to the end; a failure that the loop cannot mend ends the program, and whoever runs it begins it again."""
    rng = random.Random(seed)
    consumer = reader(bootstrap, group=name)
    writer = producer(bootstrap, name)  # before the offsets are looked at: what is open is aborted by this
    started = begin(consumer, source, partitions)
    end = ends(consumer, source, partitions)
    for _ in range(ROUNDS_MAX):
        commit = rng.randrange(ABORTS_IN) > 0
        copied = copy(consumer, writer, target, batch=rng.randint(1, BATCH_MAX), commit=commit, wait_s=0.2)
        if copied:
            print(copied, flush=True)
        elif positions(consumer, source, started) == end:
            print("done", flush=True)
            return


def every(topic: str, partitions: int) -> list[TopicPartition]:
    """Return a topic's partitions."""
    return [TopicPartition(topic, index) for index in range(partitions)]


def begin(consumer: Consumer, source: str, partitions: int) -> list[int]:
    """Read on from what is committed, and return where that is; a group's pending offsets are waited for."""
    found: list[Any] = consumer.committed(every(source, partitions), SECONDS_MAX)
    for each in found:
        assert each.error is None, each.error
    started = [max(each.offset, 0) for each in found]
    consumer.assign([TopicPartition(source, index, offset) for index, offset in enumerate(started)])
    return started


def positions(consumer: Consumer, source: str, started: list[int]) -> list[int]:
    """Return how far the consumer has come; what it has not read anything of is where it began."""
    found = consumer.position(every(source, len(started)))
    return [each.offset if each.offset >= 0 else began for each, began in zip(found, started, strict=True)]


def ends(consumer: Consumer, source: str, partitions: int) -> list[int]:
    """Return where the source's partitions end."""
    return [int(consumer.get_watermark_offsets(each, SECONDS_MAX)[1]) for each in every(source, partitions)]


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5], int(sys.argv[6]))
    except Exception as error:
        print(f"ended: {error!r}", flush=True)
    os._exit(0)  # librdkafka may never come to the end of a producer whose broker is gone
