"""A queue: several workers share the jobs of a topic, and each job is done by exactly one of them.

The workers are members of one consumer group. The group gives each partition to one worker, and when a worker joins or
leaves, the partitions are dealt anew. So there can be as many busy workers as there are partitions.
Run it with a broker: python examples/work_queue.py [localhost:9092]
"""

import sys
import threading
import uuid
from collections import Counter

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

SERVERS = {"bootstrap.servers": sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"}
TOPIC = f"thumbnails-{uuid.uuid4().hex[:6]}"
PARTITIONS, WORKERS, JOBS = 4, 2, 40
PATIENCE_SECONDS = 60

done: Counter[str] = Counter()
share: Counter[str] = Counter()
ready = threading.Barrier(WORKERS + 1)
finished = threading.Event()


def work(name: str) -> None:
    """Take jobs until all are done; a job is committed after it was done, so that a crash repeats it, never loses it."""
    consumer = Consumer(
        {**SERVERS, "group.id": f"workers-{TOPIC}", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([TOPIC])
    while len(consumer.assignment()) != PARTITIONS // WORKERS:  # until both have joined and the shares are even
        consumer.poll(0.1)
    ready.wait(PATIENCE_SECONDS)
    while not finished.is_set():
        message = consumer.poll(0.1)
        if message is None or message.error():
            continue
        done[message.value().decode()] += 1
        share[name] += 1
        consumer.commit(message)
        if len(done) == JOBS:
            finished.set()
    consumer.close()


def main() -> None:
    """Start the workers, hand out jobs, and count who did what."""
    admin = AdminClient(SERVERS)
    admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS)])[TOPIC].result()
    workers = [threading.Thread(target=work, args=(f"worker {n}",), daemon=True) for n in range(1, WORKERS + 1)]
    for worker in workers:
        worker.start()
    ready.wait(PATIENCE_SECONDS)
    producer = Producer(SERVERS)
    for number in range(JOBS):
        producer.produce(TOPIC, value=f"picture {number}", partition=number % PARTITIONS)
    producer.flush()
    finished.wait(PATIENCE_SECONDS)
    for worker in workers:
        worker.join(PATIENCE_SECONDS)
    assert len(done) == JOBS and set(done.values()) == {1}, done
    print(f"{JOBS} jobs done once each:", ", ".join(f"{name} did {count}" for name, count in sorted(share.items())))


if __name__ == "__main__":
    main()
