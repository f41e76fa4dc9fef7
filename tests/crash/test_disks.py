"""Disks that fill up and disks that fail, on file systems of their own, against the program as a user runs it."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from ottla.base import ErrorCode, KafkaError, TopicPartition
from ottla.client import BlockingClient, Limits
from ottla.wire import Record, build_batch
from tests.crash.test_crash import create_topic, read_all
from tests.server import Server, running_server

SECONDS_MAX = 100.0
EXT4_IOC_SHUTDOWN = 0x8004587D
NOTHING_FLUSHED = 2
SETTINGS = [
    "log.segment.bytes=1048576",
    "log.retention.check.interval.ms=500",
    "log.flush.offset.checkpoint.interval.ms=500",
]


@contextmanager
def mounted(folder: Path, *options: str) -> Iterator[Path]:
    """A file system of its own at `folder`; skips where this user may not mount one."""
    folder.mkdir(parents=True)
    done = subprocess.run(["mount", *options, str(folder)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("a file system cannot be mounted here: that needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def ext4_image(path: Path, megabytes: int) -> str:
    """Make a file that holds an empty file system; skips where there is no mkfs."""
    with path.open("wb") as image:
        image.truncate(megabytes << 20)
    made = shutil.which("mkfs.ext4") and subprocess.run(["mkfs.ext4", "-q", str(path)], check=False).returncode == 0
    if not made:
        pytest.skip("there is no mkfs.ext4 here")
    return str(path)


def break_it(folder: Path) -> None:
    """Let every access to an ext4 file system fail from now on, as a disk does that has died."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, EXT4_IOC_SHUTDOWN, struct.pack("I", NOTHING_FLUSHED))
    finally:
        os.close(descriptor)


class Sent:
    """Values whose records were acknowledged, in order; and how many were not."""

    def __init__(self, server: Server, topic: str) -> None:
        self.topic = topic
        self.acknowledged: list[bytes] = []
        self.failed = 0
        self._number = 0
        self._producer = Producer(
            {
                "bootstrap.servers": server.bootstrap,
                "message.timeout.ms": 2000,
                "enable.idempotence": False,
                "retries": 0,
            }
        )

    def _done(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged.append(message.value())
        else:
            self.failed += 1

    def found(self, server: Server) -> list[bytes]:
        """Return what is there of what was acknowledged."""
        wanted = set(self.acknowledged)
        return [value for _, value in read_all(server.bootstrap, self.topic)[0] if value in wanted]

    def send(self, count: int) -> None:
        for _ in range(count):
            value = b"%09d" % self._number + os.urandom(1000)
            self._producer.produce(self.topic, value=value, partition=0, on_delivery=self._done)
            self._number += 1
        self._producer.flush(SECONDS_MAX)


def code_of_a_produce(server: Server, topic: str, size: int) -> ErrorCode:
    """Return the code with which one batch is answered."""
    batch = bytes(build_batch([Record(timestamp=int(time.time() * 1000), value=os.urandom(size))]))  # type: ignore[arg-type]
    with BlockingClient(server.bootstrap, limits=Limits(call_s=1.0)) as client:
        try:
            [answer] = client.produce({TopicPartition(topic, 0): batch})
        except KafkaError as error:
            return error.code
        return answer.error


def test_a_full_disk_refuses_writes_and_loses_nothing(tmp_path: Path) -> None:
    with mounted(tmp_path / "data", "-t", "tmpfs", "-o", "size=24m", "tmpfs") as disk:
        (disk / "filler").write_bytes(bytes(12 << 20))
        with running_server(tmp_path, overrides=SETTINGS) as server:
            create_topic(server.bootstrap, "full", 1)
            sent = Sent(server, "full")
            while not sent.failed:
                sent.send(500)
                assert len(sent.acknowledged) < 24_000, "the disk never got full"
            assert code_of_a_produce(server, "full", 500_000) is ErrorCode.KAFKA_STORAGE_ERROR
            kept = len(sent.acknowledged)
            assert sent.found(server) == sent.acknowledged
            (disk / "filler").unlink()
            sent.failed = 0
            sent.send(3000)
            assert sent.failed == 0 and len(sent.acknowledged) == kept + 3000, "it did not recover with room again"
        with running_server(tmp_path, overrides=SETTINGS) as server:
            assert sent.found(server) == sent.acknowledged


def test_a_failed_folder_takes_only_its_partitions_offline(tmp_path: Path) -> None:
    with ExitStack() as stack:
        image = ext4_image(tmp_path / "image", 64)
        broken = stack.enter_context(mounted(tmp_path / "broken", "-o", "loop", image))
        dirs = f"log.dirs={tmp_path / 'data'},{broken}"
        (tmp_path / "data").mkdir()
        server = stack.enter_context(running_server(tmp_path, overrides=[*SETTINGS, dirs]))
        create_topic(server.bootstrap, "spread", 4)
        lost = {int(path.name.rpartition("-")[2]) for path in broken.glob("spread-*")}
        assert lost and len(lost) < 4, "partitions are spread over the folders"
        break_it(broken)
        producer = Producer({"bootstrap.servers": server.bootstrap, "message.timeout.ms": 3000})
        outcomes: dict[int, bool] = {}
        for _ in range(2):
            for partition in range(4):
                producer.produce(
                    "spread",
                    value=bytes(1000),
                    partition=partition,
                    on_delivery=lambda error, message: outcomes.update({message.partition(): error is None}),
                )
            producer.flush(SECONDS_MAX)
        assert outcomes == {partition: partition not in lost for partition in range(4)}
        metadata = AdminClient({"bootstrap.servers": server.bootstrap}).list_topics("spread", timeout=SECONDS_MAX)
        assert sorted(metadata.topics["spread"].partitions) == [0, 1, 2, 3]
        assert server.process.poll() is None
        assert server.stop() == 0, "with a folder that has failed it still stops when it is asked to"
