"""A disk that is full to its last byte, the metadata log's too: nobody can decide anything, and the broker lives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from ottla.base import ErrorCode
from tests.crash.test_crash import create_topic
from tests.crash.test_disks import SECONDS_MAX, SETTINGS, Sent, mounted
from tests.server import Server, running_server
from tests.waiting import until

DISK = ["-t", "tmpfs", "-o", "size=16m", "tmpfs"]
TINY = "t"
RESERVE = 1 << 20
QUICK = [*SETTINGS, "log.segment.delete.delay.ms=200"]


def fill(path: Path) -> None:
    """Take what room there is, to the last byte."""
    with path.open("ab", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass


def decide(server: Server, number: int) -> int:
    """Let the controller write a record that is smaller than any that a test waits for, and return the error code."""
    return alter(server, TINY, "flush.ms", str(number % 9 + 1))


def alter(server: Server, topic: str, name: str, value: str) -> int:
    """Change a topic's configuration, and return the error code."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    try:
        admin.incremental_alter_configs([resource])[resource].result(SECONDS_MAX)
    except KafkaException as error:
        return int(error.args[0].code())
    return 0


def until_nothing_can_be_decided(server: Server, disk: Path) -> None:
    """Fill the disk, and with it the last block of the metadata log."""
    for number in range(200):
        fill(disk / "last")
        code = decide(server, number)
        if code:
            assert code == ErrorCode.KAFKA_STORAGE_ERROR
            return
    raise AssertionError("the metadata log never got full")


def topics(server: Server, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ottla.cli.main", "topics", "--bootstrap-server", server.bootstrap, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)


def filled(server: Server, topic: str) -> Sent:
    """Send to a topic until the disk takes no more."""
    sent = Sent(server, topic)
    while not sent.failed:
        sent.send(500)
        assert len(sent.acknowledged) < 24_000, "the disk never got full"
    return sent


def until_free(disk: Path, size: int) -> None:
    until(lambda: os.statvfs(disk).f_bavail * 4096 >= size, "the space is given back")


def spare(disk: Path) -> int:
    """Return how large the metadata log's own room is."""
    return (disk / "metadata-reserve").stat().st_size


def test_a_topic_is_deleted_on_a_disk_that_is_full_to_its_last_byte(tmp_path: Path) -> None:
    with mounted(tmp_path / "data", *DISK) as disk:
        with running_server(tmp_path, overrides=QUICK) as server:
            create_topic(server.bootstrap, TINY, 1)
            create_topic(server.bootstrap, "other", 1)
            create_topic(server.bootstrap, "large", 1)
            filled(server, "large")
            until_nothing_can_be_decided(server, disk)
            assert spare(disk) == RESERVE
            deleted = topics(server, "--delete", "--topic", "large")
            assert deleted.returncode == 0, deleted.stdout + deleted.stderr
            until_free(disk, 6 << 20)
            sent = Sent(server, "other")
            sent.send(1000)
            assert not sent.failed and sent.found(server) == sent.acknowledged
            assert decide(server, 1000) == 0
            until(lambda: spare(disk) == RESERVE, "the room is taken again")
            assert server.stop() == 0
        with running_server(tmp_path, overrides=QUICK) as server:
            assert sent.found(server) == sent.acknowledged
            assert "large" not in topics(server, "--list").stdout


def test_retention_is_shortened_on_a_disk_that_is_full_to_its_last_byte(tmp_path: Path) -> None:
    settings = [*QUICK, "log.retention.check.interval.ms=200"]
    with mounted(tmp_path / "data", *DISK) as disk, running_server(tmp_path, overrides=settings) as server:
        create_topic(server.bootstrap, TINY, 1)
        create_topic(server.bootstrap, "large", 1)
        filled(server, "large")
        until_nothing_can_be_decided(server, disk)
        assert alter(server, "large", "retention.bytes", "1000000") == 0
        until_free(disk, 6 << 20)
        sent = Sent(server, "large")
        sent.send(1000)
        assert not sent.failed
        assert server.stop() == 0


def test_without_room_of_its_own_a_little_room_is_needed(tmp_path: Path) -> None:
    settings = [*QUICK, "ottla.metadata.reserve.bytes=0"]
    with mounted(tmp_path / "data", *DISK) as disk, running_server(tmp_path, overrides=settings) as server:
        create_topic(server.bootstrap, TINY, 1)
        create_topic(server.bootstrap, "large", 1)
        filled(server, "large")
        until_nothing_can_be_decided(server, disk)
        refused = topics(server, "--delete", "--topic", "large")
        assert refused.returncode and "has no room" in refused.stdout + refused.stderr
        assert server.process.poll() is None
        (disk / "last").unlink()
        deleted = topics(server, "--delete", "--topic", "large")
        assert deleted.returncode == 0, deleted.stdout + deleted.stderr
        until_free(disk, 6 << 20)
        assert server.stop() == 0


def test_records_are_deleted_on_a_full_disk_and_the_broker_lives(tmp_path: Path) -> None:
    with mounted(tmp_path / "data", *DISK) as disk, running_server(tmp_path, overrides=QUICK) as server:
        create_topic(server.bootstrap, TINY, 1)
        create_topic(server.bootstrap, "large", 1)
        kept = len(filled(server, "large").acknowledged)
        until_nothing_can_be_decided(server, disk)
        before = TopicPartition("large", 0, kept - 100)
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        try:
            admin.delete_records([before])[before].result(SECONDS_MAX)
        except KafkaException as error:  # where the log begins could not be written down; the files go all the same
            assert error.args[0].code() == ErrorCode.KAFKA_STORAGE_ERROR
        assert server.process.poll() is None
        until_free(disk, 6 << 20)
        admin.delete_records([before])[before].result(SECONDS_MAX)
        sent = Sent(server, "large")
        sent.send(1000)
        assert not sent.failed and sent.found(server) == sent.acknowledged
        assert decide(server, 1000) == 0
        assert server.stop() == 0
