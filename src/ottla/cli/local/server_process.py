"""Servers as processes: started in the background (`-daemon`), found among this user's processes, and stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.base import OttlaError
from ottla.cli.local.shard_folders import shard_folder
from ottla.cli.options import Options, UsageError, properties_text, warn, whole_number

if TYPE_CHECKING:
    from argparse import Namespace

    from ottla.config import BrokerConfig

__all__ = [
    "RunningServer",
    "running_servers",
    "server_arguments",
    "start_in_background",
    "stop_options",
    "stop_servers",
]

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 60.0
POLL_SECONDS = 0.05
OUTPUT_NAME = "kafkaServer.out"
"""As Kafka's scripts name the file that a background server prints to."""
ROLES = ("broker", "controller")


def start_in_background(argv: list[str], data: str) -> int:
    """Start `ottla server start` detached; returns when it is ready (0) or has ended (1).

    What it prints goes to `kafkaServer.out` in `$LOG_DIR`, or in `logs` beside the data folder.
    """
    folder = Path(os.environ.get("LOG_DIR") or Path(data).absolute().parent / "logs")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / OUTPUT_NAME
    with path.open("ab") as out:
        begun = out.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "ottla.cli.main", "server", "start", *argv],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        ended = process.poll() is not None
        lines = _printed_since(path, begun)
        if any(line.startswith("ready ") for line in lines):
            print(f"started, process {process.pid}; what it prints goes to {path}")
            return 0
        if ended:
            warn(lines[-1] if lines else f"ottla server: ended with exit code {process.returncode}")
            return 1
        time.sleep(POLL_SECONDS)
    warn(f"ottla server: not ready after {START_SECONDS_MAX:.0f} s; process {process.pid} goes on, see {path}")
    return 1


def _printed_since(path: Path, begun: int) -> list[str]:
    with path.open("rb") as file:
        file.seek(begun)
        return file.read().decode(errors="replace").splitlines()


@dataclass(frozen=True)
class RunningServer:
    """A server of this user; `config` is None where what it was started with cannot be read any more."""

    pid: int
    config: BrokerConfig | None
    shards: int | None = None
    """How many nodes it is, with ids and ports from the configuration's own on; None where it is one without shards."""
    folder: Path = Path()
    """Its working folder."""

    @property
    def ports(self) -> set[int]:
        """Where it listens; nothing where the configuration cannot be read."""
        listeners = () if self.config is None else self.config.listeners
        return {each.port + index for each in listeners for index in range(self.shards or 1)}

    @property
    def data_folders(self) -> list[str]:
        """Where its partitions are; nothing where the configuration cannot be read."""
        if self.config is None:
            return []
        folders = [str(self.folder / each) for each in self.config.log_dirs]
        if self.shards is None:
            return folders
        ids = range(self.config.node_id, self.config.node_id + self.shards)
        return [shard_folder(each, node_id) for node_id in ids for each in folders]

    @property
    def processes(self) -> list[int]:
        """The processes that serve: of one with shards its children."""
        if self.shards is None:
            return [self.pid]
        return [int(each) for each in _read(Path(f"/proc/{self.pid}/task/{self.pid}/children")).split()]

    def has_shard(self, node_id: int | None) -> bool:
        """True where the node is one of several that end with this server only."""
        if self.config is None or node_id is None:
            return False
        return 0 < node_id - self.config.node_id < (self.shards or 1)

    def plays(self, *, role: str | None, node_id: int | None) -> bool:
        """True where it is the node, and has the role, that was asked for; None asks for nothing."""
        if role is None and node_id is None:
            return True
        if self.config is None:
            return False
        return role in (None, *self.config.roles) and node_id in (None, self.config.node_id)


def stop_options() -> Options:
    """Return the parser of `server stop`."""
    parser = Options("server stop", "Stop this user's Ottla servers, and no other process.")
    parser.add_argument("--node-id", type=whole_number, metavar="N", help="only the node of this id")
    parser.add_argument("--process-role", metavar="ROLE", help=f"only nodes of this role: {' or '.join(ROLES)}")
    return parser


