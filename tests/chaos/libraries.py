"""Clients that nobody here wrote, beside librdkafka's: each writes and reads with its own defaults while brokers restart.

Each writes numbered records to its topic until it is told to end, and reads them back as a group. An error that its own
retries do not hide is a finding, and so is a record that was acknowledged and is not there.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests import peer
from tests.chaos.loads import PARTITIONS

__all__ = ["LIBRARIES", "Heard", "libraries"]

PAUSE_SECONDS = 0.02
JAVA_RATE = 50
END_SECONDS_MAX = 120.0


@dataclass
class Heard:
    """What one library's producer and consumer were told."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    acknowledged: dict[tuple[int, int], int] = field(default_factory=dict)
    """(partition, offset) to the number that stands there."""
    acknowledged_at: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    read: set[tuple[int, int]] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)

    def written(self, partition: int, offset: int, number: int) -> None:
        """Note an acknowledgement."""
        with self.lock:
            self.acknowledged[partition, offset] = number
            self.acknowledged_at[partition].append(time.monotonic())

    def got(self, partition: int, offset: int) -> None:
        """Note a record that was read."""
        with self.lock:
            self.read.add((partition, offset))

    def error(self, what: object) -> None:
        """Note an error that a program would have seen."""
        with self.lock:
            self.errors.append(str(what)[:500])

    def is_caught_up(self) -> bool:
        """True once everything that was acknowledged has been read."""
        with self.lock:
            return self.acknowledged.keys() <= self.read


Run = Callable[[str, str, Heard, threading.Event, threading.Event], None]
"""(bootstrap, topic, what was heard, no more writing, no more reading)."""


def kafka_python_producer(bootstrap: str, topic: str, heard: Heard, ended: threading.Event, _: threading.Event) -> None:
    """kafka-python, idempotent as its newer versions are by default."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), acks="all", enable_idempotence=True)
    number = 0
    while not ended.is_set():
        partition = number % PARTITIONS
        future = producer.send(topic, value=b"%d" % number, partition=partition)

        def done(found: Any, number: int = number) -> None:
            heard.written(found.partition, found.offset, number)

        future.add_callback(done)
        future.add_errback(heard.error)
        number += 1
        ended.wait(PAUSE_SECONDS)
    producer.flush(END_SECONDS_MAX)
    producer.close()


def kafka_python_consumer(bootstrap: str, topic: str, heard: Heard, _: threading.Event, ended: threading.Event) -> None:
    """kafka-python in a group."""
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap.split(","), group_id=f"{topic}-group", auto_offset_reset="earliest"
    )
    while not ended.is_set():
        for records in consumer.poll(timeout_ms=500).values():
            for record in records:
                heard.got(record.partition, record.offset)
    consumer.close()


def aiokafka_producer(bootstrap: str, topic: str, heard: Heard, ended: threading.Event, _: threading.Event) -> None:
    """aiokafka, idempotent."""
    asyncio.run(_aiokafka_produce(bootstrap, topic, heard, ended))


async def _aiokafka_produce(bootstrap: str, topic: str, heard: Heard, ended: threading.Event) -> None:
    from aiokafka import AIOKafkaProducer
    from aiokafka.errors import KafkaError

    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True)
    await producer.start()
    tasks: set[asyncio.Task[None]] = set()

    async def one(number: int) -> None:
        try:
            found = await (await producer.send(topic, b"%d" % number, partition=number % PARTITIONS))
            heard.written(found.partition, found.offset, number)
        except KafkaError as error:
            heard.error(repr(error))

    number = 0
    while not ended.is_set():
        task = asyncio.create_task(one(number))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        number += 1
        await asyncio.sleep(PAUSE_SECONDS)
    if tasks:
        await asyncio.wait(tasks, timeout=END_SECONDS_MAX)
    await producer.stop()


def aiokafka_consumer(bootstrap: str, topic: str, heard: Heard, _: threading.Event, ended: threading.Event) -> None:
    """aiokafka in a group."""
    asyncio.run(_aiokafka_consume(bootstrap, topic, heard, ended))


async def _aiokafka_consume(bootstrap: str, topic: str, heard: Heard, ended: threading.Event) -> None:
    from aiokafka import AIOKafkaConsumer

    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=f"{topic}-group", auto_offset_reset="earliest"
    )
    await consumer.start()
    while not ended.is_set():
        for records in (await consumer.getmany(timeout_ms=500)).values():
            for record in records:
                heard.got(record.partition, record.offset)
    await consumer.stop()


def java_producer(bootstrap: str, topic: str, heard: Heard, ended: threading.Event, _: threading.Event) -> None:
    """Kafka's own VerifiableProducer, with the producer's default retries, which it switches off by itself."""
    options = (
        "--bootstrap-server",
        bootstrap,
        "--topic",
        topic,
        "--throughput",
        str(JAVA_RATE),
        "--max-messages",
        "-1",
    )
    with tempfile.NamedTemporaryFile("w", suffix=".properties") as settings:
        settings.write("retries=2147483647\nenable.idempotence=true\n")
        settings.flush()
        for event in _java_events("verifiable-producer", (*options, "--command-config", settings.name), ended):
            match event.get("name"):
                case "producer_send_success":
                    heard.written(event["partition"], event["offset"], int(event["value"]))
                case "producer_send_error":
                    heard.error(event)


def java_consumer(bootstrap: str, topic: str, heard: Heard, _: threading.Event, ended: threading.Event) -> None:
    """Kafka's own VerifiableConsumer."""
    options = ("--bootstrap-server", bootstrap, "--topic", topic, "--group-id", f"{topic}-group", "--verbose")
    for event in _java_events("verifiable-consumer", (*options, "--reset-policy", "earliest"), ended):
        if event.get("name") == "record_data":
            heard.got(event["partition"], event["offset"])


