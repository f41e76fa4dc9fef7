"""`kill -9`, SIGTERM and a second process, against the program as a user runs it."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.ports import free_port
from tests.server import Server, start_server

TOPIC = "crash"
PARTITIONS = 3
KILLS = 3
SMALL_SEGMENTS = ["log.segment.bytes=1048576", "log.index.interval.bytes=512"]


def create_topic(bootstrap: str, topic: str = TOPIC, partitions: int = PARTITIONS, **configs: str) -> None:
    """Create a topic and wait until it is there."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.create_topics([NewTopic(topic, partitions, 1, config=configs)]).values():
        done.result(20)


def read_all(bootstrap: str, topic: str = TOPIC) -> dict[int, list[tuple[int, bytes]]]:
    """Every record of every partition: partition → (offset, value), in order."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    found: dict[int, list[tuple[int, bytes]]] = {}
    try:
        partitions = consumer.list_topics(topic, 20).topics[topic].partitions
        ends = {each: consumer.get_watermark_offsets(TopicPartition(topic, each), 20) for each in partitions}
        consumer.assign([TopicPartition(topic, each, low) for each, (low, _) in ends.items()])
        found = {each: [] for each in partitions}
        missing = {each for each, (low, high) in ends.items() if high > low}
        deadline = time.monotonic() + 30
        while missing and time.monotonic() < deadline:
            for message in consumer.consume(10_000, 0.2):
                assert message.error() is None, message.error()
                found[message.partition()].append((message.offset(), message.value()))
                if message.offset() + 1 >= ends[message.partition()][1]:
                    missing.discard(message.partition())
        assert not missing, f"partitions {missing} did not reach their ends {ends}"
    finally:
        consumer.close()
    return found


class Load:
    """A producer on a thread of its own, and what it was told."""

    def __init__(self, bootstrap: str, **settings: object) -> None:
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.sent: dict[int, list[bytes]] = defaultdict(list)
        self.failed: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 1,
                "message.timeout.ms": 60_000,
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "logger": None,
                "log_level": 0,
                **settings,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _delivered(self, error: object, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
            return
        self.acknowledged[message.partition(), message.offset()] = message.value()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            partition = number % PARTITIONS
            value = b"%08d " % number + b"x" * (number % 300)
            try:
                self._producer.produce(TOPIC, value, partition=partition, on_delivery=self._delivered)
            except BufferError:
                self._producer.poll(0.01)
                continue
            self.sent[partition].append(value)
            number += 1
            self._producer.poll(0)
            if number % 50 == 0:
                time.sleep(0.002)

    def finish(self) -> None:
        """Stop producing and wait until everything is acknowledged."""
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0, "not everything was delivered"


def kill_again_and_again(server: Server, folder: Path, load: Load, rng: Random) -> Server:
    """Kill the broker at random moments under load and start it again; returns the last one."""
    for _ in range(KILLS):
        seen = len(load.acknowledged)
        deadline = time.monotonic() + 20
        while len(load.acknowledged) == seen and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(rng.random() * 0.5)
        port = server.port
        server.kill()
        server = start_server(folder, port=port, overrides=SMALL_SEGMENTS)
    return server


def test_an_idempotent_producer_loses_and_doubles_nothing_over_kills(tmp_path: Path) -> None:
    seed = Random().randrange(10**6)
    print(f"moments of the kills: seed {seed}")
    server = start_server(tmp_path, port=free_port(), overrides=SMALL_SEGMENTS)
    try:
        create_topic(server.bootstrap)
        load = Load(server.bootstrap, **{"enable.idempotence": True})
        server = kill_again_and_again(server, tmp_path, load, Random(seed))
        load.finish()
        assert not load.failed, load.failed[:5]
        found = read_all(server.bootstrap)
        stored = {(partition, offset): value for partition, rows in found.items() for offset, value in rows}
        assert len(load.acknowledged) > 1000
        lost = {key for key, value in load.acknowledged.items() if stored.get(key) != value}
        assert not lost, (
            f"{len(lost)} of {len(load.acknowledged)} acknowledged records are not as they were: {sorted(lost)[:5]}"
        )
        for partition, rows in found.items():
            assert [offset for offset, _ in rows] == list(range(len(rows)))
            assert [value for _, value in rows] == load.sent[partition], (
                f"partition {partition}: not exactly once in order"
            )
    finally:
        server.kill()


def test_a_plain_producer_finds_every_acknowledged_record_after_kills(tmp_path: Path) -> None:
    seed = Random().randrange(10**6)
    print(f"moments of the kills: seed {seed}")
    server = start_server(tmp_path, port=free_port(), overrides=SMALL_SEGMENTS)
    try:
        create_topic(server.bootstrap)
        load = Load(server.bootstrap, acks=1)
        server = kill_again_and_again(server, tmp_path, load, Random(seed))
        load.finish()
        stored = {
            (partition, offset): value
            for partition, rows in read_all(server.bootstrap).items()
            for offset, value in rows
        }
        lost = {key for key, value in load.acknowledged.items() if stored.get(key) != value}
        assert len(load.acknowledged) > 1000 and not lost, sorted(lost)[:5]
    finally:
        server.kill()


def test_a_second_process_on_the_folder_is_refused(tmp_path: Path) -> None:
    server = start_server(tmp_path)
    try:
        command = [sys.executable, "-m", "ottla.cli.main", "server", "start"]
        for setting in ("listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={tmp_path / 'data'}"):
            command += ["--override", setting]
        second = subprocess.run(command, capture_output=True, text=True, timeout=30, cwd=tmp_path)
        said = second.stdout + second.stderr
        assert second.returncode != 0 and "ready" not in second.stdout
        assert "lock" in said.lower() and str(tmp_path / "data") in said, said
        assert "Traceback" not in said, said
        create_topic(server.bootstrap, "still-served")
    finally:
        server.kill()


def produce_some(bootstrap: str, count: int = 200) -> None:
    """Write records and wait for their acknowledgement."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for number in range(count):
        producer.produce(TOPIC, b"%06d" % number * 20, partition=0)
        if number % 10 == 0:
            producer.flush(20)
    assert producer.flush(20) == 0


