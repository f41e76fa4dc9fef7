"""A real YARN on loopback: Hadoop's minicluster from Maven, a resource manager and a node manager in one process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.peer.minicluster import MiniCluster

__all__ = ["fetch", "missing", "running_yarn"]

_CLUSTER = MiniCluster("YARN", Path(__file__).parent, "MiniYarn.java", "-Xmx700m", stop_seconds_max=60)
fetch, missing = _CLUSTER.fetch, _CLUSTER.missing


@contextmanager
def running_yarn(folder: Path) -> Iterator[Path]:
    """Run YARN with its data under a folder until the block ends; yields what HADOOP_CONF_DIR is to be."""
    with _CLUSTER.running(folder):
        yield folder / "conf"
