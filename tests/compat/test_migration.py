"""A move from Apache Kafka to Ottla and back, by the files and commands of docs/migration.md, with every record counted."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from ottla.admin import ConfigEntity, create_acls, describe_acls, describe_config
from ottla.client import BlockingClient
from ottla.security import Acl, AclFilter, Operation, PatternType, PermissionType, Resource
from tests import peer
from tests.mirror.test_mirroring import WITH_ACLS, make, values
from tests.ports import free_port
from tests.server import running_server
from tests.waiting import until

pytestmark = [pytest.mark.peer, pytest.mark.slow]
PAGE = Path(__file__).parents[2] / "docs" / "migration.md"
WRITING = Acl(Resource.TOPIC, "orders", PatternType.LITERAL, "User:ann", "*", Operation.WRITE, PermissionType.ALLOW)
GROUPING = Acl(Resource.GROUP, "bil", PatternType.PREFIXED, "User:bob", "*", Operation.READ, PermissionType.ALLOW)
QUICKER = {"interval.seconds = 5": "interval.seconds = 1", "interval.seconds = 30": "interval.seconds = 1"}
DESCRIBED = "$ ottla consumer-groups --context {} --describe --group billing"
MIRROR = "ottla connect-mirror-maker "


@dataclass(frozen=True)
class Guide:
    """The page with a run's addresses, in a folder of its own."""

    folder: Path
    text: str

    def section(self, number: int) -> str:
        """Return a numbered section."""
        return self.text.partition(f"\n## {number}. ")[2].partition("\n## ")[0]

    def write_files(self) -> None:
        """Write the files that the page shows, which begin with their names."""
        for name, content in re.findall(r"```(?:properties|python)\n# (\S+)\n(.*?)```", self.text, re.DOTALL):
            (self.folder / name).write_text(content)

    def run(self, text: str) -> str:
        """Run a text's commands but for the mirrors, each of which has to succeed; return what they print."""
        lines = [each for each in re.findall(r"^ *\$ (.*)$", text, re.MULTILINE) if not each.startswith(MIRROR)]
        assert lines
        said = []
        for each in lines:
            done = subprocess.run(
                self._command(each),
                cwd=self.folder,
                env=self._env(),
                capture_output=True,
                text=True,
                timeout=60,
                shell=True,
            )
            assert done.returncode == 0, (each, done.stdout, done.stderr)
            said.append(done.stdout)
        return "".join(said)

    @contextmanager
    def mirror(self, number: int) -> Iterator[None]:
        """Run a section's MirrorMaker; Ctrl-C ends it."""
        [line] = [
            each for each in re.findall(r"^\$ (.*)$", self.section(number), re.MULTILINE) if each.startswith(MIRROR)
        ]
        path = self.folder / f"mirror-{number}.log"
        with path.open("ab") as log:
            process = subprocess.Popen(
                self._command(f"exec {line}"), cwd=self.folder, env=self._env(), stdout=log, stderr=log, shell=True
            )
            try:
                yield
                assert process.poll() is None, path.read_text()[-3000:]
            finally:
                process.send_signal(signal.SIGINT)
                process.wait(100)

    def _env(self) -> dict[str, str]:
        return {**os.environ, "XDG_CONFIG_HOME": str(self.folder / "config"), "HOME": str(self.folder)}

    def _command(self, line: str) -> str:
        return line.replace("ottla ", f"{sys.executable} -m ottla.cli.main ", 1).replace(
            "python access", f"{sys.executable} access"
        )


def read_on(bootstrap: str, expected: set[str], *, stop_after: int | None = None, reset: str = "earliest") -> list[str]:
    """Go on as the group `billing` until everything expected, or so many, has been read; commit, and leave."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "billing",
            "auto.offset.reset": reset,
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["orders"])
    found: list[str] = []

    def is_done() -> bool:
        for each in consumer.consume(50, 0.5):
            assert each.error() is None, each.error()
            found.append((each.value() or b"").decode())
        return len(found) >= stop_after if stop_after else expected <= set(found)

    try:
        until(is_done, lambda: (len(found), sorted(expected - set(found))[:5]))
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return found


def produce(bootstrap: str, name: str, count: int) -> list[str]:
    """Write records to both partitions of `orders`; return their values."""
    producer = Producer({"bootstrap.servers": bootstrap})
    given = [f"{name}-{number}" for number in range(count)]
    for number, each in enumerate(given):
        producer.produce("orders", each, partition=number % 2)
    assert producer.flush(30) == 0
    return given


def all_run(url: str) -> bool:
    """Whether the source connector and its tasks run."""
    try:
        with urllib.request.urlopen(f"{url}/connectors/MirrorSourceConnector/status", timeout=5) as answer:
            said = json.load(answer)
    except OSError:
        return False
    states = [said["connector"]["state"], *(each["state"] for each in said["tasks"])]
    return len(states) > 1 and set(states) == {"RUNNING"}


def lag_is_none(said: str) -> bool:
    """Whether a description of the group says that it has read both partitions to their ends."""
    return len(re.findall(r"billing +orders +\d+ +(\d+) +\1 +0 ", said)) == 2


@pytest.fixture
def places(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Where a Kafka and an Ottla listen, both with entries of access."""
    if reason := peer.missing():
        pytest.skip(reason)
    port, folder = free_port(), tmp_path / "new"
    folder.mkdir()
    with (
        peer.running_broker(tmp_path / "old", port, overrides=WITH_ACLS),
        running_server(folder, overrides=WITH_ACLS) as ottla,
    ):
        yield f"127.0.0.1:{port}", ottla.bootstrap


