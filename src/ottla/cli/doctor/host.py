"""The doctor's questions to this machine, where the broker runs here: file limits, and how the code was built."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ottla.cli.build_kind import build_kind, why_pure
from ottla.cli.doctor.addresses import is_this_machine
from ottla.cli.doctor.findings import Finding, named, ok, warning
from ottla.cli.local.server_process import RunningServer, running_servers

__all__ = ["host_checks", "stray_folders"]

DESCRIPTORS_ENOUGH = 100_000
"""What Kafka's own documentation asks for as a start."""
DESCRIPTORS_SHARE_FREE = 0.25
"""Below that share a limit of less than enough is no trouble yet: a fresh machine's is, and its broker has a few open."""
DESCRIPTORS_SHARE_HIGH = 0.8


def host_checks(servers: str) -> list[Finding]:
    """Return what this machine says; nothing where the cluster is somewhere else."""
    from ottla.client import parse_bootstrap

    ports = {address.port for address in parse_bootstrap(servers) if is_this_machine(address.host)}
    if not ports:
        return []
    servers_here = [server for server in running_servers() if _listens(server, ports)]
    if not servers_here:
        return []  # what serves there is another user's, in a container, or Apache Kafka
    findings = [_files(pid) for server in servers_here for pid in server.processes]
    for server in servers_here:
        findings += stray_folders(server.data_folders)
    if build_kind() == "compiled":
        return [*findings, ok("build", "the hot modules are compiled")]
    if reason := why_pure():
        why, _, remedy = reason.partition("): ")
        return [*findings, warning("build", f"pure: {why})", remedy)]
    remedy = "install a C compiler and run `make install`: a compiled broker is faster"
    return [*findings, warning("build", "pure: the hot modules are not compiled, or OTTLA_PURE is set", remedy)]


def _listens(server: RunningServer, ports: set[int]) -> bool:
    """True for a server that was told one of these ports, or whose configuration cannot be read."""
    return server.config is None or not ports.isdisjoint(server.ports)


def stray_folders(log_dirs: Iterable[str]) -> list[Finding]:
    """Name the folders that a start has set aside because nothing proves whose log they hold: nobody else removes them."""
    from ottla.log import is_stray_folder

    findings = []
    for path in log_dirs:
        try:
            found = sorted(each.name for each in Path(path).iterdir() if is_stray_folder(each.name))
        except OSError:
            continue  # another user's, or a directory whose disk has failed: `disk` tells of that
        if found:
            remedy = "look into them (`ottla dump-log`), and remove those that nobody misses: their space stays taken"
            findings.append(warning("strays", f"{path}: {named(found)}", remedy))
    return findings


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
    if limit < DESCRIPTORS_ENOUGH and used > limit * DESCRIPTORS_SHARE_FREE:
        return warning("files", said, f"{remedy} to {DESCRIPTORS_ENOUGH} or more before it has many partitions")
    return ok("files", said)
