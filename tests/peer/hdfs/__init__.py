"""A real HDFS on loopback: Hadoop's minicluster from Maven, a name node and a data node in one process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.peer.minicluster import MiniCluster

__all__ = ["fetch", "missing", "running_hdfs"]

_CLUSTER = MiniCluster("HDFS", Path(__file__).parent, "MiniHdfs.java", "-Xmx512m", stop_seconds_max=30)
fetch, missing = _CLUSTER.fetch, _CLUSTER.missing


@contextmanager
def running_hdfs(folder: Path) -> Iterator[str]:
    """Run HDFS with its data under a folder until the block ends; yields its address, `hdfs://localhost:PORT`."""
    with _CLUSTER.running(folder) as ready:
        yield ready.split()[1]
