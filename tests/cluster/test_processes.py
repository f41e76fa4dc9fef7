"""A node's process among others that are not there."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.cluster.nodes import CLUSTER_ID
from tests.ports import free_ports

SECONDS_MAX = 100.0


def ottla(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ottla.cli.main", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env=dict(os.environ),
    )


def test_a_node_that_waits_for_a_quorum_stops_when_it_is_told_to(tmp_path: Path) -> None:
    client, *controllers = free_ports(4)
    voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in enumerate(controllers, 1))
    settings = [
        "process.roles=broker,controller",
        "node.id=1",
        f"listeners=PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controllers[0]}",
        "controller.listener.names=CONTROLLER",
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        f"controller.quorum.voters={voters}",
        f"log.dirs={tmp_path / 'data'}",
    ]
    properties = tmp_path / "server.properties"
    properties.write_text("\n".join(settings))
    formatted = ottla("storage", "format", "-t", CLUSTER_ID, "-c", str(properties), folder=tmp_path)
    assert formatted.wait(SECONDS_MAX) == 0
    process = ottla("server", "start", str(properties), folder=tmp_path)
    try:
        await_listener(controllers[0])
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS_MAX) == 0
    finally:
        if process.poll() is None:
            process.kill()
        print(process.communicate()[0])


def await_listener(port: int) -> None:
    """Return once something listens on a port of this machine."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < deadline, "nobody listens"
        time.sleep(0.02)
