"""Instances that are killed and stopped while schemas are registered: every id that was answered means what it meant."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client import BlockingClient
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.processes import end
from tests.registry.running import RegistryProcess, record, running_registry, start_registry
from tests.server import Server, running_server
from tests.waiting import until

pytestmark = [pytest.mark.compat, pytest.mark.slow]
BROKER = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=500")
QUICK = ("kafkagroup.session.timeout.ms=2000", "kafkagroup.heartbeat.interval.ms=300")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Server]:
    with running_server(tmp_path, overrides=BROKER) as server:
        yield server


@pytest.fixture
def instances(broker: Server) -> Iterator[list[RegistryProcess]]:
    found = [start_registry(broker.bootstrap, overrides=QUICK) for _ in range(3)]
    try:
        yield found
    finally:
        for each in found:
            if each.process.poll() is None:
                each.process.send_signal(signal.SIGCONT)
                end(each.process, 60)


def primary_of(instances: list[RegistryProcess]) -> RegistryProcess:
    """Return the instance that the others say is the primary."""

    def named() -> RegistryProcess | None:
        alive = [each for each in instances if each.process.poll() is None]
        said = [
            line.split("The primary is ")[1].split(" (")[0] for line in alive[-1].lines if "The primary is " in line
        ]
        return next((each for each in alive if said and said[-1] == each.url), None)

    found = until(named, "a primary")
    assert found is not None
    return found


class Writer(threading.Thread):
    """Registers schemas at one instance, one after another, and keeps what was answered; refusals are tried again."""

    def __init__(self, registry: RegistryProcess, name: str) -> None:
        super().__init__(daemon=True)
        self.answered: dict[int, str] = {}
        self.refused: list[object] = []
        self.stopping = threading.Event()
        self._registry, self._prefix = registry, name

    def run(self) -> None:
        number = 0
        while not self.stopping.is_set():
            schema = record(f"{self._prefix}{number}")
            try:
                found = self._registry.ask(
                    "POST", f"/subjects/{self._prefix}{number % 7}-{number}/versions", {"schema": schema}
                )
            except OSError as error:
                self.refused.append(error)
                if self._registry.process.poll() is not None:
                    return
                continue
            if found.status == 200:
                assert self.answered.setdefault(found.body["id"], schema) == schema
                number += 1
            else:
                self.refused.append(found)


def check(instances: list[RegistryProcess], writers: list[Writer]) -> int:
    """Assert that every answered id leads to its schema on every instance; returns how many there are."""
    answered: dict[int, str] = {}
    for writer in writers:
        for schema_id, schema in writer.answered.items():
            assert answered.setdefault(schema_id, schema) == schema, f"id {schema_id} was given to two schemas"
    for each in instances:
        if each.process.poll() is None:
            for schema_id, schema in answered.items():
                assert each.get(f"/schemas/ids/{schema_id}") == {"schema": schema}
    return len(answered)


def test_a_primary_that_is_killed_loses_no_id_and_gives_none_twice(
    broker: Server, instances: list[RegistryProcess]
) -> None:
    for _ in range(2):  # of three instances, until one is left
        primary = primary_of(instances)
        others = [each for each in instances if each is not primary and each.process.poll() is None]
        writers = [Writer(each, f"W{instances.index(each)}x{len(others)}") for each in (*others, primary)]
        for writer in writers:
            writer.start()
        until(lambda writers=writers: all(len(each.answered) > 20 for each in writers), "schemas")
        primary.kill()
        before = [len(each.answered) for each in writers]
        through = writers[: len(others)]
        until(
            lambda through=through, before=before: all(
                len(each.answered) > known + 20 for each, known in zip(through, before, strict=False)
            ),
            lambda: [each.said() for each in instances],
        )
        for writer in writers:
            writer.stopping.set()
        for writer in writers:
            writer.join(60)
        assert check(instances, writers) > 60


def test_a_primary_that_was_stopped_for_longer_than_its_session_is_fenced(
    broker: Server, instances: list[RegistryProcess]
) -> None:
    old = primary_of(instances)
    assert old.register("first", record("First")) == 1
    os.kill(old.process.pid, signal.SIGSTOP)
    others = [each for each in instances if each is not old]
    assert others[0].register("second", record("Second")) == 2, "the others have a primary of their own"
    os.kill(old.process.pid, signal.SIGCONT)
    # as forwarded to it: it must not pass the write on, so it writes by itself or not at all
    found = old.ask("POST", "/subjects/third/versions", {"schema": record("Third")}, X_Forward="true")
    if found.status == 200:
        assert found.body["id"] == 3, "it has become the primary again, and knows what was written"
    assert old.register("fourth", record("Fourth")) in (3, 4)
    texts = [[each.ask("GET", f"/schemas/ids/{number}").body for number in range(1, 5)] for each in instances]
    assert texts[0] == texts[1] == texts[2]


def test_a_topic_that_is_made_again_gets_no_ids_of_the_old_one(tmp_path: Path) -> None:
    with (
        running_server(tmp_path, overrides=("group.initial.rebalance.delay.ms=0",)) as server,
        running_registry(server.bootstrap) as registry,
    ):
        assert registry.register("before", record("Before")) == 1
        with BlockingClient(server.bootstrap) as client:
            gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="_schemas")], timeout_ms=30_000)
            assert not client.request(gone, controller=True, lowest=6).responses[0].error_code
        command = [sys.executable, "-m", "ottla.cli.main", "topics", "--bootstrap-server", server.bootstrap, "--create"]
        more = ["--topic", "_schemas", "--partitions", "1", "--config", "cleanup.policy=compact"]
        subprocess.run([*command, *more], check=True, capture_output=True, timeout=100)
        until(lambda: "was deleted and made again" in registry.said(), registry.said)
        refused = registry.error("POST", "/subjects/after/versions", {"schema": record("After")})
        assert refused[1] == 50001 and "was deleted and made again" in refused[2]
        assert registry.get("/schemas/ids/1") == {"schema": record("Before")}, "what it knows can be saved"
        assert registry.ask("GET", "/health").status == 503
        with running_registry(server.bootstrap) as fresh:
            assert fresh.register("new", record("New")) == 1
            assert registry.get("/schemas/ids/1") == {"schema": record("Before")}
