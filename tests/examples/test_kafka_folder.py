"""What docs/operations.md says of Kafka's folders: Ottla opens one as it is, and Kafka opens it again afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import peer
from tests.ports import free_port
from tests.server import running_server


def ottla(bootstrap: str, *arguments: str, stdin: str = "") -> str:
    command = [sys.executable, "-m", "ottla.cli.main", *arguments, "--bootstrap-server", bootstrap]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.peer
@pytest.mark.slow
def test_a_folder_goes_from_kafka_to_ottla_and_back(tmp_path: Path) -> None:
    port = free_port()
    kafka = f"127.0.0.1:{port}"
    consume = ("consume", "t", "--group", "g", "--timeout-ms", "30000", "--number")
    with peer.running_broker(tmp_path, port):
        ottla(kafka, "topics", "--create", "--topic", "t", "--partitions", "1", "--config", "retention.ms=-1")
        ottla(kafka, "produce", "t", stdin="0\n1\n2\n")
        assert ottla(kafka, *consume, "2") == "0\n1\n"
        before = ottla(kafka, "topics", "--describe", "--topic", "t")
    with running_server(tmp_path, overrides=["group.initial.rebalance.delay.ms=0"]) as server:
        assert ottla(server.bootstrap, "topics", "--describe", "--topic", "t") == before
        assert ottla(server.bootstrap, *consume, "1") == "2\n"
        ottla(server.bootstrap, "produce", "t", stdin="3\n")
        ottla(server.bootstrap, "topics", "--create", "--topic", "ours", "--partitions", "1")
        ottla(server.bootstrap, "produce", "ours", stdin="4\n")
    with peer.running_broker(tmp_path, port):
        assert ottla(kafka, "consume", "t", "--exit") == "0\n1\n2\n3\n"
        assert ottla(kafka, *consume, "1") == "3\n"
        assert ottla(kafka, "consume", "ours", "--exit") == "4\n"
