"""An S3 server in a process of its own, and tasks as a worker would run them, for the tests of the S3 connectors."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ottla.base import TopicPartition
from ottla.connect import RetriableError, SinkRecord

__all__ = ["CONFLUENT_SINK_FILE", "KEYS", "Reports", "S3Server", "SinkContext", "SourceContext", "Worker", "running_s3"]

CONFLUENT_SINK_FILE = """\
name=s3-sink
connector.class=io.confluent.connect.s3.S3SinkConnector
tasks.max=1
topics=connect-test
flush.size=3
s3.bucket.name=kafka-connect-s3-sink-example
s3.region=eu-west-1
storage.class=io.confluent.connect.s3.storage.S3Storage
format.class=io.confluent.connect.s3.format.json.JsonFormat
"""
"""A properties file for Confluent's S3 sink, which has to run as it is."""

KEYS = {"aws.access.key.id": "someone", "aws.secret.access.key": "a-secret", "s3.region": "eu-west-1"}


class S3Server:
    """A server's address and a client of it that knows nothing of ours."""

    def __init__(self, url: str) -> None:
        import boto3

        self.url = url
        self.client: Any = boto3.client(
            "s3",
            endpoint_url=url,
            aws_access_key_id="someone",
            aws_secret_access_key="a-secret",
            region_name="eu-west-1",
        )

    def bucket(self, name: str) -> str:
        """Make a bucket and return its name."""
        self.client.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
        return name

    def keys(self, bucket: str) -> list[str]:
        """Return the names of a bucket's objects."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return [each["Key"] for page in pages for each in page.get("Contents", ())]

    def objects(self, bucket: str) -> dict[str, bytes]:
        """Return every object of a bucket."""
        keys = self.keys(bucket)
        return {key: self.client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}


@contextmanager
def running_s3() -> Iterator[S3Server]:
    """Start moto's server on a port that the system chooses."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    lines: list[str] = []
    try:
        assert process.stderr is not None
        for line in process.stderr:
            lines.append(line)
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            if found:
                import threading

                threading.Thread(target=process.stderr.read, daemon=True).start()
                yield S3Server(found[0])
                return
        raise AssertionError("the S3 server did not start:\n" + "".join(lines))
    finally:
        process.kill()
        process.wait()


class Reports:
    """Where a sink's records go that it cannot write."""

    def __init__(self) -> None:
        self.reported: list[tuple[SinkRecord, str]] = []

    def report(self, record: SinkRecord, error: BaseException) -> None:
        """Keep a record with what is said of it."""
        self.reported.append((record, str(error)))


class SinkContext:
    """A sink task's context."""

    def __init__(self, reports: Reports | None) -> None:
        self.configs: Mapping[str, str] = {}
        self.assignment: frozenset[TopicPartition] = frozenset()
        self.errant_records = reports
        self.timeouts: list[int] = []

    def timeout(self, ms: int) -> None:
        """Hear how long to wait."""
        self.timeouts.append(ms)


class SourceContext:
    """A source task's context over a dictionary of offsets."""

    transaction = None
    takes_columns = True

    def __init__(self, stored: dict[tuple[tuple[str, Any], ...], Mapping[str, Any]]) -> None:
        self.configs: Mapping[str, str] = {}
        self.stored = stored

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what was stored."""
        return self.stored.get(tuple(sorted(partition.items())), {})


class Worker:
    """Runs a sink task over a topic held in lists, with the calls and in the order of Kafka's worker.

    `kill` forgets the task as a crash does: whatever it has stored stays, and the next one begins at what was committed.
    """

    def __init__(
        self, task: type[Any], props: Mapping[str, str], topic: Mapping[TopicPartition, list[SinkRecord]]
    ) -> None:
        self.kind, self.props, self.topic = task, dict(props), topic
        self.committed = dict.fromkeys(topic, 0)
        self.reports = Reports()
        self.start()

    def start(self) -> None:
        """Make the task and give it every partition."""
        self.task = self.kind()
        self.context = self.task.context = SinkContext(self.reports)
        self.task.start(self.props)
        self.task.open(list(self.topic))
        self.next = dict(self.committed)

    def deliver(self, most: int = 1_000_000) -> int:
        """Give up to `most` records of each partition at once, again where they are refused for now."""
        batch: list[SinkRecord] = []
        for place, records in self.topic.items():
            found = [each for each in records if (each.original_offset or 0) >= self.next[place]][:most]
            batch += found
            if found:
                self.next[place] = (found[-1].original_offset or 0) + 1
        self.put(batch)
        return len(batch)

    def put(self, batch: Sequence[SinkRecord], tries: int = 200) -> None:
        """Give records until they are taken."""
        for _ in range(tries):
            try:
                self.task.put(batch)
                return
            except RetriableError:
                continue
        raise AssertionError("the records were refused too often")

    def commit(self) -> None:
        """Commit what the task says."""
        self.committed |= self.task.pre_commit(dict(self.next))

    def run(self, most: int = 1_000_000) -> None:
        """Deliver and commit until nothing is left."""
        while self.deliver(most):
            self.commit()

    def stop(self) -> None:
        """End the task as a worker does that stops."""
        self.commit()
        self.task.close(list(self.topic))
        self.task.stop()

    def kill(self) -> None:
        """Let go of the task; a new one begins."""
        self.task.stop()
        self.start()
