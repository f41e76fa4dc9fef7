"""`ottla.registry.listeners`: a registry that starts with a broker, and ends with it however that ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.ports import free_port
from tests.processes import below
from tests.registry.running import RegistryProcess, record
from tests.server import start_server
from tests.waiting import until


def test_a_registry_starts_and_ends_with_its_broker(tmp_path: Path) -> None:
    port = free_port()
    overrides = [f"ottla.registry.listeners=http://127.0.0.1:{port}", "group.initial.rebalance.delay.ms=0"]
    server = start_server(tmp_path, overrides=overrides)
    try:
        registry = RegistryProcess(server.process, f"http://127.0.0.1:{port}")
        until(lambda: registry.ask("GET", "/subjects").status == 200, lambda: server.lines, past=(OSError,))
        assert registry.register("beside", record("Beside")) == 1
        children = below(server.process.pid) - {server.process.pid}
        assert children
        server.kill()
        until(lambda: not any(Path(f"/proc/{each}").exists() for each in children), "the end of the registry")
        server = start_server(tmp_path, overrides=overrides)
        registry = RegistryProcess(server.process, registry.url)
        until(lambda: registry.ask("GET", "/subjects").body == ["beside"], lambda: server.lines, past=(OSError,))
    finally:
        assert server.stop() == 0
    assert "Traceback" not in "".join(server.lines), server.lines


def test_a_broker_that_a_registry_could_not_log_in_to_says_so(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ottla.cli.main", "server", "start"]
    for each in (
        *("listeners=CLIENTS://127.0.0.1:0", "listener.security.protocol.map=CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT"),
        *("ottla.registry.listeners=http://127.0.0.1:0", f"log.dirs={tmp_path}", "inter.broker.listener.name=CLIENTS"),
    ):
        command += ["--override", each]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 1 and "ottla.registry.config" in done.stderr, done
