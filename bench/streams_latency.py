"""End-to-end latency of a pipeline: `python -m bench.streams_latency BOOTSTRAP SOURCE SINK SECONDS RATE [VALUE]`.

`confluent-kafka` produces to the source at a fixed rate and consumes the sink. A latency is the time at which an output is
consumed less its timestamp, which pipelines take from the newest record behind it. What is sent in the first seconds warms
the pipeline up. Prints one JSON object: p50 and p99 in milliseconds, and how many outputs there were.
"""

from __future__ import annotations

import json
import sys
import threading
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

__all__ = ["main", "measure"]

KEYS = 1000
"""More than records of a batch: each record has an output of its own, also where those of a key are coalesced."""
WARM_SECONDS = 4.0
TAIL_SECONDS = 3.0
PARTITIONS = 4
VALUE = "some text that says little"


def measure(bootstrap: str, source: str, sink: str, seconds: float, rate: int, value: str = VALUE) -> dict[str, float]:
    """Return p50 and p99 (ms) and the number of outputs; raises RuntimeError where nothing comes out."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"latency-{time.monotonic_ns()}"})
    # what an earlier run has left there is older than what is counted
    consumer.assign([TopicPartition(sink, each, OFFSET_BEGINNING) for each in range(PARTITIONS)])
    begin = time.time()
    sender = threading.Thread(
        target=_send, args=(bootstrap, source, begin, WARM_SECONDS + seconds, rate, value), daemon=True
    )
    sender.start()
    counted_from, counted_until = (begin + WARM_SECONDS) * 1000, (begin + WARM_SECONDS + seconds) * 1000
    found: list[float] = []
    while time.time() * 1000 < counted_until + TAIL_SECONDS * 1000:
        message = consumer.poll(0.2)
        if message is None or message.error():
            continue
        sent_ms = message.timestamp()[1]
        if counted_from <= sent_ms < counted_until:
            found.append(time.time() * 1000 - sent_ms)
    sender.join()
    consumer.close()
    if not found:
        raise RuntimeError(f"nothing came out of {sink}")
    found.sort()
    return {**{f"p{share}": found[int(len(found) * share / 100)] for share in (50, 99)}, "outputs": len(found)}


def _send(bootstrap: str, source: str, begin: float, seconds: float, rate: int, value: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for number in range(int(seconds * rate)):
        wait = begin + number / rate - time.time()
        if wait > 0:
            time.sleep(wait)
        producer.produce(source, key=f"key-{number % KEYS:04d}", value=value)
        producer.poll(0)
    producer.flush(10)


def main(argv: list[str]) -> int:
    """Measure once and print it."""
    bootstrap, source, sink, seconds, rate, *value = argv
    print(json.dumps(measure(bootstrap, source, sink, float(seconds), int(rate), *value)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
