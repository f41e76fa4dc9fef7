"""Three nodes of Ottla as processes, with the interface of the peer's: what is told of one can be told of the other."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ottla.cli.main import main
from tests.peer import new_id
from tests.peer.nodes import Nodes, PeerNode, node_properties, started

__all__ = ["running_ottla_nodes"]

AS_KAFKA = ("--feature", "share.version=1", "--feature", "streams.version=1")
"""What Kafka's new folders finalize and ours do not, since nothing serves it; the story is told of one cluster."""


@contextmanager
def running_ottla_nodes(
    folder: Path, ports: Sequence[int], *, overrides: Sequence[str] = (), log_dirs: int = 1, timeout: float = 60
) -> Iterator[Nodes]:
    """Format and run one node per port until the block ends; see `tests.peer.nodes.running_nodes`."""
    cluster = Nodes(new_id())
    for node_id, port in enumerate(ports, start=1):
        home = folder / str(node_id)
        home.mkdir(parents=True)
        settings = home / "server.properties"
        dirs = ",".join(str(home / f"data{number}") for number in range(1, log_dirs + 1))
        settings.write_text(node_properties(node_id, ports, [f"log.dirs={dirs}", *overrides], dynamic=False))
        assert main(["storage", "format", "-t", cluster.cluster_id, "-c", str(settings), *AS_KAFKA]) == 0
        command = [sys.executable, "-m", "ottla.cli.main", "server", "start", str(settings)]
        cluster.nodes[node_id] = PeerNode(node_id, port, home, command)
    with started(cluster, timeout):
        yield cluster
