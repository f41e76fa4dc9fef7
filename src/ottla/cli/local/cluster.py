"""A cluster on this machine as a folder keeps it: who its nodes are, where they listen, and what each is configured with.

`DIR/cluster.json` holds what all nodes share; `DIR/I` holds node I: `server.properties`, `data`, `log`, `pid`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ottla.base import OttlaError
from ottla.cli.local.ports import LOOPBACK, why_not_free

__all__ = ["BROKERS_MAX", "CONTROLLERS_MAX", "LocalCluster", "LocalNode", "free_ports"]

CONTROLLERS_MAX = 3
"""How many of the nodes, counted from the first, are controllers too."""
BROKERS_MAX = 100
CLUSTER_FILE = "cluster.json"
PORT_MAX = 65_535


@dataclass(frozen=True)
class LocalNode:
    """One node's folder."""

    id: int
    folder: Path

    @property
    def config(self) -> Path:
        """Its `server.properties`, written anew at each start of the cluster."""
        return self.folder / "server.properties"

    @property
    def pid_file(self) -> Path:
        """Where the number of its process stands; it stays behind when the process ends."""
        return self.folder / "pid"

    @property
    def log(self) -> Path:
        """What the process prints, as text."""
        return self.folder / "log"

    @property
    def data(self) -> Path:
        """Its log directory."""
        return self.folder / "data"


@dataclass(frozen=True)
class LocalCluster:
    """What all nodes of the cluster in a folder share."""

    folder: Path
    cluster_id: str
    port: int
    """Node 1 serves clients here, each further node one above the node before it."""
    brokers: int
    controller_ports: tuple[int, ...]
    """Where nodes 1, 2, … serve the metadata quorum; as many nodes are controllers, and that does not change."""
    overrides: tuple[str, ...] = ()
    hosts: tuple[str, ...] = field(default=())
    """The nodes' addresses, where they are not all on loopback."""

    @classmethod
    def load(cls, folder: Path) -> LocalCluster:
        """Read the folder's cluster; raises OttlaError where there is none."""
        try:
            found = json.loads((folder / CLUSTER_FILE).read_text())
        except FileNotFoundError:
            raise OttlaError(f"{folder} holds no cluster; `ottla cluster start --data {folder}` makes one") from None
        return cls(
            folder=folder,
            cluster_id=found["cluster_id"],
            port=found["port"],
            brokers=found["brokers"],
            controller_ports=tuple(found["controller_ports"]),
            overrides=tuple(found["overrides"]),
            hosts=tuple(found["hosts"]),
        )

    @staticmethod
    def exists(folder: Path) -> bool:
        """True where the folder holds a cluster already."""
        return (folder / CLUSTER_FILE).exists()

    def save(self) -> None:
        """Write the cluster's file and every node's configuration; a crash on the way leaves the old ones."""
        self.folder.mkdir(parents=True, exist_ok=True)
        shared = {name: value for name, value in asdict(self).items() if name != "folder"}
        _replace(self.folder / CLUSTER_FILE, json.dumps(shared, indent=1) + "\n")
        for node in self.nodes:
            node.folder.mkdir(exist_ok=True)
            _replace(node.config, self.properties(node.id))

    @property
    def nodes(self) -> list[LocalNode]:
        """Every node, from 1 on."""
        return [self.node(number) for number in range(1, self.brokers + 1)]

    def node(self, number: int) -> LocalNode:
        """Return one node; raises OttlaError for one that the cluster does not have."""
        if not 1 <= number <= self.brokers:
            raise OttlaError(f"{self.folder} has nodes 1 to {self.brokers}, not {number}")
        return LocalNode(number, (self.folder / str(number)).absolute())

    def address(self, number: int) -> str:
        """Return where a node serves clients, as host:port."""
        return f"{self._host(number)}:{self.port + number - 1}"

    @property
    def bootstrap(self) -> str:
        """Every node's address, with commas between."""
        return ",".join(self.address(node.id) for node in self.nodes)

    def is_controller(self, number: int) -> bool:
        """True for a node that has a vote in the metadata quorum."""
        return number <= len(self.controller_ports)

    def properties(self, number: int) -> str:
        """Return a node's configuration; what the overrides say wins."""
        settings = {
            "node.id": str(number),
            "process.roles": "broker,controller" if self.is_controller(number) else "broker",
            "controller.quorum.voters": ",".join(
                f"{each}@{self._host(each)}:{port}" for each, port in enumerate(self.controller_ports, 1)
            ),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.address(number)}",
            "log.dirs": str(self.node(number).data),
            **_copies(self.brokers),
        }
        if self.is_controller(number):
            at = f"{self._host(number)}:{self.controller_ports[number - 1]}"
            settings["listeners"] += f",CONTROLLER://{at}"
        for override in self.overrides:
            key, _, value = override.partition("=")
            settings[key.strip()] = value
        return "".join(f"{key}={value}\n" for key, value in settings.items())

    def _host(self, number: int) -> str:
        return self.hosts[number - 1] if self.hosts else LOOPBACK


def _copies(brokers: int) -> Mapping[str, str]:
    """Return how many copies there are of what the brokers keep for themselves, and of topics that do not say it.

    With three brokers and more these are Kafka's own defaults, except that topics have three copies without asking.
    """
    factor = str(min(brokers, 3))
    in_sync = "2" if brokers >= CONTROLLERS_MAX else "1"
    return {
        "default.replication.factor": factor,
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": factor,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


def free_ports(count: int, *, port: int) -> tuple[int, ...]:
    """Return ports of loopback that nobody listens on now, from 100 above the cluster's first port on.

    They stay near it, since those that the system hands out may be some connection's own at the next start.
    """
    found: list[int] = []
    for candidate in (*range(port + BROKERS_MAX, PORT_MAX), *range(port - 1, 1024, -1)):
        if len(found) == count:
            break
        if why_not_free(candidate) is None:
            found.append(candidate)
    return tuple(found)


def _replace(path: Path, text: str) -> None:
    from ottla.config import write_whole

    write_whole(path, [text.encode()], mode=0o666)
