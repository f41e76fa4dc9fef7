"""Administrators' commands print Kafka's texts: Ottla's against Ottla and Kafka, and Kafka's own tools against both."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer

from tests import peer
from tests.cli.conftest import Run
from tests.cli.golden import Step, neutral, steps_of
from tests.ports import free_port
from tests.server import running_server

STEPS = steps_of("admin.txt")
KAFKA_STEPS = steps_of("admin_kafka.txt")
"""What only Kafka answers so far: credentials, and APIs for what is not there yet."""
CONTROLLER_STEPS = steps_of("admin_controller.txt")
"""What needs a controller's own listener, and what changes features."""
ASSIGNED_SECONDS_MAX = 100.0
APPLIED_SECONDS_MAX = 100.0
FIRST_TIMESTAMP = 1_700_000_000_000
FILES = {
    "plan.csv": "r,0,1\nr,1,4\n",
    "plans.csv": '"g","r",0,2\nother,r,0,1\n',
    "records.json": '{"partitions":[{"topic":"r","partition":0,"offset":3}],"version":1}',
    "beyond.json": '{"partitions":[{"topic":"r","partition":0,"offset":300}],"version":1}',
    "double.json": '{"partitions":[{"topic":"r","partition":0,"offset":3},{"topic":"r","partition":0,"offset":1}]}',
    "no-partition.json": '{"partitions":[{"topic":"r"}]}',
    "nothing.json": '{"version":1}',
    "newer.json": '{"partitions":[],"version":2}',
    "no.json": "nope",
    "topic.properties": "retention.ms=7777\ncleanup.policy=compact,delete\n",
}
Tools = Callable[..., subprocess.CompletedProcess[str]]


class Told(NamedTuple):
    """What came of a step, with placeholders in it."""

    out: list[str]
    code: int
    err: str


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files that the steps name."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    with peer.running_broker(tmp_path_factory.mktemp("kafka"), port):
        yield f"127.0.0.1:{port}"


def with_controller() -> list[str]:
    """Return the settings of a broker whose controller listens where Kafka's does beside its broker."""
    port = free_port()
    controller = port + peer.CONTROLLER_PORT_AFTER
    return [
        "node.id=1",
        "process.roles=broker,controller",
        f"controller.quorum.voters=1@127.0.0.1:{controller}",
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "controller.listener.names=CONTROLLER",
    ]


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    with peer.one_jvm() as run:
        yield run


@contextmanager
def prepared(run: Run, bootstrap: str) -> Iterator[None]:
    """Give a cluster two topics with records and a group with two members; take everything away afterwards."""
    at = f"--bootstrap-server {bootstrap}"
    assert run(f"topics {at} --create --topic r --partitions 2 --config retention.ms=-1").code == 0
    assert run(f"topics {at} --create --topic u --partitions 1").code == 0
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(20):
        stamp = FIRST_TIMESTAMP + number * 1000
        producer.produce("r", value=str(number), partition=number % 2, timestamp=stamp)
    assert producer.flush(20) == 0
    members = [Consumer({"bootstrap.servers": bootstrap, "group.id": "live", "client.id": "cl-1"}) for _ in range(2)]
    try:
        for member in members:
            member.subscribe(["u"])
        deadline = time.monotonic() + ASSIGNED_SECONDS_MAX
        while not is_settled(run, at, members):
            assert time.monotonic() < deadline, "the group did not settle"
        yield
    finally:
        for member in members:
            member.close()
    assert run(f"consumer-groups {at} --delete --group live").code == 0
    for topic in ("r", "u"):
        assert run(f"topics {at} --delete --topic {topic}").code == 0
    deadline = time.monotonic() + ASSIGNED_SECONDS_MAX
    while {"r", "u"} & set(run(f"topics {at} --list").out.split()):  # Kafka answers before its brokers have heard
        assert time.monotonic() < deadline, "the topics were not deleted"


def is_settled(run: Run, at: str, members: list[Consumer]) -> bool:
    """Let the members speak, and return whether both are in the group and one of them reads the one partition."""
    for member in members:
        member.poll(0.1)
    if sum(len(member.assignment()) for member in members) != 1:
        return False
    found = run(f"consumer-groups {at} --describe --group live --state -o json")
    return found.code == 0 and [(row["state"], row["members"]) for row in json.loads(found.out)] == [("Stable", 2)]


