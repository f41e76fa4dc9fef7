"""A story on three nodes that commands are compared on: what is there at its beginning, and the files that they name."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from tests.cli.conftest import Run
from tests.cli.golden import Step
from tests.cli.golden import neutral as neutral_lines
from tests.peer.nodes import Nodes
from tests.waiting import until

__all__ = [
    "Story",
    "Told",
]

SETTLED_SECONDS_MAX = 100.0
RECORDS, RECORD_BYTES = 300, 10_000
"""What moves slowly: more than one fetch takes, since a throttle lets the first one through."""
ASSIGNMENTS = {"m": "1:2,2:3,3:1", "big": "1", "dir": "1", "e": "3:1", "u": "3"}
READING = ("--describe", "--list", "--verify", "describe", "list-endpoints")
"""Words of commands that may be asked again, until what was begun before has come about."""


def moved(topic: str, partition: int, replicas: list[int], log_dirs: list[str] | None = None) -> dict[str, object]:
    entry: dict[str, object] = {"topic": topic, "partition": partition, "replicas": replicas}
    return entry if log_dirs is None else entry | {"log_dirs": log_dirs}


def plan(*partitions: dict[str, object]) -> str:
    return json.dumps({"version": 1, "partitions": partitions})


FILES = {
    "move.json": plan(moved("m", 0, [2, 3]), moved("m", 1, [3, 1], ["any", "any"])),
    "other.json": plan(moved("m", 2, [1, 2])),
    "big.json": plan(moved("big", 0, [2])),
    "more.json": plan(moved("big", 0, [1, 3])),
    "first-dir.json": plan(moved("dir", 0, [1], ["{nodes}/1/data1"])),
    "second-dir.json": plan(moved("dir", 0, [1], ["{nodes}/1/data2"])),
    "no-dir.json": plan(moved("dir", 0, [1], ["/nowhere"])),
    "topics.json": '{"topics":[{"topic":"dir"}],"version":1}',
    "topics-twice.json": '{"topics":[{"topic":"m"},{"topic":"m"}],"version":1}',
    "no-topic.json": '{"topics":[{"topic":"nope"}],"version":1}',
    "no.json": "nope",
    "newer.json": '{"version":2}',
    "nothing.json": '{"version":1}',
    "twice.json": plan(moved("m", 0, [2, 3]), moved("m", 0, [2, 3])),
    "broker-twice.json": plan(moved("m", 0, [2, 2])),
    "no-replica.json": plan(moved("m", 0, [])),
    "no-broker.json": plan(moved("m", 0, [2, 9])),
    "no-partition.json": plan(moved("m", 7, [2, 3])),
    "unknown-topic.json": plan(moved("zz", 0, [2, 3])),
    "short-dirs.json": plan(moved("m", 0, [2, 3], ["any"])),
    "unnamed.json": '{"version":1,"partitions":[{"partition":0,"replicas":[2,3]}]}',
    "no-number.json": '{"version":1,"partitions":[{"topic":"m","partition":"x","replicas":[2,3]}]}',
    "to-3.json": plan(moved("m", 0, [2, 1, 3])),
    "without-3.json": plan(moved("e", 0, [1, 2])),
    "elect.json": '{"partitions":[{"topic":"m","partition":0}]}',
    "elect-twice.json": '{"partitions":[{"topic":"m","partition":0},{"topic":"m","partition":0}]}',
}
PLACEHOLDERS = (
    (r'(?<!"dir","partition":0,"replicas":\[1\],)"log_dirs":\[("\{nodes\}[^\]]*|"any"[^\]]*)\]', '"log_dirs":[…]'),
    (r"(set of voters) \[.*\]", r"\1 […]"),
    (r"Local controller \d", "Local controller {leader}"),
    (r" +\t", "\t"),
    (r"^\d\t\{id\}\t.*\t(Leader|Follower|Observer)\t", r"{node}\t{id}\t{offset}\t{lag}\t{time}\t{time}\t\1\t"),
    (r"(LeaderId|LeaderEpoch|HighWatermark|MaxFollowerLag|MaxFollowerLagTimeMs): +-?\d+", r"\1: {number}"),
    (r"Topic: (\w+)\t(.*)Configs: (.*)", lambda found: f"Topic: {found[1]}\t{found[2]}Configs: {by_name(found[3])}"),
    (r"(for partitions) (.*)", lambda found: f"{found[1]} {', '.join(sorted(found[2].split(', ')))}"),
    (r"Isr: ([\d,]+)", lambda found: f"Isr: {by_name(found[1])}"),
)


JAVA = r"\s+at |\s*Caused by|\s+\.\.\. |(org|java|com)\.[\w.]+(Exception|Error): "
"""Lines of a stack trace."""


def by_name(listed: str) -> str:
    """Return a list between commas in order; a value with commas in it is joined to its key."""
    return ",".join(sorted(re.split(r",(?=[a-z]|\d+$|\d+,)", listed)))


@dataclass(frozen=True)
class Told:
    """What came of a command."""

    code: int
    out: str
    err: str


class Story:
    """One cluster, and the commands that are tried on it."""

    def __init__(self, nodes: Nodes, nodes_folder: Path, folder: Path) -> None:
        self.nodes = nodes
        self.nodes_folder = nodes_folder
        self.folder = folder
        self.follower = self.directory = ""
        for name, text in FILES.items():
            (folder / name).write_text(text.replace("{nodes}", str(nodes_folder)))

    def prepare(self, run: Run) -> None:
        """Make the topics anew, and fill those that shall move slowly."""
        at = f"--bootstrap-server {self.nodes.bootstrap}"
        present = set(run(f"topics {at} --list").out.split())
        for topic in sorted(ASSIGNMENTS.keys() & present):
            assert run(f"topics {at} --delete --topic {topic} --yes").code == 0
        until(lambda: not ASSIGNMENTS.keys() & set(run(f"topics {at} --list").out.split()), "topics are deleted")
        for topic, assignment in ASSIGNMENTS.items():
            made = run(f"topics {at} --create --topic {topic} --replica-assignment {assignment}")
            assert made.code == 0, made.out + made.err
        producer = Producer({"bootstrap.servers": self.nodes.bootstrap})
        for number in range(2 * RECORDS):
            producer.produce(("big", "dir")[number % 2], value=bytes(RECORD_BYTES), partition=0)
        assert producer.flush(30) == 0

    def choose_follower(self, run: Run) -> None:
        """Choose a controller that may stop to vote: one that does not lead."""
        told = run(f"metadata-quorum --bootstrap-server {self.nodes.bootstrap} describe --replication -o json")
        self.follower = next(str(each["nodeId"]) for each in json.loads(told.out) if each["status"] == "Follower")
        meta = (self.nodes_folder / self.follower / "data1" / "meta.properties").read_text()
        (self.directory,) = re.findall(r"directory\.id=(.*)", meta)

    def check(self, steps: list[Step], ask: Callable[[list[str]], Told], *, kafkas: bool) -> None:
        """Run every step by `ask`, and compare what it told; reading ones are asked until they tell it."""
        for step in steps:
            wanted = (step.kafka_code if kafkas else step.code, self.neutral(step.out))
            words = [step.noun, *self.arguments(step)]
            told = ask(words)
            deadline = time.monotonic() + SETTLED_SECONDS_MAX
            while (found := (told.code, self.neutral(told.out))) != wanted:
                if not is_reading(step) or time.monotonic() > deadline:
                    break
                time.sleep(0.1)
                told = ask(words)
            assert found == wanted, (step.noun, step.args, told.err)
            err = "\n".join(self.lines(told.err))
            assert all(text in err for text in step.err), (step.noun, step.args, err)

    def arguments(self, step: Step) -> list[str]:
        """Return a step's arguments for this cluster."""
        names = {"@": self.nodes.bootstrap, "@@": self.nodes.controllers}
        filled = {"{follower}": self.follower, "{directory}": self.directory, "{dir}": str(self.folder)}
        filled["{nodes}"] = str(self.nodes_folder)
        found = []
        for each in step.args.split():
            word = names.get(each, each)
            for name, text in filled.items():
                word = word.replace(name, text)
            found.append(word)
        return found

    def neutral(self, text: str) -> list[str]:
        """Return lines, sorted, with placeholders where runs differ; Java's stack traces are left out."""
        return sorted(line for line in self.lines(text) if line and not re.match(JAVA, line))

    def lines(self, text: str) -> list[str]:
        """Return lines with placeholders where runs differ."""
        text = text.replace(str(self.nodes_folder), "{nodes}")
        if self.follower:
            text = re.sub(rf"(controller |id=|\{{nodes\}}/){self.follower}\b", r"\1{follower}", text)
        lines = neutral_lines(text, self.folder)
        for pattern, placeholder in PLACEHOLDERS:
            lines = [re.sub(pattern, placeholder, line) for line in lines]
        return lines


def is_reading(step: Step) -> bool:
    """True for a step that changes nothing, or nothing more when it is repeated."""
    return any(word in READING for word in step.args.split())
