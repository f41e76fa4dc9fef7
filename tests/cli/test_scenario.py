"""The scenario's texts and exit codes: of Ottla's commands against Ottla and against Kafka, and of Kafka's own tools."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import peer
from tests.cli.conftest import Run
from tests.cli.scenario import STEPS
from tests.ports import free_port
from tests.server import running_server


@dataclass(frozen=True)
class Cluster:
    """What the commands talk to."""

    bootstrap: str
    log_dir: Path


@pytest.fixture
def ottla(tmp_path: Path) -> Iterator[Cluster]:
    with running_server(tmp_path) as server:
        yield Cluster(server.bootstrap, tmp_path / "data")


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[Cluster]:
    port = free_port()
    with peer.running_broker(tmp_path, port):
        yield Cluster(f"127.0.0.1:{port}", tmp_path / "data")


def neutral(text: str, cluster: Cluster) -> str:
    """Put the scenario's placeholders where runs differ; configurations are printed in no promised order."""
    text = re.sub(r"TopicId: [\w-]{22}", "TopicId: {id}", text)
    text = re.sub(r"Time:\d{13}", "Time:{time}", text)
    text = text.replace(str(cluster.log_dir), "{dir}")
    return re.sub(r"Configs: (\S+)", lambda match: f"Configs: {','.join(sorted(match[1].split(',')))}", text)


def check_every_step(run: Run, cluster: Cluster) -> None:
    for step in STEPS:
        found = run(f"{step.tool} --bootstrap-server {cluster.bootstrap} {shlex.join(step.args.split())}", step.stdin)
        assert (step.name, neutral(found.out, cluster), found.code) == (step.name, step.out, step.code), found.err
        assert step.err is None or found.err.splitlines()[0] == step.err, step.name
        assert "Traceback" not in found.err, step.name


def test_commands_print_kafkas_texts_against_ottla(run: Run, ottla: Cluster) -> None:
    check_every_step(run, ottla)


@pytest.mark.peer
@pytest.mark.slow
def test_commands_print_kafkas_texts_against_kafka(run: Run, kafka: Cluster) -> None:
    check_every_step(run, kafka)


def check_kafkas_tools(cluster: Cluster) -> None:
    for step in STEPS:
        arguments = ["--bootstrap-server", cluster.bootstrap, *step.args.split()]
        found = peer.tool(step.tool, *arguments, stdin=step.stdin)
        outcome = (step.name, neutral(found.stdout, cluster), found.returncode)
        assert outcome == (step.name, step.out, step.code), found.stderr
        assert step.err is None or step.err in found.stderr, step.name


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_scenario_is_what_kafkas_own_tools_print(kafka: Cluster) -> None:
    check_kafkas_tools(kafka)


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_kafkas_own_tools_print_the_same_against_ottla(ottla: Cluster) -> None:
    check_kafkas_tools(ottla)