def damage_first_batch(folder: Path) -> Path:
    """Change a byte of the first batch's records: only a scan notices."""
    (path,) = (folder / "data" / f"{TOPIC}-0").glob("*.log")
    data = bytearray(path.read_bytes())
    data[80] ^= 0xFF
    path.write_bytes(data)
    return path


def watermarks(bootstrap: str) -> tuple[int, int]:
    """(start, end) of partition 0."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), 20)
        return int(low), int(high)
    finally:
        consumer.close()


@pytest.mark.parametrize("signal_number", [15, 2], ids=["SIGTERM", "SIGINT"])
def test_a_signal_stops_cleanly_and_the_next_start_scans_nothing(tmp_path: Path, signal_number: int) -> None:
    server = start_server(tmp_path)
    create_topic(server.bootstrap)
    produce_some(server.bootstrap)
    assert server.stop(signal_number) == 0, "".join(server.lines)
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    path = damage_first_batch(tmp_path)
    size = path.stat().st_size
    server = start_server(tmp_path)
    try:
        assert watermarks(server.bootstrap) == (0, 200)
        assert path.stat().st_size == size
    finally:
        server.kill()


def test_after_a_kill_the_tail_is_cut_at_the_last_whole_batch(tmp_path: Path) -> None:
    server = start_server(tmp_path)
    create_topic(server.bootstrap)
    produce_some(server.bootstrap)
    server.kill()
    (path,) = (tmp_path / "data" / f"{TOPIC}-0").glob("*.log")
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:77])
    server = start_server(tmp_path)
    try:
        assert watermarks(server.bootstrap) == (0, 200)
        assert path.read_bytes() == whole
        produce_some(server.bootstrap, 10)
        rows = read_all(server.bootstrap)[0]
        assert [offset for offset, _ in rows] == list(range(210))
    finally:
        server.kill()


def test_a_topic_that_was_answered_is_there_after_a_kill(tmp_path: Path) -> None:
    server = start_server(tmp_path)
    try:
        ids = {}
        for number in range(5):
            create_topic(server.bootstrap, f"topic-{number}", 2, **{"retention.ms": str(1000 + number)})
            admin = AdminClient({"bootstrap.servers": server.bootstrap})
            described = admin.list_topics(timeout=20).topics
            assert f"topic-{number}" in described
            ids[f"topic-{number}"] = len(described[f"topic-{number}"].partitions)
            server.kill()
            server = start_server(tmp_path)
        topics = AdminClient({"bootstrap.servers": server.bootstrap}).list_topics(timeout=20).topics
        assert {name: len(topics[name].partitions) for name in ids} == ids
    except KafkaException as error:
        raise AssertionError("".join(server.lines[-40:])) from error
    finally:
        server.kill()
