"""A private server for the machine, with the little patience that histories need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from tests.connectors.cdc.replay import logical_server
from tests.fuzz_capture.machine import Side
from tests.fuzz_capture.mariadb import MariaDbSide
from tests.fuzz_capture.postgresql import PostgresSide
from tools.mariadb import CAPTURED, private_server

__all__ = ["running_side"]

DURABLE = ("--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1")
"""A server that is killed has what it has committed, and what it has told."""


@contextmanager
def running_side(name: str) -> Iterator[Side]:
    """Run a private server; raises RuntimeError where none can run here."""
    if name == "mariadb":
        with (
            TemporaryDirectory(prefix="ottla-fuzz-tmp-") as own,
            private_server(
                [*CAPTURED, *DURABLE, f"--tmpdir={own}"]  # in a common one, servers remove each other's tables
            ) as server,
        ):
            yield MariaDbSide(server)
    else:
        with logical_server() as cluster:
            yield PostgresSide(cluster)