def _java_events(tool: str, options: tuple[str, ...], ended: threading.Event) -> Iterator[dict[str, Any]]:
    """Yield a tool's events until it has ended, which it is asked to in time."""
    process = subprocess.Popen(
        peer.tool_command(tool, *options), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )

    def end() -> None:
        ended.wait()
        process.terminate()

    threading.Thread(target=end, daemon=True).start()
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{"):
            yield json.loads(line)
    process.wait()


LIBRARIES: dict[str, tuple[Run, Run]] = {
    "kafka-python": (kafka_python_producer, kafka_python_consumer),
    "aiokafka": (aiokafka_producer, aiokafka_consumer),
    "java": (java_producer, java_consumer),
}
"""Each with its producer and its consumer; `java` needs the peer's jars."""


@contextmanager
def libraries(bootstrap: str, topics: dict[str, str]) -> Iterator[dict[str, Heard]]:
    """Run the libraries, each on its topic, until the block ends; readers then finish what was written."""
    heard = {name: Heard() for name in topics}
    no_more_writing, no_more_reading = threading.Event(), threading.Event()
    writers, readers = [], []
    for name, topic in topics.items():
        args = (bootstrap, topic, heard[name], no_more_writing, no_more_reading)
        for run, group in zip(LIBRARIES[name], (writers, readers), strict=True):
            group.append(threading.Thread(target=_guarded, args=(run, heard[name], args), name=run.__name__))
    for thread in (*writers, *readers):
        thread.start()
    try:
        yield heard
    finally:
        no_more_writing.set()
        _join(writers, heard)
        deadline = time.monotonic() + END_SECONDS_MAX
        while time.monotonic() < deadline and not all(each.is_caught_up() for each in heard.values()):
            time.sleep(0.1)
        no_more_reading.set()
        _join(readers, heard)


def _guarded(run: Run, heard: Heard, args: tuple[Any, ...]) -> None:
    try:
        run(*args)
    except Exception as error:
        heard.error(f"{run.__name__} ended: {error!r}")


def _join(threads: list[threading.Thread], heard: dict[str, Heard]) -> None:
    deadline = time.monotonic() + 2 * END_SECONDS_MAX
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
        if thread.is_alive():
            next(iter(heard.values())).error(f"{thread.name} did not end")
