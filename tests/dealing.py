"""How `make test` deals out its files: each whole, and all that need the Spark session to one process.

What a file shares among its tests is made once. A Spark session costs a JVM of over a gigabyte, and a minute of a processor
until its code is compiled: one process has it, and it begins with it, since this is the longest piece of all.
"""

from __future__ import annotations

from xdist.scheduler.loadfile import LoadFileScheduling

__all__ = ["ByFiles", "piece_of"]

ON_SPARK = (
    "tests/spark/",
    "tests/streams/spark/",
    "tests/examples/test_streams_examples.py",
    "tests/compat/test_registry_sinks.py",
    "tests/compat/test_registry_spark.py",
)
"""Files, or what the names of files begin with, that use the session; `test_dealing.py` keeps this true."""
SPARK = "Spark"


def piece_of(file: str) -> str:
    """Return the name of what is dealt out together with a file."""
    return SPARK if file.startswith(ON_SPARK) else file


class ByFiles(LoadFileScheduling):  # type: ignore[misc]
    """xdist's `--dist loadfile`, but for the files on Spark; the piece with most tests is dealt first."""

    def _split_scope(self, nodeid: str) -> str:
        return piece_of(super()._split_scope(nodeid))
