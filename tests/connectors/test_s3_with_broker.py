"""The S3 connectors as tasks of a worker, from a broker's topic into a bucket and back; a worker's process is killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest
from confluent_kafka import Producer

from ottla.client import BlockingClient
from ottla.connectors.s3 import S3SinkConnector, S3SourceConnector
from tests.connectors.s3_server import CONFLUENT_SINK_FILE, KEYS, S3Server
from tests.spark.conftest import broker, client, create_topic
from tests.spark.running import await_true, committed_records, running, spec_of
from tests.spark.test_task_sink import committed

__all__ = ["broker", "client"]

STRINGS = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
PROGRAM = """
import json, sys
from ottla.connect import discover
from ottla.connectors.s3 import S3SinkConnector
from ottla.connect.tasks.run import run_task
from tests.spark.running import Port, spec_of
bootstrap, config, worker = json.loads(sys.argv[1])
consumer = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}
run_task(spec_of(bootstrap, config, worker=worker, consumer=consumer), Port(), plugins=discover(more=[S3SinkConnector]))
"""


def produce(bootstrap: str, topic: str, values: list[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number, value in enumerate(values):
        producer.produce(topic, value=value, partition=number % 2)
    assert producer.flush(30) == 0


def seed(server: S3Server, bucket: str, topic: str, **more: str) -> dict[str, str]:
    lines = dict(line.split("=", 1) for line in CONFLUENT_SINK_FILE.splitlines())
    own = {"s3.bucket.name": bucket, "store.url": server.url, "topics": topic, "name": topic}
    return {**lines, **KEYS, **own, **{key.replace("_", "."): value for key, value in more.items()}}


def lines_of(objects: dict[str, bytes]) -> list[str]:
    return [json.loads(line) for key in sorted(objects) for line in objects[key].splitlines()]


def test_the_seeds_sink_and_a_source_take_a_topic_to_a_bucket_and_back(
    s3: S3Server, broker: str, client: BlockingClient
) -> None:
    topic, restored = create_topic(client, "connect-test", 2), create_topic(client, "restored", 2)
    bucket = s3.bucket("to-a-bucket-and-back")
    values = [f'{{"n": {number}}}' for number in range(62)]
    produce(broker, topic, values)
    with running(spec_of(broker, seed(s3, bucket, topic), worker=STRINGS), S3SinkConnector):
        await_true(lambda: committed(broker, f"connect-{topic}", topic, 2) == [30, 30], "offsets behind objects")
    objects = s3.objects(bucket)
    assert list(objects) == [
        f"topics/{topic}/partition={partition}/{topic}+{partition}+{first:010d}.json"
        for partition in range(2)
        for first in range(0, 30, 3)
    ]
    assert sorted(lines_of(objects)) == sorted(values[:60])

    config = seed(s3, bucket, topic, s3_settle_ms="0", s3_poll_interval_ms="100") | {
        "connector.class": "S3Source",
        "name": restored,
        "transforms": "rename",
        "transforms.rename.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.rename.regex": ".*",
        "transforms.rename.replacement": restored,
    }
    with running(spec_of(broker, config, worker=STRINGS), S3SourceConnector):
        await_true(lambda: len(committed_records(broker, restored)) >= 60, "all lines are back")
    assert [value for _, value in committed_records(broker, restored)] == [
        each.encode() for each in values[:60:2] + values[1:60:2]
    ]


@pytest.mark.slow
def test_a_killed_worker_leaves_no_record_out_and_none_twice(s3: S3Server, broker: str, client: BlockingClient) -> None:
    topic, bucket = create_topic(client, "killed", 2), s3.bucket("killed")
    values = [f"line {number}" for number in range(8000)]
    config = seed(s3, bucket, topic, flush_size="20")
    worker = {**STRINGS, "offset.flush.interval.ms": "700"}
    command = [sys.executable, "-c", PROGRAM, json.dumps((broker, config, worker))]
    produce(broker, topic, values)
    seen: dict[str, bytes] = {}
    for kills in (1, 2):
        process = subprocess.Popen(command)
        try:
            await_true(lambda: len(s3.keys(bucket)) > 80 * kills, "objects are stored", seconds=60)  # noqa: B023
            process.send_signal(signal.SIGKILL)
        finally:
            process.kill()
            process.wait()
        found = s3.objects(bucket)
        assert {key: found[key] for key in seen} == seen
        seen = found
    fast = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}
    with running(spec_of(broker, config, worker=worker, consumer=fast), S3SinkConnector):
        await_true(lambda: len(s3.keys(bucket)) == 400, "everything is stored", seconds=60)
    found = s3.objects(bucket)
    assert {key: found[key] for key in seen} == seen, "objects that were there are the same"
    assert lines_of(found) == values[::2] + values[1::2]
