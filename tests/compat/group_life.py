"""The life of a consumer group, the same for every client: read, share, die, take over, resume; nothing may be lost."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests import waiting
from tests.processes import end

__all__ = ["Line", "Member", "live_through_it", "python_member"]

PARTITIONS = 4
SECONDS_MAX = 60
Line = Callable[[str], Iterable[dict[str, Any]]]
"""Reads a line that a member has printed: yields `{"assigned": [...]}` and `{"record": [...]}`."""
Command = Callable[[str, str, str], Sequence[str]]
"""Returns the command line of a member, given the bootstrap server, the topic and the group."""


@dataclass
class Member:
    """A process of a client in a group; `assigned` is what it was given last, `records` what it has read."""

    process: subprocess.Popen[str]
    assigned: list[int] = field(default_factory=list)
    records: list[tuple[int, int, str]] = field(default_factory=list)
    output: list[str] = field(default_factory=list)

    def read(self, line: str, read: Line) -> None:
        """Take one line of its output."""
        self.output.append(line)
        for event in read(line):
            if "assigned" in event:
                self.assigned = event["assigned"]
            if "record" in event:
                partition, offset, value = event["record"]
                self.records.append((partition, offset, value))

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self.process.kill()
        self.process.wait()
        self.assigned = []


def read_json(line: str) -> Iterator[dict[str, Any]]:
    """Read a line of `tests.compat.member`."""
    if line.startswith("{"):
        yield json.loads(line)


def python_member(client: str) -> tuple[Command, Line]:
    """Return how a member of a Python client is started and read."""
    return (lambda *args: [sys.executable, "-m", "tests.compat.member", client, *args]), read_json


@contextmanager
def started(command: Sequence[str], read: Line, *, folder: Path | None = None) -> Iterator[Member]:
    """Run a member until the block ends."""
    root = Path(__file__).resolve().parents[2]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder or root, bufsize=1
    )
    member = Member(process)

    def follow() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            member.read(line, read)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield member
    finally:
        end(process, 10)
        thread.join(5)


def until(claim: str, holds: Callable[[], bool], members: Sequence[Member]) -> None:
    """Wait until something holds; AssertionError with what the members have printed where it never does."""

    def said() -> str:
        each_said = (f"member {n}: {each.assigned}\n{''.join(each.output[-15:])}" for n, each in enumerate(members))
        return "\n".join((claim, *each_said))

    waiting.until(holds, said, seconds=SECONDS_MAX)


def produce(bootstrap: str, topic: str, first: int, count: int) -> None:
    """Write numbered records to every partition in turn."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(first, first + count):
        producer.produce(topic, value=b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(SECONDS_MAX) == 0


def live_through_it(
    bootstrap: str, topic: str, command: Command, reader: Callable[[], Line], *, folder: Path | None = None
) -> None:
    """Put a group of two through its life; AssertionError where a record is lost, or what was committed is read again.

    `reader` makes what reads one member's lines; `folder` is where members run.
    """
    group = f"group-of-{topic}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(SECONDS_MAX)
    members: list[Member] = []

    def values() -> list[int]:
        return [int(value) for each in members for _, _, value in each.records]

    with ExitStack() as stack:

        def start() -> Member:
            member = stack.enter_context(started(command(bootstrap, topic, group), reader(), folder=folder))
            members.append(member)
            return member

        produce(bootstrap, topic, 0, 200)
        first = start()
        until("one member has every partition", lambda: first.assigned == [0, 1, 2, 3], members)
        until("it has read everything", lambda: len(set(values())) == 200, members)
        second = start()
        until(
            "two members share the partitions",
            lambda: sorted(first.assigned + second.assigned) == [0, 1, 2, 3] and len(second.assigned) == 2,
            members,
        )
        produce(bootstrap, topic, 200, 200)
        until("both read what is theirs", lambda: len(set(values())) == 400, members)
        assert any(int(value) >= 200 for _, _, value in second.records)
        second.kill()
        until("the survivor takes over", lambda: first.assigned == [0, 1, 2, 3], members)
        produce(bootstrap, topic, 400, 200)
        until("the survivor reads on", lambda: len(set(values())) == 600, members)
        until("its offsets are committed", lambda: committed(admin, group, topic) == 600, members)
        first.kill()
        produce(bootstrap, topic, 600, 200)
        third = start()
        until("a new member reads what came meanwhile", lambda: len(set(values())) == 800, members)
        assert min(int(value) for _, _, value in third.records) >= 600, "it began again with what was committed"
        until("everything is committed", lambda: committed(admin, group, topic) == 800, members)
    described = admin.describe_consumer_groups([group])[group].result(SECONDS_MAX)
    assert described.group_id == group


def committed(admin: AdminClient, group: str, topic: str) -> int:
    """Return the sum of a group's committed offsets in a topic."""
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(SECONDS_MAX)
    return sum(each.offset for each in asked.topic_partitions or () if each.topic == topic and each.offset > 0)