def stop_servers(argv: list[str]) -> int:
    """Ask this user's servers to stop and wait for their end; 1 where there is none, or one does not end."""
    args = stop_options().parse(argv)
    if args.process_role not in (None, *ROLES):
        raise UsageError(f"--process-role is {' or '.join(ROLES)}, not {args.process_role}")
    running = running_servers()
    found = [each for each in running if each.plays(role=args.process_role, node_id=args.node_id)]
    if not found:
        warn("No kafka server to stop")
        for first in (each.config.node_id for each in running if each.config and each.has_shard(args.node_id)):
            warn(f"Node {args.node_id} is a shard of node {first}'s server: --node-id {first} stops all of its shards")
        return 1
    for server in found:
        os.kill(server.pid, signal.SIGTERM)
    left = _wait_for_end({server.pid for server in found})
    for pid in left:
        warn(f"ottla server stop: process {pid} has not ended after {STOP_SECONDS_MAX:.0f} s")
    return 1 if left else 0


def _wait_for_end(pids: set[int]) -> set[int]:
    deadline = time.monotonic() + STOP_SECONDS_MAX
    while pids and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        pids = {pid for pid in pids if _arguments(Path("/proc") / str(pid))}
    return pids


def running_servers() -> list[RunningServer]:
    """Return this user's servers, from what the system says of its processes (`/proc`).

    A server's own child processes, which carry its command line, are not among them.
    """
    folders = [each for each in Path("/proc").iterdir() if each.name.isdecimal()]
    found = {
        int(folder.name): (folder, args) for folder in folders if (args := _server_arguments_of(folder)) is not None
    }
    return [
        _server_of(pid, folder, args) for pid, (folder, args) in sorted(found.items()) if _parent(folder) not in found
    ]


def _server_arguments_of(folder: Path) -> list[str] | None:
    try:
        own = folder.stat().st_uid == os.getuid()
    except OSError:
        return None
    return server_arguments(_arguments(folder)) if own else None


def _arguments(folder: Path) -> list[str]:
    """Return a process's command line; empty where it has ended, or waits for its parent to see that it has."""
    return _read(folder / "cmdline").decode(errors="replace").split("\0")[:-1]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _parent(folder: Path) -> int:
    fields = _read(folder / "stat").rpartition(b")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def server_arguments(command: list[str]) -> list[str] | None:
    """Return what follows `server start` in the command line of an Ottla server, or None for any other process."""
    if not command or not os.path.basename(command[0]).startswith("python"):
        return None
    rest = command[1:]
    while rest and rest[0].startswith("-") and rest[0] != "-m":
        rest = rest[1:]
    name = os.path.basename(rest[0]).removesuffix(".sh") if rest else ""
    match [name, *rest[1:]]:
        case ["-m", "ottla.cli.main", "server", "start", *found] | ["ottla", "server", "start", *found]:
            return found
        case ["-m", "ottla.cli.scripts", script, *found] if (
            os.path.basename(script).removesuffix(".sh") == "kafka-server-start"
        ):
            return found
        case ["kafka-server-start", *found]:
            return found
    return None


def _server_of(pid: int, folder: Path, argv: list[str]) -> RunningServer:
    """Read a server's configuration as it did itself: its file from its own folder, under its own environment."""
    from ottla.cli.local.server_options import start_options
    from ottla.config import BrokerConfig

    pairs = (each.partition("=") for each in _read(folder / "environ").decode(errors="replace").split("\0"))
    try:
        args: Namespace = start_options().parse(argv)
        own = Path(os.readlink(folder / "cwd"))
        text = properties_text(str(own / args.config)) if args.config else ""
        environment = {name: value for name, _, value in pairs if name}
        config = BrokerConfig.load(text, environment=environment, overrides=args.override)
    except (OSError, OttlaError, UsageError):
        return RunningServer(pid, None)
    return RunningServer(pid, config, args.shards, own)
