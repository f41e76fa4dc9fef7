"""A cluster of real processes that can be broken: on loopback, or with a network of its own for each node."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from ottla.cli.local.cluster import LocalCluster
from ottla.cli.local.node_process import POLL_SECONDS, begin, last_line, pid_of, send, state_of
from ottla.cli.local.nodes import prepare, stop_all
from ottla.cli.local.standing import Watchers
from tests.chaos.loads import PARTITIONS
from tests.chaos.network import Network

__all__ = ["World", "running_world", "until"]

NODES = 3
READY_SECONDS_MAX = 60.0
TMPFS_BYTES = 256 << 20
SETTINGS = ("group.initial.rebalance.delay.ms=200",)
"""Everything else is as Kafka has it: what is measured is what an operator gets."""


@dataclass
class World:
    """The nodes, and what can be done to them."""

    cluster: LocalCluster
    network: Network | None
    small_disk: int | None
    """The node whose data lie on a small file system in memory, where there is one."""
    _children: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    _watchers: Watchers | None = None

    @property
    def bootstrap(self) -> str:
        """Every node's address."""
        return self.cluster.bootstrap

    @property
    def nodes(self) -> list[int]:
        """Every node's number."""
        return [node.id for node in self.cluster.nodes]

    # -- doing things to nodes

    def start(self, number: int) -> None:
        """Start a node; does not wait."""
        within = self.network.within(number) if self.network is not None else ()
        self._children[number] = begin(self.cluster.node(number), within=within)

    def kill(self, number: int) -> None:
        """End a node as `kill -9` does."""
        self._children[number].kill()
        self._children[number].wait()

    def stop(self, number: int) -> int:
        """Stop a node cleanly and return its exit code."""
        stop_all([self.cluster.node(number)])
        return self._children[number].wait()

    def pause(self, number: int) -> None:
        """Halt a node."""
        send(self.cluster.node(number), signal.SIGSTOP)

    def resume(self, number: int) -> None:
        """Let a node go on."""
        send(self.cluster.node(number), signal.SIGCONT)

    def runs(self, number: int) -> bool:
        """Return whether a node's process is there, paused or not."""
        child = self._children.get(number)
        return child is not None and child.poll() is None

    def revive(self) -> list[int]:
        """Bring every node back that is halted or has ended; returns those that had to be started."""
        if self.network is not None:
            self.network.heal()
        started = []
        for number in self.nodes:
            pid = pid_of(self.cluster.node(number))
            if not self.runs(number):
                self.start(number)
                started.append(number)
            elif pid is not None and state_of(pid) == "paused":
                self.resume(number)
        return started

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """Fill the small file system for the length of the block."""
        assert self.small_disk is not None
        filler = self.cluster.node(self.small_disk).data / "filler"
        try:
            with filler.open("wb", buffering=0) as file:
                size = 1 << 20
                while size >= 1:
                    try:
                        file.write(b"\0" * size)
                    except OSError:
                        size //= 2
            yield
        finally:
            filler.unlink()

    def close(self) -> None:
        """Stop every node, paused ones too."""
        if self.network is not None:
            self.network.heal()
        stop_all(self.cluster.nodes)
        for child in self._children.values():
            child.wait()
        if self._watchers is not None:
            self._watchers.__exit__()

    # -- asking

    def watchers(self) -> Watchers:
        """Return what asks each node for itself."""
        if self._watchers is None:
            self._watchers = Watchers(self.cluster)
        return self._watchers

    def controller(self) -> int | None:
        """Return the node that leads the metadata quorum."""
        for number in self.nodes:
            if self.runs(number) and (leader := self.watchers().quorum_leader_at(number)) is not None:
                return leader
        return None

    def leader_of(self, topic: str, partition: int = 0) -> int | None:
        """Return the node that leads a partition."""
        found = (
            AdminClient({"bootstrap.servers": self.bootstrap}).list_topics(topic, timeout=30).topics[topic].partitions
        )
        leader: int = found[partition].leader
        return leader if leader > 0 else None

    def await_ready(self, seconds: float = READY_SECONDS_MAX) -> None:
        """Return when every node knows every other as unfenced; raises TimeoutError with what each node says instead."""

        def ready() -> bool:
            return all(self.watchers().unfenced_at(each) >= set(self.nodes) for each in self.nodes)

        if not until(ready, seconds):
            said = {each: sorted(self.watchers().unfenced_at(each)) for each in self.nodes}
            logs = {each: last_line(self.cluster.node(each).log) for each in self.nodes if not said[each]}
            raise TimeoutError(f"not every node is unfenced after {seconds:.0f} s: {said} {logs or ''}")

    def await_full(self, topics: Sequence[str], seconds: float = READY_SECONDS_MAX) -> None:
        """Return when every copy of these topics is in sync again; raises TimeoutError with those that are not."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        behind: list[str] = []

        def full() -> bool:
            found = admin.list_topics(timeout=30).topics
            if not all(topic in found for topic in topics):  # the broker that answered has not heard of it yet
                return False
            partitions = [(topic, each) for topic in topics for each in found[topic].partitions.values()]
            behind[:] = [
                f"{topic}-{each.id}: leader {each.leader}, in sync {each.isrs} of {each.replicas}"
                for topic, each in partitions
                if len(each.isrs) < len(each.replicas) or each.leader < 1
            ]
            return bool(partitions) and not behind

        if not until(full, seconds):
            raise TimeoutError(f"copies are behind after {seconds:.0f} s: {behind[:4]}")

    def create(self, *topics: str) -> None:
        """Create topics of three copies, two of which must be in sync."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        config = {"min.insync.replicas": "2"}
        made = [NewTopic(topic, PARTITIONS, 3, config=config) for topic in topics]
        for future in admin.create_topics(made, operation_timeout=30, request_timeout=60).values():
            future.result()
        self.await_full(topics)


def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Return whether a condition has come true within so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


@contextmanager
def running_world(
    folder: Path,
    port: int,
    *,
    networks: bool = False,
    small_disk: bool = False,
    overrides: Sequence[str] = (),
    kind: type[World] | None = None,
) -> Iterator[World]:
    """Run three nodes until the block ends; then they stop cleanly, and what does not end is killed.

    With `networks` and `small_disk` this process must have called `enter_private_network` before.
    """
    with ExitStack() as stack:
        network = stack.enter_context(Network(NODES)) if networks else None
        hosts = tuple(network.host(each) for each in range(1, NODES + 1)) if network is not None else ()
        small = NODES if small_disk else None
        if small is not None:
            stack.enter_context(_small_file_system(folder / "cluster" / str(small) / "data"))
        settings = [*SETTINGS, *overrides]
        world = (kind or World)(
            prepare(folder / "cluster", brokers=NODES, port=port, overrides=settings, hosts=hosts), network, small
        )
        try:
            for number in world.nodes:
                world.start(number)
            world.await_ready()
            yield world
        finally:
            world.close()


@contextmanager
def _small_file_system(path: Path) -> Iterator[None]:
    path.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={TMPFS_BYTES}", "chaos", str(path)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(path)], check=False)