@pytest.mark.timeout(600)
def test_a_group_moves_from_kafka_to_ottla_and_back_and_no_record_is_lost(
    places: tuple[str, str], tmp_path: Path
) -> None:
    kafka, ottla = places
    urls = [f"http://localhost:{free_port()}" for _ in range(2)]
    text = PAGE.read_text()
    named = dict(zip(("localhost:9092", "localhost:9192", *(f"http://localhost:{each}" for each in (8083, 8084))),
                     (kafka, ottla, *urls), strict=True))  # fmt: skip
    for given, wanted in {**named, **QUICKER}.items():
        text = text.replace(given, wanted)
    guide = Guide(tmp_path, text)
    guide.write_files()
    with BlockingClient(kafka) as old, BlockingClient(ottla) as new:
        make(old, "orders", 2, retention_ms="999999999")
        create_acls(old, [WRITING, GROUPING])
        written = produce(kafka, "before", 600)
        taken = set(read_on(kafka, set(), stop_after=300))
        guide.run(text.partition("\n## 1. ")[0])
        assert "retention.ms=999999999" in guide.run(guide.section(1))

        with guide.mirror(2):
            written += produce(kafka, "meanwhile", 100)
            until(lambda: values(new, "orders") == Counter(written), lambda: len(values(new, "orders")))
            until(lambda: new.committed_offsets("billing"), "the group's offsets")
            guide.run(guide.section(3))
            guide.run(guide.section(4))
            assert {WRITING, GROUPING} <= set(describe_acls(new, AclFilter()))
            taken |= set(read_on(kafka, set(written) - taken))
            assert taken == set(written)
            until(lambda: lag_is_none(guide.run(DESCRIBED.format("new"))), lambda: guide.run(DESCRIBED.format("new")))
            guide.run(guide.section(5).partition("4. End")[0])
        guide.run(guide.section(5).partition("4. End")[2])
        entity = ConfigEntity("topics", "orders")
        own = {each.name: each.value for each in describe_config(new, entity) if each.is_set_for(entity)}
        assert own == {"retention.ms": "999999999", "min.insync.replicas": "1"}

        with guide.mirror(6):
            until(lambda: all_run(f"{urls[1]}/new/old"), "the way back")
            guide.run(guide.section(6))
            after = produce(ottla, "after", 200)
            assert Counter(read_on(ottla, set(after), reset="error")) == Counter(after), (
                "it goes on where it was, and nothing twice"
            )
            until(lambda: values(old, "orders") == Counter(written + after), lambda: len(values(old, "orders")))
            until(lambda: lag_is_none(guide.run(DESCRIBED.format("old"))), lambda: guide.run(DESCRIBED.format("old")))
            guide.run(guide.section(7))
        last = produce(kafka, "back", 50)
        assert Counter(read_on(kafka, set(last), reset="error")) == Counter(last), "and so it does back on Kafka"
        guide.run(guide.section(8))
        assert not [each for each in new.metadata().topics if each.startswith("mm2-")]


def test_a_group_that_leaves_kafka_in_its_middle_misses_nothing(places: tuple[str, str], tmp_path: Path) -> None:
    kafka, ottla = places
    text = PAGE.read_text().replace("localhost:9092", kafka).replace("localhost:9192", ottla)
    for given, wanted in {**QUICKER, "http://localhost:8083": f"http://localhost:{free_port()}"}.items():
        text = text.replace(given, wanted)
    guide = Guide(tmp_path, text)
    guide.write_files()
    with BlockingClient(kafka) as old, BlockingClient(ottla) as new:
        make(old, "orders", 2)
        written = produce(kafka, "before", 2000)
        taken = read_on(kafka, set(), stop_after=900)
        with guide.mirror(2):
            committed = old.committed_offsets("billing").keys()
            until(lambda: new.committed_offsets("billing").keys() == committed, "the group's offsets")
            written += produce(kafka, "later", 100)
            left = set(written) - set(taken)
            assert left <= set(read_on(ottla, left)), "nothing is left out"
            until(lambda: values(new, "orders") == Counter(written), "and no record is there twice")
        own = {each for each in old.metadata().topics if not each.startswith("__")}
        assert own == {"orders", "mm2-offset-syncs.new.internal"}, "all that the mirror writes to Kafka"
