"""A network of one's own for each node, so that single directions between two of them can be cut.

The process that runs the chaos moves to a private network (and mount table) before anything else; nothing of it is seen on
the machine's own network, and all of it is gone when the last process in it ends. There, every node has a namespace with one
address on a common bridge, kept by a process that waits. What a node sends to another one is cut by giving it a wrong
hardware address for it: packets leave and nobody takes them, without a word, as on a network that is down.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field

__all__ = ["Network", "enter_private_network", "missing"]

CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
SUBNET = "10.213.77"
GATEWAY = f"{SUBNET}.254"
NOBODY = "02:00:00:00:00:99"
BRIDGE = "chaos0"
PROBE_SECONDS_MAX = 20.0


def missing() -> str | None:
    """Return one line that says why there can be no network per node here, or None where there can."""
    if os.getuid():
        return "no network partitions: they need root"
    for tool in ("ip", "unshare", "nsenter"):
        if shutil.which(tool) is None:
            return f"no network partitions: {tool} is not installed"
    script = "ip link add p0 type bridge && ip link add p1 type veth peer name p2 && mount --make-rprivate /"
    found = subprocess.run(
        ["unshare", "-n", "-m", "sh", "-c", script],
        capture_output=True,
        text=True,
        timeout=PROBE_SECONDS_MAX,
        check=False,
    )
    if found.returncode:
        return f"no network partitions: namespaces are not allowed here ({found.stderr.strip().splitlines()[-1]})"
    return None


def enter_private_network() -> None:
    """Move this thread, and what it starts from now on, to a network and mounts of its own; call it before any thread."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET | CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    _run("mount", "--make-rprivate", "/")
    _run("ip", "link", "set", "lo", "up")


@dataclass
class Network:
    """Namespaces for nodes 1 to `nodes`, with what is cut between them."""

    nodes: int
    _keepers: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    _cut: set[tuple[int, int]] = field(default_factory=set)

    def __enter__(self) -> Network:
        _run("ip", "link", "add", BRIDGE, "type", "bridge")
        _run("ip", "addr", "add", f"{GATEWAY}/24", "dev", BRIDGE)
        _run("ip", "link", "set", BRIDGE, "up")
        for node in range(1, self.nodes + 1):
            self._add(node)
        return self

    def _add(self, node: int) -> None:
        wait = "ip link set lo up; echo; exec cat"  # which ends with its input, when this process does
        command = ["unshare", "-n", "sh", "-c", wait]
        keeper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert keeper.stdout is not None
        keeper.stdout.readline()  # it is in its namespace now
        self._keepers[node] = keeper
        _run("ip", "link", "add", f"node{node}", "type", "veth", "peer", "name", "eth0", "netns", str(keeper.pid))
        _run("ip", "link", "set", f"node{node}", "master", BRIDGE, "up")
        self._inside(node, "ip", "addr", "add", f"{self.host(node)}/24", "dev", "eth0")
        self._inside(node, "ip", "link", "set", "eth0", "up")

    def __exit__(self, *error: object) -> None:
        for keeper in self._keepers.values():
            keeper.kill()
            keeper.wait()
        subprocess.run(["ip", "link", "del", BRIDGE], check=False)

    def host(self, node: int) -> str:
        """Return a node's address."""
        return f"{SUBNET}.{node}"

    def within(self, node: int) -> tuple[str, ...]:
        """Return the command that runs another one in a node's namespace, in the same process."""
        return ("nsenter", f"--net=/proc/{self._keepers[node].pid}/ns/net", "--")

    def cut(self, sender: int, receiver: int) -> None:
        """Lose whatever `sender` sends to `receiver`, and nothing else."""
        neighbour = ("ip", "neigh", "replace", self.host(receiver), "lladdr", NOBODY, "dev", "eth0", "nud", "permanent")
        self._inside(sender, *neighbour)
        self._cut.add((sender, receiver))

    def isolate(self, node: int, others: Iterable[int]) -> None:
        """Cut a node off from others, in both directions."""
        for other in others:
            if other != node:
                self.cut(node, other)
                self.cut(other, node)

    def heal(self) -> None:
        """Restore every direction."""
        for sender, receiver in sorted(self._cut):
            self._inside(sender, "ip", "neigh", "del", self.host(receiver), "dev", "eth0")
        self._cut.clear()

    def _inside(self, node: int, *command: str) -> None:
        _run(*self.within(node), *command)


def _run(*command: str) -> None:
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode:
        raise RuntimeError(f"{' '.join(command)}: {found.stderr.strip()}")
