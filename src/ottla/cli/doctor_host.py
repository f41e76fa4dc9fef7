"""The doctor's questions to this machine, where the broker runs here: file limits, and how the code was built."""

from __future__ import annotations

import os
from pathlib import Path

from ottla.cli.doctor_addresses import is_this_machine
from ottla.cli.findings import Finding, ok, warning
from ottla.cli.main import build_kind
from ottla.cli.server_process import RunningServer, running_servers

__all__ = ["host_checks"]

DESCRIPTORS_ENOUGH = 100_000
"""What Kafka's own documentation asks for as a start."""
DESCRIPTORS_SHARE_HIGH = 0.8


def host_checks(servers: str) -> list[Finding]:
    """Return what this machine says; nothing where the cluster is somewhere else."""
    from ottla.client import parse_bootstrap

    ports = {address.port for address in parse_bootstrap(servers) if is_this_machine(address.host)}
    if not ports:
        return []
    findings = [_files(server.pid) for server in running_servers() if _listens(server, ports)]
    if not findings:
        return []  # what serves there is another user's, in a container, or Apache Kafka
    if build_kind() == "compiled":
        return [*findings, ok("build", "the hot modules are compiled")]
    remedy = "install a C compiler and run `make install`: a compiled broker is faster"
    return [*findings, warning("build", "pure: the hot modules are not compiled, or OTTLA_PURE is set", remedy)]


def _listens(server: RunningServer, ports: set[int]) -> bool:
    """True for a server that was told one of these ports, or whose configuration cannot be read."""
    return server.config is None or any(listener.port in ports for listener in server.config.listeners)


def _files(pid: int) -> Finding:
    """Compare a server's open files with its limit."""
    try:
        lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
        limit_text = next(line for line in lines if line.startswith("Max open files")).split()[3]
        used = len(os.listdir(f"/proc/{pid}/fd"))
    except (OSError, StopIteration):
        return ok("files", f"process {pid}: this system does not tell its limits")
    said = f"process {pid} has {used} files open, of at most {limit_text}"
    limit = float("inf") if limit_text == "unlimited" else int(limit_text)
    remedy = "raise the limit for the broker's user (LimitNOFILE= with systemd, `ulimit -n` in a shell)"
    if used > limit * DESCRIPTORS_SHARE_HIGH:
        return warning("files", said, f"{remedy}: the broker cannot open further segments or connections at the limit")
    if limit < DESCRIPTORS_ENOUGH:
        return warning("files", said, f"{remedy} to {DESCRIPTORS_ENOUGH} or more before it has many partitions")
    return ok("files", said)