def check_ottlas_commands(run: Run, bootstrap: str, folder: Path, steps: Sequence[Step] = STEPS) -> None:
    def ask(step: Step) -> Told:
        found = run(shlex.join([step.noun, *step.arguments(bootstrap, folder)]))
        return Told(neutral(found.out, folder), found.code, found.err.replace(str(folder), "{dir}"))

    for step in steps:
        told = settled(step, ask, step.code)
        assert (told.out, told.code) == (neutral(step.out, folder), step.code), (step.noun, step.args, told.err)
        said = [text for text in told.err.splitlines() if text][: len(step.err)]
        assert said == step.err, (step.noun, step.args, told.err)
        assert "Traceback" not in told.err, step


def check_kafkas_tools(tools: Tools, bootstrap: str, folder: Path, steps: Sequence[Step] = STEPS) -> None:
    def ask(step: Step) -> Told:
        found = tools(tool_of(step), *step.arguments(bootstrap, folder))
        return Told(neutral(found.stdout, folder), found.returncode, found.stderr.replace(str(folder), "{dir}"))

    for step in steps:
        told = settled(step, ask, step.kafka_code)
        assert (told.out, told.code) == (neutral(step.out, folder), step.kafka_code), (step.noun, step.args, told.err)
        assert all(text in told.err for text in step.err), (step.noun, step.args, told.err)


def settled(step: Step, ask: Callable[[Step], Told], code: int) -> Told:
    """Ask, and where a description is not right yet ask again: a broker applies what was altered a moment later."""
    deadline = time.monotonic() + APPLIED_SECONDS_MAX
    expected = sorted(step.out.splitlines())
    told = ask(step)
    while "--describe" in step.args and (told.out, told.code) != (expected, code) and time.monotonic() < deadline:
        told = ask(step)
    return told


def finalize_as_kafka(run: Run, bootstrap: str) -> None:
    """Finalize what Kafka's new folders finalize and ours do not, since nothing serves it: the story begins with it."""
    levels = "--feature share.version=1 --feature streams.version=1"
    assert run(f"features --bootstrap-server {bootstrap} upgrade {levels}").code == 0


def tool_of(step: Step) -> str:
    """Return the peer's name of the tool behind a noun."""
    return "org.apache.kafka.tools.GroupsCommand" if step.noun == "groups" else step.noun


def test_commands_print_kafkas_texts_against_ottla(run: Run, folder: Path, tmp_path: Path) -> None:
    with running_server(tmp_path, overrides=with_controller()) as server:
        with prepared(run, server.bootstrap):
            check_ottlas_commands(run, server.bootstrap, folder)
        finalize_as_kafka(run, server.bootstrap)
        check_ottlas_commands(run, server.bootstrap, folder, CONTROLLER_STEPS)


@pytest.mark.peer
@pytest.mark.slow
def test_commands_print_kafkas_texts_against_kafka(run: Run, folder: Path, kafka: str) -> None:
    with prepared(run, kafka):
        check_ottlas_commands(run, kafka, folder)
    check_ottlas_commands(run, kafka, folder, [*KAFKA_STEPS, *CONTROLLER_STEPS])


@pytest.mark.peer
@pytest.mark.slow
def test_the_golden_texts_are_what_kafkas_own_tools_print(run: Run, folder: Path, kafka: str, tools: Tools) -> None:
    with prepared(run, kafka):
        check_kafkas_tools(tools, kafka, folder)
    check_kafkas_tools(tools, kafka, folder, [*KAFKA_STEPS, *CONTROLLER_STEPS])


@pytest.mark.peer
@pytest.mark.slow  # the texts are compared above, and Kafka's tools drive a cluster in `test_cluster_scenario.py`
def test_kafkas_own_tools_print_the_same_against_ottla(run: Run, folder: Path, tmp_path: Path, tools: Tools) -> None:
    with running_server(tmp_path, overrides=with_controller()) as server:
        with prepared(run, server.bootstrap):
            check_kafkas_tools(tools, server.bootstrap, folder)
        finalize_as_kafka(run, server.bootstrap)
        check_kafkas_tools(tools, server.bootstrap, folder, CONTROLLER_STEPS)
